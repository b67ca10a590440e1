"""Ports over actor handles: the only place where actors are looked up, created, replaced and called.

Rules kept here:

- actors are named and detached in Ray namespace `vrm`, created on first use, and found by any driver or job;
- one that runs older code is replaced explicitly, since `get_if_exists` would keep it for ever;
- a call that loses its actor is made again on its successor, which every command here allows; what the actor itself
  raised comes back as the error that it is;
- an actor that is silent for long while somebody waits must answer its health check, or it is ended and replaced: a
  process can hang without Ray's noticing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, partial
from threading import Lock
from typing import TYPE_CHECKING, Any, Final, cast

import ray
from ray.exceptions import GetTimeoutError, RayActorError, RayTaskError

from actors.cluster import NAMESPACE
from actors.owners import (
    COORDINATOR,
    LIFECYCLE_HEAD,
    RUN_OWNER,
    CommitCoordinatorActor,
    LifecycleHeadActor,
    RunOwnerActor,
)
from actors.pool import RetrieverPool
from actors.settings import Settings, code_digest
from actors.workers import DistillationWorkerActor, EmbedderActor, RetrieverReplicaActor
from memory.distillation.distiller import DistillationRequest
from memory.heads import Reservation
from memory.index.ahead import Waiting
from memory.index.embedding import TextKind
from memory.ports import Fence
from memory.releases import Release
from records.appends import Append, AppendReceipt, Proposal
from records.control import Controlled
from records.errors import FencedError, UnavailableError, VrmError
from records.knowledge import LifecycleEvent
from records.runtime import Applied, Authorization, Command

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

HEAD_HOSTS: Final = 2
WORKERS: Final = 2
REPLICAS: Final = 2
_START_SECONDS: Final = 120.0
_SILENCE_SECONDS: Final = 60.0
_TRIES: Final = 3


@dataclass(frozen=True)
class Role:
    """A kind of actor: its name, its class, and what it takes besides the settings."""

    name: str
    actor: type[Any]
    arguments: tuple[Any, ...] = ()


class Handle:
    """One named actor, found or created when it is first called."""

    def __init__(self, role: Role, settings: Settings) -> None:
        """Name the actor; nothing is started."""
        self._role = role
        self._settings = settings
        self._handle: Any = None
        self._lock = Lock()

    def __reduce__(self) -> tuple[Any, ...]:
        """Go to another process as a name; the actor is looked up there anew."""
        return type(self), (self._role, self._settings)

    def call(self, method: str, *arguments: Any) -> Any:
        """Call a method and return its answer.

        Raises:
            VrmError: what the actor raised.
            UnavailableError: the actor cannot start, or could not be kept alive.
        """
        reason = ""
        for _ in range(_TRIES):
            try:
                return self.attempt(method, *arguments)
            except (RayActorError, GetTimeoutError) as error:
                reason = str(error).strip().rsplit("\n", 1)[-1]
                if isinstance(error, RayActorError) and error.actor_init_failed:
                    remedy = f"It cannot start; repair what it names, then run the command again. {reason}"
                    raise UnavailableError("actor", self._role.name, remedy) from error
        remedy = f"It ended again and again; look for a full memory or disk, then run the command again. {reason}"
        raise UnavailableError("actor", self._role.name, remedy)

    def attempt(self, method: str, *arguments: Any) -> Any:
        """Call a method once and return its answer; raises what the actor raised, or that it was lost."""
        return self.finish(*self.begin(method, *arguments))

    def begin(self, method: str, *arguments: Any) -> tuple[Any, Any]:
        """Call a method without waiting, and return who was called and the reference, which `finish` takes."""
        called = self._living()
        try:
            return called, getattr(called, method).remote(*arguments)
        except (RayActorError, GetTimeoutError):
            self._forget(called)
            raise

    def finish(self, called: Any, reference: Any) -> Any:
        """Wait for the answer of `called`, who is forgotten if it is lost; raises what `attempt` does."""
        try:
            return self._answer(reference)
        except RayTaskError as error:
            if isinstance(error.cause, VrmError):
                raise error.cause from error
            raise
        except (RayActorError, GetTimeoutError):
            self._forget(called)
            raise

    def kill(self) -> None:
        """End the actor without notice, as a crash would."""
        if (handle := self.find()) is not None:
            ray.kill(handle)
        self._handle = None

    def _forget(self, lost: Any) -> None:
        """Let go of an actor that failed, unless a successor has taken its place (threads share a handle)."""
        with self._lock:
            if self._handle is lost:
                self._handle = None

    def find(self) -> Any:
        """Return the running actor, or None."""
        with suppress(ValueError):
            return ray.get_actor(self._name, namespace=NAMESPACE)
        return None

    def _answer(self, reference: Any) -> Any:
        while not ray.wait([reference], timeout=_SILENCE_SECONDS)[0]:
            try:
                ray.get(self._living().version.remote(), timeout=_SILENCE_SECONDS)
            except (RayActorError, GetTimeoutError):
                self.kill()
                break
        return ray.get(reference)

    def _living(self) -> Any:
        with self._lock:
            living = self._handle
            if living is None:
                handle = self.find()
                if handle is not None and not self._is_current(handle):
                    ray.kill(handle)
                    handle = None
                living = self._handle = handle or self._create()
        return living

    @property
    def _name(self) -> str:
        return self._settings.actor_name(self._role.name)

    def _is_current(self, handle: Any) -> bool:
        try:
            return bool(ray.get(handle.version.remote(), timeout=_START_SECONDS) == code_digest())
        except (RayActorError, GetTimeoutError):
            return False

    def _create(self) -> Any:
        decorate = cast("Any", ray.remote)  # its overloads know functions and literal options only
        remote = decorate(num_cpus=0, max_restarts=-1, max_task_retries=_TRIES, concurrency_groups={"health": 1})(
            self._role.actor
        )
        handle = remote.options(name=self._name, namespace=NAMESPACE, lifetime="detached", get_if_exists=True).remote(
            self._settings, *self._role.arguments
        )
        ray.get(handle.version.remote(), timeout=_START_SECONDS)
        return handle


class CoordinatorHandle:
    """The commit coordinator behind its port."""

    def __init__(self, handle: Handle, hosts: Sequence[Handle] = ()) -> None:
        """Call through `handle`; `hosts` are those of the lifecycle heads, by number."""
        self.handle = handle
        self._hosts = {f"{LIFECYCLE_HEAD}/{number}": host for number, host in enumerate(hosts)}

    def append_granted(
        self, authorization_ids: Sequence[str], fences: Sequence[Fence] = ()
    ) -> list[AppendReceipt | VrmError]:
        """Carry out authorized appends.

        Raises:
            FencedError: a fence is over; nothing was written. The head host that gave it is ended, since it only reads
                and would never learn that it was replaced; the next plan reserves with its successor.
        """
        try:
            answers: list[AppendReceipt | VrmError] = self.handle.call("append_granted", authorization_ids, fences)
        except FencedError as error:
            if error.field in self._hosts:
                self._hosts[error.field].kill()
            raise
        return answers

    def append_direct(self, appends: Sequence[Append]) -> list[AppendReceipt | VrmError]:
        """Carry out direct appends."""
        answers: list[AppendReceipt | VrmError] = self.handle.call("append_direct", appends)
        return answers


class RunOwnerHandle:
    """The run owner behind its port."""

    def __init__(self, handle: Handle) -> None:
        """Call through `handle`."""
        self.handle = handle

    def apply(self, commands: Sequence[Command]) -> list[Applied | VrmError]:
        """Carry out Runtime commands."""
        answers: list[Applied | VrmError] = self.handle.call("apply", commands)
        return answers

    def control(self, event_digests: Sequence[str]) -> list[Controlled | VrmError]:
        """Let published control events take effect."""
        answers: list[Controlled | VrmError] = self.handle.call("control", event_digests)
        return answers

    def grant(self, proposal_digests: Sequence[str]) -> list[Authorization | VrmError]:
        """Authorize published proposals."""
        answers: list[Authorization | VrmError] = self.handle.call("grant", proposal_digests)
        return answers

    def reconcile(self, authorization_ids: Sequence[str]) -> list[AppendReceipt | VrmError]:
        """Settle authorizations."""
        answers: list[AppendReceipt | VrmError] = self.handle.call("reconcile", authorization_ids)
        return answers

    def resolve(self, proof_digests: Sequence[str]) -> list[Applied | VrmError]:
        """Close retired attempts of handoffs."""
        answers: list[Applied | VrmError] = self.handle.call("resolve", proof_digests)
        return answers

    def release(self, releases: Sequence[Release]) -> list[Applied | VrmError]:
        """Release handoffs with the references they bound."""
        answers: list[Applied | VrmError] = self.handle.call("release", releases)
        return answers


class HeadHosts:
    """The hosts of lifecycle heads behind their port; a variant always lives on the same host."""

    def __init__(self, hosts: Sequence[Handle]) -> None:
        """Share the variants among `hosts`."""
        self.hosts = tuple(hosts)

    def reserve(self, namespace: str, plan: str, events: Sequence[LifecycleEvent]) -> Sequence[Reservation]:
        """Take the variants of a plan's events, host by host in a fixed order.

        Raises:
            StaleError: a variant is held for another plan, or an event does not consume the head that is there; what
                an earlier host gave is held until `release`.
            IllegalTransitionError: an event has no arrow in the Lifecycle Policy.
        """
        shares: list[list[LifecycleEvent]] = [[] for _ in self.hosts]
        for event in events:
            shares[int(event.scope_variant_id[-8:], 16) % len(self.hosts)].append(event)
        return [
            host.call("reserve", namespace, plan, share)
            for host, share in zip(self.hosts, shares, strict=True)
            if share
        ]

    def release(self, plan: str) -> None:
        """Let go of a plan's variants everywhere; with a host that cannot be had they lapse by themselves."""
        for host in self.hosts:
            with suppress(UnavailableError):
                host.call("release", plan)


