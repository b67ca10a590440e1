"""Costs told apart (VRM-O06): statements beside the records, sums with denominators, a tagged cost per improvement."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path

import pytest
from pydantic import ValidationError

from evaluation.mediation import improvements
from memory.trace.accounting import Costs, read_costs
from memory.trace.costs import (
    OF_MEMORY,
    UNITS,
    Component,
    ComponentCost,
    CostBook,
    CostStatement,
    Finite,
    Meter,
    PositiveInfinity,
    Source,
    Unit,
    per_improvement,
)
from tests.support.trials import NOW
from tests.unit.trace_world import SPACE, Pair, build_pair


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Pair:
    return build_pair(tmp_path_factory.mktemp("pair"))


_NUMBERS = itertools.count(1)


def _statement(component: Component, amount: float, on: Sequence[str] = ()) -> CostStatement:
    unit, source = UNITS[component]
    return CostStatement(
        statement=f"statement-{next(_NUMBERS)}", at=NOW, namespace=SPACE, component=component, subject="subject",
        amount=amount, unit=unit, source=source, on=tuple(map(str, on)),
    )  # fmt: skip


def _costs(pair: Pair, statements: list[CostStatement], *, whole: bool = True) -> Costs:
    traces = pair.read().traces
    with pair.stack.stores.ledger.reading() as reader:
        return read_costs(reader, statements, SPACE, traces, improvements=improvements(traces), whole=whole)


def _complete(pair: Pair) -> list[CostStatement]:
    items = [each.work_item_id for each in pair.stack.load("distillation-work-completion")]
    builds = [each.id for each in pair.stack.load("memory-index-build")]
    asked = [each.intent_id for each in pair.stack.load("decision-recall-context")]
    return [
        _statement(Component.DISTILLATION, 3.0, items[:5]),
        _statement(Component.DISTILLATION, 1.0, items[5:]),
        _statement(Component.INDEX_BUILD, 0.5, builds),
        _statement(Component.RETRIEVAL, 0.25, asked),
    ]


def _of(costs: Costs, component: Component) -> ComponentCost:
    (found,) = costs.of(component)
    return found


def test_vrm_o06_every_component_has_its_amount_unit_source_and_denominator(pair: Pair) -> None:
    costs = _costs(pair, _complete(pair))
    assert [cost.component for cost in costs.components] == list(Component)
    # Four roots with a baseline and a changed run each are eight work items; one decision asked memory.
    distilled = _of(costs, Component.DISTILLATION)
    assert (distilled.amount, distilled.unit, distilled.measured, distilled.of) == (4.0, Unit.SECONDS, 8, 8)
    assert (_of(costs, Component.INDEX_BUILD).measured, _of(costs, Component.INDEX_BUILD).of) == (1, 1)
    assert (_of(costs, Component.RETRIEVAL).measured, _of(costs, Component.RETRIEVAL).of) == (1, 1)
    (context,) = pair.stack.load("decision-recall-context")
    prompt = _of(costs, Component.PROMPT_TOKENS)
    assert (prompt.amount, prompt.unit, prompt.source) == (context.token_count, Unit.TOKENS, Source.TOKENIZER)
    # The experiments of this world give one time for beginning and end, so their seconds are not known.
    assert (_of(costs, Component.DOWNSTREAM_TASK).measured, _of(costs, Component.DOWNSTREAM_TASK).of) == (0, 2)
    assert (_of(costs, Component.EVIDENCE).measured, _of(costs, Component.EVIDENCE).of) == (0, 8)


def test_vrm_o06_cost_of_an_improvement_is_a_tagged_value(pair: Pair) -> None:
    costs = _costs(pair, _complete(pair))
    assert costs.per_improvement(*OF_MEMORY) == Finite(value=4.75)
    assert costs.per_improvement(Component.DOWNSTREAM_TASK) is None, "its seconds are not known"
    none = Costs(components=costs.components, improvements=0, whole=True)
    assert none.per_improvement(*OF_MEMORY) == PositiveInfinity()
    told = json.loads(json.dumps(none.as_json(), allow_nan=False))
    assert told["per_valid_improvement"]["memory_seconds"] == {"kind": "positive_infinity"}
    part = Costs(components=costs.components, improvements=1, whole=False)
    assert part.per_improvement(*OF_MEMORY) is None, "what memory cost is not that of a few decisions"


def test_vrm_o06_what_was_not_measured_shows(pair: Pair) -> None:
    costs = _costs(pair, _complete(pair)[:1])
    assert (_of(costs, Component.DISTILLATION).measured, _of(costs, Component.DISTILLATION).of) == (5, 8)
    assert not _of(costs, Component.DISTILLATION).complete
    assert not _of(costs, Component.INDEX_BUILD).complete
    assert costs.per_improvement(*OF_MEMORY) is None


@pytest.mark.parametrize("place", range(4))
def test_vrm_o06_what_was_done_again_is_paid_twice_and_counted_once(pair: Pair, place: int) -> None:
    """A crash between work and record: the driver that goes on does the work, and states it, again."""
    stated = _complete(pair)
    again = stated[place].model_copy(update={"statement": "the driver that went on"})
    whole, repeated = _costs(pair, stated), _costs(pair, [*stated, again])
    for before, after in zip(whole.components, repeated.components, strict=True):
        assert (before.measured, before.of) == (after.measured, after.of)
        paid = again.amount if before.component is again.component else 0
        assert after.amount == before.amount + paid


def test_vrm_o06_a_repetition_stands_for_nothing_that_was_not_measured(pair: Pair) -> None:
    """As many items as there are, of which some were stated twice and some never."""
    (first, *_) = _complete(pair)
    again = first.model_copy(update={"statement": "again"})
    costs = _costs(pair, [first, again])
    assert len(first.on) + len(again.on) >= _of(costs, Component.DISTILLATION).of
    assert not _of(costs, Component.DISTILLATION).complete
    assert costs.per_improvement(Component.DISTILLATION) is None


def test_vrm_o06_a_line_that_is_there_twice_is_one_cost(tmp_path: Path) -> None:
    book = CostBook(tmp_path / "costs.jsonl")
    book.state(_statement(Component.RETRIEVAL, 0.1, ["intent"]))
    book.path.write_bytes(book.path.read_bytes() * 2)
    assert [each.amount for each in book.read()] == [0.1]


def test_vrm_o06_lines_of_an_earlier_version_add_their_amount_and_cover_nothing(pair: Pair, tmp_path: Path) -> None:
    """Lines as they were written before a statement named itself and what it was spent on."""
    book = CostBook(tmp_path / "costs.jsonl")
    earlier = (
        f'{{"at":"{NOW}","namespace":"{SPACE}","component":"distillation","subject":"distil","amount":%s,'
        '"unit":"seconds","source":"wall_clock_of_the_driver","items":8}'
    )
    lines = [earlier % amount for amount in (1.5, 2.5, 2.5)]
    book.path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    book.state(_statement(Component.DISTILLATION, 4.0, ["item"]))
    read = book.read(SPACE)
    assert [each.amount for each in read] == [1.5, 2.5, 4.0], "a line that is there twice is one cost"
    assert [each.statement for each in read[:2]] == [sha256(line.encode()).hexdigest() for line in lines[:2]]
    found = _of(_costs(pair, read), Component.DISTILLATION)
    assert (found.amount, found.measured, found.of) == (8.0, 0, 8)


def test_vrm_o06_no_statement_changes_a_record(pair: Pair, tmp_path: Path) -> None:
    before = pair.stack.state()
    with Meter(CostBook(tmp_path / "costs"), SPACE, lambda: NOW).measured(Component.RETRIEVAL, "x"):
        pass
    assert pair.stack.state() == before


def test_statements_are_read_back_as_they_were_made(tmp_path: Path) -> None:
    book = CostBook(tmp_path / "costs.jsonl")
    assert book.read() == []
    made = [_statement(Component.RETRIEVAL, 0.1, ["a", "b"]), _statement(Component.INDEX_BUILD, 7, ["c"])]
    for each in made:
        book.state(each)
    with book.path.open("ab") as file:
        file.write(b'{"at": "cut sho\n{"component": "other"}\n')
    assert book.read(SPACE) == made
    assert book.read("another") == []


def test_a_block_that_fails_is_stated_too(tmp_path: Path) -> None:
    book = CostBook(tmp_path / "costs.jsonl")
    with pytest.raises(ZeroDivisionError), Meter(book, SPACE, lambda: NOW).measured(Component.DISTILLATION, "x"):
        _ = 1 / 0
    (found,) = book.read()
    assert (found.on, found.amount >= 0) == ((), True)


def test_a_statement_that_cannot_be_written_stops_nothing(tmp_path: Path) -> None:
    CostBook(tmp_path / "gone" / "costs.jsonl").state(_statement(Component.RETRIEVAL, 1))


@pytest.mark.parametrize("amount", [math.inf, math.nan, -1.0])
def test_an_amount_is_finite(amount: float) -> None:
    with pytest.raises(ValidationError):
        _statement(Component.RETRIEVAL, amount)


def test_costs_of_two_units_have_no_sum() -> None:
    with pytest.raises(ValueError, match="one unit"):
        per_improvement([], 1)
