"""What the Ledger holds about decisions, from the intent to the verified outcome (spec 16, VRM-O04).

Rules kept here: `reader` is one read transaction, so that everything is of one moment; decisions of the same pairs are
read beside those that were asked for, since an outcome is compared with its counterpart; nothing is left out because
something of it is missing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from memory.evidence import resolve_bundles
from policies.mediation import DecisionRecords, DecisionTrace, Executed, named_by, paired, trace_decision
from records.appends import StoredRecord
from records.base import Record
from records.decisions import DecisionContractView, DecisionIntent, RecallContext
from records.errors import NotFoundError
from records.evidence import (
    Attempt,
    Experience,
    Intervention,
    Observation,
    TrialProvenance,
    Verification,
    VerifiedEvidenceBundle,
)
from records.ids import ExperienceId, IntentId
from records.knowledge import EvidenceLink, GovernedRecord
from records.outcomes import OutcomeAttemptLink, RecallOutcome
from store.ledger.port import FindValue, LedgerReader

R = TypeVar("R", bound=Record)


@dataclass(frozen=True, kw_only=True)
class Asked:
    """Which decisions are traced: those of a namespace, or of these Runs, or this one."""

    namespace: str
    run_ids: tuple[str, ...] = ()
    intent_id: str | None = None


@dataclass(frozen=True, kw_only=True)
class Fidelity:
    """How much of what the cards' records claim to rest on is really there.

    Attributes:
        records: memory records that cards were made of.
        links: their evidence links; sound: those that lead to a valid bundle of exactly the ids that the link names.
    """

    records: int
    links: int
    sound: int


@dataclass(frozen=True, kw_only=True)
class Traced:
    """The traces of the decisions that were asked for, in journal order, and what their cards' records rest on."""

    traces: tuple[DecisionTrace, ...]
    fidelity: Fidelity


def read_traces(reader: LedgerReader, asked: Asked) -> Traced:
    """Return the traces of decisions, each with its counterpart.

    Raises:
        NotFoundError: there is no such intent.
        InvalidRecordError, IntegrityError: a row is not what its id says; run fsck.
    """
    wanted = _intents(reader, asked)
    intents = wanted | _of_pairs(reader, asked.namespace, wanted.values())
    told = _told(reader, asked.namespace, intents)
    traces = {each.intent_id: each for each in paired([trace_decision(each) for each in told])}
    sources = {
        source
        for each in told
        if str(each.intent.id) in wanted
        for item in (each.context.items if each.context else ())
        for source in named_by(item)[0]
    }
    return Traced(traces=tuple(traces[key] for key in wanted), fidelity=_fidelity(reader, sources))


def _intents(reader: LedgerReader, asked: Asked) -> dict[str, DecisionIntent]:
    if asked.intent_id is not None:
        stored = reader.get(asked.intent_id)
        intent = None if stored is None else stored.load()
        if not isinstance(intent, DecisionIntent):
            raise NotFoundError(
                "decision-intent", asked.intent_id, "Give the id of a decision; `vrm trace` lists them."
            )
        return {asked.intent_id: intent}
    equal: dict[str, FindValue] = {"run_id": list(asked.run_ids)} if asked.run_ids else {}
    return _find(reader, DecisionIntent, asked.namespace, **equal)


def _of_pairs(reader: LedgerReader, namespace: str, intents: Iterable[DecisionIntent]) -> dict[str, DecisionIntent]:
    pairs = sorted({intent.pair for intent in intents if intent.pair is not None})
    return _find(reader, DecisionIntent, namespace, pair=pairs) if pairs else {}


def _told(reader: LedgerReader, namespace: str, intents: Mapping[str, DecisionIntent]) -> list[DecisionRecords]:
    ids = list(intents)
    contexts = {str(each.intent_id): each for each in _find(reader, RecallContext, namespace, intent_id=ids).values()}
    outcomes = {str(each.intent_id): each for each in _find(reader, RecallOutcome, namespace, intent_id=ids).values()}
    ends = [str(each.id) for each in outcomes.values()]
    links = {
        str(each.outcome_id): each for each in _find(reader, OutcomeAttemptLink, namespace, outcome_id=ends).values()
    }
    views = _many(reader, DecisionContractView, (each.contract_view_id for each in intents.values()))
    experiments = _Experiments.read(reader, namespace, intents.values(), links.values())
    digests = _digests(reader, contexts.values())
    told = []
    for key, intent in intents.items():
        outcome, view = outcomes.get(key), views.get(str(intent.contract_view_id))
        link = None if outcome is None else links.get(str(outcome.id))
        told.append(
            DecisionRecords(
                intent=intent,
                view=view,
                context=contexts.get(key),
                outcome=outcome,
                link=link,
                executed=None if link is None else experiments.executed(link, view),
                digests=digests,
            )
        )
    return told


