"""The bundles that knowledge rests on: each must still cross-validate from its authoritative rows (VRM-W03)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from memory.evidence import resolve_bundles
from memory.fsck.case import Case, Chunk
from memory.fsck.report import Code
from policies.bundles import NotABundle
from records.errors import VrmError
from records.evidence import Experience, VerifiedEvidenceBundle
from records.ids import ExperienceId
from records.ingestion import EvidenceSnapshot
from records.knowledge import EvidenceLink, GovernedRecord

_REMEMBERED: Final = 50_000
_GROUP: Final = 500


@dataclass(frozen=True)
class _Verdict:
    """What is left of a bundle once it was checked: its digest and the ids a link repeats, or what breaks it."""

    digest: str = ""
    parts: tuple[str, ...] = ()
    broken: str | None = None


class BundleCheck:
    """Checks the bundles behind evidence links and snapshot members; each experience is resolved once in a while."""

    def __init__(self) -> None:
        self._verdicts: dict[str, _Verdict] = {}
        self._reported: set[str] = set()

    def check(self, case: Case, chunk: Chunk) -> None:
        """Check the memory records and evidence snapshots of a stretch of journal."""
        for key, record in chunk.of(GovernedRecord).items():
            ids = {str(part) for link in record.links for part in (link.experience_id, link.comparator_id)}
            verdicts = self._resolve(case, ids)
            for link in record.links:
                for fault in _link_faults(link, verdicts[str(link.experience_id)]):
                    case.findings.add(Code.LINK_MISMATCH, key, fault)
        for key, snapshot in chunk.of(EvidenceSnapshot).items():
            for start in range(0, len(snapshot.members), _GROUP):
                members = snapshot.members[start : start + _GROUP]
                verdicts = self._resolve(case, {str(member.experience_id) for member in members})
                for member in members:
                    verdict = verdicts[str(member.experience_id)]
                    if verdict.broken is None and verdict.digest != member.bundle_digest:
                        met = f"{member.experience_id} has bundle {verdict.digest}, not {member.bundle_digest}"
                        case.findings.add(Code.SNAPSHOT_MEMBER, key, met)

    def _resolve(self, case: Case, ids: set[str]) -> dict[str, _Verdict]:
        if len(self._verdicts) > _REMEMBERED:
            self._verdicts.clear()
        unknown = sorted(ids - self._verdicts.keys())
        for key, verdict in _judge(case, unknown).items():
            self._verdicts[key] = verdict
            if verdict.broken is not None and key not in self._reported:
                self._reported.add(key)
                case.findings.add(Code.BUNDLE_BROKEN, key, verdict.broken)
        case.findings.checked["bundles"] += len(unknown)
        return {key: self._verdicts[key] for key in ids}


def _judge(case: Case, ids: Iterable[str]) -> dict[str, _Verdict]:
    wanted = list(ids)
    experiences = case.read(wanted, Experience)
    verdicts = {key: _Verdict(broken="the experience cannot be read") for key in wanted if key not in experiences}
    try:
        bundles = resolve_bundles(case.reader, experiences.values())
    except VrmError:
        if len(wanted) == 1:
            raise
        # One unreadable row must not hide what the others are: ask for each by itself.
        for key in wanted:
            verdicts |= _judge_alone(case, key)
        return verdicts
    for key, experience in experiences.items():
        verdicts[key] = _verdict(bundles[ExperienceId(experience.id)])
    return verdicts


def _judge_alone(case: Case, key: str) -> dict[str, _Verdict]:
    try:
        return _judge(case, [key])
    except VrmError as error:
        return {key: _Verdict(broken=str(error))}


def _verdict(bundle: VerifiedEvidenceBundle | NotABundle) -> _Verdict:
    if isinstance(bundle, NotABundle):
        return _Verdict(broken=f"{bundle.reason}: {bundle.detail}")
    parts = (bundle.observation.id, bundle.verification.id, bundle.intervention.id, bundle.provenance.id)
    return _Verdict(digest=bundle.digest, parts=tuple(str(part) for part in parts))


def _link_faults(link: EvidenceLink, verdict: _Verdict) -> Iterator[str]:
    named = (link.observation_id, link.verification_id, link.intervention_id, link.provenance_id)
    if verdict.broken is None and tuple(str(part) for part in named) != verdict.parts:
        yield f"the link to {link.experience_id} names other records than its bundle has"
