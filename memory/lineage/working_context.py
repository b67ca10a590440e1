"""The working context of a node, from the reports of its ancestors (spec 003, Phase 0).

Rules kept here: goal and hardware are read from the bytes of reports, which are verified when they are read; a goal
that is given counts before the direction that the root was started with; events count only where an ancestor wrote
them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from memory.lineage.tree import Tree
from policies.budget import Fitted
from policies.lineage.best import Contract, declared_contract
from policies.lineage.reading_policy import LineageReadingPolicy
from policies.lineage.scope import Wanted, ancestors_of, read_entries
from policies.lineage.standing import status_of
from policies.lineage.working import RENDERER, Ancestor, Conclusion, Core, render_working
from records.canonical import digest_bytes
from records.errors import IntegrityError, InvalidInputError
from records.lineage import LineageEntry, NodeReport
from store.artifacts import ArtifactStore

_ENVIRONMENT: Final = "environment"
_CPU: Final = ("model", "threads", "arch")


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkingQuestion:
    """Whose context, and what the search is for where that was said.

    Attributes:
        node: the node.
        parent: its parent, where it has not reported yet.
        goal: in words; null for the direction that the root was started with.
        contract: the metric; null for the one that the ancestors' entries declare.
        budget: most tokens; null for the policy's.
    """

    node: str
    parent: str | None = None
    goal: str | None = None
    contract: Contract | None = None
    budget: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkingContext:
    """What a node begins with: the section, its tokens and digest, whose reports are in it, how many are left out."""

    node_id: str
    ancestors: tuple[str, ...]
    rendered: str
    token_count: int
    digest: str
    left_out: int


def working_context(
    tree: Tree,
    artifacts: ArtifactStore,
    question: WorkingQuestion,
    policy: LineageReadingPolicy,
    count: Callable[[str], int],
) -> WorkingContext:
    """Return the working context of a node.

    Args:
        tree: the checkpoint.
        artifacts: where the bytes of reports are.
        question: whose context.
        policy: what is shown, and in how many tokens.
        count: counts the tokens of a text.

    Raises:
        InvalidInputError: the budget holds not even the core, or the policy is for another layout.
        NotFoundError: the node is not known, or the bytes of a report are missing.
        IntegrityError: reports contradict each other, or their bytes were changed.
    """
    style = policy.working
    if style.renderer != RENDERER:
        raise InvalidInputError("renderer", RENDERER, f"The policy is for {style.renderer}.")
    stated = ancestors_of(tree.reports, question.node, question.parent)
    entries = read_entries(tree.entries, tree.checkpoint_id, stated, Wanted(kinds=frozenset(style.conclusions)))
    told = _concluded(tree, stated, entries)
    documents = {name: _document(artifacts, tree.reports[name]) for name in stated if name in tree.reports}
    ancestors = [_ancestor(tree.reports[name], documents[name], tuple(told.get(name, ()))) for name in documents]
    root = documents.get(stated[0], {}) if stated else {}
    core = Core(
        goal=question.goal or _text(root.get("original_direction")),
        contract=question.contract or declared_contract(entries),
    )
    budget = style.token_budget if question.budget is None else question.budget
    found = render_working(core, ancestors, style, budget, count)
    if not found.text:
        raise InvalidInputError("budget", budget, "Not even goal, metric and hardware fit; give more tokens.")
    return _made(question.node, tuple(documents), found)


def _concluded(tree: Tree, nodes: Sequence[str], entries: Sequence[LineageEntry]) -> dict[str, list[Conclusion]]:
    latest = tree.latest(nodes)
    told: dict[str, list[Conclusion]] = {}
    for each in entries:
        conclusion = Conclusion(each.entry_kind, each.text, status_of(str(each.id), latest))
        told.setdefault(each.node_id, []).append(conclusion)
    return told


def _made(node: str, names: tuple[str, ...], found: Fitted) -> WorkingContext:
    return WorkingContext(
        node_id=node,
        ancestors=names[len(names) - found.shown :],
        rendered=found.text,
        token_count=found.token_count,
        digest=digest_bytes(found.text.encode()),
        left_out=len(names) - found.shown,
    )


def _document(artifacts: ArtifactStore, report: NodeReport) -> Mapping[str, Any]:
    try:
        found = json.loads(artifacts.read(report.report_digest))
    except ValueError as error:
        raise IntegrityError("node report", report.id, "Its bytes are no JSON; run fsck.") from error
    return found if isinstance(found, dict) else {}


def _ancestor(report: NodeReport, document: Mapping[str, Any], conclusions: tuple[Conclusion, ...]) -> Ancestor:
    assessment = document.get("self_assessment")
    headline = _text(assessment.get("headline")) if isinstance(assessment, dict) else None
    return Ancestor(
        node_id=report.node_id,
        label=report.label,
        status=report.status,
        metrics=report.metrics,
        headline=headline or _text(document.get("what_was_done")),
        hardware=_hardware(document),
        conclusions=conclusions,
    )


def _hardware(document: Mapping[str, Any]) -> str | None:
    """Return what a report says of where it ran, in words; older reports say it at the top, newer ones below."""
    below = document.get(_ENVIRONMENT)
    known = {**document, **below} if isinstance(below, dict) else document
    cpu = known.get("cpu_info")
    parts = [f"cpu {key} {cpu[key]}" for key in _CPU if cpu.get(key)] if isinstance(cpu, dict) else []
    if known.get("mem_total_kb"):
        parts.append(f"memory {known['mem_total_kb']} kB")
    compilers = known.get("compilers")
    if isinstance(compilers, dict):
        parts += [f"{name} {version}" for name, version in sorted(compilers.items())]
    if parts and _text(known.get("executor")):
        parts.insert(0, f"executor {known['executor']}")
    return ", ".join(parts) or None


def _text(value: object) -> str | None:
    return value.strip() or None if isinstance(value, str) else None
