"""Draws, letters, order and variants: what is counted and what is excluded."""

from pathlib import Path

from looktwice.eval.display.table import Table, score_table
from looktwice.eval.runs import Study
from looktwice.eval.scoring.score import score_run
from looktwice.extras.studies.steadiness import make_spread_table
from looktwice.pipelines.config import load_plan
from tests.made_run import MadeRun, analyse, join_attributes, lines_of
from tests.optional import needs_extras


def get_lines(made: MadeRun, name: str) -> list[dict[str, str]]:
    return lines_of(analyse(name, score_run(made.write())))


def test_draws_by_hand(made: MadeRun) -> None:
    """Three samples answered twice, right 2, 0 and 1 times; s3 lacks a draw and s4 a key."""
    made.task("t", ["A", "A", "A", "A", None])
    point = made.point("plain", "t", draws=2)
    made.answers(point, "ABAAA")
    made.answers(point, ["A", "B", "B", None, "A"], draw=1)
    made.answers(point, ["B"], draw=2)  # of an older plan, and for one sample only
    (line,) = get_lines(made, "draws")
    names = ("n", "left\nout", "draws", "accuracy %")
    assert [line[name] for name in names] == ["3", "1", "2", "50.0"]
    # sqrt(1/18), sqrt(1/36)
    assert (line["error from\nsamples"], line["error from\ndraws"]) == ("23.6", "16.7")
    assert line["variance from\ndraws %"] == "50.0"
    assert line["pass@k %\n(k = draws)"].startswith("66.7\n")
    assert line["majority %"].startswith("50.0\n")  # the two answers to s2 are equally frequent


@needs_extras
def test_a_single_draw_has_no_table(made: MadeRun) -> None:
    made.task("t", ["A", "B"])
    made.answers(made.point("plain", "t"), ["A", "B"])
    assert not get_lines(made, "draws") and not get_lines(made, "order")


def test_letters_are_those_shown_to_the_model(made: MadeRun) -> None:
    """s1 was asked with its choices swapped: its own B was shown as A."""
    made.task("t", ["A", "B", "A", None])
    point = made.point("plain", "t")
    made.record(point, "s0", answer="A")
    made.record(point, "s1", answer="A", letters={"A": "B", "B": "A"})
    made.record(point, "s2", reason="abstained: nothing")
    made.record(point, "s3", answer="B")
    (line,) = get_lines(made, "letters")
    assert (line["A %\n(key)"], line["n"], line["choices"]) == ("100.0\n(100.0)", "2", "2")
    made.record(point, "s2", answer="B")  # two of three are A, and A is the key of all three
    made.record(point, "s3", answer="A")
    (line,) = get_lines(made, "letters")
    assert line["bars\n(key)"] == "▆▃\n█▁"


@needs_extras
def test_the_ranking_of_two_contestants_over_settings_and_draws(made: MadeRun) -> None:
    """The ring leads with radius 5 and trails with radius 9."""
    made.task("t", "AAAA")
    answers = {("base", 5): "BBBB", ("ring", 5): "AAAB", ("base", 9): "AAAA", ("ring", 9): "ABBB"}
    for (name, radius), said in answers.items():
        point = made.point(name, "t", draws=2, changes={"stages.mark.radius": radius})
        made.answers(point, said)
        made.answers(point, "BABB" if name == "base" else "BBBB", draw=1)
    (line,) = get_lines(made, "order")
    names = ("contestant", "other", "settings", "leads in", "draws", "n")
    assert [line[name] for name in names] == ["base", "ring", "2", "1 of 2", "2", "4"]
    assert line["swap between\nsettings %"].startswith("100.0\n")
    assert line["swap between\ndraws %"].startswith("100.0\n")


STUDY = """
task: {use: eval.tasks.Photos, kind: jigsaw, n: 4}
model: {use: pipelines.models.Scripted, answer: (A)}
stages:
  mark: {use: prompting.markers.Circles}
  choose: {use: prompting.wording.MultipleChoice}
  ask: {use: prompting.turns.Ask}
sweep: {stages.mark.color: [red, blue, gray]}
contestants:
  styles: {}
  chance: {replace: true, stages: {answer: {use: specialists.answers.Chance}}}
"""


def scored(tmp_path: Path, text: str = STUDY) -> Table:
    (tmp_path / "styles.yaml").write_text(text)
    return score_table([Study(load_plan(tmp_path / "styles.yaml"), tmp_path)().folder])


def test_mean_worst_and_spread_over_the_variants(tmp_path: Path) -> None:
    (line,) = lines_of(make_spread_table(scored(tmp_path)))
    assert (line["contestant"], line["task"], line["variants"]) == ("styles", "jigsaw", "3")
    figures = [line[name] for name in ("mean %", "worst %", "best %", "spread")]
    assert figures == ["50.0", "50.0", "50.0", "0.0"]
    assert line["worst variant"].startswith("mark.color=")


def test_micro_over_variants_counts_a_question_once(tmp_path: Path) -> None:
    text = STUDY.replace("{stages.mark.color: [red, blue, gray]}", "{task.quality: [90, 30]}")
    rows = scored(tmp_path, text).where(task="micro", metric="accuracy", contestant="chance")
    assert [join_attributes(row, "n clusters compared n_clusters") for row in rows] == [
        (8, 4, 8, 4)
    ]
