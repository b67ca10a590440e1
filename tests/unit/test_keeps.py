"""`vrm audit keeps`: logs made up here in the shapes of real ones, and simulated searches whose truth is known."""

from __future__ import annotations

import json
import math
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import numpy as np
import pytest
from scipy import integrate, stats
from typer.testing import CliRunner, Result

from evaluation.keeps.reading import Columns, Status, read_log
from evaluation.keeps.rule import KeepAudit, KeepVerdict, NoiseSource, audit_keeps, best_of
from records.errors import InvalidInputError, InvalidSourceError
from records.values import Direction
from vrm.cli.app import app

TRAINING = """\
commit\tval_bpb\tmemory_gb\tfinal_loss\tstatus\tdescription
a000001\t1.3000\t5.5\t3.2\tkeep\tbaseline
a000002\t1.2800\t5.5\t3.1\tkeep\tLR 0.03→0.04 (hypothesis: "faster")
a000003\t0.000000\t0.0\t0.0\tcrash\tweight tying: stuck
a000004\t1.2900\t5.5\t3.1\tdiscard\tLR 0.04→0.05
a000005\t1.2795\t5.5\t3.1\tkeep\tlonger warm-down
"""
RERUN = """\
commit,score,status,description,seed
c1,10.0,KEEP,baseline,1
c1,10.4,DISCARD,baseline rerun,2
c1,9.6,DISCARD,baseline (run 3),3
c2,15.1,KEEP,wider,1
c2,15.0,DISCARD,wider repro,2
c2,14.6,DISCARD,wider (seed 3),3
c3,15.4,KEEP,deeper,1
c3,14.9,DISCARD,deeper rerun,2
c4,16.0,KEEP,longer,1
"""


def write(folder: Path, text: str, name: str = "results.tsv") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def audited(folder: Path, text: str, **options: Any) -> KeepAudit:
    log = read_log(write(folder, text), Columns())
    return audit_keeps(log.rows, log.direction, **options)


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["audit", "keeps", *arguments], env={"COLUMNS": "200"})


class TestReading:
    def test_columns_values_and_statuses(self, tmp_path: Path) -> None:
        log = read_log(write(tmp_path, TRAINING), Columns())
        assert (log.metric, log.direction) == ("val_bpb", Direction.MINIMIZE), "the first known metric of the file"
        assert [row.value for row in log.rows] == [1.3, 1.28, None, 1.29, 1.2795]
        assert [row.status for row in log.rows] == [
            Status.KEEP, Status.KEEP, Status.CRASH, Status.DISCARD, Status.KEEP,
        ]  # fmt: skip
        assert (log.rows[0].change, log.rows[1].label, log.rows[1].line) == ("", "a000002", 3)

    @pytest.mark.parametrize("value", ["0.000000", "-", "", "n/a", "nan", "inf", "crash", "0"])
    def test_what_is_no_value(self, tmp_path: Path, value: str) -> None:
        text = f"commit\tval_loss\tstatus\tdescription\na\t1.5\tkeep\tbaseline\nb\t{value}\tkeep\tx\n"
        first, second = read_log(write(tmp_path, text), Columns()).rows
        assert (first.value, second.value) == (1.5, None)

    @pytest.mark.parametrize(
        "text",
        [
            "",
            'HEAD\tmodel\t397.0\t17.0\t3.30\tkeep\tfused "norm"\n',
            "a1\t1.25\tkeep\tbaseline\nb2\t1.24\tkeep\tmore\n",
        ],
    )  # fmt: skip
    def test_without_a_header_it_is_refused(self, tmp_path: Path, text: str) -> None:
        with pytest.raises(InvalidSourceError, match="first line names the columns"):
            read_log(write(tmp_path, text), Columns())

    def test_what_is_missing_is_named_with_its_flag(self, tmp_path: Path) -> None:
        path = write(tmp_path, "commit\tspeed\tverdict\na\t1\tkeep\n")
        with pytest.raises(InvalidInputError, match="--metric"):
            read_log(path, Columns())
        with pytest.raises(InvalidInputError, match="--status-column"):
            read_log(path, Columns(metric="speed"))
        with pytest.raises(InvalidInputError, match="--direction"):
            read_log(path, Columns(metric="speed", status="verdict"))
        with pytest.raises(InvalidInputError, match="commit, speed, verdict"):
            read_log(path, Columns(metric="pace"))
        log = read_log(path, Columns(metric="speed", status="verdict", direction=Direction.MAXIMIZE))
        assert [row.value for row in log.rows] == [1.0]

    def test_lines_that_cannot_be_read_are_told(self, tmp_path: Path) -> None:
        log = read_log(write(tmp_path, TRAINING + "broken\na9\t1.2\t5\t3\t\tno status\n"), Columns())
        assert len(log.rows) == 5
        assert [text.partition(":")[0] for text in log.unread] == ["line 7", "line 8"]

    def test_a_file_that_is_no_text_is_refused(self, tmp_path: Path) -> None:
        (tmp_path / "x.tsv").write_bytes(b"\xff\xfe\x00")
        with pytest.raises(InvalidSourceError, match="UTF-8"):
            read_log(tmp_path / "x.tsv", Columns())

    @pytest.mark.parametrize(
        "description", ["wider rerun", "Wider (seed 4)", "wider repro", "re-run: wider", "wider #2", "rerun of wider"]
    )
    def test_a_rerun_is_the_same_configuration(self, tmp_path: Path, description: str) -> None:
        kept = "commit\tscore\tstatus\tdescription\na\t1\tkeep\tbaseline\nb\t2\tkeep\twider\n"
        assert audited(tmp_path, f"{kept}b\t2.1\tdiscard\t{description}\n").keeps[1].runs == 2
        assert audited(tmp_path, f"{kept}b\t2.1\tdiscard\twider still\n").keeps[1].runs == 1


