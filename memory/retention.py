"""What retention denies now, and what a record rests on (spec 4.15, 8.1, 8.2, 15).

Rules kept here:

- an erasure denies its target and everything that it says is affected, from the position of its intent on; a tombstone
  goes on denying, so nothing is ever allowed again;
- what a record rests on is every id and digest that it names, and what those in turn are made of: an Experience its
  chain, an Observation its artifacts, a memory record its evidence, a snapshot its members, an index its sources, a
  reference source its bytes, a Reference Context its cards and the index that it was found in, a node's report its
  bytes, an entry of lineage memory the report and the entry that it names. The Evidence Snapshot that a plan was made
  from is no source by itself: members that the plan did not read do not count. That of an index or a Recall Input is,
  for all of it is there to be shown;
- to come after something is not to rest on it: the record before, the event before, the report of a parent, relations
  and events of a chain name what was there, and a rule may be learnt anew after the one before it was erased;
- to say where a scope variant stands is not to rest on what stands there: the report of a retraction names the record
  that it ends, and must be able to;
- a namespace without retention records costs one look at its frontier.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from policies.retention import check_retention
from records.appends import Append, NamespaceHead
from records.base import Record
from records.canonical import parse_canonical
from records.cards import EpisodicCard
from records.decisions import BlockedTarget, RecallContext, RetentionCheck
from records.ids import RecallInputId
from records.ingestion import EvidenceSnapshot
from records.knowledge import LifecycleEvent, MemoryRelation
from records.models import noun_of
from records.outcomes import RecallOutcome, TerminalReason
from records.reference import ReferenceContext, ReferenceIndexBuild, ReferenceSource
from records.retention import ErasureIntent, RetentionTombstone
from records.snapshots import IndexBuild, KnowledgeSnapshot, RecallInput
from store.ledger.port import LedgerReader

REVOKED: Final = "retention_revoked"
"""Why something is left out or ended that retention denies, or something that it is made of."""

_NAMED: Final = re.compile(r"([a-z][a-z-]*:)?[0-9a-f]{64}")
_OBSERVATION: Final = "observation"
_NO_SOURCES: Final = frozenset({"prior_memory_id", "expected_prior", "active_view", "parent_report_id"})
"""Fields that name what was there before, or where variants stand."""
_FOLLOWED: Final = frozenset(
    {
        "experience", _OBSERVATION, "memory-record", "knowledge-snapshot", "memory-index-build",
        "recall-input-snapshot", "reference-source", "reference-index-build", "reference-context", "node-report",
        "lineage-entry",
    }
)  # fmt: skip


def denials(reader: LedgerReader, namespace: str) -> tuple[BlockedTarget, ...]:
    """Return what retention denies in a namespace: the targets of intents and tombstones, and what is affected."""
    return denied_at(reader, reader.namespace_head(namespace))


def denied_at(reader: LedgerReader, head: NamespaceHead) -> tuple[BlockedTarget, ...]:
    """Return the same for a namespace whose head was read already, in the moment of `reader`."""
    if head.retention == 0:
        return ()
    found: dict[str, str] = {}
    for noun in (ErasureIntent.kind.noun, RetentionTombstone.kind.noun):
        for stored in reader.find(noun, head.namespace):
            record = stored.load()
            if isinstance(record, ErasureIntent):
                found |= {str(part.index_build_id): part.digest for part in record.affected_indexes}
                found |= {part.sha256: part.sha256 for part in record.affected_artifacts}
            if isinstance(record, ErasureIntent | RetentionTombstone):
                found[record.target_id] = record.target_digest
    return tuple(BlockedTarget(target_id=target, digest=digest) for target, digest in sorted(found.items()))


def denied_experiences(reader: LedgerReader, namespace: str, experience_ids: Sequence[str]) -> dict[str, str]:
    """Return by Experience what is denied of it, itself or what it is made of; one of which nothing is, is left out."""
    denied = {target.target_id for target in denials(reader, namespace)}
    if not denied:
        return {}
    own = _names_in(reader, experience_ids)
    observed = _names_in(reader, {name for names in own.values() for name in names if noun_of(name) == _OBSERVATION})
    found = {}
    for key, names in own.items():
        met = denied & names.union(*(observed[name] for name in names if name in observed))
        if met:
            found[key] = min(met)
    return found


def _names_in(reader: LedgerReader, record_ids: Iterable[str]) -> dict[str, set[str]]:
    """Return the ids and digests in records, by the records' ids, which are among them."""
    stored = reader.get_many(record_ids)
    return {key: {key, *named(parse_canonical(item.payload))} for key, item in stored.items()}


def input_sources(
    recall_input: RecallInput,
    snapshot: KnowledgeSnapshot,
    builds: Iterable[IndexBuild],
    evidence: EvidenceSnapshot | None = None,
) -> frozenset[str]:
    """Return every id and digest of a Recall Input that retention may deny, without loading any content.

    These are the input, its snapshots, builds, artifacts, members and events; evidence of a rule is behind the builds,
    which an erasure names as affected.
    """
    named = {str(recall_input.id), str(snapshot.id)}
    if evidence is not None:
        named.update([str(evidence.id), *(str(item.experience_id) for item in evidence.members)])
    named.update(*((str(build.id), build.artifact.sha256) for build in builds))
    return frozenset(named.union(*((str(item.memory_id), str(item.event_id)) for item in snapshot.members)))


def check_input(reader: LedgerReader, namespace: str, recall_input_id: RecallInputId) -> RetentionCheck:
    """Return the retention check of a Recall Input at the current frontier, as recall itself makes it."""
    head = reader.namespace_head(namespace)
    denied = denied_at(reader, head)
    sources = _sources(reader, recall_input_id) if denied else frozenset()
    return check_retention(head, (each for each in denied if each.target_id in sources))


