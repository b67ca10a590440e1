"""Where Experiences stand on the way to a rule: what holds each back, and what would complete it. Reads only.

Rules kept here:

- an Experience that a live rule rests on, as changed run or as baseline, stands behind that rule, whichever item led;
- else the last thing that was said of it counts: its receipt, its work item, the Decision that covers it. A Decision is
  the last one about the scope variant that still rests on the Experience;
- the figures in a remedy are those of the latest Evidence Snapshot, judged by the policy that it was captured under.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import Any, TypeVar

from memory.distillation.view import View, read_view
from memory.evidence import resolve_bundles
from memory.retention import denials, named
from policies.bundles import NotABundle
from policies.completion import Facts, Hold, remedies
from policies.distillation_policy import DistillationPolicy, distillation_policy
from policies.distiller import VariantVerdict
from records.base import Record
from records.control import ControlEvent
from records.evidence import Experience, VerifiedEvidenceBundle
from records.ids import ExperienceId, ScopeVariantId
from records.ingestion import (
    CaptureOperation,
    CompletionStatus,
    EvidenceSnapshot,
    ExperienceReceipt,
    ReceiptDisposition,
    Report,
    WorkAssignment,
    WorkCompletion,
    WorkDisposition,
)
from records.knowledge import Candidate, DecisionKind, DistillationDecision, GovernedRecord, LifecycleEvent
from records.values import Disposition
from store.artifacts import ArtifactStore
from store.ledger.port import LedgerReader

R = TypeVar("R", bound=Record)
Live = tuple[Disposition, GovernedRecord]


class State(StrEnum):
    """How far an Experience has come."""

    ACTIVE = "behind an active rule"
    CONTESTED = "behind a contested rule"
    PROVISIONAL = "behind a provisional rule"
    DEFERRED = "decided: deferred"
    REJECTED = "decided: rejected"
    ENDED = "its rule has ended"
    NO_CANDIDATE = "distilled, no candidate"
    WAITING = "waiting"
    GIVEN_UP = "given up"
    NOT_QUEUED = "not queued"
    ERASED = "erased"


_LIVE = {Disposition.ACTIVE: State.ACTIVE, Disposition.CONTESTED: State.CONTESTED,
         Disposition.PROVISIONAL: State.PROVISIONAL}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Standing:
    """Where one Experience stands.

    Attributes:
        codes: the reason codes that hold it back, the deciding one first; none behind an active rule.
        remedies: what would complete it, in the order of the codes.
        rules: the live records that rest on it.
        claim: what the covering Candidate claims.
        verdict: what the latest Evidence Snapshot makes of the contrast, where that is another thing than was decided.
    """

    experience: Experience
    bundle: VerifiedEvidenceBundle | None
    state: State
    codes: tuple[str, ...] = ()
    remedies: tuple[str, ...] = ()
    rules: tuple[str, ...] = ()
    receipt: ExperienceReceipt | None = None
    disposition: WorkDisposition | None = None
    decision: DistillationDecision | None = None
    claim: str | None = None
    verdict: DecisionKind | None = None


def standings(reader: LedgerReader, artifacts: ArtifactStore, experiences: Sequence[Experience]) -> list[Standing]:
    """Return where each Experience stands, in order; all are of one namespace.

    Raises:
        EvidenceError: the latest Evidence Snapshot no longer resolves.
        InvalidInputError: that snapshot was captured under a policy that does not ship.
    """
    if not experiences:
        return []
    reading = _Reading(reader, artifacts, experiences[0].namespace, experiences)
    return [_standing(reading, each) for each in experiences]


def _standing(reading: _Reading, experience: Experience) -> Standing:
    key = str(experience.id)
    if key in reading.denied:
        return _held(reading, experience, State.ERASED, (Hold.RETENTION_REVOKED,))
    behind = reading.behind.get(key)
    if behind:
        return _behind(reading, experience, behind)
    receipt = reading.receipts.get(key)
    if receipt is None:
        return _held(reading, experience, State.WAITING, (Hold.WITHOUT_RECEIPT,))
    if receipt.work_item_id is None:
        given_up = receipt.disposition is ReceiptDisposition.ABANDONED
        state = State.GIVEN_UP if given_up else State.NOT_QUEUED
        codes = receipt.reasons[:1] if given_up else _unqueued(receipt)
        return _held(reading, experience, state, codes, detail=receipt.reasons[1:])
    return _queued(reading, experience, receipt.work_item_id)


def _behind(reading: _Reading, experience: Experience, behind: Sequence[Live]) -> Standing:
    """Return the standing of an Experience that live records rest on; what is not active says why it is not."""
    disposition, best = min(behind, key=lambda each: list(_LIVE).index(each[0]))
    rules = tuple(sorted(str(record.id) for _, record in behind))
    if disposition is Disposition.ACTIVE:
        return _held(reading, experience, State.ACTIVE, (), rules=rules)
    candidate, decision = reading.decided(str(best.candidate_id))
    codes = () if decision is None else decision.reasons
    return _held(reading, experience, _LIVE[disposition], codes, rules=rules, decision=decision, candidate=candidate)


def _unqueued(receipt: ExperienceReceipt) -> tuple[str, ...]:
    """Return the codes of a receipt; what follows an invalid verification are its violations."""
    return receipt.reasons[:1] if receipt.reasons[:1] == (Hold.INVALID_VERIFICATION.value,) else receipt.reasons


def _queued(reading: _Reading, experience: Experience, item: str) -> Standing:
    completion = reading.completions.get(item)
    if completion is None:
        waiting = Hold.WAITING_FOR_DISTILLATION if item in reading.assigned else Hold.WAITING_FOR_CAMPAIGN
        return _held(reading, experience, State.WAITING, (waiting,))
    if completion.status is not CompletionStatus.COMPLETED:
        dead = completion.status is CompletionStatus.DEAD_LETTER
        hold = Hold.DEAD_LETTER if dead else Hold.CANCELLED
        return _held(reading, experience, State.GIVEN_UP, (hold,), detail=reading.cause(completion))
    disposition = reading.dispositions[item]
    if disposition.candidate_id is None:
        refused = reading.refused.get(str(disposition.batch_id), (disposition.outcome.value,))
        return _held(reading, experience, State.NO_CANDIDATE, refused, disposition=disposition)
    return _decided(reading, experience, disposition)


def _decided(reading: _Reading, experience: Experience, disposition: WorkDisposition) -> Standing:
    candidate, decision = reading.covering(experience, str(disposition.candidate_id))
    known: dict[str, Any] = {"disposition": disposition, "decision": decision, "candidate": candidate}
    match decision.decision:
        case DecisionKind.REJECTED:
            return _held(reading, experience, State.REJECTED, decision.reasons, **known)
        case DecisionKind.DEFERRED:
            return _held(reading, experience, State.DEFERRED, decision.reasons, **known)
        case _:
            detail = reading.ending(str(decision.memory_id))
            return _held(reading, experience, State.ENDED, (Hold.RULE_ENDED,), detail=detail, **known)


def _held(
    reading: _Reading,
    experience: Experience,
    state: State,
    codes: Sequence[str],
    *,
    detail: Sequence[str] = (),
    rules: tuple[str, ...] = (),
    disposition: WorkDisposition | None = None,
    decision: DistillationDecision | None = None,
    candidate: Candidate | None = None,
) -> Standing:
    facts = reading.facts(experience, candidate, tuple(detail), compared=disposition is not None)
    return Standing(
        experience=experience,
        bundle=reading.bundle(experience),
        state=state,
        codes=tuple(str(code) for code in codes),
        remedies=remedies([str(code) for code in codes], facts),
        rules=rules,
        receipt=reading.receipts.get(str(experience.id)),
        disposition=disposition,
        decision=decision,
        claim=getattr(candidate, "claim", None),
        verdict=None if decision is None else reading.verdict_now(candidate, decision),
    )


@dataclass(frozen=True)
class _Reading:
    """What is read once for all Experiences that are asked about; each part when it is first needed."""

    reader: LedgerReader
    artifacts: ArtifactStore
    namespace: str
    experiences: Sequence[Experience]
    _causes: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def _find(self, model: type[R], **equal: Any) -> dict[str, R]:
        found = ((each.id, each.load()) for each in self.reader.find(model.kind.noun, self.namespace, **equal))
        return {key: record for key, record in found if isinstance(record, model)}

    @cached_property
    def bundles(self) -> Mapping[str, VerifiedEvidenceBundle | NotABundle]:
        return {str(key): bundle for key, bundle in resolve_bundles(self.reader, self.experiences).items()}

    def bundle(self, experience: Experience) -> VerifiedEvidenceBundle | None:
        found = self.bundles[str(experience.id)]
        return found if isinstance(found, VerifiedEvidenceBundle) else None

    @cached_property
    def denied(self) -> frozenset[str]:
        """The Experiences that retention denies, or something that they are made of."""
        denied = {target.target_id for target in denials(self.reader, self.namespace)}
        if not denied:
            return frozenset()
        return frozenset(str(each.id) for each in self.experiences if not denied.isdisjoint(self._made_of(each)))

    def _made_of(self, experience: Experience) -> set[str]:
        bundle = self.bundle(experience)
        observed = () if bundle is None else named(bundle.observation.as_json())
        return {str(experience.id), *named(experience.as_json()), *observed}

    @cached_property
    def receipts(self) -> Mapping[str, ExperienceReceipt]:
        wanted = [str(each.id) for each in self.experiences]
        return {str(each.experience_id): each for each in self._find(ExperienceReceipt, experience_id=wanted).values()}

    @cached_property
    def _items(self) -> list[str]:
        return [str(each.work_item_id) for each in self.receipts.values() if each.work_item_id is not None]

    @cached_property
    def assigned(self) -> frozenset[str]:
        found = self._find(WorkAssignment, work_item_id=self._items) if self._items else {}
        return frozenset(str(each.work_item_id) for each in found.values())

    @cached_property
    def completions(self) -> Mapping[str, WorkCompletion]:
        found = self._find(WorkCompletion, work_item_id=self._items) if self._items else {}
        return {str(each.work_item_id): each for each in found.values()}

    @cached_property
    def dispositions(self) -> Mapping[str, WorkDisposition]:
        found = self._find(WorkDisposition, work_item_id=self._items) if self._items else {}
        return {str(each.work_item_id): each for each in found.values()}

    @cached_property
    def refused(self) -> Mapping[str, tuple[str, ...]]:
        """The codes of a report by its batch, of items that came to no candidate."""
        batches = [str(each.batch_id) for each in self.dispositions.values() if each.candidate_id is None]
        found = self._find(Report, batch_id=batches) if batches else {}
        return {str(each.batch_id): each.refused for each in found.values() if each.refused}

    def cause(self, completion: WorkCompletion) -> tuple[str, ...]:
        """Return what ended an item, in the words of the control event; its digest alone, if the bytes are gone."""
        digest = str(completion.terminal_evidence_digest)
        if digest not in self._causes:
            if self.artifacts.holds(digest):
                event = ControlEvent.read(self.artifacts.read(digest), digest)
                self._causes[digest] = (event.cause.value, *([event.detail] if event.detail else []))
            else:
                self._causes[digest] = (f"control event {digest}, whose bytes are gone",)
        return self._causes[digest]

    @cached_property
    def behind(self) -> Mapping[str, list[Live]]:
        """The live records that rest on an Experience, by its id."""
        heads = {head.memory_id: Disposition(head.disposition)
                 for head in self.reader.variant_heads(self.namespace).values()}  # fmt: skip
        live = {key: disposition for key, disposition in heads.items() if disposition in _LIVE}
        found: dict[str, list[Live]] = defaultdict(list)
        for key, stored in self.reader.get_many(live).items():
            record = stored.load()
            if isinstance(record, GovernedRecord):
                for part in _evidence(record):
                    found[part].append((live[key], record))
        return found

    @cached_property
    def _candidates(self) -> Mapping[str, Candidate]:
        return self._find(Candidate)

    @cached_property
    def _decisions(self) -> Mapping[str, DistillationDecision]:
        """Decisions by candidate, in journal order."""
        return {str(each.candidate_id): each for each in self._find(DistillationDecision).values()}

    @cached_property
    def _resting(self) -> Mapping[tuple[str, str], str]:
        """The last decided candidate of a scope variant that rests on an Experience, by both."""
        return {
            (str(self._candidates[key].proposed_scope_variant_id), part): key
            for key in self._decisions
            for part in _evidence(self._candidates[key])
        }

    def decided(self, candidate_id: str) -> tuple[Candidate | None, DistillationDecision | None]:
        """Return a candidate and the decision about it; neither, where an import left them out."""
        return self._candidates.get(candidate_id), self._decisions.get(candidate_id)

    def covering(self, experience: Experience, candidate_id: str) -> tuple[Candidate, DistillationDecision]:
        """Return the last candidate that rests on an Experience, of the scope variant of the one that covers it."""
        variant = str(self._candidates[candidate_id].proposed_scope_variant_id)
        key = self._resting.get((variant, str(experience.id)), candidate_id)
        return self._candidates[key], self._decisions[key]

    def ending(self, memory_id: str) -> tuple[str, ...]:
        """Return how a record ended: its last event with its reasons."""
        stored = self.reader.get(memory_id)
        record = None if stored is None else stored.load()
        if not isinstance(record, GovernedRecord):
            return ()
        events = self._find(LifecycleEvent, scope_variant_id=str(record.scope_variant_id)).values()
        last = [each for each in events if each.memory_id == memory_id][-1:]
        return tuple(f"{each.event_type.value}: {', '.join(each.reasons) or 'no reason given'}" for each in last)

    @cached_property
    def snapshot(self) -> EvidenceSnapshot | None:
        """The latest Evidence Snapshot."""
        captured = list(self._find(CaptureOperation).values())
        stored = self.reader.get(captured[-1].snapshot_id) if captured else None
        record = None if stored is None else stored.load()
        return record if isinstance(record, EvidenceSnapshot) else None

    @cached_property
    def policy(self) -> DistillationPolicy:
        snapshot = self.snapshot
        return distillation_policy() if snapshot is None else distillation_policy(snapshot.eligibility_policy.version)

    @cached_property
    def view(self) -> View | None:
        snapshot = self.snapshot
        if snapshot is None:
            return None
        return read_view(self.reader, type(snapshot).kind.id_class.check(snapshot.id), self.policy)  # type: ignore[arg-type]

    def facts(
        self, experience: Experience, candidate: Candidate | None, detail: tuple[str, ...], *, compared: bool
    ) -> Facts:
        """Return the facts behind a remedy; `compared` tells whether a snapshot was looked through for comparators."""
        found = self.bundles[str(experience.id)]
        missing = (found.detail,) if isinstance(found, NotABundle) else ()
        seed = None if isinstance(found, NotABundle) else found.attempt.seed
        variant = None if candidate is None else ScopeVariantId(candidate.proposed_scope_variant_id)
        judged = None if variant is None or self.view is None else self.view.verdicts.get(variant)
        verdict = judged if isinstance(judged, VariantVerdict) else None
        key, table = ExperienceId(experience.id), self.view.table if compared and self.view is not None else None
        apart = None if table is None else table.apart.get(key)
        return Facts(
            policy=self.policy,
            detail=detail or missing,
            seed=seed,
            apart=None if apart is None else tuple(each.value for each in apart),
            failure=None if table is None else table.failed.get(key),
            verdict=verdict,
        )

    def verdict_now(self, candidate: Candidate | None, decision: DistillationDecision) -> DecisionKind | None:
        """Return what the latest snapshot makes of a contrast, where that is another thing than was decided."""
        if candidate is None or self.view is None:
            return None
        verdict = self.view.verdicts.get(ScopeVariantId(candidate.proposed_scope_variant_id))
        now = None if verdict is None else verdict.verdict.decision
        return None if now is decision.decision else now


def _evidence(record: Candidate | GovernedRecord) -> set[str]:
    return {str(part) for link in record.links for part in (link.experience_id, link.comparator_id)}
