"""What every Ledger promises (store/ledger/port.py), checked on both adapters: journal, receipts, identity, reading."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from records.appends import Append, AppendReceipt
from records.errors import (
    FencedError,
    IdentityConflictError,
    IntegrityError,
    InvalidInputError,
    VrmError,
)
from records.flows import Authority, Transition
from store.ledger.port import Epoch, LedgerReader, LedgerStore, Request
from tests.support.decision_samples import sample_records
from tests.support.samples import baseline_records
from tests.support.stores import Writer, chained, evidence_append, fresh_namespace, granted
from tests.support.trials import make_contract, make_evidence


class TestJournal:
    def test_append_gets_positions_in_order_and_is_read_back(self, writer: Writer) -> None:
        records = make_evidence(writer.namespace)
        (receipt,) = writer.good(evidence_append(records))
        assert receipt.positions == (1, 2, 3, 4, 5, 6, 7, 8)
        assert receipt.record_ids == tuple(str(record.id) for record in records)
        for position, record in enumerate(records, start=1):
            stored = writer.store.get(record.id)
            assert stored is not None
            assert (stored.position, stored.payload) == (position, record.payload.decode())
            assert stored.load() == record

    def test_positions_are_gapless_and_chained_over_groups_with_failures(self, writer: Writer) -> None:
        good = [evidence_append(make_evidence(writer.namespace, seed=seed), f"k{seed}") for seed in range(3)]
        orphan = evidence_append(make_evidence(writer.namespace, seed=9)[2:3], "orphan")
        writer.commit(good[0], orphan, good[1])
        writer.commit(orphan, good[2])
        assert [row.position for row in writer.journal()] == list(range(1, 1 + len(writer.journal())))
        assert [row.chain_digest for row in writer.journal()] == chained(writer)
        assert writer.store.namespace_head(writer.namespace).chain_digest == chained(writer)[-1]

    def test_paging(self, writer: Writer) -> None:
        writer.good(evidence_append(make_evidence(writer.namespace)))
        pages = [writer.store.journal(writer.namespace, after=after, limit=3) for after in (0, 3, 6, 8)]
        assert [[row.position for row in page] for page in pages] == [[1, 2, 3], [4, 5, 6], [7, 8], []]

    def test_namespaces_have_journals_of_their_own(self, ledger: LedgerStore) -> None:
        one, two = Writer.claim(ledger), Writer.claim(ledger)
        one.good(evidence_append(make_evidence(one.namespace)), evidence_append(make_evidence(two.namespace)))
        assert [len(one.journal()), len(two.journal())] == [8, 8]
        assert two.journal()[0].position == 1
        assert {one.namespace, two.namespace} <= set(ledger.namespaces())

    def test_namespace_of_a_failed_append_holds_nothing(self, writer: Writer) -> None:
        (answer,) = writer.commit(evidence_append(make_evidence(writer.namespace)[3:4]))
        assert isinstance(answer, IntegrityError)
        assert writer.namespace not in writer.store.namespaces()
        assert writer.store.namespace_head(writer.namespace).position == 0

    def test_each_frontier_moves_with_its_kinds_only(self, writer: Writer) -> None:
        records = sample_records(writer.namespace)
        evidence = [*baseline_records(writer.namespace), *list(records.values())[1:8]]
        writer.good(evidence_append(evidence))
        head = writer.store.namespace_head(writer.namespace)
        assert (head.position, head.evidence, head.lifecycle, head.retention) == (15, 15, 0, 0)
        snapshot = (records["evidence-snapshot"], records["capture-operation"])
        writer.good(Append.direct(Transition.CAPTURE_SNAPSHOT, "capture", snapshot))
        assert writer.store.namespace_head(writer.namespace).evidence == 15
        rule = [records[noun] for noun in ("knowledge-candidate", "memory-record", "knowledge-lifecycle-event")]
        writer.good(granted(Transition.COMMIT_DISTILLATION, rule, "rule"))
        head = writer.store.namespace_head(writer.namespace)
        assert (head.position, head.evidence, head.lifecycle, head.retention) == (20, 15, 20, 0)


class TestIdentity:
    def test_same_permit_is_answered_with_the_first_receipt(self, writer: Writer) -> None:
        append = evidence_append(make_evidence(writer.namespace))
        assert writer.good(append) == writer.good(append) == writer.good(append)
        assert len(writer.journal()) == 8

    def test_twice_in_one_group(self, writer: Writer) -> None:
        append = evidence_append(make_evidence(writer.namespace))
        first, second = writer.good(append, append)
        assert first == second
        assert len(writer.journal()) == 8

    def test_same_permit_with_another_request_is_a_conflict(self, writer: Writer) -> None:
        writer.good(evidence_append(make_evidence(writer.namespace)))
        before = writer.state()
        (answer,) = writer.commit(evidence_append(make_evidence(writer.namespace, seed=1)))
        assert isinstance(answer, IdentityConflictError)
        assert writer.state() == before

    def test_same_records_under_another_permit_keep_their_positions(self, writer: Writer) -> None:
        records = make_evidence(writer.namespace)
        first, second = writer.good(evidence_append(records, "one"), evidence_append(records, "two"))
        assert first.positions == second.positions
        assert len(writer.journal()) == 8

    def test_same_id_with_other_bytes_is_a_conflict(self, writer: Writer) -> None:
        writer.good(evidence_append([make_contract(writer.namespace)], "one"))
        other = make_contract(writer.namespace, created_at="2026-01-01T00:00:00.000000Z")
        assert other.id == make_contract(writer.namespace).id
        before = writer.state()
        (answer,) = writer.commit(evidence_append([other], "two"))
        assert isinstance(answer, IdentityConflictError)
        assert writer.state() == before

    def test_another_time_under_the_same_key_gets_the_original_receipt(self, writer: Writer) -> None:
        (first,) = writer.good(evidence_append([make_contract(writer.namespace)], "one"))
        later = make_contract(writer.namespace, created_at="2026-01-01T00:00:00.000000Z")
        (second,) = writer.good(evidence_append([later], "one"))
        assert first == second


class TestRules:
    def test_a_bad_append_fails_alone_and_leaves_no_trace(self, writer: Writer) -> None:
        good = [evidence_append(make_evidence(writer.namespace, seed=seed), f"good-{seed}") for seed in (1, 2)]
        records = make_evidence(writer.namespace, seed=3)
        bad = evidence_append([*records[:5], records[7]], "bad")  # the experience points at what is not there
        answers = writer.commit(good[0], bad, good[1])
        assert [isinstance(answer, VrmError) for answer in answers] == [False, True, False]
        assert not writer.store.get_many(str(record.id) for record in records[2:])
        assert writer.store.receipt(writer.namespace, "bad") is None
        assert {row.permit_key for row in writer.journal()} == {"good-1", "good-2"}

    def test_foreign_key_into_nothing(self, writer: Writer) -> None:
        (answer,) = writer.commit(evidence_append(make_evidence(writer.namespace)[2:3]))
        assert isinstance(answer, IntegrityError)

    @pytest.mark.parametrize("warm", [False, True])
    def test_what_comes_first_in_a_group_does_not_rest_on_what_comes_later(self, writer: Writer, warm: bool) -> None:
        bundle = make_evidence(writer.namespace)
        if warm:  # the writer remembers its journal, and asks nothing
            writer.good(evidence_append(bundle[1:2], "hypothesis"))
        early, late = writer.commit(evidence_append(bundle[2:5], "early"), evidence_append(bundle, "late"))
        assert isinstance(early, IntegrityError)
        assert isinstance(late, AppendReceipt)
        assert [row.id for row in writer.journal() if row.permit_key == "late"] == [
            record.id for record in bundle if not warm or record != bundle[1]
        ]
        assert writer.store.receipt(writer.namespace, "early") is None

    def test_what_comes_first_in_an_append_does_not_rest_on_what_comes_later(self, writer: Writer) -> None:
        (answer,) = writer.commit(evidence_append(make_evidence(writer.namespace)[::-1]))
        assert isinstance(answer, IntegrityError)
        assert not writer.journal()

    def test_foreign_key_into_another_namespace(self, ledger: LedgerStore) -> None:
        one, two = Writer.claim(ledger), Writer.claim(ledger)
        one.good(evidence_append(make_evidence(one.namespace)))
        fields = dict(make_evidence(one.namespace)[2].as_json(), namespace=two.namespace)
        attempt = type(make_evidence(one.namespace)[2]).load(json.dumps(fields))
        (answer,) = two.commit(evidence_append([attempt]))
        assert isinstance(answer, IntegrityError)
        assert not two.journal()

    def test_child_rows_have_foreign_keys_too(self, writer: Writer) -> None:
        records = sample_records(writer.namespace)
        pair = (records["evidence-snapshot"], records["capture-operation"])
        (answer,) = writer.commit(Append.direct(Transition.CAPTURE_SNAPSHOT, "k", pair), guard=lambda _r, _a: None)
        assert isinstance(answer, IntegrityError)

    def test_record_of_another_namespace_is_refused(self, writer: Writer) -> None:
        foreign = make_contract(fresh_namespace())
        append = Append(
            namespace=writer.namespace,
            transition=Transition.APPEND_EVIDENCE,
            authority=Authority.DIRECT,
            permit_key="k",
            permit_digest="0" * 64,
            records=(foreign,),
        )
        (answer,) = writer.commit(append)
        assert isinstance(answer, IntegrityError)
        assert not writer.store.get(foreign.id)

    def test_uniqueness(self, writer: Writer) -> None:
        records = make_evidence(writer.namespace)
        experience = records[-1]
        rival = experience.model_copy(update={"analysis": "another reading of the same attempt"})
        assert rival.id != experience.id
        writer.good(evidence_append(records))
        (answer,) = writer.commit(evidence_append([rival], "rival"), guard=lambda _r, _a: None)
        assert isinstance(answer, IntegrityError)
        assert len(writer.journal()) == 8

    def test_authority_and_kinds_must_be_those_of_the_row(self, writer: Writer) -> None:
        contract = make_contract(writer.namespace)
        wrong_kind = Append.direct(Transition.LINK_ATTEMPT, "k", (contract,))
        wrong_authority = granted(Transition.APPEND_OUTCOME, [contract], "g", Authority.ADMISSION)
        for answer in writer.commit(wrong_kind, wrong_authority):
            assert isinstance(answer, InvalidInputError)
        assert not writer.journal()

    def test_incomplete_bundle_is_refused(self, writer: Writer) -> None:
        records = make_evidence(writer.namespace)
        other = make_evidence(writer.namespace, seed=5)
        mixed = [*records[:4], other[4], *records[5:]]
        (answer,) = writer.commit(evidence_append(mixed))
        assert isinstance(answer, VrmError)
        assert not writer.journal()


class TestOwnership:
    def test_stale_epoch_aborts_the_whole_group(self, writer: Writer) -> None:
        writer.store.claim(writer.epoch.resource, "successor")
        with pytest.raises(FencedError):
            writer.commit(*(evidence_append(make_evidence(writer.namespace, seed=s), f"k{s}") for s in range(2)))
        assert not writer.journal()

    def test_successor_goes_on_and_sees_what_was_there(self, writer: Writer) -> None:
        (first,) = writer.good(evidence_append(make_evidence(writer.namespace)))
        epoch = writer.store.claim(writer.epoch.resource, "successor")
        successor = Writer(writer.store, writer.namespace, epoch)
        assert successor.good(evidence_append(make_evidence(writer.namespace))) == [first]

    def test_unclaimed_resource_is_refused(self, writer: Writer) -> None:
        stranger = Writer(writer.store, writer.namespace, Epoch("nobody", 1))
        with pytest.raises(FencedError):
            stranger.commit(evidence_append(make_evidence(writer.namespace)))

    def test_every_fence_of_every_append_counts(self, writer: Writer) -> None:
        old = writer.store.claim(f"head/{writer.namespace}", "one")
        new = writer.store.claim(f"head/{writer.namespace}", "two")
        appends = []
        for number, epoch in enumerate((old, new)):
            plain = evidence_append(make_evidence(writer.namespace, seed=number), f"k{number}")
            appends.append(replace(plain, fences=((epoch.resource, epoch.number),)))
        assert isinstance(writer.commit(appends[1])[0], AppendReceipt)
        before = writer.state()
        with pytest.raises(FencedError):
            writer.commit(*appends)
        assert writer.state() == before

    def test_empty_group(self, writer: Writer) -> None:
        assert writer.commit() == []


class TestReading:
    def test_find_by_indexed_columns(self, writer: Writer) -> None:
        sets = [make_evidence(writer.namespace, seed=seed) for seed in range(3)]
        writer.good(*(evidence_append(records, f"k{n}") for n, records in enumerate(sets)))
        attempts = [str(records[2].id) for records in sets]
        find = writer.store.find
        assert [item.id for item in find("attempt", writer.namespace)] == attempts
        assert [item.id for item in find("attempt", writer.namespace, seed=1)] == attempts[1:2]
        assert [item.id for item in find("attempt", writer.namespace, seed=7)] == []
        both = {"hypothesis_id": str(sets[0][1].id), "corpus": "development"}
        assert [item.id for item in find("attempt", writer.namespace, **both)] == attempts
        some = [str(sets[2][2].id), str(sets[0][2].id)]
        assert [item.id for item in find("experience", writer.namespace, attempt_id=some)] == [
            str(sets[0][7].id),
            str(sets[2][7].id),
        ]
        assert find("attempt", writer.namespace, seed=[]) == []
        assert find("attempt", fresh_namespace()) == []

    def test_find_by_null(self, writer: Writer) -> None:
        records = make_evidence(writer.namespace)
        bare = records[7].model_copy(update={"verification_id": None})
        writer.good(evidence_append([*records[:7], bare]))
        assert len(writer.store.find("experience", writer.namespace, verification_id=None)) == 1
        assert writer.store.find("experience", writer.namespace, provenance_id=None) == []

    def test_unknown_column_is_a_misuse(self, writer: Writer) -> None:
        with pytest.raises(ValueError, match="no column"):
            writer.store.find("attempt", writer.namespace, colour="red")

    def test_get_many(self, writer: Writer) -> None:
        records = make_evidence(writer.namespace)
        writer.good(evidence_append(records))
        ids = [str(record.id) for record in records]
        found = writer.store.get_many([*ids, "attempt:" + "0" * 64, "nonsense", "no-such-noun:" + "0" * 64])
        assert set(found) == set(ids)
        assert writer.store.get("attempt:" + "0" * 64) is None

    def test_resolve(self, writer: Writer) -> None:
        records = make_evidence(writer.namespace)
        writer.good(evidence_append(records))
        attempt = str(records[2].id)
        assert writer.store.resolve(attempt) == [attempt]
        assert writer.store.resolve(attempt[:20]) == [attempt]
        assert writer.store.resolve(attempt.split(":")[1][:12]) == [attempt]
        assert writer.store.resolve("attempt:", limit=1)[0].startswith("attempt:")
        mixed = writer.store.resolve("e", limit=1000)
        assert mixed == sorted(mixed)
        for bad in ("", "%", "attempt:_", "A", "x' OR 1"):
            with pytest.raises(InvalidInputError):
                writer.store.resolve(bad)

    def test_receipts(self, writer: Writer) -> None:
        (receipt,) = writer.good(evidence_append(make_evidence(writer.namespace), "mine"))
        assert writer.store.receipt(writer.namespace, "mine") == receipt
        assert writer.store.receipt(fresh_namespace(), "mine") is None
        assert writer.store.receipts(writer.namespace, ["mine", "other"]) == {"mine": receipt}

    def test_reading_is_of_one_moment(self, writer: Writer) -> None:
        writer.good(evidence_append(make_evidence(writer.namespace)))
        with writer.store.reading() as reader:
            head = reader.namespace_head(writer.namespace)
            assert len(reader.journal(writer.namespace)) == head.position
            assert reader.receipt(writer.namespace, "import-1") is not None

    def test_table_counts(self, writer: Writer) -> None:
        before = dict(writer.store.table_counts())
        writer.good(evidence_append(make_evidence(writer.namespace)))
        after = writer.store.table_counts()
        nouns = {record.kind.noun for record in make_evidence(writer.namespace)}
        assert {noun: after[noun] - before.get(noun, 0) for noun in nouns} == dict.fromkeys(nouns, 1)

    def test_tally(self, writer: Writer) -> None:
        before = dict(writer.store.tally("attempt", "corpus", "seed"))
        for seed in (4, 4, 5):
            writer.good(evidence_append(make_evidence(writer.namespace, seed=seed), f"k{seed}"))
        after = writer.store.tally("attempt", "corpus", "seed")
        more = {key: after[key] - before.get(key, 0) for key in after if after[key] != before.get(key, 0)}
        assert more == {("development", "4"): 1, ("development", "5"): 1}
        assert sum(writer.store.tally("attempt", "corpus").values()) == writer.store.table_counts()["attempt"]
        for columns in ((), ("payload",), ("corpus", "nothing")):
            with pytest.raises(ValueError, match="no columns"):
                writer.store.tally("attempt", *columns)

    def test_guard_sees_the_state_inside_the_transaction(self, writer: Writer) -> None:
        seen: list[int] = []

        def guard(reader: LedgerReader, append: Append) -> None:
            seen.append(reader.namespace_head(append.namespace).evidence)

        appends = [evidence_append(make_evidence(writer.namespace, seed=seed), f"k{seed}") for seed in range(2)]
        writer.store.commit(writer.epoch, [Request(append, guard) for append in appends])
        assert seen == [0, 8]
