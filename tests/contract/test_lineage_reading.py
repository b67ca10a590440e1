"""A search that was really run, read by its nodes and by the writer of its paper, on both stores (spec 003)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from memory.lineage.audit import audit_artifacts
from memory.lineage.context_file import FILE_NAME, Outcome, write_context
from memory.lineage.retrieval import LineageQuestion
from memory.lineage.working_context import WorkingQuestion
from memory.lineage.writing import Draft, Measured
from policies.lineage.best import ChosenBy
from policies.papers.matching import Verdict
from records.errors import ErasedError, IntegrityError, UnavailableError, VrmError
from records.lineage import EntryKind, Reproduction
from tests.support.lineage_papers import (
    CONTRACT,
    brought_in,
    connected,
    erase,
    lineage,
    rerun,
    result_of,
    searched,
    tree_of,
    weighed,
    writer,
)
from tests.support.lineage_tree import METRIC, predictions, run_search, score
from tests.support.stack import Stack
from tests.support.trials import NOW
from vrm.cli.app import app
from vrm.lineage import PaperQuestion

pytestmark = pytest.mark.parametrize(
    ("ledger", "runtime"), [("memory", "memory"), ("postgres", "postgres")], indirect=True
)
LATER = NOW.replace("12:", "13:")
LINEAGE = ["node_root", "node_scaled", "node_scaled_c"]


def test_the_best_node_is_the_one_whose_predictions_score_best(stack: Stack, tmp_path: Path) -> None:
    """The right value is scikit-learn's own, of predictions that are made again here."""
    checkpoint = searched(stack, tmp_path)
    found = weighed(stack, checkpoint, tmp_path)
    configs = {
        node: json.loads((tmp_path / checkpoint / node / "trial.json").read_text(encoding="utf-8"))["config"]
        for node in LINEAGE
    }
    scores = {node: score(predictions(config, 0)) for node, config in configs.items()}
    assert found.best.chosen_by is ChosenBy.METRIC, "the entries declare it"
    assert found.best.node_id == max(scores, key=lambda node: scores[node])
    assert float(found.best.value or "nan") == pytest.approx(max(scores.values()), abs=0)
    assert found.context.claims
    assert all(each.grounded for each in found.context.claims)
    judged = weighed(stack, checkpoint, tmp_path, contract=CONTRACT._replace(name="_scientific_score"))
    assert judged.best.node_id == "node_root", "a judge would have chosen another one"


def test_a_claim_is_grounded_by_its_files_as_they_are_now(stack: Stack, tmp_path: Path) -> None:
    """Reference 2.5(1), end to end: a file that was changed, taken away or exchanged for a link grounds nothing."""
    checkpoint = searched(stack, tmp_path)
    node = tmp_path / checkpoint / "node_scaled"
    kept = {name: (node / name).read_bytes() for name in ("predictions.csv", "trial.json", "run.log")}

    def stands() -> bool:
        found = weighed(stack, checkpoint, tmp_path, best="node_scaled")
        (claim,) = (each for each in found.context.claims if each.node_id == "node_scaled")
        assert (claim in found.context.usable_for_claims) is claim.grounded
        return claim.grounded

    assert stands()
    for name in kept:
        (node / name).unlink()
    assert not stands()
    assert (node / "fit.py").exists(), "its own source is still there, and is no evidence"
    (node / "predictions.csv").write_bytes(kept["predictions.csv"] + b"0,0\n")
    assert not stands()
    elsewhere = tmp_path / "elsewhere.csv"
    elsewhere.write_bytes(kept["predictions.csv"])
    (node / "predictions.csv").unlink()
    (node / "predictions.csv").symlink_to(elsewhere)
    assert not stands()
    (node / "predictions.csv").unlink()
    (node / "predictions.csv").write_bytes(kept["predictions.csv"])
    assert stands()


