"""Each number of a paper against the results that may be written about (spec 003, principle 6).

Rules kept here:

- a number is *matched* if the metric that it is about, or one that its paragraph names, has a usable result whose
  recorded value, rounded to the digits that are written, is that number. Rounding half to even and half up both count.
  The first significant digit of the value must be written: 0 is no rounding of a small error, nor 1 of a share;
- a count, a difference, or a number that is said of something else is matched by no metric that is merely near;
- it is *contradicted* if it is about a metric of which there are usable results, and is none of their values;
- everything else is *ungrounded*, with what is missing. So is a number whose only result may not be used;
- units must be the same; what is recorded as a share may be written in per cent. A unit that was never recorded is
  taken from the end of the metric's name, and from nowhere else;
- a spread (after a plus-minus sign) is matched by a metric that is named for the spread of its number's metric;
- on a line that its writer marks as settings an ungrounded number is a *setting*. It is listed and counted apart.
  A matched or contradicted one stays what it is;
- coverage is matched numbers over all that are no settings. Nothing is computed from several results.

Pure: a text, recorded values, and a policy in; a report out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import ROUND_HALF_EVEN, ROUND_HALF_UP, Context, Decimal
from enum import StrEnum
from fractions import Fraction
from typing import Final

from policies.papers.binding import About, Binding
from policies.papers.naming import Names, unit_of, words_of
from policies.papers.numbers import Stated, numbers_in
from policies.papers.policy import PaperPolicy
from policies.papers.prose import Form, line_of, prose_of

_WIDE: Final = Context(prec=1_400)  # any double to any number of digits that a text may state
_PERCENT: Final = "%"


class Verdict(StrEnum):
    """What a number of a paper rests on."""

    MATCHED = "matched"
    CONTRADICTED = "contradicted"
    UNGROUNDED = "ungrounded"
    SETTING = "setting"


class Reason(StrEnum):
    """Why a number is not matched."""

    OTHER_VALUE = "other_value"
    NOT_USABLE = "not_usable"
    UNIT_DIFFERS = "unit_differs"
    METRIC_NOT_NAMED = "metric_not_named"
    SPREAD_NOT_RECORDED = "spread_not_recorded"
    NO_SUCH_VALUE = "no_such_value"


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """A value that a claim stands for.

    Attributes:
        metric: its name in the report.
        value: decimal text, as it was recorded.
        unit: null where none was recorded.
        withheld: why the claim may not be used; empty where it may.
    """

    metric: str
    value: str
    unit: str | None
    entry_id: str
    node_id: str
    withheld: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A number of a text with its verdict.

    Attributes:
        line: and `column` are its place, both from one.
        text: as it is written, with its unit.
        names: the metrics that it is about.
        recorded: what it matches, what contradicts it, or what it would match if that could be used.
    """

    line: int
    column: int
    text: str
    verdict: Verdict
    reason: Reason | None
    names: tuple[str, ...]
    recorded: Recorded | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PaperAudit:
    """The numbers of a text in their order."""

    findings: tuple[Finding, ...]

    def count(self, verdict: Verdict) -> int:
        """Return how many numbers have a verdict."""
        return sum(each.verdict is verdict for each in self.findings)

    @property
    def stated(self) -> int:
        """How many numbers there are that are no settings."""
        return len(self.findings) - self.count(Verdict.SETTING)

    @property
    def coverage(self) -> Fraction | None:
        """The share of them that is matched; None where there are none."""
        return Fraction(self.count(Verdict.MATCHED), self.stated) if self.stated else None

    @property
    def is_grounded(self) -> bool:
        """Whether every one of them is matched."""
        return self.count(Verdict.MATCHED) == self.stated


def audit_paper(
    text: str, form: Form, recorded: Sequence[Recorded], policy: PaperPolicy, aliases: Mapping[str, str] | None = None
) -> PaperAudit:
    """Return what each number of a text rests on.

    Args:
        text: Markdown or LaTeX.
        form: which of them.
        recorded: what was measured; of several that match the first one is told.
        policy: words and units.
        aliases: further words for metrics, with the metric's name.
    """
    prose = prose_of(text, form, policy)
    units = {each.unit: policy.unit_names.get(each.unit, each.unit) for each in recorded if each.unit is not None}
    units = {way: unit for way, unit in units.items() if not way.isdigit()}
    numbers = numbers_in(prose.shown, policy, units)
    names = Names((each.metric for each in recorded), policy, aliases)
    about = Binding(prose, numbers, names, policy).about()
    judge = _Judge(recorded, policy)
    findings = []
    for number, told in zip(numbers, about, strict=True):
        verdict, reason, found = judge.judged(number, told)
        if verdict is Verdict.UNGROUNDED and line_of(prose.line_starts, number.start) in prose.settings:
            verdict = Verdict.SETTING
        line, column = prose.place(number.start)
        findings.append(
            Finding(
                line=line,
                column=column,
                text=" ".join(text[number.start : number.after].split()),
                verdict=verdict,
                reason=None if verdict is Verdict.MATCHED else reason,
                names=tuple(sorted(told.names)),
                recorded=found,
            )
        )
    return PaperAudit(findings=tuple(findings))


