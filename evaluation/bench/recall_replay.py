"""The same recalls again: on another replica, with other threads in another process, and by a rebuilt index.

An answer is compared by all of its bytes: the context with everything in it but the time at which it was made, and the
rendered section. As a program, this module answers in a process of its own and prints one digest a line.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

from evaluation.bench.corpus import NOW
from evaluation.bench.recall_requests import Requests, Scene, SpreadEmbedder, asked_of, cards_of
from memory.index.embedding import ModelSettings, SentenceTransformerEmbedder
from memory.recall.context import Recall
from memory.recall.loaded import LoadedInput, UnusableInput
from memory.recall.retriever import DecisionPointRetriever
from memory.snapshots import build_index
from memory.tokens import Tokenizer
from policies.retrieval_policy import retrieval_policy
from records.canonical import digest_bytes
from records.errors import IntegrityError
from records.ids import RecallInputId
from records.snapshots import KnowledgeSnapshot, RecallInput
from store.artifacts import ArtifactStore
from store.ledger.postgres import PostgresLedger

_ROOT: Final = Path(__file__).resolve().parents[2]
_TOGETHER: Final = 8
_APART: Final = 10**6
"""The number of a decision that no request is about."""

Told = Callable[[int, int], None]


def measure_replay(scene: Scene, recalls: int, told: Told) -> dict[str, Any]:
    """Repeat recalls and return the share that came back byte for byte, with the share of each repetition."""
    with scene.owners() as owners:
        requests = Requests(scene, owners)
        requests.admit(range(_APART, _APART + 1))  # the contract view is in the Ledger with it
        one, other = owners.retrievers.replicas[:2]
        first = _by_replica(one.call, requests, recalls, lambda done: told(done, 4 * recalls))
        second = _by_replica(other.call, requests, recalls, lambda done: told(recalls + done, 4 * recalls))
    threads = _by_process(scene, recalls)
    told(3 * recalls, 4 * recalls)
    rebuilt = _by_rebuild(scene, recalls)
    told(4 * recalls, 4 * recalls)
    again = {"another_replica": second, "other_threads": threads, "rebuilt_index": rebuilt}
    same = [len(set(answers)) == 1 for answers in zip(first, *again.values(), strict=True)]
    return {
        "replay_identical": sum(same) / recalls,
        "replay_identical_by": {
            name: sum(left == right for left, right in zip(first, answers, strict=True)) / recalls
            for name, answers in again.items()
        },
        "replayed": recalls,
    }


def fingerprint(recall: Recall) -> str:
    """Return the digest of an answer, its time left out."""
    context = recall.context.as_json() | {"created_at": NOW}
    return digest_bytes(json.dumps([context, recall.rendered], sort_keys=True).encode())


def _by_replica(call: Callable[..., Any], requests: Requests, recalls: int, told: Callable[[int], None]) -> list[str]:
    found: list[str] = []
    for start in range(0, recalls, _TOGETHER):
        asked = [requests.asked(number) for number in range(start, min(start + _TOGETHER, recalls))]
        found += [fingerprint(cards_of(answer)) for answer in call("propose", asked)]
        told(len(found))
    return found


def _by_process(scene: Scene, recalls: int) -> list[str]:
    """Answer in a process with two threads for the search and two for the model."""
    given = [scene.settings.ledger_dsn, scene.settings.artifacts_url, scene.composed.recall_input_id]
    done = subprocess.run(  # noqa: S603  # this very module
        [sys.executable, "-m", "evaluation.bench.recall_replay", *given, str(recalls), str(scene.tasks)],
        cwd=_ROOT,
        env=os.environ | {"VRM_SEARCH_THREADS": "2"},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise IntegrityError("benchmark process", done.stderr[-500:], "The figures would be worth nothing.")
    return done.stdout.split()


def _by_rebuild(scene: Scene, recalls: int) -> list[str]:
    """Build the index again from the Ledger, and answer by what came out."""
    ledger, model = scene.bench.ledger, scene.model
    with ledger.reading() as reader:
        composed = _stored(reader.get(scene.composed.recall_input_id), RecallInput)
        snapshot = _stored(reader.get(composed.knowledge_snapshot_id), KnowledgeSnapshot)
        _, data = build_index(reader, snapshot, SpreadEmbedder(model), test_index=True)
    if data != scene.composed.index:
        return [""] * recalls
    return _answers(
        ledger, scene.bench.artifacts, model, scene.composed.recall_input_id, (recalls, scene.tasks), data=data
    )


def _stored(found: Any, kind: type[Any]) -> Any:
    record = None if found is None else found.load()
    if not isinstance(record, kind):
        raise IntegrityError("benchmark store", kind.__name__, "It is not there; report this.")
    return record


def _answers(
    ledger: PostgresLedger,
    artifacts: ArtifactStore,
    model: SentenceTransformerEmbedder,
    recall_input: RecallInputId,
    numbers: tuple[int, int],
    *,
    data: bytes | None = None,
) -> list[str]:
    """Return the fingerprints of the answers of a retriever in this process."""
    retriever = DecisionPointRetriever(ledger, artifacts, model, Tokenizer(), retrieval_policy())
    loaded: LoadedInput | UnusableInput = retriever.load(recall_input, data)
    asked = (asked_of(number, recall_input, numbers[1]) for number in range(numbers[0]))
    answers = (retriever.propose(intent, request, loaded, now=NOW) for intent, request in asked)
    return [fingerprint(cards_of(answer)) for answer in answers]


def main(arguments: Sequence[str]) -> None:
    """Print the fingerprints of the answers of this process."""
    dsn, url, recall_input, recalls, tasks = arguments
    model = SentenceTransformerEmbedder(ModelSettings(threads=2))
    ledger = PostgresLedger(dsn, "replay")
    found = _answers(ledger, ArtifactStore(url), model, RecallInputId.check(recall_input), (int(recalls), int(tasks)))
    sys.stdout.write("\n".join(found))


if __name__ == "__main__":
    main(sys.argv[1:])
