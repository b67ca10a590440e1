"""The index receipt of the sources that count, appended (spec 8.5, 14).

The bytes are published before the receipt that names them is appended, under a key that follows from the receipt: the
same sources again are a replay.
"""

from __future__ import annotations

from memory.index.embedding import Embedder
from memory.ports import CoordinatorPort, all_good
from memory.reference.catalogue import stored_sources
from memory.reference.index import Progress, build_references, known_vectors
from records.appends import Append
from records.flows import Transition
from records.reference import ReferenceIndexBuild
from store.artifacts import ArtifactStore
from store.ledger.port import OpenLedger


def record_index(
    ledger: OpenLedger,
    artifacts: ArtifactStore,
    coordinator: CoordinatorPort,
    namespace: str,
    embedder: Embedder,
    *,
    test_index: bool = False,
    progress: Progress = lambda _what, _done, _total: None,
) -> ReferenceIndexBuild | None:
    """Build the index of the sources that count, publish it, and append its receipt; None where no source counts.

    Raises:
        VrmError: what `index.build_references` raises, or the append was refused.
    """
    with ledger.reading() as reader:
        sources = [each for each in stored_sources(reader, namespace) if each.counts]
        known = known_vectors(reader, artifacts, namespace, embedder)
    if not sources:
        return None
    built = build_references(
        namespace, sources, artifacts, embedder, known=known, test_index=test_index, progress=progress
    )
    artifacts.publish_many([built.data, built.vectors])
    append = Append.direct(Transition.INDEX_REFERENCES, f"index-references/{built.build.id}", (built.build,))
    all_good(coordinator.append_direct([append]))
    return built.build
