"""`vrm knowledge` as a user runs it, over a world whose rules, refusals and history are known."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from memory.evidence import bundle_records
from records.appends import AppendReceipt
from records.flows import Transition
from records.ids import CandidateId, EventId, ExperienceId, MemoryId
from records.knowledge import DecisionKind, DistillationDecision, EventType, MemoryRelation, RelationKind
from records.values import Disposition
from store.artifacts import ArtifactStore
from store.ledger.port import no_guard
from tests.data.distilled import Distilled
from tests.data.stage import World
from tests.support.samples import POLICY, Common, by_noun, make_event
from tests.support.stores import Writer, granted
from tests.support.trials import digest
from tests.support.variant_samples import make_procedure_record
from tests.unit.test_standing import NAMESPACE, pairs, trial
from vrm.cli.app import app
from vrm.cli.connection import Connection, OpenStores

GOOD = {"a": 0.05, "b": 0.07, "c": 0.03, "d": 0.05}


@dataclass(frozen=True)
class Answer:
    """What a command printed and how it ended."""

    code: int
    out: str

    @property
    def json(self) -> Any:
        """The one JSON value on standard output."""
        return json.loads(self.out)


def run(world: World, *arguments: str) -> Answer:
    """Run `vrm knowledge` over a world."""

    @contextmanager
    def stores() -> Iterator[OpenStores]:
        yield world

    result = CliRunner().invoke(
        app, ["knowledge", *arguments], obj=Connection(stores, list), env={"COLUMNS": "240", "NO_COLOR": "1"}
    )
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return Answer(result.exit_code, result.stdout)


@pytest.fixture(scope="module")
def known(tmp_path_factory: pytest.TempPathFactory) -> Distilled:
    """A world that tests only read: one rule in two versions, one knob on two roots, one on a single root."""
    made = Distilled(tmp_path_factory.mktemp("known"))
    made.append(pairs(made, GOOD))
    made.append([trial(made, "a", 0.52, change=("tol", 0.001, 0.01))])
    made.append([trial(made, root, value, change=("gamma", 1, 2)) for root, value in (("a", 0.45), ("b", 0.46))])
    made.ingest()
    made.distil()
    made.append(pairs(made, {"e": 0.09}))
    made.ingest()
    made.distil()
    return made


@pytest.fixture(scope="module")
def rule(known: Distilled) -> dict[str, Any]:
    """The active rule."""
    (found,) = run(known.world, "list", "--json").json
    return dict(found)


@pytest.mark.parametrize(
    ("options", "knobs"),
    [
        ((), ["scaler"]),
        (("--all",), ["gamma", "scaler"]),
        (("--disposition", "provisional"), ["gamma"]),
        (("--all", "--knob", "gamma"), ["gamma"]),
        (("--all", "--action", "avoid"), ["gamma"]),
        (("--grade", "replicated"), []),
        (("--grade", "strong"), ["scaler"]),
        (("--metric", "balanced_accuracy"), ["scaler"]),
        (("--metric", "accuracy"), []),
        (("--scope", "multiCLASS"), ["scaler"]),
        (("--scope", "regression"), []),
        (("--kind", "procedure", "--all"), []),
        (("--all", "--sort", "effect"), ["scaler", "gamma"]),
        (("--all", "--sort", "grade"), ["scaler", "gamma"]),
    ],
)
def test_list_shows_what_is_asked_for(known: Distilled, options: tuple[str, ...], knobs: list[str]) -> None:
    listed = run(known.world, "list", "--json", *options).json
    assert [each["record"]["target"]["knob"]["name"] for each in listed] == knobs


def test_list_takes_family_scope_and_variant_by_their_ids(known: Distilled, rule: dict[str, Any]) -> None:
    record = rule["record"]
    for option, value in (("--family", record["family_id"]), ("--family", record["scope_variant_id"][:40]),
                          ("--scope", record["scope"]["task_scope_id"])):  # fmt: skip
        assert [each["id"] for each in run(known.world, "list", "--json", option, value).json] == [rule["id"]]


def test_list_says_how_many_the_default_left_out(known: Distilled) -> None:
    assert "1 more left out, being not active (1 provisional); --all shows them." in run(known.world, "list").out
    assert "left out" not in run(known.world, "list", "--all").out


@pytest.mark.parametrize("option", ["--disposition", "--grade", "--kind", "--action", "--sort"])
def test_list_refuses_a_word_that_is_none_of_the_closed_ones(known: Distilled, option: str) -> None:
    answer = run(known.world, "list", "--json", option, "excellent")
    assert (answer.code, answer.json["error"], answer.json["field"]) == (2, "InvalidInputError", option)


def test_show_goes_down_to_the_artifacts(known: Distilled, rule: dict[str, Any]) -> None:
    shown = run(known.world, "show", rule["id"], "--json").json
    assert len(shown["evidence"]) == 5
    for each in shown["evidence"]:
        changed, baseline = each["runs"]["changed"], each["runs"]["baseline"]
        assert (changed["experience_id"], baseline["experience_id"]) == (each["experience_id"], each["comparator_id"])
        stored = known.world.ledger.get(changed["observation_id"])
        assert stored is not None
        assert changed["artifacts"] == json.loads(stored.payload)["artifacts"]
        assert changed["verification"]["kind"] == "recomputed"
        assert changed["seed"] == baseline["seed"] == 0
    assert shown["decision"]["decision"] == "promoted_active"
    assert shown["candidate"]["id"] == shown["decision"]["candidate_id"] == rule["record"]["candidate_id"]
    text = run(known.world, "show", rule["id"], "--links").out
    artifact = shown["evidence"][0]["runs"]["changed"]["artifacts"][0]
    for part in (artifact["sha256"], shown["candidate"]["id"], "experiments.evaluator", "95 % mean", "95 % new task",
                 "supersedes", "5 roots, 5 pairs", shown["evidence"][0]["stratum_id"]):  # fmt: skip
        assert part in text, part


def test_relations_are_told_from_both_ends(known: Distilled, rule: dict[str, Any]) -> None:
    (newer,) = run(known.world, "show", rule["id"], "--json").json["relations"]
    assert (newer["relation"], newer["direction"]) == ("supersedes", "to")
    shown = run(known.world, "show", newer["memory_id"], "--json").json
    assert (shown["disposition"], shown["current"]) == ("superseded", False)
    (older,) = shown["relations"]
    assert (older["direction"], older["memory_id"], older["claim"]) == ("from", rule["id"], rule["claim"])
    assert "is superseded by" in run(known.world, "show", newer["memory_id"]).out


def test_verify_tells_bytes_that_match_from_those_that_do_not(tmp_path: Path) -> None:
    made = Distilled(tmp_path)
    files = {}
    trials = list(pairs(made, GOOD))
    for place, each in enumerate(trials):
        data = f"the predictions of run {place}".encode()
        files[place] = made.world.artifacts.reference("predictions", data)
        trials[place] = trial(
            made, each.task.root, each.verified["balanced_accuracy"], change=each.change, artifacts=(files[place],)
        )
    made.append(trials)
    made.ingest()
    made.distil()
    _damage(made.world.artifacts, [files[place].sha256 for place in range(3)])
    (rule,) = run(made.world, "list", "--json").json
    shown = run(made.world, "show", rule["id"], "--verify", "--json").json
    found = {ref["sha256"]: ref["bytes"] for each in shown["evidence"] for side in each["runs"].values()
             for ref in side["artifacts"]}  # fmt: skip
    said = [found[files[place].sha256] for place in range(8)]
    assert said == ["missing", "changed", "erased", *["match"] * 5]
    text = run(made.world, "show", rule["id"], "--verify").out
    assert "Bytes of the artifacts: 1 changed, 1 erased, 5 match, 1 missing" in text


def _damage(artifacts: ArtifactStore, digests: list[str]) -> None:
    missing, changed, erased = digests
    Path(artifacts.location(missing)).unlink()
    Path(artifacts.location(changed)).write_bytes(b"something else")
    artifacts.erase(erased)


def test_history_tells_every_decision_and_what_it_changed(known: Distilled, rule: dict[str, Any]) -> None:
    (history,) = run(known.world, "history", rule["id"], "--json").json
    assert history["head"] == {"memory_id": rule["id"], "disposition": "active"}
    steps = history["steps"]
    positions = [step["position"] for step in steps]
    assert positions == sorted(positions)
    events = [step["event"] for step in steps if step["what"] == "event"]
    assert [event["event_type"] for event in events] == ["promoted_active", "superseded", "promoted_active"]
    assert [event["expected_prior"] for event in events] == ["GENESIS", *history["chain"][:2]]
    first, second = [step["changed"] for step in steps if step["what"] == "decision"]
    assert (len(first["links_added"]), len(second["links_added"]), second["links_removed"]) == (4, 1, [])
    # By hand: (0.05 + 0.07 + 0.03 + 0.05) / 4, then with 0.09 over five.
    assert second["effect"] == ["0.05", "0.058"]
    assert (second["units"], second["grade"]) == ([4, 5], ["replicated", "strong"])
    text = run(known.world, "history", rule["id"]).out
    for part in ("superseded", "+0.05 -> +0.058 share over 4 -> 5 units", "replicated -> strong", "on GENESIS"):
        assert part in text


def test_history_of_what_was_never_promoted(known: Distilled) -> None:
    (decision,) = (
        each for each in known.world.ledger.find("distillation-decision", NAMESPACE, decision="deferred")
        if "tol" in str(known.world.ledger.get(json.loads(each.payload)["candidate_id"]))
    )  # fmt: skip
    candidate = json.loads(decision.payload)["candidate_id"]
    (history,) = run(known.world, "history", candidate, "--json").json
    assert (history["head"], history["chain"]) == (None, [])
    assert {step["decision"]["decision"] for step in history["steps"]} == {"deferred"}
    assert "nothing of it was ever promoted" in run(known.world, "history", candidate).out


def test_history_takes_family_and_variant(known: Distilled, rule: dict[str, Any]) -> None:
    wanted = run(known.world, "history", rule["id"], "--json").json
    for key in ("family_id", "scope_variant_id"):
        assert run(known.world, "history", rule["record"][key], "--json").json == wanted


@pytest.mark.parametrize(
    ("command", "argument", "error"),
    [("history", "experience:1", "InvalidInputError"), ("history", "f" * 64, "NotFoundError"),
     ("why-not", "memory-record:1", "InvalidInputError"), ("why-not", "x!", "InvalidInputError"),
     ("why-not", "f" * 64, "NotFoundError")],
)  # fmt: skip
def test_what_names_nothing_is_refused(known: Distilled, command: str, argument: str, error: str) -> None:
    answer = run(known.world, command, argument, "--json")
    assert (answer.code, answer.json["error"]) == (2, error)


def test_why_not_counts_by_reason_and_says_what_would_complete(known: Distilled) -> None:
    told = run(known.world, "why-not", str(known.run_id), "--json").json
    counts = {(each["state"], each["code"]): each["count"] for each in told["counts"]}
    # Ten runs of the five pairs are behind the rule; the baselines of the other knobs are among them.
    assert counts == {
        ("behind an active rule", None): 10,
        ("behind a provisional rule", "eligible_provisional"): 2,
        ("decided: deferred", "insufficient_independent_support"): 1,
    }
    assert told["experiences"] == sum(counts.values()) == 13
    (deferred,) = (each for each in told["standings"] if each["decision"] == "deferred")
    assert deferred["remedies"][0] == "1 of 3 dataset roots; needs 2 more dataset roots of the same task scope."
    text = run(known.world, "why-not", str(known.run_id)).out
    assert "13 experiences of run:" in text
    assert "10  behind an active rule" in text
    assert "- 2 of 3 dataset roots; needs 1 more dataset root of the same task scope." in text


def test_why_not_of_one_experience(known: Distilled, rule: dict[str, Any]) -> None:
    experience = rule["record"]["links"][0]["experience_id"]
    told = run(known.world, "why-not", experience.partition(":")[2][:16], "--json").json
    (standing,) = told["standings"]
    assert (told["subject"], standing["rules"]) == (experience, [rule["id"]])


def test_plot_shows_the_units_that_were_decided_on(known: Distilled, rule: dict[str, Any], tmp_path: Path) -> None:
    answer = run(known.world, "plot", rule["id"], "-o", str(tmp_path / "new" / "rule.svg"), "--json")
    assert answer.json == {"written": [{"id": rule["id"], "file": str(tmp_path / "new" / "rule.svg")}]}
    root = ET.parse(tmp_path / "new" / "rule.svg").getroot()  # noqa: S314  # it was drawn here
    texts = ["".join(each.itertext()).strip() for each in root.iter("{http://www.w3.org/2000/svg}text")]
    # Roots in the order of their effects, as the trials of this module set them.
    assert [text for text in texts if text in "abcde"] == ["e", "b", "a", "d", "c"]
    assert {"+0.0900", "+0.0700", "+0.0500", "+0.0300", "+0.0580", "mean of 5 roots"} <= set(texts)
    assert any(rule["id"] in text for text in texts)
    assert " ".join(texts).count("Changing scaler") == 1


def test_a_rule_of_one_task_has_a_row_for_each_of_its_pairs(tmp_path: Path) -> None:
    made = Distilled(tmp_path)
    gains = (0.05, 0.07, 0.03, 0.04, 0.06)
    made.append(each for seed, gain in enumerate(gains) for each in pairs(made, {"a": gain}, seed))
    made.ingest()
    made.distil()
    (rule,) = run(made.world, "list", "--json").json
    assert rule["record"]["scope"]["evaluation_task_id"] is not None
    run(made.world, "plot", rule["id"], "-o", str(tmp_path / "rule.svg"))
    root = ET.parse(tmp_path / "rule.svg").getroot()  # noqa: S314  # it was drawn here
    texts = ["".join(each.itertext()).strip() for each in root.iter("{http://www.w3.org/2000/svg}text")]
    assert [text for text in texts if text.startswith("seed ")] == ["seed 1", "seed 4", "seed 0", "seed 3", "seed 2"]
    assert {"mean of 5 runs", "one new run, predicted", "+0.0700", "+0.0500"} <= set(texts)
    assert "5 units of one task, 5 pairs" in run(made.world, "show", rule["id"]).out


def test_plot_all_draws_every_active_rule(known: Distilled, rule: dict[str, Any], tmp_path: Path) -> None:
    answer = run(known.world, "plot", "--all", str(tmp_path), "--format", "pdf")
    (path,) = tmp_path.iterdir()
    assert answer.out.strip() == str(path)
    assert path.name == f"{rule['id'].partition(':')[2][:12]}.pdf"
    assert path.read_bytes().startswith(b"%PDF")


@pytest.mark.parametrize(
    "arguments",
    [(), ("3f",), ("-o", "x.png"), ("3f", "-o", "x.gif"), ("3f", "--all", "x"), ("--all", "x", "--format", "gif")],
)
def test_plot_refuses_options_that_do_not_go_together(known: Distilled, arguments: tuple[str, ...]) -> None:
    answer = run(known.world, "plot", *arguments, "--json")
    assert (answer.code, answer.json["error"]) == (2, "InvalidInputError")


@pytest.fixture
def with_procedure(tmp_path: Path) -> World:
    """A world with a procedure beside a rule that it implements, appended as a distillation would."""
    made = Distilled(tmp_path)
    trials = list(pairs(made, GOOD))
    made.append(trials)
    made.ingest()
    made.distil()
    common, ledger = Common(NAMESPACE), made.world.ledger
    (rule,) = run(made.world, "list", "--json").json
    snapshot = ledger.find("evidence-snapshot", NAMESPACE)[0].load()
    known = by_noun(*bundle_records(trials[1]), snapshot)
    comparator = ExperienceId(bundle_records(trials[0])[-1].id)
    candidate, procedure = make_procedure_record(common, known, comparator)
    event = make_event(common, procedure, EventType.PROMOTED_ACTIVE, Disposition.ACTIVE)
    event = event.model_copy(update={"evidence_snapshot_id": snapshot.id})
    relation = MemoryRelation(
        **common.head, source_memory_id=MemoryId(procedure.id), target_memory_id=MemoryId(rule["id"]),
        relation=RelationKind.PROCEDURE_IMPLEMENTS, event_id=EventId(event.id), policy=POLICY,
    )  # fmt: skip
    decision = DistillationDecision(
        **common.head, candidate_id=CandidateId(candidate.id), decision=DecisionKind.PROMOTED_ACTIVE,
        reasons=("eligible_active",), memory_id=MemoryId(procedure.id), policy=POLICY, policy_set_digest=digest("set"),
    )  # fmt: skip
    writer = Writer(ledger, NAMESPACE, ledger.claim("test", "test"))
    records = (candidate, procedure, event, relation, decision)
    (answer,) = writer.commit(granted(Transition.COMMIT_DISTILLATION, records, "procedure"), guard=no_guard)
    assert isinstance(answer, AppendReceipt), answer
    return made.world


def test_procedures_are_listed_and_shown_beside_rules(with_procedure: World) -> None:
    listed = {each["kind"]: each for each in run(with_procedure, "list", "--json").json}
    assert listed.keys() == {"semantic", "procedure"}
    (only,) = run(with_procedure, "list", "--kind", "procedure", "--json").json
    procedure = listed["procedure"]
    assert only == procedure
    text = run(with_procedure, "list", "--sort", "effect").out
    assert text.index("Changing scaler") < text.index("When loss_diverged at diagnosis: finite_loss in 2 steps.")
    text = run(with_procedure, "show", procedure["id"]).out
    for part in ("loss_diverged at diagnosis; goal finite_loss", "Lower the learning rate.", "tabular-runner 1.2.0",
                 'set_knob(knob="learning_rate", value=0.01)', "loss <= 10, after again", "too_slow: It no longer",
                 "30 expected, 60 at most, s", "implements", "eligible_active", digest("allowlist")):  # fmt: skip
        assert part in text, part
    shown = run(with_procedure, "show", listed["semantic"]["id"], "--json").json
    assert [(each["relation"], each["direction"]) for each in shown["relations"]] == [("procedure_implements", "from")]


def test_a_procedure_has_a_history_and_no_forest(with_procedure: World, tmp_path: Path) -> None:
    (procedure,) = run(with_procedure, "list", "--kind", "procedure", "--json").json
    (history,) = run(with_procedure, "history", procedure["id"], "--json").json
    assert [step["what"] for step in history["steps"]] == ["event", "decision"]
    assert run(with_procedure, "history", procedure["id"]).code == 0
    answer = run(with_procedure, "plot", procedure["id"], "-o", str(tmp_path / "p.svg"), "--json")
    assert (answer.code, answer.json["error"]) == (2, "InvalidInputError")
    told = run(with_procedure, "why-not", procedure["record"]["links"][0]["experience_id"], "--json").json
    assert procedure["id"] in told["standings"][0]["rules"]
