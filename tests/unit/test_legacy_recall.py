"""The earlier gate and ranker against the published phase-3 ledgers: every decision, id, score and place again."""

from __future__ import annotations

import json
import zipfile
from dataclasses import replace
from typing import Any

import pytest

from policies.legacy_gate import (
    LegacyDecision,
    LegacyExperience,
    LegacyGate,
    LegacyKnowledge,
    LegacyOutcome,
    LegacyRefusal,
    LegacyVerification,
    confidence,
)
from policies.legacy_ranker import LegacyRequest, legacy_recall, token_count, words_of
from tests.data.legacy import BUNDLE

SCOPE = ("task_id", "domain", "dataset_id", "model_family", "query", "max_items", "token_budget", "include_negative",
         "cross_task")  # fmt: skip


def ledgers() -> dict[str, dict[str, list[dict[str, Any]]]]:
    """Return the published ledgers by path, each list in the order of its times; the standard library alone reads."""
    with zipfile.ZipFile(BUNDLE) as packed:
        found = {
            name: json.loads(packed.read(name)) for name in packed.namelist() if name.endswith("/ledger_evidence.json")
        }
    return {
        name: {key: sorted(records, key=lambda each: each["created_at"]) for key, records in lists.items()}
        for name, lists in found.items()
    }


def experiences(lists: dict[str, list[dict[str, Any]]]) -> list[LegacyExperience]:
    """Return the trials of a ledger; what it publishes of no record (exit codes) is what a completed one has.

    The id of an experience and its prose are published in the lesson alone; one without a lesson is named by its
    observation.
    """
    lessons = {each["created_at"]: each for each in lists["knowledge_records"]}
    first, known = lists["knowledge_records"][0], set[str]()
    made = []
    for found in lists["verification_records"]:
        lesson = lessons.get(found["created_at"])
        own = sorted(set(lesson["source_experience_ids"]) - known) if lesson else [found["observation_id"]]
        known |= set(own)
        (key,) = own
        verification = LegacyVerification(
            valid=found["valid"],
            passed=found["passed"],
            outcome=LegacyOutcome(found["outcome"]),
            comparison=found["baseline_comparison"],
        )
        made.append(
            LegacyExperience(
                experience_id=key,
                task_id=first["task_id"],
                dataset_id=first["dataset_id"],
                status="completed",
                exit_code=0,
                artifacts=tuple(each["sha256"] for each in found["evidence_refs"]),
                verification=verification,
                lesson=lesson["lesson"] if lesson else "A lesson that was never written.",
                conditions=tuple(first["conditions"]),
                created_at=found["created_at"],
            )
        )
    return made


def decided(lists: dict[str, list[dict[str, Any]]]) -> list[LegacyDecision]:
    """Let the gate decide about a ledger."""
    first = lists["knowledge_records"][0]
    return LegacyGate(domain=first["domain"], model_family=first["model_family"]).fold(experiences(lists))


def test_the_gate_promotes_32_of_34_with_the_published_ids_and_confidences() -> None:
    found = {name: decided(lists) for name, lists in ledgers().items()}
    every = [each for decisions in found.values() for each in decisions]
    assert (len(every), sum(each.accepted for each in every)) == (34, 32)
    for name, lists in ledgers().items():
        made = [each.knowledge for each in found[name] if each.knowledge is not None]
        assert [each.knowledge_id for each in made] == [each["knowledge_id"] for each in lists["knowledge_records"]]
        assert [each.confidence for each in made] == [each["confidence"] for each in lists["knowledge_records"]]


def test_what_it_refused_is_a_timeout_and_the_one_success_after_a_failure() -> None:
    refused = {
        (name.split("/")[-4], name.split("/")[-3], name.split("/")[-2]): each.reasons
        for name, lists in ledgers().items()
        for each in decided(lists)
        if not each.accepted
    }
    assert refused == {
        ("exphormer:task1", "closed-loop", "seed-202"): ("invalid_verification", "non_reusable_outcome"),
        ("immiscible_diffusion:task1", "off", "seed-303"): ("contradictory_verified_experience",),
    }


def test_every_published_recall_context_is_computed_again() -> None:
    contexts, items, relevance = 0, 0, []
    for lists in ledgers().values():
        lessons = [each.knowledge for each in decided(lists) if each.knowledge is not None]
        for published in lists["recall_contexts"]:
            known = [each for each in lessons if each.created_at < published["created_at"]]
            asked = LegacyRequest(**{name: published["request"][name] for name in SCOPE})
            found = legacy_recall(asked, known)
            assert [each.knowledge.knowledge_id for each in found] == [
                each["knowledge_id"] for each in published["items"]
            ]
            for each, item in zip(found, published["items"], strict=True):
                assert each.score == item["score"]
                assert each.breakdown == item["score_breakdown"]
                assert each.token_count == item["token_count"]
            assert sum(each.token_count for each in found) == published["token_count"]
            contexts, items = contexts + 1, items + len(found)
            relevance += [each.breakdown["relevance"] for each in found]
    assert (contexts, items) == (17, 8)
    assert (round(min(relevance), 3), round(max(relevance), 3)) == (0.025, 0.114)