def _sources(reader: LedgerReader, recall_input_id: RecallInputId) -> frozenset[str]:
    stored = reader.get(recall_input_id)
    recall_input = None if stored is None else stored.load()
    if not isinstance(recall_input, RecallInput):
        return frozenset()
    wanted = [recall_input.knowledge_snapshot_id, *(each.index_build_id for each in recall_input.index_builds)]
    wanted += [recall_input.evidence_snapshot_id] if recall_input.evidence_snapshot_id is not None else []
    loaded = [item.load() for item in reader.get_many(wanted).values()]
    builds = [record for record in loaded if isinstance(record, IndexBuild)]
    snapshot = next((record for record in loaded if isinstance(record, KnowledgeSnapshot)), None)
    evidence = next((record for record in loaded if isinstance(record, EvidenceSnapshot)), None)
    return frozenset() if snapshot is None else input_sources(recall_input, snapshot, builds, evidence)


def revoked(reader: LedgerReader, append: Append) -> RetentionCheck | None:
    """Return the check that denies something that an append rests on, or None where nothing of it is denied."""
    head = reader.namespace_head(append.namespace)
    denied = denied_at(reader, head)
    if not denied:
        return None
    resting = (record for record in append.records if not isinstance(record, MemoryRelation | LifecycleEvent))
    shown = any(isinstance(record, IndexBuild | RecallInput) for record in append.records)
    sources = reachable(reader, (name for record in resting for name in named(record.as_json())), episodes=shown)
    blocked = [each for each in denied if each.target_id in sources]
    return check_retention(head, blocked) if blocked else None


def reachable(reader: LedgerReader, names: Iterable[str], *, episodes: bool = False) -> frozenset[str]:
    """Return ids and digests with everything that they rest on; with `episodes` an Evidence Snapshot on its members."""
    seen: set[str] = set()
    fresh = set(names)
    followed = _FOLLOWED | {"evidence-snapshot"} if episodes else _FOLLOWED
    while fresh:
        seen |= fresh
        stored = reader.get_many(sorted(name for name in fresh if noun_of(name) in followed))
        followed = _FOLLOWED | {"evidence-snapshot"}  # from here on an index or an input has named it
        fresh = {name for item in stored.values() for name in named(parse_canonical(item.payload))} - seen
    return frozenset(seen)


def affected_indexes(reader: LedgerReader, namespace: str, target_id: str) -> list[IndexBuild]:
    """Return the index builds that hold something of a target, sorted by id."""
    stored = reader.find("memory-index-build", namespace)
    builds = [build for item in stored if isinstance(build := item.load(), IndexBuild)]
    found = [build for build in builds if target_id in reachable(reader, [str(build.id)])]
    return sorted(found, key=lambda build: build.id)


def affected_references(reader: LedgerReader, namespace: str, target_id: str) -> list[Record]:
    """Return the indexes and contexts that hold something of a reference source, or of bytes of one."""
    stored = reader.find(ReferenceSource.kind.noun, namespace)
    sources = [record for each in stored if isinstance(record := each.load(), ReferenceSource)]
    held = {str(each.id) for each in sources if target_id in {str(each.id), *each.artifacts}}
    made: list[Record] = []
    for noun in (ReferenceIndexBuild.kind.noun, ReferenceContext.kind.noun) if held else ():
        for each in reader.find(noun, namespace):
            match each.load():
                case ReferenceIndexBuild() as build if not held.isdisjoint(part.source_id for part in build.members):
                    made.append(build)
                case ReferenceContext() as context if not held.isdisjoint(card.source_id for card in context.cards):
                    made.append(context)
                case _:
                    pass
    return made


def affected_sections(reader: LedgerReader, namespace: str, target_id: str) -> list[str]:
    """Return the digests of the prompt sections that show something of a target, and of what may repeat them, sorted.

    A section holds what its cards say, so it rests on the rules, procedures and Experiences of its cards, and on
    nothing else of the Recall Input that they were found in. What an actor said that is no answer is kept as it stands,
    and may quote the section that it was given.
    """
    resting: dict[str, bool] = {}

    def rests(name: str) -> bool:
        if name not in resting:
            resting[name] = target_id == name or target_id in reachable(reader, [name])
        return resting[name]

    contexts = (each.load() for each in reader.find(RecallContext.kind.noun, namespace))
    shown = [each for each in contexts if isinstance(each, RecallContext) and any(map(rests, _of_cards(each)))]
    sections = {each.rendered_digest for each in shown}
    return sorted(sections.union(_malformed(reader, namespace, [str(each.intent_id) for each in shown])))


def _malformed(reader: LedgerReader, namespace: str, intent_ids: Sequence[str]) -> Iterator[str]:
    for stored in reader.find(RecallOutcome.kind.noun, namespace, intent_id=intent_ids) if intent_ids else ():
        outcome = stored.load()
        if isinstance(outcome, RecallOutcome) and outcome.terminal_reason is TerminalReason.ACTOR_OUTPUT_MALFORMED:
            yield from () if outcome.executed_actor is None else (outcome.executed_actor.response_digest,)


def _of_cards(context: RecallContext) -> Iterator[str]:
    for item in context.items:
        card = item.card
        yield str(card.experience_id if isinstance(card, EpisodicCard) else card.memory_id)


def named(value: Any) -> Iterator[str]:
    """Yield every id and digest in JSON values, but for what is no source."""
    match value:
        case str():
            if _NAMED.fullmatch(value):
                yield value
        case dict():
            for key, item in value.items():
                if key not in _NO_SOURCES:
                    yield from named(item)
        case list() | tuple():
            for item in value:
                yield from named(item)
        case _:
            pass
