"""One decision on its way from memory to a verified outcome, judged from records alone (spec 13, 16, VRM-O04). Pure.

Rules kept here:

- every Decision Intent has a trace: without cards, without an outcome, blocked or cancelled as well (VRM-R07);
- a link that is missing, or that contradicts another one, is a break with the ids that it is about. It is told, what
  lies behind it is shown all the same, and no share counts such a decision as one that reached the next stage;
- what was executed is what Trial Provenance says, never what was proposed (VRM-R08);
- a change is judged against the verified result of the configuration that it started from, in the same Run, by the
  contract's own margin; how many cards there were judges nothing;
- cards are read by what their fields are called, so that a card of another kind is traced as far as it says something.
"""

from __future__ import annotations

from policies.mediation.shapes import (
    Action,
    Break,
    Broken,
    CardTrace,
    Counterpart,
    DecisionTrace,
    Judgement,
    Ran,
    Shape,
)
from policies.mediation.told import DecisionRecords, Executed, named_by, observed_seconds
from policies.mediation.tracing import paired, trace_decision

__all__ = [
    "Action",
    "Break",
    "Broken",
    "CardTrace",
    "Counterpart",
    "DecisionRecords",
    "DecisionTrace",
    "Executed",
    "Judgement",
    "Ran",
    "Shape",
    "named_by",
    "observed_seconds",
    "paired",
    "trace_decision",
]