GOOD = LegacyExperience(
    experience_id="e",
    task_id="t",
    dataset_id="d",
    status="completed",
    exit_code=0,
    artifacts=("a" * 64,),
    verification=LegacyVerification(
        valid=True,
        passed=True,
        outcome=LegacyOutcome.POSITIVE,
        comparison={"metric": "m", "baseline": 0.5, "value": 0.6, "delta": 0.1, "direction": "maximize"},
    ),
    lesson="Scaling helps.",
    conditions=("fixed seed",),
    created_at="2026-07-25T17:35:23.882071Z",
)


def seen(**changes: Any) -> LegacyVerification:
    """Return the verification of `GOOD`, changed."""
    assert GOOD.verification is not None
    return replace(GOOD.verification, **changes)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"verification": None}, "missing_verification"),
        ({"status": "failed"}, "attempt_not_completed:failed"),
        ({"exit_code": 3}, "observation_exit_code:3"),
        ({"verification": seen(valid=False)}, "invalid_verification"),
        ({"verification": seen(outcome=LegacyOutcome.NEUTRAL)}, "non_reusable_outcome"),
        ({"verification": seen(passed=False)}, "inconsistent_positive_outcome"),
        ({"verification": seen(outcome=LegacyOutcome.NEGATIVE)}, "inconsistent_negative_outcome"),
        ({"verification": seen(comparison={"metric": "m"})}, "incomplete_baseline_comparison"),
        ({"artifacts": ()}, "missing_evidence_artifacts"),
        ({"artifacts": ("a" * 64, "short")}, "invalid_artifact_digest"),
        ({"lesson": " \n"}, "missing_lesson"),
        ({"conditions": ()}, "missing_conditions"),
    ],
)
def test_each_reason_alone(changes: dict[str, Any], reason: str) -> None:
    gate = LegacyGate(domain="x", model_family="y")
    assert gate.decide(GOOD, []).reasons == ("eligible_verified_experience",)
    assert gate.decide(replace(GOOD, **changes), []).reasons == (reason,)
    assert reason.split(":", maxsplit=1)[0] in set(LegacyRefusal)


def test_any_earlier_failure_on_the_task_refuses_a_success_and_others_do_not() -> None:
    gate = LegacyGate(domain="x", model_family="y")
    failed = replace(GOOD, experience_id="f", verification=seen(outcome=LegacyOutcome.NEGATIVE, passed=False))
    assert gate.decide(GOOD, [failed]).reasons == ("contradictory_verified_experience",)
    assert gate.decide(GOOD, [replace(failed, task_id="another")]).accepted


def test_confidence_counts_outcomes_and_stops_short_of_certainty() -> None:
    assert [confidence(same) for same in range(5)] == [0.7, 0.8, 0.9, 0.99, 0.99]


def lesson(key: str, text: str, **changes: Any) -> LegacyKnowledge:
    """Return a lesson."""
    made = LegacyGate(domain="x", model_family="y").decide(replace(GOOD, lesson=text), []).knowledge
    assert made is not None
    return replace(made, knowledge_id=key, **changes)


ASKED = LegacyRequest(task_id="t", domain="x", dataset_id="d", model_family="y", query="scaling the inputs helps")


def test_ties_go_by_id_and_a_repetition_falls_behind_what_is_new() -> None:
    """By hand: all three share 2 of 6 words with the query; after `a`, `b` loses 0.1 of 2/4 and `c` of 1/5."""
    found = legacy_recall(
        ASKED, [lesson("b", "scaling helps"), lesson("a", "scaling helps"), lesson("c", "scaling inputs")]
    )
    assert [each.knowledge.knowledge_id for each in found] == ["a", "c", "b"]
    assert found[2].breakdown["redundancy"] == -0.5  # of scaling, helps, fixed, seed two are shared


def test_a_lesson_that_exceeds_what_is_left_is_passed_over() -> None:
    long, short = lesson("a", "scaling helps " * 100), lesson("b", "scaling")
    found = legacy_recall(replace(ASKED, token_budget=10), [long, short])
    assert [each.knowledge.knowledge_id for each in found] == ["b"]
    assert legacy_recall(replace(ASKED, token_budget=0), [short]) == ()
    assert legacy_recall(replace(ASKED, max_items=0), [short]) == ()


@pytest.mark.parametrize("changes", [{"task_id": "u"}, {"domain": "u"}, {"dataset_id": "u"}, {"model_family": "u"}])
def test_scope_is_letter_by_letter(changes: dict[str, Any]) -> None:
    assert legacy_recall(replace(ASKED, **changes), [lesson("a", "scaling")]) == ()
    across = replace(ASKED, cross_task=True, **changes)
    assert len(legacy_recall(across, [lesson("a", "scaling")])) == ("task_id" in changes)


def test_negative_lessons_can_be_left_out() -> None:
    bad = lesson("a", "scaling", outcome=LegacyOutcome.NEGATIVE)
    assert legacy_recall(replace(ASKED, include_negative=False), [bad]) == ()


def test_words_and_tokens() -> None:
    assert words_of("A d-Regular, x self-loop_1 é ée") == {"d-regular", "self-loop_1", "ée"}
    assert [token_count(text) for text in ("", "abcd", "abcde", "é" * 2)] == [1, 1, 2, 1]
