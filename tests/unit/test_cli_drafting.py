"""The options that say who words rules: what they need of each other, and where the key goes."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from records.errors import InvalidInputError
from records.ids import EvidenceSnapshotId
from tests.support.model_server import completion, model_server
from tests.unit.test_drafting import CLAIM, GAIN
from tests.unit.test_drafting_llm import KEY, content
from vrm.cli.drafting import KEY_VARIABLE, LLM, TEMPLATE, drafter_of

URL = "http://127.0.0.1:9/v1"


def test_the_template_needs_nothing() -> None:
    with drafter_of(TEMPLATE, None, None, KEY_VARIABLE) as drafter:
        assert drafter is None


@pytest.mark.parametrize(
    ("draft", "url", "model", "field"),
    [
        ("model", None, None, "--draft"),
        (LLM, None, "m", "--draft"),
        (LLM, URL, None, "--draft"),
        (LLM, "nowhere", "m", "--llm-url"),
        (LLM, URL, "", "--llm-model"),
        (TEMPLATE, URL, None, "--llm-url, --llm-model"),
        (TEMPLATE, None, "m", "--llm-url, --llm-model"),
    ],
)
def test_options_that_do_not_go_together(draft: str, url: str | None, model: str | None, field: str) -> None:
    with pytest.raises(InvalidInputError) as caught, drafter_of(draft, url, model, KEY_VARIABLE):
        pass
    assert caught.value.field == field


def test_the_key_comes_from_the_environment_and_stays_in_the_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VRM_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("OUR_KEY", KEY)
    with model_server([completion(content())]) as server, drafter_of(LLM, server.url, "m", "OUR_KEY") as drafter:
        assert drafter is not None
        assert "OUR_KEY" not in os.environ, "what is started from here inherits the environment"
        assert drafter.word(EvidenceSnapshotId.derive({"s": 1}), GAIN).claim == CLAIM
        assert drafter.outcomes == {drafter.identity: 1}
    assert server.keys == [f"Bearer {KEY}"]
    (kept,) = (tmp_path / "home" / "drafts").iterdir()
    assert KEY not in kept.read_text()
