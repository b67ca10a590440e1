"""What outsiders may import, and what the command line offers: small, explicit, and named in the README."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

import vrm
from vrm.cli.app import app

ROOT = Path(__file__).resolve().parent.parent.parent
COMMANDS = ("up", "down", "run", "import", "distil", "knowledge", "recall", "status", "fsck", "gc", "recover", "erase",
            "migrate", "bench", "simulate", "chaos", "runs", "procedures", "evaluate", "audit", "trace",
            "metrics", "reference", "lineage", "claims")  # fmt: skip
GROUPS = {
    "knowledge": ("list", "show", "history", "why-not", "plot"),
    "distil": ("", "status", "dead-letters", "retry"),
    "procedures": ("list", "show", "trial", "compile", "execute"),
    "evaluate": ("writer", "retrieval", "ideation", "shadow"),
    "audit": ("keeps", "artifacts", "claims"),
    "runs": ("list", "show", "pause", "resume", "cancel", "fail", "budget"),
    "reference": ("add", "list", "show", "search", "context"),
    "lineage": ("add", "report-rerun", "promote", "why-not", "search", "working-context", "context", "prompt"),
    "claims": ("add", "list", "show", "check", "promote", "contest", "resolve", "withdraw", "search", "receipt"),
    "bench": ("ledger", "recall", "protocol", "distil", "claims"),
    "import": ("table", "node-report", "ai-researcher", "phase3"),
}


def test_every_exported_name_is_there_and_none_other() -> None:
    assert vrm.__all__ == sorted(vrm.__all__)
    assert vrm.__all__ == [
        "Answer", "ClaimAnswer", "ClaimQuestion", "LineageQuestion", "Memory", "PaperQuestion", "Question",
        "ReferenceAnswer", "ReferenceQuestion", "VrmError", "WorkingQuestion", "connect",
    ]  # fmt: skip
    for name in vrm.__all__:
        assert getattr(vrm, name).__doc__
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = vrm.nothing


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_with_an_example_and_json(command: str) -> None:
    shown = CliRunner().invoke(app, [command, "--help"])
    assert shown.exit_code == 0
    for part in GROUPS.get(command, ("",)):
        text = CliRunner().invoke(app, [command, *part.split(), "--help"]).output
        assert "--json" in text
        assert re.search(rf"vrm {command} ?{part}", text), text


def test_the_readme_names_commands_that_exist() -> None:
    named = set(re.findall(r"vrm ([a-z]+)", (ROOT / "README.md").read_text(encoding="utf-8")))
    assert named <= {*COMMANDS, "turns", "runs"}, named


def _told_commands() -> list[str]:
    """Return the lines of the README's blocks that call the program, without their comments."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    lines = re.findall(r"^\.venv/bin/vrm (.+?)(?:\s+#.*)?$", text.replace("\\\n", ""), re.MULTILINE)
    assert len(lines) > 20, "the README shows the commands"
    return [re.sub(r"\s+", " ", line).strip() for line in lines]


@pytest.mark.parametrize("line", _told_commands())
def test_every_line_of_the_readme_is_a_command_with_these_options(line: str) -> None:
    words = line.split()
    parts = words[
        : next((at for at, word in enumerate(words) if not re.fullmatch(r"[a-z-]+", word) or word[0] == "-"), None)
    ]
    shown = CliRunner().invoke(app, [*parts, "--help"], env={"COLUMNS": "200"})
    assert shown.exit_code == 0, shown.output
    for option in (word for word in words if word.startswith("-")):
        assert re.search(rf"{option}\b", shown.output), (option, parts)
