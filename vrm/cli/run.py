"""`vrm run`, `vrm import table`, `vrm distil`: the main job and its parts."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from vrm.cli.drafting import KEY_VARIABLE, TEMPLATE, DraftBy, LlmKeyVariable, LlmModel, LlmUrl, drafter_of
from vrm.cli.output import AsJson, Namespace, command, console, show_json, show_rows, show_title
from vrm.home import DEFAULT_NAMESPACE

if TYPE_CHECKING:
    from vrm.mainjob.job import Job
    from vrm.report import Section

SizeName = Annotated[str, typer.Option("--size", help="full: about 600 fits; small: seconds, for a first look.")]


@command
def run(namespace: Namespace = DEFAULT_NAMESPACE, size: SizeName = "full", as_json: AsJson = False) -> None:
    """Run one round of the main job: experiments, rules, held-out decisions, report.

    A round that was interrupted goes on where it stopped. After a finished round the next one brings new seeds, so
    running again adds evidence and repeats nothing.

    \b
    Examples:
      vrm run
      vrm run --size small --json
    """  # noqa: D301  # \b is an instruction to the help formatter, not an escape
    with _job(namespace, size, quiet=as_json) as job:
        from vrm.mainjob.present import present  # noqa: PLC0415  # brings everything along
        from vrm.mainjob.run import run_round  # noqa: PLC0415

        shown = present(job, run_round(job))
    if as_json:
        show_json(shown.as_json)
        return
    for section in shown.sections:
        _print_section(section)
    typer.echo(f"\nReport: {shown.page}\nPostgres and Ray keep running; `vrm down` stops them.")


@command
def import_table(
    folder: Annotated[Path, typer.Argument(help="Folder with manifest.json, catalog.yaml and a CSV or ARFF.")],
    namespace: Namespace = DEFAULT_NAMESPACE,
    as_json: AsJson = False,
) -> None:
    """Import a published table as evidence, every row a run; importing it again adds nothing.

    The folder is read and checked whole first: a damaged file imports nothing. The manifest says what each column is
    for, what a row is compared with, and whether rows are `published_record` evidence or only `attested`. The tables
    that ship with the project, and what each of them shows, are described in docs/published-data.md.

    \b
    Examples:
      vrm import table importers/data/hpobench_mlp
      vrm import table importers/data/nanogpt_arms --namespace speedrun
    """  # noqa: D301  # as above
    from importers.table_reader import read_published_table  # noqa: PLC0415  # as above

    read_published_table(folder)  # a damaged folder is refused before anything is started
    with _job(namespace, "full", quiet=as_json) as job:
        from vrm.mainjob import published, steps  # noqa: PLC0415  # as above

        before = job.stores.ledger.namespace_head(namespace).position
        run_id = published.import_table(job, folder)
        steps.ingest(job, [run_id])
        after = job.stores.ledger.namespace_head(namespace).position
    _tell({"run": run_id, "new_records": after - before}, as_json=as_json)


@command
def distil(
    namespace: Namespace = DEFAULT_NAMESPACE,
    *,
    draft: DraftBy = TEMPLATE,
    llm_url: LlmUrl = None,
    llm_model: LlmModel = None,
    llm_key_variable: LlmKeyVariable = KEY_VARIABLE,
    as_json: AsJson = False,
) -> None:
    """Distil what is waiting in a namespace, and compose a new Recall Input from the active rules.

    With --draft llm a model words the rules that are promoted. It decides nothing, and what it says is taken only if
    it says what was measured; a draft that fails or is refused leaves the plain sentence (docs/drafting.md).

    \b
    Examples:
      vrm distil
      vrm distil --draft llm --llm-url http://127.0.0.1:8000/v1 --llm-model qwen3
    """  # noqa: D301  # as above
    with (
        drafter_of(draft, llm_url, llm_model, llm_key_variable) as drafter,
        _job(namespace, "full", quiet=as_json) as job,
    ):
        job.drafter = drafter
        from vrm.mainjob import steps  # noqa: PLC0415  # as above
        from vrm.mainjob.run import recover  # noqa: PLC0415

        recovered = recover(job)
        waiting = len(job.campaigns.waiting())
        steps.distil(job, steps.capture(job))
        recall_input_id = steps.recall_input(job)
    found = {"recovered": recovered, "distilled": waiting, "recall_input": recall_input_id}
    _tell(found if drafter is None else found | {"worded": drafter.outcomes}, as_json=as_json)


@contextmanager
def _job(namespace: str, size: str, *, quiet: bool) -> Iterator[Job]:
    """Bring everything up and give the job; servers and actors keep running afterwards."""
    from rich.console import Console  # noqa: PLC0415  # as above

    from records.errors import InvalidInputError  # noqa: PLC0415
    from records.fields import require_namespace  # noqa: PLC0415
    from records.legacy import require_scoped  # noqa: PLC0415
    from vrm.bootstrap import home_of, open_stores, owners, start_cluster  # noqa: PLC0415
    from vrm.mainjob.driver import driver  # noqa: PLC0415
    from vrm.mainjob.job import Job, pinned_policies  # noqa: PLC0415
    from vrm.mainjob.plan import SIZES  # noqa: PLC0415
    from vrm.mainjob.run import next_round  # noqa: PLC0415

    require_namespace(namespace)
    if size not in SIZES:
        raise InvalidInputError("--size", size, f"Sizes: {', '.join(sorted(SIZES))}.")
    require_scoped(namespace)
    shown = Console(stderr=True)
    home = home_of()
    with shown.status("Starting Postgres and Ray") if not quiet else _nothing():
        stores = open_stores(home)
        actors = owners(stores, start_cluster(home))
    try:
        round_ = next_round(stores.runtime, namespace, SIZES[size])
        with driver(home.drivers) as holder:
            yield Job(stores, actors, round_, pinned_policies(), shown, holder, quiet=quiet)
    finally:
        stores.close()


def _print_section(section: Section) -> None:
    out = console()
    show_title(out, section.title)
    for line in section.lines:
        out.print(line, markup=False)
    show_rows(out, section.header, section.rows)


@contextmanager
def _nothing() -> Iterator[None]:
    yield


def _tell(found: dict[str, object], *, as_json: bool) -> None:
    if as_json:
        show_json(found)
        return
    for name, value in found.items():
        typer.echo(f"{name.replace('_', ' '):<16}{value}")
