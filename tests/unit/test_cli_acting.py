"""The options that say who decides: what they need of each other, and where the key goes."""

from __future__ import annotations

import os

import pytest

from records.errors import InvalidInputError
from tests.support.model_server import completion, model_server
from vrm.cli.acting import LLM, PLANNER, chat_of

URL = "http://127.0.0.1:9/v1"
KEY_VARIABLE = "OUR_KEY"


def test_the_planner_needs_nothing() -> None:
    with chat_of(PLANNER, None, None, KEY_VARIABLE, ("off",)) as chat:
        assert chat is None


@pytest.mark.parametrize(
    ("actor", "url", "model", "modes", "field"),
    [
        ("oracle", None, None, (), "--actor"),
        (LLM, None, "m", (), "--actor"),
        (LLM, URL, None, (), "--actor"),
        (LLM, "nowhere", "m", (), "--llm-url"),
        (LLM, URL, "", (), "--llm-model"),
        (PLANNER, URL, None, (), "--llm-url, --llm-model"),
        (PLANNER, None, "m", (), "--llm-url, --llm-model"),
        (LLM, URL, "m", ("off",), "--mode"),
        (LLM, URL, "m", ("decision_memory", "legacy_recall"), "--mode"),
    ],
)
def test_options_that_do_not_go_together(
    actor: str, url: str | None, model: str | None, modes: tuple[str, ...], field: str
) -> None:
    with pytest.raises(InvalidInputError) as caught, chat_of(actor, url, model, KEY_VARIABLE, modes):
        pass
    assert caught.value.field == field


def test_the_key_comes_from_the_environment_and_stays_in_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(KEY_VARIABLE, "sk-test")
    with model_server([completion("{}")]) as server, chat_of(LLM, server.url, "m", KEY_VARIABLE, ()) as chat:
        assert chat is not None
        assert KEY_VARIABLE not in os.environ, "what is started from here inherits the environment"
        assert chat.ask([{"role": "user", "content": "x"}]) == "{}"
    assert server.keys == ["Bearer sk-test"]
