"""What happens when the peer that a benchmark was given is none."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from evaluation.bench.recall_peer import running
from records.errors import InvalidInputError


@pytest.mark.parametrize("python", [Path(sys.executable), Path("/nowhere/bin/python")])
def test_a_python_without_mem0_is_refused_by_name(python: Path) -> None:
    """The one that runs the tests has no mem0."""
    with pytest.raises(InvalidInputError, match=str(python)) as refused, running(python, "dbname=none"):
        pass
    assert "mem0ai" in str(refused.value)


def test_no_python_is_no_peer() -> None:
    with running(None, "dbname=none") as service:
        assert service is None
