"""What is remembered of a report: kinds, texts, files, and a metric that is declared and never guessed."""

from __future__ import annotations

from importlib.resources import files
from typing import Any

import pytest

from policies.lineage.consolidation import HEADLINE, Consolidation, ReportWords, consolidate
from policies.lineage.policy import (
    ConsolidationPolicy,
    HeadlineMetric,
    consolidation_policy,
    headline_metric,
)
from policies.loading import load_policy
from records.errors import InvalidInputError
from records.lineage import (
    EntryIntegrity,
    EntryKind,
    EvaluationStatus,
    NodeMetric,
    NodeStatus,
    NotFinite,
    NotFiniteMetric,
    Statement,
)
from records.values import Direction
from tests.support.lineage_samples import make_artifact, make_report

POLICY = consolidation_policy()
TEXT = files("policies").joinpath("files/lineage-consolidation-v1.yaml").read_text(encoding="utf-8")
DECLARED = HeadlineMetric(name="accuracy", unit="share", direction=Direction.MAXIMIZE)
WORDS = ReportWords(headline="Accuracy reaches 0.93.", evaluator_reason="within tolerance")


def consolidated(
    words: ReportWords = WORDS, declared: HeadlineMetric | None = DECLARED, **fields: Any
) -> Consolidation:
    return consolidate(make_report(**fields), words, declared, POLICY)


def only(found: Consolidation) -> Statement:
    (entry,) = found.entries
    return entry


def facts(entry: Statement) -> dict[str, str]:
    return {each.name: each.value for each in entry.attributes}


def test_a_node_that_succeeded_and_measured_leaves_a_result() -> None:
    entry = only(consolidated())
    assert (entry.entry_kind, entry.text) == (EntryKind.EXPERIMENT_RESULT, "Accuracy reaches 0.93.")
    assert entry.metric is not None
    assert (entry.metric.name, entry.metric.value, entry.metric.unit, entry.metric.direction) == (
        "accuracy", "0.93", "share", Direction.MAXIMIZE,
    )  # fmt: skip
    report = make_report()
    assert entry.report_ref is not None
    assert (entry.report_ref.run_id, entry.report_ref.node_id) == (report.checkpoint_id, report.node_id)
    assert entry.report_ref.digest == report.report_digest
    assert (entry.created_at, entry.ancestors, entry.policy) == (report.created_at, report.ancestors, POLICY.identity)
    assert facts(entry) == {"label": "improve", "node_status": "success"}


@pytest.mark.parametrize("status", [status for status in NodeStatus if status is not NodeStatus.SUCCESS])
def test_a_node_that_ended_otherwise_leaves_a_failure_case(status: NodeStatus) -> None:
    entry = only(consolidated(status=status))
    assert (entry.entry_kind, entry.text) == (EntryKind.FAILURE_CASE, "within tolerance")
    assert facts(entry)["node_status"] == status.value


def test_a_node_that_measured_nothing_leaves_nothing_and_a_judges_score_is_no_measurement() -> None:
    """Defect 2.5(2): `_scientific_score` is a judge's, and must not make a result."""
    for metrics in ((), (NodeMetric(name="_scientific_score", value="0.66"),)):
        found = consolidated(metrics=metrics)
        assert (found.entries, found.why_nothing) == ((), "the node succeeded and measured nothing")


def test_an_invalid_candidate_failed_and_a_fault_of_the_infrastructure_says_nothing() -> None:
    invalid = only(consolidated(evaluation_status=EvaluationStatus.CANDIDATE_INVALID))
    assert (invalid.entry_kind, facts(invalid)["evaluation_status"]) == (EntryKind.FAILURE_CASE, "candidate_invalid")
    found = consolidated(evaluation_status=EvaluationStatus.INFRASTRUCTURE_ERROR)
    assert (found.entries, bool(found.why_nothing)) == ((), True)


def test_a_larger_number_or_a_telling_name_is_never_taken_for_the_declared_metric() -> None:
    """Defect 2.5(2): the largest value of a name that hints at speed would win in the original; here none does."""
    metrics = (
        NodeMetric(name="GB_per_s", value="900"),
        NodeMetric(name="_scientific_score", value="0.99"),
        NodeMetric(name="latency", value="3"),
        NodeMetric(name="throughput", value="1000"),
    )
    entry = only(consolidated(declared=None, metrics=metrics))
    assert (entry.metric, facts(entry)[HEADLINE]) == (None, "no contract declares one")
    entry = only(consolidated(metrics=metrics))
    assert (entry.metric, facts(entry)[HEADLINE]) == (None, "accuracy is not in the report")
    smaller = HeadlineMetric(name="latency", unit="ms", direction=Direction.MINIMIZE)
    entry = only(consolidated(declared=smaller, metrics=metrics))
    assert entry.metric is not None
    assert (entry.metric.value, entry.metric.direction) == ("3", Direction.MINIMIZE)


