"""What the work cost, told apart (VRM-O06): Effect telemetry beside the records, never inside them.

Rules kept here:

- a statement of cost is one line of a file in the installation's home, appended at once by whoever measured it. It is
  no record: no id, no canonical byte and no decision depends on it, and one that cannot be written stops nothing;
- what the Ledger says already is not stated again: prompt tokens are those of the contexts, the seconds of an
  experiment those of its Observation;
- every amount has its unit, its source, and of how many it was measured. A component of which something was not
  measured is incomplete, and no sum stands for what is missing;
- a statement has an identity of its own and names what it was spent on. What was done again after a crash is another
  cost, and adds to the amount; what it was spent on is counted once, however often, so a repetition never stands for
  something that nobody measured. A line that is there twice is one cost. A line of an earlier version, which names
  nothing, adds its amount and covers nothing;
- an amount is finite. A cost for each improvement is a tagged value, since there may be none (reference 1.3).
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from time import perf_counter
from typing import Annotated, Any, Final, Literal
from uuid import uuid4

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from memory.ports import Clock
from memory.trace.events import Event, event, tell
from records.canonical import digest_bytes
from records.fields import Name, Namespace, Timestamp


class Component(StrEnum):
    """What is paid for; experiments that made evidence are told beside what the specification names."""

    DISTILLATION = "distillation"
    INDEX_BUILD = "index_build"
    RETRIEVAL = "retrieval"
    PROMPT_TOKENS = "prompt_tokens"
    DOWNSTREAM_TASK = "downstream_task"
    EVIDENCE = "evidence"


class Unit(StrEnum):
    """In what it is paid."""

    SECONDS = "seconds"
    TOKENS = "tokens"


class Source(StrEnum):
    """Where an amount comes from."""

    WALL_CLOCK = "wall_clock_of_the_driver"
    OBSERVATION = "observation_times"
    TOKENIZER = "pinned_tokenizer"


UNITS: Final = {
    Component.DISTILLATION: (Unit.SECONDS, Source.WALL_CLOCK),
    Component.INDEX_BUILD: (Unit.SECONDS, Source.WALL_CLOCK),
    Component.RETRIEVAL: (Unit.SECONDS, Source.WALL_CLOCK),
    Component.PROMPT_TOKENS: (Unit.TOKENS, Source.TOKENIZER),
    Component.DOWNSTREAM_TASK: (Unit.SECONDS, Source.OBSERVATION),
    Component.EVIDENCE: (Unit.SECONDS, Source.OBSERVATION),
}
"""The unit and the source of each component."""

OF_MEMORY: Final = (Component.DISTILLATION, Component.INDEX_BUILD, Component.RETRIEVAL)
"""What memory costs in seconds, before and beside a decision."""


class _Stated(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class CostStatement(_Stated):
    """One measured cost.

    Attributes:
        statement: the identity of this cost; another piece of work is another one.
        subject: what the work was about: an id, or the operation's name.
        amount: in `unit`.
        on: the ids of the work items, builds or intents that it was spent on, and that got what they were to get.
    """

    statement: Name
    at: Timestamp
    namespace: Namespace
    component: Component
    subject: Name
    amount: Annotated[float, Field(ge=0)]
    unit: Unit
    source: Source
    on: tuple[Name, ...]


class ComponentCost(_Stated):
    """All of one component.

    Attributes:
        amount: the sum of what was measured.
        measured, of: how many of how many different things it was spent on were measured.
    """

    component: Component
    amount: Annotated[float, Field(ge=0)]
    unit: Unit
    source: Source
    measured: int
    of: int

    @property
    def complete(self) -> bool:
        """Whether everything was measured."""
        return self.measured >= self.of


class Finite(_Stated):
    """A cost for each improvement."""

    kind: Literal["finite"] = "finite"
    value: float


class PositiveInfinity(_Stated):
    """What there is to say where nothing was improved."""

    kind: Literal["positive_infinity"] = "positive_infinity"


PerImprovement = Finite | PositiveInfinity


def per_improvement(costs: Sequence[ComponentCost], improvements: int) -> PerImprovement | None:
    """Return the sum of components of one unit for each improvement; None where a component is incomplete.

    Raises:
        ValueError: the components have several units, or there is none.
    """
    if len({cost.unit for cost in costs}) != 1:
        raise ValueError("add costs of one unit, one or more")
    if not all(cost.complete for cost in costs):
        return None
    if improvements == 0:
        return PositiveInfinity()
    return Finite(value=sum(cost.amount for cost in costs) / improvements)


@dataclass(frozen=True)
class CostBook:
    """The statements of an installation: one file, to which every process appends whole lines."""

    path: Path

    def state(self, statement: CostStatement) -> None:
        """Append a statement; one that cannot be written is lost, and shows as not measured."""
        line = (statement.model_dump_json() + "\n").encode()
        with suppress(OSError):
            file = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
            try:
                os.write(file, line)
            finally:
                os.close(file)

    def read(self, namespace: str | None = None) -> list[CostStatement]:
        """Return the statements of a namespace, or all, in the order in which they were made.

        A line that is no statement, such as one that a full disk cut short, is left out, and so is one read before.
        """
        try:
            lines = self.path.read_bytes().splitlines()
        except FileNotFoundError:
            return []
        found = {each.statement: each for each in _statements(lines) if namespace in {None, each.namespace}}
        return list(found.values())


class _Counted(_Stated):
    """A statement of an earlier version: it had no identity, and said of how many things and not of which."""

    at: Timestamp
    namespace: Namespace
    component: Component
    subject: Name
    amount: Annotated[float, Field(ge=0)]
    unit: Unit
    source: Source
    items: Annotated[int, Field(ge=0)]


_STATEMENT: Final = TypeAdapter[CostStatement | _Counted](CostStatement | _Counted)


def _statements(lines: Iterable[bytes]) -> Iterator[CostStatement]:
    for line in lines:
        with suppress(ValidationError):
            read = _STATEMENT.validate_json(line)
            yield read if isinstance(read, CostStatement) else _named(read, line)


def _named(earlier: _Counted, line: bytes) -> CostStatement:
    """Return an earlier statement under the digest of its line; on what it was spent nobody knows any more."""
    return CostStatement(statement=digest_bytes(line), on=(), **earlier.model_dump(exclude={"items"}))


@dataclass
class Spent:
    """On what the time of a block was spent, as ids; the block says it when it knows."""

    on: Sequence[str] = ()


@dataclass(frozen=True)
class Meter:
    """Measures what one namespace is spent on."""

    book: CostBook
    namespace: str
    clock: Clock

    @contextmanager
    def measured(self, component: Component, subject: str) -> Iterator[Spent]:
        """State how long the block took, also if it fails; the block says on what it was spent."""
        spent, begun = Spent(), perf_counter()
        try:
            yield spent
        finally:
            unit, source = UNITS[component]
            statement = CostStatement(
                statement=uuid4().hex,
                at=self.clock(),
                namespace=self.namespace,
                component=component,
                subject=subject,
                amount=perf_counter() - begun,
                unit=unit,
                source=source,
                on=tuple(map(str, spent.on)),
            )
            self.book.state(statement)
            tell(lambda: [_told(statement)])


def _told(statement: CostStatement) -> Event:
    fields = statement.model_dump(mode="json", exclude={"at", "namespace", "on"})
    return event("cost.stated", statement.namespace, items=len(statement.on), **fields)


def stated(statements: Iterable[CostStatement], component: Component, wanted: Collection[str]) -> ComponentCost:
    """Return the sum of a component's statements, and how many of the things that it is to be spent on they name."""
    own = [each for each in statements if each.component is component]
    unit, source = UNITS[component]
    return ComponentCost(
        component=component,
        amount=sum(each.amount for each in own),
        unit=unit,
        source=source,
        measured=len({name for each in own for name in each.on}.intersection(wanted)),
        of=len(wanted),
    )


def as_json(costs: Iterable[ComponentCost]) -> list[dict[str, Any]]:
    """Return components as JSON values, each with whether it is complete."""
    return [cost.model_dump(mode="json") | {"complete": cost.complete} for cost in costs]
