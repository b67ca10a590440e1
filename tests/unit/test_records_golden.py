"""Golden vectors (tests/golden): ids and bytes recomputed by the second canonicaliser, texts kept for review."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

import records.claim_traces
import records.conflicts
import records.decisions
import records.evidence
import records.ids
import records.ingestion
import records.knowledge
import records.legacy
import records.lineage
import records.outcomes
import records.procedures
import records.reference
import records.retention
import records.snapshots
import records.workspace  # noqa: F401  # the imports fill both registries
from records.base import KINDS, load_record
from records.decisions import Card, RecallRequest
from records.models import Id
from tests.golden.material import FILES, FOLDER
from tests.support.second_canonicaliser import canonicalise, derive

RECORDS: dict[str, Any] = json.loads((FOLDER / "records.json").read_text(encoding="utf-8"))
IDS: dict[str, Any] = json.loads((FOLDER / "ids.json").read_text(encoding="utf-8"))
CARDS: dict[str, Any] = json.loads((FOLDER / "cards.json").read_text(encoding="utf-8"))

# What identities leave out, written down a second time (spec 9; the rest is in every identity).
OUTSIDE = {
    "observation": {"started_at", "completed_at"},
    "memory-record": {"candidate_id"},
    "decision-recall-context": {"filtered", "candidates"},
    "no-commit-receipt": {"detail"},
    "distillation-commit-conflict": {"detail"},
    "memory-index-failure": {"detail"},
    "claim-trace": {"latency_us"},
}


def test_every_noun_has_a_vector() -> None:
    nouns = {name.partition("/")[0] for name in RECORDS}
    assert nouns == set(KINDS)
    assert nouns | set(IDS) == set(Id.classes)
    assert not nouns & set(IDS)


def test_every_variant_has_a_vector() -> None:
    shown = {type(load_record(name.partition("/")[0], vector["canonical"])) for name, vector in RECORDS.items()}
    assert {model for kind in KINDS.values() for model in kind.variants.values()} <= shown


@pytest.mark.parametrize("name", sorted(RECORDS))
def test_record_vector(name: str) -> None:
    vector, noun = RECORDS[name], name.partition("/")[0]
    payload = canonicalise(vector["payload"])
    assert payload.decode() == vector["canonical"]
    assert hashlib.sha256(payload).hexdigest() == vector["payload_digest"]
    left_out = {"created_at"} | OUTSIDE.get(noun, set())
    projection = {key: value for key, value in vector["payload"].items() if key not in left_out}
    assert derive(noun, projection) == vector["id"]
    assert vector["payload"]["namespace"] == ("legacy_unscoped" if noun.startswith("legacy-") else "test")
    record = load_record(noun, vector["canonical"])
    assert (str(record.id), record.payload) == (vector["id"], payload)


@pytest.mark.parametrize("noun", sorted(IDS))
def test_id_vector(noun: str) -> None:
    vector = IDS[noun]
    assert derive(noun, vector["projection"]) == vector["id"]
    assert Id.classes[noun].derive(vector["projection"]) == vector["id"]
    assert Id.classes[noun].check(vector["id"]).noun == noun


@pytest.mark.parametrize("kind", sorted(CARDS["cards"]))
def test_card_vector(kind: str) -> None:
    """The id covers the whole card, and the kind of source says which card it is."""
    vector = CARDS["cards"][kind]
    read = json.loads(vector["canonical"])
    assert canonicalise(read).decode() == vector["canonical"]
    assert derive("evidence-card", read) == vector["id"]
    card = TypeAdapter(Card).validate_json(vector["canonical"])
    assert (card.source_kind, str(card.card_id)) == (kind, vector["id"])


@pytest.mark.parametrize(
    "name", ["memory_id", "family_id", "scope_variant_id", "event_id", "disposition", "as_of_position"]
)
def test_an_episodic_card_cannot_pass_for_knowledge(name: str) -> None:
    """Spec 9.6: what a memory card must have is null and forbidden; and a memory card must have it."""
    own = json.loads(CARDS["cards"]["episodic"]["canonical"])
    memory = json.loads(CARDS["cards"]["procedure"]["canonical"])
    assert own[name] is None
    for kind, value in ((own, memory[name]), (memory, None)):
        with pytest.raises(ValidationError, match=name):
            TypeAdapter(Card).validate_json(json.dumps(kind | {name: value}))


def test_a_request_that_does_not_ask_is_as_it_was() -> None:
    plain, full = (json.loads(CARDS["requests"][name]["canonical"]) for name in ("plain", "full"))
    assert full.keys() - plain.keys() == {"situation", "tools", "failure_signature"}
    for name in ("plain", "full"):
        vector = CARDS["requests"][name]
        assert RecallRequest.load(vector["canonical"]).canonical_digest == vector["digest"]
        assert hashlib.sha256(vector["canonical"].encode()).hexdigest() == vector["digest"]


@pytest.mark.parametrize("name", sorted(FILES))
def test_golden_text(name: str) -> None:
    """A difference is a changed identity, table, flow or arrow: review it, then run tests.golden.rewrite."""
    assert FILES[name]() == (FOLDER / name).read_text(encoding="utf-8")


def test_knob_values_as_ecmascript_writes_them() -> None:
    texts = [text for _, text in json.loads((FOLDER / "values.json").read_text(encoding="utf-8"))]
    assert texts == ['"none"', "1", "1", "0.1", "0.00001", "1e+21", "true", "null", "0", '"é"', '[3,"b"]']