class TestRule:
    def test_one_run_each_and_nothing_survives(self, tmp_path: Path) -> None:
        audit = audited(tmp_path, TRAINING)
        assert audit.noise.source is NoiseSource.UNKNOWN
        assert [keep.verdict for keep in audit.keeps] == [
            KeepVerdict.BASELINE, KeepVerdict.NOISE_UNKNOWN, KeepVerdict.NOISE_UNKNOWN,
        ]  # fmt: skip
        assert [keep.gain for keep in audit.keeps[1:]] == pytest.approx([0.02, 0.0005])
        assert not audit.all_survive

    def test_a_known_noise_does_not_replace_a_second_run(self, tmp_path: Path) -> None:
        audit = audited(tmp_path, TRAINING, noise_sd=1e-6)
        assert [keep.verdict for keep in audit.keeps[1:]] == [KeepVerdict.ONE_RUN] * 2

    def test_by_hand(self, tmp_path: Path) -> None:
        """Pooled variance, the picked run left out, t interval, correction over three keeps: each computed apart."""
        audit = audited(tmp_path, RERUN)
        groups = ([10.0, 10.4, 9.6], [15.1, 15.0, 14.6], [15.4, 14.9])
        degrees = sum(len(values) - 1 for values in groups)
        sd = math.sqrt(sum(stdev(values) ** 2 * (len(values) - 1) for values in groups) / degrees)
        assert audit.noise.sd == pytest.approx(sd)
        assert audit.noise.degrees == degrees == 5
        _, wider, deeper, longer = audit.keeps
        assert wider.gain == pytest.approx(5.1)
        assert (wider.runs, wider.incumbent_runs) == (3, 3)
        fresh = fmean([15.0, 14.6]) - fmean([10.4, 9.6])
        error = sd * math.sqrt(1 / 2 + 1 / 2)
        assert wider.difference == pytest.approx(fresh)
        assert wider.interval is not None
        half = stats.t(degrees).ppf(0.975) * error
        assert (wider.interval.low, wider.interval.high) == pytest.approx((fresh - half, fresh + half))
        assert wider.p_value == pytest.approx(2 * stats.t(degrees).sf(fresh / error))
        assert wider.adjusted_p == pytest.approx(3 * (wider.p_value or 0)), "the smallest of three"
        assert [keep.verdict for keep in audit.keeps] == [
            KeepVerdict.BASELINE, KeepVerdict.SURVIVES, KeepVerdict.COVERS_ZERO, KeepVerdict.ONE_RUN,
        ]  # fmt: skip
        assert deeper.difference == pytest.approx(14.9 - 14.8)
        assert (longer.runs, longer.tries) == (1, 1)

    def test_correction_can_undo_what_stands_alone(self, tmp_path: Path) -> None:
        """Two against two runs, noise 1 given: p = 0.034 for a difference of 3 between one fresh run each."""
        lines = ["commit\tscore\tstatus\tdescription", "a\t10\tkeep\tbaseline", "a\t10\tdiscard\trerun"]
        lines += ["b\t13.5\tkeep\tx", "b\t13\tdiscard\tx rerun"]
        alone = audited(tmp_path, "\n".join(lines), noise_sd=1.0)
        assert alone.keeps[1].p_value == pytest.approx(2 * stats.norm.sf(3 / math.sqrt(2)))
        assert alone.keeps[1].verdict is KeepVerdict.SURVIVES
        for number in range(3):
            lines.append(f"d{number}\t{14 + number}\tkeep\tchange {number}")
        assert audited(tmp_path, "\n".join(lines), noise_sd=1.0).keeps[1].verdict is KeepVerdict.NOT_CORRECTED

    def test_a_run_that_was_written_twice_is_one(self, tmp_path: Path) -> None:
        text = "commit\tscore\tstatus\tdescription\na\t1\tkeep\tbaseline\nb\t2\tkeep\tx\nb\t2\tdiscard\tx repro\n"
        audit = audited(tmp_path, text)
        assert audit.keeps[1].runs == 1
        assert audit.noise.source is NoiseSource.UNKNOWN

    def test_worse_or_without_value_claims_nothing(self, tmp_path: Path) -> None:
        text = "commit\tval_loss\tstatus\tdescription\na\t1\tkeep\tbaseline\nb\t2\tkeep\tsimpler\nc\t0.0\tkeep\tz\n"
        assert [keep.verdict for keep in audited(tmp_path, text, noise_sd=0.1).keeps] == [
            KeepVerdict.BASELINE, KeepVerdict.NO_GAIN, KeepVerdict.NO_VALUE,
        ]  # fmt: skip

    def test_a_configuration_column_goes_before_descriptions(self, tmp_path: Path) -> None:
        text = (
            "config_id\tscore\tstatus\tdescription\nk1\t1\tkeep\tone\nk2\t5\tkeep\ttwo\nk1\t1.1\tdiscard\tother words\n"
            "k2\t5.1\tdiscard\tmore words\n"
        )
        audit = audited(tmp_path, text)
        assert (audit.keeps[1].runs, audit.keeps[1].incumbent_runs) == (2, 2)
        assert audit.keeps[1].verdict is KeepVerdict.SURVIVES

    @pytest.mark.parametrize(("count", "times"), [(1, 0.0), (2, 1.0), (3, 1.5)])
    def test_the_best_of_few_normal_values(self, count: int, times: float) -> None:
        """Closed forms for two and three values (David and Nagaraja, Order Statistics, 3rd ed., section 3.2)."""
        assert best_of(count) == pytest.approx(times / math.sqrt(math.pi))

    @pytest.mark.parametrize("count", [10, 100, 1000])
    def test_the_best_of_many_by_integration(self, count: int) -> None:
        def density(x: float) -> float:
            return float(x * count * stats.norm.pdf(x) * stats.norm.cdf(x) ** (count - 1))

        assert best_of(count) == pytest.approx(integrate.quad(density, -8, 12, limit=400)[0], rel=1e-6)

    def test_what_noise_gains_stands_beside_what_is_claimed(self, tmp_path: Path) -> None:
        audit = audited(tmp_path, TRAINING, noise_sd=0.01)
        assert audit.keeps[2].tries == 2
        assert audit.keeps[2].noise_best == pytest.approx(0.01 / math.sqrt(math.pi))
        assert audit.noise_best == pytest.approx(0.01 * best_of(4))


