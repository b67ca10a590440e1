"""The records that are heads of their scope variants: which there are, which are asked for, how a list looks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from rich.console import Console
from rich.padding import Padding

from records.errors import AmbiguousIdError, InvalidInputError, NotFoundError
from records.knowledge import GovernedRecord, MemoryRecord
from records.procedures import ProcedureRecord
from records.values import ActionKind, Disposition, Grade
from store.ledger.port import LedgerReader
from vrm.cli.knowledge import words
from vrm.cli.output import short, show_title

NOUN: Final = GovernedRecord.kind.noun
KINDS: Final = ("semantic", "procedure")
_SHOWN: Final = 10
_GRADES: Final = tuple(Grade)


@dataclass(frozen=True, kw_only=True)
class Entry:
    """A rule or procedure with where its scope variant stands; `current` tells whether it is the variant's head."""

    record: GovernedRecord
    disposition: str
    current: bool

    def as_json(self) -> dict[str, Any]:
        """Return the record as JSON values, the payload as the Ledger holds it."""
        return {
            "id": str(self.record.id),
            "kind": self.record.record_kind,
            "disposition": self.disposition,
            "current": self.current,
            "claim": words.title(self.record),
            "record": self.record.as_json(),
        }


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """What is asked for; a filter that is None lets everything pass.

    Attributes:
        disposition: of the head; `active` where nothing else is said.
        scope: a part of the scope in words, or a beginning of its task scope's id.
        family: a beginning of the id of family or scope variant.
    """

    disposition: str | None = Disposition.ACTIVE.value
    grade: str | None = None
    kind: str | None = None
    action: str | None = None
    knob: str | None = None
    metric: str | None = None
    scope: str | None = None
    family: str | None = None

    def __post_init__(self) -> None:
        """Refuse a word that is none of the closed ones."""
        closed: dict[str, tuple[str | None, Iterable[str]]] = {
            "--disposition": (self.disposition, [each.value for each in Disposition]),
            "--grade": (self.grade, [each.value for each in Grade]),
            "--kind": (self.kind, KINDS),
            "--action": (self.action, [each.value for each in ActionKind]),
        }
        for option, (given, known) in closed.items():
            if given is not None and given not in known:
                raise InvalidInputError(option, given, f"It is one of: {', '.join(known)}.")

    def fits(self, entry: Entry) -> bool:
        """Tell whether an entry passes every filter but that of the disposition."""
        record = entry.record
        rule = record if isinstance(record, MemoryRecord) else None
        return (
            self.grade in {None, record.strength.grade.value}
            and self.kind in {None, record.record_kind}
            and self.action in {None, rule and rule.action.value}
            and self.knob in {None, rule and rule.target.knob.name}
            and self.metric in {None, words.metric_of(record)}
            and _begins(self.family, (record.family_id, record.scope_variant_id))
            and (
                self.scope is None
                or self.scope.lower() in record.scope_description.lower()
                or _begins(self.scope, (record.scope.task_scope_id,))
            )
        )


@dataclass(frozen=True, kw_only=True)
class Listing:
    """The entries asked for, and how many more only their disposition left out, by disposition."""

    entries: Sequence[Entry]
    left_out: dict[str, int] = field(default_factory=dict)


def _effect(entry: Entry) -> tuple[float, str]:
    record = entry.record
    size = abs(float(record.effect.mean_delta)) if isinstance(record, MemoryRecord) else -1.0
    return -size, str(record.id)


SORTS: Final[dict[str, Callable[[Entry], Any]]] = {
    "claim": lambda entry: (entry.record.namespace, words.title(entry.record), str(entry.record.id)),
    "effect": _effect,
    "grade": lambda entry: (-_GRADES.index(entry.record.strength.grade), *_effect(entry)),
}
"""The orders of a list: by words; by size of the mean effect, largest first; by grade, then by effect."""


