"""From a rule and its evidence to its forest plot: the units are those that the policies make of its pairs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from policies.bundles import NotABundle
from policies.distillation_policy import DistillationPolicy, distillation_policy
from policies.effects import EffectUnit, PairedDelta, effect_units
from policies.linked import LinkedRun, linked_deltas
from policies.statistics import MIN_T_VALUES, Bounds, mean_interval
from policies.strength import disputed_strata
from records.errors import InvalidInputError, UnavailableError
from records.knowledge import MemoryRecord
from records.values import Direction, Interval
from store.ledger.port import LedgerReader
from vrm.cli.knowledge.detail import detail
from vrm.cli.knowledge.entries import Entry, Wanted, listing
from vrm.cli.knowledge.evidence import LinkedPair, linked_pairs
from vrm.cli.knowledge.words import digits
from vrm.mainjob.facts.shapes import Change
from vrm.report.forest import FORMATS, Forest, ForestRow, Side, draw_forest
from vrm.report.words import change, metric, scope

_METHODS: Final = {
    "t-mean-and-prediction": "t interval of the mean over units, normal-theory prediction interval for a new unit",
    "welch-unequal-variances": "Welch's interval of the difference of two arms, and prediction interval for a new run",
    "range-of-two-units": "two units, so that there is a range and no interval",
    "one-unit": "one unit, so that there is no interval",
}


def form_of(path: Path) -> str:
    """Return the format that a file's name asks for.

    Raises:
        InvalidInputError: it is none that can be drawn.
    """
    form = path.suffix.lower().removeprefix(".")
    if form not in FORMATS:
        raise InvalidInputError(
            "-o", path.name, f"Name the file with one of: {', '.join('.' + each for each in FORMATS)}."
        )
    return form


def write_plot(path: Path, forest: Forest) -> None:
    """Write a plot; its folder is made where it is missing.

    Raises:
        InvalidInputError: the name asks for no format that can be drawn.
        UnavailableError: the file cannot be written.
    """
    drawn = draw_forest(forest, form_of(path))
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(drawn)
    except OSError as error:
        raise UnavailableError("-o", str(path), f"Choose a file to write to ({error.strerror}).") from error


def deltas_of(pairs: Iterable[LinkedPair], name: str) -> tuple[PairedDelta, ...]:
    """Return the paired deltas of a metric behind links; a link whose runs lack it, or are no bundles, gives none."""
    return linked_deltas(run for pair in pairs if (run := _linked(pair, name)) is not None)


def forest_of(entry: Entry, pairs: Sequence[LinkedPair]) -> Forest:
    """Return the forest of a rule.

    Raises:
        InvalidInputError: it is no rule, or none of its evidence can be read any more.
    """
    record = entry.record
    if not isinstance(record, MemoryRecord):
        raise InvalidInputError("id", str(record.id), "Only rules have an effect to plot; this is a procedure.")
    deltas = deltas_of(pairs, record.effect.metric.name)
    if not deltas:
        raise InvalidInputError("id", str(record.id), "None of its evidence resolves any more; run `vrm fsck`.")
    effect, policy = record.effect, distillation_policy(record.distillation_policy.version)
    of_one_task = record.scope.evaluation_task_id is not None
    mean, margin = float(effect.mean_delta), _margin(pairs)
    units = effect_units(deltas)
    rows = _runs(units, deltas, mean) if of_one_task else _roots(units, mean, (policy, margin))
    own_range = None if effect.mean_interval is not None or effect.unit_count == 1 else effect.unit_range
    return Forest(
        title=record.claim,
        subtitle=_subtitle(entry, record),
        footer=tuple(_footer(record, whiskers=any(row.interval for row in rows))),
        metric=metric(effect.metric.name),
        unit=effect.metric.unit,
        better_up=effect.metric.direction is Direction.MAXIMIZE,
        noun="run" if of_one_task else "root",
        counted="pairs" if effect.pair_count else "runs",
        rows=rows,
        mean=mean,
        mean_interval=_span(effect.mean_interval),
        mean_range=None if own_range is None else Bounds(float(own_range[0]), float(own_range[1])),
        prediction=_span(effect.prediction_interval),
        level=policy.effect.confidence,
        margin=margin,
    )


def _linked(pair: LinkedPair, name: str) -> LinkedRun | None:
    before, after = pair.metric(name)
    changed, baseline = pair.changed, pair.baseline
    if before is None or after is None or isinstance(changed, NotABundle) or isinstance(baseline, NotABundle):
        return None
    return LinkedRun(
        stratum_id=str(pair.link.stratum_id),
        changed_id=str(pair.link.experience_id),
        baseline_id=str(pair.link.comparator_id),
        root=changed.attempt.dataset_root,
        seed=changed.attempt.seed,
        baseline_seed=baseline.attempt.seed,
        changed=after,
        baseline=before,
    )


def _margin(pairs: Sequence[LinkedPair]) -> float:
    """Return the equivalence margin of the contract that every comparable run of a rule is under."""
    return max(
        float(each.changed.contract.equivalence_margin) for each in pairs if not isinstance(each.changed, NotABundle)
    )


def _roots(
    units: tuple[EffectUnit, ...], mean: float, judged: tuple[DistillationPolicy, float]
) -> tuple[ForestRow, ...]:
    policy, margin = judged
    confidence = policy.effect.confidence
    disputed = set(disputed_strata(units, policy.strength, confidence, margin))
    rows = []
    for unit in units:
        seeds = tuple(
            delta for stratum in unit.strata if stratum.evaluation_task in disputed for delta in stratum.deltas
        )
        rows.append(
            ForestRow(
                label=unit.root,
                effect=unit.effect,
                pairs=sum(len(stratum.deltas) for stratum in unit.strata),
                side=_side(unit.effect, mean),
                interval=_own_interval(unit, confidence),
                seeds=seeds,
            )
        )
    return tuple(rows)


def _own_interval(unit: EffectUnit, confidence: float) -> Bounds | None:
    """Return the t interval over the tasks of a root, or over the seeds of its one task, where it has three or more."""
    values = [stratum.effect for stratum in unit.strata] if len(unit.strata) > 1 else list(unit.strata[0].deltas)
    if len(values) < MIN_T_VALUES:
        return None
    bounds = mean_interval(values, confidence)
    return Bounds(bounds.low, bounds.high)


def _runs(units: tuple[EffectUnit, ...], deltas: tuple[PairedDelta, ...], mean: float) -> tuple[ForestRow, ...]:
    """Return the rows of one evaluation task: its pairs or runs; its strata, where some of several are unpaired."""
    strata = [stratum for unit in units for stratum in unit.strata]
    if len(strata) > 1 and not all(stratum.paired for stratum in strata):
        return tuple(
            ForestRow(label=f"stratum {digits(each.evaluation_task, 8)}", effect=each.effect, pairs=len(each.deltas),
                      side=_side(each.effect, mean))
            for each in strata
        )  # fmt: skip
    return tuple(
        ForestRow(label=f"seed {each.seed}", effect=each.delta, pairs=1, side=_side(each.delta, mean))
        for each in deltas
    )


def _side(effect: float, mean: float) -> Side:
    if effect == 0:
        return Side.TIES
    return Side.SUPPORTS if effect * mean > 0 else Side.CONTRADICTS


def _span(interval: Interval | None) -> Bounds | None:
    return None if interval is None else Bounds(float(interval.low), float(interval.high))


def _subtitle(entry: Entry, record: MemoryRecord) -> str:
    knob = record.target.knob
    made = change(Change(knob=knob.name, from_value=knob.from_value, to_value=knob.to_value))
    return f"{entry.disposition}: {record.action.value} {made}  ·  {scope(record.scope_description)}"


def _footer(record: MemoryRecord, *, whiskers: bool) -> Iterator[str]:
    effect, strength = record.effect, record.strength
    of_one_task = record.scope.evaluation_task_id is not None
    unit = (
        "seed or run of one evaluation task" if of_one_task else "dataset root (tasks and seeds of a root are averaged)"
    )
    pairs = (
        f"{effect.pair_count} pairs" if effect.pair_count else "unpaired runs, each beside the mean of its baselines"
    )
    yield f"n = {effect.unit_count} units from {pairs}; a unit is one {unit}."
    method = _METHODS.get(effect.method, effect.method)
    drawn = "; whiskers: t interval over the seeds or tasks of a root, from three on" if whiskers else ""
    yield f"Method: {method}{drawn}."
    tested = ""
    if effect.p_value is not None and effect.adjusted_p_value is not None:
        adjusted = f"{float(effect.adjusted_p_value):.2g} adjusted for its family"
        tested = f"  p = {float(effect.p_value):.2g}, {adjusted}."
    counts = f"{strength.support_count} for, {strength.counter_count} against, {effect.tied_count} tied"
    yield f"Grade: {strength.grade.value} ({counts}).{tested}"
    yield f"{record.id}, distillation policy {record.distillation_policy.version}"


@dataclass(frozen=True, kw_only=True)
class PlotsWanted:
    """One rule into one file, or every active rule into a folder."""

    record_id: str | None
    path: Path
    form: str


def wanted(record_id: str, output: Path | None, folder: Path | None, form: str) -> PlotsWanted:
    """Return what the options of the command ask for.

    Raises:
        InvalidInputError: they do not go together.
    """
    if record_id and output is not None and folder is None:
        return PlotsWanted(record_id=record_id, path=output, form=form_of(output))
    if folder is not None and not record_id and output is None:
        return PlotsWanted(record_id=None, path=folder, form=form_of(Path(f"x.{form}")))
    raise InvalidInputError("plot", f"{record_id or 'no id'}", "Give an id with -o FILE, or --all FOLDER alone.")


def draw(reader: LedgerReader, what: PlotsWanted, namespace: str | None) -> Iterator[tuple[str, Path]]:
    """Draw what is asked for; yield each rule's id with the file that was written.

    Raises:
        InvalidInputError, NotFoundError, AmbiguousIdError: the id names no rule, or several.
        UnavailableError: a file cannot be written.
    """
    if what.record_id is not None:
        found = detail(reader, what.record_id)
        write_plot(what.path, forest_of(found.entry, found.pairs))
        yield str(found.entry.record.id), what.path
        return
    for entry in listing(reader, namespace, Wanted(kind="semantic"), "effect").entries:
        path = what.path / f"{digits(str(entry.record.id))}.{what.form}"
        write_plot(path, forest_of(entry, linked_pairs(reader, entry.record)))
        yield str(entry.record.id), path
