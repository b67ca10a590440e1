"""What a Ledger ends up holding about a group, compared with what was planted.

Rules kept here:

- everything is read from stored rows: heads, records, events in journal order, Decisions, reports and receipts;
- what the lifecycle should have done is told by a table of its own, taken from the diagram of spec 10, not by the
  Lifecycle Policy;
- an id is recomputed from the bytes of its row, and a link is followed to a bundle that is cross-validated anew.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

from evaluation.writer.groups import CANARY, CRITICAL, EVALUATOR, SPACE, Group, PlannedRun, Taint
from evaluation.writer.kinds import ELSEWHERE, REFUSED
from evaluation.writer.path import Writer
from evaluation.writer.truth import holds, satisfied
from memory.evidence import resolve_bundles
from records.base import KINDS, Record
from records.canonical import content_id, parse_canonical
from records.evidence import Experience, VerifiedEvidenceBundle
from records.ids import ExperienceId, ScopeVariantId, TaskScopeId
from records.ingestion import DistillationReceipt, Report, WorkItem
from records.knowledge import (
    GENESIS,
    DecisionKind,
    DistillationDecision,
    EventType,
    EvidenceLink,
    KnowledgeCandidate,
    LifecycleEvent,
    MemoryRecord,
)
from records.values import Disposition

R = TypeVar("R", bound=Record)
_ALL: Final = 10**9
_STARTS: Final = {
    DecisionKind.PROMOTED_PROVISIONAL: EventType.PROMOTED_PROVISIONAL,
    DecisionKind.PROMOTED_ACTIVE: EventType.PROMOTED_ACTIVE,
    DecisionKind.PROMOTED_CONTESTED: EventType.PROMOTED_CONTESTED,
}
_ENDED: Final = (None, Disposition.SUPERSEDED, Disposition.RETRACTED)
_MOST: Final = (Disposition.ACTIVE, Disposition.CONTESTED, Disposition.PROVISIONAL, Disposition.RETRACTED)
"""What a claim may have become, the most first."""
_LEADS_TO: Final = {
    EventType.PROMOTED_PROVISIONAL: Disposition.PROVISIONAL,
    EventType.PROMOTED_ACTIVE: Disposition.ACTIVE,
    EventType.PROMOTED_CONTESTED: Disposition.CONTESTED,
    EventType.ACTIVATED: Disposition.ACTIVE,
    EventType.SUPERSEDED: Disposition.SUPERSEDED,
    EventType.RETRACTED: Disposition.RETRACTED,
}


@dataclass(frozen=True, kw_only=True)
class Claim:
    """One scope variant: what was decided about it last, and where it stands.

    Attributes:
        rule: the record that its head is about; None if it has none.
        disposition: of the head; None if it has none.
        events: its lifecycle, in journal order.
        transitions: for every Decision, whether the events that carried it out are those of the diagram.
    """

    candidate: KnowledgeCandidate
    decision: DistillationDecision
    rule: MemoryRecord | None
    disposition: Disposition | None
    events: tuple[EventType, ...]
    transitions: tuple[bool, ...]

    @property
    def is_active(self) -> bool:
        """Whether the claim stands as an active rule."""
        return self.disposition is Disposition.ACTIVE

    @property
    def support(self) -> object:
        """What of the claim must not depend on how often evidence was imported."""
        strength = None if self.rule is None else self.rule.strength
        return self.disposition, self.decision.decision, self.candidate.effect, strength


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What became of one group.

    Attributes:
        true_rules, false_rules: active rules at the end, by whether the planted truth bears them out.
        recalled: whether every gold rule of the group is active.
        reasons: every reason code that was given to anything of the group.
        critical: the rules that were ever active on what must never stand behind one, with what that is.
        links: links that were followed; unfaithful: what was found wrong with one of them, or with an id.
    """

    group: Group
    claims: tuple[Claim, ...]
    true_rules: tuple[MemoryRecord, ...]
    false_rules: tuple[MemoryRecord, ...]
    recalled: bool
    reasons: frozenset[str]
    critical: tuple[str, ...]
    links: int
    unfaithful: tuple[str, ...]

    @property
    def end(self) -> Disposition | None:
        """Where the group's claim ends: recalled if it has gold, else the most that any of its claims became."""
        met = {claim.disposition for claim in self.claims}
        missed = bool(self.group.gold) and not self.recalled
        return next((each for each in _MOST if each in met and not (missed and each is Disposition.ACTIVE)), None)