def test_reruns_order_the_claims_and_take_the_use_of_one_away(stack: Stack, tmp_path: Path) -> None:
    """Reference 2.5(4), end to end; whoever of the checkpoint found it out."""
    checkpoint = searched(stack, tmp_path)
    root, scaled = (result_of(stack, checkpoint, node) for node in LINEAGE[:2])
    rerun(stack, scaled, Reproduction.RERUN_PASSED, "node_scaled_c")
    rerun(stack, root, Reproduction.RERUN_FAILED, "node_failed")
    found = weighed(stack, checkpoint, tmp_path, best="node_scaled_c").context
    assert [(each.node_id, each.repro_status) for each in found.claims] == [
        ("node_scaled", Reproduction.RERUN_PASSED),
        ("node_scaled_c", Reproduction.UNVERIFIED),
        ("node_root", Reproduction.RERUN_FAILED),
    ]
    assert [each.node_id for each in found.usable_for_claims] == ["node_scaled", "node_scaled_c"]
    assert found.claims[-1].grounded
    rerun(stack, root, Reproduction.RERUN_PASSED, "node_failed", LATER)
    rerun(stack, scaled, Reproduction.RERUN_FAILED, "node_failed", "2020-01-01T00:00:00.000000Z")
    found = weighed(stack, checkpoint, tmp_path, best="node_scaled_c").context
    assert {each.repro_status for each in found.claims[:2]} == {Reproduction.RERUN_PASSED}, "an old finding came late"
    for node in LINEAGE:
        rerun(stack, result_of(stack, checkpoint, node), Reproduction.RERUN_FAILED, node, LATER.replace("13:", "14:"))
    assert lineage(stack).verified_context(PaperQuestion(root=tmp_path)) is None, "nothing that failed wins"


def test_a_node_reads_its_ancestors_alone(stack: Stack, tmp_path: Path) -> None:
    checkpoint, other = searched(stack, tmp_path), searched(stack, tmp_path, 1)
    rerun(stack, result_of(stack, checkpoint, "node_root"), Reproduction.RERUN_FAILED, "node_failed")
    reader = lineage(stack, checkpoint)
    found = reader.search(LineageQuestion(node="node_scaled_c", text="features on one scale", limit=50))
    assert {each.entry.node_id for each in found.hits} == {"node_root", "node_scaled"}
    assert {each.entry.checkpoint_id for each in found.hits} == {checkpoint}
    assert {each.status for each in found.hits} == {Reproduction.UNVERIFIED}, "what a sibling found is a sibling's"
    told = found.provenance
    assert (told.model or "").startswith("st:")
    assert (told.candidate_count, told.returned_count, told.limit) == (3, 3, 50)
    (first,) = (each for each in found.hits if each.rank == 1)
    assert first.entry.entry_kind is EntryKind.REFLECTION, "the root's own words for it"
    assert reader.search("node_root").hits == ()
    assert {each.entry.node_id for each in reader.search("node_failed").hits} == {"node_root"}
    assert lineage(stack, other).search("node_failed").hits[0].entry.checkpoint_id == other


def test_what_was_erased_is_read_by_nobody_and_wins_nothing(stack: Stack, tmp_path: Path) -> None:
    checkpoint = searched(stack, tmp_path)
    before = tree_of(stack, checkpoint)
    best = weighed(stack, checkpoint, tmp_path).best.node_id
    assert best != "node_root"
    erase(stack, before.reports[best].id)
    found = weighed(stack, checkpoint, tmp_path)
    assert found.best.node_id != best
    assert best not in found.context.lineage
    with pytest.raises(ErasedError):
        weighed(stack, checkpoint, tmp_path, best=best)
    if best in LINEAGE[:2]:
        below = lineage(stack).search(LineageQuestion(node="node_scaled_c", text="scale", limit=50))
        assert best not in {each.entry.node_id for each in below.hits}
        assert best not in lineage(stack).working_context("node_scaled_c").rendered
        assert best not in below.provenance.ancestors


def test_an_erased_entry_and_an_erased_rerun_leave_nothing_usable(stack: Stack, tmp_path: Path) -> None:
    checkpoint = searched(stack, tmp_path)
    root, scaled = (result_of(stack, checkpoint, node) for node in LINEAGE[:2])
    erase(stack, root.id)
    passed = rerun(stack, scaled, Reproduction.RERUN_PASSED, "node_scaled", LATER)
    erase(stack, passed.entry.id)
    found = weighed(stack, checkpoint, tmp_path, best="node_scaled").context
    assert "node_root" in found.lineage, "the node is there; its entry is not"
    assert [each.node_id for each in found.claims] == ["node_scaled"]
    assert found.usable_for_claims == ()


def build(stack: Stack, checkpoint: str, root: Path, **more: Any) -> Any:
    return lambda: lineage(stack, checkpoint).weigh(PaperQuestion(root=root, **more))


