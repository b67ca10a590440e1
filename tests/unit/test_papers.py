"""Numbers of a paper against recorded results: two texts whose every number was labelled by hand, and rules alone."""

from __future__ import annotations

from decimal import ROUND_HALF_EVEN, ROUND_HALF_UP, Decimal
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.papers.matching import Finding, PaperAudit, Reason, Recorded, Verdict, audit_paper
from policies.papers.policy import paper_policy
from policies.papers.prose import Form, prose_of
from records.canonical import metric_text

POLICY = paper_policy()
PAPERS = Path(__file__).resolve().parent.parent / "data" / "papers"
MATCHED, CONTRADICTED, UNGROUNDED, SETTING = (
    Verdict.MATCHED, Verdict.CONTRADICTED, Verdict.UNGROUNDED, Verdict.SETTING,
)  # fmt: skip


def recorded(metric: str, value: float, unit: str | None = None, node: str = "best", withheld: str = "") -> Recorded:
    return Recorded(
        metric=metric, value=metric_text(value), unit=unit, entry_id=f"e-{node}-{metric}", node_id=node,
        withheld=withheld,
    )  # fmt: skip


RESULTS = (
    recorded("accuracy", 0.9722222222222222, "ratio"),
    recorded("accuracy", 0.9444444444444444, "ratio", "root"),
    recorded("cv_accuracy_std", 0.0213),
    recorded("balanced_accuracy", 0.9809523809523809),
    recorded("log_loss", 0.08713),
    recorded("train_time_ms", 1234.5),
    recorded("throughput", 84.9, "GB/s"),
    recorded("f1_score", 0.961, withheld="rerun_failed"),
)


def audit(text: str, form: Form = Form.MARKDOWN, results: tuple[Recorded, ...] = RESULTS) -> PaperAudit:
    return audit_paper(text, form, results, POLICY)


def told(found: Finding) -> tuple[int, str, Verdict, Reason | None]:
    return found.line, found.text, found.verdict, found.reason


def test_every_number_of_a_markdown_paper_has_the_verdict_that_a_reader_gave_it() -> None:
    """The labels come from reading the text beside the results by the rules of `docs/lineage-reading.md`."""
    found = audit((PAPERS / "search.md").read_text(encoding="utf-8"))
    assert [told(each) for each in found.findings] == [
        (7, "24", UNGROUNDED, Reason.NO_SUCH_VALUE),
        (11, "0.972", MATCHED, None),
        (11, "0.944", MATCHED, None),
        (12, "97.2 %", MATCHED, None),
        (12, "0.981", MATCHED, None),
        (13, "1,234.5 ms", UNGROUNDED, Reason.METRIC_NOT_NAMED),  # "training takes" is not "training time"
        (13, "8.71e-2", MATCHED, None),
        (14, r"8.7\times10^{-2}", MATCHED, None),
        (14, "0.0871", MATCHED, None),
        (15, "5", UNGROUNDED, Reason.NO_SUCH_VALUE),
        (15, "0.958", CONTRADICTED, Reason.OTHER_VALUE),
        (15, "0.021", MATCHED, None),
        (15, "0.961", UNGROUNDED, Reason.NOT_USABLE),
        (16, "512 MB", UNGROUNDED, Reason.NO_SUCH_VALUE),
        (16, "84.9 GB/s", MATCHED, None),
        (17, "8", SETTING, Reason.NO_SUCH_VALUE),
        (18, "2.8 percentage points", UNGROUNDED, Reason.NO_SUCH_VALUE),
        (23, "94.4", MATCHED, None),
        (23, "310", CONTRADICTED, Reason.OTHER_VALUE),
        (24, "97.3", CONTRADICTED, Reason.OTHER_VALUE),
        (24, "1234.5", MATCHED, None),
        (30, "0.999", UNGROUNDED, Reason.NO_SUCH_VALUE),
        (32, "0.25", UNGROUNDED, Reason.NO_SUCH_VALUE),
    ]
    assert (found.count(MATCHED), found.stated, found.coverage) == (11, 22, Fraction(1, 2))
    assert not found.is_grounded


