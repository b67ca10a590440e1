"""The bundles that knowledge rests on: each must still cross-validate from its authoritative rows (VRM-W03).

Every complete experience is checked where it stands in the journal, for a bundle is stored only if it cross-validates;
links and snapshots are then compared with what was found. Verdicts are remembered for a while, else found again.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from memory.fsck.case import Case, Chunk
from memory.fsck.codes import Code
from policies.bundles import NotABundle, cross_validate
from records.base import Record
from records.evidence import Attempt, EvaluationContract, Experience
from records.ingestion import EvidenceSnapshot
from records.knowledge import EvidenceLink, GovernedRecord
from store.recent import Recent

_REMEMBERED: Final = 20_000
_CONTRACTS: Final = 100
_GROUP: Final = 500
_PARTS: Final = ("observation_id", "verification_id", "intervention_id", "provenance_id")


@dataclass(frozen=True, slots=True)
class _Verdict:
    """What is left of a bundle once it was checked: its digest and the ids a link repeats, or what breaks it."""

    digest: str = ""
    parts: tuple[str, ...] = ()
    broken: str | None = None


class BundleCheck:
    """Checks the bundles of experiences, evidence links and snapshot members."""

    def __init__(self) -> None:
        self._verdicts: Recent[str, _Verdict] = Recent(_REMEMBERED)
        self._broken: Recent[str, None] = Recent(_REMEMBERED)
        self._contracts: Recent[str, Record] = Recent(_CONTRACTS)

    def check(self, case: Case, chunk: Chunk) -> None:
        """Check the experiences, memory records and evidence snapshots of a stretch of journal."""
        complete = {key: each for key, each in chunk.of(Experience).items() if _is_complete(each)}
        self._judge(case, complete, chunk.records)
        for key, record in chunk.of(GovernedRecord).items():
            ids = {str(part) for link in record.links for part in (link.experience_id, link.comparator_id)}
            verdicts = self._resolve(case, ids)
            for link in record.links:
                for fault in _link_faults(link, verdicts[str(link.experience_id)]):
                    case.findings.add(Code.LINK_MISMATCH, key, fault)
        for key, snapshot in chunk.of(EvidenceSnapshot).items():
            self._check_members(case, key, snapshot)

    def _check_members(self, case: Case, key: str, snapshot: EvidenceSnapshot) -> None:
        for start in range(0, len(snapshot.members), _GROUP):
            members = snapshot.members[start : start + _GROUP]
            verdicts = self._resolve(case, {str(member.experience_id) for member in members})
            for member in members:
                verdict = verdicts[str(member.experience_id)]
                if verdict.broken is None and verdict.digest != member.bundle_digest:
                    met = f"{member.experience_id} has bundle {verdict.digest}, not {member.bundle_digest}"
                    case.findings.add(Code.SNAPSHOT_MEMBER, key, met)

    def _resolve(self, case: Case, ids: set[str]) -> dict[str, _Verdict]:
        """Return the verdicts of experiences that records rest on; one that cannot be read breaks them too."""
        found = {key: self._verdicts[key] for key in ids if key in self._verdicts}
        unknown = sorted(ids - found.keys())
        for start in range(0, len(unknown), _GROUP):
            group = unknown[start : start + _GROUP]
            experiences = case.read(group, Experience)
            found |= self._judge(case, experiences, {})
            for key in (each for each in group if each not in experiences):
                found[key] = self._enter(case, key, _Verdict(broken="the experience cannot be read"))
        return found

    def _judge(
        self, case: Case, experiences: dict[str, Experience], at_hand: Mapping[str, Record]
    ) -> dict[str, _Verdict]:
        """Cross-validate experiences from the rows that are at hand, and read the others."""
        named = {
            str(part)
            for each in experiences.values()
            for part in (each.hypothesis_id, each.attempt_id, *(getattr(each, name) for name in _PARTS))
            if part is not None
        }
        rows = ChainMap(case.load(named - at_hand.keys()), dict(at_hand), self._contracts)
        self._read_contracts(case, {str(row.contract_id) for key in named if isinstance(row := rows.get(key), Attempt)})
        found = {}
        for key, experience in experiences.items():
            found[key] = self._enter(case, key, _verdict(experience, rows))
        case.findings.checked["bundles"] += len(found)
        return found

    def _read_contracts(self, case: Case, ids: set[str]) -> None:
        for key, contract in case.read(ids - self._contracts.keys(), EvaluationContract).items():
            self._contracts.put(key, contract)

    def _enter(self, case: Case, key: str, verdict: _Verdict) -> _Verdict:
        self._verdicts.put(key, verdict)
        if verdict.broken is not None and key not in self._broken:
            self._broken.put(key, None)
            case.findings.add(Code.BUNDLE_BROKEN, key, verdict.broken)
        return verdict


def _is_complete(experience: Experience) -> bool:
    return bool(experience.verification_id and experience.intervention_id and experience.provenance_id)


def _verdict(experience: Experience, rows: Mapping[str, Record]) -> _Verdict:
    bundle = cross_validate(experience, rows)
    if isinstance(bundle, NotABundle):
        return _Verdict(broken=f"{bundle.reason}: {bundle.detail}")
    parts = (bundle.observation.id, bundle.verification.id, bundle.intervention.id, bundle.provenance.id)
    return _Verdict(digest=bundle.digest, parts=tuple(str(part) for part in parts))


def _link_faults(link: EvidenceLink, verdict: _Verdict) -> Iterator[str]:
    if verdict.broken is None and tuple(str(getattr(link, name)) for name in _PARTS) != verdict.parts:
        yield f"the link to {link.experience_id} names other records than its bundle has"
