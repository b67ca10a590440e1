"""The evidence links of a verdict: every run of both sides is cited, and what it says of the rule (VRM-W07).

Pure. A link goes from a changed run to one baseline that it was compared with. Of a pair, the changed run is linked to
each of the reruns of its baseline. Of two unpaired arms, runs are linked one to one in the order of their evidence,
which no repetition changes, and the shorter arm comes round again: every run of both is in a link, and none is in more
than it must.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import cycle, islice

from policies.effects import PairedDelta
from policies.variants import Contrast, Variant, experience_of
from records.evidence import VerifiedEvidenceBundle
from records.ids import InterventionId, ObservationId, ProvenanceId, VerificationId
from records.knowledge import EvidenceLink, LinkRelation

_Compared = tuple[Contrast, PairedDelta]


def evidence_links(variant: Variant, mean_delta: float) -> tuple[EvidenceLink, ...]:
    """Return the links of a variant whose mean effect is given, sorted as records hold them."""
    metric = variant.metric.name
    arms: dict[int, list[_Compared]] = {}
    links: list[EvidenceLink] = []
    for contrast in variant.contrasts:
        pair = contrast.delta(metric)
        if pair is None:
            continue
        if contrast.paired:
            links += [_link((contrast, pair), run, mean_delta) for run in _cited(contrast, metric)]
        else:
            arms.setdefault(id(contrast.baselines), []).append((contrast, pair))
    for compared in arms.values():
        changed = sorted(compared, key=lambda each: each[0].support_unit_id)
        baselines = sorted(_cited(compared[0][0], metric), key=lambda run: run.provenance.evidence_digest)
        links += _of_arms(changed, baselines, mean_delta)
    return tuple(sorted(links, key=lambda link: (link.relation.value, link.experience_id, link.comparator_id)))


def _of_arms(
    compared: list[_Compared], baselines: list[VerifiedEvidenceBundle], mean_delta: float
) -> Iterator[EvidenceLink]:
    together = zip(cycle(compared), cycle(baselines), strict=False)
    for each, run in islice(together, max(len(compared), len(baselines))):
        yield _link(each, run, mean_delta)


def _cited(contrast: Contrast, metric: str) -> list[VerifiedEvidenceBundle]:
    return [run for run in contrast.baselines.runs if run.verification.metric(metric) is not None]


def _link(compared: _Compared, baseline: VerifiedEvidenceBundle, mean_delta: float) -> EvidenceLink:
    contrast, pair = compared
    changed = contrast.changed
    return EvidenceLink(
        experience_id=experience_of(changed),
        comparator_id=experience_of(baseline),
        observation_id=ObservationId(changed.observation.id),
        verification_id=VerificationId(changed.verification.id),
        intervention_id=InterventionId(changed.intervention.id),
        provenance_id=ProvenanceId(changed.provenance.id),
        relation=_relation(pair.delta, mean_delta),
        support_unit_id=contrast.support_unit_id,
        stratum_id=contrast.stratum_id,
    )


def _relation(delta: float, mean_delta: float) -> LinkRelation:
    """A run supports the rule if it moved the way the mean did, contradicts it the other way, and ties at zero."""
    if delta == 0:
        return LinkRelation.TIES
    return LinkRelation.SUPPORTS if delta * mean_delta > 0 else LinkRelation.CONTRADICTS