def test_a_declared_metric_that_is_not_finite_is_said_to_be() -> None:
    entry = only(
        consolidated(
            metrics=(NodeMetric(name="loss", value="1"),),
            not_finite=(NotFiniteMetric(name="accuracy", value=NotFinite.NAN),),
        )
    )
    assert (entry.metric, facts(entry)[HEADLINE]) == (None, "accuracy is not finite")


def test_next_steps_are_a_reflection_that_rests_on_no_file() -> None:
    words = ReportWords(headline="x", hints=("repeat with another seed", "  ", "stop"))
    result, reflection = consolidated(words=words).entries
    assert (result.entry_kind, reflection.entry_kind) == (EntryKind.EXPERIMENT_RESULT, EntryKind.REFLECTION)
    assert (reflection.text, reflection.confidence) == ("repeat with another seed\nstop", "0.4")
    assert (reflection.artifacts, reflection.metric, result.confidence) == ((), None, None)


def test_a_text_is_cut_and_says_how_long_it_was() -> None:
    entry = only(consolidated(words=ReportWords(headline="é" * 601)))
    assert (entry.text, facts(entry)["text_cut_from"]) == ("é" * 600, "601")
    entry = only(consolidated(words=ReportWords(headline="é" * 600)))
    assert (entry.text, "text_cut_from" in facts(entry)) == ("é" * 600, False)


def test_without_words_the_entry_says_what_was_measured_and_no_judges_score() -> None:
    metrics = (NodeMetric(name="_scientific_score", value="1"), NodeMetric(name="accuracy", value="0.93"))
    entry = only(consolidated(words=ReportWords(what_was_done=" \n "), metrics=metrics))
    assert entry.text == "Node node_root ended as success; measured: accuracy 0.93."


def test_only_files_that_were_read_and_not_changed_are_rested_on() -> None:
    made = (
        make_artifact("a"), make_artifact("b", claimed=None), make_artifact("c", text=None),
        make_artifact("d", claimed="other"), make_artifact("e", claimed="another"),
    )  # fmt: skip
    entry = only(consolidated(artifacts=made))
    assert [(each.relative_path, each.integrity) for each in entry.artifacts] == [
        ("a", EntryIntegrity.VERIFIED), ("b", EntryIntegrity.UNVERIFIED),
    ]  # fmt: skip
    assert {k: v for k, v in facts(entry).items() if k.startswith("artifacts")} == {
        "artifacts_missing": "1", "artifacts_mismatch": "2",
    }  # fmt: skip


def test_the_same_report_gives_the_same_entries() -> None:
    assert [each.id for each in consolidated().entries] == [each.id for each in consolidated().entries]
    assert only(consolidated()).id != only(consolidated(declared=None)).id


@pytest.mark.parametrize("said", ["0", "false", "no", "off", "OFF", " No "])
def test_the_gate_is_shut_by_its_four_words(said: str) -> None:
    assert not POLICY.is_on(said)


@pytest.mark.parametrize("said", [None, "", "1", "true", "yes", "on"])
def test_the_gate_is_open_otherwise(said: str | None) -> None:
    assert POLICY.is_on(said)


def test_a_word_that_the_gate_does_not_know_is_refused_and_a_policy_may_shut_it() -> None:
    with pytest.raises(InvalidInputError, match="VRM_LINEAGE_CONSOLIDATE: maybe"):
        POLICY.is_on("maybe")
    shut = load_policy(ConsolidationPolicy, TEXT.replace("enabled: true", "enabled: false"), "f")
    assert (shut.is_on(None), shut.is_on(""), shut.is_on("on")) == (False, False, True)


def test_a_contract_names_a_measured_metric_with_unit_and_direction() -> None:
    text = "name: accuracy\nunit: share\ndirection: maximize\n"
    assert headline_metric(text, "metric.yaml", POLICY) == DECLARED
    for wrong, said in (
        (text.replace("accuracy", "_scientific_score"), "metric.yaml: name: _scientific_score"),
        (text.replace("unit: share\n", ""), "unit"),
        (text.replace("maximize", "up"), "direction"),
        (text + "unit: s\n", "given twice"),
        ("- a", "list"),
    ):
        with pytest.raises(InvalidInputError, match=said):
            headline_metric(wrong, "metric.yaml", POLICY)


def test_the_policy_is_frozen_with_its_version() -> None:
    assert POLICY.identity.digest == "923a647d6a3fa0768b5c6238de657ec1f8e95c0ca20a8a333c2435bfb4bccc35"
    assert (POLICY.entries.text_limit, POLICY.entries.reflection_confidence) == (600, "0.4")
