"""Every release blocker has a test of its name, and the index of the invariants names them all."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
BLOCKERS = {
    *(f"W{number:02}" for number in range(1, 10)),
    *(f"L{number:02}" for number in range(1, 6)),
    *(f"R{number:02}" for number in range(1, 12)),
    *(f"O{number:02}" for number in range(1, 7)),
}


def test_every_blocker_has_a_test_of_its_name() -> None:
    text = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("test_*.py"))
    named = {found.upper() for found in re.findall(r"def test_vrm_([wlro]\d\d)_", text)}
    assert named == BLOCKERS


def test_the_index_names_every_blocker_and_places_that_exist() -> None:
    index = (ROOT / "docs" / "invariants.md").read_text(encoding="utf-8")
    assert {found[4:] for found in re.findall(r"VRM-[WLRO]\d\d", index)} == BLOCKERS
    for place in set(re.findall(r"`((?:records|policies|store|memory)/[\w/.]+)`", index)):
        assert (ROOT / place).exists(), place
