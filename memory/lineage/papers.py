"""Papers held against a lineage: the values that their numbers may rest on (spec 003, principle 6).

Rules kept here:

- values are those of claims: the number that an entry points at, and, for a result, the numbers of the report that it
  rests on. A judge's score is none. What may not be used is kept beside with its reason, so that it is told as that;
- a context file grounds what it calls usable if the Ledger still holds each of its claims as the file has it, with a
  verified file of measurements, and no later event says that it failed. Files were read again when it was built;
- a context file is of one lineage: its claims are of one checkpoint and of nodes in its lineage, which is that of its
  best node by the reports in the Ledger, without what was erased.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Final

from memory.lineage.tree import Tree, open_tree
from policies.lineage.grounding import grounds_of
from policies.lineage.reading_policy import LineageReadingPolicy
from policies.lineage.scope import ancestors_of
from policies.lineage.standing import status_of
from policies.lineage.verified import Claim, VerifiedContext, WeighedClaim, why_withheld
from policies.papers.matching import Recorded
from policies.papers.prose import Form
from records.errors import IntegrityError, InvalidSourceError, NotFoundError, VrmError
from records.lineage import EntryKind, LineageEntry, NodeReport, ReproducibilityEvent
from store.ledger.port import LedgerReader

_MAX_BYTES: Final = 16 * 2**20
_FORMS: Final = {".md": Form.MARKDOWN, ".markdown": Form.MARKDOWN, ".txt": Form.MARKDOWN, ".tex": Form.LATEX}
_STALE: Final = "Build the context again: `vrm lineage context`."


def read_paper(path: Path) -> tuple[str, Form]:
    """Return the text of a paper, and its form by the end of its name.

    Raises:
        InvalidSourceError: it is no such file, cannot be read, is too large or no UTF-8.
    """
    form = _FORMS.get(path.suffix.lower())
    if form is None:
        raise InvalidSourceError(
            str(path), f"a name that ends in {path.suffix or 'nothing'}", "Give .md, .txt or .tex."
        )
    try:
        return _read(path).decode("utf-8-sig"), form
    except UnicodeDecodeError as error:
        raise InvalidSourceError(str(path), f"no UTF-8 at byte {error.start}", "Write it as UTF-8.") from error


def _read(path: Path) -> bytes:
    try:
        data = path.read_bytes()
    except OSError as error:
        raise InvalidSourceError(str(path), str(error), "Name a file that can be read.") from error
    if len(data) > _MAX_BYTES:
        raise InvalidSourceError(str(path), f"{len(data)} bytes", f"Files of up to {_MAX_BYTES} bytes are taken.")
    return data


def recorded_values(claims: Iterable[WeighedClaim]) -> list[Recorded]:
    """Return the values that claims stand for, in the order of the claims."""
    return [value for each in claims for value in _values(each.entry, each.report, each.withheld)]


def _values(entry: LineageEntry, report: NodeReport | None, withheld: str) -> list[Recorded]:
    pointer = entry.metric
    found: list[tuple[str, str, str | None]] = [] if pointer is None else [(pointer.name, pointer.value, pointer.unit)]
    named = pointer.name if pointer is not None else None
    if report is not None and entry.entry_kind is EntryKind.EXPERIMENT_RESULT:
        found += [(each.name, each.value, None) for each in report.metrics if each.name != named]
    return [
        Recorded(metric=name, value=value, unit=unit, entry_id=str(entry.id), node_id=entry.node_id, withheld=withheld)
        for name, value, unit in found
        if not name.startswith("_")
    ]


def read_context(path: Path) -> VerifiedContext:
    """Return the verified context of a file.

    Raises:
        InvalidSourceError: it cannot be read, or is no verified context.
    """
    try:
        return VerifiedContext.load(_read(path))
    except InvalidSourceError:
        raise
    except VrmError as error:
        raise InvalidSourceError(str(path), f"{error.field}: {error.value}", f"{error.remedy} {_STALE}") from error


def values_of_context(
    reader: LedgerReader, namespace: str, context: VerifiedContext, policy: LineageReadingPolicy
) -> list[Recorded]:
    """Return the values that the claims of a context stand for, as the Ledger holds them.

    Raises:
        NotFoundError: the Ledger does not hold one of its claims, or retention denies it.
        IntegrityError: a claim says something else than its entry, or the lineage is not that of the best node.
    """
    if not context.claims:
        return []
    rows = reader.get_many([each.entry_id for each in context.claims])
    loaded = {key: row.load() for key, row in rows.items() if row.namespace == namespace}
    names = {each.checkpoint_id for each in loaded.values() if isinstance(each, LineageEntry)}
    if len(names) > 1:
        raise IntegrityError("checkpoint", ", ".join(sorted(names)), f"A context is of one checkpoint. {_STALE}")
    if not names:
        raise NotFoundError("claim", context.claims[0].entry_id, f"The Ledger has no such entry. {_STALE}")
    tree = open_tree(reader, namespace, names.pop())
    entries, latest = {str(each.id): each for each in tree.entries}, tree.latest()
    usable = {each.entry_id for each in context.usable_for_claims}
    found: list[Recorded] = []
    for claim in context.claims:
        entry = entries.get(claim.entry_id)
        if entry is None:
            raise NotFoundError("claim", claim.entry_id, f"The Ledger has no such entry that may be read. {_STALE}")
        _require_same(claim, entry)
        report = tree.reports.get(entry.node_id)
        withheld = _withheld_now(tree, entry, latest, policy) or ("" if claim.entry_id in usable else "not_usable")
        found += _values(entry, report, withheld)
    _require_lineage(context, tree)
    return found


def _require_lineage(context: VerifiedContext, tree: Tree) -> None:
    """Refuse a lineage that is not that of its best node, and claims of nodes outside it."""
    best = context.best_node_id
    stated = (*ancestors_of(tree.reports, best), best)
    if context.lineage != tuple(each for each in stated if each not in tree.erased):
        raise IntegrityError(
            "lineage", ", ".join(context.lineage), f"By the Ledger it is {', '.join(stated)}. {_STALE}"
        )
    outside = next((each for each in context.claims if each.node_id not in context.lineage), None)
    if outside is not None:
        raise IntegrityError("claim", outside.entry_id, f"{outside.node_id} is not in the lineage. {_STALE}")


def _withheld_now(
    tree: Tree, entry: LineageEntry, latest: dict[str, ReproducibilityEvent], policy: LineageReadingPolicy
) -> str:
    """Return why an entry may not be used, by the Ledger alone; empty where it may."""
    as_written = {(entry.node_id, each.relative_path): each.sha256 for each in entry.artifacts}
    grounds = grounds_of(entry, tree.reports.get(entry.node_id), as_written, policy.grounding)
    status = status_of(str(entry.id), latest)
    return why_withheld(status, grounded=bool(grounds), known=str(entry.id) not in tree.unknown)


def _require_same(claim: Claim, entry: LineageEntry) -> None:
    told = [(each.path, each.sha256, each.role) for each in claim.artifact_refs]
    held = [(each.relative_path, each.sha256, each.role) for each in entry.artifacts]
    same = (claim.node_id, claim.text, claim.kind, told) == (entry.node_id, entry.text, entry.entry_kind, held)
    if not same:
        raise IntegrityError("claim", claim.entry_id, f"The file says something else than the Ledger. {_STALE}")
