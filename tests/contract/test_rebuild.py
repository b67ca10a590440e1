"""An index is rebuilt to the same digests and the same cards, on one thread and on two, a process of its own each."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

_ROOT = Path(__file__).resolve().parents[2]
_PROGRAM = """
import sys
from pathlib import Path
from memory.index import vectors
from memory.index.embedding import ModelSettings, SentenceTransformerEmbedder
from memory.recall.context import Recall
from memory.snapshots import RecallInputSnapshotBuilder, recall_input_key
from policies.retrieval_policy import retrieval_policy
from records.canonical import digest_bytes
from records.flows import Transition
from records.ids import RecallInputId
from tests.unit.recall_support import NOW, intent, request, rule
from tests.unit.recall_world import World

threads = int(sys.argv[2])
vectors._SCAN = 2  # so that the few rows of this test are several blocks
assert vectors.THREADS == threads
embedder = SentenceTransformerEmbedder(ModelSettings(threads=threads))
world = World(Path(sys.argv[1]))
for mechanism in ("class_weighting", "scaling", "margin", "kernel", "resampling"):
    world.learn(rule("class_weight", '"balanced"', start='"none"', mechanism=mechanism))
world.learn(rule())
snapshot = world.freeze()
build, data = world.index(snapshot, embedder)
composed = RecallInputSnapshotBuilder(retrieval_policy()).compose(snapshot, [build])
world.direct(Transition.COMPOSE_RECALL_INPUT, recall_input_key(composed), composed)
decision = world.admit(intent())
retriever = world.retriever(embedder=embedder, test_index=False)
loaded = retriever.load(RecallInputId(composed.id))
answer = retriever.propose(decision, request(decision, RecallInputId(composed.id)), loaded, now=NOW)
assert isinstance(answer, Recall) and len(answer.context.items) >= 2
facts = [build.id, build.member_digest, build.vector_digest, digest_bytes(data), composed.id, answer.context.id]
print(*facts, digest_bytes(answer.context.canonical), digest_bytes(answer.rendered.encode()))
"""


def _built(folder: Path, threads: int) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM, str(folder), str(threads)],
        capture_output=True,
        text=True,
        check=False,
        cwd=_ROOT,
        env=os.environ | {"VRM_SEARCH_THREADS": str(threads), "OMP_NUM_THREADS": str(threads)},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def test_vrm_o01_a_rebuild_on_other_threads_gives_the_same_digests_and_cards(tmp_path: Path) -> None:
    first, second = _built(tmp_path / "1", 1), _built(tmp_path / "2", 2)
    assert len(first) == 8
    assert first == second
