"""Workspace claims: facts about a code base that predicates can check (spec 004; docs/claims.md).

Rules kept here:

- nothing here is evidence: no kind advances a frontier, and no record of another plane has a field that takes an id of
  these nouns. A claim is no Knowledge Record and supports no rule;
- a claim never changes. What becomes of it are events in one chain, each consuming one earlier event, and its state is
  their fold (reference: defect 3);
- evidence is an event together with the digest of what it said; an event has one content. Whether two count as
  independent is decided by both (reference: defect 2);
- a path is relative to the root of its workspace and stays in it. No record holds the path of a machine.

`policies.claims` writes the words of a rule, which are called its claim too; the two have nothing in common.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Final, Literal, Self

from pydantic import AfterValidator, Field, StringConstraints, model_validator

from records.base import Kind, Record
from records.fields import Digest, Metric, Name, Text
from records.ids import ClaimEventId, WorkspaceClaimId
from records.models import Model
from records.values import PolicyIdentity

GENESIS: Final = "GENESIS"
"""What the first event of a claim consumes."""

ClaimText = Annotated[Text, StringConstraints(min_length=1, max_length=2_000)]
RelativePath = Annotated[Text, StringConstraints(min_length=1, max_length=4_096)]
Revision = Annotated[str, StringConstraints(pattern=r"^([0-9a-f]{40}|[0-9a-f]{64})$")]
"""A whole commit id of git, by SHA-1 or SHA-256."""
Ordinal = Annotated[int, Field(ge=1, le=2**53 - 1)]


def _check_share(text: str) -> str:
    if not 0 <= float(text) <= 1:
        raise ValueError("it is a number from 0 to 1")
    return text


Share = Annotated[Metric, AfterValidator(_check_share)]
"""A number from 0 to 1."""


class Trust(StrEnum):
    """Where a claim comes from."""

    TRUSTED_LOCAL = "trusted_local"
    EXTERNAL = "external"
    UNTRUSTED = "untrusted"


class ClaimStatus(StrEnum):
    """What whoever extracted a claim says about it."""

    TENTATIVE = "tentative"
    VERIFIED = "verified"
    INVALIDATED = "invalidated"


class ClaimSource(StrEnum):
    """How a claim was extracted."""

    MODEL = "model"
    DETERMINISTIC = "deterministic"


class ClaimType(StrEnum):
    """What a claim is about; each type has a quota of the prompt."""

    FACT = "fact"
    CONFIGURATION = "configuration"
    COMMAND = "command"
    CONSTRAINT = "constraint"


class ClaimState(StrEnum):
    """Where a claim stands in its lifecycle (spec 004, "Claim lifecycle")."""

    PROBATIONARY = "probationary"
    DURABLE = "durable"
    CONTESTED = "contested"
    STALE = "stale"
    SUPERSEDED = "superseded"
    QUARANTINED = "quarantined"


class ClaimReason(StrEnum):
    """Why an event happened; with the state before it, it says the state after it (policies/workspace/arrows.py)."""

    ADDED = "added"
    LOCALLY_VERIFIED = "locally_verified"
    UNTRUSTED_SOURCE = "untrusted_source"
    STATED_INVALID = "stated_invalid"
    CONTRADICTED = "contradicted"
    PROMOTED = "promoted"
    UPHELD = "upheld"
    REJECTED = "rejected"
    REVISED = "revised"
    PREDICATE_FAILED = "predicate_failed"
    INVALIDATED = "invalidated"
    NEW_EVIDENCE = "new_evidence"
    SUSPECTED = "suspected"
    RELEASED = "released"


BETWEEN_TWO: Final = frozenset(
    {ClaimReason.CONTRADICTED, ClaimReason.UPHELD, ClaimReason.REJECTED, ClaimReason.REVISED}
)
"""Reasons that name another claim."""
WITH_EVIDENCE: Final = frozenset({ClaimReason.NEW_EVIDENCE, ClaimReason.RELEASED})
"""Reasons that need new evidence of their own."""


class PredicateOutcome(StrEnum):
    """What came of checking a predicate; everything but `holds` fails."""

    HOLDS = "holds"
    DIFFERS = "differs"
    MISSING = "missing"
    OUTSIDE = "outside"
    NOT_A_FILE = "not_a_file"
    TOO_LARGE = "too_large"
    MALFORMED = "malformed"
    UNREADABLE = "unreadable"
    NO_REVISION = "no_revision"
    CHANGING = "changing"
    TIMED_OUT = "timed_out"
    FAILED = "failed"


def path_fault(path: str) -> str | None:
    """Return why a text is no path inside a workspace; None if it is one."""
    if "\0" in path:
        return "a path holds no NUL"
    if path.startswith("/"):
        return "a path is relative to the root of its workspace"
    if any(part in {"", ".", ".."} for part in path.split("/")):
        return "a path has no empty, `.` or `..` part"
    return None


class _OfFile(Model):
    path: RelativePath

    @model_validator(mode="after")
    def _inside(self) -> Self:
        fault = path_fault(self.path)
        if fault is not None:
            raise ValueError(fault)
        return self


class FileHash(_OfFile):
    """A file of the workspace has this SHA-256."""

    predicate: Literal["file_hash"] = "file_hash"
    sha256: Digest


class GitRevision(Model):
    """HEAD of the workspace's own repository is exactly this commit."""

    predicate: Literal["git_revision"] = "git_revision"
    revision: Revision


