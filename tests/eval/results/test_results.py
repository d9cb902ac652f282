"""Results in Python: flips with their pictures, a row per record, and files for a paper."""

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pyarrow.parquet import read_table
from typer.testing import CliRunner

from looktwice.eval import MarkedScenes, Results, evaluate
from looktwice.eval.cli import app
from looktwice.eval.display.text_tables import TextTable
from looktwice.eval.records.records import RunError
from looktwice.pipelines import Picture, Pipeline, Scripted
from looktwice.pipelines.state import Stage
from looktwice.prompting.markers import Circles
from looktwice.prompting.turns import Ask
from tests.made_run import MadeRun
from tests.optional import extension, needs_extras
from tests.tables import table

latex = extension("paper.latex")


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """The ring is right on s0 and s2 where base is wrong, wrong on s1, and failed on s3."""
    made = MadeRun(tmp_path / "study")
    made.task("t", "ABAB")
    base = made.point("base", "t", baseline=True)
    ring = made.point("ring_&", "t", changes={"stages.mark.radius": 9})
    made.reply(base, "s0", "B", usage={"tokens_in": 7, "tokens_out": 2})
    made.answers(base, [None, "B", None, "B"])
    made.record(base, "s2", reason="abstained: <script>alert(1)</script>")
    picture = made.blobs.put(Picture(np.full((40, 60, 3), 9, np.uint8)).payload.data)
    made.record(ring, "s0", answer="A", pictures=(picture,))
    made.answers(ring, [None, "A", "A"])
    made.record(ring, "s3", error="boom")
    return made.write().path


def test_three_lines_of_python_list_the_flipped_samples(run: Path) -> None:
    found = Results.open(run).flips("base", "ring_& [mark.radius=9]")
    flips = [(flip.sample, flip.gained) for flip in found]
    assert flips == [("s0", True), ("s2", True), ("s1", False)]
    assert (found.n, found.left_out, len(found.gained), len(found.lost)) == (3, 1, 2, 1)
    assert found.difference.value == pytest.approx(1 / 3) and found.difference.p == 1.0
    lines = (
        "2 gained, 1 lost of 3",
        "+ t s0: B -> A, correct: A",
        "+ t s2: abstained -> A, correct: A",
    )
    assert [line for line in lines if line not in str(found)] == []
    (picture,) = found[0].after.pictures
    assert picture.size == (60, 40)


def test_a_notebook_shows_pictures_and_escapes_text(run: Path) -> None:
    made = Results.open(run).flips("base", "ring_& [mark.radius=9]")
    shown = made._repr_html_()
    assert shown.count("<img ") == 1 and "data:image/jpeg" in shown
    assert "<script>" not in shown and "ring_&amp;" in shown
    frame = made.to_pandas()
    assert frame["answer_before"].fillna("").tolist() == ["B", "", "B"]


@table
def test_unknown_names_are_reported(
    run: Path, before: str, after: str, task: str, said: str
) -> None:
    with pytest.raises(RunError, match=said):
        Results.open(run).flips(before, after, task)


def test_several_runs_are_shown_side_by_side(run: Path, tmp_path: Path) -> None:
    results = Results.open(run, MadeRun(tmp_path / "again").arms("t", "ABAB", base="ABAB"))
    assert results.contestants == ["base (study)", "base (again)", "ring_& [mark.radius=9]"]
    assert len(results.flips("base (study)", "base (again)").gained) == 2
    assert {*results.to_pandas()["run"]} == {"study", "again"}


def test_a_data_frame_has_a_row_per_record(run: Path, tmp_path: Path) -> None:
    results, file = Results.open(run), tmp_path / "out" / "records.parquet"
    assert results.save_parquet(file) == 8
    rows: Any = {(row["contestant"], row["sample"]): row for row in read_table(file).to_pylist()}
    first, last = rows["base", "s0"], rows["ring_& [mark.radius=9]", "s3"]
    assert first == first | {"verdict": "wrong", "reply": "B", "tokens_in": 7, "key": "A"}
    assert last == last | {"verdict": "failed", "error": "boom", "stages.mark.radius": "9"}
    assert results.to_pandas()["score"].sum() == 4
    assert [path.name for path in file.parent.iterdir()] == [file.name]


