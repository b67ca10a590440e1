"""What blocks a request before anything is searched, each with its closed proof (spec 8.2, VRM-R01, R11).

Rules kept here: form before identity before policy; a proof holds field names, ids and digests, never free text or
content; bytes that are no request at all are blocked too, under the digest of those bytes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, Literal

import numpy as np
from pydantic import ValidationError

from memory.recall.loaded import LoadedInput
from memory.recall.memory_index import MemoryIndex
from policies.hard_filters import Mask
from policies.planner import allowed_action_digest
from policies.retrieval_policy import RetrievalPolicy
from records.appends import StoredRecord
from records.canonical import digest_bytes
from records.decisions import (
    BlockedEvidence,
    BlockedProposal,
    DecisionContractView,
    DecisionIntent,
    ExposureEvidence,
    InvalidRequestEvidence,
    MismatchEvidence,
    RecallRequest,
)
from records.ids import IntentId, RecallInputId
from records.snapshots import RecallInput
from records.values import RecallRequirement

_NOT_A_NAME: Final = re.compile(r"[^A-Za-z0-9_.:/+-]")
_NAME_LENGTH: Final = 200


def parse_request(intent: DecisionIntent, data: bytes, policy: RetrievalPolicy) -> RecallRequest | BlockedProposal:
    """Read a request from JSON; what is not a complete, valid request is a blocked proposal that names the fields."""
    try:
        return RecallRequest.model_validate_json(data)
    except ValidationError as error:
        met = {_field(".".join(str(part) for part in finding["loc"])) for finding in error.errors(include_url=False)}
        evidence = InvalidRequestEvidence(fields=tuple(sorted(met)))
        return _proposal(intent, digest_bytes(data), policy, None, evidence)


def blocked(
    intent: DecisionIntent,
    request: RecallRequest,
    policy: RetrievalPolicy,
    recall_input: RecallInput | None,
    evidence: BlockedEvidence,
) -> BlockedProposal:
    """Return the blocked proposal of a request."""
    read = None if recall_input is None else RecallInputId(recall_input.id)
    return _proposal(intent, request.canonical_digest, policy, read, evidence)


def check_form(
    intent: DecisionIntent, request: RecallRequest, policy: RetrievalPolicy
) -> InvalidRequestEvidence | None:
    """Return why a well-formed request may not be asked, or None."""
    fields = tuple(sorted(set(_wrong_fields(intent, request, policy))))
    return InvalidRequestEvidence(fields=fields) if fields else None


def check_identity(
    stored: Mapping[str, StoredRecord], intent: DecisionIntent, request: RecallRequest
) -> DecisionContractView | MismatchEvidence:
    """Return the contract view, or the first identity that it, intent and request do not share.

    `stored` holds the view that the intent binds, if the Ledger does.
    """
    pairs = (
        (intent.id, request.intent_id),
        (intent.decision_point.value, request.decision_point.value),
        (intent.task_scope_id, request.scope.task_scope_id),
        (intent.evaluation_task_id, request.scope.evaluation_task_id or "none"),
        (intent.allowed_action_digest, allowed_action_digest(request.allowed_actions)),
    )
    wrong = next(((str(want), str(met)) for want, met in pairs if want != met), None)
    if wrong is not None:
        return _mismatch("blocked_identity_mismatch", *wrong)
    row = stored.get(intent.contract_view_id)
    view = None if row is None else row.load()
    if not isinstance(view, DecisionContractView) or view.namespace != intent.namespace:
        return _mismatch("blocked_identity_mismatch", str(intent.contract_view_id), "none")
    if view.primary_metric != request.metric:
        expected, met = view.primary_metric.canonical.decode(), request.metric.canonical.decode()
        return _mismatch("blocked_identity_mismatch", expected, met)
    return view


def check_input(
    intent: DecisionIntent, request: RecallRequest, recall_input: RecallInput
) -> MismatchEvidence | ExposureEvidence | None:
    """Return why this Recall Input is not the request's, or not of its namespace, or None."""
    if recall_input.id != request.recall_input_id:
        return _mismatch("blocked_identity_mismatch", request.recall_input_id, str(recall_input.id))
    if recall_input.namespace != intent.namespace:
        member = digest_bytes(str(recall_input.id).encode())
        return ExposureEvidence(reason="blocked_contamination", rule="namespace_isolation", members=(member,))
    return None


