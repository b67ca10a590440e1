"""What the integrity check can find, and how it is told.

Rules kept here: every finding has a code of a closed set, the record it is about, what was met and a remedy; all
findings are counted, the first of each code are listed; a note is something to know about that breaks nothing.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

from memory.fsck.codes import Code
from records.fields import Text
from records.models import Model
from records.values import Count

LISTED_PER_CODE: Final = 100
"""How many findings of one code a report lists; the rest are counted only."""


class Violation(Model):
    """One finding: its code, the record or key it is about, what was met, what to do."""

    code: Code
    record: Text
    met: Text
    remedy: Text


class Note(Model):
    """Something to know about that breaks no rule."""

    code: Text
    record: Text
    met: Text


class FsckReport(Model):
    """The result of one check.

    Attributes:
        checked: how much was looked at, by sort.
        counts: number of violations by code, of which `violations` lists the first of each code.
    """

    checked: dict[str, Count]
    counts: dict[str, Count]
    violations: tuple[Violation, ...]
    notes: tuple[Note, ...]

    @property
    def clean(self) -> bool:
        """Whether nothing was found; notes do not count."""
        return not self.counts

    @property
    def exit_code(self) -> int:
        """The exit code of the command: 0 if clean, else 1."""
        return 0 if self.clean else 1

    def text(self) -> str:
        """Return the report for people, one finding per block."""
        looked = ", ".join(f"{number} {what}" for what, number in self.checked.items())
        lines = [f"Checked {looked}."]
        lines += [f"note {note.code}: {note.record}: {note.met}" for note in self.notes]
        for found in self.violations:
            lines += [f"{found.code}: {found.record}", f"  met:    {found.met}", f"  remedy: {found.remedy}"]
        total = sum(self.counts.values())
        if total > len(self.violations):
            lines.append(f"{total - len(self.violations)} more are counted and not listed.")
        lines.append("Clean." if self.clean else f"{total} violations: " + ", ".join(
            f"{number} {code}" for code, number in self.counts.items()
        ))  # fmt: skip
        return "\n".join(lines)


class Findings:
    """Collects what the checks find."""

    def __init__(self) -> None:
        self._counts: Counter[Code] = Counter()
        self._violations: list[Violation] = []
        self._notes: list[Note] = []
        self.checked: Counter[str] = Counter()

    def add(self, code: Code, record: object, met: object) -> None:
        """Add a violation."""
        self._counts[code] += 1
        if self._counts[code] <= LISTED_PER_CODE:
            text = met if isinstance(met, str) else repr(met)
            self._violations.append(Violation(code=code, record=str(record), met=text[:2000], remedy=code.remedy))

    def note(self, code: str, record: object, met: str) -> None:
        """Add a note."""
        if len(self._notes) < LISTED_PER_CODE:
            self._notes.append(Note(code=code, record=str(record), met=met))

    def report(self) -> FsckReport:
        """Return what was found so far."""
        return FsckReport(
            checked=dict(self.checked),
            counts={code.value: number for code, number in sorted(self._counts.items())},
            violations=tuple(self._violations),
            notes=tuple(self._notes),
        )
