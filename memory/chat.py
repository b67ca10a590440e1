"""One exchange with a language model, over any server that speaks the OpenAI chat interface.

Rules kept here:

- what goes wrong is a reason, never an exception: a server may be away, slow, broken or hostile. Attempts, the time of
  each, the tokens asked for and the bytes read are limited, redirects are not followed;
- the answer is asked for as an object of a schema, at temperature 0. Whether it is one, and what it may say, is for the
  caller to check;
- a server that failed for good is left alone for a while, so that a thousand questions do not each wait for it;
- the key is held by the client alone: it is in no identity, note, error or log.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final, cast
from urllib.parse import urlsplit

import httpx2
import openai
from openai.types.chat import ChatCompletion
from pydantic import ValidationError
from tenacity import RetryCallState, Retrying, retry_if_exception_type, stop_after_attempt, wait_random_exponential

from policies.drafting.checks import RefusalReason
from records.errors import InvalidInputError
from records.models import Model

_FAILED: Final = (openai.APIConnectionError, openai.RateLimitError, openai.InternalServerError)
_NAMED: Final = re.compile(r"[^A-Za-z0-9_.:/+-]")
_MODEL_CHARACTERS: Final = 100
_LONGEST_WAIT: Final = 30.0


@dataclass(frozen=True, kw_only=True)
class Limits:
    """How long, how often and how much.

    Attributes:
        attempts: requests for one answer at most.
        seconds: longest time of one attempt, connecting and reading.
        wait_seconds: longest first wait between attempts; it doubles.
        rest_seconds: how long a server that failed every attempt is left alone.
        output_tokens: tokens asked for at most.
        response_bytes: bytes of an answer read at most.
    """

    attempts: int = 3
    seconds: float = 60.0
    wait_seconds: float = 1.0
    rest_seconds: float = 60.0
    output_tokens: int = 800
    response_bytes: int = 64_000


class ChatModel:
    """A model behind a server, asked for objects of one schema."""

    def __init__(
        self, url: str, model: str, key: str, *, name: str, schema: type[Model], limits: Limits | None = None
    ) -> None:
        """Ask `model` at the base URL of a server, such as http://host:8000/v1.

        Args:
            url: the base URL.
            model: the model, as the server names it.
            key: the key to the server; empty if it asks for none.
            name: the name of the schema, which the server is told.
            schema: what an answer is an object of.
            limits: how long, how often and how much.

        Raises:
            InvalidInputError: the address is none, no model is named, or the key is no text for a header.
        """
        _require_address(url)
        if not (key.isascii() and key.isprintable()):
            raise InvalidInputError(
                "key of the model's server", "not shown", "It has other characters than printable ASCII."
            )
        if not model.strip():
            raise InvalidInputError("--llm-model", model, "Name the model as the server does.")
        self._model, self._name, self._schema = model, name, schema
        self._limits = limits or Limits()
        self._rests_until = 0.0
        timeout = httpx2.Timeout(self._limits.seconds)
        self._client = openai.OpenAI(
            base_url=url,
            api_key=key or "none",
            max_retries=0,  # tenacity repeats the whole exchange, its body included
            timeout=timeout,
            http_client=httpx2.Client(
                timeout=timeout, follow_redirects=False, event_hooks={"response": [self._bound_response]}
            ),
        )

    @property
    def called(self) -> str:
        """The model's name; characters that a name cannot have are dashes in it."""
        return _NAMED.sub("-", self._model)[:_MODEL_CHARACTERS]

    @property
    def options(self) -> dict[str, Any]:
        """What shapes an answer besides the messages."""
        return {
            "model": self._model,
            "temperature": 0,
            "seed": 0,
            "max_tokens": self._limits.output_tokens,
            "response_format": {
                "type": "json_schema",
                "json_schema": {"name": self._name, "strict": True, "schema": self._schema.model_json_schema()},
            },
        }

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def ask(self, messages: list[dict[str, str]]) -> str | RefusalReason:
        """Return the content of the model's answer, or why there is none."""
        if time.monotonic() < self._rests_until:
            return RefusalReason.UNAVAILABLE
        attempts = Retrying(
            retry=retry_if_exception_type(_FAILED),
            stop=stop_after_attempt(self._limits.attempts),
            wait=self._wait,
            reraise=True,
        )
        try:
            return attempts(self._exchange, messages)
        except openai.APITimeoutError:
            return self._rest(RefusalReason.TIMEOUT)
        except _FAILED:
            return self._rest(RefusalReason.UNAVAILABLE)
        except openai.APIStatusError:
            return RefusalReason.REQUEST_REJECTED
        except openai.OpenAIError:
            return RefusalReason.MALFORMED

    def _exchange(self, messages: list[dict[str, str]]) -> str | RefusalReason:
        """Send the request once and return the content of the answer."""
        create = cast("Callable[..., Any]", self._client.chat.completions.with_raw_response.create)
        try:
            response = create(messages=messages, **self.options)
        except openai.APIConnectionError as error:
            if isinstance(error.__cause__, _TooLargeError):
                return RefusalReason.TOO_LARGE
            raise
        return _content(response.content)

    def _wait(self, state: RetryCallState) -> float:
        """Return the seconds that the server asks to wait, if it says so and they are few, else longer each time."""
        failed = state.outcome.exception() if state.outcome else None
        asked = failed.response.headers.get("retry-after", "") if isinstance(failed, openai.APIStatusError) else ""
        if asked.isdecimal():
            return min(float(asked), _LONGEST_WAIT)
        return wait_random_exponential(multiplier=self._limits.wait_seconds, max=_LONGEST_WAIT)(state)

    def _bound_response(self, response: httpx2.Response) -> None:
        """Let a response be read no further than the limits, whatever its status."""
        ends = time.monotonic() + self._limits.seconds
        response.stream = _Bounded(cast("httpx2.SyncByteStream", response.stream), self._limits.response_bytes, ends)

    def _rest(self, reason: RefusalReason) -> RefusalReason:
        self._rests_until = time.monotonic() + self._limits.rest_seconds
        return reason


