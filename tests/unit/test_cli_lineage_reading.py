"""`vrm lineage` and `vrm audit claims` where they read, run as a user runs them, over stores in memory."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from memory.lineage.context_file import FILE_NAME
from store.artifacts import ArtifactStore
from store.ledger.memory import MemoryLedger
from store.runtime.memory import MemoryRuntime
from tests.support.lineage_papers import connected, searched
from tests.support.stack import Stack, Stores
from vrm.cli.app import app


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> tuple[Stack, Path, str]:
    """A search that was run and imported: the stack, the root of all trees, the checkpoint."""
    folder = tmp_path_factory.mktemp("lineage")
    stores = Stores(MemoryLedger(), MemoryRuntime(), ArtifactStore(str(folder / "artifacts")))
    stack = Stack(stores, "demo")
    return stack, folder / "trees", searched(stack, folder / "trees")


def run(world: tuple[Stack, Path, str], *arguments: str, code: int = 0, **environment: str) -> str:
    """Run a command that only looks, and return what it prints."""
    shown = {"COLUMNS": "200", "NO_COLOR": "1", **environment}
    result = CliRunner().invoke(app, [*arguments, "--namespace", "demo"], obj=connected(world[0]), env=shown)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    assert result.exit_code == code, result.output
    return result.stdout if code < 2 else result.stderr


def test_a_node_finds_what_its_ancestors_wrote(world: tuple[Stack, Path, str]) -> None:
    text = run(world, "lineage", "search", "node_scaled_c", "one scale", "--kind", "reflection")
    assert "1 of 1 entries of 2 ancestors" in text
    assert "bring the features to one scale" in text
    assert "bm25+cosine/reciprocal-rank-60, root-to-parent/1" in text
    assert "3 of 3 entries" in run(world, "lineage", "search", "node_new", "--parent", "node_scaled")
    found = json.loads(run(world, "lineage", "search", "node_scaled_c", "--artifact-backed", "--json"))
    assert [each["node_id"] for each in found["entries"]] == ["node_root", "node_scaled"]
    assert found["provenance"]["deterministic"] is True


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("lineage", "search", "nobody"), "NotFoundError: node"),
        (("lineage", "search", "node_root", "x", "--kind", "reproducibility_event"), "--kind"),
        (("lineage", "search", "node_root", " "), "Say what to look for"),
        (("lineage", "search", "node_root", "--checkpoint", "elsewhere"), "Checkpoints here: demo_0"),
        (("lineage", "working-context", "node_scaled", "--budget", "5"), "give more tokens"),
        (("lineage", "working-context", "node_scaled", "--metric", "loss"), "minimize or maximize"),
        (("lineage", "prompt", "--root", "nowhere"), "UnavailableError: root"),
        (("lineage", "prompt", "--best", "nobody"), "Nodes of demo_0"),
        (("audit", "claims", "paper.docx"), "Give .md, .txt or .tex"),
        (("audit", "claims", "missing.md"), "Name a file that can be read"),
        (("audit", "claims", "missing.md", "--alias", "accuracy"), "name=value"),
        (("audit", "claims", "missing.md", "--context", "x.json", "--best", "n"), "has its best node already"),
    ],
)
def test_what_cannot_be_answered_names_field_value_and_remedy(
    world: tuple[Stack, Path, str], arguments: tuple[str, ...], words: str
) -> None:
    assert words in run(world, *arguments, code=2)


def test_what_a_node_begins_with_is_printed_as_it_is(world: tuple[Stack, Path, str]) -> None:
    text = run(world, "lineage", "working-context", "node_scaled_c", "--goal", "separate cultivars")
    assert text.startswith("<working-context>\n")
    assert 'goal: "separate cultivars"' in text
    assert text.index("node node_root") < text.index("node node_scaled")
    told = json.loads(run(world, "lineage", "working-context", "node_scaled_c", "--json"))
    assert told["ancestors"] == ["node_root", "node_scaled"]


@pytest.mark.parametrize("word", ["0", "false", "No", "OFF"])
def test_with_the_gate_off_nothing_is_built_and_nothing_touched(
    world: tuple[Stack, Path, str], tmp_path: Path, word: str
) -> None:
    (tmp_path / FILE_NAME).write_text("kept", encoding="utf-8")
    arguments = ("lineage", "context", "--root", str(world[1]), "--out", str(tmp_path))
    assert "VRM_LINEAGE_CONSOLIDATE is off" in run(world, *arguments, VRM_LINEAGE_CONSOLIDATE=word)
    assert (tmp_path / FILE_NAME).read_text(encoding="utf-8") == "kept"
    assert "Say one of" in run(world, *arguments, code=2, VRM_LINEAGE_CONSOLIDATE="maybe")


def test_a_context_is_written_and_says_how_the_best_node_was_chosen(
    world: tuple[Stack, Path, str], tmp_path: Path
) -> None:
    arguments = ("lineage", "context", "--root", str(world[1]), "--out", str(tmp_path / "paper"))
    text = run(world, *arguments)
    assert "Written." in text
    assert "by the declared metric" in text
    assert "claims may be used" in text
    assert "Nothing changed." in run(world, *arguments)
    assert "as it was named" in run(world, *arguments, "--best", "node_root")
    document = json.loads((tmp_path / "paper" / FILE_NAME).read_bytes())
    assert document["lineage"] == ["node_root"]
    metric = ("--metric", "latency", "--direction", "minimize")
    assert "Metrics here: balanced_accuracy" in run(world, *arguments, *metric, code=2)
    assert json.loads((tmp_path / "paper" / FILE_NAME).read_bytes()) == document, (
        "a question that is wrong changes nothing"
    )


def test_a_paper_is_told_number_by_number(world: tuple[Stack, Path, str], tmp_path: Path) -> None:
    paper = tmp_path / "paper.md"
    paper.write_text("Balanced accuracy is 0.123 with 5 seeds. <!-- vrm:setting -->\n", encoding="utf-8")
    text = run(world, "audit", "claims", str(paper), "--root", str(world[1]), code=1)
    assert "1:22" in text
    assert "contradicted" in text
    assert "0 matched, 1 contradicted, 0 ungrounded of 1 stated; 1 settings apart." in text
    assert "Coverage: 0/1." in text
    paper.write_text("It just works.\n", encoding="utf-8")
    assert "Coverage: none stated." in run(world, "audit", "claims", str(paper), "--root", str(world[1]))
    (tmp_path / FILE_NAME).write_text('{"claims":[]}', encoding="utf-8")
    refused = run(world, "audit", "claims", str(paper), "--context", str(tmp_path / FILE_NAME), code=2)
    assert "InvalidSourceError" in refused
    assert "vrm lineage context" in refused
