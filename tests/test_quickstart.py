"""The first study: every contestant answers, and its effects are reported."""

import csv
import json
import re
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.first_day.studies import looktwice
from tests.pseudo_terminal import run_in_terminal

SMALL = [f"tasks.{name}.n={n}" for name, n in (("shape", 6), ("color", 4), ("correspondence", 2))]


def run(folder: Path, *words: object) -> str:
    result = looktwice("run", "quickstart", *SMALL, "--out", folder, *words)
    assert result.exit_code == 0, result.output
    return result.output


def records(folder: Path) -> dict[tuple[str, str], Any]:
    """Return the records of a run without their times."""
    lines = map(json.loads, (folder / "quickstart/records.jsonl").read_text().splitlines())
    return {(line["point"], line["sample"]): {**line, "timings": None} for line in lines}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("quickstart")
    (folder / "said").write_text(run(folder))
    return folder


def test_every_contestant_answers_without_failures(folder: Path) -> None:
    with (folder / "quickstart/report.csv").open(newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["metric"] == "accuracy" and row["point"]]
    asked = Counter(row["contestant"].partition(" [")[0] for row in rows)
    once = ("zoomed", "zoomed elsewhere", "reworded", "grid", "unmarked", "ringed")
    assert asked == {
        "marked": 12,
        "chance": 3,
        **dict.fromkeys((*once, "color at mark", "sift"), 1),
    }
    assert not any(int(row["failed"]) for row in rows)
    read = sum(int(row["right"]) + int(row["wrong"]) for row in rows)
    assert read >= 0.95 * sum(int(row["n"]) for row in rows)
    (whole,) = [row for row in rows if row["contestant"] == "zoomed"]
    assert float(whole["value"]) >= 4 / 6, "it sees"


def test_the_effects_of_all_three_factors_are_reported(folder: Path) -> None:
    with (folder / "quickstart/effects.csv").open(newline="") as file:
        effects = Counter(row["factor"].replace("mark.", "") for row in csv.DictReader(file))
    crossed = {"radius x color": 2, "radius x use": 2, "color x use": 1}
    assert effects == {"radius": 2, "color": 1, "use": 1} | crossed


@pytest.mark.slow
def test_one_worker_gives_the_same_records_as_many(folder: Path, tmp_path: Path) -> None:
    run(tmp_path, "--workers", 1)
    assert records(tmp_path) == records(folder)
    one, many = tmp_path / "quickstart", folder / "quickstart"
    for name in ("report.csv", "effects.csv"):
        assert (one / name).read_bytes() == (many / name).read_bytes()


ESCAPE = re.compile(r"\x1b\[[0-9;]*m")
unix = pytest.mark.skipif(sys.platform == "win32", reason="Windows has no pseudo-terminals")


def split_words(text: str) -> set[str]:
    """Return the words of a text without escape sequences and characters of paths."""
    return set(re.findall(r"[a-z]{2,}", ESCAPE.sub("", text)))


@pytest.mark.slow
@unix
def test_a_run_ends_in_twenty_lines_without_broken_words_at_any_width(folder: Path) -> None:
    """Check twenty lines for the first task, then those of two tasks with their own contestants."""
    again = ("run", "quickstart", *SMALL, "--out", ".")
    plain = run(folder)
    assert "\x1b" not in plain, "no terminal is there"
    environments: dict[int, dict[str, str]] = {80: {}, 140: {"NO_COLOR": "1"}}
    for width, environment in environments.items():
        shown = run_in_terminal(folder, width, *again, **environment)
        lines = ESCAPE.sub("", shown).splitlines()
        (color,) = [n for n, line in enumerate(lines) if line == " color"]
        (signs,) = [n for n, line in enumerate(lines) if line.startswith(" rows: compared with")]
        assert signs - color == 5 and len(lines) <= 25 + 1
        shown_lines = [line for line in lines if not line.startswith(("report", "records", "  "))]
        assert max(map(len, shown_lines)) <= width
        assert split_words("\n".join(shown_lines)) <= split_words(plain), "a word was cut"
        assert any(line.startswith(" ▸ marked") for line in lines)
        assert "\x1b[1m" in shown, "the baseline is bold"
        assert "NO_COLOR" not in environment or "\x1b[3" not in shown, "a colour"


@pytest.mark.slow
@unix
def test_check_describes_a_run_in_twelve_lines(folder: Path) -> None:
    plain = looktwice("check", "quickstart").output
    assert "\x1b" not in plain
    for width in (80, 140):
        lines = run_in_terminal(folder, width, "check", "quickstart").splitlines()
        assert len(lines) <= 12
        assert max(map(len, lines)) <= width
        assert split_words("\n".join(lines)) == split_words(plain), "a word was cut"
    assert len(looktwice("check", "quickstart", "--all").output.splitlines()) > 100
