"""The chains of revisions lead to the definitions, one step at a time, in words that a person can read."""

from __future__ import annotations

import pytest

from store.migrations.chain import LEDGER, RUNTIME, Chain
from tests.support.old_stores import FOLDERS

CHAINS = pytest.mark.parametrize("chain", [LEDGER, RUNTIME], ids=["ledger", "runtime"])


@CHAINS
def test_the_last_revision_is_the_definition(chain: Chain) -> None:
    definition = chain.definition
    assert chain.head == definition.revision
    recorded = chain.digest(chain.head)
    assert recorded == definition.digest, (
        "The definition has changed since the last revision. If stores of that revision exist, write the next one "
        "(store/migrations/README.md); if it is still being written, its `definition_digest` is now "
        f"{definition.digest}."
    )


@CHAINS
def test_revisions_are_numbered_without_a_gap(chain: Chain) -> None:
    steps = chain.after("base")
    assert [step.revision for step in steps] == [str(number) for number in range(1, len(steps) + 1)]
    for step in steps:
        assert step.what.endswith(".")
        assert "\n" not in step.what


@CHAINS
def test_an_unknown_revision_has_no_digest(chain: Chain) -> None:
    assert chain.digest("99") is None


def test_a_store_is_kept_of_every_revision_before_the_last() -> None:
    last = max(int(chain.head) for chain in (LEDGER, RUNTIME))
    assert set(range(1, last)) <= set(FOLDERS)