def test_every_number_of_a_latex_paper_has_the_verdict_that_a_reader_gave_it() -> None:
    found = audit((PAPERS / "search.tex").read_text(encoding="utf-8"), Form.LATEX)
    assert [told(each)[:3] for each in found.findings] == [
        (6, "0.972", MATCHED),
        (6, r"8.71 \times 10^{-2}", MATCHED),
        (7, r"97.2\,\%", MATCHED),
        (7, "1{,}235~ms", MATCHED),  # half of 1234.5 goes up or to even
        (8, "85}{GB/s", MATCHED),
        (8, "84.2$~GB/s", UNGROUNDED),  # "it": what it is about is not said
        (11, "97.2", MATCHED),
        (11, "0.087", MATCHED),
        (12, "94.4", MATCHED),
        (12, "0.19", CONTRADICTED),
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Accuracy is 0.97.", [("0.97", MATCHED)]),
        ("Accuracy is .972.", [(".972", MATCHED)]),
        ("Accuracy is 0.9722222.", [("0.9722222", MATCHED)]),
        ("Accuracy is 0.9723.", [("0.9723", CONTRADICTED)]),
        ("Accuracy is 1.", [("1", CONTRADICTED)]),  # not one digit of the value is written
        ("Accuracy is 0.", [("0", CONTRADICTED)]),
        ("Log loss is 0.0.", [("0.0", CONTRADICTED)]),
        ("Accuracy is 97 %.", [("97 %", MATCHED)]),
        ("Accuracy is 97.2 percent.", [("97.2 percent", MATCHED)]),
        ("Accuracy is 97.2.", [("97.2", CONTRADICTED)]),  # per cent have to be said
        ("Accuracy is \u22120.972.", [("\u22120.972", CONTRADICTED)]),
        ("Accuracy rose from 0.944 to 0.972.", [("0.944", MATCHED), ("0.972", MATCHED)]),
        ("Accuracy was 0.944\u20130.972.", [("0.944", MATCHED), ("0.972", MATCHED)]),
        ("Accuracy improved by 0.028.", [("0.028", UNGROUNDED)]),
        ("We got 0.972 accuracy.", [("0.972", MATCHED)]),
        ("It got 0.972.", [("0.972", UNGROUNDED)]),
        ("Accuracy: see below. It is 0.972.", [("0.972", MATCHED)]),
        ("Accuracy.\n\nIt is 0.972.", [("0.972", UNGROUNDED)]),
        ("Throughput is 84.9 GB/s.", [("84.9 GB/s", MATCHED)]),
        ("Throughput is 84.9 MB/s.", [("84.9 MB/s", UNGROUNDED)]),
        ("Throughput is 84.9 GB per second.", [("84.9 GB per second", MATCHED)]),
        ("Training time is 1 234.5 ms.", [("1", CONTRADICTED), ("234.5 ms", CONTRADICTED)]),
        ("Training time is 1\u202f234.5 ms.", [("1 234.5 ms", MATCHED)]),
        ("Training time is 1.23e3 ms.", [("1.23e3 ms", MATCHED)]),
        ("Training time is 1.2345\u00d710\u00b3 ms.", [("1.2345\u00d710\u00b3 ms", MATCHED)]),
        ("Training time is 1200 ms.", [("1200 ms", CONTRADICTED)]),
        ("Training time is 1.2345 s.", [("1.2345 s", UNGROUNDED)]),
        ("Log loss (0.087) and accuracy (0.972).", [("0.087", MATCHED), ("0.972", MATCHED)]),
        ("ResNet-50, F1, v2.1, the 2nd of CIFAR-10, 3D and x_2", []),
        ("Equations (3) and (4), Fig. 5, Tables 6\u20137, pp. 12-15 and [8, 9].", []),
        ("In March 2026, on 3 May 2026, 2026-05-03T10:11:12Z and 03.05.2026.", []),
        ("As (Smith, 2019; Jones et al., 2020) and Lee (2021) show.", []),
        ("F1 score of 0.961.", [("0.961", UNGROUNDED)]),
        ("CV accuracy is (97.2 \u00b1 2.1) %.", [("97.2", MATCHED), ("2.1) %", MATCHED)]),
        ("CV accuracy is 0.972 (\u00b10.021).", [("0.972", MATCHED), ("0.021", MATCHED)]),
        ("Accuracy differs (p < 0.05, n = 30).", [("0.05", UNGROUNDED), ("30", UNGROUNDED)]),
        ("accuracy=0.972, log_loss < 0.09", [("0.972", MATCHED), ("0.09", MATCHED)]),
        ("An accuracy of 0.972 and a log loss of 0.087.", [("0.972", MATCHED), ("0.087", MATCHED)]),
    ],
)
def test_a_number_is_matched_by_digits_unit_and_name(text: str, expected: list[tuple[str, Verdict]]) -> None:
    assert [(each.text, each.verdict) for each in audit(text).findings] == expected


def test_a_finding_has_line_and_column_of_its_first_digit_and_tells_what_stands_against_it() -> None:
    (found,) = audit("# Title\r\n\r\nThe best accuracy is **0.99**.").findings
    assert (found.line, found.column, found.verdict) == (3, 24, CONTRADICTED)
    assert found.recorded == RESULTS[0], "the nearest usable value"
    assert found.names == ("accuracy",)


def test_a_result_that_may_not_be_used_grounds_nothing_and_one_that_may_comes_first() -> None:
    failed, passed = recorded("accuracy", 0.5, withheld="rerun_failed"), recorded("accuracy", 0.5, node="other")
    (found,) = audit("Accuracy 0.5.", results=(failed,)).findings
    assert (found.verdict, found.reason, found.recorded) == (UNGROUNDED, Reason.NOT_USABLE, failed)
    (found,) = audit("Accuracy 0.5.", results=(failed, passed)).findings
    assert (found.verdict, found.recorded) == (MATCHED, passed)


