"""The job that commands work with: everything brought up, in one namespace, under one driver's name."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from memory.acting import LlmActor
    from memory.chat import ChatModel
    from vrm.bootstrap import Stores
    from vrm.mainjob.job import Job


@contextmanager
def opened_job(
    namespace: str,
    size: str,
    *,
    quiet: bool,
    modes: Sequence[str] = (),
    recall_input: str | None = None,
    chat: ChatModel | None = None,
) -> Iterator[Job]:
    """Bring everything up and give the job; servers and actors keep running afterwards.

    Args:
        namespace: of the Ledger.
        size: how much one round does.
        quiet: show no progress.
        modes: the round's own mode, then that of an arm to compare with; decision memory if none is given.
        recall_input: a beginning of the id of what frozen memory queries.
        chat: the model that decides; None leaves it to the planner.
    """
    from rich.console import Console  # noqa: PLC0415  # brings everything along

    from records.errors import InvalidInputError  # noqa: PLC0415
    from records.fields import require_namespace  # noqa: PLC0415
    from records.legacy import require_scoped  # noqa: PLC0415
    from vrm.bootstrap import home_of, open_stores, owners, start_cluster  # noqa: PLC0415
    from vrm.cli.modes import frozen_of, modes_of  # noqa: PLC0415
    from vrm.mainjob.driver import driver  # noqa: PLC0415
    from vrm.mainjob.job import Job, pinned_policies  # noqa: PLC0415
    from vrm.mainjob.plan import SIZES  # noqa: PLC0415
    from vrm.mainjob.run import next_round  # noqa: PLC0415
    from vrm.mainjob.steps import frozen_input  # noqa: PLC0415

    require_namespace(namespace)
    if size not in SIZES:
        raise InvalidInputError("--size", size, f"Sizes: {', '.join(sorted(SIZES))}.")
    require_scoped(namespace)
    asked = modes_of(modes)
    shown = Console(stderr=True)
    home = home_of()
    with shown.status("Starting Postgres and Ray") if not quiet else _nothing():
        stores = open_stores(home)
        actors = owners(stores, start_cluster(home))
    try:
        prefix = frozen_of(stores.ledger, recall_input)
        frozen = None if prefix is None else frozen_input(stores.ledger, namespace, prefix)
        actor = None if chat is None else _actor(chat, stores)
        named = None if actor is None else actor.identity.model
        at = (stores.runtime, stores.artifacts, namespace, SIZES[size], asked)
        round_ = next_round(*at, frozen_input=frozen, actor=named)
        with driver(home.drivers) as holder:
            yield Job(stores, actors, round_, pinned_policies(), shown, holder, quiet=quiet, actor=actor)
    finally:
        stores.close()


def _actor(chat: ChatModel, stores: Stores) -> LlmActor:
    from memory.acting import LlmActor  # noqa: PLC0415  # as above
    from memory.distillation.exchanges import Exchanges  # noqa: PLC0415

    return LlmActor(chat, stores.artifacts, Exchanges(stores.home.drafts))


@contextmanager
def _nothing() -> Iterator[None]:
    yield
