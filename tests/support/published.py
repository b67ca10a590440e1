"""Shipped published tables as evidence: every row through the importer, then tabulated and judged."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from importers.published_table import HPOBENCH_MLP, PublishedTable, read_published_table, trials
from memory.evidence import bundle_records
from policies.bundles import cross_validate
from policies.contrasts import ContrastTable, tabulate
from policies.distillation_policy import distillation_policy
from policies.distiller import VariantVerdict, judge
from records.base import Record
from records.evidence import Experience, VerifiedEvidenceBundle
from records.ids import ScopeVariantId
from store.artifacts import ArtifactStore

DATA: Final = HPOBENCH_MLP.parent
POLICY: Final = distillation_policy()


@dataclass(frozen=True)
class Judged:
    """A table, its bundles, and what the policy makes of them."""

    table: PublishedTable
    bundles: tuple[VerifiedEvidenceBundle, ...]
    contrasts: ContrastTable
    verdicts: Mapping[ScopeVariantId, VariantVerdict]

    def of_task_scope(self) -> list[VariantVerdict]:
        """Return the verdicts for the task scope, whose units are roots."""
        return [each for each in self.verdicts.values() if not each.variant.bound]

    def of_one_task(self) -> list[VariantVerdict]:
        """Return the verdicts bound to one evaluation task, whose units are its seeds or runs."""
        return [each for each in self.verdicts.values() if each.variant.of_one_task]


@lru_cache
def judged(name: str) -> Judged:
    """Return a shipped table as evidence, judged under the present policy; tests only read it."""
    table = read_published_table(DATA / name)
    bundles = evidence_of(table)
    contrasts = tabulate(bundles, POLICY)
    return Judged(table, bundles, contrasts, judge(contrasts, POLICY))


def evidence_of(table: PublishedTable) -> tuple[VerifiedEvidenceBundle, ...]:
    """Return a table's rows as bundles, in the table's order."""
    artifacts = ArtifactStore(f"memory://{table.manifest.table_id}")  # nothing here waits for a disk
    return tuple(_bundle(bundle_records(trial)) for trial in trials(table, "test", artifacts))


def _bundle(records: tuple[Record, ...]) -> VerifiedEvidenceBundle:
    (experience,) = (record for record in records if isinstance(record, Experience))
    bundle = cross_validate(experience, {str(record.id): record for record in records})
    assert isinstance(bundle, VerifiedEvidenceBundle), bundle
    return bundle
