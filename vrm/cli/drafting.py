"""Who words rules: options that any command which distils can take, and the drafter that they name."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Annotated, Final

import typer

from actors.environment import MODEL_KEY

if TYPE_CHECKING:
    from memory.distillation.wording import Drafter

TEMPLATE: Final = "template"
LLM: Final = "llm"
KEY_VARIABLE: Final = MODEL_KEY

DraftBy = Annotated[str, typer.Option("--draft", help="Who words promoted rules: template or llm.")]
LlmUrl = Annotated[
    str | None, typer.Option("--llm-url", help="Base URL of a server with the OpenAI interface.", show_default=False)
]
LlmModel = Annotated[
    str | None, typer.Option("--llm-model", help="The model, as the server names it.", show_default=False)
]
LlmKeyVariable = Annotated[
    str, typer.Option("--llm-key-variable", help="Environment variable with the server's key, if it needs one.")
]


@contextmanager
def drafter_of(draft: str, url: str | None, model: str | None, key_variable: str) -> Iterator[Drafter | None]:
    """Give the drafter that the options name, None for the template.

    The key is read from the environment into this process alone; it is not written, shown or passed on.

    Raises:
        InvalidInputError: an option is missing, superfluous or refused.
        UnavailableError: the client library is not installed.
    """
    from records.errors import InvalidInputError, UnavailableError  # noqa: PLC0415  # help does without

    if draft not in {TEMPLATE, LLM}:
        raise InvalidInputError("--draft", draft, f"Say {TEMPLATE} or {LLM}.")
    if draft == TEMPLATE:
        if url is not None or model is not None:
            raise InvalidInputError("--llm-url, --llm-model", url or model, "They go with --draft llm.")
        yield None
        return
    if url is None or model is None:
        raise InvalidInputError("--draft", draft, "Name the server and the model: --llm-url and --llm-model.")
    try:
        from memory.distillation.exchanges import Exchanges  # noqa: PLC0415  # as above
        from memory.distillation.llm import LlmDrafting  # noqa: PLC0415
        from memory.distillation.wording import Drafter  # noqa: PLC0415
    except ModuleNotFoundError as error:
        raise UnavailableError("--draft llm", str(error), "Install the extra `llm` of this project.") from error
    from vrm.bootstrap import home_of  # noqa: PLC0415

    key = os.environ.pop(key_variable, "").strip()  # servers and workers that are started from here must not inherit it

    exchanges = Exchanges(home_of().drafts)
    with closing(LlmDrafting(url, model, key, exchanges)) as adapter:
        yield Drafter(adapter)
