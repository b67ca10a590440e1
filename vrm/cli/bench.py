"""`vrm bench`: how fast the hot paths are here, as ratios to named references measured in the same run.

Nothing of the installation is touched: a bench starts a server of its own in a temporary folder and removes it.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from vrm.cli.output import AsJson, command, console, progress, show_rows, show_title

app = typer.Typer(
    help="Measure the hot paths on a throw-away server.",
    no_args_is_help=True,
    rich_markup_mode=None,
    epilog="Examples: vrm bench ledger; vrm bench recall --json | tail -n 1",
)

Told = Callable[[str, int, int], None]


@app.command("ledger", short_help="Measure appends and the integrity check.")
@command
def ledger(
    appends: Annotated[int, typer.Option(help="Counted appends with one in flight; others do as many.")] = 1000,
    soak: Annotated[
        int | None, typer.Option(help="Instead: append this many records and check the store as it grows.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Measure appends against raw commits and an event store, and the integrity check.

    With --soak: whether memory stays flat over many appends, and whether the check is linear in rows.

    \b
    Examples:
      vrm bench ledger
      vrm bench ledger --appends 5000
      vrm bench ledger --soak 50000 --json | tail -n 1 | jq .fsck_linearity
      vrm bench ledger --json | tail -n 1 | jq .append_vs_raw_commit
    """  # noqa: D301  # \b is an instruction to the help formatter, not an escape
    from evaluation.bench.ledger import bench_ledger  # noqa: PLC0415  # help does without
    from evaluation.bench.soak import bench_soak  # noqa: PLC0415  # as above

    if soak is None:
        _show(lambda told: bench_ledger(appends, told), as_json=as_json)
    else:
        _show(lambda told: bench_soak(soak, told), as_json=as_json, show=_print_soak)