class _TooLargeError(httpx2.TransportError):
    """More bytes than the limit."""


class _Bounded(httpx2.SyncByteStream):
    """A stream that ends in an error when it becomes too long or takes too long."""

    def __init__(self, stream: httpx2.SyncByteStream, size: int, ends: float) -> None:
        self._stream, self._left, self._ends = stream, size, ends

    def __iter__(self) -> Iterator[bytes]:
        for chunk in self._stream:
            self._left -= len(chunk)
            if self._left < 0:
                raise _TooLargeError("more bytes than allowed")
            if time.monotonic() > self._ends:
                raise httpx2.ReadTimeout("the whole answer took too long")
            yield chunk

    def close(self) -> None:
        self._stream.close()


def _require_address(url: str) -> None:
    remedy = "Give a base URL such as http://host:8000/v1; a key goes into the environment, never into an address."
    try:
        parts = urlsplit(url)
        sound = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError as error:
        raise InvalidInputError("--llm-url", str(error), remedy) from None
    if "@" in parts.netloc:
        raise InvalidInputError("--llm-url", parts.hostname, remedy)
    if not sound:
        raise InvalidInputError("--llm-url", url, remedy)


def _content(body: bytes) -> str | RefusalReason:
    """Return the text of the one choice of a chat completion."""
    try:
        choice = ChatCompletion.model_validate_json(body).choices[0]
    except (ValidationError, IndexError):
        return RefusalReason.MALFORMED
    if choice.finish_reason == "length":
        return RefusalReason.CUT_SHORT
    if choice.message.refusal or choice.finish_reason == "content_filter":
        return RefusalReason.DECLINED
    return choice.message.content or RefusalReason.DECLINED
