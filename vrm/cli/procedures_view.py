"""How `vrm procedures` looks. Everything shown is in the Ledger as it stands."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from rich.console import Console

from memory.procedures.reading import Considered, Execution, StoredProcedure
from policies.procedures.execution import Account
from records.canonical import parse_canonical
from records.knowledge import LinkRelation
from records.procedures import Check, ProcedureRecord
from vrm.cli.output import short, show_rows, show_title

_DIGITS = 16


def as_json(found: StoredProcedure) -> dict[str, Any]:
    """Return a procedure as JSON values, the payload as the Ledger holds it."""
    return {
        "id": str(found.record.id),
        "disposition": found.disposition,
        "current": found.current,
        "record": found.record.as_json(),
    }


def show_list(out: Console, found: Sequence[StoredProcedure]) -> None:
    """Print procedures, one row each."""
    header = ("id", "state", "steps", "goal", "grade", "for", "against", "scope")
    show_rows(out, header, [_row(each) for each in found])


def show_considered(out: Console, judged: Sequence[Considered]) -> None:
    """Print what was considered, with the decision about each."""
    if not judged:
        out.print("No trajectory has two or more changes yet; `vrm procedures trial` makes some.", markup=False)
        return
    show_title(out, "Considered")
    header = ("procedure", "decision", "reasons", "record")
    rows = [
        (each.mechanism, each.decision, ", ".join(each.reasons), short(each.memory_id) if each.memory_id else "none")
        for each in judged
    ]
    show_rows(out, header, rows)


def show_detail(out: Console, found: StoredProcedure, rules: Sequence[str]) -> None:
    """Print one procedure whole."""
    record, procedure = found.record, found.record.procedure
    show_title(out, f"{short(str(record.id))}  {found.disposition}")
    show_rows(out, ("what", "is"), list(_facts(record, rules)))
    show_title(out, "Steps")
    rows = [(step.name, step.purpose, step.action.tool, step.action.version[:_DIGITS]) for step in procedure.steps]
    show_rows(out, ("step", "action", "tool", "version"), rows)
    show_title(out, "Checks: what must hold")
    show_rows(out, ("kind", "after", "observable", "must be"), [*_checks(record)])
    known = [(mode.code, mode.detail, str(len(mode.experience_ids))) for mode in procedure.failure_modes]
    known += [("counterexample", each.detail, "1") for each in procedure.counterexamples]
    if known:
        show_title(out, "Known failures")
        show_rows(out, ("code", "what was met", "experiences"), known)


def show_executions(out: Console, done: Sequence[Execution]) -> None:
    """Print executions: what was done, every check with what was observed, and where it ended."""
    for each in done:
        show_title(out, f"Execution {short(each.run_id)}: {each.status}")
        rows = [(one.slot, one.status or "open", one.reason or "", short(one.intent_id)) for one in each.decisions]
        show_rows(out, ("decision", "status", "reason", "intent"), rows)
        if each.account is not None:
            _show_account(out, each.account)


def _show_account(out: Console, account: Account) -> None:
    metrics = sorted({name for run in account.runs for name in run.metrics})
    rows = [
        (
            "start" if place == 0 else f"step {place}",
            short(run.experience_id),
            *(f"{run.metrics[name]:.4f}" if name in run.metrics else "not verified" for name in metrics),
            "in effect" if place == account.kept else "",
        )
        for place, run in enumerate(account.runs)
    ]
    show_rows(out, ("run", "experience", *metrics, ""), rows)
    checks = [
        (
            each.check.name,
            each.check.observable,
            _bound(each.check),
            _value(each.observed),
            "yes" if each.holds else "no",
        )
        for each in account.findings
    ]
    show_rows(out, ("check", "observable", "must be", "observed", "holds"), checks)
    if account.stopped_by:
        out.print(f"Stopped by {account.stopped_by}; the step is undone.", markup=False)
    if account.rolled_back:
        out.print("Rolled back: the configuration in effect is that of the start.", markup=False)


def _row(found: StoredProcedure) -> tuple[str, ...]:
    record, strength = found.record, found.record.strength
    return (
        short(str(record.id)),
        found.disposition,
        record.mechanism.partition("/")[0],
        record.procedure.trigger.goal,
        strength.grade.value,
        str(strength.support_count),
        str(strength.counter_count),
        record.scope_description,
    )


def _facts(record: ProcedureRecord, rules: Sequence[str]) -> Iterator[tuple[str, str]]:
    procedure, strength = record.procedure, record.strength
    trigger = procedure.trigger
    yield "when", f"{trigger.decision_point.value}, at {trigger.situation[: 14 + _DIGITS]}, to {trigger.goal}"
    yield "scope", f"{record.scope_description}; {record.scope.model_family}, budget {record.scope.budget_class}"
    yield "strength", f"{strength.grade.value}, {strength.support_count} roots for and {strength.counter_count} against"
    relations = [link.relation for link in record.links]
    told = ", ".join(f"{relations.count(kind)} {kind.value}" for kind in LinkRelation)
    yield "evidence", f"{len(relations)} links: {told}; {len(procedure.artifacts)} artifacts"
    for bound in procedure.cost.bounds:
        yield f"cost, {bound.resource}", f"{float(bound.expected):.4g} {bound.unit}, at most {float(bound.limit):.4g}"
    for need in procedure.tools:
        yield "needs", f"{need.tool} at {', '.join(each[:_DIGITS] for each in need.versions)}"
    if rules:
        yield "implements", ", ".join(map(short, rules))
    yield "policy", f"{record.distillation_policy.policy_id} {record.distillation_policy.version}"


def _checks(record: ProcedureRecord) -> Iterator[tuple[str, str, str, str]]:
    procedure = record.procedure
    kinds = {
        "precondition": procedure.preconditions,
        "manipulation": procedure.manipulation_checks,
        "early stop": procedure.early_stop_checks,
        "rollback": procedure.rollback_checks,
        "success": procedure.success_checks,
    }
    for kind, checks in kinds.items():
        for check in checks:
            yield kind, check.after_step or "", check.observable, _bound(check)


def _bound(check: Check) -> str:
    return f"{check.comparison.value.replace('_', ' ')} {_value(parse_canonical(check.expected.value))}"


def _value(value: Any) -> str:
    if value is None:
        return "not observed"
    if isinstance(value, float):
        return f"{value:.4g}"
    text = str(value)
    return text if len(text) <= 2 * _DIGITS else f"{text[: text.find(':') + 1 + _DIGITS]}…"
