"""Run the evaluator as a process and trust nothing of its answer that cannot be checked.

Rules kept here:

- the process gets an environment built from a short list, so no setting of this system reaches it;
- it has a time limit; at the limit its whole process group is killed, children included;
- the answer is a file in a fresh folder. A crash, a hang, an answer that is missing, not strict JSON, of another
  shape, of another length, about other requests, without the metrics, or from other code is one `EvaluatorError`, and
  no part of such an answer is used;
- what is wrong with one set of predictions is not an error: it comes back as violations of its result.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from pydantic import ValidationError

from experiments.archive import write_bytes
from experiments.evaluator.protocol import (
    EvaluationRequest,
    EvaluationResult,
    EvaluatorSettings,
    RequestFile,
    ResultFile,
    duplicates,
    evaluator_digest,
)
from experiments.fingerprint import PROJECT_ROOT
from records.canonical import canonical_bytes, parse_canonical
from records.errors import EvaluatorError, InvalidInputError, InvalidRecordError

DEFAULT_COMMAND: Final = (sys.executable, "-m", "experiments.evaluator")
_PASSED_ON: Final = ("PATH", "HOME", "TMPDIR", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "SYSTEMROOT")
_ONE_THREAD: Final = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
_RESULT_LIMIT: Final = 64 * 2**20
_STDERR_TAIL: Final = 140


def evaluate(
    requests: Sequence[EvaluationRequest],
    *,
    contract: EvaluatorSettings,
    private_dir: Path,
    artifact_dir: Path,
    workdir: Path,
    timeout_seconds: float | None = None,
    command: Sequence[str] = DEFAULT_COMMAND,
) -> list[EvaluationResult]:
    """Have one evaluator process judge every request.

    Args:
        requests: what to judge; the keys are distinct.
        contract: metrics and bounds.
        private_dir: the folder with the hidden labels.
        artifact_dir: the folder with the predictions.
        workdir: where a folder for the exchanged files is made; it is removed afterwards.
        timeout_seconds: the time limit; None takes the contract's.
        command: the program; the paths of the request file and of the result file are appended.

    Returns:
        One result per request, in the same order.

    Raises:
        InvalidInputError: two requests have one key.
        EvaluatorError: the process crashed, hung, or answered anything but a full result.
    """
    twice = duplicates(request.observation_key for request in requests)
    if twice:
        raise InvalidInputError("observation_key", twice, "Give every request a key of its own.")
    if not requests:
        return []
    asked = RequestFile(
        settings=contract,
        artifact_dir=str(artifact_dir.resolve()),
        private_dir=str(private_dir.resolve()),
        requests=tuple(requests),
    )
    return _checked(_exchange(asked, workdir, command, timeout_seconds or contract.timeout_seconds), asked)


def _exchange(asked: RequestFile, workdir: Path, command: Sequence[str], timeout_seconds: float) -> ResultFile:
    """Have the process answer one request file, in a fresh folder that is removed afterwards."""
    workdir.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=workdir, prefix="evaluation-") as folder:
        request_path, result_path = Path(folder, "request.json"), Path(folder, "result.json")
        write_bytes(request_path, canonical_bytes(asked.model_dump(mode="json")), mode=0o600)
        _run([*command, str(request_path), str(result_path)], Path(folder), timeout_seconds)
        return _read(result_path)


def _run(command: list[str], folder: Path, timeout_seconds: float) -> None:
    log = folder / "stderr.log"
    with log.open("wb") as stderr:
        try:
            process = subprocess.Popen(  # noqa: S603  # the program is ours or a test's, never a user's text
                command,
                cwd=folder,
                env=_environment(),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=stderr,
                start_new_session=True,
            )
        except OSError as error:
            raise EvaluatorError(
                "evaluator", str(error), "The program cannot be started; check the command."
            ) from error
        try:
            code = process.wait(timeout_seconds)
        except subprocess.TimeoutExpired as error:
            remedy = "It was killed with its children. Raise the contract's timeout or evaluate fewer at a time."
            raise EvaluatorError("evaluator", f"no answer after {timeout_seconds:g} s", remedy) from error
        finally:
            _kill_group(process)
    if code:
        met = f"killed by {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
        raise EvaluatorError("evaluator", f"{met}: {_tail(log)}", "Nothing was judged; repair it and evaluate again.")


def _kill_group(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:  # the leader is not reaped yet, so the group's number is still its own
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _environment() -> dict[str, str]:
    kept = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
    fixed = {"LANG": "C.UTF-8", "PYTHONHASHSEED": "0", "PYTHONPATH": str(PROJECT_ROOT), "PYTHONDONTWRITEBYTECODE": "1"}
    return kept | fixed | dict.fromkeys(_ONE_THREAD, "1")


def _read(path: Path) -> ResultFile:
    try:
        with path.open("rb") as stream:
            data = stream.read(_RESULT_LIMIT + 1)
    except OSError as error:
        raise EvaluatorError(
            "evaluator", "no result file", "It ended well and wrote nothing; check its code."
        ) from error
    if len(data) > _RESULT_LIMIT:
        raise EvaluatorError("evaluator", f"a result above {_RESULT_LIMIT} bytes", "Evaluate fewer at a time.")
    try:
        content = parse_canonical(data)
        if not isinstance(content, dict):
            raise EvaluatorError("evaluator", f"a result that is {content!r}", "A result is a JSON object.")
        return ResultFile.model_validate(content)
    except (InvalidRecordError, ValidationError) as error:
        first = error.value if isinstance(error, InvalidRecordError) else _first(error)
        raise EvaluatorError("evaluator", f"an invalid result: {first}", "Nothing of it is used.") from error


def _first(error: ValidationError) -> str:
    detail = error.errors()[0]
    return f"{'.'.join(str(part) for part in detail['loc'])}: {detail['msg']}"


def _checked(answer: ResultFile, asked: RequestFile) -> list[EvaluationResult]:
    if len(answer.results) != len(asked.requests):
        met = f"{len(answer.results)} results for {len(asked.requests)} requests"
        raise EvaluatorError("evaluator", met, "Nothing of it is used; evaluate again.")
    expected = evaluator_digest()
    if answer.evaluator_digest != expected:
        raise EvaluatorError("evaluator", f"code {answer.evaluator_digest}", f"The code here is {expected}; restart.")
    for request, result in zip(asked.requests, answer.results, strict=True):
        if (request.observation_key, request.predictions_sha256) != (result.observation_key, result.predictions_sha256):
            raise EvaluatorError("evaluator", f"a result for {result.observation_key}", f"It was asked {request!r}.")
        if result.valid and result.metrics.keys() != asked.settings.metric_keys:
            raise EvaluatorError("evaluator", f"metrics {sorted(result.metrics)}", "A valid result has every metric.")
    return list(answer.results)


def _tail(log: Path) -> str:
    text = log.read_text(encoding="utf-8", errors="replace").strip()
    return text[-_STDERR_TAIL:].replace("\n", " ")