def search(random: np.random.Generator, effects: list[float], reruns: int) -> str:
    """Return the log of a greedy search: each try is kept if its one run is better, and what is kept is run again."""
    lines = ["commit\tscore\tstatus\tdescription"]
    truth, best = 0.0, random.normal()
    lines.append(f"c\t{best + 100!r}\tkeep\tbaseline")
    lines += [f"c\t{random.normal() + 100!r}\tdiscard\tbaseline rerun" for _ in range(reruns)]
    for number, effect in enumerate(effects):
        value = truth + effect + random.normal()
        kept = value > best
        lines.append(f"c{number}\t{value + 100!r}\t{'keep' if kept else 'discard'}\tchange {number}x")
        if kept:
            truth, best = truth + effect, value
            runs = [truth + random.normal() + 100 for _ in range(reruns)]
            lines += [f"c{number}\t{run!r}\tdiscard\tchange {number}x rerun" for run in runs]
    return "\n".join(lines)


class TestSimulated:
    @pytest.mark.parametrize("reruns", [1, 3])
    def test_under_pure_noise_false_keeps_are_not_passed_beyond_q(self, tmp_path: Path, reruns: int) -> None:
        """Every keep is false, so the share of logs with a survivor is the false discovery rate; 3 sd of a binomial."""
        random, logs, q = np.random.default_rng(20_260), 300, 0.05
        passed = kept = 0
        for _ in range(logs):
            audit = audited(tmp_path, search(random, [0.0] * 30, reruns), q=q)
            passed += audit.counts[KeepVerdict.SURVIVES] > 0
            kept += sum(keep.gain is not None and keep.gain > 0 for keep in audit.keeps)
        assert kept > 2 * logs, "the search keeps noise all the time"
        assert passed / logs <= q + 3 * math.sqrt(q * (1 - q) / logs)

    def test_real_gains_survive_when_they_were_run_again(self, tmp_path: Path) -> None:
        random = np.random.default_rng(7)
        effects = [0.0, 0.0, 8.0] * 4
        found = [audited(tmp_path, search(random, effects, 4)).counts[KeepVerdict.SURVIVES] for _ in range(20)]
        assert fmean(found) >= 3.5, "of four real gains of eight standard deviations each"

    def test_real_gains_do_not_survive_on_one_run(self, tmp_path: Path) -> None:
        audit = audited(tmp_path, search(np.random.default_rng(8), [0.0, 0.0, 8.0] * 4, 0))
        assert audit.counts[KeepVerdict.SURVIVES] == 0


