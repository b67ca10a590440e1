"""Who decides: the planner, or a language model that the options of `vrm run` name."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Annotated, Final

import typer

if TYPE_CHECKING:
    from memory.chat import ChatModel

PLANNER: Final = "planner"
LLM: Final = "llm"

ActBy = Annotated[str, typer.Option("--actor", help="Who decides: the deterministic planner, or llm.")]


@contextmanager
def chat_of(
    actor: str, url: str | None, model: str | None, key_variable: str, modes: Sequence[str]
) -> Iterator[ChatModel | None]:
    """Give the model that the options name, None for the planner.

    The key is read from the environment into this process alone; it is not written, shown or passed on.

    Raises:
        InvalidInputError: an option is missing, superfluous or refused, or a mode has no decision for a model.
        UnavailableError: the client library is not installed.
    """
    from records.errors import InvalidInputError, UnavailableError  # noqa: PLC0415  # help does without

    if actor not in {PLANNER, LLM}:
        raise InvalidInputError("--actor", actor, f"Say {PLANNER} or {LLM}.")
    if actor == PLANNER:
        if url is not None or model is not None:
            raise InvalidInputError("--llm-url, --llm-model", url or model, "They go with --actor llm.")
        yield None
        return
    apart = sorted({"off", "legacy_recall"} & set(modes))
    if apart:
        remedy = "A model is registered in intents and given Evidence Cards; `off` has no intents, the other no cards."
        raise InvalidInputError("--mode", ", ".join(apart), remedy)
    if url is None or model is None:
        raise InvalidInputError("--actor", actor, "Name the server and the model: --llm-url and --llm-model.")
    try:
        from memory.chat import ChatModel, Limits  # noqa: PLC0415  # as above
    except ModuleNotFoundError as error:
        raise UnavailableError("--actor llm", str(error), "Install the extra `llm` of this project.") from error
    from policies.acting import Said  # noqa: PLC0415

    key = os.environ.pop(key_variable, "").strip()  # servers and workers that are started from here must not inherit it
    limits = Limits(rest_seconds=0)  # one decision that failed is no reason to fail the next one unasked
    with closing(ChatModel(url, model, key, name="decision", schema=Said, limits=limits)) as chat:
        yield chat