def test_a_marked_line_excuses_what_has_no_ground_and_hides_no_contradiction() -> None:
    found = audit("Accuracy is 0.972 with 5 seeds. <!-- vrm:setting -->\nAccuracy 0.5 <!-- vrm:setting -->")
    assert [each.verdict for each in found.findings] == [MATCHED, SETTING, CONTRADICTED]
    assert (found.stated, found.coverage, found.is_grounded) == (2, Fraction(1, 2), False)


def test_a_text_without_numbers_is_grounded_and_has_no_coverage() -> None:
    found = audit("Nothing is claimed.")
    assert (found.stated, found.coverage, found.is_grounded) == (0, None, True)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("In Table 2, 999.9 GB/s is reached.", ["999.9 GB/s"]),
        ("In Table 2, 999 GB/s is reached.", ["999 GB/s"]),
        ("In Tables 2 and 3, 999 GB/s is reached.", ["999 GB/s"]),
        ("In Tables 2 and 3, 85 seeds were run.", ["85"]),
        ("In Section 3.1, 0.99 was seen.", ["0.99"]),
        ("On page 3, 0.99 accuracy.", ["0.99"]),
        ("It moved page 12ms.", ["12ms"]),
        ("As volume 3.5 GB was read.", ["3.5 GB"]),
        ("(Tile 32 reaches 999.9 GB/s at N = 2048)", ["32", "999.9 GB/s", "2048"]),
        ("(Tile reaches most at N 2024)", ["2024"]),
        ("(Smith, 2019; 999 GB/s)", ["2019", "999 GB/s"]),
        ("The accuracy lies in [95, 99].", ["95", "99"]),
        ("The 95% CI [95, 99] and the interval: [90, 97].", ["95%", "95", "99", "90", "97"]),
        ("It is [95, 99] %.", ["95", "99"]),
        ("It ran in 2020 s and in 2000 GB.", ["2020 s", "2000 GB"]),
        ("Accuracy in 2020 was good.", []),
        ("Tables 2 and 3 show, Figs. 3a, 3b and 4c tell, Sections 3.1, 3.2 and 4.1, Table 2\u20135 shows.", []),
        ("Equations (3), (4) and (5); pages 12 to 15; as in [8] and [8, 9, 10]; see [8, 9].", []),
        ("(see Smith, 2019, 2020a), (Smith and van Dyk, 2019; Jones et al. 2020), (e.g., O'Neil, 2021)", []),
    ],
)
def test_what_may_be_a_result_is_never_blanked_and_what_cannot_be_one_is(text: str, shown: list[str]) -> None:
    """A number that is blanked passes the audit unseen, so that in doubt it is shown."""
    assert [each.text for each in audit(text).findings] == shown


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("We ran 85 seeds; throughput was 84.9 GB/s.", "85"),
        ("We used 1 GPU and the accuracy was 0.972.", "1"),
        ("The accuracy was good, and improved by 0.972.", "0.972"),
        ("With k = 85 the throughput was 84.9 GB/s.", "85"),
        ("The accuracy was 1.", "1"),
        ("The log loss is 0.", "0"),
    ],
)
def test_no_number_is_grounded_by_a_metric_that_is_merely_near(text: str, number: str) -> None:
    """What counts things, tells a difference or is said of something else, and what states no digit of a value."""
    assert next(each.verdict for each in audit(text).findings if each.text == number) is not MATCHED


def test_a_value_that_is_whole_is_matched_by_a_whole_number() -> None:
    assert audit("Accuracy is 1.", results=(recorded("accuracy", 1.0),)).is_grounded
    assert audit("Loss is 0.", results=(recorded("loss", 0.0),)).is_grounded


@given(st.floats(min_value=-1e9, max_value=1e9), st.integers(min_value=0, max_value=8))
def test_any_value_is_found_again_at_any_precision_and_its_neighbour_is_not(value: float, digits: int) -> None:
    """The rounding here is that of `decimal`, done apart from the code under test."""
    step = Decimal(1).scaleb(-digits)
    results = (recorded("loss", value),)
    exact = Decimal(results[0].value)
    is_written = not exact or abs(exact) >= step  # at least one of its digits
    for rounding in (ROUND_HALF_EVEN, ROUND_HALF_UP):
        shown = exact.quantize(step, rounding)
        assert audit(f"Loss {shown:f}.", results=results).is_grounded is is_written
    assert not audit(f"Loss {exact.quantize(step, ROUND_HALF_UP) + 2 * step:f}.", results=results).is_grounded


@given(st.text(alphabet="ab 1.2,-e5%$\\{}[]()|&`#\n<>!\u00b1/_^", max_size=80), st.sampled_from(Form))
def test_any_text_is_read_and_keeps_its_places(text: str, form: Form) -> None:
    prose = prose_of(text, form, POLICY)
    assert len(prose.shown) == len(text)
    assert all(shown in {given, " "} for shown, given in zip(prose.shown, text, strict=True))
    for found in audit(text, form).findings:
        line = text.splitlines(keepends=True)[found.line - 1]
        assert line[found.column - 1] in "0123456789.-+"