class DistillerPool:
    """Distillation workers, who work in parallel.

    A task scope always goes to the same one, so a variant is never led twice at once.
    """

    def __init__(self, workers: Sequence[Handle]) -> None:
        """Share the scopes among `workers`."""
        self.workers = tuple(workers)

    def propose(self, requests: Sequence[DistillationRequest]) -> list[Proposal]:
        """Return one proposal per request, in order."""
        shares: list[list[int]] = [[] for _ in self.workers]
        for place, request in enumerate(requests):
            shares[int(request.item.task_scope_id[-8:], 16) % len(self.workers)].append(place)
        busy = [(worker, places) for worker, places in zip(self.workers, shares, strict=True) if places]
        found: dict[int, Proposal] = {}
        with ThreadPoolExecutor(len(self.workers)) as threads:
            asked = ((worker, [requests[place] for place in places]) for worker, places in busy)
            answers = threads.map(lambda each: each[0].call("propose", each[1]), asked)
            for (_, places), answered in zip(busy, answers, strict=True):
                found |= dict(zip(places, answered, strict=True))
        return [found[place] for place in range(len(requests))]


class EmbedderHandle:
    """The embedding model in its own process, as an `Embedder`."""

    def __init__(self, handle: Handle) -> None:
        """Call through `handle`; nothing is loaded yet."""
        self.handle = handle

    @cached_property
    def id(self) -> str:
        """The embedder's id."""
        return str(self.handle.call("identity"))

    @cached_property
    def dimensions(self) -> int:
        """The number of dimensions; the model is loaded for it."""
        return int(self.handle.call("width"))

    def embed(self, texts: Sequence[str], *, kind: str = "passage") -> NDArray[np.float32]:
        """Return one unit vector per text, shape (n, dimensions)."""
        return cast("NDArray[np.float32]", self.handle.call("embed", list(texts), kind))

    def begin(self, texts: Sequence[str], *, kind: TextKind = "passage") -> Waiting:
        """Start to embed; what comes back gives what `embed` does, and raises what it does."""
        lost = (RayActorError, GetTimeoutError, UnavailableError)
        try:
            begun = self.handle.begin("embed", list(texts), kind)
        except lost:
            return partial(self.embed, texts, kind=kind)

        def waited() -> NDArray[np.float32]:
            try:
                vectors: NDArray[np.float32] = self.handle.finish(*begun)
            except lost:
                return self.embed(texts, kind=kind)
            return vectors

        return waited


