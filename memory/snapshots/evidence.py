"""Capture of an Evidence Snapshot (spec 4.12, VRM-L04).

Rules kept here:

- members and position come from one read transaction, which the caller opens with `LedgerStore.reading`;
- members of base evidence are complete, valid bundles whose verification kind the Distillation Policy admits, made for
  development and bound to no arm: what evaluation produced, and what one arm alone may see, never enters base
  knowledge;
- an episodic capture is of one Run, arm and pair, and holds what that very Run has done so far, failures too; its
  `visibility` is the Run, so it can be told from base evidence and is never distilled;
- what is left out is counted by its first reason;
- an operation key that was used before gives back what it chose then, however much evidence came since.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from memory.evidence import resolve_bundles
from memory.retention import REVOKED, denials, named
from policies.bundles import NotABundle
from policies.distillation_policy import DistillationPolicy
from policies.episodes import EpisodicPolicy
from records.canonical import domain_digest
from records.errors import IdentityConflictError, IntegrityError
from records.evidence import AttemptStatus, Corpus, Experience, VerifiedEvidenceBundle
from records.ids import EvidenceSnapshotId, RunId
from records.ingestion import CaptureOperation, EvidenceSnapshot, SnapshotMember
from records.legacy import require_scoped
from records.values import PolicyIdentity, ReasonCount
from store.ledger.port import LedgerReader

EPOCH: Final = "1970-01-01T00:00:00.000000Z"
"""The time of a record that was made from nothing."""


@dataclass(frozen=True, kw_only=True)
class FreezeEvidence:
    """A request to capture; the same operation key always stands for the same request."""

    namespace: str
    operation_key: str


@dataclass(frozen=True, kw_only=True)
class FreezeEpisodes:
    """A request to capture what one Run has done so far, within its arm and pair; null where it has none."""

    namespace: str
    operation_key: str
    run_id: RunId
    arm: str | None
    pair: str | None


class EvidenceSnapshotBuilder:
    """Captures the evidence that a Distillation Policy admits."""

    def __init__(self, policy: DistillationPolicy) -> None:
        """Capture under `policy`, which is also the snapshot's eligibility policy."""
        self._policy = policy

    def freeze(self, reader: LedgerReader, request: FreezeEvidence) -> tuple[EvidenceSnapshot, CaptureOperation]:
        """Return the snapshot of this moment, or the one that the operation key chose before.

        Raises:
            IdentityConflictError: the key was used for another request.
            IntegrityError: the Ledger holds a capture operation without its snapshot.
            InvalidInputError: the namespace is that of legacy records.
        """
        require_scoped(request.namespace)
        digest = domain_digest(
            "freeze-evidence-request",
            {"namespace": request.namespace, "policy": self._policy.identity.as_json()},
        )
        earlier = _earlier(reader, request, digest)
        return earlier or _operation(request, digest, self._capture(reader, request.namespace))

    def _capture(self, reader: LedgerReader, namespace: str) -> EvidenceSnapshot:
        stored = [item.load() for item in reader.find("experience", namespace)]
        experiences = [item for item in stored if isinstance(item, Experience)]
        members, refused = _members(reader, namespace, experiences, lambda bundle: _held_back(bundle, self._policy))
        return _snapshot(reader, self._policy.identity, (members, refused), _Bound(namespace, namespace, None, None))


class EpisodicSnapshotBuilder:
    """Captures what a Run has done so far, for its own eyes (spec 4.12, VRM-L04, O03)."""

    def __init__(self, policy: EpisodicPolicy) -> None:
        """Capture under `policy`, which is also the snapshot's eligibility policy."""
        self._policy = policy

    def freeze(self, reader: LedgerReader, request: FreezeEpisodes) -> tuple[EvidenceSnapshot, CaptureOperation]:
        """Return the episodes of this moment, or those that the operation key chose before.

        Raises:
            IdentityConflictError: the key was used for another request.
            IntegrityError: the Ledger holds a capture operation without its snapshot.
            InvalidInputError: the namespace is that of legacy records.
        """
        require_scoped(request.namespace)
        digest = domain_digest(
            "freeze-episodes-request",
            {
                "namespace": request.namespace,
                "policy": self._policy.identity.as_json(),
                "run_id": request.run_id,
                "arm": request.arm,
                "pair": request.pair,
            },
        )
        earlier = _earlier(reader, request, digest)
        return earlier or _operation(request, digest, self._capture(reader, request))

    def _capture(self, reader: LedgerReader, request: FreezeEpisodes) -> EvidenceSnapshot:
        space, own = request.namespace, (request.run_id, request.arm, request.pair)
        attempts = [str(item.id) for item in reader.find("attempt", space, run_id=str(request.run_id))]
        stored = [item.load() for item in reader.find("experience", space, attempt_id=attempts)] if attempts else []
        experiences = [item for item in stored if isinstance(item, Experience)]

        def refusal(bundle: VerifiedEvidenceBundle) -> str | None:
            if (bundle.attempt.run_id, bundle.attempt.arm, bundle.attempt.pair) != own:
                return "other_arm"
            kind = bundle.verification.verification_kind
            return None if kind in self._policy.verifications else "verification_kind_not_admitted"

        members, refused = _members(reader, space, experiences, refusal)
        newest_first = sorted(members, key=lambda each: (each[1], each[0].experience_id), reverse=True)
        kept = newest_first[: self._policy.max_members]
        if len(kept) < len(members):
            refused["older_than_the_newest"] += len(members) - len(kept)
        return _snapshot(reader, self._policy.identity, (kept, refused), _Bound(space, *own))