def test_the_file_follows_winner_and_lineage_and_survives_what_passes(stack: Stack, tmp_path: Path) -> None:
    checkpoint, out = searched(stack, tmp_path), tmp_path / "paper"
    path = out / FILE_NAME
    first = write_context(out, build(stack, checkpoint, tmp_path), lineage(stack, checkpoint).readable_nodes, gate=True)
    assert first.outcome is Outcome.WRITTEN
    data = path.read_bytes()
    assert (
        write_context(
            out, build(stack, checkpoint, tmp_path), lineage(stack, checkpoint).readable_nodes, gate=True
        ).outcome
        is Outcome.UNCHANGED
    )

    def unreachable() -> Any:
        raise UnavailableError("ledger", "down", "Wait.")

    def contradicted() -> Any:
        raise IntegrityError("ancestors", "n1", "run fsck")

    for passing in (unreachable, build(stack, checkpoint, tmp_path / "unmounted")):
        with pytest.raises(UnavailableError):
            write_context(out, passing, lineage(stack, checkpoint).readable_nodes, gate=True)
        assert path.read_bytes() == data
    assert (
        write_context(out, contradicted, lineage(stack, checkpoint).readable_nodes, gate=False).outcome
        is Outcome.GATE_OFF
    )
    assert path.read_bytes() == data
    erase(stack, tree_of(stack, checkpoint).reports[first.lineage.best.node_id].id)  # type: ignore[union-attr]  # written
    again = write_context(out, build(stack, checkpoint, tmp_path), lineage(stack, checkpoint).readable_nodes, gate=True)
    assert again.outcome is Outcome.WRITTEN
    assert json.loads(path.read_bytes())["best_node_id"] != json.loads(data)["best_node_id"]
    for report in tree_of(stack, checkpoint).reports.values():
        erase(stack, report.id)
    assert (
        write_context(
            out, build(stack, checkpoint, tmp_path), lineage(stack, checkpoint).readable_nodes, gate=True
        ).outcome
        is Outcome.REMOVED
    )
    assert not path.exists()
    assert (
        write_context(
            out, build(stack, checkpoint, tmp_path), lineage(stack, checkpoint).readable_nodes, gate=True
        ).outcome
        is Outcome.NOTHING
    )
    out.joinpath(FILE_NAME).write_bytes(data)
    with pytest.raises(IntegrityError):
        write_context(out, contradicted, lineage(stack, checkpoint).readable_nodes, gate=True)
    assert not path.exists(), "what contradicts itself grounds nothing"
    assert [each.name for each in out.iterdir()] == []


@pytest.mark.parametrize("question", ["named", "nothing to compare"])
def test_no_file_outlives_the_erasure_of_its_nodes_whatever_cannot_be_answered(
    stack: Stack, tmp_path: Path, question: str
) -> None:
    """Reference 2.3: a paper must not read on of a node that was erased."""
    checkpoint, out = searched(stack, tmp_path), tmp_path / "paper"
    first = write_context(
        out, build(stack, checkpoint, tmp_path), lineage(stack, checkpoint).readable_nodes, gate=True
    ).lineage
    best = first.best.node_id  # type: ignore[union-attr]  # written
    more = {"best": best} if question == "named" else {"metric": CONTRACT._replace(name="never measured")}
    asked, nodes = build(stack, checkpoint, tmp_path, **more), lineage(stack, checkpoint).readable_nodes
    with pytest.raises(VrmError):
        write_context(out, build(stack, checkpoint, tmp_path, best="nobody"), nodes, gate=True)
    assert (out / FILE_NAME).exists(), "every node of it can be read"
    erase(stack, tree_of(stack, checkpoint).reports[best].id)
    with pytest.raises(VrmError):
        write_context(out, asked, nodes, gate=True)
    assert not (out / FILE_NAME).exists()


