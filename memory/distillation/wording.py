"""Wordings of a distiller: one draft for each verdict of a snapshot, whoever of its items asks first."""

from __future__ import annotations

from collections import Counter

from policies.distiller import VariantVerdict
from policies.drafting.wording import REFUSED, KnowledgeDraftingAdapter, StructuredTemplate, Wording, worded
from records.ids import EvidenceSnapshotId, ScopeVariantId


class Drafter:
    """Words verdicts through one adapter, and says the same of a verdict each time.

    The id of a candidate covers its wording, so the item that leads a variant and those that it covers, and an item
    that is proposed again after a head moved, must all find the same words. A failed draft is kept like any other:
    within a snapshot it is not asked for again.
    """

    def __init__(self, adapter: KnowledgeDraftingAdapter | None = None) -> None:
        """Word through an adapter; without one the template words everything."""
        self._adapter = adapter or StructuredTemplate()
        self._worded: dict[tuple[EvidenceSnapshotId, ScopeVariantId], Wording] = {}

    @property
    def identity(self) -> str:
        """The identity of the adapter, which batches name."""
        return self._adapter.identity

    @property
    def outcomes(self) -> dict[str, int]:
        """How many verdicts were worded by whom, and how many drafts were refused for which reason."""
        found = Counter(wording.adapter for wording in self._worded.values())
        codes = (finding.code for wording in self._worded.values() for finding in wording.findings)
        found.update(code for code in codes if code.startswith(REFUSED))
        return dict(sorted(found.items()))

    def word(self, snapshot_id: EvidenceSnapshotId, verdict: VariantVerdict) -> Wording:
        """Return the wording of a verdict under a snapshot."""
        key = snapshot_id, verdict.variant.scope_variant_id
        if key not in self._worded:
            self._worded[key] = worded(verdict, self._adapter)
        return self._worded[key]
