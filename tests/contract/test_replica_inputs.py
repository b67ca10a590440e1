"""What a replica keeps: inputs that can be used, for as long as retention lets them be."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest

from actors.workers import Readiness, RetrieverReplicaActor
from memory.index.ahead import AheadEmbedder
from memory.index.embedding import HashEmbedder
from memory.recall.context import Recall
from records.decisions import BlockedProposal
from records.flows import Authority, Transition
from tests.support.incidents import Incident
from tests.support.stack_decisions import Study, tokenizer

pytestmark = pytest.mark.parametrize(("ledger", "runtime"), [("memory", "memory")], indirect=True)


def replica_of(incident: Incident) -> RetrieverReplicaActor:
    """Return a replica over the stores of an incident, with the embedder that its index was made with."""
    replica = RetrieverReplicaActor.__new__(RetrieverReplicaActor)
    replica._retriever = incident.retriever()
    replica._embedder, replica._tokenizer = AheadEmbedder(cast("Any", HashEmbedder(32))), tokenizer()
    replica._loaded, replica._standing = {}, Readiness("idle", None)
    return replica


def study_of(incident: Incident) -> Study:
    """Return a decision of the memory arm whose intent is open."""
    study = Study(incident.stack, "pair-1", "memory", incident.recall_input)
    incident.stack.admit("pair-1/memory", "trial")
    study.carry(Transition.APPEND_INTENT, Authority.ADMISSION, study.view, study.intent)
    return study


def test_an_index_that_was_missing_for_a_moment_is_read_again(incident: Incident) -> None:
    study, replica = study_of(incident), replica_of(incident)
    path = Path(incident.stack.stores.artifacts.location(cast("Any", incident.builds[0]).artifact.sha256))
    aside = path.with_suffix(".aside")
    path.rename(aside)
    assert isinstance(replica._proposed(study.intent, study.request), BlockedProposal)
    aside.rename(path)
    assert isinstance(replica._proposed(study.intent, study.request), Recall)


def test_an_input_that_retention_denies_is_dropped(incident: Incident) -> None:
    study, replica = study_of(incident), replica_of(incident)
    assert isinstance(replica._proposed(study.intent, study.request), Recall)
    assert set(replica._loaded) == {incident.recall_input}
    incident.opened(*incident.of_rule())
    assert isinstance(replica._proposed(study.intent, study.request), BlockedProposal)
    assert not replica._loaded
