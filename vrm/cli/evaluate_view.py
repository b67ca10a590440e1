"""The report of `vrm evaluate retrieval` for people."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from rich.console import Console

from vrm.cli.output import console, show_rows, show_title

GATED: Final = (
    "candidate_recall_20", "family_recall_3", "precision_3", "ndcg_3", "all_required", "abstention_f1",
    "worst_stratum", "forbidden", "duplicates",
)  # fmt: skip
_OF_STRATA: Final = ("candidate_recall_20", "family_recall_3", "precision_3", "ndcg_3", "all_required")
_SOURCES: Final = ("lexical", "semantic", "fused", "bm25s", "bm25s_own_words", "float32_cosine")
_LOSSES: Final = ("precision_3", "candidate_recall_20", "family_recall_3")
_COUNTS: Final = ("forbidden", "leaked", "sections_broken", "blocked", "shown")


def show_retrieval(found: Mapping[str, Any]) -> None:
    """Print figures, strata, graded sets and transformations."""
    out = console()
    halves = ", ".join(f"{count} {half}" for half, count in found["questions"].items())
    show_title(out, f"Retrieval: {halves} questions, {found['seeds']} seeds; the reporting half")
    rows = [(name, *_shown(found[name]), _threshold(found[name])) for name in GATED]
    show_rows(out, ("figure", "value", "95 % interval", "of", "threshold"), rows)
    show_title(out, "Strata")
    strata = [
        (name, str(row["questions"]), *(_value(row[part]) for part in _OF_STRATA), str(row["forbidden"]["count"]))
        for name, row in found["strata"].items()
    ]
    show_rows(out, ("stratum", "questions", *_OF_STRATA, "forbidden"), strata)
    _show_graded(out, found)
    _show_transformations(out, found)
    for each in (*found["missing"], *found["wrong"]):
        out.print(f"wrong: {json.dumps(each)}", markup=False, soft_wrap=True)
    policy = found["policy"]
    out.print(f"{policy['policy_id']} {policy['version']}; {found['model'].partition('@')[0]}; {found['seconds']} s")
    out.print(f"{found['status']}" + (f": {found['reason']}" if found["reason"] else ""), style="bold")


def _show_graded(out: Console, found: Mapping[str, Any]) -> None:
    show_title(out, "Graded sets: nDCG@10 of all queries")
    rows = [
        (
            each["set"],
            f"{each['documents']}/{each['queries']}",
            *(_value(each[source]) for source in _SOURCES),
            _signed(each["fused_minus_best"]["all"]),
        )
        for each in found["graded"]
    ]
    show_rows(out, ("set", "documents/queries", *_SOURCES, "fused - best"), rows)


def _show_transformations(out: Console, found: Mapping[str, Any]) -> None:
    show_title(out, "Transformations")
    rows = [
        (row["name"], str(row["cases"]), _told(row), "passed" if row["passed"] else "MISSED")
        for row in found["transformations"]
    ]
    show_rows(out, ("transformation", "cases", "losses and counts", "verdict"), rows)


def _told(row: Mapping[str, Any]) -> str:
    losses = [f"{name} {_loss(row[name])}" for name in _LOSSES if name in row]
    return ", ".join([*losses, *(f"{name} {row[name]}" for name in _COUNTS if name in row)])


def _loss(figure: Mapping[str, Any]) -> str:
    return "n/a" if figure["loss"] is None else f"{figure['loss']:+.3f}"


def _signed(figure: Mapping[str, Any]) -> str:
    return "n/a" if figure["value"] is None else f"{figure['value']:+.4f}"


def _value(figure: Mapping[str, Any]) -> str:
    return "n/a" if figure["value"] is None else f"{figure['value']:.3f}"


def _shown(figure: Mapping[str, Any]) -> tuple[str, str, str]:
    if figure["value"] is None:
        return "n/a", "n/a", "0"
    return f"{figure['value']:.4g}", f"{figure['low']:.3f} to {figure['high']:.3f}", str(figure["denominator"])


def _threshold(figure: Mapping[str, Any]) -> str:
    return f"{figure['threshold']:g} {'reached' if figure['passed'] else 'MISSED'}"
