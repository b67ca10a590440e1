"""What it costs to check the predicates of many claims at one retrieval, against hashing the files that they name.

- `check`: one pass over all claims, as a retrieval makes it, with nothing remembered from before;
- `hash`: each file that they name opened by its path, read and hashed once, with nothing checked;
- `remembered`: one pass in a process that has seen the files before, unchanged for long enough.

Files are like those of a code base: some folders deep, some kilobytes long, each different. They stay in the cache of
the system, so that what is compared is work and not a disk.
"""

from __future__ import annotations

import hashlib
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from evaluation.bench.measuring import Alternative, Ratio, machine, middles, spread, take_turns
from memory.workspace.contents import Digests
from memory.workspace.place import Workspace
from memory.workspace.predicates import Checker
from policies.workspace.recall import claim_recall_policy
from records.errors import IntegrityError
from records.workspace import (
    ClaimSource,
    ClaimStatus,
    ClaimType,
    EvidenceCertificate,
    EvidenceEvent,
    FileHash,
    Trust,
    WorkspaceClaim,
)

Told = Callable[[str, int, int], None]
_SIZES: Final = (1_500, 4_000, 7_000, 12_000, 20_000)
"""Bytes of files, in turn."""
_FOLDER: Final = 50
_ROUNDS: Final = 5
_NOW: Final = "2026-01-01T00:00:00.000000Z"
_MEANING: Final = {
    "check_vs_hash": "a pass over all claims against hashing each file that they name once",
    "remembered_vs_hash": "a pass with trusted digests against the same",
}


def bench_claims(claims: int, told: Told, per_file: int = 1) -> dict[str, Any]:
    """Return the ratios; `per_file` claims name each file."""
    with tempfile.TemporaryDirectory(prefix="vrm-bench-claims-") as folder:
        root = Path(folder)
        made = _claims(root, claims, per_file)
        named = {each.path for claim in made for each in claim.predicates if isinstance(each, FileHash)}
        paths = sorted(str(root / path) for path in named)
        settled = _settled(root, made)
        timings = take_turns(
            [
                Alternative(name="hash", act=lambda _: _hash(paths), repeats=1),
                Alternative(name="check", act=lambda _: _check(root, made, None), repeats=1),
                Alternative(name="remembered", act=lambda _: _check(root, made, settled), repeats=1),
            ],
            _ROUNDS,
            lambda done, whole: told("rounds", done, whole),
        )
    ratios: dict[str, Ratio | None] = {
        "check_vs_hash": Ratio.of(timings["check"].middles, timings["hash"].middles),
        "remembered_vs_hash": Ratio.of(timings["remembered"].middles, timings["hash"].middles),
    }
    return {
        "benchmark": "claims",
        "claims": claims,
        "files": len(paths),
        "megabytes": sum(_SIZES[place % len(_SIZES)] for place in range(len(paths))) / 1e6,
        **middles(ratios),
        "spread": spread(ratios),
        "meaning": _MEANING,
        "absolute": {name: each.summary() for name, each in timings.items()},
        "machine": machine(),
    }


def _claims(root: Path, count: int, per_file: int) -> list[WorkspaceClaim]:
    """Write the files, and return a claim on each, or several."""
    certificate = EvidenceCertificate(
        extractor_version="bench/1",
        claim_schema_version="1",
        evidence=(EvidenceEvent(event_id="bench", content_digest="0" * 64),),
    )
    made = []
    for number in range(count):
        file = number // per_file
        path = f"src/part{file // _FOLDER}/module{file}.py"
        data = f"# {file}\n".encode().ljust(_SIZES[file % len(_SIZES)], b"x")
        if number % per_file == 0:
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_bytes(data)
        made.append(
            WorkspaceClaim(
                namespace="bench",
                created_at=_NOW,
                workspace="app",
                text=f"Claim {number} of a code base",
                claim_type=ClaimType.FACT,
                trust=Trust.TRUSTED_LOCAL,
                status=ClaimStatus.VERIFIED,
                source=ClaimSource.DETERMINISTIC,
                confidence="1",
                predicates=(FileHash(path=path, sha256=hashlib.sha256(data).hexdigest()),),
                certificate=certificate,
            )
        )
    return made


def _settled(root: Path, claims: list[WorkspaceClaim]) -> Digests:
    """Return digests that are trusted: the files are looked at twice, and time is moved on instead of waited for."""
    settle = claim_recall_policy().predicates.settle_ms / 1000
    later = 0.0
    digests = Digests(settle, lambda: time.monotonic() + later)
    _check(root, claims, digests)
    later = settle
    _check(root, claims, digests)
    return digests


def _check(root: Path, claims: list[WorkspaceClaim], digests: Digests | None) -> None:
    with Workspace(root) as workspace:
        checker = Checker(workspace, claim_recall_policy().predicates, digests)
        failing = sum(bool(checker.findings(claim)) for claim in claims)
    if failing:
        raise IntegrityError("benchmark claims", failing, "Their files are as they were written; report this.")


def _hash(paths: list[str]) -> None:
    for path in paths:
        with Path(path).open("rb") as file:
            hashlib.sha256(file.read()).hexdigest()
