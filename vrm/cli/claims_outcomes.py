"""`vrm claims receipt` and `vrm evaluate shadow`: outcomes of trials, and what they can tell about a shadow policy."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from records.errors import InvalidInputError
from vrm.cli.connection import connection
from vrm.cli.output import AsJson, Namespace, command, console, show_json
from vrm.home import DEFAULT_NAMESPACE


@command
def receipt(
    context: typer.Context,
    trace_id: Annotated[str, typer.Argument(metavar="TRACE", help="Any unambiguous beginning of the id of a trace.")],
    *,
    trial: Annotated[str, typer.Option(help="The trial; its outcome counts once for this trace.")],
    passed: Annotated[bool, typer.Option("--passed/--failed", help="What the environment found.")],
    grader: Annotated[str, typer.Option(help="The tests or checks that found it.")],
    graded: Annotated[Path, typer.Option(help="The file of what they said; its digest is kept.")],
    corrected: Annotated[bool, typer.Option("--corrected", help="A person had to correct the result.")] = False,
    reverted: Annotated[bool, typer.Option("--reverted", help="The result was reverted.")] = False,
    unauthorised: Annotated[
        bool, typer.Option("--unauthorised", help="Something was done that was not allowed.")
    ] = False,
    tokens: Annotated[int | None, typer.Option(min=0, help="Tokens of the trial.")] = None,
    duration_ms: Annotated[int | None, typer.Option(min=0, help="Milliseconds of the trial.")] = None,
    namespace: Namespace = DEFAULT_NAMESPACE,
    as_json: AsJson = False,
) -> None:
    """Record what an environment found about one trial that a retrieval informed: tests and graders, never words.

    The same outcome again changes nothing; another one for the same trace and trial is refused.

    \b
    Examples:
      vrm claims receipt claim-trace:3fa2 --trial run-1 --passed --grader pytest --graded report.xml
      vrm claims receipt 3fa2 --trial run-2 --failed --unauthorised --grader sandbox --graded audit.log
    """  # noqa: D301  # \b is an instruction to the help formatter, not an escape
    from actors.settings import now  # noqa: PLC0415  # help does without
    from memory.workspace.keeping import KeeperPorts, read_trace, record_outcome  # noqa: PLC0415
    from policies.workspace.shadow import shadow_policy  # noqa: PLC0415
    from records.canonical import digest_bytes  # noqa: PLC0415
    from records.claim_traces import TrialOutcome  # noqa: PLC0415

    outcome = TrialOutcome.build(
        passed=passed, corrected=corrected, reverted=reverted, unauthorised_side_effect=unauthorised, tokens=tokens,
        duration_ms=duration_ms, grader=grader, grader_digest=digest_bytes(_said(graded)),
    )  # fmt: skip
    joined = connection(context)
    with joined.stores() as stores:
        trace = read_trace(stores.ledger, namespace, trace_id)
        ports = KeeperPorts(ledger=stores.ledger, coordinator=joined.coordinator(stores), now=now)
        kept = record_outcome(ports, trace, trial, outcome, shadow_policy())
    if as_json:
        show_json({"receipt": str(kept.id), **kept.as_json()})
    else:
        typer.echo(f"Reward {kept.reward} for {kept.task_id}, {kept.trial_id}. Kept as {kept.id}.")


def _said(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise InvalidInputError("--graded", str(path), "Name a file that can be read.") from error


@command
def shadow(
    context: typer.Context,
    workspace: Annotated[str, typer.Option(help="The name of the code base.")] = "app",
    namespace: Namespace = DEFAULT_NAMESPACE,
    as_json: AsJson = False,
) -> None:
    """Hold the shadow policy of workspace claims against its four promotion gates, by the receipts that there are.

    Every figure has its denominator and an interval. What production shows it shows for certain, so what the shadow
    policy would have withheld has no counterfactual, and receipts alone can open no gate of success. Nothing is ever
    activated. Exit code 0 if every gate is passed, 1 if one is not, 2 for an error.

    \b
    Examples:
      vrm evaluate shadow
      vrm evaluate shadow --workspace app --json | tail -n 1 | jq .gates
    """  # noqa: D301  # as above
    from evaluation.shadow import evaluate_shadow  # noqa: PLC0415  # as above
    from policies.workspace.shadow import shadow_policy  # noqa: PLC0415
    from vrm.cli.claims_view import show_shadow  # noqa: PLC0415

    with connection(context).stores() as stores, stores.ledger.reading() as reader:
        found = evaluate_shadow(reader, namespace, workspace, shadow_policy())
    if as_json:
        typer.echo(json.dumps(found.as_json(), ensure_ascii=False))  # one line, and the last one
    else:
        show_shadow(console(), found)
    raise typer.Exit(0 if found.passed else 1)