@needs_extras
def test_a_table_as_papers_print_it(tmp_path: Path) -> None:
    said = {"base": "A" * 4 + "B" * 16, "ring": "A" * 20}
    shown = Results.open(MadeRun(tmp_path).arms("t_1", "A" * 20, "base", **said)).to_latex()
    assert (
        r""" & t\_1 \\
$n$ & 20 \\
\midrule
base & 20.0 \\
ring & \textbf{100.0}$^{***}$ \\
\midrule
majority (key) & 100.0 \\
chance (level) & 50.0 \\
\bottomrule"""
        in shown
    )
    assert (
        "paired difference from base, significant at 5, 1 and 0.1 percent (exact McNemar" in shown
    )
    odd = r"a\_b \& 5 \% \{x\} \textbackslash{} \textasciicircum{}\textasciitilde{}"
    assert latex.escape_latex("a_b & 5 % {x} \\ ^~") == odd


@needs_extras
def test_stars_are_corrected_over_several_runs(tmp_path: Path) -> None:
    """Six of 40 lost is p = 0.031: a star in a table of one run, none in one of two."""
    said = {"base": "A" * 40, "ring": "A" * 34 + "B" * 6}
    runs = [MadeRun(tmp_path / name) for name in ("one", "two")]
    paths = [run.arms("t", "A" * 40, "base", **said) for run in runs]
    assert "ring & 85.0$^{*}$" in Results.open(paths[0]).to_latex()
    both = Results.open(*paths).to_latex()
    assert "ring (one) & 85.0 " in both and "times the 2 runs" in both


@pytest.mark.slow
def test_the_command_writes_all_files_and_figures_are_reproducible(
    run: Path, tmp_path: Path
) -> None:
    pytest.importorskip("matplotlib")
    first, second = (tmp_path / name / "figures" for name in ("one", "two"))
    for figures in (first, second):
        words = ["score", str(run), "--paper", "--out", str(figures.parent)]
        assert CliRunner().invoke(app, words).exit_code == 0
    names = sorted(path.name for path in first.iterdir())
    assert names == ["accuracy.pdf", "accuracy.svg", "differences.pdf", "differences.svg"]
    assert all((first / name).read_bytes() == (second / name).read_bytes() for name in names)
    assert "ring_&amp;" in (first / "differences.svg").read_text()


@needs_extras
def test_without_matplotlib_the_command_says_how_to_install_it(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    result = CliRunner().invoke(app, ["score", str(run), "--paper", "--out", str(tmp_path / "out")])
    assert result.exit_code == 1 and "[figures]" in result.output
    assert (tmp_path / "out/table.tex").exists()


@needs_extras
def test_rows_can_be_renamed_for_a_paper(run: Path) -> None:
    results = Results.open(run)
    old = results.contestants[-1]
    renamed = results.with_names({old: "Ours"})
    assert renamed.contestants == [*results.contestants[:-1], "Ours"]
    assert "Ours" in renamed.to_latex() and old not in {row.contestant for row in renamed.table}
    assert [row.value for row in renamed.table] == [row.value for row in results.table]
    with pytest.raises(RunError, match="no contestant 'theirs'; "):
        results.with_names({"theirs": "Ours"})


def test_a_sweep_in_python_has_effects_a_finding_and_a_folder_per_study(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    stages: dict[str, Stage] = {"mark": Circles(radius=12), "ask": Ask()}
    task = MarkedScenes("shape", n=3)
    sweep = {"mark.radius": [12, 20], "mark.halo.width": [0, 2]}
    table = evaluate(task, {"plain": Pipeline(stages)}, Scripted("(A)"), sweep=sweep)
    results = Results(table)
    assert results.effects()["factor"].tolist() == [
        "mark.radius",
        "mark.halo.width",
        "mark.radius x mark.halo.width",
    ]
    assert [row.label for row in results.finding.rows] == ["plain", "width 2", "radius 20"]
    assert "On shape, plain (radius 12, width 0) is right on" in str(results.finding)
    assert "width 2" in results.finding._repr_html_()
    again = evaluate(task, {"plain": Pipeline(stages)}, Scripted("(A)"))
    folders = [scored.scores[0].folder.path for scored in (table, again)]
    assert len(set(folders)) == 2 and all(path.parent == Path("runs") for path in folders)
    with pytest.raises(RunError, match=r"mark\.radios: no setting 'radios'; did you mean 'radi"):
        evaluate(task, {"plain": Pipeline(stages)}, Scripted("(A)"), sweep={"mark.radios": [1]})


def test_print_and_notebooks_show_a_readable_table() -> None:
    table = TextTable(("name", "n"), [("plain", "3")])
    assert str(table).split() == ["name", "n", "─" * 10, "plain", "3"]
    assert table._repr_html_() == table.html