@app.command("recall", short_help="Measure search, recalls and whole requests.")
@command
def recall(
    *,
    records: Annotated[int, typer.Option(help="Rules in the store and in the index.")] = 2000,
    parts: Annotated[
        str, typer.Option(help="What to measure: some of these, with commas.")
    ] = "kernels,search,build,memory,requests,replay,peer",
    requests: Annotated[int, typer.Option(help="Requests that are timed.")] = 200,
    recalls: Annotated[int, typer.Option(help="Recalls that are repeated.")] = 1000,
    memory_records: Annotated[int, typer.Option(help="Rules of the index whose memory is measured.")] = 1_000_000,
    model: Annotated[bool, typer.Option(help="Use the real model; requests, replay and peer need it.")] = True,
    mem0_python: Annotated[
        Path | None, typer.Option(help="Python of an environment with mem0ai, to measure mem0 as a peer.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Measure search and whole requests against floors, plain libraries and memory bandwidth.

    Requests, replay and peer go through real actors over one store, whose filling takes minutes at 100,000 rules; the
    memory of a million rules takes as long. Vectors of rules have no meaning of their own.

    \b
    Examples:
      vrm bench recall --parts kernels
      vrm bench recall --records 100000 --parts requests,replay,peer --json | tail -n 1 | jq .p95_vs_floor
      vrm bench recall --records 100000 --parts search,build --json | tail -n 1 | jq .search_vs_bandwidth
      vrm bench recall --parts memory --json | tail -n 1 | jq .peak_rss_mb
      vrm bench recall --parts peer --mem0-python ~/mem0/bin/python
    """  # noqa: D301  # as above
    from evaluation.bench.recall import bench_recall  # noqa: PLC0415  # help does without

    chosen = [each.strip() for each in parts.split(",") if each.strip()]
    _show(
        lambda told: bench_recall(
            records,
            told,
            parts=chosen,
            requests=requests,
            recalls=recalls,
            memory_records=memory_records,
            real_model=model,
            mem0=mem0_python,
        ),
        as_json=as_json,
    )


@app.command("protocol", short_help="Measure whole decisions through the spine.")
@command
def protocol(
    decisions: Annotated[int, typer.Option(help="Timed decisions, one in flight.")] = 100,
    as_json: AsJson = False,
) -> None:
    """Count the commits of one decision and measure it against as many raw commits.

    A decision is taken from the proposal of its intent to the settlement of its outcome, through the real owners.

    \b
    Examples:
      vrm bench protocol
      vrm bench protocol --decisions 500
      vrm bench protocol --json | tail -n 1 | jq .database_commits_per_decision
    """  # noqa: D301  # as above
    from evaluation.bench.protocol import bench_protocol  # noqa: PLC0415  # help does without

    _show(lambda told: bench_protocol(decisions, told), as_json=as_json)


@app.command("distil", short_help="Measure Experiences in bulk, from evidence to completion.")
@command
def distil(
    experiences: Annotated[
        int, typer.Option(help="Experiences of one sweep; another one takes twice as many.")
    ] = 10_000,
    as_json: AsJson = False,
) -> None:
    """Measure a sweep of many Experiences through evidence, receipt, work item, campaign and completion.

    It takes minutes: a sweep of that many, one of twice as many, and two small ones for a second worker.

    \b
    Examples:
      vrm bench distil --experiences 1000
      vrm bench distil --json | tail -n 1 | jq .growth_20k_over_10k
    """  # noqa: D301  # as above
    from evaluation.bench.distil import bench_distil  # noqa: PLC0415  # help does without

    _show(lambda told: bench_distil(experiences, told), as_json=as_json, show=_print_distil)


@app.command("claims", short_help="Measure the predicates of claims against hashing their files.")
@command
def claims(
    claims: Annotated[int, typer.Option(min=1, help="Claims that are checked at one retrieval.")] = 10_000,
    per_file: Annotated[int, typer.Option(min=1, help="Claims that name the same file.")] = 1,
    as_json: AsJson = False,
) -> None:
    """Measure one pass over the predicates of many claims against hashing the files that they name.

    \b
    Examples:
      vrm bench claims
      vrm bench claims --per-file 5
      vrm bench claims --json | tail -n 1 | jq .check_vs_hash
    """  # noqa: D301  # as above
    from evaluation.bench.claims import bench_claims  # noqa: PLC0415  # as above

    _show(lambda told: bench_claims(claims, told, per_file), as_json=as_json)


def _show(
    measure: Callable[[Told], dict[str, Any]],
    *,
    as_json: bool,
    show: Callable[[dict[str, Any]], None] | None = None,
) -> None:
    with progress(quiet=as_json) as told:
        found = measure(told)
    if as_json:
        typer.echo(json.dumps(found, ensure_ascii=False))  # one line, and the last one
    else:
        (show or _print)(found)


def _print(found: dict[str, Any]) -> None:
    out = console()
    ratios = []
    for name, ends in found.get("spread", {}).items():
        shown = ("n/a",) * 3 if ends is None else tuple(f"{value:.3g}" for value in (found[name], *ends))
        ratios.append((name, *shown, found["meaning"][name]))
    show_title(out, f"Benchmark: {found['benchmark']}")
    show_rows(out, ("ratio", "median", "lowest", "highest", "of what"), ratios)
    keys = ("per_second", "p50_ms", "p99_ms", "n")
    timed = {name: row for name, row in found.get("absolute", {}).items() if "p50_ms" in row}
    show_title(out, "Absolute figures")
    show_rows(
        out,
        ("operation", "a second", "p50 ms", "p99 ms", "n"),
        ((name, *(f"{row[key]:g}" for key in keys)) for name, row in timed.items()),
    )
    out.print()
    for name, value in found.items():
        if not isinstance(value, dict) and name not in found.get("spread", {}) and name != "benchmark":
            out.print(f"{name}: {'not available' if value is None else value}")
    out.print(", ".join(f"{name} {value}" for name, value in (found.get("settings", {}) | found["machine"]).items()))


def _print_soak(found: dict[str, Any]) -> None:
    out = console()
    show_title(out, f"Soak: {found['rows']} journal rows, {found['appends']} appends")
    header = ("rows", "resident MB", "records a second", "appends a second")
    keys = ("rows", "resident_mb", "rows_per_second", "appends_per_second")
    show_rows(out, header, ([f"{point[key]:.10g}" for key in keys] for point in found["points"]))
    show_title(out, "Integrity check as the store grows")
    header = ("rows", "seconds", "rows a second", "peak MB")
    keys = ("rows", "seconds", "rows_per_second", "peak_mb")
    show_rows(out, header, ([f"{check[key]:.10g}" for key in keys] for check in found["checks"]))
    out.print()
    for name in ("memory_growth_mb_per_million", "fsck_linearity"):
        out.print(f"{name}: {found[name]:g} ({found['meaning'][name]})")
    out.print(", ".join(f"{name} {value}" for name, value in (found["settings"] | found["machine"]).items()))


def _print_distil(found: dict[str, Any]) -> None:
    out = console()
    show_title(out, f"Distillation in bulk: {found['experiences']} Experiences, then twice as many")
    low, high = found["spread"]["experiences_per_s"]
    out.print(f"{found['experiences_per_s']:g} Experiences a second; in the last stage {low:g} to {high:g}")
    names = (
        "growth_20k_over_10k",
        "cpu_growth_20k_over_10k",
        "distil_vs_raw_inserts",
        "speedup_2_workers",
        "speedup_limit",
    )
    show_rows(out, ("ratio", "", "of what"), ((name, f"{found[name]:.3g}", found["meaning"][name]) for name in names))
    out.print(", ".join(f"{name} {share:.0%}" for name, share in found["shares"].items()), markup=False)
    show_rows(
        out, ("stage", "seconds"), ((name, f"{each:g}") for name, each in found["stage_seconds"]["asked"].items())
    )
    show_rows(
        out, ("process", "peak MB"), ((name, f"{each:g}") for name, each in found["peak_rss_mb_each"]["asked"].items())
    )
    out.print(found["speedup"]["serial"], markup=False)
    out.print(", ".join(f"{name} {value}" for name, value in (found["settings"] | found["machine"]).items()))
