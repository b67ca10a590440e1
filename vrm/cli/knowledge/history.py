"""The history of scope variants: every lifecycle event from GENESIS on and every decision, in journal order.

What a version changed is told against the version before it: a version is a decided candidate, promoted or not, for it
holds evidence and effect in either case.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from rich.console import Console
from rich.padding import Padding

from policies.lifecycle_policy import LifecycleFact, fold
from records.errors import InvalidInputError
from records.ids import CandidateId, FamilyId, ScopeVariantId
from records.knowledge import (
    GENESIS,
    Candidate,
    DistillationDecision,
    EvidenceLink,
    GovernedRecord,
    KnowledgeCandidate,
    LifecycleEvent,
)
from records.procedures import ProcedureCandidate
from records.values import EffectEstimate
from store.ledger.port import LedgerReader
from vrm.cli.knowledge import words
from vrm.cli.knowledge.entries import NOUN, only
from vrm.cli.output import short, show_title

_NOUNS: Final = (NOUN, FamilyId.noun, ScopeVariantId.noun, CandidateId.noun)
_SHOWN: Final = 10
_LISTED: Final = 6


@dataclass(frozen=True, kw_only=True)
class Version:
    """One decided candidate with what it became; `position` is that of the decision in the journal."""

    position: int
    candidate: Candidate
    decision: DistillationDecision
    record: GovernedRecord | None

    @property
    def effect(self) -> EffectEstimate | None:
        """The effect that was decided on; procedures have none."""
        return self.candidate.effect if isinstance(self.candidate, KnowledgeCandidate) else None


@dataclass(frozen=True, kw_only=True)
class Change:
    """What a version has another way than the one before it; the first has everything anew."""

    added: tuple[EvidenceLink, ...]
    removed: tuple[EvidenceLink, ...]
    effect: tuple[str | None, str | None]
    units: tuple[int | None, int | None]
    grade: tuple[str | None, str | None]
    policy: tuple[str | None, str]

    def as_json(self) -> dict[str, Any]:
        """Return the change as JSON values; pairs are before and after."""
        return {
            "links_added": [link.as_json() for link in self.added],
            "links_removed": [link.as_json() for link in self.removed],
            "effect": list(self.effect),
            "units": list(self.units),
            "grade": list(self.grade),
            "policy": list(self.policy),
        }


@dataclass(frozen=True, kw_only=True)
class Step:
    """One thing that happened: a lifecycle event, or a decision with what its version changed."""

    position: int
    event: LifecycleEvent | None = None
    version: Version | None = None
    change: Change | None = None

    def as_json(self) -> dict[str, Any]:
        """Return the step as JSON values."""
        said: dict[str, Any] = {"position": self.position}
        if self.event is not None:
            said |= {"what": "event", "id": str(self.event.id), "event": self.event.as_json()}
        if self.version is not None and self.change is not None:
            decision = self.version.decision
            said |= {"what": "decision", "id": str(decision.id), "decision": decision.as_json()}
            said |= {"claim": _claim(self.version.candidate), "changed": self.change.as_json()}
        return said


@dataclass(frozen=True, kw_only=True)
class History:
    """One scope variant: its steps in journal order, and its events in the order of its chain."""

    scope_variant_id: str
    family_id: str
    namespace: str
    steps: tuple[Step, ...]
    chain: tuple[LifecycleEvent, ...]

    def as_json(self) -> dict[str, Any]:
        """Return the history as JSON values."""
        head = self.chain[-1] if self.chain else None
        return {
            "scope_variant_id": self.scope_variant_id,
            "family_id": self.family_id,
            "namespace": self.namespace,
            "head": None if head is None else {"memory_id": str(head.memory_id), "disposition": head.disposition.value},
            "chain": [str(event.id) for event in self.chain],
            "steps": [step.as_json() for step in self.steps],
        }


def histories(reader: LedgerReader, prefix: str) -> list[History]:
    """Return the history of the scope variant of a record or candidate, or of every variant of a family.

    Raises:
        InvalidInputError: the id is of another kind.
        NotFoundError, AmbiguousIdError: nothing begins so, or several things do.
        IntegrityError: the events of a variant are no chain.
    """
    noun, separator, digits = prefix.strip().lower().rpartition(":")
    if not digits or (separator and noun not in _NOUNS):
        raise InvalidInputError("id", prefix, f"Give an id, or its first digits, of a {', '.join(_NOUNS)}.")
    known = [_Known(reader, namespace) for namespace in reader.namespaces()]
    names: dict[str, tuple[_Known, set[str]]] = {}
    for each in known:
        for key, variants in each.names().items():
            if key.partition(":")[2].startswith(digits) and noun in {"", key.partition(":")[0]}:
                names[key] = (each, variants)
    found, variants = names[only("id", prefix, sorted(names)[:_SHOWN])]
    return [found.history(variant) for variant in sorted(variants)]


class _Known:
    """What distillation wrote in a namespace, by scope variant."""

    def __init__(self, reader: LedgerReader, namespace: str) -> None:
        self._namespace = namespace
        candidates = {
            item.id: record
            for item in reader.find("knowledge-candidate", namespace)
            if isinstance(record := item.load(), Candidate)
        }
        self._records: Mapping[str, GovernedRecord] = {
            item.id: record
            for item in reader.find(NOUN, namespace)
            if isinstance(record := item.load(), GovernedRecord)
        }
        self._candidates = candidates
        self._versions: dict[str, list[Version]] = defaultdict(list)
        for item in reader.find("distillation-decision", namespace):
            decision = item.load()
            if isinstance(decision, DistillationDecision):
                candidate = candidates[decision.candidate_id]
                self._versions[str(candidate.proposed_scope_variant_id)].append(
                    Version(
                        position=item.position,
                        candidate=candidate,
                        decision=decision,
                        record=self._records.get(str(decision.memory_id)),
                    )
                )
        self._events: dict[str, list[Step]] = defaultdict(list)
        for item in reader.find("knowledge-lifecycle-event", namespace):
            event = item.load()
            if isinstance(event, LifecycleEvent):
                self._events[str(event.scope_variant_id)].append(Step(position=item.position, event=event))

    def names(self) -> dict[str, set[str]]:
        """Return the scope variants that each id stands for."""
        found: dict[str, set[str]] = defaultdict(set)
        for key, candidate in self._candidates.items():
            variant = str(candidate.proposed_scope_variant_id)
            for name in (key, str(candidate.proposed_family_id), variant):
                found[name].add(variant)
        for key, record in self._records.items():
            variant = str(record.scope_variant_id)
            for name in (key, str(record.family_id), variant):
                found[name].add(variant)
        return found

    def history(self, variant: str) -> History:
        """Return the history of a scope variant."""
        events, versions = self._events[variant], self._versions[variant]
        before: Sequence[Version | None] = [None, *versions]
        decided = [
            Step(position=each.position, version=each, change=_change(prior, each))
            for prior, each in zip(before, versions, strict=False)
        ]
        owners = [each for each in (*self._records.values(),) if str(each.scope_variant_id) == variant]
        family = versions[0].candidate.proposed_family_id if versions else owners[0].family_id
        return History(
            scope_variant_id=variant,
            family_id=str(family),
            namespace=self._namespace,
            steps=tuple(sorted([*events, *decided], key=lambda step: step.position)),
            chain=_chain([step.event for step in events if step.event is not None]),
        )


def _chain(events: Sequence[LifecycleEvent]) -> tuple[LifecycleEvent, ...]:
    """Return events in the order in which each consumes the one before it, which the fold proves to be one chain."""
    fold(LifecycleFact.of(event) for event in events)
    following = {str(event.expected_prior): event for event in events}
    chain: list[LifecycleEvent] = []
    while (step := following.get(GENESIS if not chain else str(chain[-1].id))) is not None:
        chain.append(step)
    return tuple(chain)


def _change(prior: Version | None, version: Version) -> Change:
    before = {} if prior is None else {_body(link): link for link in prior.candidate.links}
    after = {_body(link): link for link in version.candidate.links}
    effects = [None if each is None else each.effect for each in (prior, version)]
    policy = version.candidate.policy
    return Change(
        added=tuple(link for body, link in after.items() if body not in before),
        removed=tuple(link for body, link in before.items() if body not in after),
        effect=(_mean(effects[0]), _mean(effects[1])),
        units=(_units(effects[0]), _units(effects[1])),
        grade=(_grade(prior), _grade(version)),
        policy=(
            None if prior is None else f"{prior.candidate.policy.policy_id} {prior.candidate.policy.version}",
            f"{policy.policy_id} {policy.version}",
        ),
    )


def _body(link: EvidenceLink) -> tuple[str, str]:
    # The same evidence imported again is the same unit, whichever Experience it comes with.
    return link.relation.value, str(link.support_unit_id)


def _mean(effect: EffectEstimate | None) -> str | None:
    return None if effect is None else effect.mean_delta


def _units(effect: EffectEstimate | None) -> int | None:
    return None if effect is None else effect.unit_count


def _grade(version: Version | None) -> str | None:
    return None if version is None or version.record is None else version.record.strength.grade.value


def _claim(candidate: Candidate) -> str:
    match candidate:
        case KnowledgeCandidate():
            return candidate.claim
        case ProcedureCandidate():
            trigger = candidate.procedure.trigger
            return f"When {trigger.situation} at {trigger.decision_point.value}: {trigger.goal}."
        case _:
            return candidate.mechanism


def show_histories(out: Console, found: Iterable[History]) -> None:
    """Print histories for people, each step with its position in the journal."""
    for history in found:
        show_title(out, f"{short(history.scope_variant_id)} of {short(history.family_id)} in {history.namespace}")
        if history.chain:
            head = history.chain[-1]
            out.print(f"head: {short(head.memory_id)}, {head.disposition.value}", markup=False)
        else:
            out.print("no head: nothing of it was ever promoted", markup=False)
        for step in history.steps:
            lines = list(_event_lines(step.event) if step.event is not None else _version_lines(step))
            out.print(f"{step.position:>8}  {lines[0]}", markup=False)
            for line in lines[1:]:
                out.print(Padding(line, (0, 0, 0, 10)), markup=False)


def _event_lines(event: LifecycleEvent) -> Iterator[str]:
    consumed = event.expected_prior if event.expected_prior == GENESIS else short(event.expected_prior)
    yield f"{event.event_type.value} {short(event.memory_id)}, now {event.disposition.value}"
    yield f"event {short(str(event.id))} on {consumed}; {', '.join(event.reasons) or 'no reason given'}"


def _version_lines(step: Step) -> Iterator[str]:
    version, change = step.version, step.change
    if version is None or change is None:
        return
    became = "" if version.decision.memory_id is None else f" as {short(version.decision.memory_id)}"
    yield f"decided: {version.decision.decision.value}{became} ({', '.join(version.decision.reasons) or 'no reason'})"
    yield _claim(version.candidate)
    yield f"candidate {short(str(version.candidate.id))}, {_links('added', change.added)}, " + _links(
        "removed", change.removed
    )
    if version.effect is not None:
        size = f"{_pair(change.effect, words.signed)} {version.effect.metric.unit}"
        yield f"effect {size} over {_pair(change.units, str)} units"
    if change.grade != (None, None):
        yield f"grade {_pair(change.grade, str)}"
    yield f"policy {_pair(change.policy, str)}"


def _links(what: str, links: Sequence[EvidenceLink]) -> str:
    if not links:
        return f"no link {what}"
    named = ", ".join(words.digits(link.experience_id, 8) for link in links[:_LISTED])
    more = f" and {len(links) - _LISTED} more" if len(links) > _LISTED else ""
    return f"{len(links)} link{'' if len(links) == 1 else 's'} {what} ({named}{more})"


def _pair(pair: tuple[Any, Any], say: Any) -> str:
    before, after = ("none" if each is None else say(each) for each in pair)
    return after if before in {"none", after} else f"{before} -> {after}"
