"""What `vrm knowledge` reads and how it looks. Reads only; everything shown is in the Ledger as it stands."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from memory.evidence import resolve_bundles
from policies.bundles import NotABundle
from records.appends import Head
from records.errors import AmbiguousIdError, InvalidInputError, NotFoundError
from records.evidence import Experience, VerifiedEvidenceBundle
from records.knowledge import EvidenceLink, LifecycleEvent, MemoryRecord
from records.values import Disposition, EffectEstimate, Interval
from store.ledger.port import LedgerReader
from vrm.cli.output import short, show_rows, show_title

_NOUN: Final = MemoryRecord.kind.noun
_SHOWN: Final = 10
_DIGITS: Final = 8
"""Digits of an id where a line has two of them; as prefixes they still name one record each."""


@dataclass(frozen=True, kw_only=True)
class Rule:
    """A rule with where its scope variant stands; `current` tells whether it is the variant's head."""

    record: MemoryRecord
    disposition: str
    current: bool

    def as_json(self) -> dict[str, Any]:
        """Return the rule as JSON values, the payload as the Ledger holds it."""
        return {
            "id": str(self.record.id),
            "disposition": self.disposition,
            "current": self.current,
            "claim": self.record.claim,
            "record": self.record.as_json(),
        }


@dataclass(frozen=True, kw_only=True)
class LinkedPair:
    """One evidence link with the two results that it compares; None where a bundle no longer resolves."""

    link: EvidenceLink
    changed: VerifiedEvidenceBundle | None
    baseline: VerifiedEvidenceBundle | None

    def metric(self, name: str) -> tuple[float | None, float | None]:
        """Return the metric of baseline and changed run, in its unit."""
        pair = (self.baseline, self.changed)
        before, after = (None if each is None else each.verification.metric(name) for each in pair)
        return before, after


@dataclass(frozen=True, kw_only=True)
class Detail:
    """Everything about one rule."""

    rule: Rule
    events: tuple[tuple[str, LifecycleEvent], ...]
    pairs: tuple[LinkedPair, ...]

    def as_json(self) -> dict[str, Any]:
        """Return the rule, its events and its evidence as JSON values."""
        name = self.rule.record.effect.metric.name
        return self.rule.as_json() | {
            "events": [{"id": key, "event": event.as_json()} for key, event in self.events],
            "evidence": [
                pair.link.as_json()
                | {
                    "dataset_root": pair.changed.attempt.dataset_root if pair.changed else None,
                    "seed": pair.changed.attempt.seed if pair.changed else None,
                    "baseline": pair.metric(name)[0],
                    "changed": pair.metric(name)[1],
                }
                for pair in self.pairs
            ],
        }


def rules(reader: LedgerReader, namespace: str | None, *, every: bool) -> list[Rule]:
    """Return the rules that are heads: the active ones, or all.

    Raises:
        NotFoundError: the namespace holds nothing.
    """
    known = reader.namespaces()
    if namespace is not None and namespace not in known:
        raise NotFoundError("namespace", namespace, f"Namespaces here: {', '.join(known) or 'none'}.")
    found: list[Rule] = []
    for name in known if namespace is None else [namespace]:
        heads = [head for head in reader.variant_heads(name).values() if every or _is_active(head)]
        stored = reader.get_many([head.memory_id for head in heads])
        for head in heads:
            record = stored[head.memory_id].load()
            if isinstance(record, MemoryRecord):
                found.append(Rule(record=record, disposition=head.disposition, current=True))
    return sorted(found, key=lambda rule: (rule.record.namespace, rule.record.claim, str(rule.record.id)))


def detail(reader: LedgerReader, prefix: str) -> Detail:
    """Return a rule by any unambiguous beginning of its id, with or without the noun.

    Raises:
        InvalidInputError: the id is of another kind.
        NotFoundError: no rule begins so.
        AmbiguousIdError: several rules begin so.
    """
    record_id = _resolve(reader, prefix)
    stored = reader.get_many([record_id])[record_id].load()
    if not isinstance(stored, MemoryRecord):
        raise NotFoundError("id", prefix, "The record is a procedure; `vrm procedures show` shows it.")
    head = reader.variant_heads(stored.namespace, [str(stored.scope_variant_id)]).get(str(stored.scope_variant_id))
    current = head is not None and head.memory_id == record_id
    events = _events(reader, stored)
    disposition = next((e.disposition.value for _, e in reversed(events) if str(e.memory_id) == record_id), "none")
    return Detail(
        rule=Rule(record=stored, disposition=disposition, current=current),
        events=events,
        pairs=_pairs(reader, stored),
    )


def _resolve(reader: LedgerReader, prefix: str) -> str:
    noun, separator, digits = prefix.strip().lower().rpartition(":")
    if separator and noun != _NOUN:
        raise InvalidInputError("id", prefix, f"Rules have ids of the form {_NOUN}:3fa2….")
    if not digits:
        raise InvalidInputError("id", prefix, "Give at least one digit of the rule's id.")
    found = reader.resolve(f"{_NOUN}:{digits}", _SHOWN)
    if not found:
        raise NotFoundError("id", prefix, "No rule begins so; `vrm knowledge list --all` shows them.")
    if len(found) > 1:
        raise AmbiguousIdError("id", prefix, f"Give more digits: {', '.join(short(each) for each in found)}.")
    return found[0]


def _events(reader: LedgerReader, record: MemoryRecord) -> tuple[tuple[str, LifecycleEvent], ...]:
    variant = str(record.scope_variant_id)
    stored = reader.find("knowledge-lifecycle-event", record.namespace, scope_variant_id=variant)
    loaded = ((item.id, item.load()) for item in stored)
    return tuple((key, event) for key, event in loaded if isinstance(event, LifecycleEvent))


