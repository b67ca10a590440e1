"""Comparable evidence: paired contrasts, unpaired arms and support units, out of Verified Evidence Bundles.

Pure. Rules kept here (spec 8.1; docs/adr/0031):

- a changed run is paired with the baseline of its stratum and seed. Where no changed run of a stratum and change has
  one, but the stratum has baseline runs, the two arms are compared unpaired: every run of both is used. A changed run
  that is left over has no comparator;
- several baselines of one seed, reruns with other results, are all kept, and their mean is what is compared with;
- a support unit is one changed run beside what it is compared with: stratum, seed, change and evidence. The same
  evidence imported twice, under whatever run, attempt or seed, is one unit (VRM-W06); a rerun with another result is
  another unit of the same root, never another root. A unit names the baseline whose evidence comes first in order, not
  in time, and of pairs that are the same under several seeds the lowest seed, whichever came first; that of an unpaired
  run is made of that run alone, so that no later run changes it;
- a run that a recall steered, and that has no baseline of its own, is no evidence for what it was told to do;
- a run that did not work enters no contrast, and is no counter-evidence;
- pairs are indexed by scope variant, so that one work item touches only its own.

Version 1 of the policy knows pairs with the first baseline of a seed, and nothing else.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from policies.admission import refusal
from policies.distillation_policy import CandidateReason, DistillationPolicy
from policies.failures import FailureClass, broken
from policies.strata import Apart, apart, stratum_of
from policies.variants import Arm, Contrast, Variant, draft_variants, experience_of, speaks
from records.evidence import Manipulation, VerifiedEvidenceBundle
from records.ids import ExperienceId, ScopeVariantId, StratumId, SupportUnitId
from records.values import Knob

__all__ = ["Arm", "Contrast", "ContrastTable", "Variant", "stratum_of", "tabulate"]


@dataclass(frozen=True, kw_only=True)
class ContrastTable:
    """All contrasts of a snapshot; every Experience is in exactly one of the last six.

    Attributes:
        variants: by scope variant id, in sorted order; those that refine another are drafts, judged only where the
            variant that they refine asks for a split.
        quiet: the variants of evaluation tasks with too few runs to speak for themselves, which nobody judges.
        apart: for changed runs without a comparator, the fewest stratum fields by which they differ from a baseline.
        variants_of: the scope variants that each compared Experience belongs to: those of its task scope first, then
            those of its evaluation task, then refinements, each in the order of ids.
        unpaired: Experiences without a comparator.
        inert: Experiences whose change left the configuration as it was.
        duplicates: Experiences that only repeat a support unit.
        failed: Experiences that did not work, with the class of their failure.
        refused: Experiences that no rule may be drafted from, with the reason.
    """

    variants: Mapping[ScopeVariantId, Variant]
    quiet: Mapping[ScopeVariantId, Variant]
    apart: Mapping[ExperienceId, Apart]
    variants_of: Mapping[ExperienceId, tuple[ScopeVariantId, ...]]
    unpaired: frozenset[ExperienceId]
    inert: frozenset[ExperienceId]
    duplicates: frozenset[ExperienceId]
    failed: Mapping[ExperienceId, FailureClass]
    refused: Mapping[ExperienceId, CandidateReason]

    @cached_property
    def drafted(self) -> Mapping[ScopeVariantId, Variant]:
        """Every variant that there is a contrast for, the quiet ones included."""
        return {**self.variants, **self.quiet}

    def why_not(self, experience_id: ExperienceId) -> CandidateReason | None:
        """Return why an Experience of the snapshot is in no contrast, or None if it is in one."""
        if experience_id in self.variants_of:
            return None
        if experience_id in self.duplicates:
            return CandidateReason.DUPLICATE_SUPPORT_UNIT
        if experience_id in self.inert:
            return CandidateReason.GENERIC_OR_NON_ACTIONABLE
        return self.refused.get(experience_id, CandidateReason.NON_COMPARABLE_EVIDENCE)


def tabulate(bundles: Iterable[VerifiedEvidenceBundle], policy: DistillationPolicy) -> ContrastTable:
    """Compare all bundles of a snapshot; the order in which they come does not matter.

    What has to be first of several is the earliest, so that running again cannot choose it.
    """
    builder = _Builder(policy)
    for bundle in sorted(bundles, key=lambda item: (item.attempt.created_at, item.experience.id)):
        builder.sort_in(bundle)
    return builder.table()


class _Change(NamedTuple):
    stratum: StratumId
    knob: Knob


@dataclass
class _Builder:
    policy: DistillationPolicy
    baselines: dict[StratumId, dict[int, dict[str, VerifiedEvidenceBundle]]] = field(
        default_factory=lambda: defaultdict(lambda: defaultdict(dict))
    )
    arms: dict[tuple[StratumId, int | None], Arm] = field(default_factory=dict)
    changes: dict[_Change, list[VerifiedEvidenceBundle]] = field(default_factory=lambda: defaultdict(list))
    alone: list[tuple[StratumId, VerifiedEvidenceBundle]] = field(default_factory=list)
    unused: set[ExperienceId] = field(default_factory=set)
    inert: set[ExperienceId] = field(default_factory=set)
    duplicates: set[ExperienceId] = field(default_factory=set)
    failed: dict[ExperienceId, FailureClass] = field(default_factory=dict)
    refused: dict[ExperienceId, CandidateReason] = field(default_factory=dict)

    def sort_in(self, bundle: VerifiedEvidenceBundle) -> None:
        """Put a bundle where it belongs; bundles come in the order of their time."""
        experience_id = experience_of(bundle)
        failure, refused = broken(bundle), refusal(bundle, self.policy)
        knob = bundle.intervention.knob
        if failure is not None:
            self.failed[experience_id] = failure
        elif refused is not None:
            self.refused[experience_id] = refused
        elif bundle.intervention.manipulation is Manipulation.NO_EFFECT:
            self.inert.add(experience_id)
        elif knob is None:
            self._add_baseline(bundle)
        else:
            self.changes[_Change(stratum_of(bundle, self.policy), knob)].append(bundle)

    def _add_baseline(self, bundle: VerifiedEvidenceBundle) -> None:
        known = self.baselines[stratum_of(bundle, self.policy)][bundle.attempt.seed]
        if _evidence(bundle) in known:
            self.duplicates.add(experience_of(bundle))
        elif known and self.policy.comparison is None:
            self.unused.add(experience_of(bundle))
        else:
            known[_evidence(bundle)] = bundle

    def _contrasts(self) -> Iterator[Contrast]:
        for change, runs in self.changes.items():
            seeds = self.baselines.get(change.stratum, {})
            if any(run.attempt.seed in seeds for run in runs):
                yield from self._pairs(change, runs, seeds.keys())
            elif seeds and self.policy.comparison is not None:
                yield from self._unpaired(change, runs)
            else:
                self.alone += [(change.stratum, run) for run in runs]

    def _pairs(
        self, change: _Change, runs: Sequence[VerifiedEvidenceBundle], seeds: Collection[int]
    ) -> Iterator[Contrast]:
        comparable = [run for run in runs if run.attempt.seed in seeds]
        self.alone += [(change.stratum, run) for run in runs if run.attempt.seed not in seeds]
        firsts: dict[object, VerifiedEvidenceBundle] = {}
        for run in sorted(comparable, key=lambda each: each.attempt.seed):  # of one seed the earliest stays the first
            firsts.setdefault(self._shown(change, run), run)
        reruns: dict[int, int] = defaultdict(int)
        for run in comparable:
            shown = self._shown(change, run)
            if firsts.get(shown) is not run:
                self.duplicates.add(experience_of(run))
                continue
            del firsts[shown]  # a bundle that is given twice counts once
            arm = self._arm(change.stratum, run.attempt.seed)
            unit = _unit(change, run) | {"baseline_evidence": min(map(_evidence, arm.runs))}
            rerun = reruns[run.attempt.seed]
            reruns[run.attempt.seed] += 1
            yield Contrast(SupportUnitId.derive(unit), change.knob, run, arm, rerun, paired=True)

    def _shown(self, change: _Change, run: VerifiedEvidenceBundle) -> object:
        """Return what a pair shows; of two that show the same one is a repetition."""
        if self.policy.comparison is None:
            return _evidence(run), run.attempt.seed
        arm = self._arm(change.stratum, run.attempt.seed)
        return _evidence(run), tuple(sorted(map(_evidence, arm.runs)))

    def _unpaired(self, change: _Change, runs: Sequence[VerifiedEvidenceBundle]) -> Iterator[Contrast]:
        arm = self._arm(change.stratum, None)
        seen: set[object] = set()
        reruns: dict[int, int] = defaultdict(int)
        for run in runs:
            if run.attempt.recall_context_id is not None:
                self.refused[experience_of(run)] = CandidateReason.INSUFFICIENT_INDEPENDENT_SUPPORT
                continue
            if self._repeats(run, _evidence(run), seen):
                continue
            rerun = reruns[run.attempt.seed]
            reruns[run.attempt.seed] += 1
            unit = SupportUnitId.derive(_unit(change, run, seeded=False))
            yield Contrast(unit, change.knob, run, arm, rerun, paired=False)

    def _arm(self, stratum: StratumId, seed: int | None) -> Arm:
        """Return the baselines of a seed, or all of a stratum, in which the same evidence counts once; made once."""
        if (stratum, seed) not in self.arms:
            seeds = self.baselines[stratum]
            chosen = seeds.values() if seed is None else (seeds[seed],)
            runs = sorted((run for found in chosen for run in found.values()), key=_when)
            firsts = {_evidence(run): run for run in reversed(runs)}
            self.arms[stratum, seed] = Arm(stratum, tuple(reversed(firsts.values())))
        return self.arms[stratum, seed]

    def _repeats(self, run: VerifiedEvidenceBundle, what: object, seen: set[object]) -> bool:
        if what in seen:
            self.duplicates.add(experience_of(run))
            return True
        seen.add(what)
        return False

    def table(self) -> ContrastTable:
        contrasts = sorted(self._contrasts(), key=lambda contrast: _when(contrast.changed))
        drafted = draft_variants(contrasts, self.policy)
        quiet = {key: variant for key, variant in drafted.items() if not speaks(variant, self.policy)}
        variants = {key: variant for key, variant in drafted.items() if key not in quiet}
        members = _members(variants)
        known = [
            (stratum, run)
            for stratum, seeds in self.baselines.items()
            for runs in seeds.values()
            for run in runs.values()
        ]
        idle = [(stratum, run) for stratum, run in known if experience_of(run) not in members]
        used = {(stratum, _evidence(run)) for stratum, run in known if experience_of(run) in members}
        repeated = {experience_of(run) for stratum, run in idle if (stratum, _evidence(run)) in used}
        alone = {experience_of(run) for _, run in (*self.alone, *idle)}
        return ContrastTable(
            variants=variants,
            quiet=quiet,
            apart=apart(self.alone, dict(reversed(known)), self.policy),
            variants_of=members,
            unpaired=frozenset((alone | self.unused) - repeated),
            inert=frozenset(self.inert),
            duplicates=frozenset(self.duplicates | repeated),
            failed=self.failed,
            refused=self.refused,
        )


def _when(bundle: VerifiedEvidenceBundle) -> tuple[str, ExperienceId]:
    return bundle.attempt.created_at, experience_of(bundle)


def _evidence(bundle: VerifiedEvidenceBundle) -> str:
    """What a run left behind, which its metrics follow from; who ran it, when, under which seed is no part of it."""
    return bundle.provenance.evidence_digest


def _unit(change: _Change, run: VerifiedEvidenceBundle, *, seeded: bool = True) -> dict[str, object]:
    """Return what the support unit of a run is made of; a seed that pairs nothing says nothing."""
    return {
        "stratum_id": change.stratum,
        "seed": run.attempt.seed if seeded else None,
        "knob": change.knob.as_json(),
        "changed_evidence": run.provenance.evidence_digest,
    }


def _members(variants: Mapping[ScopeVariantId, Variant]) -> dict[ExperienceId, tuple[ScopeVariantId, ...]]:
    found: dict[ExperienceId, list[ScopeVariantId]] = defaultdict(list)
    for key, variant in sorted(variants.items(), key=lambda item: (item[1].refines is not None, item[1].bound)):
        for experience_id in variant.experience_ids:
            found[experience_id].append(key)
    return {experience_id: tuple(keys) for experience_id, keys in found.items()}
