"""Ports, plain classes, actors and handles say the same: what mypy cannot see across `handle.call("name", ...)`."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from actors import handles, owners, workers
from memory import ports
from memory.campaigns import DistillerPort
from memory.coordinator import CommitCoordinator
from memory.distillation.distiller import KnowledgeDistiller
from memory.heads import LifecycleHeads
from memory.index.embedding import Embedder, SentenceTransformerEmbedder
from memory.reserving import HeadsPort
from memory.run_owner import RunOwner

# Port, plain class, actor, handle.
FAMILIES: list[tuple[type[Any], type[Any], type[Any], type[Any]]] = [
    (ports.RunOwnerPort, RunOwner, owners.RunOwnerActor, handles.RunOwnerHandle),
    (ports.RunControlPort, RunOwner, owners.RunOwnerActor, handles.RunOwnerHandle),
    (ports.HandoffOwnerPort, RunOwner, owners.RunOwnerActor, handles.RunOwnerHandle),
    (ports.CoordinatorPort, CommitCoordinator, owners.CommitCoordinatorActor, handles.CoordinatorHandle),
    (HeadsPort, LifecycleHeads, owners.LifecycleHeadActor, handles.HeadHosts),
    (DistillerPort, KnowledgeDistiller, workers.DistillationWorkerActor, handles.DistillerPool),
    (Embedder, SentenceTransformerEmbedder, workers.EmbedderActor, handles.EmbedderHandle),
]
HEALTH = {"version", "readiness"}
"""What an actor answers while another call is running."""
ACTORS = [family[2] for family in FAMILIES] + [workers.RetrieverReplicaActor]


def own_methods(kind: type[Any]) -> dict[str, Any]:
    return {name: each for name, each in vars(kind).items() if inspect.isfunction(each) and not name.startswith("_")}


def parameters(method: Any) -> list[tuple[str, str]]:
    """Return names and annotations; how an optional one is passed may differ."""
    found = inspect.signature(method).parameters.values()
    return [(each.name, str(each.annotation).replace("TextKind", "str")) for each in found if each.name != "self"]


def test_every_port_of_the_deep_modules_is_listed() -> None:
    declared = {each for each in vars(ports).values() if isinstance(each, type) and each.__module__ == ports.__name__}
    assert declared
    own = {each for each in declared if own_methods(each)}  # the others only join several
    assert own <= {family[0] for family in FAMILIES}


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family[0].__name__)
def test_every_port_method_has_the_same_parameters_everywhere(family: tuple[type[Any], ...]) -> None:
    port, *implementations = family
    methods = own_methods(port)
    assert methods
    for name, method in methods.items():
        for implementation in implementations:
            assert parameters(getattr(implementation, name)) == parameters(method), (implementation, name)


@pytest.mark.parametrize("actor", ACTORS)
def test_every_actor_answers_its_health_check_in_a_group_of_its_own(actor: type[Any]) -> None:
    groups = {name: getattr(each, "__ray_concurrency_group__", None) for name, each in own_methods(actor).items()}
    assert {name for name, group in groups.items() if group == "health"} == HEALTH & groups.keys() >= {"version"}
    assert {group for name, group in groups.items() if name not in HEALTH} == {None}


@pytest.mark.parametrize("actor", ACTORS)
def test_actors_are_sync_and_typed(actor: type[Any]) -> None:
    for name, method in own_methods(actor).items():
        assert not inspect.iscoroutinefunction(method), name
        assert inspect.signature(method).return_annotation is not inspect.Signature.empty, name
