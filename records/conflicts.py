"""Distillation Commit Conflicts: the journaled no-commit of a distillation for its own two reasons (spec 8.1).

A commit that finds a stale head or a revoked source writes one of these and nothing else. Which fields a conflict has
follows from its reason: a stale head tells what was expected and what was there, a revocation tells the whole retention
check that denies a source; what belongs to the other reason is null. Revocation comes first where both hold.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from records.base import Kind, Record
from records.decisions import RetentionCheck
from records.fields import Digest, Text
from records.ids import AuthorizationId
from records.outcomes import NoCommitReason, NoCommitReceipt, ObservedHead

ConflictReason = Literal[NoCommitReason.LIFECYCLE_HEAD_STALE, NoCommitReason.RETENTION_REVOKED]


class CommitConflict(
    Record,
    kind=Kind(
        noun="distillation-commit-conflict",
        table="distillation_commit_conflicts",
        outside=frozenset({"detail"}),
        columns=("authorization_id", "reason"),
        unique=(("authorization_id",),),
        discriminator="reason",
    ),
):
    """What conflicts of both reasons share; `detail` is for people and no part of the identity."""

    authorization_id: AuthorizationId
    authorization_digest: Digest
    reason: ConflictReason
    detail: Text
    heads: tuple[ObservedHead, ...] | None
    retention: RetentionCheck | None


class HeadConflict(CommitConflict):
    """At least one expected lifecycle head has moved on; the next proposal starts from what was observed."""

    reason: Literal[NoCommitReason.LIFECYCLE_HEAD_STALE] = NoCommitReason.LIFECYCLE_HEAD_STALE
    heads: Annotated[tuple[ObservedHead, ...], Field(min_length=1)]
    retention: None = None

    @model_validator(mode="after")
    def _heads_are_sorted_and_stale(self) -> HeadConflict:
        variants = [head.scope_variant_id for head in self.heads]
        if variants != sorted(set(variants)) or any(head.expected == head.observed for head in self.heads):
            raise ValueError("heads are sorted by scope variant, each with another observed than expected event")
        return self


class RetentionConflict(CommitConflict):
    """Retention denies a source of the plan; the next proposal needs inputs without it."""

    reason: Literal[NoCommitReason.RETENTION_REVOKED] = NoCommitReason.RETENTION_REVOKED
    heads: None = None
    retention: RetentionCheck

    @model_validator(mode="after")
    def _names_what_is_denied(self) -> RetentionConflict:
        targets = [(target.target_id, target.digest) for target in self.retention.blocked]
        if not targets or targets != sorted(set(targets)):
            raise ValueError("a revocation names the denied targets, sorted")
        return self


NoCommit = NoCommitReceipt | CommitConflict
"""Either proof that an authorization wrote nothing."""
