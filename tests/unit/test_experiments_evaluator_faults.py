"""Evaluators that crash, hang or answer nonsense: real processes, one typed error."""

from __future__ import annotations

import json
import os
import select
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from experiments.evaluator.client import evaluate
from experiments.evaluator.protocol import EvaluationRequest, EvaluationResult, EvaluatorSettings, evaluator_digest
from records.errors import EvaluatorError

SETTINGS = EvaluatorSettings()
REQUEST = EvaluationRequest(
    observation_key="run",
    predictions_path="run.npz",
    predictions_sha256="0" * 64,
    labels_path="labels.npz",
    labels_sha256="1" * 64,
)
Run = Callable[..., list[EvaluationResult]]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Evaluate one request with a program given as text; its arguments are the request and the result path."""

    def _run(program: str, timeout_seconds: float = 60.0) -> list[EvaluationResult]:
        return evaluate(
            [REQUEST],
            contract=SETTINGS,
            private_dir=tmp_path,
            artifact_dir=tmp_path,
            workdir=tmp_path / "work",
            timeout_seconds=timeout_seconds,
            command=[sys.executable, "-c", program],
        )

    return _run


def _answer(text: str) -> str:
    return f"import sys, pathlib; pathlib.Path(sys.argv[2]).write_text({text!r})"


def _result(**changes: Any) -> dict[str, Any]:
    metrics = dict.fromkeys(SETTINGS.metric_keys, 0.5)
    return {
        "observation_key": "run", "predictions_sha256": "0" * 64, "metrics": metrics, "violations": [],
    } | changes  # fmt: skip


def _file(*results: object, **changes: Any) -> str:
    return json.dumps({"schema_version": 1, "evaluator_digest": evaluator_digest(), "results": results} | changes)


def test_a_full_answer_is_taken(run: Run) -> None:
    (result,) = run(_answer(_file(_result())))
    assert result.valid
    assert result.metrics["test_accuracy"] == 0.5


def test_an_evaluator_that_crashes(run: Run) -> None:
    with pytest.raises(EvaluatorError) as caught:
        run("raise RuntimeError('labels are gone')")
    assert caught.value.field == "evaluator"
    assert "exit code 1" in caught.value.value
    assert "labels are gone" in caught.value.value


def test_an_evaluator_that_crashes_after_writing_a_result(run: Run) -> None:
    with pytest.raises(EvaluatorError, match="exit code 3"):
        run(_answer(_file(_result())) + "; sys.exit(3)")


def test_an_evaluator_that_dies_of_a_signal(run: Run) -> None:
    with pytest.raises(EvaluatorError, match="SIGSEGV"):
        run("import os, signal; signal.signal(signal.SIGSEGV, signal.SIG_DFL); os.kill(os.getpid(), signal.SIGSEGV)")


def test_an_evaluator_that_hangs_is_killed_with_its_children(run: Run, tmp_path: Path) -> None:
    note = tmp_path / "pids"
    program = (
        "import os, signal, pathlib, subprocess, sys\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import signal; signal.pause()'])\n"
        f"pathlib.Path({str(note)!r}).write_text(f'{{os.getpid()}} {{child.pid}}')\n"
        "signal.pause()\n"
    )
    with pytest.raises(EvaluatorError, match=r"no answer after 1\.5 s"):
        run(program, timeout_seconds=1.5)
    for pid in map(int, note.read_text(encoding="ascii").split()):
        assert _ended(pid)


def _ended(pid: int) -> bool:
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        ready, _, _ = select.select([handle], [], [], 10)
        return bool(ready)
    finally:
        os.close(handle)


@pytest.mark.parametrize(
    "text",
    [
        '"balanced accuracy 0.93, all good"',
        "0.93",
        "null",
        "[]",
        "",
        "balanced accuracy 0.93",
        _file(_result(metrics="0.93")),
        _file(_result(metrics={"test_accuracy": "0.93"})),
        _file(_result(metrics={"test_accuracy": True})),
        _file(_result(metrics=dict.fromkeys(SETTINGS.metric_keys, float("nan")))),
        _file(_result(metrics=dict.fromkeys(SETTINGS.metric_keys, float("inf")))),
        _file(_result(metrics={"test_accuracy": 0.5})),
        _file(_result(metrics={})),
        _file(_result(observation_key="another run")),
        _file(_result(predictions_sha256="9" * 64)),
        _file(_result(violations="none")),
        _file(_result(passed=True)),
        _file(),
        _file(_result(), _result()),
        _file("valid"),
        _file(_result(), evaluator_digest="0" * 64),
        _file(_result(), schema_version=2),
        _file(_result())[:-1],
        '{"results": [], "results": []}',
    ],
)
def test_an_answer_that_is_no_result(run: Run, text: str) -> None:
    with pytest.raises(EvaluatorError) as caught:
        run(_answer(text))
    assert caught.value.field == "evaluator"
    assert caught.value.remedy


def test_an_evaluator_that_answers_on_standard_output_only(run: Run) -> None:
    with pytest.raises(EvaluatorError, match="no result file"):
        run(f"print({_file(_result())!r})")


def test_a_program_that_cannot_be_started(tmp_path: Path) -> None:
    with pytest.raises(EvaluatorError, match="cannot be started"):
        evaluate(
            [REQUEST],
            contract=SETTINGS,
            private_dir=tmp_path,
            artifact_dir=tmp_path,
            workdir=tmp_path,
            command=[str(tmp_path / "absent")],
        )


def test_the_process_inherits_no_setting_of_ours(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("VRM_LEDGER_DSN", "RAY_ADDRESS", "PGPASSWORD"):
        monkeypatch.setenv(name, "secret")
    dump = tmp_path / "environment.json"
    program = f"import json, os, pathlib; pathlib.Path({str(dump)!r}).write_text(json.dumps(dict(os.environ)))"
    with pytest.raises(EvaluatorError, match="no result file"):
        run(program)
    seen = json.loads(dump.read_text(encoding="utf-8"))
    assert "secret" not in seen.values()
    assert not [name for name in seen if name.startswith(("VRM_", "RAY_"))]


def test_nothing_is_left_behind(run: Run, tmp_path: Path) -> None:
    with pytest.raises(EvaluatorError):
        run("raise SystemExit(1)")
    assert list((tmp_path / "work").iterdir()) == []
