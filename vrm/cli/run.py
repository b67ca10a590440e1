"""`vrm run` and `vrm import table`: the main job, and evidence for it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from vrm.cli.acting import PLANNER, ActBy, chat_of
from vrm.cli.drafting import KEY_VARIABLE, LlmKeyVariable, LlmModel, LlmUrl
from vrm.cli.jobs import opened_job
from vrm.cli.modes import ModeNames, RecallInputName, arms_told
from vrm.cli.output import AsJson, Namespace, command, console, show_json, show_rows, show_title
from vrm.home import DEFAULT_NAMESPACE

if TYPE_CHECKING:
    from vrm.report import Section

SizeName = Annotated[str, typer.Option("--size", help="full: about 600 fits; small: seconds, for a first look.")]


@command
def run(
    namespace: Namespace = DEFAULT_NAMESPACE,
    size: SizeName = "full",
    mode: ModeNames = None,
    recall_input: RecallInputName = None,
    *,
    actor: ActBy = PLANNER,
    llm_url: LlmUrl = None,
    llm_model: LlmModel = None,
    llm_key_variable: LlmKeyVariable = KEY_VARIABLE,
    as_json: AsJson = False,
) -> None:
    """Run one round of the main job: experiments, rules, held-out decisions, report.

    A round that was interrupted goes on where it stopped. After a finished round the next one brings new seeds, so
    running again adds evidence and repeats nothing.

    The mode says what is recorded, distilled and recalled; docs/modes.md has the table. Going back to a mode that does
    less deletes nothing: what is there stays, and is used again when the mode is.

    With --actor llm a model decides in every arm, given what the planner is given. Its answers are checked as any
    actor's; one that fails or says what is no answer fails its Run, and the pair stays (docs/modes.md).

    \b
    Examples:
      vrm run
      vrm run --size small --json
      vrm run --mode record_only                               evidence, and no memory
      vrm run --mode decision_memory --mode legacy_recall      a third arm: the earlier design
      vrm run --mode frozen_memory --recall-input 3fa2
      vrm run --size small --actor llm --llm-url http://127.0.0.1:8000/v1 --llm-model qwen3
    """  # noqa: D301  # \b is an instruction to the help formatter, not an escape
    modes = mode or ()
    with (
        chat_of(actor, llm_url, llm_model, llm_key_variable, modes) as chat,
        opened_job(namespace, size, quiet=as_json, modes=modes, recall_input=recall_input, chat=chat) as job,
    ):
        from vrm.mainjob.present import present  # noqa: PLC0415  # brings everything along
        from vrm.mainjob.run import run_round  # noqa: PLC0415

        done = run_round(job)
        told = arms_told(job.round.modes, done)
        shown = present(job, done.recovered) if job.round.compares_memory else None
    if as_json:
        show_json(told if shown is None else shown.as_json | told)
        return
    if shown is None:
        _print_arms(told)
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
    with opened_job(namespace, "full", quiet=as_json) as job:
        from vrm.mainjob import published, steps  # noqa: PLC0415  # as above

        before = job.stores.ledger.namespace_head(namespace).position
        run_id = published.import_table(job, folder)
        steps.ingest(job, [run_id])
        after = job.stores.ledger.namespace_head(namespace).position
    _tell({"run": run_id, "new_records": after - before}, as_json=as_json)


def _print_arms(told: dict[str, Any]) -> None:
    out = console()
    show_title(out, f"Held-out decisions, {' and '.join(told['modes'])}")
    rows = [
        (each["task"], str(each["seed"]), each["arm"], _path(each["path"]), ", ".join(each["tried"]) or "nothing")
        for each in told["trials"]
    ]
    show_rows(out, ("task", "seed", "arm", "in effect, decision by decision", "tried"), rows)


def _path(path: list[float | None]) -> str:
    return " → ".join("nothing valid" if value is None else f"{value:.4f}" for value in path) or "not carried out"


def _print_section(section: Section) -> None:
    out = console()
    show_title(out, section.title)
    for line in section.lines:
        out.print(line, markup=False)
    show_rows(out, section.header, section.rows)


def _tell(found: dict[str, object], *, as_json: bool) -> None:
    if as_json:
        show_json(found)
        return
    for name, value in found.items():
        typer.echo(f"{name.replace('_', ' '):<16}{value}")
