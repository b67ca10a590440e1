"""Bad input at every door: each bad value in each field of each record kind is refused by name, and nothing is written.

The doors are the constructors, payload bytes, proposals, and direct appends with records that no constructor has seen.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

import pytest

from memory.coordinator import CommitCoordinator
from memory.fsck import fsck
from records.appends import Append, Proposal, RecordBody
from records.base import KINDS, Record, load_record
from records.errors import IntegrityError, InvalidInputError, InvalidRecordError, VrmError
from records.flows import Authority, Transition
from records.ids import RunId
from records.models import Model
from records.runtime import Authorization
from records.states import Machine, Phase
from store.artifacts import ArtifactStore
from store.ledger.memory import MemoryLedger
from store.runtime.memory import MemoryRuntime
from tests.support.bad_input import HUGE, Path, every_bad_place, fields_of, forged, leaves, models, replaced
from tests.support.decision_samples import every_variant
from tests.support.legacy_samples import every_sample
from tests.support.stores import evidence_append
from tests.support.trials import NOW, digest, make_evidence

SAMPLES: Final = every_sample() | every_variant()
SIGNED: Final = {"exit_code", "value", "shadow_value"}
"""What may be negative: an exit code, a term of a score, what the shadow policy recommends by."""
_LONGEST: Final = 1_500


def require_told(error: VrmError, path: Path) -> None:
    """Check that an error names the field, says what to do, and can be shown anywhere."""
    names = [part for part in path if isinstance(part, str)]
    assert not names or "$" in error.field or any(name in error.field for name in names), (error.field, path)
    assert error.remedy
    assert len(str(error)) < _LONGEST
    str(error).encode()
    assert "\0" not in str(error)
    json.dumps(error.as_dict(), ensure_ascii=False).encode()


def payload_with(record: Record, path: Path, bad: object) -> str:
    return json.dumps(replaced(record.as_json(), path, bad))


def test_every_kind_has_a_sample() -> None:
    assert {name.partition("/")[0] for name in SAMPLES} == set(KINDS)


@pytest.mark.parametrize("noun", sorted(SAMPLES))
def test_constructors_refuse(noun: str) -> None:
    """Each model of a record, nested ones included, by its own constructor."""
    for path, model in models(SAMPLES[noun]):
        for place, fault, bad in every_bad_place(model):  # type: ignore[arg-type]  # a nested model walks alike
            if len(place) == 1:
                with pytest.raises(InvalidRecordError) as caught:
                    type(model).build(**(fields_of(model) | {str(place[0]): bad}))
                assert caught.value.field.startswith(type(model).__name__), (path, fault)
                require_told(caught.value, place)


@pytest.mark.parametrize("noun", sorted(SAMPLES))
def test_payloads_refuse(noun: str) -> None:
    for path, fault, bad in every_bad_place(SAMPLES[noun]):
        with pytest.raises(InvalidRecordError) as caught:
            load_record(SAMPLES[noun].kind.noun, payload_with(SAMPLES[noun], path, bad))
        require_told(caught.value, path)
        assert "$" not in caught.value.field, (path, fault)


@pytest.mark.parametrize("noun", sorted(SAMPLES))
def test_unknown_fields_are_refused_at_every_depth(noun: str) -> None:
    for path, model in models(SAMPLES[noun]):
        for name in ("colour", "a\0b", "e\u0301", "\ud800"):
            with pytest.raises(InvalidRecordError) as caught:
                load_record(SAMPLES[noun].kind.noun, payload_with(SAMPLES[noun], (*path, name), 1))
            require_told(caught.value, path)
            with pytest.raises(InvalidRecordError) as caught:
                type(model).build(**(fields_of(model) | {name: 1}))
            require_told(caught.value, ())


@pytest.mark.parametrize("noun", sorted(SAMPLES))
def test_counts_and_generations_are_not_negative(noun: str) -> None:
    for path, value in leaves(SAMPLES[noun]):
        if isinstance(value, int) and not isinstance(value, bool) and path[-1] not in SIGNED:
            with pytest.raises(InvalidRecordError) as caught:
                load_record(SAMPLES[noun].kind.noun, payload_with(SAMPLES[noun], path, -1))
            require_told(caught.value, path)


def proposal_of(*bodies: RecordBody) -> Proposal:
    return Proposal(
        namespace="test",
        transition=Transition.COMMIT_DISTILLATION,
        authority=Authority.NORMAL,
        machine=Machine.ACTIVITY,
        subject_id="subject",
        run_id=RunId.derive({"run": 1}),
        generation=1,
        fence=1,
        records=bodies,
    )


@pytest.mark.parametrize("noun", sorted(SAMPLES))
def test_proposals_refuse(noun: str) -> None:
    """A published proposal is read back as bytes; what it holds is unpacked before any transaction."""
    for path, fault, bad in every_bad_place(SAMPLES[noun]):
        text = payload_with(SAMPLES[noun], path, bad)
        made = proposal_of(RecordBody(noun=SAMPLES[noun].kind.noun, payload=text))
        read = Proposal.read(made.canonical, made.canonical_digest)
        with pytest.raises(InvalidRecordError) as caught:
            read.unpack()
        require_told(caught.value, path)
        assert fault


PROPOSAL: Final = proposal_of(RecordBody(noun="attempt", payload=SAMPLES["attempt"].payload.decode()))
AUTHORIZATION: Final = Authorization(
    **{name: getattr(PROPOSAL, name) for name in Proposal.model_fields if name != "records"},
    origin_phase=Phase.RUNNING, expected_id="x", expected_digest=digest("x"), proposal_digest=digest("p"),
    granted_at=NOW,
)  # fmt: skip


@pytest.mark.parametrize("model", [PROPOSAL, AUTHORIZATION], ids=["proposal", "authorization"])
def test_their_envelopes_refuse(model: Model) -> None:
    for path, _fault, bad in every_bad_place(model):  # type: ignore[arg-type]  # as above
        with pytest.raises(InvalidRecordError) as caught:
            type(model).load(json.dumps(replaced(model.as_json(), path, bad)))
        require_told(caught.value, path)
    for name in ("generation", "fence"):
        with pytest.raises(InvalidRecordError):
            type(model).load(json.dumps(model.as_json() | {name: -1}))


class Door:
    """A coordinator over a Ledger that holds one good append."""

    def __init__(self) -> None:
        self.ledger = MemoryLedger()
        self.coordinator = CommitCoordinator(self.ledger, MemoryRuntime(), ArtifactStore("memory://door"), "test")
        self.seeds = 0
        self.good()

    def good(self) -> Append:
        self.seeds += 1
        append = evidence_append(make_evidence("test", seed=self.seeds), f"good-{self.seeds}")
        (answer,) = self.coordinator.append_direct([append])
        assert not isinstance(answer, VrmError), answer
        return append

    def refuses(self, append: Append) -> VrmError:
        """Return the error of a bad append between good ones; nothing but the good ones is written."""
        self.seeds += 1
        neighbour = evidence_append(make_evidence("test", seed=self.seeds), f"good-{self.seeds}")
        before = self.ledger.namespace_head("test").position
        error, answer = self.coordinator.append_direct([append, neighbour])
        assert isinstance(error, VrmError), error
        assert not isinstance(answer, VrmError), answer
        added = self.ledger.journal("test", after=before)
        assert {row.permit_key for row in added} == {neighbour.permit_key}
        assert self.ledger.namespace_head("test").position == before + len(added)
        return error

    def clean(self) -> None:
        with self.ledger.reading() as reader:
            report = fsck(reader, None, None)
        assert report.clean, report.text()
        assert {item.namespace for item in self.ledger.journal("test")} == {"test"}


def direct(*records: Record, **changes: Any) -> Append:
    fields = {"namespace": "test", "transition": Transition.APPEND_EVIDENCE, "authority": Authority.DIRECT,
              "permit_key": "k", "permit_digest": digest("k"), "records": records}  # fmt: skip
    return Append(**(fields | changes))


@pytest.mark.parametrize("noun", sorted(SAMPLES))
def test_direct_appends_refuse_records_that_no_constructor_has_seen(noun: str) -> None:
    door = Door()
    for path, fault, bad in every_bad_place(SAMPLES[noun]):
        record = forged(SAMPLES[noun], path, bad)
        (error,) = door.coordinator.append_direct([direct(record)])
        assert isinstance(error, InvalidRecordError), (path, fault, error)
        require_told(error, path)
    require_told(door.refuses(direct(forged(SAMPLES[noun], ("created_at",), math.nan))), ("created_at",))
    door.clean()


@pytest.mark.parametrize(
    ("changes", "kind"),
    [
        ({"namespace": "Test"}, InvalidRecordError),
        ({"namespace": "a\0"}, InvalidRecordError),
        ({"namespace": True}, InvalidRecordError),
        ({"namespace": "elsewhere"}, IntegrityError),
        ({"transition": "APPEND_ANYTHING"}, InvalidRecordError),
        ({"transition": Transition.COMMIT_DISTILLATION}, InvalidInputError),
        ({"authority": Authority.NORMAL}, InvalidInputError),
        ({"authority": "ROOT"}, InvalidRecordError),
        ({"permit_key": "two words"}, InvalidRecordError),
        ({"permit_key": "a\0"}, InvalidRecordError),
        ({"permit_key": "\ud800"}, InvalidRecordError),
        ({"permit_key": HUGE}, InvalidRecordError),
        ({"permit_digest": "AB" * 32}, InvalidRecordError),
        ({"permit_digest": 7}, InvalidRecordError),
        ({"fences": (("head", -1),)}, InvalidRecordError),
        ({"fences": (("head", True),)}, InvalidRecordError),
        ({"fences": (("head", math.nan),)}, InvalidRecordError),
        ({"records": ()}, InvalidInputError),
        ({"records": ("attempt",)}, InvalidRecordError),
        ({"records": (SAMPLES["memory-record"],)}, InvalidInputError),
        ({"records": make_evidence("elsewhere")}, IntegrityError),
        ({"records": make_evidence("test", seed=99)[3:4]}, IntegrityError),
    ],
)
def test_direct_appends_refuse_what_is_around_the_records(changes: dict[str, Any], kind: type[VrmError]) -> None:
    door = Door()
    error = door.refuses(replace(direct(*make_evidence("test", seed=77)), **changes))
    assert isinstance(error, kind)
    require_told(error, ())
    assert door.ledger.receipt("test", "k") is None
    door.clean()


@pytest.mark.parametrize("key", ["", "two words", "a\0", "\ud800", "é", HUGE])
def test_operation_keys_are_names(key: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        Append.direct(Transition.APPEND_EVIDENCE, key, make_evidence("test"))
    require_told(caught.value, ())
    with pytest.raises(InvalidInputError):
        Append.direct(Transition.APPEND_EVIDENCE, "key", ())


class TestHuge:
    """Fifty megabytes are refused at once, and no part of the error is long."""

    @pytest.mark.parametrize("noun", sorted(SAMPLES))
    def test_in_a_constructor(self, noun: str) -> None:
        record = SAMPLES[noun]
        for name, value in fields_of(record).items():
            if isinstance(value, str | int | None):
                with pytest.raises(InvalidRecordError) as caught:
                    type(record).build(**(fields_of(record) | {name: HUGE}))
                require_told(caught.value, (name,))

    @pytest.mark.parametrize("name", ["statement", "mechanism", "created_at", "namespace", "task_scope_id", "colour"])
    def test_in_a_payload_and_an_append(self, name: str) -> None:
        door, hypothesis = Door(), SAMPLES["hypothesis"]
        with pytest.raises(InvalidRecordError) as caught:
            load_record("hypothesis", payload_with(hypothesis, (name,), HUGE))
        require_told(caught.value, (name,))
        if name != "colour":  # what is no field is not carried along
            require_told(door.refuses(direct(forged(hypothesis, (name,), HUGE))), (name,))
        door.clean()

    def test_as_the_name_of_a_field(self) -> None:
        doors: tuple[Callable[[], object], ...] = (
            lambda: SAMPLES["attempt"].build(**{HUGE: 1}),
            lambda: load_record("attempt", json.dumps({HUGE: 1})),
            lambda: load_record(HUGE, "{}"),
            lambda: load_record("attempt", HUGE),
        )
        for refuse in doors:
            with pytest.raises(InvalidRecordError) as caught:
                refuse()
            require_told(caught.value, ())
            cause = caught.value.__cause__
            length = 0 if cause is None else len(str(cause))
            assert length < _LONGEST
