"""Seeded damage: for every code of the integrity check at least one way to bring it about, and whom it must name.

`ROWS` is damage by one SQL statement, after which digests or columns no longer fit; `FORGERIES` is the work of a
careful forger, after which they all fit again and only the rules between records can tell.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final

from memory.fsck import Code
from tests.support.forging import Content, Forgery

_NONE: Final = "0" * 64


ERASURES: Final = frozenset({Code.ERASURE_MISMATCH, Code.ERASURE_UNPROVED, Code.ERASED_PRESENT})
"""Codes of erasures, which are brought about where there are some: `tests/unit/test_fsck_erasures.py`."""

REFERENCES: Final = frozenset({Code.REFERENCE_MISMATCH})
"""Codes about reference sources, which this world has none of (tests/contract/test_references.py)."""
LINEAGE: Final = frozenset({Code.LINEAGE_MISMATCH})
"""Codes about nodes of a search, which this world has none of (tests/contract/test_lineage.py)."""

CLAIMS: Final = frozenset({Code.CLAIM_MISMATCH})
"""Codes about workspace claims, which this world has none of (tests/contract/test_claims.py)."""


@dataclass(frozen=True)
class RowDamage:
    """Damage by one statement; `names` is a query, asked before, for the records that must be named."""

    code: Code
    statement: str
    names: str


@dataclass(frozen=True)
class Forged:
    """Damage by a forger, who returns what must be named: ids before sealing, or functions of what comes after."""

    code: Code
    name: str
    act: Callable[[Forgery], Iterable[str | Callable[[], str]]]


def _row(table: str, change: str, code: Code, names: str = "id") -> RowDamage:
    """Change the first row of a table of records."""
    first = f"(SELECT min(id) FROM ledger.{table})"
    return RowDamage(code, f"UPDATE ledger.{table} SET {change} WHERE id = {first}",
                     f"SELECT {names} FROM ledger.{table} WHERE id = {first}")  # fmt: skip


def _gone(table: str, code: Code, names: str, where: str = "TRUE") -> RowDamage:
    return RowDamage(code, f"DELETE FROM ledger.{table} WHERE {where}", names)


_AT = "SELECT id FROM ledger.ledger_commits_v1 WHERE position = {}"
_WORLD = "SELECT 'world'"
_VARIANTS = "SELECT scope_variant_id FROM ledger.scope_variant_heads"
_COMPLETIONS = "SELECT id FROM ledger.distillation_work_completions"
_QUEUED = "SELECT id FROM ledger.experience_distillation_receipts WHERE disposition = 'queued_for_comparison'"
_INTENTS = "SELECT id FROM ledger.decision_intents"
_OUTCOMES = "SELECT id FROM ledger.recall_decision_outcomes"
_EVIDENCE_PERMITS = "SELECT permit_key FROM ledger.append_receipts WHERE transition = 'APPEND_EVIDENCE'"
_COMMIT_PERMITS = "SELECT permit_key FROM ledger.append_receipts WHERE transition = 'COMMIT_DISTILLATION'"
_SCIENTIFIC = "body LIKE '%SCIENTIFIC%'"
_FIRST_GRANT = "id = (SELECT min(id) FROM runtime.authorizations)"

ROWS: Final[tuple[RowDamage, ...]] = (
    _gone("ledger_commits_v1", Code.JOURNAL_GAP, _AT.format(8), "position = 7"),
    RowDamage(Code.CHAIN_BROKEN, f"UPDATE ledger.ledger_commits_v1 SET chain_digest = '{_NONE}' WHERE position = 5",
              f"{_AT.format(5)} UNION {_AT.format(6)}"),
    RowDamage(Code.CHAIN_BROKEN, f"UPDATE ledger.ledger_commits_v1 SET payload_digest = '{_NONE}' WHERE position = 5",
              _AT.format(5)),
    RowDamage(Code.PAYLOAD_DIGEST, f"UPDATE ledger.ledger_commits_v1 SET payload_digest = '{_NONE}' WHERE position = 5",
              _AT.format(5)),
    RowDamage(Code.UNKNOWN_KIND, "UPDATE ledger.ledger_commits_v1 SET noun = 'rumour' WHERE position = 5",
              _AT.format(5)),
    RowDamage(Code.NAMESPACE_HEAD, "UPDATE ledger.namespace_heads SET position = position + 1", _WORLD),
    RowDamage(Code.NAMESPACE_HEAD, f"UPDATE ledger.namespace_heads SET chain_digest = '{_NONE}'", _WORLD),
    _gone("namespace_heads", Code.NAMESPACE_HEAD, _WORLD),
    RowDamage(Code.NAMESPACE_HEAD, f"INSERT INTO ledger.namespace_heads VALUES ('empty', 3, '{_NONE}', 0, 0, 0)",
              "SELECT 'empty'"),
    RowDamage(Code.FRONTIER, "UPDATE ledger.namespace_heads SET evidence = evidence - 1", _WORLD),
    RowDamage(Code.FRONTIER, "UPDATE ledger.namespace_heads SET retention = 1", _WORLD),
    _gone("experiences", Code.ROW_MISSING, "SELECT min(id) FROM ledger.experiences",
          "id = (SELECT min(id) FROM ledger.experiences)"),
    _gone("ledger_commits_v1", Code.ROW_UNJOURNALED, _INTENTS, "noun = 'decision-intent'"),
    _row("experiences", "position = position + 1", Code.ROW_POSITION),
    _row("experiences", "namespace = 'elsewhere'", Code.ROW_POSITION),
    _row("experiences", "payload = replace(payload, 'analysis\":\"', 'analysis\":\"not ')", Code.PAYLOAD_DIGEST),
    _row("experiences", "payload = payload || ' '", Code.PAYLOAD_NOT_CANONICAL),
    _row("experiences", "payload = left(payload, 40)", Code.PAYLOAD_UNREADABLE),
    _row("experiences", "payload = replace(payload, 'analysis\":\"', 'analysis\":\"not ')", Code.ID_MISMATCH),
    _row("attempts", "seed = seed + 1", Code.COLUMN_MISMATCH),
    _row("experiences", "verification_id = NULL", Code.COLUMN_MISMATCH),
    RowDamage(Code.CHILD_MISMATCH, "UPDATE ledger.observation_artifacts SET size_bytes = size_bytes + 1 "
              "WHERE ordinal = 2", "SELECT parent_id FROM ledger.observation_artifacts WHERE ordinal = 2"),
    _gone("evidence_snapshot_members", Code.CHILD_MISMATCH, "SELECT id FROM ledger.evidence_snapshots", "ordinal = 3"),
    _gone("observations", Code.CHILD_STRAY, "SELECT id FROM ledger.observations"),
    _gone("ledger_commits_v1", Code.REFERENCE_DANGLING, "SELECT id FROM ledger.attempts",
          "noun = 'evaluation-contract'"),
    RowDamage(Code.HEAD_NOT_FOLD, "UPDATE ledger.scope_variant_heads SET disposition = 'retracted'", _VARIANTS),
    RowDamage(Code.HEAD_NOT_FOLD, "UPDATE ledger.scope_variant_heads SET version = 7", _VARIANTS),
    _gone("scope_variant_heads", Code.HEAD_NOT_FOLD, _VARIANTS),
    RowDamage(Code.HEAD_NOT_FOLD, "INSERT INTO ledger.scope_variant_heads SELECT 'invented', namespace, event_id, "
              "memory_id, disposition, version FROM ledger.scope_variant_heads", "SELECT 'invented'"),
    RowDamage(Code.HEAD_NOT_FOLD, "INSERT INTO ledger.scope_variant_heads SELECT 'invented', 'nowhere', event_id, "
              "memory_id, disposition, version FROM ledger.scope_variant_heads", "SELECT 'invented'"),
    RowDamage(Code.OWNER_EPOCH, "UPDATE ledger.owners SET epoch = 0 WHERE resource = 'commit-coordinator/0'",
              "SELECT 'commit-coordinator/0'"),
    _gone("owners", Code.OWNER_EPOCH, "SELECT 'owners'"),
    _gone("append_receipts", Code.RECEIPT_MISSING, _INTENTS, "transition = 'APPEND_INTENT'"),
    RowDamage(Code.RECEIPT_MISMATCH, f"UPDATE ledger.append_receipts SET permit_digest = '{_NONE}' "
              "WHERE transition = 'APPEND_EVIDENCE'", _EVIDENCE_PERMITS),
    RowDamage(Code.RECEIPT_MISMATCH, "UPDATE ledger.append_receipts SET receipt = regexp_replace(receipt, "
              "'positions\":\\[\\d+', 'positions\":[1') WHERE transition = 'COMMIT_DISTILLATION'", _COMMIT_PERMITS),
    RowDamage(Code.RECEIPT_MISMATCH, "INSERT INTO ledger.append_receipts SELECT namespace, 'unused', permit_digest, "
              "transition, receipt FROM ledger.append_receipts WHERE transition = 'FREEZE_KNOWLEDGE'",
              "SELECT 'unused'"),
    RowDamage(Code.PERMIT_ANSWERED_TWICE, "UPDATE ledger.append_receipts SET receipt = replace(replace(receipt, "
              f"'no_commit_id\":null', 'no_commit_id\":\"no-commit-receipt:{_NONE}\"'), 'reason\":null', "
              "'reason\":\"PRECONDITION_CONFLICT\"') WHERE transition = 'APPEND_OUTCOME'",
              "SELECT permit_key FROM ledger.append_receipts WHERE transition = 'APPEND_OUTCOME'"),
    _gone("recall_decision_outcomes", Code.OUTCOME_MISSING, _INTENTS),
    _gone("decision_recall_contexts", Code.OUTCOME_CONTEXT, _OUTCOMES),
    _gone("enqueue_transactions", Code.QUEUED_INCOMPLETE, _QUEUED),
    _gone("distillation_work_items", Code.QUEUED_INCOMPLETE, _QUEUED),
    _gone("experience_distillation_receipts", Code.WORK_ITEM_UNRECEIPTED,
          "SELECT id FROM ledger.distillation_work_items"),
    _gone("distillation_work_completions", Code.COMPLETION_MISSING, "SELECT id FROM ledger.distillation_work_items"),
    _gone("distillation_reports", Code.COMPLETION_UNBOUND, _COMPLETIONS),
    _gone("distillation_batches", Code.COMPLETION_UNBOUND, _COMPLETIONS),
    _gone("distillation_work_dispositions", Code.COMPLETION_UNBOUND, _COMPLETIONS),
    _gone("distillation_work_assignments", Code.COMPLETION_UNBOUND, _COMPLETIONS),
    _gone("verifications", Code.BUNDLE_BROKEN, "SELECT id FROM ledger.experiences"),
    _row("trial_provenances", "payload = left(payload, 40)", Code.BUNDLE_BROKEN,
         "(SELECT experience.id FROM ledger.experiences AS experience WHERE experience.provenance_id = "
         "trial_provenances.id)"),
    _gone("append_receipts", Code.AUTHORIZATION_UNANSWERED, _COMMIT_PERMITS, "transition = 'COMMIT_DISTILLATION'"),
    RowDamage(Code.AUTHORIZATION_UNKNOWN, f"DELETE FROM runtime.authorizations WHERE {_FIRST_GRANT}",
              "SELECT min(id) FROM runtime.authorizations"),
    RowDamage(Code.AUTHORIZATION_MISMATCH, "UPDATE runtime.authorizations SET phase = 'RETIRED_NO_COMMIT' "
              f"WHERE {_FIRST_GRANT}", "SELECT min(id) FROM runtime.authorizations"),
    RowDamage(Code.AUTHORIZATION_MISMATCH, f"UPDATE runtime.authorizations SET body = left(body, 40) "
              f"WHERE {_FIRST_GRANT}", "SELECT min(id) FROM runtime.authorizations"),
    RowDamage(Code.RUN_UNKNOWN, f"DELETE FROM runtime.runs WHERE {_SCIENTIFIC}", _INTENTS),
)  # fmt: skip


def _change(noun: str, **values: Any) -> Callable[[Forgery], list[str]]:
    """Give the first record of a kind other values."""
    return _edit(noun, lambda content: content.update(values))


def _edit(noun: str, edit: Callable[[Content], object]) -> Callable[[Forgery], list[str]]:
    def act(forgery: Forgery) -> list[str]:
        record_id = forgery.all(noun)[0]
        edit(forgery.content(record_id))
        return [record_id]

    return act


def _receipt(noun: str, **values: Any) -> Callable[[Forgery], list[str]]:
    """Give the receipt that wrote the first record of a kind other values; the permit is named."""

    def act(forgery: Forgery) -> list[str]:
        receipt = forgery.receipt_of(forgery.all(noun)[0])
        receipt.update(values)
        return [str(receipt["permit_key"])]

    return act


def _moved_report(forgery: Forgery) -> list[str]:
    """Let a report have been written by another permit than the rest of its commit."""
    report, other = forgery.all("distillation-report")[0], forgery.all("knowledge-snapshot")[0]
    left = str(forgery.receipt_of(report)["permit_key"])
    forgery.move(report, other)
    return [left, str(forgery.receipt_of(other)["permit_key"])]


def _snapshot_without_a_member(forgery: Forgery) -> list[str]:
    """What a candidate and its record rest on is no longer in the snapshot that their batch read."""
    candidate = forgery.all("knowledge-candidate")[0]
    link = forgery.content(candidate)["links"][0]
    content = forgery.content(forgery.all("evidence-snapshot")[0])
    content["members"] = [each for each in content["members"] if each["experience_id"] != link["experience_id"]]
    return [candidate, forgery.all("memory-record")[0]]


def _decided_otherwise(forgery: Forgery) -> list[str]:
    forgery.content(forgery.all("distillation-decision")[0])["decision"] = "promoted_provisional"
    return [forgery.all("knowledge-lifecycle-event")[0]]


def _superseded_by_an_older_one(forgery: Forgery) -> list[Callable[[], str]]:
    memory, event = forgery.all("memory-record")[0], forgery.all("knowledge-lifecycle-event")[0]
    newer = dict(forgery.content(memory)) | {"scope_description": "the same in other words"}
    forgery.add("memory-record", newer, like=memory)
    head = {name: newer[name] for name in ("namespace", "created_at", "schema_version")}
    content = head | {
        "source_memory_id": memory, "target_memory_id": forgery.id_of("memory-record", newer), "relation": "supersedes",
        "event_id": event, "policy": newer["distillation_policy"],
    }  # fmt: skip
    return [forgery.add("memory-relation", content, like=memory)]


def _second_outcome(forgery: Forgery) -> list[str]:
    forgery.drop("recall_decision_outcomes", "recall_decision_outcomes_one_intent_id")
    outcome = forgery.all("recall-decision-outcome")[0]
    forgery.add("recall-decision-outcome", dict(forgery.content(outcome)) | {"artifact_digest": _NONE}, like=outcome)
    return forgery.all("decision-intent")


def _foreign_attempt(forgery: Forgery) -> list[Callable[[], str]]:
    outcome, experience = forgery.all("recall-decision-outcome")[0], forgery.all("experience")[0]
    decided, done = forgery.content(outcome), forgery.content(experience)
    content = {name: decided[name] for name in ("namespace", "created_at", "schema_version")} | {
        "outcome_id": outcome, "attempt_id": done["attempt_id"], "experience_id": experience,
        "config_digest": decided["effective_config_digest"],
    }  # fmt: skip
    return [forgery.add("outcome-attempt-link", content, like=outcome)]


def _earlier_reference(forgery: Forgery) -> list[str]:
    """Let the first report speak of a decision that comes only after it."""
    report = forgery.all("distillation-report")[0]
    forgery.content(report)["memory_ids"] = [f"memory-record:{_NONE}"]
    return [report]


def _later_reference(forgery: Forgery) -> list[str]:
    """Let the first batch have considered an experience that is stored last of all."""
    forgery.drop("experiences", "experiences_one_attempt_id")
    batch, experience = forgery.all("distillation-batch")[0], forgery.all("experience")[0]
    later = dict(forgery.content(experience)) | {"analysis": "told afterwards"}
    forgery.add("experience", later, like=experience)
    forgery.content(batch)["experience_ids"].append(forgery.id_of("experience", later))
    return [batch]


def _cancelled(content: Content) -> None:
    """A decision that was cancelled, complete in itself; only its authority does not fit."""
    content.update(
        decision_status="cancelled", terminal_reason="CANCELLED_BY_COMMAND", artifact_committed=False,
        artifact_digest=None, effective_config_digest=None, terminal_evidence_kind="CANCEL_EVENT",
        terminal_evidence_digest=_NONE, intervention_id=None, hypothesis_id=None, proposed_knob=None,
        proposed_value=None,
    )  # fmt: skip
    for each in content["dispositions"]:
        each.update(verdict="not_considered", reason="not_considered_cancelled", action_knob=None, action_value=None)


def _first_item(content: Content) -> Content:
    item = content["items"][0]
    assert isinstance(item, dict)
    return item


_OUTCOME = "recall-decision-outcome"
_EVENT = "knowledge-lifecycle-event"

FORGERIES: Final[tuple[Forged, ...]] = (
    Forged(Code.PAYLOAD_ILLEGAL, "source by decision", _change(_OUTCOME, source_status="failed_before_recall")),
    Forged(Code.PAYLOAD_ILLEGAL, "decision by reason", _change(_OUTCOME, terminal_reason="PREFLIGHT_REJECTED")),
    Forged(Code.PAYLOAD_ILLEGAL, "outcome reason", _change(_OUTCOME, outcome_reason="not_requested_control_arm")),
    Forged(Code.PAYLOAD_ILLEGAL, "closed without evidence", _change(_OUTCOME, terminal_evidence_kind="CANCEL_EVENT")),
    Forged(Code.PAYLOAD_ILLEGAL, "verdict by card reason", _edit(_OUTCOME, lambda content: content["dispositions"][0]
           .update(verdict="rejected"))),
    Forged(Code.PAYLOAD_ILLEGAL, "completion", _change("distillation-work-completion", status="cancelled")),
    Forged(Code.PAYLOAD_ILLEGAL, "receipt", _change("distillation-receipt", disposition="not_required")),
    Forged(Code.PAYLOAD_ILLEGAL, "disposition", _change("distillation-work-disposition", outcome="covered_by_decision",
           decision_id=None)),
    Forged(Code.PAYLOAD_ILLEGAL, "decision", _change("distillation-decision", decision="rejected")),
    Forged(Code.PAYLOAD_ILLEGAL, "verification", _change("verification", valid=False)),
    Forged(Code.PAYLOAD_ILLEGAL, "context", _change("decision-recall-context", status="empty")),
    Forged(Code.PAYLOAD_ILLEGAL, "family", _change("memory-record", mechanism="another")),
    Forged(Code.RECEIPT_ILLEGAL, "authority", _receipt("decision-intent", authority="NORMAL")),
    Forged(Code.RECEIPT_ILLEGAL, "kinds", _receipt("knowledge-snapshot", transition="INDEX_RECEIPT")),
    Forged(Code.RECEIPT_ILLEGAL, "incomplete commit", _moved_report),
    Forged(Code.OUTCOME_ILLEGAL, "arm", _change(_OUTCOME, arm="control")),
    Forged(Code.OUTCOME_ILLEGAL, "iteration", _change(_OUTCOME, iteration=7)),
    Forged(Code.OUTCOME_ILLEGAL, "memory binding", _change(_OUTCOME, memory_binding_digest=_NONE)),
    Forged(Code.OUTCOME_ILLEGAL, "authority", _edit(_OUTCOME, _cancelled)),
    Forged(Code.PAYLOAD_ILLEGAL, "no context", _change(_OUTCOME, source_status="not_requested", context_id=None,
           outcome_reason="not_requested_control_arm", dispositions=[], memory_binding_digest=None,
           executed_actor=None)),
    Forged(Code.OUTCOME_REPEATED, "two outcomes", _second_outcome),
    Forged(Code.PAYLOAD_ILLEGAL, "no disposition", _change(_OUTCOME, dispositions=[])),
    Forged(Code.DISPOSITIONS, "of another card", _edit(_OUTCOME, lambda content: content["dispositions"][0].update(
           citation_id=f"recall-citation:{_NONE}"))),
    Forged(Code.CARD_SOURCE, "other bytes", _edit("decision-recall-context", lambda content: _first_item(content)[
           "card"].update(memory_digest=_NONE))),
    Forged(Code.CARD_SOURCE, "no member", _edit("decision-recall-context", lambda content: _first_item(content)[
           "card"].update(disposition="contested"))),
    Forged(Code.ATTEMPT_LINK, "another attempt", _foreign_attempt),
    Forged(Code.REFERENCE_DANGLING, "invented", _earlier_reference),
    Forged(Code.REFERENCE_DANGLING, "from the future", _later_reference),
    Forged(Code.EVENT_RECORD, "family", _change(_EVENT, family_id=f"knowledge-family:{_NONE}")),
    Forged(Code.KNOWLEDGE_UNFOUNDED, "outside the snapshot", _snapshot_without_a_member),
    Forged(Code.KNOWLEDGE_UNFOUNDED, "not decided so", _decided_otherwise),
    Forged(Code.MEMORY_CHAIN, "superseded by an older one", _superseded_by_an_older_one),
    Forged(Code.BUNDLE_BROKEN, "another source", lambda forgery: (
        _change("trial-provenance", source_digest=_NONE)(forgery), forgery.users("trial-provenance", "experience"))[1]),
    Forged(Code.LINK_MISMATCH, "another observation", _edit("memory-record", lambda content: content["links"][0].update(
           observation_id=content["links"][1]["observation_id"]))),
    Forged(Code.SNAPSHOT_MEMBER, "another bundle", _edit("evidence-snapshot", lambda content: content["members"][
           0].update(bundle_digest=_NONE))),
    Forged(Code.SNAPSHOT_MEMBER, "evidence after its position", _change("evidence-snapshot", evidence_position=20)),
    Forged(Code.SNAPSHOT_MEMBER, "heads after its position", _change("knowledge-snapshot", lifecycle_position=20)),
    Forged(Code.SNAPSHOT_MEMBER, "another disposition", _edit("knowledge-snapshot", lambda content: content["members"][
           0].update(disposition="contested"))),
    Forged(Code.SNAPSHOT_MEMBER, "heads of the future", _change("knowledge-snapshot", lifecycle_position=9999)),
    Forged(Code.CAPTURE_MISMATCH, "position", _change("capture-operation", evidence_position=3)),
    Forged(Code.INDEX_MISMATCH, "documents", _change("memory-index-build", document_count=7)),
    Forged(Code.INDEX_MISMATCH, "another digest", _edit("recall-input-snapshot", lambda content: content[
           "index_builds"][0].update(digest=_NONE))),
    Forged(Code.QUEUED_INCOMPLETE, "policy", _edit("distillation-receipt", lambda content: content["policy"].update(
           digest=_NONE))),
    Forged(Code.COMPLETION_UNBOUND, "report digest", _change("distillation-work-completion", report_digest=_NONE)),
    Forged(Code.COMPLETION_UNBOUND, "authorization", _change("distillation-work-completion",
           authorization_digest=_NONE)),
)  # fmt: skip
