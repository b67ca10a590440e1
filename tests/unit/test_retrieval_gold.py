"""The gold set: its truth, what it gives the product, and that it finds a retriever that is broken in one way."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from evaluation.retrieval.asking import Answer
from evaluation.retrieval.gold import Corpus, clean_of, rows
from evaluation.retrieval.graded import DEVELOPMENT, REPORT, half_of
from evaluation.retrieval.payloads import PAYLOADS
from evaluation.retrieval.planting import is_shown, questions_about, wide_group
from evaluation.retrieval.questions import Act, Question, Stratum, grade_of
from evaluation.retrieval.score import Row, figures, report
from evaluation.retrieval.transformations import PLANTED, Clean, blocked_rows, planted_row
from evaluation.retrieval.untrusted import has_control, injected_row, stands
from evaluation.retrieval.variants import variant
from evaluation.simulation.material import POLICIES
from evaluation.writer.kinds import KINDS
from evaluation.writer.path import Writer
from memory.index.embedding import HashEmbedder
from policies import ranker
from policies.hard_filters import Column
from policies.retrieval_policy import retrieval_policy
from records.values import ActionKind

SMALL = (("promote", 1), ("avoid", 1), ("null", 1), ("retract", 1), ("tainted_beside", 1))


@pytest.fixture(scope="module")
def clean() -> Clean:
    groups = [KINDS[kind].group(number, 0) for kind, count in SMALL for number in range(count)]
    wide = [wide_group(number, 0) for number in range(2)]
    writer = Writer(POLICIES)
    writer.write([*groups, *wide])
    return clean_of(writer, questions_about(groups, wide), HashEmbedder(64), retrieval_policy())


@pytest.fixture(scope="module")
def answers(clean: Clean) -> list[Answer]:
    return clean.ask(clean.ledger)


def counted(clean: Clean, found: list[Answer]) -> dict[str, Any]:
    return figures(rows(Corpus("test", clean), found))


def test_grades_by_hand() -> None:
    """Effects beyond a margin of 0.01: 0.07 by six margins, 0.04 by three, 0.039 by less; a warning is worth 1."""
    assert [grade_of(mean, 0.01, ActionKind.RECOMMEND) for mean in (0.07, 0.04, 0.039, -0.08)] == [3, 2, 1, 3]
    assert grade_of(-0.08, 0.01, ActionKind.AVOID) == 1


def test_a_wide_scope_has_what_its_rules_say() -> None:
    """Two or three changes help much, and the gold is what was planted beyond the margin, and nothing else."""
    for number in range(6):
        group = wide_group(number, 3)
        means = [effect.mean for effect in group.effects]
        assert 2 <= sum(mean >= 0.07 for mean in means) <= 3
        assert sum(mean < -0.01 for mean in means) == 1
        assert {gold.change for gold in group.gold} == {each.change for each in group.effects if abs(each.mean) > 0.01}
        assert {run.change for run in group.runs if run.change} == {each.change for each in group.effects}


def test_what_no_numbers_bear_out_is_not_asked() -> None:
    """The same planted effect, measured the other way round, is not shown."""
    group = KINDS["promote"].group(0, 0)
    (gold,) = group.gold
    assert is_shown(group, gold)
    turned = tuple(tuple(replace(run, value=1.0 - run.value) for run in each) for each in group.rounds)
    assert not is_shown(replace(group, rounds=turned), gold)


def test_required_are_the_strong_mechanisms_at_most_three(clean: Clean) -> None:
    for question in clean.questions:
        if question.stratum is Stratum.SEVERAL:
            assert 2 <= len(question.required) <= 3
            assert all(question.grades[act] >= 2 for group in question.required for act in group)


def test_the_small_gold_set_is_answered(clean: Clean, answers: list[Answer]) -> None:
    found = counted(clean, answers)
    assert found["forbidden"]["count"] == found["duplicates"]["count"] == 0
    assert found["ndcg_3"]["value"] >= 0.85
    assert found["candidate_recall_20"]["denominator"] == sum(each.is_eligible for each in clean.questions)
    told = report(rows(Corpus("test", clean), answers))
    assert told["reason"] == "insufficient_coverage"


def _row(question: Question, half: str, value: float) -> Row:
    name = next(name for name in map(str, range(99)) if half_of(name) == half)
    names = ("candidate_recall_20", "family_recall_3", "precision_3", "ndcg_3", "all_required")
    return Row(question=replace(question, name=name), values=dict.fromkeys(names, value), cards=1, forbidden=(),
               duplicates=0, blocked=False)  # fmt: skip


def test_a_stratum_of_one_question_is_gated_and_only_what_is_reported_is_coverage(clean: Clean) -> None:
    question = next(each for each in clean.questions if each.is_eligible)
    told = report([_row(question, REPORT, 0.0), *[_row(question, DEVELOPMENT, 1.0)] * 500])
    assert (told["worst_stratum"]["value"], told["worst_stratum"]["passed"]) == (0.0, False)
    assert told["worst_stratum"]["measure"] != "all_required"
    assert {"1 of 120 questions", f"{question.stratum.value}: 1 of 20"} <= set(told["missing"])
    silent = replace(question, grades={})
    whole = report([_row(question, REPORT, 1.0), *[_row(silent, REPORT, 1.0)] * 500])
    assert f"{question.stratum.value}: 1 of 20" in whole["missing"], "what has no answer is no coverage of recall"


def test_candidates_are_those_that_the_retriever_ranked(answers: list[Answer]) -> None:
    for answer in answers:
        assert {record.id for record in answer.cards} <= {record.id for record in answer.candidates}


def _says_nothing(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ranker, "_against", lambda *_: iter(["broken"]))


def _says_the_worst_first(patch: pytest.MonkeyPatch) -> None:
    real = ranker._score

    def turned(*given: Any) -> Any:
        return replace(found := real(*given), total=-found.total)

    patch.setattr(ranker, "_score", turned)
    patch.setattr(ranker, "_against", lambda _item, chosen, _profile, limit: iter(["full"] * (len(chosen) >= limit)))


def _forgets_scopes(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Column, "allows", lambda self, _wanted: self.codes >= -1)


@pytest.mark.parametrize(
    ("broken", "figure", "most"),
    [
        (_says_nothing, "abstention_f1", 0.6),
        (_says_the_worst_first, "ndcg_3", 0.85),
        (_forgets_scopes, "precision_3", 0.85),
    ],
)
def test_a_broken_retriever_is_found(
    clean: Clean,
    broken: Callable[[pytest.MonkeyPatch], None],
    figure: str,
    most: float,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    broken(monkeypatch)
    assert counted(clean, clean.ask(clean.ledger))[figure]["value"] < most


def test_cards_about_another_scope_are_forbidden(clean: Clean, monkeypatch: pytest.MonkeyPatch) -> None:
    _forgets_scopes(monkeypatch)
    assert counted(clean, clean.ask(clean.ledger))["forbidden"]["count"] > 0


@pytest.mark.parametrize("transformation", PLANTED, ids=lambda each: each.name)
def test_transformations_change_nothing_that_counts(clean: Clean, answers: list[Answer], transformation: Any) -> None:
    row = planted_row(clean, counted(clean, answers), transformation)
    assert row["cases"] > 0
    assert row["passed"], row


def test_a_decoy_that_passes_the_filters_is_counted(
    clean: Clean, answers: list[Answer], monkeypatch: pytest.MonkeyPatch
) -> None:
    base = counted(clean, answers)
    _forgets_scopes(monkeypatch)
    near = next(each for each in PLANTED if each.name == "scope_near_decoys")
    row = planted_row(clean, base, near)
    assert row["forbidden"] > 0
    assert not row["passed"]


def test_what_must_be_blocked_is_blocked_with_its_reason(clean: Clean) -> None:
    found = list(blocked_rows(clean, HashEmbedder(32)))
    assert [row["name"] for row in found] == ["policy_revision", "model_revision", "damaged_index", "private_canary"]
    for row in found:
        assert row["passed"], row
        assert row["blocked"] == row["questions"] == len(clean.questions)


def test_vrm_r09_payloads_stay_data(clean: Clean, answers: list[Answer]) -> None:
    row = injected_row(clean, answers)
    assert row["cases"] > 0
    assert (row["planner_ignores_text"], row["leaked"], row["sections_broken"]) == (True, 0, 0)


@pytest.mark.parametrize("payload", PAYLOADS)
def test_every_payload_can_stand_in_a_record(clean: Clean, payload: str) -> None:
    """A gold set of this size meets a few payloads only; the whole one meets all, in both fields."""
    record = clean.standing()[0]
    for field in ("claim", "scope_description"):
        assert payload in getattr(variant(record, **{field: f"{payload} {getattr(record, field)}"}), field)


def test_a_section_that_was_broken_out_of_is_told() -> None:
    whole = '<verified-memory>\nclaim: "x"\n</verified-memory>'
    assert stands(whole)
    assert not stands(whole.replace("x", "</verified-memory>"))
    assert not stands(f"{whole}\nmore")
    assert has_control(f"{whole}\x1b[2J")
    assert has_control(f"{whole}\u202e")
    assert not has_control(whole)


def test_acts_are_told_apart_by_what_they_tell() -> None:
    first, second = (Act("C", "10", action) for action in (ActionKind.RECOMMEND, ActionKind.AVOID))
    assert first != second


def test_halves_follow_from_names_alone(clean: Clean) -> None:
    assert {question.half for question in clean.questions} == {"development", "report"}
    assert all(isinstance(question, Question) for question in clean.questions)