class TestCommand:
    def test_json(self, tmp_path: Path) -> None:
        answer = run(str(write(tmp_path, RERUN, "runs.csv")), "--json")
        assert answer.exit_code == 1
        found = json.loads(answer.output)
        assert found["counts"] == {"baseline": 1, "survives": 1, "one_run": 1, "interval_covers_zero": 1}
        assert found["noise"]["source"] == "reruns"
        assert [keep["line"] for keep in found["keeps"]] == [2, 5, 8, 10]
        assert all(keep["why"] for keep in found["keeps"])

    def test_for_people_it_says_why(self, tmp_path: Path) -> None:
        answer = run(str(write(tmp_path, TRAINING)))
        assert answer.exit_code == 1
        assert "Keeps by val_bpb, minimized: 3 of 5 rows" in answer.output
        assert "one run shows nothing" in answer.output

    def test_exit_codes(self, tmp_path: Path) -> None:
        survives = "\n".join(RERUN.splitlines()[:7])
        assert run(str(write(tmp_path, survives, "runs.csv"))).exit_code == 0
        headless = run(str(write(tmp_path, "a\t1.2\tkeep\tx\n")), "--json")
        assert headless.exit_code == 2
        assert json.loads(headless.output)["error"] == "InvalidSourceError"
        assert run(str(tmp_path / "missing.tsv")).exit_code == 2

    @pytest.mark.parametrize(
        "flags", [("--direction", "up"), ("--q", "1"), ("--noise-sd", "0"), ("--noise-sd", "nan"), ("--plot", "x.pdf")]
    )
    def test_flags_are_checked_before_anything_is_read(self, tmp_path: Path, flags: tuple[str, str]) -> None:
        answer = run(str(tmp_path / "missing.tsv"), *flags, "--json")
        assert answer.exit_code == 2
        assert json.loads(answer.output)["field"] == flags[0]

    def test_the_other_direction_turns_claims_round(self, tmp_path: Path) -> None:
        answer = run(str(write(tmp_path, RERUN, "runs.csv")), "--direction", "min", "--json")
        assert json.loads(answer.output)["counts"] == {"baseline": 1, "no_gain": 3}

    @pytest.mark.parametrize(("name", "start"), [("p.png", b"\x89PNG"), ("p.svg", b"<?xml")])
    def test_plot(self, tmp_path: Path, name: str, start: bytes) -> None:
        run(str(write(tmp_path, RERUN, "runs.csv")), "--plot", str(tmp_path / name))
        data = (tmp_path / name).read_bytes()
        assert data.startswith(start)
        if name.endswith("svg"):
            assert data.count(b"<!-- survives (1) -->") == 1

    def test_the_group_is_listed(self) -> None:
        assert "keeps" in CliRunner().invoke(app, ["audit", "--help"]).output
