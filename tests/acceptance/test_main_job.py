"""The main job at a small size, as a user runs it, and what can be asked of the store afterwards."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from store.server import EmbeddedPostgres
from tests.acceptance.conftest import ROOT, Product
from vrm.home import Home
from vrm.mainjob.plan import SMALL, development_tasks, held_out_tasks

ATTRIBUTES = ("problem_type=binary", "class_balance=imbalanced", "size_band=small", "feature_kinds=numeric")
FITS = len(development_tasks(SMALL)) * (1 + len(SMALL.contrasts or ()))
TRIALS = len(held_out_tasks(SMALL)) * 2


def _asked(attributes: tuple[str, ...]) -> list[str]:
    return [part for attribute in attributes for part in ("--task", attribute)]


def test_a_round_verifies_every_fit_and_leaves_a_clean_store(product: Product, first_round: dict[str, Any]) -> None:
    records = product.json("status")["records"]
    assert first_round["report"].endswith(".html")
    assert records["experience"] >= FITS + TRIALS * (1 + SMALL.decisions)
    assert records["verification"] == records["experience"] == records["distillation-receipt"]
    assert records["distillation-work-completion"] == records["distillation-work-item"]
    assert product.json("fsck")["clean"]


def test_a_real_effect_becomes_active_and_a_true_null_does_not(product: Product, first_round: dict[str, Any]) -> None:
    rules = product.json("knowledge", "list")
    text = str(rules)
    assert "class_weight" in text
    assert "tol" not in text, "a knob that does nothing must not become knowledge"
    refused = str(first_round["facts"]["refused"])
    assert "tol" in refused


def test_vrm_r07_every_intent_ends_in_one_outcome_with_one_disposition_per_card(
    product: Product, first_round: dict[str, Any]
) -> None:
    records = product.json("status")["records"]
    assert first_round["facts"]["round"] == 0
    assert records["decision-intent"] == records["recall-decision-outcome"]
    assert records["decision-intent"] > 0
    assert records["decision-intent"] % (TRIALS * SMALL.decisions) == 0
    assert records["decision-recall-context"] == records["decision-intent"] // 2
    assert product.json("fsck")["clean"]  # it compares the dispositions of every outcome with the cards of its context


def test_the_report_is_one_page_that_needs_nothing_else(first_round: dict[str, Any]) -> None:
    page = Path(first_round["report"]).read_text(encoding="utf-8")
    assert "<svg" in page
    assert not re.search(r"""(src|href)\s*=\s*["']?\s*(https?:|//)""", page)
    assert "class_weight" in page


def test_recall_answers_where_a_rule_applies_and_abstains_elsewhere(
    product: Product, first_round: dict[str, Any]
) -> None:
    assert first_round
    here = product.json("recall", *_asked(ATTRIBUTES))
    elsewhere = product.json("recall", *_asked(("problem_type=multiclass", *ATTRIBUTES[1:])))
    assert here["status"] == "ok"
    assert len(here["cards"]) <= 3
    assert here["cards"][0]["target"]["knob"]["name"] == "class_weight"
    assert here["cards"][0]["supporting"]
    assert here["tokens"] <= 1200
    assert (elsewhere["status"], elsewhere["cards"]) == ("empty", [])


def test_bad_questions_get_a_typed_error(product: Product, first_round: dict[str, Any]) -> None:
    assert first_round
    error = product.json("recall", "--task", "no-equals-sign", code=2)
    assert (error["error"], error["field"]) == ("InvalidInputError", "--task")
    error = product.json("recall", *_asked(ATTRIBUTES), "--set", "class_weight=sometimes", code=2)
    assert "class_weight" in error["field"]


def test_a_second_run_extends_and_doubles_nothing(product: Product, first_round: dict[str, Any]) -> None:
    before = product.json("status")["records"]
    second = product.json("run", "--size", "small")
    after = product.json("status")["records"]
    assert second["facts"]["round"] > first_round["facts"]["round"]
    fresh = len(development_tasks(SMALL)) * SMALL.later_seeds * (1 + len(SMALL.contrasts or ()))
    assert after["experience"] - before["experience"] == fresh + TRIALS * (1 + SMALL.decisions)
    assert after["evaluation-contract"] == before["evaluation-contract"]
    assert product.json("fsck")["clean"]


def test_importing_a_table_twice_is_a_replay(product: Product, first_round: dict[str, Any]) -> None:
    assert first_round
    product.json("import", str(ROOT / "importers" / "data" / "hpobench_mlp"))
    before = product.json("status")["records"]
    assert product.json("import", str(ROOT / "importers" / "data" / "hpobench_mlp"))["new_records"] == 0
    product.json("distil")
    assert product.json("status")["records"]["experience"] == before["experience"]
    assert product.json("fsck")["clean"]


def test_another_process_finds_the_owners(product: Product, first_round: dict[str, Any]) -> None:
    assert first_round
    program = (
        "import vrm\n"
        "with vrm.connect() as memory:\n"
        "    assert memory.actors is not None\n"
        "    handles = memory.actors.handles()\n"
        "    print(sorted(name for name, handle in handles.items() if handle.find() is not None))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, env=product.environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    for role in ("commit-coordinator", "run-owner", "lifecycle-head-", "distiller-", "retriever-", "embedder"):
        assert role in done.stdout


def test_a_server_that_was_killed_comes_back_with_everything_and_the_owners_go_on(
    product: Product, first_round: dict[str, Any]
) -> None:
    assert first_round
    before = product.json("status")["records"]
    home = Home(product.home)
    pid = EmbeddedPostgres(home.postgres, home.postgres_sockets).pid()
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    assert product.json("fsck")["clean"]
    assert product.json("status")["records"] == before
    product.json("distil")
    assert product.json("fsck")["clean"]


def test_the_example_of_the_readme_runs(product: Product, first_round: dict[str, Any]) -> None:
    assert first_round
    (example,) = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL)
    assert len(example.splitlines()) <= 16
    done = subprocess.run(
        [sys.executable, "-c", example], cwd=ROOT, env=product.environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "recommend class_weight" in done.stdout
    assert "ok ok_cards_returned" in done.stdout
