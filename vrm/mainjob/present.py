"""What a finished round shows: the report page, and the same facts for a terminal or a script."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from actors.settings import now
from vrm.mainjob.facts import RoundFacts, facts_of, program_versions
from vrm.mainjob.job import Job
from vrm.report import Section, summary_lines, write_report


@dataclass(frozen=True)
class Shown:
    """The facts of a round and the page that shows them."""

    facts: RoundFacts
    page: Path
    recovered: int

    @property
    def sections(self) -> tuple[Section, ...]:
        """The same facts for a terminal."""
        return summary_lines(self.facts)

    @property
    def as_json(self) -> dict[str, Any]:
        """Everything as JSON values."""
        return {
            "facts": self.facts.model_dump(mode="json"),
            "report": str(self.page),
            "recovered_authorizations": self.recovered,
        }


def present(job: Job, recovered: int) -> Shown:
    """Read the facts of the job's round from the Ledger and write its page."""
    with job.step("Report", 2) as advance:
        with job.stores.ledger.reading() as reader:
            facts = facts_of(reader, job.round, seconds=job.seconds, versions=program_versions(), made_at=now())
        advance(1)
        page = write_report(facts, job.stores.home.reports)
        advance(1)
    return Shown(facts, page, recovered)
