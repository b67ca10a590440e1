"""The evidence behind a record, link by link: both runs, who verified them, and the bytes that they left behind."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from memory.evidence import resolve_bundles
from policies.bundles import NotABundle
from records.errors import ErasedError, IntegrityError, NotFoundError
from records.evidence import Experience, VerifiedEvidenceBundle
from records.knowledge import EvidenceLink, GovernedRecord
from records.values import ArtifactRef
from store.artifacts import ArtifactStore
from store.ledger.port import LedgerReader


class Bytes(StrEnum):
    """What was found of the bytes of an artifact."""

    MATCH = "match"
    MISSING = "missing"
    ERASED = "erased"
    CHANGED = "changed"
    OTHER_SIZE = "of another size"


Told = Callable[[str, int, int], None]
Checked = Mapping[ArtifactRef, Bytes]


@dataclass(frozen=True, kw_only=True)
class LinkedPair:
    """One evidence link with the two results that it compares, or why one of them is no longer a bundle."""

    link: EvidenceLink
    changed: VerifiedEvidenceBundle | NotABundle
    baseline: VerifiedEvidenceBundle | NotABundle

    @property
    def sides(self) -> tuple[tuple[str, str, VerifiedEvidenceBundle | NotABundle], ...]:
        """Both runs: which side, the Experience, its bundle."""
        return (
            ("changed", str(self.link.experience_id), self.changed),
            ("baseline", str(self.link.comparator_id), self.baseline),
        )

    @property
    def place(self) -> tuple[str, int] | None:
        """The dataset root and seed of the changed run; None where it is no bundle."""
        found = self.changed
        return None if isinstance(found, NotABundle) else (found.attempt.dataset_root, found.attempt.seed)

    def metric(self, name: str) -> tuple[float | None, float | None]:
        """Return the verified metric of baseline and changed run, in its unit."""
        pair = (self.baseline, self.changed)
        before, after = (None if isinstance(each, NotABundle) else each.verification.metric(name) for each in pair)
        return before, after

    def as_json(self, metric: str, checked: Checked) -> dict[str, Any]:
        """Return the link with both runs down to their artifacts; what was checked of the bytes, where it was."""
        before, after = self.metric(metric)
        return self.link.as_json() | {
            "dataset_root": self.place[0] if self.place else None,
            "seed": self.place[1] if self.place else None,
            "baseline": before,
            "changed": after,
            "runs": {side: _run(experience, bundle, checked) for side, experience, bundle in self.sides},
        }


def linked_pairs(reader: LedgerReader, record: GovernedRecord) -> tuple[LinkedPair, ...]:
    """Read what the links of a record point at, in their order."""
    ids = {str(part) for link in record.links for part in (link.experience_id, link.comparator_id)}
    loaded = (item.load() for item in reader.get_many(ids).values())
    found = resolve_bundles(reader, [item for item in loaded if isinstance(item, Experience)])
    return tuple(
        LinkedPair(link=link, changed=found[link.experience_id], baseline=found[link.comparator_id])
        for link in record.links
    )


def check_bytes(artifacts: ArtifactStore, pairs: Iterable[LinkedPair], told: Told) -> dict[ArtifactRef, Bytes]:
    """Read the bytes of every artifact behind links, each once."""
    bundles = (bundle for pair in pairs for _, _, bundle in pair.sides if not isinstance(bundle, NotABundle))
    wanted = list(dict.fromkeys(ref for bundle in bundles for ref in bundle.observation.artifacts))
    checked = {}
    for place, ref in enumerate(wanted):
        told("Artifacts", place, len(wanted))
        checked[ref] = _check(artifacts, ref)
    return checked


def _check(artifacts: ArtifactStore, ref: ArtifactRef) -> Bytes:
    try:
        data = artifacts.read(ref.sha256)
    except ErasedError:
        return Bytes.ERASED
    except NotFoundError:
        return Bytes.MISSING
    except IntegrityError:
        return Bytes.CHANGED
    return Bytes.MATCH if len(data) == ref.size_bytes else Bytes.OTHER_SIZE


def _run(experience: str, bundle: VerifiedEvidenceBundle | NotABundle, checked: Checked) -> dict[str, Any]:
    if isinstance(bundle, NotABundle):
        return {"experience_id": experience, "reason": bundle.reason.value, "detail": bundle.detail}
    attempt, verification = bundle.attempt, bundle.verification
    return {
        "experience_id": experience,
        "attempt_id": str(attempt.id),
        "run_id": str(attempt.run_id),
        "observation_id": str(bundle.observation.id),
        "provenance_id": str(bundle.provenance.id),
        "evaluation_task_id": str(attempt.evaluation_task_id),
        "dataset_root": attempt.dataset_root,
        "dataset_digest": attempt.dataset_digest,
        "seed": attempt.seed,
        "verification": {
            "id": str(verification.id),
            "kind": verification.verification_kind.value,
            "valid": verification.valid,
            "evaluator": bundle.contract.evaluator,
            "evaluator_digest": verification.evaluator_digest,
        },
        "artifacts": [_artifact(ref, checked) for ref in bundle.observation.artifacts],
    }


def _artifact(ref: ArtifactRef, checked: Checked) -> dict[str, Any]:
    found = checked.get(ref)
    return ref.as_json() | ({} if found is None else {"bytes": found.value})
