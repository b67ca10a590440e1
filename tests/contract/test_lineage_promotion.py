"""Nodes of a real search become evidence, or say what holds them back; a report alone never does."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from sklearn.metrics import accuracy_score, balanced_accuracy_score

from importers.node_report.declaration import Declaration, read_declaration
from importers.node_report.evidence import judged
from importers.node_report.importing import Consolidating, ImportPorts, import_reports
from importers.node_report.tree import locate
from memory.evidence import resolve_bundles
from memory.lineage.writing import LineagePorts
from memory.standing import standings
from policies.lineage.policy import consolidation_policy
from policies.lineage.promotion import Measure, measured
from records.errors import InvalidInputError, InvalidSourceError, NotFoundError, UnavailableError
from records.evidence import Experience, VerificationKind, VerifiedEvidenceBundle
from store.artifacts import ArtifactStore
from tests.support.lineage_papers import erase
from tests.support.lineage_tree import (
    BASE,
    METRIC,
    PROGRAM,
    Step,
    artifacts_of,
    change_report,
    declare,
    digest_of,
    held_out,
    predictions,
    rows_text,
    run_search,
    score,
)
from tests.support.stack import Stack
from tests.support.stack_control import checked
from tests.support.stack_jobs import job_over
from vrm.mainjob import steps
from vrm.mainjob.lineage import Promotion, promote_tree, told

BOTH = pytest.mark.parametrize(("ledger", "runtime"), [("memory", "memory"), ("postgres", "postgres")], indirect=True)
MEMORY = pytest.mark.parametrize(("ledger", "runtime"), [("memory", "memory")], indirect=True)
ROOT = Step(node="node_root", parent=None)
SHORT = (ROOT, Step(node="node_scaled", parent="node_root", change={"scaler": "standard"}))


def imported(stack: Stack, root: Path) -> None:
    lineage = LineagePorts(ledger=stack.stores.ledger, coordinator=stack.coordinator)
    ports = ImportPorts(lineage=lineage, artifacts=stack.stores.artifacts, namespace=stack.namespace)
    done = import_reports(ports, locate([root]), Consolidating(policy=consolidation_policy()))
    assert [each.error for each in done] == [None] * len(done)


def promoted(stack: Stack, root: Path, declaration: Declaration, run: str = "run_0") -> Promotion:
    return promote_tree(job_over(stack), declaration, root, run)


def reasons(done: Promotion) -> dict[str, str | None]:
    return {node: reason for node, reason, _ in told(done.nodes)}


def experiences(stack: Stack) -> list[Experience]:
    return stack.load("experience")


@BOTH
def test_a_real_search_becomes_evidence_and_is_distilled(stack: Stack, tmp_path: Path) -> None:
    trees, seeds = tmp_path / "trees", (0, 1, 2)
    for seed in seeds:
        run_search(trees, seed)
    imported(stack, trees)
    declaration = read_declaration(declare(tmp_path, seeds))
    for seed in seeds:
        done = promoted(stack, trees, declaration, f"run_{seed}")
        assert reasons(done) == {
            "node_root": None, "node_scaled": None, "node_scaled_c": None, "node_failed": "missing_verification",
        }  # fmt: skip
    found = experiences(stack)
    with stack.stores.ledger.reading() as reader:
        bundles = list(resolve_bundles(reader, found).values())
    assert len(bundles) == 9
    for bundle in bundles:
        assert isinstance(bundle, VerifiedEvidenceBundle)
        assert bundle.verification.verification_kind is VerificationKind.RECOMPUTED
        assert bundle.verification.valid
    values = sorted(float(each.verification.verified_metrics[0].value) for each in bundles)  # type: ignore[union-attr]
    configs = (BASE, BASE | {"scaler": "standard"}, BASE | {"scaler": "standard", "C": 10})
    assert values == pytest.approx(sorted(score(predictions(each, seed)) for each in configs for seed in seeds))
    job = job_over(stack)
    steps.distil(job)
    decisions = stack.load("distillation-decision")
    assert decisions, "the scaler was compared on three seeds"
    with stack.stores.ledger.reading() as reader:
        stood = standings(reader, stack.stores.artifacts, found)
    assert all(each.bundle is not None for each in stood)
    report = checked(stack)
    assert report.clean, report.text()


@BOTH
def test_promoting_again_is_a_replay(stack: Stack, tmp_path: Path) -> None:
    run_search(tmp_path / "trees", steps=SHORT)
    imported(stack, tmp_path / "trees")
    declaration = read_declaration(declare(tmp_path))
    first = promoted(stack, tmp_path / "trees", declaration)
    before = stack.counts()
    assert promoted(stack, tmp_path / "trees", declaration).run_id == first.run_id
    assert stack.counts() == before
    assert before["experience"] == 2
    with pytest.raises(NotFoundError):
        promoted(stack, tmp_path / "trees", declaration, "run_9")


def held(stack: Stack, tmp_path: Path, spoil: Callable[[Path], object]) -> str:
    """Return why the changed node of a short search is no trial once it was spoilt before its import."""
    run = run_search(tmp_path / "trees", steps=SHORT)
    spoil(run)
    imported(stack, tmp_path / "trees")
    done = promoted(stack, tmp_path / "trees", read_declaration(declare(tmp_path)))
    ((_, reason, detail),) = [each for each in told(done.nodes) if each[0] == "node_scaled"]
    return f"{reason}: {detail}"


def retrial(run: Path, node: str = "node_scaled", **changes: object) -> None:
    """Write another trial file, with the digest in the report."""
    path = run / node / "trial.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))
    change_report(run / node, artifacts=artifacts_of(run / node))


def repredict(run: Path, rows: list[tuple[int, int]], node: str = "node_scaled") -> None:
    (run / node / "predictions.csv").write_text(rows_text(("row", "predicted"), list(rows)))
    change_report(run / node, artifacts=artifacts_of(run / node))


def unhash(run: Path) -> None:
    made = artifacts_of(run / "node_scaled")
    change_report(run / "node_scaled", artifacts=[{k: v for k, v in each.items() if k != "sha256"} for each in made])


def other_program(run: Path) -> None:
    (run / "node_scaled" / PROGRAM).write_text("another")


def silence(run: Path) -> None:
    for each in ("node_root", "node_scaled"):
        change_report(run / each, cpu_info={"model": None})


FOUND = predictions(BASE | {"scaler": "standard"}, 0)
CASES: dict[str, tuple[Callable[[Path], object], str]] = {
    "status": (lambda run: change_report(run / "node_scaled", status="abandoned"), "missing_verification: the node"),
    "infrastructure": (
        lambda run: change_report(run / "node_scaled", evaluation_status="infrastructure_error"),
        "missing_verification: its evaluation is infrastructure_error",
    ),
    "unhashed": (unhash, "missing_trial_provenance: trial.json: unhashed"),
    "gone": (
        lambda run: (run / "node_scaled" / "predictions.csv").unlink(),
        "missing_trial_provenance: predictions.csv: missing",
    ),
    "program": (other_program, f"missing_trial_provenance: {PROGRAM}: mismatch"),
    "task": (lambda run: retrial(run, task="iris"), "non_comparable_evidence: the task iris is not declared"),
    "seed": (lambda run: retrial(run, seed=1), "non_comparable_evidence: another seed"),
    "machine": (
        lambda run: change_report(run / "node_scaled", cpu_info={"model": "other"}),
        "non_comparable_evidence: another environment",
    ),
    "machine below": (
        lambda run: change_report(run / "node_scaled", environment={"cpu_info": {"model": "other"}}),
        "non_comparable_evidence: another environment",
    ),
    "machine in another order and place": (
        lambda run: change_report(
            run / "node_scaled", cpu_info=None, environment={"cpu_info": {"arch": "x86_64", "model": "example-cpu"}}
        ),
        "None: scaler none to standard: balanced_accuracy",
    ),
    "no machine": (
        silence,
        "missing_trial_provenance: the report says nothing of the machine",
    ),
    "start": (
        lambda run: change_report(run / "node_scaled", started_at="yesterday"),
        "missing_trial_provenance: report: started_at: wrong_type",
    ),
    "baseline": (
        lambda run: change_report(run / "node_root", status="failed"),
        "non_comparable_evidence: the baseline node_root: the node ended as failed",
    ),
    "knob": (lambda run: retrial(run, config=BASE | {"depth": 3}), "missing_typed_action: knob"),
    "two changes": (
        lambda run: retrial(run, config=BASE | {"scaler": "standard", "C": 10}),
        "missing_typed_action: the catalog knows no one change",
    ),
    "no change": (lambda run: retrial(run, config=BASE), "missing_typed_action: the catalog knows no one change"),
    "rows": (lambda run: repredict(run, FOUND[1:]), "None: scaler none to standard: invalid (rows_not_held_out)"),
    "claim": (
        lambda run: change_report(run / "node_scaled", metrics={METRIC: 1.0}),
        "None: scaler none to standard: invalid (claimed_metric_differs:balanced_accuracy)",
    ),
    "no claim": (
        lambda run: change_report(run / "node_scaled", metrics={"_scientific_score": 0.9}),
        "None: scaler none to standard: invalid (missing_primary_metric:balanced_accuracy)",
    ),
}


@MEMORY
@pytest.mark.parametrize("case", sorted(CASES))
def test_what_is_no_trial_says_so_with_its_reason_code(stack: Stack, tmp_path: Path, case: str) -> None:
    spoil, expected = CASES[case]
    assert held(stack, tmp_path, spoil).startswith(expected)
    assert checked(stack).clean


@MEMORY
def test_a_declared_baseline_takes_the_place_of_the_parent(stack: Stack, tmp_path: Path) -> None:
    steps_ = (*SHORT, Step(node="node_c", parent="node_scaled", change={"scaler": "none", "C": 10}))
    run_search(tmp_path / "trees", steps=steps_)
    imported(stack, tmp_path / "trees")
    plain = promoted(stack, tmp_path / "trees", read_declaration(declare(tmp_path)))
    assert reasons(plain)["node_c"] == "missing_typed_action", "two changes from its parent"
    named = promoted(stack, tmp_path / "trees", read_declaration(declare(tmp_path, baselines={"node_c": "node_root"})))
    assert reasons(named)["node_c"] is None
    assert plain.run_id != named.run_id
    lost = promoted(stack, tmp_path / "trees", read_declaration(declare(tmp_path, baselines={"node_c": "nobody"})))
    assert reasons(lost)["node_c"] == "non_comparable_evidence"


@MEMORY
def test_files_that_changed_since_the_import_prove_nothing(stack: Stack, tmp_path: Path) -> None:
    run = run_search(tmp_path / "trees", steps=SHORT)
    imported(stack, tmp_path / "trees")
    (run / "node_scaled" / "predictions.csv").write_text(rows_text(("row", "predicted"), list(FOUND[::-1])))
    done = promoted(stack, tmp_path / "trees", read_declaration(declare(tmp_path)))
    assert told(done.nodes)[1][1:] == ("missing_trial_provenance", "predictions.csv: mismatch")


@MEMORY
def test_an_erased_node_is_neither_promoted_nor_a_baseline(stack: Stack, tmp_path: Path) -> None:
    steps_ = (*SHORT, Step(node="node_other", parent=None, change={"scaler": "standard", "C": 10}))
    run_search(tmp_path / "trees", steps=steps_)
    imported(stack, tmp_path / "trees")
    report = next(each for each in stack.load("node-report") if each.node_id == "node_other")
    erase(stack, report.id)
    declaration = read_declaration(declare(tmp_path, baselines={"node_scaled": "node_other"}))
    assert reasons(promoted(stack, tmp_path / "trees", declaration)) == {
        "node_root": None, "node_scaled": "non_comparable_evidence",
    }  # fmt: skip


@MEMORY
def test_a_store_that_cannot_be_read_holds_no_node_back(stack: Stack, tmp_path: Path) -> None:
    run_search(tmp_path / "trees", steps=SHORT)
    imported(stack, tmp_path / "trees")

    class Down(ArtifactStore):
        def read(self, digest: str) -> bytes:
            raise UnavailableError("artifact store", digest, "Wait.")

    with pytest.raises(UnavailableError):
        judged(
            read_declaration(declare(tmp_path)),
            stack.load("node-report"),
            tmp_path / "trees",
            Down(str(tmp_path / "store")),
        )


def test_labels_are_the_declared_ones(tmp_path: Path) -> None:
    path = declare(tmp_path)
    assert set(read_declaration(path).labels["wine", 0]) == set(held_out(0)[1])
    labels = tmp_path / "labels.csv"
    labels.write_text(labels.read_text().replace(",0\n", ",1\n"))
    with pytest.raises(InvalidSourceError, match="Declared is"):
        read_declaration(path)
    labels.unlink()
    with pytest.raises(InvalidSourceError, match="beside the declaration"):
        read_declaration(path)
    with pytest.raises(InvalidInputError, match="metric_low"):
        read_declaration(declare(tmp_path, metric_low="low"))
    with pytest.raises(InvalidInputError):
        read_declaration(tmp_path / "nowhere.yaml")


@pytest.mark.parametrize("rows", [((0, "a"), (0, "b")), ((0, "a"), (0, "a"))])
def test_a_row_that_comes_twice_is_refused(tmp_path: Path, rows: tuple[tuple[int, str], ...]) -> None:
    path = declare(tmp_path)
    text = rows_text(("task", "seed", "row", "label"), [("wine", 0, *row) for row in rows])
    (tmp_path / "labels.csv").write_text(text)
    labels = {"name": "labels.csv", "sha256": digest_of(tmp_path / "labels.csv")}
    path.write_text(json.dumps(json.loads(path.read_text()) | {"labels": labels}))
    with pytest.raises(InvalidSourceError, match="comes twice"):
        read_declaration(path)


def test_measures_are_what_scikit_learn_computes() -> None:
    truth = {1: "a", 2: "a", 3: "a", 4: "b", 5: "b", 6: "c", 7: "c"}
    guessed = {1: "a", 2: "b", 3: "a", 4: "b", 5: "c", 6: "d", 7: "c"}
    pairs = list(truth.values()), list(guessed.values())
    assert measured(Measure.ACCURACY, truth, guessed) == pytest.approx(accuracy_score(*pairs))
    with pytest.warns(UserWarning, match="not in y_true"):
        assert measured(Measure.BALANCED_ACCURACY, truth, guessed) == pytest.approx(balanced_accuracy_score(*pairs))
