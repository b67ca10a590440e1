"""The standing of an installation as Prometheus metrics (spec 16).

Rules kept here:

- a count is that of the Ledger when it is asked for, so it is right after a restart and whoever asks; only how long
  something took, which no record says, comes from the events and the statements of cost of the installation;
- labels are closed lists: kinds, statuses, dispositions, components. No id, no namespace, no text is ever one;
- every count is of its own moment: metrics are for watching, the trace for accounting.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import Any, Final

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from memory.trace.costs import CostBook
from memory.trace.log import read_log
from records.values import Disposition
from store.ledger.port import LedgerStore

BUCKETS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 60.0)
"""Upper bounds of the histograms, in seconds; the limits of the latency of recall are among them (reference 1.3)."""


@dataclass(frozen=True)
class Counted:
    """A metric that counts the records of a kind by indexed columns, which are its labels."""

    name: str
    help: str
    noun: str
    labels: tuple[str, ...]


COUNTED: Final = (
    Counted("vrm_experience_receipts", "Experiences by what ingestion decided.", "distillation-receipt",
            ("disposition",)),
    Counted("vrm_attempts", "Attempts by what they were made for.", "attempt", ("corpus",)),
    Counted("vrm_work_dispositions", "Work items by what became of them.", "distillation-work-disposition",
            ("outcome",)),
    Counted("vrm_work_completions", "Work items by how they ended.", "distillation-work-completion", ("status",)),
    Counted("vrm_candidates", "Candidates by kind.", "knowledge-candidate", ("record_kind",)),
    Counted("vrm_candidate_decisions", "Candidates by decision.", "distillation-decision", ("decision",)),
    Counted("vrm_memory_records", "Memory records by kind.", "memory-record", ("record_kind",)),
    Counted("vrm_lifecycle_events", "Lifecycle events by the disposition that they reach.",
            "knowledge-lifecycle-event", ("disposition",)),
    Counted("vrm_index_failures", "Failed index builds by reason.", "memory-index-failure", ("reason",)),
    Counted("vrm_recall_contexts", "Recall contexts by status.", "decision-recall-context", ("status",)),
    Counted("vrm_decisions", "Decisions by what memory had to offer and by how they ended.",
            "recall-decision-outcome", ("source_status", "decision_status")),
    Counted("vrm_no_commits", "Authorizations that wrote nothing, by reason.", "no-commit-receipt", ("reason",)),
)  # fmt: skip
"""What is counted with labels; every kind of record is counted in `vrm_records` as well."""

TIMED: Final = {
    "recall.answered": ("vrm_recall_seconds", "How long a request for memory took, by its status.", "status"),
    "index.built": ("vrm_index_build_seconds", "How long an index build took.", None),
}
"""Which events have a histogram of their seconds, and its label."""


@dataclass
class _Timed:
    """A histogram under way."""

    counts: list[int] = field(default_factory=lambda: [0] * (len(BUCKETS) + 1))
    total: float = 0.0

    def add(self, seconds: float) -> None:
        self.counts[next((at for at, bound in enumerate(BUCKETS) if seconds <= bound), len(BUCKETS))] += 1
        self.total += seconds

    def buckets(self) -> list[tuple[str, float]]:
        """Return the cumulative buckets, as the exposition format has them."""
        bounds = [*map(str, BUCKETS), "+Inf"]
        return [(bound, float(sum(self.counts[: at + 1]))) for at, bound in enumerate(bounds)]


class EventTimes:
    """The seconds of events, from a file that is read on from where it was read before."""

    def __init__(self, path: Path) -> None:
        """Read `path` when it is asked for."""
        self._path = path
        self._read_to = 0
        self._lock = Lock()
        self._times: dict[str, dict[str, _Timed]] = defaultdict(lambda: defaultdict(_Timed))

    def read(self) -> None:
        """Read what was written since; a file that was emptied or replaced by a shorter one begins anew.

        Each event is read once, however many threads ask at a time.
        """
        with self._lock:
            self._read()

    def _read(self) -> None:
        if self._path.exists() and self._path.stat().st_size < self._read_to:
            self._read_to = 0
        for place, told in read_log(self._path, self._read_to):
            self._read_to = place
            name, seconds = str(told.get("event")), told.get("seconds")
            if name in TIMED and isinstance(seconds, int | float):
                label = TIMED[name][2]
                self._times[name][str(told.get(label)) if label else ""].add(float(seconds))

    def metrics(self) -> Iterator[Metric]:
        """Yield a histogram for each event of `TIMED`."""
        self.read()
        for name, (metric, words, label) in TIMED.items():
            family = HistogramMetricFamily(metric, words, labels=[label] if label else [])
            for value, timed in sorted(self._times[name].items()):
                family.add_metric([value] if label else [], buckets=timed.buckets(), sum_value=timed.total)
            yield family


class Standing(Collector):
    """Collects the metrics of an installation whenever it is asked."""

    def __init__(self, ledger: LedgerStore, phases: Callable[[], Mapping[str, Mapping[str, int]]], book: CostBook,
                 times: EventTimes) -> None:  # fmt: skip
        """Join the Ledger, the Runtime's phase counts, the statements of cost and the events."""
        self._ledger, self._phases, self._book, self._times = ledger, phases, book, times

    def collect(self) -> Iterator[Metric]:
        """Yield every metric."""
        yield _labelled(GaugeMetricFamily, "vrm_records", "Records by kind.", ("kind",),
                        {(kind,): count for kind, count in self._ledger.table_counts().items()})  # fmt: skip
        for each in COUNTED:
            counts = self._ledger.tally(each.noun, *each.labels)
            yield _labelled(GaugeMetricFamily, each.name, each.help, each.labels, counts)
        yield self._heads()
        yield _labelled(
            GaugeMetricFamily, "vrm_runtime_subjects", "Subjects of the Runtime by machine and phase.",
            ("machine", "phase"),
            {(name, phase): count for name, phases in self._phases().items() for phase, count in phases.items()},
        )  # fmt: skip
        yield self._costs()
        yield from self._times.metrics()

    def _heads(self) -> Metric:
        counts = Counter(
            head.disposition for name in self._ledger.namespaces() for head in self._ledger.variant_heads(name).values()
        )
        standing: dict[tuple[str, ...], float] = {(each.value,): counts.get(each.value, 0) for each in Disposition}
        words = "Scope variants by the disposition of their head."
        return _labelled(GaugeMetricFamily, "vrm_scope_variant_heads", words, ("disposition",), standing)

    def _costs(self) -> Metric:
        amounts: dict[tuple[str, ...], float] = defaultdict(float)
        for each in self._book.read():
            amounts[each.component.value,] += each.amount
        words = "What the work cost by component, in seconds; the statements of this home."
        return _labelled(CounterMetricFamily, "vrm_cost_seconds", words, ("component",), amounts)


def registry_of(standing: Standing) -> CollectorRegistry:
    """Return a registry that holds these metrics alone."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(standing)
    return registry


def _labelled(
    family: type[Any], name: str, words: str, labels: Sequence[str], values: Mapping[tuple[str, ...], float]
) -> Metric:
    metric: Metric = family(name, words, labels=list(labels))
    for each, value in sorted(values.items()):
        metric.add_metric(list(each), value)  # type: ignore[attr-defined]  # each family has it, their base has not
    return metric
