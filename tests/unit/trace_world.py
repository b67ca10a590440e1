"""One pair of arms, each with a verified baseline and one decision: the real retriever, planner, coordinator.

baseline   0.70 in both arms
memory     one rule (scaling helps on four roots), one card, adopted: scaler standard, verified 0.75
control    the same seed explores what the planner would without cards
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from memory.evidence import bundle_records
from memory.ports import all_good
from memory.trace.reading import Asked, Traced, read_traces
from policies.mediation import DecisionTrace
from records.appends import Append
from records.evidence import Corpus
from records.flows import Transition
from store.artifacts import ArtifactStore
from store.ledger.memory import MemoryLedger
from store.runtime.memory import MemoryRuntime
from tests.support.stack import GOOD, Stack, Stores
from tests.support.stack_decisions import CATALOG, Study, learn
from tests.support.trials import make_task, make_trial

SPACE = "traced"
BASELINE = 0.7
SECONDS = 2.5


@dataclass(frozen=True)
class Pair:
    """Both arms of one study, decided."""

    stack: Stack
    control: Study
    memory: Study

    def read(self, *, run_ids: tuple[str, ...] = (), intent_id: str | None = None) -> Traced:
        """Read traces in one read transaction."""
        with self.stack.stores.ledger.reading() as reader:
            return read_traces(reader, Asked(namespace=SPACE, run_ids=run_ids, intent_id=intent_id))

    def trace(self, study: Study) -> DecisionTrace:
        """Return the trace of one arm's decision."""
        (found,) = self.read(intent_id=str(study.intent.id)).traces
        return found


def build_pair(folder: Path) -> Pair:
    """Write evidence, distil it, and take the decision of each arm."""
    stack = Stack(Stores(MemoryLedger(), MemoryRuntime(), ArtifactStore(str(folder / "artifacts"))), SPACE)
    recall_input = learn(stack, GOOD)
    control, memory = (Study(stack, "pair-1", arm, recall_input) for arm in ("control", "memory"))
    for study in (control, memory):
        stack.admit(f"{study.key}/{study.arm}", "trial")
        _baseline(study)
        study.decide()
    return Pair(stack, control, memory)


def _baseline(study: Study) -> None:
    config = CATALOG.config_digest(CATALOG.baseline)
    left = f"baseline of {study.run_id}".encode()
    records = bundle_records(
        make_trial(
            SPACE,
            task=make_task("held-out"),
            change=None,
            mechanism="baseline",
            run_id=study.run_id,
            iteration=0,
            catalog_digest=CATALOG.digest,
            config_digest=config,
            baseline_config_digest=config,
            artifacts=(study.stack.stores.artifacts.reference("predictions", left),),
            verified={"balanced_accuracy": BASELINE},
            corpus=Corpus.EVALUATION,
            arm=study.arm,
            pair=study.key,
            times=("2025-03-01T12:00:00.000000Z", "2025-03-01T12:00:02.500000Z", "2025-03-01T12:00:02.500000Z"),
        )
    )
    all_good(study.stack.spine.direct([Append.direct(Transition.APPEND_EVIDENCE, f"trial/{records[-1].id}", records)]))