def test_a_changed_lineage_removes_the_file_even_if_the_new_one_cannot_be_written(
    stack: Stack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkpoint, out = searched(stack, tmp_path), tmp_path / "paper"
    write_context(out, build(stack, checkpoint, tmp_path), lineage(stack, checkpoint).readable_nodes, gate=True)

    def full(*_: object, **__: object) -> Any:
        raise OSError("no space left on device")

    monkeypatch.setattr("memory.lineage.context_file.tempfile.mkstemp", full)
    with pytest.raises(UnavailableError):
        write_context(
            out,
            build(stack, checkpoint, tmp_path, best="node_root"),
            lineage(stack, checkpoint).readable_nodes,
            gate=True,
        )
    assert not (out / FILE_NAME).exists()


def test_a_node_begins_with_what_its_ancestors_reported_in_the_same_bytes(stack: Stack, tmp_path: Path) -> None:
    checkpoint = searched(stack, tmp_path)
    found = lineage(stack, checkpoint).working_context("node_scaled_c")
    assert found.ancestors == ("node_root", "node_scaled")
    assert found == lineage(stack, checkpoint).working_context("node_scaled_c")
    assert f'metric: "{METRIC}", maximize' in found.rendered
    assert "cpu model example-cpu" in found.rendered
    assert "_scientific_score" not in found.rendered
    assert "node_failed" not in found.rendered
    new = lineage(stack, checkpoint).working_context(
        WorkingQuestion(node="node_new", parent="node_scaled", goal="separate three cultivars")
    )
    assert new.ancestors == found.ancestors
    assert 'goal: "separate three cultivars"' in new.rendered


def test_a_working_context_needs_no_consolidation(stack: Stack, tmp_path: Path) -> None:
    folder = run_search(tmp_path, 0, f"{stack.namespace}_plain")
    brought_in(stack, folder, is_on=False)
    assert not tree_of(stack, folder.name).entries
    found = lineage(stack, folder.name).working_context("node_scaled_c")
    assert 'headline: "Changed scaler standard and predicted the rows that were held out."' in found.rendered


def shown(stack: Stack, *arguments: str, code: int = 0) -> Any:
    result = CliRunner().invoke(app, [*arguments, "--namespace", stack.namespace, "--json"], obj=connected(stack))
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    assert result.exit_code == code, result.output
    return json.loads(result.stdout)


def test_a_paper_is_written_from_a_context_and_audited_against_it(stack: Stack, tmp_path: Path) -> None:
    checkpoint, out = searched(stack, tmp_path), tmp_path / "paper"
    wrote = shown(stack, "lineage", "context", "--root", str(tmp_path), "--out", str(out))
    assert (wrote["outcome"], wrote["best"]["chosen_by"]) == ("written", "metric")
    value = float(wrote["best"]["value"])
    block = shown(stack, "lineage", "prompt", "--root", str(tmp_path))
    assert f'"{METRIC}" {wrote["best"]["value"]} share' in block["rendered"]
    paper = out / "paper.md"
    paper.write_text(f"# Results\n\nThe balanced accuracy is {value:.3f}, that is {value:.1%}.\n", encoding="utf-8")
    context = ("--context", str(out / FILE_NAME))
    for against in (context, ("--root", str(tmp_path), "--checkpoint", checkpoint)):
        audited = shown(stack, "audit", "claims", str(paper), *against)
        assert (audited["counts"]["matched"], audited["stated"], audited["coverage"]) == (2, 2, 1.0)
        assert {each["recorded"]["node_id"] for each in audited["numbers"]} == {wrote["best"]["node_id"]}
    paper.write_text("The balanced accuracy is 0.123; we used 5 seeds.\n", encoding="utf-8")
    audited = shown(stack, "audit", "claims", str(paper), *context, code=1)
    assert [each["verdict"] for each in audited["numbers"]] == ["contradicted", "ungrounded"]
    assert audited["coverage"] == 0.0


def test_a_context_file_that_says_more_than_the_ledger_grounds_nothing(stack: Stack, tmp_path: Path) -> None:
    checkpoint, out = searched(stack, tmp_path), tmp_path / "paper"
    write_context(
        out,
        build(stack, checkpoint, tmp_path, best="node_scaled"),
        lineage(stack, checkpoint).readable_nodes,
        gate=True,
    )
    path, paper = out / FILE_NAME, tmp_path / "paper.md"
    entry = result_of(stack, checkpoint, "node_scaled")
    paper.write_text(f"Balanced accuracy {float(entry.metric.value):.4f}.\n", encoding="utf-8")  # type: ignore[union-attr]  # declared
    reader = lineage(stack, checkpoint)
    assert reader.audit(paper, path).is_grounded
    data = path.read_text(encoding="utf-8")
    for wrong in (["node_scaled"], ["node_root", "node_failed", "node_scaled"], ["node_failed", "node_scaled"]):
        path.write_text(json.dumps(json.loads(data) | {"lineage": wrong}), encoding="utf-8")
        with pytest.raises(IntegrityError, match="lineage"):
            reader.audit(paper, path)
    path.write_text(json.dumps(json.loads(data) | {"best_node_id": "node_root", "lineage": ["node_root"]}), "utf-8")
    with pytest.raises(IntegrityError, match="not in the lineage"):
        reader.audit(paper, path)
    path.write_text(data.replace("Changed scaler standard", "Changed everything"), encoding="utf-8")
    with pytest.raises(IntegrityError, match="something else"):
        reader.audit(paper, path)
    path.write_text(data, encoding="utf-8")
    for node in ("node_root", "node_scaled"):
        rerun(stack, result_of(stack, checkpoint, node), Reproduction.RERUN_FAILED, "node_scaled_c", LATER)
    (found,) = reader.audit(paper, path).findings
    assert (found.verdict, found.recorded.withheld if found.recorded else "") == (Verdict.UNGROUNDED, "rerun_failed")


def test_what_an_erased_node_said_of_a_rerun_is_not_known_and_its_files_are_not_audited(
    stack: Stack, tmp_path: Path
) -> None:
    checkpoint = searched(stack, tmp_path)
    target = result_of(stack, checkpoint, "node_root")
    rerun(stack, target, Reproduction.RERUN_FAILED, "node_failed")
    report = tree_of(stack, checkpoint).reports["node_failed"]
    erase(stack, report.id)
    for each in (tmp_path / checkpoint / "node_failed").iterdir():
        each.unlink()
    tree = tree_of(stack, checkpoint)
    assert list(tree.events) == []
    assert tree.unknown == {str(target.id)}
    with stack.stores.ledger.reading() as reader:
        found = audit_artifacts(reader, stack.namespace, tmp_path, checkpoint)
    assert found.is_whole
    assert {each.node_id for each in found.files} == set(LINEAGE)


def test_a_rerun_that_was_told_before_the_report_of_its_node_goes_with_the_report(stack: Stack, tmp_path: Path) -> None:
    """Such an event rests on no report, so that its node alone tells that it was erased."""
    folder = run_search(tmp_path, 0, f"{stack.namespace}_0")
    brought_in(stack, folder / "node_root")
    target = result_of(stack, folder.name, "node_root")
    early = Draft(text="It failed.", ancestors=("node_root",))
    writer(stack, folder.name, "node_scaled").report_rerun(str(target.id), Reproduction.RERUN_FAILED, early, NOW)
    brought_in(stack, folder)
    before = tree_of(stack, folder.name)
    assert len(before.events) == 1
    erase(stack, before.reports["node_scaled"].id)
    after = tree_of(stack, folder.name)
    assert list(after.events) == []
    assert after.unknown == {str(target.id)}


def test_an_entry_without_a_file_is_claimed_and_not_used(stack: Stack, tmp_path: Path) -> None:
    checkpoint = searched(stack, tmp_path)
    measured = Measured(name="throughput", value=842.0, unit="GB/s")
    writer(stack, checkpoint, "node_scaled").add(EntryKind.PAPER_CLAIM, Draft(text="842 GB/s", metric=measured))
    found = weighed(stack, checkpoint, tmp_path, best="node_scaled")
    claims = {each.text: each for each in found.context.claims}
    assert not claims["842 GB/s"].grounded
    assert "842 GB/s" not in [each.text for each in found.context.usable_for_claims]
    paper = tmp_path / "paper.md"
    paper.write_text("Throughput is 842 GB/s.\n", encoding="utf-8")
    (number,) = lineage(stack, checkpoint).audit(paper, PaperQuestion(root=tmp_path, best="node_scaled")).findings
    assert (number.verdict, number.recorded.withheld if number.recorded else "") == (Verdict.UNGROUNDED, "not_grounded")


def test_the_same_tree_gives_the_same_bytes_however_it_came_in(stack: Stack, tmp_path: Path) -> None:
    """Imported in one go, and again: a replay changes nothing."""
    checkpoint = searched(stack, tmp_path)
    first = weighed(stack, checkpoint, tmp_path).context.canonical
    brought_in(stack, tmp_path / checkpoint)
    assert weighed(stack, checkpoint, tmp_path).context.canonical == first