def check_policy(recall_input: RecallInput, policy: RetrievalPolicy) -> MismatchEvidence | None:
    """Return which policy, renderer or tokenizer the Recall Input was made for, if it is not the one in use."""
    pairs = (
        (recall_input.retrieval_policy.digest, policy.identity.digest),
        (recall_input.renderer, policy.rendering.renderer),
        (recall_input.tokenizer, policy.rendering.tokenizer),
    )
    return next((_mismatch("blocked_policy_mismatch", want, met) for want, met in pairs if want != met), None)


def check_embedder(indexed: str, used: str) -> MismatchEvidence | None:
    """Return a proof that vectors of two embedders would be compared, or None."""
    return None if indexed == used else _mismatch("blocked_policy_mismatch", indexed, used)


def check_exposure(index: MemoryIndex, namespace: str, private: Iterable[str]) -> ExposureEvidence | None:
    """Return a proof that an input holds members of another namespace or of the evaluator's own, or None."""
    fields = index.columns.fields
    foreign = ~fields["namespace"].holds((namespace,))
    if foreign.any():
        members = _redacted(index, foreign)
        return ExposureEvidence(reason="blocked_contamination", rule="namespace_isolation", members=members)
    hidden = fields["visibility"].holds(private)
    if hidden.any():
        members = _redacted(index, hidden)
        return ExposureEvidence(reason="blocked_private_exposure", rule="evaluator_private", members=members)
    return None


def check_lanes(loaded: LoadedInput, intent: DecisionIntent, private: Iterable[str]) -> ExposureEvidence | None:
    """Return a proof that an input holds what this decision may not see, of any kind of source, or None.

    Episodes are for the Run, arm and pair that they were captured for, and no other (VRM-L04, O03).
    """
    evidence = loaded.metadata.evidence
    own = (intent.run_id, intent.arm, intent.pair)
    if evidence is not None and (evidence.visibility, evidence.arm, evidence.pair) != own:
        member = digest_bytes(str(evidence.id).encode())
        return ExposureEvidence(reason="blocked_contamination", rule="arm_isolation", members=(member,))
    hidden = tuple(private)
    found = (check_exposure(index, intent.namespace, hidden) for index in loaded.lanes.values())
    return next((each for each in found if each is not None), None)


def _wrong_fields(intent: DecisionIntent, request: RecallRequest, policy: RetrievalPolicy) -> Iterator[str]:
    profile = policy.profile(request.decision_point)
    if profile is None:
        yield "decision_point"
    else:
        if request.max_items > profile.max_items:
            yield "max_items"
        if request.token_budget > profile.token_budget:
            yield "token_budget"
    if intent.governance.recall_requirement is not RecallRequirement.REQUIRED:
        yield "intent.governance.recall_requirement"
    knobs = [entry.knob for entry in request.prior_config]
    if len(set(knobs)) != len(knobs):
        yield "prior_config"
    if len(set(request.allowed_actions)) != len(request.allowed_actions):
        yield "allowed_actions"
    if len({each.tool for each in request.tools or ()}) != len(request.tools or ()):
        yield "tools"


def _mismatch(
    reason: Literal["blocked_identity_mismatch", "blocked_policy_mismatch"], expected: str, observed: str
) -> MismatchEvidence:
    return MismatchEvidence(reason=reason, expected=expected, observed=observed)


def _redacted(index: MemoryIndex, rows: Mask) -> tuple[str, ...]:
    """Return digests of the ids of rows, sorted: they prove which members were meant without naming them."""
    return tuple(sorted(digest_bytes(index.search.ids[int(row)].encode()) for row in np.flatnonzero(rows)))


def _proposal(
    intent: DecisionIntent,
    request_digest: str,
    policy: RetrievalPolicy,
    recall_input_id: RecallInputId | None,
    evidence: BlockedEvidence,
) -> BlockedProposal:
    return BlockedProposal(
        intent_id=IntentId(intent.id),
        request_digest=request_digest,
        retrieval_policy=policy.identity,
        recall_input_id=recall_input_id,
        evidence=evidence,
    )


def _field(path: str) -> str:
    """Return a path as a name: what outside text put into it cannot carry anything else along."""
    return f"request.{_NOT_A_NAME.sub('_', path)}"[:_NAME_LENGTH].rstrip(".")
