"""How claims, their events, retrievals and gates are shown; a text of a claim is a JSON string on one line."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import typer

from memory.workspace.retrieving import Retrieved
from policies.escaping import quoted
from policies.workspace.gates import Figure, ShadowReport
from policies.workspace.lifecycle import Added, HeldClaim
from records.workspace import ClaimEvent
from vrm.cli.output import short, show_rows, show_title

if TYPE_CHECKING:
    from rich.console import Console

_QUOTED: Final = 160


def claim_json(held: HeldClaim) -> dict[str, Any]:
    """Return a claim with where it stands."""
    return {
        "claim": str(held.claim.id),
        "state": held.head.state.value,
        "event": held.head.event_id,
        "contested_with": [str(each) for each in held.head.counterparts],
        "evidence": [each.as_json() for each in held.evidence],
        **held.claim.as_json(),
    }


def event_json(event: ClaimEvent) -> dict[str, Any]:
    """Return an event."""
    return {"event": str(event.id), **event.as_json()}


def added_json(done: Added) -> dict[str, Any]:
    """Return what became of a claim."""
    return {
        "addition": done.addition.value,
        "claim": done.stands,
        "contested_with": list(done.contradicts),
        "events": [event_json(each) for each in done.events],
    }


def retrieved_json(found: Retrieved) -> dict[str, Any]:
    """Return a retrieval with its section."""
    return {
        "trace": str(found.trace.id),
        "rendered": found.rendered,
        "stale": [event_json(each) for each in found.stale],
        **found.trace.as_json(),
    }


def show_added(out: Console, found: dict[str, Any]) -> None:
    """Print what became of a claim."""
    states = [event["state"] for event in found["events"] if event["claim_id"] == found["claim"]]
    state = f", {states[-1]}" if states else ""
    out.print(f"{found['addition']}: {short(found['claim'])}{state}", markup=False)
    for other in found["contested_with"]:
        out.print(f"contested with {short(other)}; `vrm claims resolve` settles it", markup=False)


def show_claims(out: Console, claims: Sequence[dict[str, Any]]) -> None:
    """Print claims, one a row."""
    rows = [
        (short(each["claim"]), each["state"], each["claim_type"], f"{each['trust']}, {each['source']}",
         str(len(each["predicates"])), str(len(each["evidence"])), quoted(each["text"], _QUOTED))
        for each in claims
    ]  # fmt: skip
    show_rows(out, ("claim", "state", "kind", "origin", "predicates", "evidence", "text"), rows)


def show_claim(out: Console, found: dict[str, Any]) -> None:
    """Print a claim with its history."""
    show_title(out, quoted(found["text"], _QUOTED))
    certificate = found["certificate"]
    told = {
        "claim": found["claim"],
        "state": found["state"],
        "origin": f"{found['trust']}, {found['status']}, by a {found['source']} extraction",
        "certified": f"by {certificate['extractor_version']}, issued {found['created_at']}",
    }
    for name, value in told.items():
        out.print(f"{name:<11}{value}", markup=False, soft_wrap=True)
    for each in found["predicates"]:
        named = {name: value for name, value in each.items() if name != "predicate"}
        parts = ", ".join(f"{name} {quoted(str(value), _QUOTED)}" for name, value in named.items())
        out.print(f"{'checks':<11}{each['predicate']}: {parts}", markup=False, soft_wrap=True)
    for each in found["evidence"]:
        out.print(f"{'evidence':<11}{each['event_id']}, sha256 {each['content_digest'][:12]}", markup=False)
    show_events(out, found["events"])


def show_events(out: Console, events: Sequence[dict[str, Any]]) -> None:
    """Print events, one a row."""
    rows = []
    for each in events:
        findings = ", ".join(f"predicate {finding['ordinal']} {finding['outcome']}" for finding in each["findings"])
        other = "" if each["counterpart"] is None else short(each["counterpart"])
        what = "; ".join(filter(None, (other, findings, ", ".join(one["event_id"] for one in each["evidence"]))))
        rows.append((each["created_at"][:19], short(each["claim_id"]), each["reason"], each["state"], what))
    show_rows(out, ("when", "claim", "reason", "state", "with"), rows)


def show_retrieved(found: dict[str, Any]) -> None:
    """Print the section, and how it came about."""
    if found["rendered"]:
        typer.echo(found["rendered"])
    else:
        typer.echo(f"Nothing is shown: {found['ending']}.")
    counts = f"{found['considered']} claims, {found['durable']} durable, {len(found['refused'])} do not hold"
    typer.echo(f"\n{counts}; {found['token_count']} of {found['budget']} tokens. Traced as {found['trace']}.")


def show_shadow(out: Console, found: ShadowReport) -> None:
    """Print the gates with their figures."""
    out.print(f"{found.policy}: {found.receipts} receipts of {found.tasks} tasks. Activates {found.activates}.")
    for gate in found.gates:
        show_title(out, f"{'passed' if gate.passed else 'NOT PASSED'}: {gate.gate}")
        rows = [_row(*each) for each in gate.figures.items()]
        show_rows(out, ("figure", "value", "interval", "of", "threshold"), rows)
        for reason in gate.reasons:
            out.print(f"  {reason}", markup=False)
    show_title(out, "what receipts cannot tell")
    for limit in found.limits:
        out.print(f"  {limit}", markup=False)


def _row(name: str, figure: Figure) -> tuple[str, str, str, str, str]:
    value = "n/a" if figure.value is None else f"{figure.value:.4g}"
    interval = "n/a" if figure.low is None or figure.high is None else f"{figure.low:.4g} to {figure.high:.4g}"
    counted = f"{figure.denominator}" if figure.numerator is None else f"{figure.numerator} of {figure.denominator}"
    return name, value, interval, counted, "" if figure.threshold is None else f"{figure.threshold:g}"