class _Bound(NamedTuple):
    """Where a snapshot is at home, and who may see it: the namespace or a Run, with arm and pair."""

    namespace: str
    visibility: str
    arm: str | None
    pair: str | None


def _members(
    reader: LedgerReader,
    namespace: str,
    experiences: Iterable[Experience],
    refusal: Callable[[VerifiedEvidenceBundle], str | None],
) -> tuple[list[tuple[SnapshotMember, str]], Counter[str]]:
    """Return the members with their times, and how many were left out for which reason."""
    members: list[tuple[SnapshotMember, str]] = []
    refused: Counter[str] = Counter()
    denied = {target.target_id for target in denials(reader, namespace)}
    for experience_id, bundle in resolve_bundles(reader, experiences).items():
        if isinstance(bundle, NotABundle):
            refused[bundle.reason.value] += 1
        elif (reason := refusal(bundle)) is not None:
            refused[reason] += 1
        elif denied and not denied.isdisjoint(_made_of(bundle)):
            refused[REVOKED] += 1
        else:
            member = SnapshotMember(experience_id=experience_id, bundle_digest=bundle.digest)
            members.append((member, bundle.experience.created_at))
    return members, refused


def _snapshot(
    reader: LedgerReader,
    policy: PolicyIdentity,
    captured: tuple[Sequence[tuple[SnapshotMember, str]], Counter[str]],
    bound: _Bound,
) -> EvidenceSnapshot:
    members, refused = captured
    return EvidenceSnapshot(
        namespace=bound.namespace,
        created_at=newest(time for _, time in members),
        evidence_position=reader.namespace_head(bound.namespace).evidence,
        eligibility_policy=policy,
        visibility=bound.visibility,
        arm=bound.arm,
        pair=bound.pair,
        members=tuple(sorted((member for member, _ in members), key=lambda member: member.experience_id)),
        excluded=tuple(ReasonCount(reason=reason, count=count) for reason, count in sorted(refused.items())),
    )


def _operation(
    request: FreezeEvidence | FreezeEpisodes, digest: str, snapshot: EvidenceSnapshot
) -> tuple[EvidenceSnapshot, CaptureOperation]:
    operation = CaptureOperation(
        namespace=request.namespace,
        created_at=snapshot.created_at,
        operation_key=request.operation_key,
        request_digest=digest,
        snapshot_id=EvidenceSnapshotId(snapshot.id),
        evidence_position=snapshot.evidence_position,
    )
    return snapshot, operation


def _made_of(bundle: VerifiedEvidenceBundle) -> Iterator[str]:
    yield str(bundle.experience.id)
    yield from named(bundle.experience.as_json())
    yield from named(bundle.observation.as_json())


def capture_key(operation: CaptureOperation) -> str:
    """Return the operation key under which a capture is appended."""
    return f"capture-evidence:{operation.operation_key}"


def newest(times: Iterable[str]) -> str:
    """Return the latest of record timestamps, which sort as text; the epoch where there are none."""
    return max(times, default=EPOCH)


def _held_back(bundle: VerifiedEvidenceBundle, policy: DistillationPolicy) -> str | None:
    attempt, verification = bundle.attempt, bundle.verification
    if attempt.corpus is not Corpus.DEVELOPMENT:
        return "evaluation_corpus"
    if attempt.arm is not None or attempt.pair is not None:
        return "bound_to_an_arm"
    if attempt.status is not AttemptStatus.COMPLETED:
        return "attempt_not_completed"
    if not verification.valid:
        return "invalid_verification"
    return None if policy.may_support_active(verification.verification_kind) else "verification_kind_not_admitted"


def _earlier(
    reader: LedgerReader, request: FreezeEvidence | FreezeEpisodes, digest: str
) -> tuple[EvidenceSnapshot, CaptureOperation] | None:
    found = reader.find("capture-operation", request.namespace, operation_key=request.operation_key)
    operation = found[0].load() if found else None
    if not isinstance(operation, CaptureOperation):
        return None
    if operation.request_digest != digest:
        raise IdentityConflictError("operation_key", request.operation_key, "It was used for another capture request.")
    stored = reader.get(operation.snapshot_id)
    snapshot = None if stored is None else stored.load()
    if not isinstance(snapshot, EvidenceSnapshot):
        raise IntegrityError("capture-operation", str(operation.id), "Its snapshot is missing; run fsck on the ledger.")
    return snapshot, operation
