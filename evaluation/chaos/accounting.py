"""What is due, what is there, and so what is lost and what is doubled.

A unit is something of which there must be one, such as the outcome of an intent; its name says of what and whose. What
is due follows from what the driver asked for and what it was told; besides, every grant owes its answer and its
settlement. What is there is counted in the tables themselves. Lost is what is due and not there; doubled is what is
there more often than it is due, once included where nothing is due.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from records.appends import AppendReceipt
from records.canonical import digest_bytes
from records.states import Machine
from store.database import connect, own_sql, translated
from store.runtime.schema import table_name

if TYPE_CHECKING:
    from store.server import DatabaseUrls


class Unit(NamedTuple):
    """Something of which there must be one.

    Attributes:
        what: the kind, such as `outcome`.
        whose: the id of what it belongs to, such as an intent's.
    """

    what: str
    whose: str


@dataclass(frozen=True)
class Balance:
    """What is wrong, unit by unit; a unit that is there three times is doubled twice."""

    lost: tuple[Unit, ...]
    doubled: tuple[Unit, ...]


_OF_ITEMS: Final = """
    SELECT item.experience_id FROM ledger.{table} AS each
    JOIN ledger.distillation_work_items AS item ON item.id = each.work_item_id
"""
_LEDGER: Final = {
    "intent": "SELECT id FROM ledger.ledger_commits_v1 WHERE noun = 'decision-intent'",
    "context": "SELECT intent_id FROM ledger.decision_recall_contexts",
    "outcome": "SELECT intent_id FROM ledger.recall_decision_outcomes",
    "experience": "SELECT id FROM ledger.ledger_commits_v1 WHERE noun = 'experience'",
    "receipt": "SELECT experience_id FROM ledger.experience_distillation_receipts",
    "item": "SELECT experience_id FROM ledger.distillation_work_items",
    "sidecar": _OF_ITEMS.format(table="enqueue_transactions"),
    "assignment": _OF_ITEMS.format(table="distillation_work_assignments"),
    "batch": _OF_ITEMS.format(table="distillation_batches"),
    "completion": _OF_ITEMS.format(table="distillation_work_completions"),
    "answer": "SELECT permit_key FROM ledger.append_receipts WHERE starts_with(permit_key, 'authorization:')",
}
"""By kind of unit, whose each one is that the Ledger holds."""
_ENDED: Final = "FROM runtime.runs WHERE phase IN ('COMPLETED', 'CANCELLED', 'FAILED') AND body::jsonb ->> 'run_kind'"
_RUNTIME: Final = {
    "end of a run": f"SELECT id {_ENDED} = 'SCIENTIFIC'",
    "closed decision": "SELECT id FROM runtime.decisions WHERE phase = 'OUTCOME_COMMITTED'",
    "settlement": "SELECT id FROM runtime.authorizations WHERE phase IN ('COMMITTED', 'RETIRED_NO_COMMIT')",
}
"""Likewise what the Runtime holds."""
_CAMPAIGNS: Final = f"SELECT body::jsonb ->> 'admission_key' {_ENDED} = 'MEMORY_DISTILLATION'"
_ITEMS: Final = "SELECT id, experience_id FROM ledger.distillation_work_items"
_GRANTS: Final = "SELECT id FROM runtime.authorizations"
_APPENDED: Final = (
    "SELECT (SELECT count(*) FROM ledger.ledger_commits_v1), (SELECT count(*) FROM ledger.append_receipts)"
)
_MOVED: Final = "SELECT coalesce(sum(version), 0) FROM runtime.{table}"
_TOLD: Final = "SELECT permit_key, receipt FROM ledger.append_receipts WHERE permit_key = ANY(%s)"

OF_A_DECISION: Final = ("intent", "outcome", "closed decision")
"""What every decision owes; one that got a context owes that as well."""
OF_AN_EXPERIENCE: Final = (
    "experience", "receipt", "item", "sidecar", "assignment", "batch", "completion", "end of a campaign",
)  # fmt: skip
"""What every experience that is to be distilled owes."""


def balance(due: Mapping[Unit, int], there: Mapping[Unit, int]) -> Balance:
    """Compare what is due with what is there."""
    lost, doubled = Counter(due) - Counter(there), Counter(there) - Counter(due)
    return Balance(tuple(sorted(lost.elements())), tuple(sorted(doubled.elements())))


def due_of(
    urls: DatabaseUrls, asked: Iterable[Unit], receipts: Mapping[str, AppendReceipt], grants: Iterable[str]
) -> Counter[Unit]:
    """Return what is due: what was asked for, every receipt as it was told, and what every grant owes.

    Grants are those that were told and those that the Runtime has besides: their reply may have been lost.
    """
    due = Counter(asked)
    due.update(_told(key, receipt.canonical) for key, receipt in receipts.items())
    every = {*grants, *(str(key) for (key,) in _rows(urls.runtime_app, _GRANTS))}
    due.update(Unit(what, key) for key in every for what in ("answer", "settlement"))
    return due


def there_is(urls: DatabaseUrls, permits: Iterable[str]) -> Counter[Unit]:
    """Count what the stores hold, and of direct appends those receipts whose `permits` are given."""
    held: Counter[Unit] = Counter()
    for dsn, statements in ((urls.ledger_app, _LEDGER), (urls.runtime_app, _RUNTIME)):
        for what, statement in statements.items():
            held.update(Unit(what, str(whose)) for (whose,) in _rows(dsn, statement))
    items = {str(item): str(experience) for item, experience in _rows(urls.ledger_app, _ITEMS)}
    campaigns = (str(key) for (key,) in _rows(urls.runtime_app, _CAMPAIGNS))
    held.update(Unit("end of a campaign", items.get(key, key)) for key in campaigns)
    told = _rows(urls.ledger_app, _TOLD, [sorted(permits)])
    held.update(_told(str(key), str(receipt).encode()) for key, receipt in told)
    return held


def written(urls: DatabaseUrls) -> tuple[int, ...]:
    """Return numbers that rise with whatever is written in either store, ownership apart."""
    rows = [*_rows(urls.ledger_app, _APPENDED)]
    for machine in Machine:
        rows += _rows(urls.runtime_app, _MOVED.format(table=table_name(machine)))
    return tuple(int(str(number)) for row in rows for number in row)


def _told(key: str, receipt: bytes) -> Unit:
    return Unit("receipt as told", f"{key} {digest_bytes(receipt)[:12]}")


def _rows(dsn: str, statement: str, parameters: Iterable[object] = ()) -> Iterator[tuple[object, ...]]:
    with connect(dsn, "chaos accounts") as link, translated("accounts"):
        return iter(link.execute(own_sql(statement), list(parameters)).fetchall())