def listing(reader: LedgerReader, namespace: str | None, wanted: Wanted, sort: str = "claim") -> Listing:
    """Return the heads that are asked for.

    Raises:
        NotFoundError: the namespace holds nothing.
        InvalidInputError: there is no such order.
    """
    if sort not in SORTS:
        raise InvalidInputError("--sort", sort, f"It is one of: {', '.join(SORTS)}.")
    fitting = [entry for name in namespaces(reader, namespace) for entry in _heads(reader, name) if wanted.fits(entry)]
    shown = [entry for entry in fitting if wanted.disposition in {None, entry.disposition}]
    left = Counter(entry.disposition for entry in fitting if wanted.disposition not in {None, entry.disposition})
    return Listing(entries=sorted(shown, key=SORTS[sort]), left_out=dict(sorted(left.items())))


def namespaces(reader: LedgerReader, namespace: str | None) -> list[str]:
    """Return the namespace asked for, or all.

    Raises:
        NotFoundError: it holds nothing.
    """
    known = reader.namespaces()
    if namespace is not None and namespace not in known:
        raise NotFoundError("namespace", namespace, f"Namespaces here: {', '.join(known) or 'none'}.")
    return known if namespace is None else [namespace]


def resolve(reader: LedgerReader, prefix: str) -> str:
    """Return the id of a rule or procedure by any unambiguous beginning, with or without the noun.

    Raises:
        InvalidInputError: the id is of another kind.
        NotFoundError: no record begins so.
        AmbiguousIdError: several records begin so.
    """
    noun, separator, digits = prefix.strip().lower().rpartition(":")
    if separator and noun != NOUN:
        raise InvalidInputError("id", prefix, f"Rules and procedures have ids of the form {NOUN}:3fa2….")
    if not digits:
        raise InvalidInputError("id", prefix, "Give at least one digit of the id.")
    return only("id", prefix, reader.resolve(f"{NOUN}:{digits}", _SHOWN))


def only(field_name: str, prefix: str, found: Sequence[str]) -> str:
    """Return the one id that was found.

    Raises:
        NotFoundError: there is none.
        AmbiguousIdError: there are several.
    """
    if not found:
        raise NotFoundError(field_name, prefix, "Nothing begins so; `vrm knowledge list --all` shows what there is.")
    if len(found) > 1:
        raise AmbiguousIdError(field_name, prefix, f"Give more digits: {', '.join(short(each) for each in found)}.")
    return found[0]


def show_listing(out: Console, found: Listing, *, by_default: bool) -> None:
    """Print entries, each as a block that reads at 80 columns, and what was left out."""
    for entry in found.entries:
        state = "" if entry.disposition == Disposition.ACTIVE.value else f" ({entry.disposition})"
        show_title(out, f"{words.digits(entry.record.id)}  {words.title(entry.record)}{state}")
        out.print(Padding(words.grid(_facts(entry.record)), (0, 0, 0, 2)))
    if not found.entries:
        out.print("No active rules." if by_default else "None.")
    left = sum(found.left_out.values())
    if by_default and left:
        counts = ", ".join(f"{count} {name}" for name, count in found.left_out.items())
        out.print(f"\n{left} more left out, being not active ({counts}); --all shows them.", markup=False)


def _facts(record: GovernedRecord) -> Iterable[tuple[str, str]]:
    yield "kind", record.record_kind
    match record:
        case MemoryRecord():
            yield "action", f"{record.action.value} {words.change(record.target.knob)}"
            yield "effect", "\n".join(words.effect_lines(record.effect))
        case ProcedureRecord():
            yield "steps", ", ".join(step.name for step in record.procedure.steps)
    strength = record.strength
    yield "grade", f"{strength.grade.value}, {strength.support_count} for and {strength.counter_count} against"
    yield "scope", record.scope_description


def _heads(reader: LedgerReader, namespace: str) -> list[Entry]:
    heads = reader.variant_heads(namespace).values()
    stored = reader.get_many([head.memory_id for head in heads])
    loaded = ((head, stored[head.memory_id].load()) for head in heads)
    return [
        Entry(record=record, disposition=head.disposition, current=True)
        for head, record in loaded
        if isinstance(record, GovernedRecord)
    ]


def _begins(prefix: str | None, ids: Iterable[str]) -> bool:
    if prefix is None:
        return True
    wanted = prefix.strip().lower()
    return any(str(each).startswith(wanted) or str(each).partition(":")[2].startswith(wanted) for each in ids)
