"""AI-Researcher's canonical form, and the rules by which it made the ids that can be computed again.

Facts read from the public program (LIHUA919/AI-Researcher, Apache-2.0) and checked against its published evidence:

- a payload is JSON with sorted keys, no spaces, not escaped to ASCII; Python's own NaN and infinities may be in it;
- the ids of version 1 are plain SHA-256 of such JSON *escaped to ASCII*, except that of a recall context, which is not
  escaped; the program has a second way to make an empty recall context, which is;
- the ids of interventions and provenance are SHA-256 over a domain, a NUL byte and JSON that is not escaped;
- the id of a verification covers the public feedback in the version that has such a field. Each variant is a rule of
  its own here;
- an id that is no SHA-256 is a name that somebody gave: there is nothing to compute. The ids of hypotheses, attempts
  and observations cover facts that are not in their payload.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from records.canonical import digest_bytes, is_digest
from records.legacy import LegacyTable

Payload = Mapping[str, Any]

_ITERATION: Final = re.compile(r"iteration-([0-9]{1,18})", re.ASCII)


@dataclass(frozen=True)
class IdRule:
    """One way in which an id was made.

    `content` gives None where the payload cannot have been made that way. A rule binds where published records bear it
    out or the program itself enforced it: an id that looks computed must then compute.
    """

    name: str
    content: Callable[[Payload], Payload | None]
    escaped: bool = True
    domain: str = ""
    binds: bool = True


def canonical_text(value: object, *, escaped: bool = False) -> str:
    """Return a value in the program's canonical form."""
    return json.dumps(value, ensure_ascii=escaped, sort_keys=True, separators=(",", ":"))


def legacy_digest(domain: str, value: object, *, escaped: bool = False) -> str:
    """Return the program's digest of a value; without a domain it covers the JSON alone."""
    prefix = domain.encode("ascii") + b"\0" if domain else b""
    return digest_bytes(prefix + canonical_text(value, escaped=escaped).encode())


def rule_of(table: LegacyTable, record_id: str, payload: Payload) -> str | None:
    """Return the rule that gives this id to this payload, or None where none does."""
    return next((rule.name for rule in RULES.get(table, ()) if _gives(rule, record_id, payload)), None)


def is_forged(table: LegacyTable, record_id: str, payload: Payload) -> bool:
    """Tell whether an id looks as if it were computed from this payload by a rule that binds, and was not."""
    binding = any(rule.binds for rule in RULES.get(table, ()))
    return binding and is_digest(record_id) and rule_of(table, record_id, payload) is None


def _gives(rule: IdRule, record_id: str, payload: Payload) -> bool:
    content = rule.content(payload)
    return content is not None and legacy_digest(rule.domain, content, escaped=rule.escaped) == record_id


def _some(payload: Payload, names: str) -> dict[str, Any]:
    return {name: payload[name] for name in names.split()}


_KNOWLEDGE: Final = (
    "task_id domain dataset_id model_family lesson conditions outcome confidence source_experience_ids "
    "promotion_policy_version"
)
_PROVENANCE: Final = (
    "attempt_id observation_id intervention_id proposal_digest intervention_digest source_digest config_digest "
    "environment_digest dataset_digest contract_digest evaluator_digest attempt_spec_digest evidence_digest"
)


def _verification(payload: Payload) -> dict[str, Any]:
    names = "observation_id contract_id contract_version evaluator_digest violations"
    return _some(payload, names) | {"metrics": payload["verified_metrics"]}


def _with_feedback(payload: Payload) -> Payload | None:
    if "public_feedback" not in payload:
        return None
    return _verification(payload) | {"public_feedback": payload["public_feedback"]}


def _recall(payload: Payload) -> Payload:
    return _some(payload, "items memory_snapshot_id request")


def _experience(payload: Payload) -> Payload | None:
    if payload["verification"] is None:
        return None
    parts = ("hypothesis", "attempt", "observation", "verification")
    return {f"{part}_id": payload[part][f"{part}_id"] for part in parts}


def _intervention(payload: Payload) -> Payload | None:
    number = _ITERATION.fullmatch(payload["iteration_id"])
    if number is None:
        return None
    covered = _some(payload, "run_id proposal_digest manipulation_status intervention_digest config_digest")
    return covered | {"iteration_number": int(number.group(1))}


def _provenance(payload: Payload) -> Payload:
    envelope = _some(payload["execution_envelope_ref"], "sha256 size_bytes")
    return _some(payload, _PROVENANCE) | {"execution_envelope": envelope}


RULES: Final[dict[LegacyTable, tuple[IdRule, ...]]] = {
    LegacyTable.KNOWLEDGE: (IdRule("knowledge", lambda payload: _some(payload, _KNOWLEDGE)),),
    LegacyTable.VERIFICATIONS: (
        IdRule("verification/with-feedback", _with_feedback),
        IdRule("verification/without-feedback", _verification),
    ),
    LegacyTable.EXPERIENCES: (IdRule("experience", _experience, binds=False),),
    LegacyTable.PROMOTIONS: (
        IdRule(
            "promotion-decision",
            lambda payload: _some(payload, "experience_id accepted reasons policy_version knowledge_id"),
            binds=False,
        ),
    ),
    LegacyTable.RECALLS: (
        IdRule("recall", _recall, escaped=False),
        IdRule("recall/empty-escaped", lambda payload: None if payload["items"] else _recall(payload)),
    ),
    LegacyTable.INTERVENTIONS: (
        IdRule("intervention", _intervention, escaped=False, domain="ai-researcher/intervention-record-id/v1"),
    ),
    LegacyTable.PROVENANCES: (
        IdRule("trial-provenance", _provenance, escaped=False, domain="ai-researcher/trial-provenance-id/v1"),
    ),
}
"""The rules by table, the more common one first; a table without rules has ids that its payload does not give."""


def broken_digests(table: LegacyTable, payload: Payload) -> Iterator[str]:
    """Yield the digest fields of an intervention that do not cover what stands beside them."""
    if table is not LegacyTable.INTERVENTIONS:
        return
    if payload["proposal_digest"] != legacy_digest("ai-researcher/proposal/v1", payload["proposal"]):
        yield "proposal_digest"
    config = payload["resolved_config"]
    if config is not None and payload["config_digest"] != legacy_digest("ai-researcher/run-config/v1", config):
        yield "config_digest"
