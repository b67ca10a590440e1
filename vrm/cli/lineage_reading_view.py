"""What `vrm lineage search` and `vrm lineage context` print."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from memory.lineage.context_file import ContextFile, Outcome
from memory.lineage.retrieval import LineageAnswer
from policies.lineage.best import Best, ChosenBy
from vrm.cli.output import short, show_rows, show_title

if TYPE_CHECKING:
    from rich.console import Console

_SHOWN = 100
_CHOSEN = {
    ChosenBy.METRIC: "by the declared metric",
    ChosenBy.JUDGE: "by the judge's score, for no metric is declared; name one with --metric",
    ChosenBy.NAMED: "as it was named",
}
_SAID = {
    Outcome.WRITTEN: "Written.",
    Outcome.UNCHANGED: "Nothing changed.",
    Outcome.REMOVED: "Nothing is known any more; the file was removed.",
    Outcome.NOTHING: "Nothing is known; no file was written.",
    Outcome.GATE_OFF: "VRM_LINEAGE_CONSOLIDATE is off; nothing was built.",
}


def answer_json(answer: LineageAnswer) -> dict[str, Any]:
    """Return an answer as JSON values."""
    return {
        "entries": [
            {
                "entry_id": str(hit.entry.id),
                "node_id": hit.entry.node_id,
                "kind": hit.entry.entry_kind.value,
                "text": hit.entry.text,
                "metric": None if hit.entry.metric is None else hit.entry.metric.as_json(),
                "repro_status": hit.status.value,
                "rank": hit.rank,
                "ranks": dict(hit.ranks),
            }
            for hit in answer.hits
        ],
        "provenance": asdict(answer.provenance),
    }


def show_answer(out: Console, found: dict[str, Any]) -> None:
    """Print an answer for people."""
    told = found["provenance"]
    show_title(
        out, f"{told['returned_count']} of {told['candidate_count']} entries of {len(told['ancestors'])} ancestors"
    )
    rows = (
        (each["node_id"], each["kind"], each["repro_status"], str(each["rank"]), each["text"][:_SHOWN])
        for each in found["entries"]
    )
    show_rows(out, ("node", "kind", "reproduced", "rank", "text"), rows)
    model = told["model"] or "none, nothing was searched for"
    out.print(f"\nRanking: {told['ranking']}. Model: {model}.", markup=False)


def context_json(file: ContextFile) -> dict[str, Any]:
    """Return what became of a context file, with its content."""
    found = file.lineage
    return {
        "path": str(file.path),
        "outcome": file.outcome.value,
        "said": _SAID[file.outcome],
        "best": None if found is None else _best(found.best),
        "withheld": {}
        if found is None
        else {str(each.entry.id): each.withheld for each in found.claims if each.withheld},
        "context": None if found is None else found.context.as_json(),
    }


def _best(best: Best) -> dict[str, Any]:
    return {
        "node_id": best.node_id,
        "chosen_by": best.chosen_by.value,
        "said": _CHOSEN[best.chosen_by],
        "metric": None if best.contract is None else best.contract.name,
        "direction": None if best.contract is None else best.contract.direction.value,
        "value": best.value,
        "measured": best.measured,
        "considered": best.considered,
    }


def show_context(out: Console, found: dict[str, Any]) -> None:
    """Print what became of a context file for people."""
    out.print(f"{found['said']} {found['path']}", markup=False)
    best, context = found["best"], found["context"]
    if best is None or context is None:
        return
    value = "" if best["value"] is None else f", {best['metric']} {best['value']}"
    out.print(f"Best node: {best['node_id']}{value}, {best['said']}.", markup=False)
    out.print(f"Lineage: {' > '.join(context['lineage'])}", markup=False)
    show_title(out, f"{len(context['usable_for_claims'])} of {len(context['claims'])} claims may be used")
    rows = (
        (
            short(each["entry_id"]),
            each["node_id"],
            each["repro_status"],
            found["withheld"].get(each["entry_id"], "usable"),
            each["text"][:_SHOWN],
        )
        for each in context["claims"]
    )
    show_rows(out, ("entry", "node", "reproduced", "use", "text"), rows)
    for each in context["limitations"]:
        out.print(f"Limitation of {each['node_id']}: {each['text'][:_SHOWN]}", markup=False)
