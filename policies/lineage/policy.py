"""The Lineage Consolidation Policy, its gate, and the metric that a tree is declared to be about.

Rules kept here: consolidation is on unless the policy or whoever starts it says otherwise, in words that the policy
lists; which metric counts, in which unit and which way is declared in a file of its own, never guessed from a name.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, StringConstraints

from policies.loading import Policy, PolicyPart, load_part, packaged_policy
from records.errors import InvalidInputError
from records.fields import Metric, Name
from records.lineage import Label
from records.values import Direction

GATE = "VRM_LINEAGE_CONSOLIDATE"
"""The environment variable that turns consolidation off; who reads it is not decided here."""

Word = Annotated[str, StringConstraints(pattern=r"^[a-z0-9]*$", max_length=20)]


class ReportLimits(PolicyPart):
    """What is read of a report; `max_bytes` is the largest one."""

    max_bytes: Annotated[int, Field(ge=1, le=2**53 - 1)]


class EntryRules(PolicyPart):
    """How entries are made.

    Attributes:
        text_limit: most characters of a text.
        reflection_confidence: of what a node would do next, from 0 to 1.
        reserved_prefix: how the name of a metric begins that is no measurement.
    """

    text_limit: Annotated[int, Field(ge=1, le=100_000)]
    reflection_confidence: Metric
    reserved_prefix: Annotated[str, StringConstraints(min_length=1, max_length=20)]


class ConsolidationPolicy(Policy):
    """One version of the policy (docs/adr/0080 says why)."""

    enabled: bool
    off_values: tuple[Word, ...]
    on_values: tuple[Word, ...]
    reports: ReportLimits
    entries: EntryRules

    def is_on(self, said: str | None) -> bool:
        """Tell whether reports are consolidated, where `said` is the value of the gate; null is that nobody said.

        Raises:
            InvalidInputError: the word means neither on nor off.
        """
        word = "" if said is None else said.strip().lower()
        if word in self.off_values:
            return False
        if word in self.on_values:
            return self.enabled or word != ""
        legal = ", ".join(each for each in (*self.off_values, *self.on_values) if each)
        raise InvalidInputError(GATE, said, f"Say one of: {legal}; or leave it unset.")

    def is_measured(self, name: str) -> bool:
        """Tell whether a metric of this name is a measurement, and no judge's score or flag of the search."""
        return not name.startswith(self.entries.reserved_prefix)


class HeadlineMetric(PolicyPart):
    """The declared metric of a tree: its name in the reports, its unit, and which way it is better."""

    name: Label
    unit: Name
    direction: Direction


def headline_metric(text: str, source: str, policy: ConsolidationPolicy) -> HeadlineMetric:
    """Read the declared metric from the text of a YAML file; `source` names the file in errors.

    Raises:
        InvalidInputError: it is no such mapping, or the name is that of a judge's score.
    """
    declared = load_part(HeadlineMetric, text, source)
    if not policy.is_measured(declared.name):
        remedy = f"A name that begins with {policy.entries.reserved_prefix} is no measurement; declare a measured one."
        raise InvalidInputError(f"{source}: name", declared.name, remedy)
    return declared


def consolidation_policy(version: str = "1") -> ConsolidationPolicy:
    """Return the packaged policy of a version.

    Raises:
        InvalidInputError: no such version ships.
    """
    return packaged_policy(ConsolidationPolicy, "lineage-consolidation", version)
