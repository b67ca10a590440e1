"""The artifact references by which a source holds its bytes: made, and released by an erasure (spec 4.15, 6.2, 15).

A source holds its bytes for as long as it may be read. Once it is denied nothing of it is ever read again, so its own
references let go; whoever else holds the same bytes goes on holding them.
"""

from __future__ import annotations

from collections.abc import Iterable

from records.canonical import canonical_bytes
from records.reference import ReferenceSource
from records.retention import ErasureIntent
from records.runtime import Command, Create, Move, reference_id
from records.states import Event, Machine, Phase
from store.ledger.port import LedgerReader
from store.runtime.port import RuntimeReader


def reference_owner(source_id: str) -> str:
    """Return the owner of the artifact references by which a source holds its bytes."""
    return source_id


def holding(source: ReferenceSource) -> list[Command]:
    """Return the commands by which a source holds its bytes; given again they change nothing."""
    owner = reference_owner(str(source.id))
    commands = []
    for digest in source.artifacts:
        reference = reference_id(owner, digest)
        body = canonical_bytes({"owner": owner, "digest": digest}).decode()
        made = Create(machine=Machine.REFERENCE, id=reference, run_id=None, phase=Phase.ACTIVE, body=body)
        commands.append(Command(key=(Machine.REFERENCE, reference), creates=(made,)))
    return commands


def denied_sources(reader: LedgerReader, intent: ErasureIntent) -> list[ReferenceSource]:
    """Return the sources of the erasure's namespace that it denies: its target, and those whose bytes it removes."""
    stored = reader.find(ReferenceSource.kind.noun, intent.namespace)
    sources = [record for each in stored if isinstance(record := each.load(), ReferenceSource)]
    gone = {intent.target_id, *intent.erased_bytes}
    return [each for each in sources if not gone.isdisjoint({str(each.id), *each.artifacts})]


def releasing(runtime: RuntimeReader, sources: Iterable[ReferenceSource]) -> list[Command]:
    """Return the commands by which sources let go of their bytes; what was released before needs none."""
    names = [reference_id(reference_owner(str(each.id)), digest) for each in sources for digest in each.artifacts]
    held = runtime.subjects(Machine.REFERENCE, names) if names else {}
    return [
        Command(
            key=(Machine.REFERENCE, each.id),
            key_phase=Phase.RELEASED,
            moves=(Move.of(each, Event.RELEASE),),
        )
        for each in held.values()
        if each.phase is Phase.ACTIVE
    ]
