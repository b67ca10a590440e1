"""The published phase-3 bundle: verified file by file, its ids computed again, nothing of it promoted."""

from __future__ import annotations

import hashlib
import json
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from importers.ai_researcher import read_bundle, read_ledger
from importers.ai_researcher.report import report
from memory.evidence import Trial, bundle_records
from policies.bundles import cross_validate
from policies.contrasts import tabulate
from policies.distillation_policy import distillation_policy
from records.errors import InvalidSourceError
from records.evidence import Experience, VerifiedEvidenceBundle
from records.ids import RunId
from records.legacy import LegacyReason
from records.values import ArtifactRef, Direction, MetricSpec
from tests.data.legacy import BUNDLE, bundle_to, published, real_rows, text_of, write_ledger
from tests.support.trials import digest, make_contract, make_task, make_trial

TASKS = ("immiscible_diffusion_task1", "fsq_task1", "exphormer_task1")
ONE = "fsq_task1/evidence/fsq:task1/off/seed-101"


def _json(name: str) -> Any:
    with zipfile.ZipFile(BUNDLE) as packed:
        return json.loads(packed.read(name))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The bundle as it was published, without its programs."""
    return bundle_to(tmp_path / "bundle")


def test_the_figures_are_those_that_were_published(folder: Path) -> None:
    bundle = read_bundle(folder)
    found = report(bundle.content, None, mismatched=bundle.mismatched, references=bundle.references)
    entries = [entry for task in TASKS for entry in _json(f"{task}/artifact_index.json")]
    programs = [entry["path"] for entry in entries if entry["path"].endswith("/solution.py")]
    assert len(entries) == sum(task["artifact_count"] for task in _json("summary.json")["tasks"]) == 153
    assert len(programs) == 34
    assert found["digests"] == {
        "published": 153, "verified": 153 - 34, "missing": 34, "mismatched": 0, "references_agreeing": 135 + 72,
    }  # fmt: skip
    assert sorted(found["missing"]) == sorted(programs)
    assert found["rows"] == {"knowledge_records": 32, "verification_records": 34, "recall_contexts": 17}
    assert found["records"] == 83
    assert found["promoted"] == 0
    assert found["reasons"] == {"missing_trial_provenance": 83, "missing_typed_action": 83}
    assert all(each["reasons"] == ["missing_trial_provenance", "missing_typed_action"] for each in found["members"])


def test_every_id_is_computed_again(folder: Path) -> None:
    """Compute them here a second time, with the standard library alone."""
    bundle = read_bundle(folder)
    assert {row.id_rule for row in bundle.content.rows} == {"knowledge", "verification/with-feedback", "recall"}
    lists = published()
    for payload in lists["knowledge_records"]:
        left_out = {"schema_version", "knowledge_id", "supersedes", "created_at"}
        covered = {key: value for key, value in payload.items() if key not in left_out}
        assert _escaped(covered) == payload["knowledge_id"]
    for payload in lists["verification_records"]:
        names = (
            "observation_id", "contract_id", "contract_version", "evaluator_digest", "violations", "public_feedback",
        )  # fmt: skip
        covered = {name: payload[name] for name in names} | {"metrics": payload["verified_metrics"]}
        assert _escaped(covered) == payload["verification_id"]
    reported = {
        each
        for task in TASKS
        for pair in _json(f"{task}/experience_gain.json")["trial_pairs"]
        for arm in ("baseline", "closed_loop")
        for each in pair[arm]["verification_ids"]
    }
    ids = {row.record_id for row in bundle.content.rows if row.table.value == "verification_records"}
    assert ids == reported
    assert len(reported) == 34


def _escaped(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def test_payloads_are_the_records_in_the_programs_own_form(folder: Path) -> None:
    kept = sorted(record.data for record in read_bundle(folder).content.records.values())
    expected = sorted(text_of(payload).encode() for payloads in published().values() for payload in payloads)
    assert kept == expected
    assert any(not data.isascii() for data in kept)


def test_a_record_found_in_a_ledger_too_is_the_same_record(folder: Path, tmp_path: Path) -> None:
    ledger = read_ledger(write_ledger(tmp_path / "ledger.sqlite", real_rows(), revision=1))
    shared = ledger.records.keys() & read_bundle(folder).content.records.keys()
    assert len(shared) == 32 + 34 + 11


def test_the_order_of_records_and_of_ledgers_means_nothing(folder: Path) -> None:
    first = read_bundle(folder).content
    assert first.source_digest == read_bundle(folder).content.source_digest
    turned = type(first)(first.format, first.revision, tuple(reversed(first.rows)), first.artifacts, first.files)
    assert turned.source_digest == first.source_digest


def test_programs_are_digested_and_never_run(folder: Path) -> None:
    trap = folder / ONE / "attempt-1" / "solution.py"
    trap.write_text(f"open({str(folder / 'ran')!r}, 'w')", encoding="utf-8")
    bundle = read_bundle(folder)
    assert bundle.mismatched == (trap.relative_to(folder).as_posix(),)
    assert not (folder / "ran").exists()


def test_a_changed_file_is_told_and_refuses_the_import(folder: Path) -> None:
    path = folder / ONE / "attempt-1" / "run.log"
    path.write_bytes(path.read_bytes() + b" ")
    bundle = read_bundle(folder)
    assert bundle.mismatched == (f"{ONE}/attempt-1/run.log",)
    with pytest.raises(InvalidSourceError, match="1 files have other bytes") as caught:
        bundle.require_intact()
    assert caught.value.field == f"{ONE}/attempt-1/run.log"


def test_records_are_read_only_from_bytes_that_were_published(folder: Path) -> None:
    path = folder / ONE / "ledger_evidence.json"
    path.write_text(path.read_text(encoding="utf-8").replace("negative", "positive"), encoding="utf-8")
    bundle = read_bundle(folder)
    assert len(bundle.mismatched) == 1
    assert len(bundle.content.records) < 83
    path.unlink()
    assert len(read_bundle(folder).content.records) < 83


def _index(folder: Path) -> None:
    """Bring the index of a task in line with the files that are there, as a forger would."""
    path = folder / "fsq_task1" / "artifact_index.json"
    entries = json.loads(path.read_text(encoding="utf-8"))
    for entry in entries:
        file = folder / entry["path"]
        if file.is_file():
            data = file.read_bytes()
            entry |= {"sha256": hashlib.sha256(data).hexdigest(), "size_bytes": len(data)}
    path.write_text(json.dumps(entries), encoding="utf-8")


def _edit(name: str, old: str, new: str) -> Callable[[Path], None]:
    def edit(folder: Path) -> None:
        path = folder / name
        text = path.read_text(encoding="utf-8")
        assert old in text
        path.write_text(text.replace(old, new), encoding="utf-8")
        if "/evidence/" in name:
            _index(folder)

    return edit


def _gone(name: str) -> Callable[[Path], None]:
    return lambda folder: (folder / name).unlink()


def _linked(folder: Path) -> None:
    path = folder / ONE / "attempt-1" / "run.log"
    path.rename(folder / "elsewhere")
    path.symlink_to(folder / "elsewhere")


_LEDGER = f"{ONE}/ledger_evidence.json"
_INDEX = "fsq_task1/artifact_index.json"
_BROKEN: tuple[tuple[str, Callable[[Path], None], str, str], ...] = (
    ("no summary", _gone("summary.json"), "summary.json", "missing"),
    ("no index", _gone(_INDEX), _INDEX, "missing"),
    ("no report", _gone("fsq_task1/experience_gain.json"), "fsq_task1/experience_gain.json", "missing"),
    ("summary of something else", _edit("summary.json", '"tasks"', '"jobs"'), "summary.json: ", "{"),
    ("another count", _edit("summary.json", '"artifact_count": 54', '"artifact_count": 55'), _INDEX, "54 files"),
    ("a path out of the bundle", _edit(_INDEX, f"{ONE}/attempt-1/run.log", "../run.log"), "../run.log", "not a path"),
    ("an absolute path", _edit("summary.json", _INDEX, "/etc/passwd"), "/etc/passwd", "not a path"),
    ("a file listed twice", _edit(_INDEX, "seed-101/attempt-1/run.log", "seed-101/attempt-2/run.log"), _INDEX, "again"),
    ("a link", _linked, f"{ONE}/attempt-1/run.log", "a link"),
    ("a forged lesson", _edit(_LEDGER, "Failing behavior", "Working behavior"), f"{_LEDGER}: ", "not computed"),
    ("a forged metric", _edit(_LEDGER, '"quantization_rate": ', '"quantization_rate": 1'), f"{_LEDGER}: ", "not comp"),
    ("evidence of another digest", _edit(f"{ONE}/attempt-1/run.log", "{", "{ "), "", "run.log"),
    ("an unknown list", _edit(_LEDGER, '"recall_contexts"', '"recalls"'), _LEDGER, "other lists"),
    ("a doubled key", _edit(_LEDGER, '"recall_contexts": ', '"recall_contexts": [], "recall_contexts": '),
     f"{_LEDGER}: json", "duplicate"),
    ("a report of another digest", _edit("fsq_task1/experience_gain.json", "ac7246a0ffdc", "bc7246a0ffdc"),
     "fsq_task1/experience_gain.json: artifact_digests", "run.log"),
    ("a report of an unknown verification", _edit("fsq_task1/experience_gain.json", "59363cd33b5f", "69363cd33b5f"),
     "fsq_task1/experience_gain.json: verification_ids", "69363cd33b5f"),
)  # fmt: skip


@pytest.mark.parametrize(("edit", "field", "met"), [case[1:] for case in _BROKEN], ids=[case[0] for case in _BROKEN])
def test_a_bundle_that_contradicts_itself_is_refused(
    folder: Path, edit: Callable[[Path], None], field: str, met: str
) -> None:
    edit(folder)
    with pytest.raises(InvalidSourceError) as caught:
        read_bundle(folder)
    assert caught.value.field.startswith(field), caught.value
    assert met in caught.value.value, caught.value
    assert caught.value.remedy.endswith(".")


def test_every_record_says_what_holds_it_back(folder: Path) -> None:
    receipt = read_bundle(folder).content.receipt
    assert len(receipt.members) == 83
    assert {member.reasons for member in receipt.members} == {
        (LegacyReason.MISSING_PROVENANCE, LegacyReason.MISSING_ACTION)
    }
    assert receipt.created_at == max(payload["created_at"] for payloads in published().values() for payload in payloads)


def test_nine_byte_identical_attempts_would_count_once_even_as_whole_bundles() -> None:
    """Both arms of a pair begin with one answer of the model: the same program, judged the same, under two run ids.

    Nothing of the bundle is promoted, for it lacks Interventions and provenance. This gives each attempt what it lacks,
    with the published digests of its program and result as its evidence: a repetition is still no support.
    """
    judged = [trial for row in published()["verification_records"] for trial in _as_trials(row)]
    bases = {(trial.task.name, trial.seed): replace(trial, change=None, **_BASE) for trial in judged}
    table = tabulate([_bundle(trial) for trial in (*judged, *bases.values())], distillation_policy())
    assert len(judged) == 34
    assert len(table.duplicates) == 9
    assert [failure.value for failure in table.failed.values()] == ["budget"]  # the one that ran into its timeout
    (variant,) = [each for each in table.variants.values() if not each.bound]
    assert len(variant.contrasts) == 34 - 9 - 1
    assert len({contrast.support_unit_id for contrast in variant.contrasts}) == 24


_BASE: dict[str, Any] = {
    "config_digest": digest("base"), "verified": {"implementation_score": 0.9}, "violations": (), "iteration": 0,
    "artifacts": (ArtifactRef(role="result", sha256=digest("the published baseline"), size_bytes=1),),
}  # fmt: skip


def _as_trials(row: dict[str, Any]) -> Iterator[Trial]:
    """Yield the attempt of a verification record as a trial of one change, in an arm and seed of its own run."""
    places = {ref["path"].rpartition("/")[2]: ref for ref in row["evidence_refs"]}
    arm, seed, attempt = places["solution.py"]["path"].split("/")[-4:-1]
    yield make_trial(
        task=make_task(row["contract_id"]),
        contract=make_contract(
            primary_metric=MetricSpec(name="implementation_score", direction=Direction.MAXIMIZE, unit="share"),
            required_artifacts=(),
        ),
        run_id=RunId.derive({"arm": arm, "seed": seed}),
        seed=int(seed.removeprefix("seed-")),
        iteration=int(attempt.removeprefix("attempt-")),
        change=("program", "base", "written"),
        baseline_config_digest=digest("base"),
        config_digest=digest("written"),
        artifacts=tuple(
            ArtifactRef(role=role, sha256=places[name]["sha256"], size_bytes=places[name]["size_bytes"])
            for role, name in (("program", "solution.py"), ("result", "verification_result.json"))
            if name in places
        ),
        verified=row["verified_metrics"],
        violations=() if row["valid"] else tuple(name.partition(":")[0] for name in row["violations"]),
    )


def _bundle(trial: Trial) -> VerifiedEvidenceBundle:
    records = bundle_records(trial)
    assert isinstance(records[-1], Experience)
    bundle = cross_validate(records[-1], {str(record.id): record for record in records})
    assert isinstance(bundle, VerifiedEvidenceBundle), bundle
    return bundle
