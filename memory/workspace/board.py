"""The claims of a workspace with where they stand: a fold of their events, read from the Ledger (spec 004).

Rules kept here: nothing is kept that the events do not say; a workspace sees its own claims alone.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

from policies.workspace.arrows import ClaimHead, fold
from policies.workspace.lifecycle import HeldClaim
from records.base import Record
from records.errors import AmbiguousIdError, IntegrityError, NotFoundError
from records.models import noun_of
from records.workspace import ClaimEvent, WorkspaceClaim
from store.ledger.port import LedgerReader

R = TypeVar("R", bound=Record)


def heads_of(reader: LedgerReader, namespace: str, claim_ids: Iterable[str]) -> dict[str, ClaimHead]:
    """Return where these claims stand; one without an event is left out.

    Raises:
        IntegrityError: the events of a claim are no chain.
    """
    wanted = list(dict.fromkeys(claim_ids))
    stored = reader.find(ClaimEvent.kind.noun, namespace, claim_id=wanted) if wanted else []
    return fold(event for each in stored if isinstance(event := each.load(), ClaimEvent))


def board_of(reader: LedgerReader, namespace: str, workspace: str) -> dict[str, HeldClaim]:
    """Return every claim of a workspace with where it stands, by id, in the order in which they were added.

    Raises:
        IntegrityError: a claim has no events, or they are no chain.
    """
    stored = reader.find(WorkspaceClaim.kind.noun, namespace, workspace=workspace)
    events = reader.find(ClaimEvent.kind.noun, namespace, workspace=workspace) if stored else []
    heads = fold(event for each in events if isinstance(event := each.load(), ClaimEvent))
    made = {}
    for each in stored:
        claim, head = each.load(), heads.get(each.id)
        if not isinstance(claim, WorkspaceClaim) or head is None:
            raise IntegrityError("workspace claim", each.id, "It has no event; run fsck on the ledger.")
        made[each.id] = HeldClaim(claim, head)
    return made


def history_of(reader: LedgerReader, claim: WorkspaceClaim) -> list[ClaimEvent]:
    """Return the events of a claim in journal order."""
    stored = reader.find(ClaimEvent.kind.noun, claim.namespace, claim_id=str(claim.id))
    return [event for each in stored if isinstance(event := each.load(), ClaimEvent)]


def one_claim(reader: LedgerReader, namespace: str, wanted: str) -> WorkspaceClaim:
    """Return a claim of a namespace by any unambiguous beginning of its id.

    Raises:
        NotFoundError: none begins so.
        AmbiguousIdError: several do.
    """
    return one_of(reader, namespace, wanted, WorkspaceClaim, f"{namespace} has none; `vrm claims list` shows them.")


def one_of(reader: LedgerReader, namespace: str, wanted: str, model: type[R], remedy: str) -> R:
    """Return a record of a model in a namespace by any unambiguous beginning of its id; `remedy` is for none.

    Raises:
        NotFoundError: none begins so.
        AmbiguousIdError: several do.
    """
    noun, prefix = model.kind.noun, wanted.strip().lower()
    name = noun.removeprefix("workspace-").removeprefix("claim-")
    found = [each for each in reader.resolve(prefix) if noun_of(each) == noun] if prefix else []
    if len(found) > 1:
        raise AmbiguousIdError(name, wanted, f"It begins {len(found)} or more of them: {', '.join(found[:3])}.")
    stored = reader.get(found[0]) if found else None
    record = None if stored is None else stored.load()
    if not isinstance(record, model) or record.namespace != namespace:
        raise NotFoundError(name, wanted, remedy)
    return record
