"""One self-contained page about a round: style and drawings inline, no request to anywhere, everything escaped."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from vrm.mainjob.facts.shapes import RoundFacts, TrialFacts
from vrm.report import words
from vrm.report.drawings import forests, paired_drawing, time_drawing
from vrm.report.headline import headline

TASKS: Final = {
    "all": "all held-out tasks",
    "rule_in_scope": "an active rule in scope",
    "no_rule_in_scope": "no active rule in scope",
}
OUTCOMES: Final = {"final": "in effect at the end", "mean_over_decisions": "mean over the decisions"}
_TEMPLATES: Final = Path(__file__).with_name("templates")


@dataclass(frozen=True)
class ShownTrial:
    """A trial with what decides whether it is unfolded at first."""

    facts: TrialFacts
    has_cards: bool


def render(facts: RoundFacts) -> str:
    """Return the page; the same facts give the same text."""
    return (
        _environment()
        .get_template("page.html.j2")
        .render(
            facts=facts,
            trials=[_shown(trial) for trial in facts.held_out.trials],
            head=headline(facts),
            tasks=TASKS,
            outcomes=OUTCOMES,
            paired=paired_drawing(facts.held_out),
            forests=list(forests(facts)),
            time=time_drawing(facts.seconds),
            codes=_codes(facts),
            nulls=[item for item in facts.refused if item.shown_null],
            undecided=[item for item in facts.refused if not item.shown_null],
        )
    )


def _codes(facts: RoundFacts) -> list[str]:
    """Return every reason code that the page says in words."""
    found = {code for rule in facts.rules for code in (*rule.reasons, *rule.grade_reasons)}
    found |= {code for item in facts.refused for code in (*item.reasons, *item.findings)}
    counted = (
        facts.evidence.by_violation, facts.evidence.by_receipt, facts.evidence.by_outcome, facts.held_out.by_source,
        facts.held_out.by_card,
    )  # fmt: skip
    for row in (row for rows in counted for row in rows):
        found.update(re.split(r": |, ", row.name))
    return sorted(found)


def _shown(trial: TrialFacts) -> ShownTrial:
    return ShownTrial(trial, has_cards=any(each.cards for each in trial.memory.decisions))


@cache
def _environment() -> Environment:
    made = Environment(
        loader=FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        keep_trailing_newline=True,
    )
    made.filters |= {
        "say": words.say,
        "change": words.change,
        "signed": words.signed,
        "plain": words.plain,
        "p_value": words.p_value,
        "span": words.span,
        "metric": words.metric,
        "short": words.short,
        "scope": words.scope,
    }
    return made