@dataclass(frozen=True, kw_only=True)
class _Experiments:
    """The experiments of some Runs, and those that outcomes are linked to, by id."""

    attempts: Mapping[str, Attempt]
    experiences: Mapping[str, Experience]
    observations: Mapping[str, Observation]
    verifications: Mapping[str, Verification]
    interventions: Mapping[str, Intervention]
    provenances: Mapping[str, TrialProvenance]
    results: Mapping[tuple[str, str], Sequence[Verification]]

    @classmethod
    def read(
        cls,
        reader: LedgerReader,
        namespace: str,
        intents: Iterable[DecisionIntent],
        links: Iterable[OutcomeAttemptLink],
    ) -> _Experiments:
        runs = sorted({str(intent.run_id) for intent in intents})
        linked = list(links)
        attempts = _find(reader, Attempt, namespace, run_id=runs)
        attempts |= _many(reader, Attempt, (link.attempt_id for link in linked))
        experiences = _find(reader, Experience, namespace, attempt_id=list(attempts))
        experiences |= _many(reader, Experience, (link.experience_id for link in linked))
        own = experiences.values()
        verifications = _many(reader, Verification, (each.verification_id for each in own))
        results: dict[tuple[str, str], list[Verification]] = {}
        for experience in own:
            attempt = attempts.get(str(experience.attempt_id))
            found = verifications.get(str(experience.verification_id))
            if attempt is not None and found is not None and found.valid:
                results.setdefault((str(attempt.run_id), attempt.config_digest), []).append(found)
        named = {str(link.experience_id) for link in linked}
        shown = [each for key, each in experiences.items() if key in named]
        return cls(
            attempts=attempts,
            experiences=experiences,
            observations=_many(reader, Observation, (each.observation_id for each in shown)),
            verifications=verifications,
            interventions=_many(reader, Intervention, (each.intervention_id for each in shown)),
            provenances=_many(reader, TrialProvenance, (each.provenance_id for each in shown)),
            results=results,
        )

    def executed(self, link: OutcomeAttemptLink, view: DecisionContractView | None) -> Executed:
        """Return the experiment of a link, with the verified result of the configuration that it was changed from."""
        attempt, experience = self.attempts.get(link.attempt_id), self.experiences.get(link.experience_id)
        if experience is None:
            return Executed(
                attempt=attempt, experience=None, observation=None, verification=None, intervention=None,
                provenance=None, before=None,
            )  # fmt: skip
        intervention = self.interventions.get(str(experience.intervention_id))
        return Executed(
            attempt=attempt,
            experience=experience,
            observation=self.observations.get(experience.observation_id),
            verification=self.verifications.get(str(experience.verification_id)),
            intervention=intervention,
            provenance=self.provenances.get(str(experience.provenance_id)),
            before=self._before(attempt, intervention, view),
        )

    def _before(
        self, attempt: Attempt | None, intervention: Intervention | None, view: DecisionContractView | None
    ) -> float | None:
        if attempt is None or intervention is None or view is None:
            return None
        found = self.results.get((str(attempt.run_id), intervention.baseline_config_digest), ())
        values = (each.metric(view.primary_metric.name) for each in found)
        return next((value for value in values if value is not None), None)


def _digests(reader: LedgerReader, contexts: Iterable[RecallContext]) -> dict[str, str]:
    names = {name for context in contexts for item in context.items for part in named_by(item) for name in part}
    return {key: stored.load().payload_digest for key, stored in reader.get_many(sorted(names)).items()}


def _fidelity(reader: LedgerReader, sources: Iterable[str]) -> Fidelity:
    records = _many(reader, GovernedRecord, sources)
    links = {link for record in records.values() for link in record.links}
    ends = {str(part) for link in links for part in (link.experience_id, link.comparator_id)}
    bundles = resolve_bundles(reader, list(_many(reader, Experience, ends).values()))
    sound = {key for key, bundle in bundles.items() if isinstance(bundle, VerifiedEvidenceBundle)}
    every = [link for record in records.values() for link in record.links]
    faithful = {link for link in links if _is_sound(link, sound, bundles)}
    return Fidelity(records=len(records), links=len(every), sound=sum(link in faithful for link in every))


def _is_sound(link: EvidenceLink, sound: set[ExperienceId], bundles: Mapping[ExperienceId, object]) -> bool:
    bundle = bundles.get(link.experience_id)
    if link.comparator_id not in sound or not isinstance(bundle, VerifiedEvidenceBundle):
        return False
    named = (link.observation_id, link.verification_id, link.intervention_id, link.provenance_id)
    there = (bundle.observation.id, bundle.verification.id, bundle.intervention.id, bundle.provenance.id)
    return bundle.verification.valid and [str(each) for each in named] == [str(each) for each in there]


def _find(reader: LedgerReader, model: type[R], namespace: str, **equal: FindValue) -> dict[str, R]:
    return _typed(model, reader.find(model.kind.noun, namespace, **equal))


def _many(reader: LedgerReader, model: type[R], ids: Iterable[object]) -> dict[str, R]:
    return _typed(model, reader.get_many(sorted({str(each) for each in ids if each is not None})).values())


def _typed(model: type[R], stored: Iterable[StoredRecord]) -> dict[str, R]:
    loaded = ((each.id, each.load()) for each in stored)
    return {key: record for key, record in loaded if isinstance(record, model)}


def intent_of(reader: LedgerReader, prefix: str) -> IntentId:
    """Return the id of the one decision that begins so.

    Raises:
        NotFoundError: none does, or several do.
    """
    noun = DecisionIntent.kind.noun
    wanted = prefix if ":" in prefix else f"{noun}:{prefix}"
    found = [each for each in reader.resolve(wanted) if each.startswith(f"{noun}:")]
    if len(found) != 1:
        remedy = "Give more of its id." if found else "`vrm trace` lists the decisions."
        raise NotFoundError("decision-intent", prefix, remedy)
    return IntentId.check(found[0])