def read_outcomes(writer: Writer, groups: Iterable[Group]) -> list[Outcome]:
    """Return what became of each group that a writer wrote."""
    reader = _Reader(writer)
    return [reader.outcome(group) for group in groups]


class _Reader:
    def __init__(self, writer: Writer) -> None:
        self._writer = writer
        self._ledger = writer.ledger
        self._records = {str(record.id): record for record in self._load("memory-record", MemoryRecord)}
        self._candidates = {str(each.id): each for each in self._load("knowledge-candidate", KnowledgeCandidate)}
        self._receipts = self._load("distillation-receipt", DistillationReceipt)
        self._reports = self._load("distillation-report", Report)
        self._items = {item.id: item.experience_id for item in self._load("distillation-work-item", WorkItem)}
        events = self._load("knowledge-lifecycle-event", LifecycleEvent)
        self._ever_active = {str(event.memory_id) for event in events if event.disposition is Disposition.ACTIVE}
        self._claims = self._by_scope()

    def outcome(self, group: Group) -> Outcome:
        scope = group.task("any").task_scope_id
        claims = tuple(self._claims.get(scope, ()))
        active = [claim.rule for claim in claims if claim.is_active and claim.rule is not None]
        tainted = self._tainted(group)
        sound = [rule for rule in active if holds(group, rule) and not tainted & _named(rule.links)]
        own = [record for record in self._records.values() if record.scope.task_scope_id == scope]
        links = [link for record in own for link in record.links]
        return Outcome(
            group=group,
            claims=claims,
            true_rules=tuple(sound),
            false_rules=tuple(rule for rule in active if rule not in sound),
            recalled=bool(group.gold)
            and all(any(satisfied(group, gold, rule) for rule in sound) for gold in group.gold),
            reasons=frozenset(self._reasons(group, claims)),
            critical=tuple(self._critical(group, own)),
            links=len(links),
            unfaithful=tuple(self._unfaithful(own, links)),
        )

    def _load(self, noun: str, model: type[R]) -> list[R]:
        loaded = (stored.load() for stored in self._ledger.find(noun, SPACE))
        return [record for record in loaded if isinstance(record, model)]

    def _by_scope(self) -> dict[TaskScopeId, list[Claim]]:
        """Return the claims of every task scope, from Decisions and events in journal order."""
        permits = {row.id: row.permit_key for row in self._ledger.journal(SPACE, limit=_ALL)}
        events: dict[ScopeVariantId, list[LifecycleEvent]] = defaultdict(list)
        for event in self._load("knowledge-lifecycle-event", LifecycleEvent):
            events[event.scope_variant_id].append(event)
        decided: dict[ScopeVariantId, list[DistillationDecision]] = defaultdict(list)
        for decision in self._load("distillation-decision", DistillationDecision):
            candidate = self._candidates[str(decision.candidate_id)]
            decided[candidate.proposed_scope_variant_id].append(decision)
        found: dict[TaskScopeId, list[Claim]] = defaultdict(list)
        for variant, decisions in decided.items():
            claim = self._claim(decisions, events[variant], permits)
            found[claim.candidate.scope.task_scope_id].append(claim)
        return found

    def _claim(
        self,
        decisions: Sequence[DistillationDecision],
        events: Sequence[LifecycleEvent],
        permits: Mapping[str, str],
    ) -> Claim:
        transitions, standing = [], None
        for decision in decisions:
            mine = [event for event in events if permits[event.id] == permits[decision.id]]
            wanted = due(standing, decision.decision)
            said = [(event.event_type, event.disposition) for event in mine]
            transitions.append(said == [(each, _LEADS_TO[each]) for each in wanted])
            standing = mine[-1].disposition if mine else standing
        rule = self._records.get(str(events[-1].memory_id)) if events else None
        return Claim(
            candidate=self._candidates[str(decisions[-1].candidate_id)],
            decision=decisions[-1],
            rule=rule,
            disposition=standing,
            events=tuple(event.event_type for event in events),
            transitions=(*transitions, _is_chain(events)),
        )

    def _entered(self, group: Group) -> dict[str, PlannedRun]:
        return {key: run for key, (owner, run) in self._writer.entered.items() if owner is group}

    def _tainted(self, group: Group) -> frozenset[str]:
        return frozenset(key for key, run in self._entered(group).items() if run.taint is not None)

    def _reasons(self, group: Group, claims: Iterable[Claim]) -> Iterator[str]:
        entered = self._entered(group)
        for claim in claims:
            yield from claim.decision.reasons
        for receipt in self._receipts:
            if receipt.experience_id in entered:
                yield from receipt.reasons
        for report in self._reports:
            if self._items[report.work_item_id] in entered:
                yield from report.refused
        if self._writer.turned_away & entered.keys():
            yield REFUSED
        if all(self._ledger.get(key) is None or run.taint is Taint.PRIVATE for key, run in entered.items()):
            yield ELSEWHERE

    def _critical(self, group: Group, records: Iterable[MemoryRecord]) -> Iterator[str]:
        """Yield what a rule rests on, or says, that must never be in one, for every rule that was ever active."""
        entered = self._entered(group)
        for record in records:
            if record.id not in self._ever_active:
                continue
            runs = [entered.get(key) for key in _named(record.links)]
            found = {run.taint.value for run in runs if run is not None and run.taint in CRITICAL}
            found |= {"evidence of nobody" for run in runs if run is None}
            found |= {"private prose" for word in (CANARY, EVALUATOR) if word in record.payload.decode()}
            if found:
                yield f"{record.id}: {', '.join(sorted(found))}"

    def _unfaithful(self, records: Iterable[MemoryRecord], links: Sequence[EvidenceLink]) -> Iterator[str]:
        """Yield every id that does not follow from its row, and every link that leads to no bundle."""
        for record in records:
            stored = self._ledger.get(record.id)
            if stored is None or content_id(stored.noun, _projection(stored.noun, stored.payload)) != record.id:
                yield f"{record.id} does not follow from its row"
        bundles = self._resolved(links)
        for link in links:
            bundle, other = bundles.get(link.experience_id), bundles.get(link.comparator_id)
            if not isinstance(bundle, VerifiedEvidenceBundle) or not isinstance(other, VerifiedEvidenceBundle):
                yield f"{link.experience_id} or its comparator is no bundle"
            elif _parts(link) != (
                bundle.observation.id,
                bundle.verification.id,
                bundle.intervention.id,
                bundle.provenance.id,
            ):
                yield f"{link.experience_id} has other parts than its link"

    def _resolved(self, links: Iterable[EvidenceLink]) -> Mapping[ExperienceId, object]:
        stored = self._ledger.get_many(_named(links))
        experiences = [each for item in stored.values() if isinstance(each := item.load(), Experience)]
        return resolve_bundles(self._ledger, experiences)


