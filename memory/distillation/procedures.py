"""Procedures inside the distiller: another sort of verdict about a snapshot, drafted as rules are (spec 8.4).

Rules kept here (docs/adr/0032):

- the run that closes a trajectory speaks for its procedure first, and so leads it; one in the middle that speaks for no
  rule is covered by the procedure, since it is evidence of nothing else;
- a procedure implements the live rules about its own steps: same change, catalog, task scope and contract. What was led
  in the same call counts, and the commit is refused, to be proposed again, if that did not come about.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from memory.distillation.drafting import LIVE, Draft
from policies.contrasts import ContrastTable
from policies.distillation_policy import DistillationPolicy
from policies.distiller import DRAFTING_ADAPTER
from policies.loading import policy_set_digest
from policies.procedures.judging import ProcedureTable, ProcedureVerdict, judge_procedures
from policies.procedures.policy import ProcedurePolicy
from policies.procedures.trajectories import read_trajectories
from records.evidence import VerifiedEvidenceBundle
from records.ids import ExperienceId, FamilyId, MemoryId, ScopeVariantId
from records.knowledge import (
    Candidate,
    DistillationDecision,
    GovernedRecord,
    LifecycleEvent,
    MemoryRelation,
    RelationKind,
)
from records.procedures import ProcedureCandidate, ProcedureRecord
from records.values import Disposition


@dataclass(frozen=True, kw_only=True)
class ProcedureView:
    """The procedures of a snapshot.

    Attributes:
        table: their verdicts.
        duplicates: Experiences that only repeat a trajectory.
        rules: the variants of the rules about each procedure's steps, by the procedure's variant.
    """

    table: ProcedureTable
    duplicates: frozenset[ExperienceId]
    rules: Mapping[ScopeVariantId, tuple[ScopeVariantId, ...]]

    def closed_by(self, experience_id: ExperienceId) -> ProcedureVerdict | None:
        """Return the procedure whose trajectory an Experience closes."""
        found = self.of(experience_id)
        return found if found is not None and experience_id in found.closing_ids else None

    def of(self, experience_id: ExperienceId) -> ProcedureVerdict | None:
        """Return the procedure that an Experience is evidence of."""
        key = self.table.of(experience_id)
        return None if key is None else self.table.verdicts[key]


def view_procedures(
    bundles: Iterable[VerifiedEvidenceBundle],
    contrasts: ContrastTable,
    policy: DistillationPolicy,
    procedures: ProcedurePolicy,
) -> ProcedureView:
    """Judge the procedures of a snapshot's bundles."""
    trajectories = read_trajectories(bundles, policy)
    table = judge_procedures(trajectories, policy, procedures)
    rules = {key: _rules(verdict, contrasts) for key, verdict in table.verdicts.items()}
    return ProcedureView(table=table, duplicates=trajectories.duplicates, rules=rules)


def _rules(verdict: ProcedureVerdict, contrasts: ContrastTable) -> tuple[ScopeVariantId, ...]:
    """Return the variants of the rules about a procedure's steps, in the order of their ids."""
    procedure, scope = verdict.procedure, verdict.scope
    steps = {
        (str(each["knob"]), str(each["from"]), str(each["to"]))
        for each in ({one.name: one.value.value for one in step.action.parameters} for step in procedure.steps)
    }
    own = (procedure.catalog_digest, scope.task_scope_id, scope.contract_digest)
    return tuple(
        key
        for key, variant in sorted(contrasts.variants.items())
        if not variant.bound
        and (variant.target.catalog_digest, variant.scope.task_scope_id, variant.scope.contract_digest) == own
        and (f'"{variant.target.knob.name}"', variant.target.knob.from_value, variant.target.knob.to_value) in steps
    )


@dataclass(frozen=True, kw_only=True)
class ProcedureDraft(Draft[ProcedureVerdict]):
    """The draft of a procedure; `rules` are the live rules that it implements."""

    rules: tuple[MemoryId, ...] = ()

    @property
    def family(self) -> FamilyId:
        """The Knowledge Family: point, situation, goal, metric and mechanism."""
        return self.verdict.family_id

    def candidate(self) -> ProcedureCandidate:
        """Return the untrusted candidate."""
        return ProcedureCandidate(
            **self.of_candidate(),
            procedure=self.verdict.procedure,
            drafting_adapter=DRAFTING_ADAPTER,
            findings=self.verdict.findings,
        )

    def record(self, candidate: Candidate) -> ProcedureRecord:
        """Return the procedure."""
        return ProcedureRecord(**self.of_record(candidate), procedure=self.verdict.procedure)

    def same_claim(self, record: GovernedRecord) -> bool:
        """Tell whether a record is this very workflow at this grade."""
        return (
            isinstance(record, ProcedureRecord)
            and record.procedure == self.verdict.procedure
            and record.strength.grade is self.verdict.strength.grade
        )

    def decision(self, candidate: Candidate, memory: GovernedRecord | None) -> DistillationDecision:
        """Return the decision, which names the Procedure Policy's reasons and identity as well."""
        made = super().decision(candidate, memory)
        policies = (self.policies.distillation, self.policies.lifecycle, self.policies.procedures)
        return DistillationDecision(
            namespace=made.namespace,
            created_at=made.created_at,
            candidate_id=made.candidate_id,
            decision=made.decision,
            reasons=(*made.reasons, *(reason.value for reason in self.verdict.reasons)),
            memory_id=made.memory_id,
            policy=made.policy,
            policy_set_digest=policy_set_digest([each.identity for each in policies]),
        )

    def relations(self, memory: GovernedRecord | None, events: Sequence[LifecycleEvent]) -> list[MemoryRelation]:
        """Return what a rule's draft would, and which rules the procedure implements."""
        found = super().relations(memory, events)
        if memory is not None and events:
            own, starts = MemoryId(memory.id), events[-1]
            found += [self._relation((own, rule), RelationKind.PROCEDURE_IMPLEMENTS, starts) for rule in self.rules]
        return found


def is_live(disposition: str) -> bool:
    """Tell whether a head stands."""
    return Disposition(disposition) in LIVE
