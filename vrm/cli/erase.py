"""`vrm erase`: the material of a record, or an artifact, for ever."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from records.errors import InvalidInputError
from vrm.cli.connection import Connection, OpenStores, connection
from vrm.cli.output import AsJson, command, console, show_json, waiting_for

if TYPE_CHECKING:
    from memory.erasing import ErasurePlan, ErasureRequest
    from records.retention import RetentionTombstone


@command
def erase(
    context: typer.Context,
    target: Annotated[
        str, typer.Argument(help="Any unambiguous beginning of a record's id, or the whole digest of an artifact.")
    ],
    *,
    reason: Annotated[
        str,
        typer.Option(help="privacy_request, legal_order, licence_withdrawn, security_incident or retention_expired."),
    ],
    incident: Annotated[str, typer.Option(help="A name for the case; the same name goes on with what it began.")],
    namespace: Annotated[
        str | None, typer.Option(help="The namespace of an artifact that several or no records name.")
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Erase; nothing brings it back.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what is affected.")] = False,
    as_json: AsJson = False,
) -> None:
    """Erase the material of a record, or an artifact, for ever, and prove it.

    First the target is denied: no recall, snapshot or rule rests on it from then on. Then its bytes go, with those of
    every index that holds it; bytes that another record needs stay. Proofs are published, and a tombstone closes the
    case. The rows of the Ledger stay. If somebody needs the bytes, the case stays open and says who; `vrm recover`
    finishes it later.

    \b
    Examples:
      vrm erase observation:3fa2 --reason privacy_request --incident case-7 --dry-run
      vrm erase memory-record:81c0 --reason licence_withdrawn --incident case-8 --yes
    """  # noqa: D301  # \b is an instruction to the help formatter, not an escape
    if yes == dry_run:
        met = "with --dry-run" if yes else "not given"
        raise InvalidInputError("--yes", met, "Give --dry-run to see what is affected, or --yes to erase it.")
    asked = _request(target, reason, incident, namespace)
    joined = connection(context)
    with joined.stores() as stores, waiting_for("Erasing", quiet=as_json):
        planned, tombstone = _looked(stores, asked) if dry_run else _erased(joined, stores, asked)
    if as_json:
        show_json(_told(planned, tombstone))
    else:
        _print(planned, tombstone)


def _request(target: str, reason: str, incident: str, namespace: str | None) -> ErasureRequest:
    from memory.erasing import ErasureRequest  # noqa: PLC0415  # help does without
    from records.retention import ErasureReason  # noqa: PLC0415  # as above

    try:
        why = ErasureReason(reason)
    except ValueError:
        legal = ", ".join(ErasureReason)
        raise InvalidInputError("--reason", reason, f"Reasons: {legal}.") from None
    return ErasureRequest(target=target, reason=why, incident=incident, namespace=namespace)


def _looked(stores: OpenStores, asked: ErasureRequest) -> tuple[ErasurePlan, RetentionTombstone | None]:
    from actors.settings import now  # noqa: PLC0415  # as above
    from memory.erasing import plan  # noqa: PLC0415  # as above

    with stores.ledger.reading() as reader:
        return plan(reader, stores.runtime, stores.artifacts, asked, now()), None


def _erased(
    joined: Connection, stores: OpenStores, asked: ErasureRequest
) -> tuple[ErasurePlan, RetentionTombstone | None]:
    from actors.settings import now  # noqa: PLC0415  # as above
    from memory.erasing import ErasurePorts, RetentionOfficer  # noqa: PLC0415  # as above
    from memory.spine import Spine  # noqa: PLC0415  # as above

    planned, _ = _looked(stores, asked)  # what is refused is refused before anything is started
    owner = joined.run_owner(stores)
    officer = RetentionOfficer(
        ErasurePorts(
            ledger=stores.ledger,
            runtime=stores.runtime,
            artifacts=stores.artifacts,
            owner=owner,
            spine=Spine(stores.artifacts, owner, joined.coordinator(stores)),
            clock=now,
        )
    )
    return planned, officer.finish(officer.begin(asked))


def _told(planned: ErasurePlan, tombstone: RetentionTombstone | None) -> dict[str, Any]:
    intent = planned.intent
    return {
        "target": intent.target_id,
        "namespace": intent.namespace,
        "incident": intent.incident,
        "reason": intent.reason.value,
        "begun_before": planned.begun,
        "retracts": planned.retraction is not None,
        "index_builds": [str(part.index_build_id) for part in intent.affected_indexes],
        "erased_bytes": intent.erased_bytes,
        "kept_bytes": [{"digest": need.digest, "needed_by": need.holder} for need in planned.kept],
        "tombstone": None if tombstone is None else str(tombstone.id),
    }


def _print(planned: ErasurePlan, tombstone: RetentionTombstone | None) -> None:
    out, found = console(), _told(planned, tombstone)
    for name in ("target", "namespace", "incident", "reason"):
        out.print(f"{name:<12}{found[name]}", markup=False, soft_wrap=True)
    lines = [f"denied for ever: {found['target']}"]
    lines += ["the rule is retracted"] if found["retracts"] else []
    lines += [f"invalidated: {each}" for each in found["index_builds"]]
    lines += [f"bytes erased: {each}" for each in found["erased_bytes"]]
    lines += [f"bytes kept: {each['digest']}, needed by {each['needed_by']}" for each in found["kept_bytes"]]
    for line in lines:
        out.print(f"  {line}", markup=False, soft_wrap=True)
    ended = "Dry run: nothing was erased." if tombstone is None else f"Erased. Tombstone {found['tombstone']}."
    out.print(ended, markup=False, soft_wrap=True)