def _pairs(reader: LedgerReader, record: MemoryRecord) -> tuple[LinkedPair, ...]:
    ids = {str(part) for link in record.links for part in (link.experience_id, link.comparator_id)}
    loaded = (item.load() for item in reader.get_many(ids).values())
    resolved = resolve_bundles(reader, [item for item in loaded if isinstance(item, Experience)])
    whole = {str(key): bundle for key, bundle in resolved.items() if not isinstance(bundle, NotABundle)}
    return tuple(
        LinkedPair(link=link, changed=whole.get(link.experience_id), baseline=whole.get(link.comparator_id))
        for link in record.links
    )


def _is_active(head: Head) -> bool:
    return head.disposition == Disposition.ACTIVE.value


def show_list(out: Console, found: Sequence[Rule]) -> None:
    """Print rules, each as a block that reads at 80 columns."""
    for rule in found:
        record = rule.record
        state = "" if rule.disposition == Disposition.ACTIVE.value else f" ({rule.disposition})"
        strength = record.strength
        facts = (
            ("action", f"{record.action.value} {_change(record)}"),
            ("effect", "\n".join(_effect(record.effect))),
            ("grade", f"{strength.grade.value}, {strength.support_count} for and {strength.counter_count} against"),
            ("scope", record.scope_description),
        )
        show_title(out, f"{record.id.partition(':')[2][:12]}  {record.claim}{state}")
        out.print(Padding(_grid(facts), (0, 0, 0, 2)))


def show_detail(out: Console, found: Detail) -> None:
    """Print the page of one rule: what it says, the history of its scope variant, its evidence link by link."""
    record = found.rule.record
    show_title(out, record.claim)
    out.print(str(record.id))
    out.print(_grid(_facts(found)))
    show_title(out, "History of the scope variant")
    history = (
        (
            event.event_type.value,
            "this one" if event.memory_id == record.id else short(event.memory_id),
            event.disposition.value,
            ", ".join(event.reasons),
        )
        for _, event in found.events
    )
    show_rows(out, ("event", "rule", "leads to", "reasons"), history)
    show_title(out, f"Evidence: {record.effect.metric.name} of baseline and changed run")
    header = ("relation", "root and seed", "baseline", "changed", "delta", "experience", "comparator")
    show_rows(out, header, (_evidence_row(pair, record.effect.metric.name) for pair in found.pairs))


def _grid(facts: Iterable[tuple[str, str]]) -> Table:
    made = Table.grid(padding=(0, 2))
    for name, value in facts:
        made.add_row(Text(name, style="dim"), Text(value))
    return made


def _facts(found: Detail) -> Iterator[tuple[str, str]]:
    record = found.rule.record
    effect, strength = record.effect, record.strength
    yield "state", found.rule.disposition + ("" if found.rule.current else ", not the head of its scope variant")
    yield "action", f"{record.action.value}: {_change(record)}"
    yield "scope", record.scope_description
    yield "mechanism", record.mechanism
    yield "effect", "\n".join(_effect(effect))
    yield "means", f"{_number(effect.baseline_mean)} before, {_number(effect.changed_mean)} after"
    yield (
        "units",
        (
            f"{effect.unit_count} roots, {effect.pair_count} pairs: {effect.improved_count} better, "
            f"{effect.worsened_count} worse, {effect.tied_count} tied"
        ),
    )
    if effect.p_value is not None and effect.adjusted_p_value is not None:
        yield "p", f"{_number(effect.p_value)}, {_number(effect.adjusted_p_value)} within its family"
    for guard in effect.guardrails:
        yield "guardrail", f"{guard.metric.name} {_signed(guard.mean_delta)} over {guard.unit_count} roots"
    grade = f"{strength.grade.value}, {strength.support_count} for and {strength.counter_count} against"
    yield "strength", f"{grade}; consistency {_number(strength.effect_consistency)}"
    yield "policy", f"{record.distillation_policy.policy_id} {record.distillation_policy.version}"


def _evidence_row(pair: LinkedPair, name: str) -> tuple[str, ...]:
    before, after = pair.metric(name)
    place = "?" if pair.changed is None else f"{pair.changed.attempt.dataset_root} {pair.changed.attempt.seed}"
    delta = "?" if before is None or after is None else f"{after - before:+.4g}"
    values = ("?" if value is None else f"{value:.4g}" for value in (before, after))
    ids = (each.partition(":")[2][:_DIGITS] for each in (pair.link.experience_id, pair.link.comparator_id))
    return (pair.link.relation.value, place, *values, delta, *ids)


def _change(record: MemoryRecord) -> str:
    knob = record.target.knob
    return f"{knob.name} {knob.from_value} -> {knob.to_value}"


def _effect(effect: EffectEstimate) -> Iterator[str]:
    yield f"{_signed(effect.mean_delta)} {effect.metric.name} ({effect.metric.direction.value})"
    for label, interval in (("mean", effect.mean_interval), ("new task", effect.prediction_interval)):
        if interval is not None:
            yield f"{_percent(interval)} % {label}: {_signed(interval.low)} to {_signed(interval.high)}"
    if effect.mean_interval is None:
        yield f"range: {_signed(effect.unit_range[0])} to {_signed(effect.unit_range[1])}"


def _percent(interval: Interval) -> str:
    return f"{float(interval.level) * 100:.3g}"


def _number(metric: str) -> str:
    return f"{float(metric):.4g}"


def _signed(metric: str) -> str:
    return f"{float(metric):+.4g}"
