"""`vrm status`: what runs and what is stored."""

from __future__ import annotations

from typing import Any

import typer

from vrm.cli.connection import Connection, OpenStores, Service, connection
from vrm.cli.output import AsJson, command, console, show_json, show_rows, show_title

_POSITIONS = ("position", "evidence", "lifecycle", "retention")


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
    out = console()
    for service in services:
        out.print(f"{service.name:<10}{'running' if service.running else 'not running'}  {service.detail}")
    if "namespaces" not in found:
        return
    if not found["namespaces"]:
        out.print("Nothing is stored yet.")
        return
    show_title(out, "Journals: the last position, and the last one of each frontier")
    show_rows(out, ("namespace", *_POSITIONS, "rules"), (_journal_row(row) for row in found["namespaces"]))
    show_title(out, "Ledger")
    show_rows(out, ("kind", "records"), ((kind, str(number)) for kind, number in found["records"].items()))
    show_title(out, "Runtime")
    show_rows(out, ("machine", "phases"), ((name, _counted(phases)) for name, phases in found["runtime"].items()))
    waiting = found["unresolved_authorizations"]
    out.print(f"\n{len(waiting)} unresolved authorizations" + ("; recovery resolves them" if waiting else ""))


def _journal_row(found: dict[str, Any]) -> tuple[str, ...]:
    return (found["namespace"], *(str(found[name]) for name in _POSITIONS), _counted(found["heads"]))


def _counted(numbers: dict[str, int]) -> str:
    return ", ".join(f"{number} {name}" for name, number in numbers.items()) or "none"
