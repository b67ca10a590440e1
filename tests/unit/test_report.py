"""The page and the summary of a round: they stand alone, let nothing in unescaped, and say what the data say."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from evaluation.paired import Finding, PairedTrial, paired_effect
from records.errors import InvalidSourceError, NotFoundError, UnavailableError
from store.ledger.memory import MemoryLedger
from tests.unit.facts_world import COMPARED, ROUND, filled_world
from vrm.mainjob.facts import RoundFacts, facts_of
from vrm.mainjob.facts.shapes import Change
from vrm.mainjob.plan import Round
from vrm.report import read_facts, render, summary_lines, write_report
from vrm.report.headline import headline
from vrm.report.page import OUTCOMES
from vrm.report.words import change, say, scope, signed

_HOSTILE = '<script src="https://x.test/a.js"></script>&"\''
_CLOSED = frozenset({"direction", "outcome", "tasks", "finding"})
_VOID = frozenset({"meta", "br", "link", "img", "input", "hr"})


@pytest.fixture(scope="module")
def facts(tmp_path_factory: pytest.TempPathFactory) -> RoundFacts:
    world = filled_world(tmp_path_factory.mktemp("world"))
    with world.ledger.reading() as reader:
        return facts_of(
            reader,
            ROUND,
            seconds={"Experiments": 12.25, "Decisions": 3.5},
            versions={"python": "3.11"},
            made_at="2026-01-01T00:00:00Z",
        )


@pytest.fixture(scope="module")
def page(facts: RoundFacts) -> str:
    return render(facts)


class _Reader(HTMLParser):
    """Checks that elements nest, and notes tags, ids, references to ids, and addresses."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.ids: list[str] = []
        self.refs: set[str] = set()
        self.loads: list[str] = []
        self.text: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        if tag not in _VOID:
            self.open.append(tag)
        self._attributes(attrs)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self._attributes(attrs)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)

    def _attributes(self, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            assert not name.startswith("on")
            if name == "id":
                self.ids.append(value or "")
            if name in {"href", "xlink:href", "src", "clip-path"} and value:
                (self.refs.add if "#" in value else self.loads.append)(value)


def _read(text: str) -> _Reader:
    reader = _Reader()
    reader.feed(text)
    reader.close()
    assert reader.open == []
    return reader


def _mapped(value: Any, edit: Callable[[str], str], key: str = "") -> Any:
    if isinstance(value, dict):
        return {name: _mapped(item, edit, name) for name, item in value.items()}
    if isinstance(value, list):
        return [_mapped(item, edit, key) for item in value]
    return edit(value) if isinstance(value, str) and key not in _CLOSED else value


def _with_deltas(facts: RoundFacts, *deltas: float) -> RoundFacts:
    """Return the facts as if the registered comparison had found these differences."""
    trials = [PairedTrial(task=f"t{n}", seed=0, control=0.5, memory=0.5 + delta) for n, delta in enumerate(deltas)]
    effect = paired_effect(trials)
    comparisons = tuple(
        item if item.exploratory else item.model_copy(update={"effect": effect}) for item in facts.held_out.comparisons
    )
    return facts.model_copy(update={"held_out": facts.held_out.model_copy(update={"comparisons": comparisons})})


def test_page_stands_alone(page: str) -> None:
    reader = _read(page)
    assert reader.loads == []
    assert not reader.tags & {"script", "link", "img", "iframe", "object"}
    assert "@import" not in page
    assert not re.search(r"url\((?!#)", page)
    assert "default-src 'none'" in page


def test_drawings_take_their_colours_from_the_page_and_share_no_id(page: str) -> None:
    drawings = re.findall(r"<svg.*?</svg>", page, flags=re.DOTALL)
    assert len(drawings) == 3
    assert not any(re.search(r"#[0-9a-fA-F]{3,8}\b(?!\))", re.sub(r'"#[^"]*"', "", each)) for each in drawings)
    reader = _read(page)
    assert len(reader.ids) == len(set(reader.ids))
    assert {ref.strip("url()").lstrip("#") for ref in reader.refs} <= set(reader.ids)
    assert all('role="img" aria-label="' in each for each in drawings)


def test_the_same_facts_give_the_same_bytes(facts: RoundFacts, page: str) -> None:
    assert render(RoundFacts.model_validate_json(facts.model_dump_json())) == page


def test_everything_is_escaped(facts: RoundFacts) -> None:
    values = _mapped(json.loads(facts.model_dump_json()), lambda text: text + _HOSTILE)
    page = render(RoundFacts.model_validate_json(json.dumps(values)))
    reader = _read(page)
    assert "script" not in reader.tags
    assert "<script" not in page
    assert reader.loads == []
    assert sum(_HOSTILE in text for text in reader.text) > 20


def test_mathematics_in_a_name_is_only_text(facts: RoundFacts) -> None:
    values = _mapped(json.loads(facts.model_dump_json()), lambda text: f"$x^2$ {text} $\\frac$")
    assert "$x^2$" in render(RoundFacts.model_validate_json(json.dumps(values)))


def test_page_tells_rules_decisions_and_where_they_stand(facts: RoundFacts, page: str) -> None:
    text = " ".join(" ".join(_read(page).text).split())
    rule = facts.rules[0]
    digits = rule.memory_id.partition(":")[2][:12]
    assert rule.claim in text
    assert f"vrm knowledge show {digits}" in text
    assert "vrm fsck" in text
    assert facts.journal.chain_digest in text
    assert "7 of 8 planned decisions have an outcome" in text
    assert "invalid: predictions_missing" in text
    assert "exploratory" in text
    assert "15.8 seconds in 2 steps" in text


def test_a_round_that_has_not_begun_has_a_page(tmp_path: Path) -> None:
    round_ = Round(namespace="nothing", number=3, size=ROUND.size)
    with MemoryLedger().reading() as reader:
        facts = facts_of(reader, round_, seconds={}, versions={})
    path = write_report(facts, tmp_path / "made")
    text = path.read_text(encoding="utf-8")
    _read(text)
    assert path.name == "nothing-small-round-3.html"
    assert "Nothing was promoted." in text
    assert "Nobody took the time" in text
    assert "The round is not finished: 0 of 8" in text


@pytest.mark.parametrize(
    ("deltas", "finding", "title"),
    [
        ((0.1, 0.11, 0.12, 0.1, 0.13, 0.12), Finding.GAIN, "A gain on the held-out tasks"),
        ((-0.1, -0.11, -0.12, -0.1, -0.13, -0.12), Finding.LOSS, "A loss on the held-out tasks"),
        ((0.1, -0.1, 0.2, -0.2), Finding.NOT_SHOWN, "Neither gain nor loss is shown on the held-out tasks"),
        ((0.2, 0.2), Finding.NOT_SHOWN, "Neither gain nor loss is shown on the held-out tasks"),
        # t = 5.2 on three differences, but three of three signs prove nothing (p = 0.25).
        ((0.1, 0.2, 0.15), Finding.GAIN, "A gain on the held-out tasks, weakly supported"),
    ],
)
def test_headline_says_what_the_registered_comparison_found(
    facts: RoundFacts, deltas: tuple[float, ...], finding: Finding, title: str
) -> None:
    head = headline(_with_deltas(facts, *deltas))
    assert (head.verdict, head.title) == (finding.value, title)
    assert any(f"over {len(deltas)} tasks" in sentence for sentence in head.sentences)
    assert any("not a claim about other models" in sentence for sentence in head.caveats)


def test_headline_gives_direction_interval_and_counts(facts: RoundFacts) -> None:
    head = headline(_with_deltas(facts, -0.1, -0.11, -0.12, -0.1, -0.13, 0.0))
    # Mean -0.56/6; s = 0.047188; t(0.975, 5) = 2.5706: half 2.5706 * 0.047188 / sqrt(6) = 0.04952.
    assert "9.3 percentage points lower than without" in head.sentences[0]
    assert "\N{MINUS SIGN}14.3 to \N{MINUS SIGN}4.4 percentage points" in head.sentences[1]
    assert head.sentences[2] == "Memory was ahead on 0 tasks, behind on 5, and tied on 1."


def test_failed_trials_are_said_in_the_headline(facts: RoundFacts) -> None:
    assert any("1 control and 0 memory trials of 2 had no valid result" in each for each in headline(facts).caveats)


def test_summary_is_whole_tables(facts: RoundFacts) -> None:
    sections = summary_lines(facts)
    for section in sections:
        assert {len(row) for row in section.rows} <= {len(section.header)}
        assert all(isinstance(cell, str) for row in section.rows for cell in row)
    by_title = {section.title: section for section in sections}
    assert len(by_title["Rules"].rows) == 1
    told = by_title["Held-out decisions"]
    given = [each for trial in facts.held_out.trials for each in trial.memory.decisions if each.cards]
    assert len(told.rows) == len(given) > 0
    assert f"{len(given)} were given cards" in told.lines[0]
    assert by_title["Where the time went"].rows[-1] == ("together", "15.8")
    assert sections[-1].title == headline(facts).title


def test_files_are_written_whole_and_read_back(facts: RoundFacts, tmp_path: Path) -> None:
    path = write_report(facts, tmp_path)
    assert sorted(item.name for item in tmp_path.iterdir()) == [
        "world-small-round-0.facts.json",
        "world-small-round-0.html",
    ]
    assert read_facts(tmp_path, ROUND) == facts
    assert write_report(facts, tmp_path) == path
    assert len(list(tmp_path.iterdir())) == 2


def test_facts_that_cannot_be_read_say_so(facts: RoundFacts, tmp_path: Path) -> None:
    with pytest.raises(NotFoundError):
        read_facts(tmp_path, ROUND)
    write_report(facts, tmp_path)
    stored = tmp_path / "world-small-round-0.facts.json"
    stored.write_text(stored.read_text(encoding="utf-8")[:-100], encoding="utf-8")
    with pytest.raises(InvalidSourceError, match=r"facts\.json"):
        read_facts(tmp_path, ROUND)


def test_a_folder_that_is_a_file_is_refused(facts: RoundFacts, tmp_path: Path) -> None:
    taken = tmp_path / "taken"
    taken.write_text("something else", encoding="utf-8")
    with pytest.raises(UnavailableError, match="report folder"):
        write_report(facts, taken)
    assert taken.read_text(encoding="utf-8") == "something else"


def test_words() -> None:
    assert say("deferred: insufficient_independent_support") == "deferred: too little independent support"
    assert say("a_code_without_words") == "a code without words"
    assert signed(-0.00314) == "\N{MINUS SIGN}0.0031"
    assert signed(0.0) == "0"
    assert scope("class_balance balanced, size_band small") == "balanced, small"
    made = Change(knob="C", from_value="1", to_value='"auto"')
    assert change(made) == "C 1 \N{RIGHTWARDS ARROW} auto"


def test_the_arm_of_the_earlier_design_is_told_with_its_denominator(tmp_path: Path, facts: RoundFacts) -> None:
    """By hand (`facts_world`): in effect at the end are 0.8 and 0.4; control 0.7 and none, memory 0.75 and 0.4."""
    world = filled_world(tmp_path / "compared", COMPARED)
    with world.ledger.reading() as reader:
        compared = facts_of(reader, COMPARED, seconds={}, versions={})
    legacy = compared.held_out.legacy
    assert legacy is not None
    assert (legacy.planned, legacy.with_outcome, legacy.trials, legacy.failed) == (4, 3, 2, 0)
    final = {(each.arm, each.minus): each.effect for each in legacy.differences if each.outcome == "final"}
    assert final["legacy", "control"].mean_delta == pytest.approx(((0.8 - 0.7) + (0.4 - 0)) / 2)
    assert final["memory", "legacy"].mean_delta == pytest.approx(((0.75 - 0.8) + 0) / 2)
    assert {effect.n_tasks for effect in final.values()} == {2}
    text = render(compared)
    assert "3 of 4 planned decisions of this arm" in text
    assert "legacy minus control" in text
    assert text.count("<strong>legacy</strong>") == 2
    (section,) = (each for each in summary_lines(compared) if "earlier design" in each.title)
    assert section.rows[0][:4] == ("legacy minus control", OUTCOMES["final"], "2", signed(0.25))
    assert compared.held_out.comparisons == facts.held_out.comparisons, "the registered comparison is what it was"
    assert (compared.held_out.planned, facts.held_out.legacy) == (facts.held_out.planned, None)
    assert "earlier design" not in render(facts)
