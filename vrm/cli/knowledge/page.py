"""How one rule or procedure looks to people: what it says, where it came from, where it stands, what it rests on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from rich.console import Console
from rich.text import Text
from rich.tree import Tree

from policies.bundles import NotABundle
from records.evidence import VerifiedEvidenceBundle
from records.knowledge import GovernedRecord, MemoryRecord, RelationKind
from records.procedures import Procedure, ProcedureRecord
from records.values import ArtifactRef
from vrm.cli.knowledge import words
from vrm.cli.knowledge.detail import Detail, Related
from vrm.cli.knowledge.evidence import Bytes, LinkedPair
from vrm.cli.output import short, show_rows, show_title

_DIGITS = 8
"""Digits of an id where a line has two of them; as prefixes they still name one record each."""

_SAID = {
    (RelationKind.SUPERSEDES, True): "supersedes",
    (RelationKind.SUPERSEDES, False): "is superseded by",
    (RelationKind.CONTESTS, True): "contests, and is contested by",
    (RelationKind.CONTESTS, False): "contests, and is contested by",
    (RelationKind.SCOPE_REFINES, True): "refines the scope of",
    (RelationKind.SCOPE_REFINES, False): "has its scope refined by",
    (RelationKind.PROCEDURE_IMPLEMENTS, True): "implements",
    (RelationKind.PROCEDURE_IMPLEMENTS, False): "is implemented by",
}


def show_detail(out: Console, found: Detail, *, links: bool) -> None:
    """Print the page of one record; `links` unfolds every link down to its artifacts."""
    record = found.entry.record
    show_title(out, words.title(record))
    out.print(str(record.id))
    out.print(words.grid(_facts(found)))
    if isinstance(record, ProcedureRecord):
        show_title(out, "Procedure")
        out.print(words.grid(_procedure(record.procedure)))
    _show_origin(out, found)
    _show_history(out, found)
    if found.related:
        show_title(out, "Relations")
        show_rows(out, ("this record", "other record", "which says"), (_relation(each) for each in found.related))
    _show_evidence(out, found)
    if links:
        for pair in found.pairs:
            out.print(_chain(pair, found))


def _facts(found: Detail) -> Iterator[tuple[str, str]]:
    record = found.entry.record
    yield "kind", record.record_kind
    yield "state", found.entry.disposition + ("" if found.entry.current else ", not the head of its scope variant")
    yield "scope", record.scope_description
    yield "mechanism", record.mechanism
    if isinstance(record, MemoryRecord):
        yield from _rule(record)
    strength = record.strength
    consistency = words.number(strength.effect_consistency)
    yield "strength", f"{words.strength_line(strength)}; consistency {consistency}, {strength.uncertainty_method}"
    yield "links", ", ".join(f"{count} {name}" for name, count in _counted(record))
    yield "family", str(record.family_id)
    yield "variant", str(record.scope_variant_id)
    policy = record.distillation_policy
    yield "policy", f"{policy.policy_id} {policy.version}, {policy.digest}"


def _rule(record: MemoryRecord) -> Iterator[tuple[str, str]]:
    effect = record.effect
    yield "action", f"{record.action.value}: {words.change(record.target.knob)}"
    yield "effect", "\n".join(words.effect_lines(effect))
    yield "means", f"{words.number(effect.baseline_mean)} before, {words.number(effect.changed_mean)} after"
    noun = "roots" if record.scope.evaluation_task_id is None else "units of one task"
    yield (
        "units",
        (
            f"{effect.unit_count} {noun}, {effect.pair_count} pairs: {effect.improved_count} better, "
            f"{effect.worsened_count} worse, {effect.tied_count} tied"
        ),
    )
    if effect.p_value is not None and effect.adjusted_p_value is not None:
        yield "p", f"{words.number(effect.p_value)}, {words.number(effect.adjusted_p_value)} within its family"
    for guard in effect.guardrails:
        worth = f"{words.signed(guard.mean_delta)} {guard.metric.unit}, to {guard.metric.direction.value}"
        yield "guardrail", f"{guard.metric.name} {worth}, over {guard.unit_count} roots"


def _counted(record: GovernedRecord) -> list[tuple[str, int]]:
    counts = Counter(link.relation.value for link in record.links)
    return sorted(counts.items())


def _procedure(procedure: Procedure) -> Iterator[tuple[str, str]]:
    trigger = procedure.trigger
    yield (
        "trigger",
        f"{trigger.situation} at {trigger.decision_point.value}; goal {trigger.goal} ({trigger.metric.name})",
    )
    yield "before", _lines(words.check_line(each) for each in procedure.preconditions)
    for place, step in enumerate(procedure.steps, start=1):
        yield f"step {place}", f"{step.name}: {step.purpose}\n{words.action_line(step.action)}"
    yield "tools", _lines(f"{need.tool} {', '.join(need.versions)}" for need in procedure.tools)
    for name, checks in (
        ("success", procedure.success_checks),
        ("manipulation", procedure.manipulation_checks),
        ("stop early", procedure.early_stop_checks),
        ("roll back", procedure.rollback_checks),
    ):
        yield name, _lines(words.check_line(each) for each in checks)
    yield "fails", _lines(f"{mode.code}: {mode.detail} {_ids(mode.experience_ids)}" for mode in procedure.failure_modes)
    yield "did not help", _lines(f"{each.detail} {_ids([each.experience_id])}" for each in procedure.counterexamples)
    bounds = (f"{each.resource} {each.expected} expected, {each.limit} at most, {each.unit}"
              for each in procedure.cost.bounds)  # fmt: skip
    yield "cost", _lines([f"budget class {procedure.cost.budget_class}", *bounds])
    yield "artifacts", _lines(_artifact(each, None) for each in procedure.artifacts)
    yield "allowlist", procedure.catalog_digest


def _show_origin(out: Console, found: Detail) -> None:
    show_title(out, "Where it came from")
    candidate, decision = found.candidate, found.decision
    if candidate is None or decision is None:
        out.print("The Ledger holds no candidate of it.")
        return
    facts = [
        ("candidate", f"{candidate.id}, drafted by {candidate.drafting_adapter}"),
        ("snapshot", str(candidate.evidence_snapshot_id)),
        ("decision", f"{decision.decision.value}: {', '.join(decision.reasons) or 'no reason given'}"),
        (
            "decided by",
            f"{decision.policy.policy_id} {decision.policy.version}, policy set {decision.policy_set_digest}",
        ),
        *(("finding", f"{each.code}: {each.detail}") for each in candidate.findings),
    ]
    out.print(words.grid(facts))


def _show_history(out: Console, found: Detail) -> None:
    show_title(out, "History of the scope variant")
    own = found.entry.record.id
    rows = (
        (
            event.event_type.value,
            "this one" if event.memory_id == own else short(event.memory_id),
            event.disposition.value,
            ", ".join(event.reasons),
        )
        for _, event in found.events
    )
    show_rows(out, ("event", "record", "leads to", "reasons"), rows)


def _relation(related: Related) -> tuple[str, str, str]:
    said = _SAID[related.relation.relation, related.outgoing]
    return said, short(related.other_id), "?" if related.other is None else words.title(related.other)


def _show_evidence(out: Console, found: Detail) -> None:
    name = words.metric_of(found.entry.record)
    show_title(out, f"Evidence: {name} of baseline and changed run")
    header = ("relation", "root and seed", "baseline", "changed", "delta", "verified", "experience", "comparator")
    show_rows(out, header, (_row(pair, name) for pair in found.pairs))
    if found.checked:
        counts = Counter(state.value for state in found.checked.values())
        out.print("Bytes of the artifacts: " + ", ".join(f"{n} {state}" for state, n in sorted(counts.items())))
    else:
        out.print("--links unfolds each link down to its artifacts, --verify reads their bytes.")


def _row(pair: LinkedPair, name: str) -> tuple[str, ...]:
    before, after = pair.metric(name)
    place = "?" if pair.place is None else f"{pair.place[0]} {pair.place[1]}"
    delta = "?" if before is None or after is None else f"{after - before:+.4g}"
    values = ("?" if value is None else f"{value:.4g}" for value in (before, after))
    kind = pair.changed.reason.value if isinstance(pair.changed, NotABundle) else _kind(pair.changed)
    ids = (words.digits(each, _DIGITS) for each in (pair.link.experience_id, pair.link.comparator_id))
    return (pair.link.relation.value, place, *values, delta, kind, *ids)


def _kind(bundle: VerifiedEvidenceBundle) -> str:
    return bundle.verification.verification_kind.value


def _chain(pair: LinkedPair, found: Detail) -> Tree:
    link = pair.link
    place = "?" if pair.place is None else f"root {pair.place[0]}, seed {pair.place[1]}"
    tree = Tree(Text(f"{link.relation.value}: {place}"))
    tree.add(Text(f"link {link.link_id(found.entry.record.id)}"))  # type: ignore[arg-type]  # the id of this record
    tree.add(Text(f"stratum {link.stratum_id}"))
    tree.add(Text(f"support unit {link.support_unit_id}"))
    for side, experience, bundle in pair.sides:
        branch = tree.add(Text(f"{side} {experience}"))
        if isinstance(bundle, NotABundle):
            branch.add(Text(f"no longer a bundle: {bundle.reason.value}, {bundle.detail}"))
            continue
        verification = bundle.verification
        branch.add(Text(f"{_kind(bundle)} by {bundle.contract.evaluator} {verification.evaluator_digest}"))
        for ref in bundle.observation.artifacts:
            branch.add(Text(_artifact(ref, found.checked.get(ref))))
    return tree


def _artifact(ref: ArtifactRef, state: Bytes | None) -> str:
    found = "" if state is None else f", bytes {state.value}"
    return f"{ref.role}, {ref.size_bytes} bytes, {ref.sha256}{found}"


def _ids(experiences: Iterable[str]) -> str:
    return f"({', '.join(words.digits(each, _DIGITS) for each in experiences)})"


def _lines(parts: Iterable[str]) -> str:
    return "\n".join(parts) or "none"
