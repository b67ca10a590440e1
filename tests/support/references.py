"""Sources added, indexed, frozen and erased over a `Stack`, with the real model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from memory.erasing import ErasureRequest
from memory.index.embedding import SentenceTransformerEmbedder
from memory.reference.adding import Added, AddingPorts, Given, add_sources
from memory.reference.catalogue import stored_sources
from memory.reference.context import (
    ComposedReferences,
    compose_references,
    freeze_references,
)
from memory.reference.holding import reference_owner
from memory.reference.recording import record_index
from memory.reference.search import ReferenceHit, References, open_references
from memory.tokens import Tokenizer
from policies.references.policy import reference_policy
from records.reference import ReferenceIndexBuild, ReferenceSource
from records.retention import ErasureIntent, ErasureReason, RetentionTombstone
from records.runtime import reference_id
from records.states import Machine, Phase
from tests.support.stack import Stack
from tests.support.trials import digest

POLICY, COUNT = reference_policy(), Tokenizer().count
CONTEXT = digest("research context")
FILES = {
    "ridge.md": "# Ridge regression\n\nRidge regression shrinks coefficients by an L2 penalty on their squares.\n",
    "forest.md": "# Random forests\n\nA random forest averages many decision trees grown on bootstrap samples.\n",
    "scale.py": 'def standardise(x):\n    """Subtract the mean and divide by the standard deviation."""\n'
    "    return (x - x.mean()) / x.std()\n",
}


def ports(stack: Stack) -> AddingPorts:
    stores = stack.stores
    return AddingPorts(
        ledger=stores.ledger, artifacts=stores.artifacts, owner=stack.owner, coordinator=stack.coordinator, count=COUNT
    )


def written(folder: Path, **changes: str) -> list[Path]:
    """Write the files, each with a line that no other test's have, for what one test erases is gone for all."""
    folder.mkdir(exist_ok=True)
    made = []
    for name, text in (FILES | changes).items():
        path = folder / name
        path.write_text(text, encoding="utf-8")
        made.append(path)
    return made


def add(stack: Stack, paths: list[Path], **given: Any) -> list[Added]:
    return add_sources(ports(stack), stack.namespace, paths, Given(**given), POLICY)


def index(stack: Stack, model: SentenceTransformerEmbedder) -> ReferenceIndexBuild | None:
    return record_index(stack.stores.ledger, stack.stores.artifacts, stack.coordinator, stack.namespace, model)


def opened(stack: Stack, model: SentenceTransformerEmbedder, namespace: str | None = None) -> References:
    stores = stack.stores
    return open_references(stores.ledger, stores.artifacts, namespace or stack.namespace, model, POLICY)


def composed(
    references: References, hits: list[ReferenceHit], text: str = "shrinkage", **more: Any
) -> ComposedReferences:
    return compose_references(references, hits, text, CONTEXT, COUNT, **more)


def frozen(stack: Stack, model: SentenceTransformerEmbedder, text: str = "shrinkage of coefficients") -> Any:
    references = opened(stack, model)
    made = composed(references, references.search(text, 5), text)
    freeze_references(stack.stores.artifacts, stack.coordinator, made)
    return made


def sources(stack: Stack) -> dict[str, Any]:
    with stack.stores.ledger.reading() as reader:
        return {each.source.facts.title: each for each in stored_sources(reader, stack.namespace)}


def erased(stack: Stack, target: object) -> tuple[ErasureIntent, RetentionTombstone]:
    request = ErasureRequest(target=str(target), reason=ErasureReason.LICENCE_WITHDRAWN, incident="case-1")
    intent = stack.officer.begin(request)
    return intent, stack.officer.finish(intent)


def held(stack: Stack, source: ReferenceSource) -> set[Phase]:
    names = [reference_id(reference_owner(str(source.id)), each) for each in source.artifacts]
    return {each.phase for each in stack.stores.runtime.subjects(Machine.REFERENCE, names).values()}
