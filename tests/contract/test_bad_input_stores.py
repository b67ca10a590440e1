"""Bad input at the stores, on both adapters: questions that no text answers, and appends between good neighbours."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

import pytest

from memory.coordinator import CommitCoordinator
from memory.fsck import fsck
from records.appends import Append, AppendReceipt
from records.base import Record
from records.errors import InvalidInputError, VrmError
from records.flows import Authority, Transition
from store.artifacts import ArtifactStore
from store.ledger.port import LedgerStore
from store.runtime.memory import MemoryRuntime
from tests.support.bad_input import HUGE, forged
from tests.support.stores import evidence_append, fresh_namespace
from tests.support.trials import digest, make_evidence

BAD: Final = {"NUL": "a\0b", "lone surrogate": "a\ud800b", "not NFC": "e\u0301", "huge": HUGE[:1_000_000], "empty": ""}
QUESTIONS: Final[dict[str, Callable[[LedgerStore, str], Any]]] = {
    "get": lambda store, text: store.get(text),
    "get of a noun": lambda store, text: store.get(f"attempt:{text}"),
    "get_many": lambda store, text: store.get_many([text, f"attempt:{text}"]),
    "find": lambda store, text: store.find("attempt", text),
    "find by a column": lambda store, text: store.find("attempt", "test", corpus=text),
    "find by many": lambda store, text: store.find("attempt", "test", corpus=[text]),
    "namespace_head": lambda store, text: store.namespace_head(text).position or None,
    "variant_heads": lambda store, text: store.variant_heads(text),
    "variant_heads of one": lambda store, text: store.variant_heads("test", [text]),
    "receipt": lambda store, text: store.receipt("test", text),
    "receipts": lambda store, text: store.receipts(text, [text]),
    "journal": lambda store, text: store.journal(text),
    "resolve": lambda store, text: store.resolve(text),
}


@pytest.mark.parametrize("fault", BAD)
def test_a_question_about_what_cannot_be_stored_finds_nothing_or_is_refused(ledger: LedgerStore, fault: str) -> None:
    for name, ask in QUESTIONS.items():
        try:
            found = ask(ledger, BAD[fault])
        except InvalidInputError as error:
            assert len(str(error)) < 1_000  # noqa: PT017  # to refuse is one of two right answers
            str(error).encode()
        else:
            assert not found, name


def forgeries(namespace: str) -> dict[str, Append]:
    """Return appends whose records no constructor has checked, or whose envelope is wrong."""
    records = make_evidence(namespace, seed=7)

    def one(record: Record, field: str, *, bad: object) -> Append:
        changed = [forged(each, (field,), bad) if each is record else each for each in records]
        return direct(namespace, *changed)

    hypothesis, attempt = records[1], records[2]
    return {
        "NaN": one(attempt, "seed", bad=math.nan),
        "boolean": one(attempt, "seed", bad=True),
        "negative": one(attempt, "iteration", bad=-1),
        "NUL": one(hypothesis, "statement", bad="a\0b"),
        "lone surrogate": one(hypothesis, "statement", bad="a\ud800b"),
        "huge": one(hypothesis, "statement", bad=HUGE),
        "digest in upper case": one(attempt, "config_digest", bad="AB" * 32),
        "no zone": one(attempt, "created_at", bad="2025-03-01T12:00:00.000000"),
        "id of another noun": one(attempt, "hypothesis_id", bad=f"attempt:{'0' * 64}"),
        "foreign namespace": direct(namespace, *make_evidence("elsewhere")),
        "permit of two words": direct(namespace, *records, permit_key="two words"),
        "permit with NUL": direct(namespace, *records, permit_key="a\0"),
    }


def direct(namespace: str, *records: Record, **changes: Any) -> Append:
    fields = {"namespace": namespace, "transition": Transition.APPEND_EVIDENCE, "authority": Authority.DIRECT,
              "permit_key": "bad", "permit_digest": digest("bad"), "records": records}  # fmt: skip
    return Append(**(fields | changes))


def test_bad_appends_write_nothing_and_do_not_disturb_their_neighbours(ledger: LedgerStore) -> None:
    namespace = fresh_namespace()
    coordinator = CommitCoordinator(ledger, MemoryRuntime(), ArtifactStore(f"memory://{namespace}"), "test")
    bad = forgeries(namespace)
    good = [evidence_append(make_evidence(namespace, seed=seed), f"good-{seed}") for seed in (1, 2)]
    answers = coordinator.append_direct([good[0], *bad.values(), good[1]])
    assert isinstance(answers[0], AppendReceipt)
    assert isinstance(answers[-1], AppendReceipt)
    for name, answer in zip(bad, answers[1:-1], strict=True):
        assert isinstance(answer, VrmError), name
        assert len(str(answer)) < 1_000, name
    assert {row.permit_key for row in ledger.journal(namespace)} == {"good-1", "good-2"}
    assert ledger.receipts(namespace, ["bad"]) == {}
    with ledger.reading() as reader:
        report = fsck(reader, None, None)
    assert report.clean, report.text()
