"""`vrm reference`, run as a user runs it, over stores in memory, with the real model."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from memory.index.embedding import ModelSettings, SentenceTransformerEmbedder
from memory.reference.search import ReferenceStatus, open_references
from policies.embedding_policy import EmbeddingPolicy, embedding_policy
from policies.references.policy import reference_policy
from store.artifacts import ArtifactStore
from store.ledger.memory import MemoryLedger
from store.runtime.memory import MemoryRuntime
from tests.support.reference_samples import make_pdf
from tests.support.stack import Stack, Stores
from tests.support.stack_control import checked
from vrm.cli.app import app
from vrm.cli.connection import Connection, OpenStores
from vrm.references import ReferenceQuestion, consult

CONTEXT = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"


@pytest.fixture
def stack(tmp_path: Path) -> Stack:
    return Stack(Stores(MemoryLedger(), MemoryRuntime(), ArtifactStore(str(tmp_path / "artifacts"))), "demo")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "in"
    made.mkdir()
    (made / "ridge.md").write_text("# Ridge\n\nAn L2 penalty shrinks coefficients.\n", encoding="utf-8")
    (made / "scale.py").write_text("# SPDX-License-Identifier: MIT\ndef standardise(x): ...\n", encoding="utf-8")
    (made / "paper.pdf").write_bytes(make_pdf("Random forests average decision trees"))
    return made


def run(stack: Stack, *arguments: str, code: int = 0, acts: bool = True) -> str:
    """Run a command; one that only looks must ask for no owner."""

    @contextmanager
    def opened() -> Iterator[OpenStores]:
        yield stack.stores

    def never(_stores: OpenStores) -> Any:
        raise AssertionError("nobody who writes may be looked for")

    joined = Connection(
        opened,
        list,
        (lambda _stores: stack.coordinator) if acts else never,
        (lambda _stores: stack.owner) if acts else never,
    )
    shown = {"COLUMNS": "240", "NO_COLOR": "1"}
    result = CliRunner().invoke(app, ["reference", *arguments], obj=joined, env=shown)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    assert result.exit_code == code, result.output
    return result.stdout if code < 2 or "--json" in arguments else result.stderr


def told(stack: Stack, *arguments: str, code: int = 0, acts: bool = True) -> Any:
    return json.loads(run(stack, *arguments, "--json", code=code, acts=acts))


def test_a_folder_is_added_listed_shown_searched_and_frozen(stack: Stack, folder: Path) -> None:
    first = told(stack, "add", str(folder), "--version", "2", "--retrieved", "2026-05-01")
    assert (first["added"], first["replayed"], first["refused"]) == (3, 0, 0)
    assert {Path(each["path"]).name: each["licence_text"] for each in first["sources"]} == {
        "ridge.md": "unknown", "scale.py": "MIT (stated)", "paper.pdf": "unknown",
    }  # fmt: skip
    again = told(stack, "add", str(folder), "--version", "2", "--retrieved", "2026-05-02")
    assert (again["added"], again["replayed"], again["index"]) == (0, 3, first["index"])
    listed = told(stack, "list", acts=False)
    assert {(each["title"], each["source_kind"], each["retrieved_at"][:10]) for each in listed} == {
        ("ridge.md", "tool", "2026-05-01"), ("scale.py", "code", "2026-05-01"), ("paper.pdf", "paper", "2026-05-01"),
    }  # fmt: skip
    text = run(stack, "list", acts=False)
    assert all(word in text for word in ("licence", "unknown", "MIT (stated)", "paper.pdf"))
    (ridge,) = (each["source"] for each in listed if each["title"] == "ridge.md")
    shown = told(stack, "show", ridge[:30], acts=False)
    assert [part["quotation"] for part in shown["parts"]] == ["# Ridge\n\nAn L2 penalty shrinks coefficients."]
    assert '"# Ridge\\n\\nAn L2 penalty' in run(stack, "show", ridge, acts=False)
    hits = told(stack, "search", "trees of a forest", "--kind", "paper", acts=False)
    assert [(hit["facts"]["title"], hit["unit"], hit["unit_number"]) for hit in hits["hits"]] == [
        ("paper.pdf", "page", 1)
    ]
    assert hits["index"] == first["index"]
    assert "licence unknown" in run(stack, "search", "trees of a forest", "--limit", "1", acts=False)
    frozen = told(stack, "context", "penalty", "--research-context", CONTEXT, "--point", "ideation")
    assert frozen["research_context_digest"] == CONTEXT
    assert frozen["rendered"].startswith("<reference-context>")
    assert told(stack, "show", frozen["context"], acts=False) == frozen
    assert frozen["rendered"] in run(stack, "show", frozen["context"], acts=False)
    assert f"Kept as {frozen['context']}" in run(stack, "context", "penalty", "--research-context", CONTEXT)
    assert checked(stack).clean


def test_one_refused_file_is_an_error_and_one_of_several_is_told(stack: Stack, folder: Path) -> None:
    empty = folder / "empty.txt"
    empty.touch()
    error = told(stack, "add", str(empty), code=2)
    assert (error["error"], error["remedy"]) == ("InvalidSourceError", "Give a file that holds something.")
    assert run(stack, "add", str(empty), code=2).startswith("InvalidSourceError: ")
    assert stack.position() == 0
    found = told(stack, "add", str(folder), code=1)
    assert (found["added"], found["refused"]) == (3, 1)
    (refused,) = (each for each in found["sources"] if each["addition"] == "refused")
    assert refused["error"]["error"] == "InvalidSourceError"
    assert "Give a file that holds something." in run(stack, "add", str(folder), code=1)


@pytest.mark.parametrize(
    ("arguments", "error", "field"),
    [
        (("add", "no-such-file"), "InvalidSourceError", "no-such-file"),
        (("add", "pyproject.toml", "--kind", "poem"), "InvalidInputError", "--kind"),
        (("add", "pyproject.toml", "--retrieved", "soon"), "InvalidInputError", "--retrieved"),
        (("add", "pyproject.toml", "--namespace", "Not A Name"), "InvalidInputError", "namespace"),
        (("add", "pyproject.toml", "--namespace", "legacy_unscoped"), "InvalidInputError", "namespace"),
        (("add", "pyproject.toml", "README.md", "--title", "both"), "InvalidInputError", "--title"),
        (("search", "words"), "NotFoundError", "reference sources"),
        (("search", "words", "--kind", "poem"), "InvalidInputError", "--kind"),
        (("show", "reference-source:0"), "NotFoundError", "id"),
        (("context", "words", "--research-context", CONTEXT), "NotFoundError", "reference sources"),
    ],
)
def test_bad_input_is_a_typed_error_and_writes_nothing(
    stack: Stack, arguments: tuple[str, ...], error: str, field: str
) -> None:
    found = told(stack, *arguments, code=2)
    assert (found["error"], found["field"]) == (error, field)
    assert stack.position() == 0


def test_a_context_for_another_decision_or_without_a_digest_is_refused(stack: Stack, folder: Path) -> None:
    told(stack, "add", str(folder))
    before = stack.position()
    for more, field in (
        (("--research-context", CONTEXT, "--point", "intervention"), "decision_point"),
        (("--research-context", CONTEXT, "--point", "lunch"), "decision_point"),
        (("--research-context", "short"), "ReferenceContext.research_context_digest"),
        (("--research-context", CONTEXT, "--budget", "9999"), "token budget"),
    ):
        assert told(stack, "context", "penalty", *more, code=2)["field"] == field
    assert stack.position() == before


def test_another_namespace_is_not_shown(stack: Stack, folder: Path) -> None:
    told(stack, "add", str(folder))
    (source, *_) = told(stack, "list", acts=False)
    assert told(stack, "show", source["source"], "--namespace", "other", code=2, acts=False)["error"] == "NotFoundError"
    assert told(stack, "list", "--namespace", "other", acts=False) == []
    assert "vrm reference add" in run(stack, "list", "--namespace", "other", acts=False)


def test_from_python_it_is_a_section_and_nothing_is_written(stack: Stack, folder: Path) -> None:
    told(stack, "add", str(folder))
    before, model = stack.state(), SentenceTransformerEmbedder()
    stores = stack.stores
    answer = consult(stores.ledger, stores.artifacts, "demo", model, ReferenceQuestion(text="an L2 penalty"))
    assert answer.quotes[0].card.facts.title == "ridge.md"
    assert "An L2 penalty shrinks coefficients." in answer.rendered
    assert 0 < answer.tokens <= 1500
    assert answer.context_id.startswith("reference-context:")
    assert stack.state() == before


FAR = "what does grandmother put into her apple cake"


def test_nothing_near_is_an_explicit_nothing(stack: Stack, folder: Path) -> None:
    """The least far away is no answer, in no way of asking."""
    told(stack, "add", str(folder))
    found = told(stack, "search", FAR, acts=False)
    assert (found["status"], found["hits"]) == ("empty", [])
    assert "Nothing that counts is near enough" in run(stack, "search", FAR, acts=False)
    assert told(stack, "search", "trees of a forest", acts=False)["status"] == "found"
    stores, model = stack.stores, SentenceTransformerEmbedder()
    answer = consult(stores.ledger, stores.artifacts, "demo", model, ReferenceQuestion(text=FAR))
    assert (answer.status, answer.quotes) == (ReferenceStatus.EMPTY, ())
    assert "references: 0." in answer.rendered
    frozen = told(stack, "context", FAR, "--research-context", CONTEXT)
    assert frozen["cards"] == []
    assert "references: 0." in frozen["rendered"]
    assert checked(stack).clean


def test_a_chunk_that_holds_the_words_is_found_whatever_it_means(stack: Stack, tmp_path: Path) -> None:
    path = tmp_path / "codes.txt"
    path.write_text("zxq-4411 qqv-9 wvu-77 hjk-02 and much that means nothing to any model", encoding="utf-8")
    told(stack, "add", str(path))
    assert [hit["facts"]["title"] for hit in told(stack, "search", "zxq-4411 qqv-9")["hits"]] == ["codes.txt"]
    assert told(stack, "search", f"zxq-4411 {FAR}")["status"] == "empty"


def test_every_command_uses_the_model_of_the_embedding_policy(
    stack: Stack, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    policy = embedding_policy().as_json() | {"version": "2", "query_prompt": "query: ", "passage_prompt": "passage: "}
    file = tmp_path / "embedding.yaml"
    file.write_text(json.dumps(policy), encoding="utf-8")
    own = SentenceTransformerEmbedder(ModelSettings.of(EmbeddingPolicy.build(**policy)))
    monkeypatch.setenv("VRM_EMBEDDING_POLICY", str(file))
    told(stack, "add", str(folder))
    stores = stack.stores
    for model, is_recorded in ((own, True), (SentenceTransformerEmbedder(), False)):
        found = open_references(stores.ledger, stores.artifacts, "demo", model, reference_policy())
        assert found.is_recorded is is_recorded
    assert told(stack, "search", "an L2 penalty", acts=False)["index"]["recorded"]
