"""From a published table to finished trials: evidence of kind `published_record`.

Rules kept here:

- a table is read whole and checked whole before the first trial is made (`importers.table_reader`);
- nothing in a trial depends on when or where it is imported: its times are the time of publication, its ids follow
  from manifest, catalog and row. Importing twice is a replay (docs/adr/0050);
- each trial leaves two artifacts behind: the exact bytes of its row, and the table that the row stands in;
- a row names no more of its machine and libraries than was published. What was not told is one environment for all
  rows; where records were made on machines of their own, rows of different records or machines are never compared.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from importers.table_comparison import Compared
from importers.table_manifest import Arm
from importers.table_reader import PublishedTable, read_published_table
from memory.evidence import TaskIdentity, Trial
from records.canonical import domain_digest
from records.evidence import EvaluationContract
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
_MEDIA: Final = {".csv": _CSV, ".gz": "application/gzip", ".arff": "text/x-arff"}


def contract(table: PublishedTable, namespace: str) -> EvaluationContract:
    """Return the Evaluation Contract of a table: its metrics, and its reader as the evaluator."""
    manifest = table.manifest
    primary, *guardrails = manifest.metrics
    return EvaluationContract(
        namespace=namespace,
        created_at=manifest.published_at,
        name=manifest.table_id,
        version=manifest.version,
        domain=manifest.domain,
        primary_metric=primary.spec,
        guardrail_metrics=tuple(metric.spec for metric in guardrails),
        metric_low=primary.low,
        metric_high=primary.high,
        equivalence_margin=manifest.equivalence_margin,
        verification_kind=manifest.verification,
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
        specification_digest=table.manifest_digest,
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
    kind = _MEDIA[Path(table.manifest.table.name).suffix]
    file = ArtifactRef(role=TABLE, sha256=whole, size_bytes=len(table.data), media_type=kind)
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
        self._iterations = {None: 0} | {change: n for n, change in enumerate(table.changes, start=1)}

    def trial(self, row: Compared, own: ArtifactRef) -> Trial:
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
            baseline_config_digest=self._catalog.config_digest(row.baseline),
            source_digest=self._source(row.arm),
            environment_digest=self._environment(row.arm),
            model_family=manifest.model_family,
            budget_class=row.budget_class,
            artifacts=(own, self._file),
            claimed=row.metrics,
            verified=row.metrics,
            violations=(),
            times=(manifest.published_at, manifest.published_at, manifest.published_at),
        )

    def _source(self, arm: Arm | None) -> str:
        """Return the digest of the system that a change starts from: that of the record, where there are records.

        It is not the digest of the program that ran: every change is another program, and would have no comparator.
        That one stands in the row's bytes, which the provenance's evidence digest covers.
        """
        return domain_digest(
            "published-source", dict(self._manifest.source) | ({} if arm is None else {"record": arm.record})
        )

    def _environment(self, arm: Arm | None) -> str:
        known = {} if arm is None else dict(self._manifest.machines[arm.machine].description)
        return domain_digest("published-environment", {"source_digest": self._source(None), **known})