@dataclass(frozen=True)
class Owners:
    """Every actor of an installation behind its port."""

    coordinator: CoordinatorHandle
    run_owner: RunOwnerHandle
    heads: HeadHosts
    distillers: DistillerPool
    retrievers: RetrieverPool[Handle]
    embedder: EmbedderHandle

    def handles(self) -> dict[str, Handle]:
        """Return every handle by the name of its role."""
        numbered = {f"{LIFECYCLE_HEAD}-{place}": handle for place, handle in enumerate(self.heads.hosts)}
        numbered |= {f"distiller-{place}": handle for place, handle in enumerate(self.distillers.workers)}
        numbered |= {f"retriever-{place}": handle for place, handle in enumerate(self.retrievers.replicas)}
        return {
            COORDINATOR: self.coordinator.handle,
            RUN_OWNER: self.run_owner.handle,
            "embedder": self.embedder.handle,
            **numbered,
        }


def owners_of(settings: Settings, handle: Callable[[Role, Settings], Handle] = Handle) -> Owners:
    """Return the actors of an installation; each is found or created when it is first called.

    The process must be connected to a cluster (`actors.cluster.connect`), unless another kind of `handle` hosts them.
    """

    def make(name: str, actor: type[Any], *arguments: Any) -> Handle:
        return handle(Role(name, actor, arguments), settings)

    embedder = EmbedderHandle(make("embedder", EmbedderActor))
    hosts = [make(f"{LIFECYCLE_HEAD}-{each}", LifecycleHeadActor, each) for each in range(HEAD_HOSTS)]
    return Owners(
        coordinator=CoordinatorHandle(make(COORDINATOR, CommitCoordinatorActor), hosts),
        run_owner=RunOwnerHandle(make(RUN_OWNER, RunOwnerActor)),
        heads=HeadHosts(hosts),
        distillers=DistillerPool([make(f"distiller-{each}", DistillationWorkerActor) for each in range(WORKERS)]),
        retrievers=RetrieverPool(
            [make(f"retriever-{each}", RetrieverReplicaActor, embedder) for each in range(REPLICAS)]
        ),
        embedder=embedder,
    )
