"""Heads as folds, and the chains of records: what a scope variant's events lead to, step by step (VRM-L01, L02, W08).

The events are streamed one scope variant after the other, so memory is bounded by the longest chain.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby, islice
from typing import Final

from memory.fsck.case import Case, Chunk
from memory.fsck.codes import Code
from policies.lifecycle_policy import LifecycleFact, LifecycleHead, fold
from records.appends import Head
from records.errors import VrmError
from records.knowledge import EventType, GovernedRecord, LifecycleEvent, MemoryRelation, RelationKind

_GROUP: Final = 100
Chain = tuple[str, list[LifecycleFact]]


def check_memory(case: Case, chunk: Chunk) -> None:
    """Compare the events, records and relations of a stretch of journal with the records that they are about."""
    _check_events(case, chunk)
    _check_priors(case, chunk)
    _check_relations(case, chunk)


def check_chains(case: Case, namespace: str) -> None:
    """Fold every scope variant's events and compare with the stored heads, in both directions."""
    chains = _chains(case, case.scan.chains(namespace))
    while group := dict(islice(chains, _GROUP)):
        heads = case.reader.variant_heads(namespace, group)
        for variant, facts in group.items():
            _check_chain(case, variant, facts, heads.get(variant))
        case.progress(f"heads of {namespace}", case.findings.checked["heads"], 0)
    for head in case.scan.stray_heads(namespace):
        _compare(case, head.scope_variant_id, head, None)


def _chains(case: Case, listed: Iterator[tuple[str, str]]) -> Iterator[Chain]:
    for variant, entries in groupby(listed, key=lambda entry: entry[0]):
        facts: list[LifecycleFact] = []
        while group := [event_id for _, event_id in islice(entries, _GROUP)]:
            events = case.read(group, LifecycleEvent).values()
            # An event that says another variant than its column is another check's finding.
            facts += [LifecycleFact.of(event) for event in events if event.scope_variant_id == variant]
        yield variant, facts


def _check_chain(case: Case, variant: str, facts: Iterable[LifecycleFact], head: Head | None) -> None:
    try:
        folded = fold(facts)
    except VrmError as error:
        case.findings.add(Code.LIFECYCLE_CHAIN, variant, str(error))
    else:
        _compare(case, variant, head, folded.get(variant))


def _compare(case: Case, variant: str, head: Head | None, wanted: LifecycleHead | None) -> None:
    found = None if head is None else (head.event_id, head.memory_id, head.disposition, head.version)
    follows = None
    if wanted is not None:
        follows = (wanted.event_id, wanted.memory_id, wanted.disposition.value, wanted.length)
    if found != follows:
        case.findings.add(Code.HEAD_NOT_FOLD, variant, f"the head is {found}, the events lead to {follows}")
    case.findings.checked["heads"] += head is not None


def _check_events(case: Case, chunk: Chunk) -> None:
    events = chunk.of(LifecycleEvent)
    records = case.read((event.memory_id for event in events.values()), GovernedRecord)
    for key, event in events.items():
        record = records.get(str(event.memory_id))
        if record is None:
            continue
        own = (record.scope_variant_id, record.family_id)
        if own != (event.scope_variant_id, event.family_id):
            case.findings.add(Code.EVENT_RECORD, key, f"{event.memory_id} belongs to {' of '.join(own)}")


def _check_priors(case: Case, chunk: Chunk) -> None:
    """A record follows one of its own scope variant."""
    records = {key: record for key, record in chunk.of(GovernedRecord).items() if record.prior_memory_id is not None}
    priors = case.read((record.prior_memory_id for record in records.values()), GovernedRecord)
    for key, record in records.items():
        prior = priors.get(str(record.prior_memory_id))
        if prior is not None and prior.scope_variant_id != record.scope_variant_id:
            met = f"its prior {record.prior_memory_id} belongs to {prior.scope_variant_id}"
            case.findings.add(Code.MEMORY_CHAIN, key, met)


def _check_relations(case: Case, chunk: Chunk) -> None:
    """What supersedes, refines or implements came later, so relations form no circle; an event says so."""
    relations = chunk.of(MemoryRelation)
    if not relations:
        return
    ends = [end for each in relations.values() for end in (each.source_memory_id, each.target_memory_id)]
    records, places = case.read(ends, GovernedRecord), case.places(ends)
    events = case.read((each.event_id for each in relations.values()), LifecycleEvent)
    for key, relation in relations.items():
        source, target = str(relation.source_memory_id), str(relation.target_memory_id)
        event = events.get(str(relation.event_id))
        if event is None or source not in records or target not in records:
            continue  # a reference that leads nowhere is another check's finding
        if event.memory_id not in (source, target):
            case.findings.add(Code.MEMORY_CHAIN, key, f"its event is about {event.memory_id}")
        if relation.relation is RelationKind.CONTESTS:
            continue
        if places[source].position <= places[target].position:
            case.findings.add(Code.MEMORY_CHAIN, key, f"{source} came before the record that it {relation.relation}")
        if relation.relation is not RelationKind.SUPERSEDES:
            continue
        if records[source].scope_variant_id != records[target].scope_variant_id:
            case.findings.add(Code.MEMORY_CHAIN, key, "it joins records of two scope variants")
        if (event.memory_id, event.event_type) != (target, EventType.SUPERSEDED):
            case.findings.add(Code.MEMORY_CHAIN, key, f"its event did not supersede {target}")
