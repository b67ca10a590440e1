"""What an arm of the earlier design is given: lessons in prose, for one decision (spec 18; docs/adr/0072).

It is an artifact that is published before the actor is asked, and named by the actor's envelope. It is no Recall
Context: it has no cards and no citations, so that nothing of it can be adopted, and no decision that has it has a
context.
"""

from __future__ import annotations

from typing import Literal

from records.fields import Digest, Metric, Text
from records.ids import ExperienceId, IntentId
from records.models import Model
from records.values import Count


class RecalledLesson(Model):
    """One lesson that is shown; the score has eight places, as in the earlier design."""

    knowledge_id: Digest
    lesson: Text
    outcome: Literal["positive", "negative"]
    sources: tuple[ExperienceId, ...]
    score: Metric
    token_count: Count


class LegacyRecall(Model):
    """The lessons of one decision; `memory_digest` covers the ids of all lessons that there were."""

    intent_id: IntentId
    memory_digest: Digest
    items: tuple[RecalledLesson, ...]
    token_count: Count
