"""`python -m experiments.evaluator REQUEST.json RESULT.json`: the evaluator process.

It reads one request file, judges every request and writes one result file, whole or not at all. Exit code 0 means
that the result file is there; anything else means that nothing was judged. Standard output is not used.
"""

from __future__ import annotations

import sys
from pathlib import Path

from experiments.archive import write_bytes
from experiments.evaluator.protocol import RequestFile, ResultFile, evaluator_digest
from experiments.evaluator.scoring import judge
from records.canonical import canonical_bytes

_USAGE = "usage: python -m experiments.evaluator REQUEST.json RESULT.json"


def main(arguments: list[str]) -> int:
    """Judge what the request file asks and write the result file; return the exit code."""
    try:
        request_path, result_path = (Path(argument) for argument in arguments)
    except ValueError:
        sys.stderr.write(f"{_USAGE}\n")
        return 2
    asked = RequestFile.model_validate_json(request_path.read_bytes())
    artifact_dir, private_dir = Path(asked.artifact_dir), Path(asked.private_dir)
    results = tuple(judge(request, asked.settings, artifact_dir, private_dir) for request in asked.requests)
    answer = ResultFile(evaluator_digest=evaluator_digest(), results=results)
    write_bytes(result_path, canonical_bytes(answer.model_dump(mode="json")))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
