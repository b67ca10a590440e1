"""`vrm status`: what runs and what is stored."""

from __future__ import annotations

from typing import Any

import typer

from vrm.cli.connection import Connection, OpenStores, Service, connection
from vrm.cli.output import AsJson, command, console, show_json


@command
def status(context: typer.Context, as_json: AsJson = False) -> None:
    """Show what runs and what is stored; starts nothing.

    \b
    Examples:
      vrm status
      vrm status --json | jq .namespaces
    """  # noqa: D301  # \b is an instruction to the help formatter, not an escape
    joined = connection(context)
    services = joined.services()
    found: dict[str, Any] = {
        "services": {each.name: {"running": each.running, "detail": each.detail} for each in services}
    }
    if _can_read(services):
        found |= _stored(joined)
    if as_json:
        show_json(found)
    else:
        _print(services, found)


def _can_read(services: list[Service]) -> bool:
    return all(service.running for service in services if service.name == "postgres")


def _stored(joined: Connection) -> dict[str, Any]:
    with joined.stores() as stores:
        return {
            "namespaces": [_namespace(stores, name) for name in stores.ledger.namespaces()],
            "records": dict(stores.ledger.table_counts()),
            "runtime": stores.runtime.phase_counts(),
            "unresolved_authorizations": _unresolved(stores),
        }


def _namespace(stores: OpenStores, name: str) -> dict[str, Any]:
    head = stores.ledger.namespace_head(name)
    dispositions: dict[str, int] = {}
    for variant in stores.ledger.variant_heads(name).values():
        dispositions[variant.disposition] = dispositions.get(variant.disposition, 0) + 1
    return {
        "namespace": name,
        "position": head.position,
        "evidence": head.evidence,
        "lifecycle": head.lifecycle,
        "retention": head.retention,
        "heads": dict(sorted(dispositions.items())),
    }


def _unresolved(stores: OpenStores) -> list[str]:
    from records.states import Machine, Phase  # noqa: PLC0415  # help does without

    return [subject.id for subject in stores.runtime.find(Machine.AUTHORIZATION, [Phase.GRANTED])]


def _print(services: list[Service], found: dict[str, Any]) -> None:
    from rich.table import Table  # noqa: PLC0415  # help does without

    out = console()
    for service in services:
        out.print(f"{service.name:<10}{'running' if service.running else 'not running'}  {service.detail}")
    if "namespaces" not in found:
        return
    if not found["namespaces"]:
        out.print("Nothing is stored yet.")
        return
    journals = Table("namespace", "position", "evidence", "lifecycle", "retention", "rules", title="Journals")
    for row in found["namespaces"]:
        rules = ", ".join(f"{number} {name}" for name, number in row["heads"].items())
        positions = (str(row[name]) for name in ("position", "evidence", "lifecycle", "retention"))
        journals.add_row(row["namespace"], *positions, rules or "none")
    out.print(journals)
    records = Table("kind", "records", title="Ledger")
    for kind, number in found["records"].items():
        records.add_row(kind, str(number))
    out.print(records)
    runtime = Table("machine", "phases", title="Runtime")
    for machine, phases in found["runtime"].items():
        runtime.add_row(machine, ", ".join(f"{number} {phase}" for phase, number in phases.items()) or "none")
    out.print(runtime)
    waiting = found["unresolved_authorizations"]
    out.print(f"{len(waiting)} unresolved authorizations" + ("; recovery resolves them" if waiting else ""))