class ConfigValue(_OfFile):
    """The value at a place of a JSON file has this digest.

    Attributes:
        key: the names that lead to it from the top; the index of a list is written as a number in text.
        sha256: of the value's canonical JSON (RFC 8785).
    """

    predicate: Literal["config_value"] = "config_value"
    key: Annotated[tuple[Text, ...], Field(min_length=1, max_length=64)]
    sha256: Digest


Predicate = Annotated[FileHash | GitRevision | ConfigValue, Field(discriminator="predicate")]


class EvidenceEvent(Model):
    """Something that happened, with the digest of what it said."""

    event_id: Name
    content_digest: Digest


class EvidenceCertificate(Model):
    """What a claim was extracted by and from; issued when the claim was made, which is its `created_at`.

    A moment has no place in an identity (design.md 4), so the time of issue is not said twice.
    """

    extractor_version: Name
    claim_schema_version: Name
    evidence: tuple[EvidenceEvent, ...]

    @model_validator(mode="after")
    def _one_content_each(self) -> Self:
        require_one_content(self.evidence)
        return self


def require_one_content(evidence: tuple[EvidenceEvent, ...]) -> None:
    """Refuse an event that is named twice.

    Raises:
        ValueError: one is.
    """
    names = [each.event_id for each in evidence]
    if len(set(names)) != len(names):
        raise ValueError("an event is named once, for it has one content")


class WorkspaceClaim(Record, kind=Kind(noun="workspace-claim", table="workspace_claims", columns=("workspace",))):
    """One claim about one workspace; another text, predicate or certificate is another claim.

    Attributes:
        workspace: the name of the code base; claims of others are never seen beside it.
        confidence: of whoever extracted it, 0 to 1; no rule of the lifecycle asks for it (reference: defect 1).
        predicates: what must hold now for it to be shown; all of them.
    """

    workspace: Name
    text: ClaimText
    claim_type: ClaimType
    trust: Trust
    status: ClaimStatus
    source: ClaimSource
    confidence: Share
    predicates: Annotated[tuple[Predicate, ...], Field(max_length=64)]
    certificate: EvidenceCertificate

    @model_validator(mode="after")
    def _each_once(self) -> Self:
        if len(set(self.predicates)) != len(self.predicates):
            raise ValueError("a predicate is given once")
        return self


class PredicateFinding(Model):
    """What came of one predicate of a claim; `ordinal` counts them from one."""

    ordinal: Ordinal
    outcome: PredicateOutcome


class ClaimEvent(
    Record,
    kind=Kind(
        noun="claim-event",
        table="claim_events",
        columns=("workspace", "expected_prior", "state"),
        unique=(("claim_id", "expected_prior"),),
    ),
):
    """One step of a claim's lifecycle; at most one event consumes each earlier one.

    Attributes:
        workspace: that of the claim.
        expected_prior: the event that it consumes, or GENESIS.
        state: where the claim stands after it.
        counterpart: the other claim, where the reason is between two.
        evidence: new evidence that it brings.
        findings: the predicates that failed, where that is the reason.
    """

    workspace: Name
    claim_id: WorkspaceClaimId
    expected_prior: ClaimEventId | Literal["GENESIS"]
    state: ClaimState
    reason: ClaimReason
    counterpart: WorkspaceClaimId | None
    evidence: tuple[EvidenceEvent, ...]
    findings: tuple[PredicateFinding, ...]
    policy: PolicyIdentity

    @model_validator(mode="after")
    def _says_what_its_reason_needs(self) -> Self:
        require_one_content(self.evidence)
        if (self.counterpart is not None) != (self.reason in BETWEEN_TWO):
            raise ValueError("an event names another claim exactly if its reason is between two")
        if self.counterpart == self.claim_id:
            raise ValueError("a claim is no counterpart of itself")
        if self.reason in WITH_EVIDENCE and not self.evidence:
            raise ValueError("this reason needs new evidence")
        if bool(self.findings) != (self.reason is ClaimReason.PREDICATE_FAILED):
            raise ValueError("findings belong to a predicate that failed, and to nothing else")
        if any(each.outcome is PredicateOutcome.HOLDS for each in self.findings):
            raise ValueError("a predicate that holds is no finding")
        return self
