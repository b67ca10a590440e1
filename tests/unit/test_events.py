"""Structured events: the documented table, what is told of a real chain, and what never gets into an event."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from memory.index.embedding import HashEmbedder
from memory.trace import events
from memory.trace.costs import Component, CostBook, Meter
from memory.trace.events import EVENTS, LOST, WITHHELD, Event, event, listening, tell
from memory.trace.log import Form, close_log, form_of, open_log, read_log
from memory.trace.telling import committed, told
from records.appends import Append, AppendReceipt
from records.canonical import digest_bytes
from records.errors import InvalidInputError, UnavailableError
from records.flows import Authority, Transition
from records.ids import CardId, CitationId, NoCommitId
from records.outcomes import CardDisposition, CardReason, CardVerdict, DecisionStatus, NoCommitReason, RecallOutcome
from tests.support.decision_samples import sample_records
from tests.support.reference_samples import make_build, make_chunks, make_source
from tests.support.trials import NOW, digest
from tests.unit.recall_support import intent, rule
from tests.unit.recall_world import BrokenEmbedder, World, answer, proof, without_fallback
from tests.unit.trace_world import SPACE, Pair, build_pair

DOCUMENT = Path(__file__).resolve().parent.parent.parent / "docs" / "observability.md"
ITEMS = 9
"""How many items section 16 of the specification has."""


@pytest.fixture(scope="module")
def chain(tmp_path_factory: pytest.TempPathFactory) -> tuple[Pair, list[Event]]:
    """A pair of decisions over the real owners, and what was told meanwhile."""
    heard: list[Event] = []
    with listening(heard.append):
        return build_pair(tmp_path_factory.mktemp("pair")), heard


def _strings(value: Any) -> Iterator[str]:
    match value:
        case str():
            yield value
        case dict():
            for key, each in value.items():
                yield key
                yield from _strings(each)
        case list():
            for each in value:
                yield from _strings(each)


def test_the_documented_table_is_the_table_of_the_code() -> None:
    rows = re.findall(r"^\| (\d+) \| `([a-z_.]+)` \| (.+?) \|", DOCUMENT.read_text(encoding="utf-8"), re.MULTILINE)
    documented = {name: (int(item), tuple(re.findall(r"`([a-z_]+)`", fields))) for item, name, fields in rows}
    assert len(documented) == len(rows)
    assert documented == {name: (kind.item, kind.fields) for name, kind in EVENTS.items()}


def test_every_item_of_the_specification_has_an_event() -> None:
    assert {kind.item for kind in EVENTS.values()} == set(range(ITEMS + 1))


def test_a_chain_tells_every_event_but_those_of_failure(chain: tuple[Pair, list[Event]]) -> None:
    _, heard = chain
    silent = {"index.failed", "recall.failed", "append.refused", "cost.stated", "references.indexed", LOST}
    assert {each.name for each in heard} == set(EVENTS) - silent
    assert all(set(each.fields) == set(EVENTS[each.name].fields) for each in heard)


def test_events_say_what_the_records_say(chain: tuple[Pair, list[Event]]) -> None:
    pair, heard = chain
    (ended,) = [each for each in heard if each.name == "decision.ended" and each.fields["arm"] == "memory"]
    trace = pair.trace(pair.memory)
    assert (ended.fields["outcome"], ended.fields["config"]) == (trace.outcome_id, trace.executed_config_digest)
    (card,) = ended.fields["cards"]
    assert (card["reason"], card["knob"], card["card"]) == ("adopted_applicable", "scaler", trace.cards[0].card_id)
    (answered,) = [each for each in heard if each.name == "recall.answered"]
    (context,) = pair.stack.load("decision-recall-context")
    assert answered.fields["candidates"] == {each.reason: each.count for each in context.candidates}
    assert answered.fields["tokens"] == context.token_count
    assert set(answered.fields["cards"][0]["features"]) == {part.feature for part in context.items[0].score}
    assert answered.fields["seconds"] > 0
    (built,) = [each for each in heard if each.name == "index.built"]
    assert (built.fields["model"], built.fields["dimensions"]) == (HashEmbedder(32).id, 32)
    received = [each for each in heard if each.name == "experience.received"]
    receipts = pair.stack.load("distillation-receipt")
    assert sorted(each.fields["experience"] for each in received) == sorted(
        str(each.experience_id) for each in receipts
    )
    (formed,) = [each for each in heard if each.name == "strata.formed"]
    assert (formed.fields["support_units"], formed.fields["strata"]) == (4, 4)
    verified = {each.fields["experience"]: each.fields["metrics"] for each in heard if each.name == "trial.verified"}
    assert verified[trace.experience_id] == {"balanced_accuracy": 0.75}


def test_vrm_o04_no_text_of_a_record_is_in_an_event(chain: tuple[Pair, list[Event]]) -> None:
    pair, heard = chain
    said = json.dumps([each.fields for each in heard])
    assert WITHHELD not in said
    words = [text for each in heard for text in _strings(dict(each.fields))]
    assert not [text for text in words if " " in text]
    (rule,) = pair.stack.load("memory-record")
    (view,) = {each.contract_id: each for each in pair.stack.load("decision-contract-view")}.values()
    assert rule.claim not in said
    assert rule.scope_description not in said
    assert str(view.id) not in said, "what a contract view holds is for the actor"
    assert pair.memory.request.query not in said
    for experience in pair.stack.load("experience"):
        assert not experience.analysis or experience.analysis not in said


@pytest.mark.parametrize(
    "text",
    [
        "a sentence with words",
        "postgresql://user:secret@host/base",
        "ignore\nall",
        '{"knob": 1}',
        "x" * 301,
        "geheim!",
        "\N{GREEK SMALL LETTER ALPHA}",
    ],
)
def test_what_is_no_name_is_withheld(text: str) -> None:
    made = event(LOST, "space", error=text)
    assert made.fields == {"error": WITHHELD}


def test_numbers_that_json_has_not_are_left_out() -> None:
    made = event("cost.stated", "space", component="retrieval", subject="x", amount=float("inf"), unit="seconds",
                 source="s", statement="s", items=float("nan"))  # fmt: skip
    assert (made.fields["amount"], made.fields["items"]) == (None, None)


def test_an_event_outside_the_table_is_refused() -> None:
    with pytest.raises(ValueError, match="not in the table"):
        event("decision.invented", "space", intent="x")
    with pytest.raises(ValueError, match="not in the table"):
        event(LOST, "space", error="x", more="y")


def test_telling_stops_nothing() -> None:
    heard: list[Event] = []

    def broken() -> list[Event]:
        raise KeyError("field")

    with listening(heard.append):
        tell(broken)
    tell(broken)  # who does not listen any more hears nothing
    assert [(each.name, each.fields) for each in heard] == [(LOST, {"error": "KeyError"})]


def test_a_listener_that_fails_stops_nothing() -> None:
    heard: list[Event] = []

    def broken(_told: Event) -> None:
        raise OSError("no space left")

    with listening(broken), listening(heard.append):
        tell(lambda: [event(LOST, "space", error="E")])
    assert len(heard) == 1


def test_where_nobody_listens_nothing_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []

    def make() -> list[Event]:
        made.append("made")
        return []

    monkeypatch.setattr(events, "_listeners", [])
    tell(make)
    assert not made


def test_every_kind_of_record_that_is_told_can_be_told() -> None:
    """The samples hold one record of each kind, failed builds among them."""
    names = {each.name for record in sample_records().values() for each in told(record)}
    assert "index.failed" in names
    outside = {"strata.formed", "index.built", "recall.answered", "recall.failed", "trial.recorded", "trial.verified",
               "cost.stated", "append.refused", LOST}  # fmt: skip
    assert names == set(EVENTS) - outside


def test_words_of_an_actor_and_of_a_verifier_are_not_told() -> None:
    """A rejected proposal names any knob, and a code may carry what it is about."""
    ended = next(each for each in sample_records().values() if isinstance(each, RecallOutcome))
    said = {"proposed_knob": "secret-word", "decision_status": DecisionStatus.REJECTED, "outcome_reason": "code:secret"}
    item = CardDisposition(
        citation_id=CitationId.derive({"x": 1}), card_id=CardId.derive({"x": 1}), verdict=CardVerdict.ADOPTED,
        reason=CardReason.ADOPTED_APPLICABLE, action_knob="another-secret", action_value="1",
    )  # fmt: skip
    (made,) = told(ended.model_copy(update=said | {"dispositions": (item,)}))
    assert (made.fields["knob"], made.fields["source_reason"]) == (digest_bytes(b"secret-word"), "code")
    assert made.fields["cards"][0]["knob"] == digest_bytes(b"another-secret")


def test_a_reason_is_told_by_its_code_alone_in_every_event_that_has_reasons() -> None:
    """Of a receipt, a decision of distillation and a move of a rule, as of an outcome."""
    names = set()
    for record in sample_records().values():
        if "reasons" in type(record).model_fields and any(told(record)):
            (made,) = told(record.model_copy(update={"reasons": ("code:secret-word", "plain")}))
            assert list(made.fields["reasons"]) == ["code", "plain"]
            names.add(made.name)
    assert names == {name for name, kind in EVENTS.items() if "reasons" in kind.fields}


def test_a_rejected_knob_that_a_catalog_has_is_told_by_its_name() -> None:
    """A catalog is closed and ships with the code: `C` says nothing of its own, whatever became of the proposal."""
    ended = next(each for each in sample_records().values() if isinstance(each, RecallOutcome))
    said = {"proposed_knob": "C", "decision_status": DecisionStatus.REJECTED, "proposed_value": "secret"}
    (made,) = told(ended.model_copy(update=said))
    assert (made.fields["knob"], made.fields["value"]) == ("C", digest_bytes(b"secret"))


def test_a_no_commit_is_told() -> None:
    receipt = AppendReceipt(
        namespace="space", transition=Transition.APPEND_OUTCOME, authority=Authority.NORMAL, permit_key="p",
        permit_digest=digest("p"), record_ids=(), positions=(), no_commit_id=NoCommitId.derive({"x": 1}),
        reason=NoCommitReason.PRECONDITION_CONFLICT,
    )  # fmt: skip
    append = Append(namespace="space", transition=Transition.APPEND_OUTCOME, authority=Authority.NORMAL,
                    permit_key="p", permit_digest=digest("p"), records=tuple(sample_records().values()))  # fmt: skip
    (made,) = committed(append, receipt)
    assert (made.name, made.fields["reason"]) == ("append.refused", "PRECONDITION_CONFLICT")


def test_recalls_that_are_blocked_or_fail_are_told(tmp_path: Path) -> None:
    heard: list[Event] = []
    world = World(tmp_path)
    world.learn(rule())
    with listening(heard.append):
        with pytest.raises(UnavailableError):
            answer(world, policy=without_fallback(), embedder=BrokenEmbedder(None))
        blocked = proof(answer(world, world.ready(), decision=intent(), embedder=HashEmbedder(16)))
    failed, answered = [each for each in heard if each.name.startswith("recall.")]
    assert (failed.name, failed.fields["error"]) == ("recall.failed", "UnavailableError")
    assert (answered.fields["status"], answered.fields["reason"]) == ("blocked", blocked.blocked_reason.value)
    assert (answered.fields["cards"], answered.fields["tokens"]) == ([], 0)


class TestLog:
    """Events as lines of a file."""

    @pytest.fixture(autouse=True)
    def closed(self) -> Iterator[None]:
        yield
        close_log()

    def test_each_event_is_one_json_line(self, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
        path = tmp_path / "events.jsonl"
        open_log(path)
        made = [event(LOST, "space", error=f"E{number}") for number in range(3)]
        tell(lambda: made)
        lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        assert [(line["event"], line["namespace"], line["error"]) for line in lines] == [
            (LOST, "space", f"E{number}") for number in range(3)
        ]
        assert all(re.fullmatch(r"\d{4}-\d\d-\d\dT[\d:.]+Z", line["at"]) for line in lines)
        assert capfd.readouterr() == ("", ""), "a command line is quiet"

    def test_standard_error_where_it_is_asked_for(self, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
        for form in (Form.JSON, Form.TEXT):
            open_log(tmp_path / form.value, form)
            tell(lambda: [event(LOST, "space", error="E")])
            out, err = capfd.readouterr()
            assert (out, "event.lost" in err) == ("", True)
            assert err.startswith("{") == (form is Form.JSON)

    def test_off_writes_nothing(self, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
        open_log(tmp_path / "events.jsonl", Form.OFF)
        tell(lambda: [event(LOST, "space", error="E")])
        assert not list(tmp_path.iterdir())
        assert capfd.readouterr() == ("", "")

    def test_another_installation_takes_the_place_of_the_first(self, tmp_path: Path) -> None:
        for name in ("one", "two"):
            open_log(tmp_path / name)
        tell(lambda: [event(LOST, "space", error="E")])
        assert (tmp_path / "one").read_bytes() == b""
        assert len(list(read_log(tmp_path / "two"))) == 1

    def test_a_folder_that_is_gone_stops_nothing(self, tmp_path: Path) -> None:
        open_log(tmp_path / "gone" / "events.jsonl")
        tell(lambda: [event(LOST, "space", error="E")])

    def test_reading_goes_on_where_it_stopped_and_leaves_out_what_is_none(self, tmp_path: Path) -> None:
        path = tmp_path / "events.jsonl"
        path.write_bytes(b'{"event": "a"}\nnot json\n[]\n{"event": "b"}\n{"event": "cut')
        read = list(read_log(path))
        assert [value["event"] for _, value in read] == ["a", "b"]
        with path.open("ab") as file:
            file.write(b' short"}\n')
        assert [value["event"] for _, value in read_log(path, read[-1][0])] == ["cut short"]

    def test_the_variable_has_four_values(self) -> None:
        assert [form_of(text) for text in ("", "json", " TEXT ", "off")] == list(Form)
        with pytest.raises(InvalidInputError, match="VRM_LOG"):
            form_of("loud")


def test_vrm_o06_a_cost_is_told(tmp_path: Path) -> None:
    heard: list[Event] = []
    with (
        listening(heard.append),
        Meter(CostBook(tmp_path / "costs"), SPACE, lambda: NOW).measured(Component.RETRIEVAL, "recall-input") as spent,
    ):
        spent.on = ["intent-1", "intent-2"]
    (made,) = heard
    assert made.name == "cost.stated"
    assert (made.fields["component"], made.fields["unit"], made.fields["items"]) == ("retrieval", "seconds", 2)


def test_the_index_of_sources_to_consult_is_told() -> None:
    source = make_source(SPACE)
    build = make_build(source, make_chunks(source))
    (made,) = told(build)
    assert (made.name, made.fields["index"], made.fields["sources"]) == ("references.indexed", str(build.id), 1)
    assert made.fields["identity_digest"] == build.identity_digest
    assert WITHHELD not in json.dumps(made.fields)