_Told = tuple[Verdict, Reason | None, Recorded | None]


class _Judge:
    def __init__(self, recorded: Sequence[Recorded], policy: PaperPolicy) -> None:
        self._recorded, self._policy = recorded, policy
        metrics = {each.metric for each in recorded}
        self._words = {name: frozenset(words_of(name, policy)) for name in metrics}
        self._told_units = {name: unit_of(name, policy) for name in metrics}

    def judged(self, number: Stated, about: About) -> _Told:
        unit = number.unit or about.unit
        if number.spread_of is not None:
            return self._spread(number, about, unit)
        told = [each for each in self._recorded if each.metric in about.names and self._scale(unit, each) is not None]
        if told:
            return self._of_metric(number, unit, told)
        near = [each for each in self._recorded if each.metric in about.near | about.names]
        return self._near(number, unit, near)

    def _of_metric(self, number: Stated, unit: str | None, told: Sequence[Recorded]) -> _Told:
        found = self._agreeing(number, unit, told)
        if found is not None:
            return _matched(found)
        usable = [each for each in told if not each.withheld]
        if not usable:
            return Verdict.UNGROUNDED, Reason.NOT_USABLE, told[0]
        return Verdict.CONTRADICTED, Reason.OTHER_VALUE, self._nearest(number, unit, usable)

    def _near(self, number: Stated, unit: str | None, near: Sequence[Recorded]) -> _Told:
        found = self._agreeing(number, unit, near)
        if found is not None:
            return _matched(found)
        other = next((each for each in near if not each.withheld and _rounds_to(each, Decimal(1), number)), None)
        if other is not None:
            return Verdict.UNGROUNDED, Reason.UNIT_DIFFERS, other
        unnamed = self._agreeing(number, unit, self._recorded)
        if unnamed is not None and not unnamed.withheld:
            return Verdict.UNGROUNDED, Reason.METRIC_NOT_NAMED, unnamed
        return Verdict.UNGROUNDED, Reason.NO_SUCH_VALUE, None

    def _spread(self, number: Stated, about: About, unit: str | None) -> _Told:
        bases = [self._words[name] for name in about.names if name in self._words]
        spreads, besides = set(self._policy.spreads), {*self._policy.spreads, *self._policy.qualifiers}
        told = [
            each
            for each in self._recorded
            if (words := self._words[each.metric]) & spreads
            and any(base < words and words - base <= besides for base in bases)
            and self._scale(unit, each) is not None
        ]
        return self._of_metric(number, unit, told) if told else (Verdict.UNGROUNDED, Reason.SPREAD_NOT_RECORDED, None)

    def _agreeing(self, number: Stated, unit: str | None, among: Sequence[Recorded]) -> Recorded | None:
        """Return the first result that rounds to a number, one that can be used before one that cannot."""
        for each in sorted(among, key=lambda each: bool(each.withheld)):
            scale = self._scale(unit, each)
            if scale is not None and _rounds_to(each, scale, number):
                return each
        return None

    def _nearest(self, number: Stated, unit: str | None, among: Sequence[Recorded]) -> Recorded:
        def away(each: Recorded) -> Decimal:
            return abs(Decimal(each.value) * (self._scale(unit, each) or 1) - number.value)

        return min(among, key=away)

    def _scale(self, unit: str | None, recorded: Recorded) -> Decimal | None:
        """Return what a recorded value is multiplied with to be in a unit; None if it is of another one."""
        own = self._policy.unit_names.get(recorded.unit or "", recorded.unit)
        if own is None:
            own = self._told_units[recorded.metric]
        if unit is None or unit == own:
            return Decimal(1)
        shares = own is None or own in self._policy.shares
        return Decimal(100) if unit == _PERCENT and shares else None


def _matched(found: Recorded) -> _Told:
    if found.withheld:
        return Verdict.UNGROUNDED, Reason.NOT_USABLE, found
    return Verdict.MATCHED, None, found


def _rounds_to(recorded: Recorded, scale: Decimal, number: Stated) -> bool:
    value = _WIDE.multiply(Decimal(recorded.value), scale)
    if value and value.adjusted() < int(number.value.as_tuple().exponent):
        return False  # not one digit of it is written
    step = Decimal(f"1E{number.value.as_tuple().exponent}")
    return any(value.quantize(step, rounding, _WIDE) == number.value for rounding in (ROUND_HALF_EVEN, ROUND_HALF_UP))