def due(standing: Disposition | None, decision: DecisionKind) -> tuple[EventType, ...]:
    """Return the events that carry out a Decision on a claim that stands so (spec 10)."""
    starts = _STARTS.get(decision)
    if standing in _ENDED:
        return () if starts is None else (starts,)
    if standing is Disposition.PROVISIONAL:
        if starts is EventType.PROMOTED_ACTIVE:
            return (EventType.ACTIVATED,)
        return (EventType.RETRACTED,) if starts is None else (EventType.RETRACTED, starts)
    if starts is not None:
        return (EventType.SUPERSEDED, starts)
    return (EventType.RETRACTED,) if standing is Disposition.ACTIVE else ()


def _is_chain(events: Sequence[LifecycleEvent]) -> bool:
    """Tell whether each event consumes the one before it, and the first none."""
    priors = [GENESIS, *(str(event.id) for event in events)]
    return all(str(event.expected_prior) == prior for event, prior in zip(events, priors, strict=False))


def _named(links: Iterable[EvidenceLink]) -> frozenset[str]:
    return frozenset(str(each) for link in links for each in (link.experience_id, link.comparator_id))


def _parts(link: EvidenceLink) -> tuple[object, ...]:
    return link.observation_id, link.verification_id, link.intervention_id, link.provenance_id


def _projection(noun: str, payload: str) -> object:
    return KINDS[noun].project(parse_canonical(payload))
