"""From a published table to finished trials: evidence of kind `published_record`.

Rules kept here:

- a table is read whole and checked whole before the first trial is made (`importers.table_reader`);
- nothing in a trial depends on when or where it is imported: its times are the time of publication, its ids follow
  from manifest, catalog and row. Importing twice is a replay (docs/adr/0050);
- each trial leaves two artifacts behind: the exact bytes of its row, and the table that the row stands in;
- the machine and the libraries of the trainings are recorded as published, which is one environment for all rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from importers.table_reader import PublishedRow, PublishedTable, read_published_table
from memory.evidence import TaskIdentity, Trial
from records.canonical import domain_digest
from records.evidence import EvaluationContract, VerificationKind
from records.runtime import RunBody
from records.values import ArtifactRef
from store.artifacts import ArtifactStore

__all__ = [
    "HPOBENCH_MLP",
    "PublishedTable",
    "contract",
    "import_run",
    "read_published_table",
    "task_identities",
    "trials",
]

HPOBENCH_MLP: Final = Path(__file__).parent / "data" / "hpobench_mlp"
"""The folder of the table that ships with the project."""

ROW: Final = "row"
TABLE: Final = "table"
_CSV: Final = "text/csv"


def contract(table: PublishedTable, namespace: str) -> EvaluationContract:
    """Return the Evaluation Contract of a table: its metric, and this reader as the evaluator."""
    manifest = table.manifest
    return EvaluationContract(
        namespace=namespace,
        created_at=manifest.published_at,
        name=manifest.table_id,
        version=manifest.version,
        domain=manifest.domain,
        primary_metric=manifest.metric,
        guardrail_metrics=(),
        metric_low=manifest.metric_low,
        metric_high=manifest.metric_high,
        equivalence_margin=manifest.equivalence_margin,
        verification_kind=VerificationKind.PUBLISHED_RECORD,
        evaluator="importers.table_reader",
        evaluator_digest=table.evaluator_digest,
        timeout_seconds=0,  # a file is read, no program is run
        required_artifacts=(ROW, TABLE),
    )


def import_run(table: PublishedTable, namespace: str) -> RunBody:
    """Return the Run in whose name a table is imported; one per table and namespace, however often it is imported."""
    manifest = table.manifest
    return RunBody(
        namespace=namespace,
        run_kind="SCIENTIFIC",
        admission_key=f"published-table/{manifest.table_id}/{manifest.version}",
        specification_digest=manifest.canonical_digest,
        admitted_at=manifest.published_at,
    )


def task_identities(table: PublishedTable) -> dict[str, TaskIdentity]:
    """Return the identity of every task by its name.

    The rows of the data sets are not part of a published table, so a data set is identified by what the manifest
    publishes about it.
    """
    manifest = table.manifest
    return {
        task.name: TaskIdentity(
            name=task.name,
            root=task.root,
            domain=manifest.domain,
            attributes=task.attributes,
            dataset_digest=domain_digest(
                "published-dataset", {"name": task.name, "root": task.root, "description": task.description}
            ),
        )
        for task in manifest.tasks
    }


def trials(table: PublishedTable, namespace: str, artifacts: ArtifactStore) -> Iterator[Trial]:
    """Publish the bytes of the table and of its rows, then yield one trial per row, in the table's order.

    Raises:
        UnavailableError: the artifact store cannot be written.
    """
    parts = [table.data, *(row.data for row in table.rows)]
    whole, *digests = artifacts.publish_many(parts)
    file = ArtifactRef(role=TABLE, sha256=whole, size_bytes=len(table.data), media_type=_CSV)
    build = _Builder(table, namespace, file)
    for row, digest in zip(table.rows, digests, strict=True):
        yield build.trial(row, ArtifactRef(role=ROW, sha256=digest, size_bytes=len(row.data), media_type=_CSV))


class _Builder:
    """What the trials of one table share, and how one differs from the next."""

    def __init__(self, table: PublishedTable, namespace: str, file: ArtifactRef) -> None:
        self._manifest = table.manifest
        self._catalog = table.catalog
        self._namespace = namespace
        self._file = file
        self._contract = contract(table, namespace)
        self._run_id = import_run(table, namespace).id
        self._tasks = task_identities(table)
        self._baseline = table.catalog.config_digest(table.catalog.baseline)
        self._source = domain_digest("published-source", dict(table.manifest.source))
        self._environment = domain_digest("published-environment", {"source_digest": self._source})
        self._iterations = {None: 0} | {change: n for n, change in enumerate(table.catalog.contrasts, start=1)}

    def trial(self, row: PublishedRow, own: ArtifactRef) -> Trial:
        manifest, change = self._manifest, row.change
        return Trial(
            namespace=self._namespace,
            task=self._tasks[row.task],
            contract=self._contract,
            catalog_digest=self._catalog.digest,
            run_id=self._run_id,
            iteration=self._iterations[change],
            seed=row.seed,
            change=None if change is None else (change.knob, change.from_value, change.to_value),
            mechanism="baseline" if change is None else change.mechanism,
            config_digest=self._catalog.config_digest(row.config),
            baseline_config_digest=self._baseline,
            source_digest=self._source,
            environment_digest=self._environment,
            model_family=manifest.model_family,
            budget_class=manifest.budget_class,
            artifacts=(own, self._file),
            claimed={manifest.metric.name: row.value},
            verified={manifest.metric.name: row.value},
            violations=(),
            times=(manifest.published_at, manifest.published_at, manifest.published_at),
        )
