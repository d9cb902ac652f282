"""The finding of studies with planted effects: each gets the right sentence."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
import yaml
from rich.console import Console

from looktwice.eval.analysis.ending import Ending
from looktwice.eval.analysis.factors import find_sweep_effects
from looktwice.eval.analysis.finding import Finding, TaskFinding, change_table, find
from looktwice.eval.display.table import score_table
from looktwice.eval.report import Report
from tests.made_run import MadeRun, join_attributes

ASK = {"use": "prompting.turns.Ask"}
ZOOM = {"use": "prompting.views.ZoomOnMarks"}
N = 40
ALL, HALF, QUARTER = "A" * N, "A" * 20 + "B" * 20, "A" * 10 + "B" * 30
KEPT = "view 1: no mark in image 0; kept as it is"


@dataclass
class Study:
    """A made run with one model, to which arms are added."""

    made: MadeRun

    def arm(
        self,
        name: str,
        answers: str,
        task: str = "shape",
        stages: Mapping[str, Any] | None = None,
        kept: int = 0,
        **changes: Any,
    ) -> str:
        """Add an arm: "-" failed, "?" is an empty reply; `kept` requests equal the baseline's."""
        slots = {"mark": {"use": "prompting.markers.Circles"}, "ask": ASK}
        point = self.made.point(
            name,
            task,
            baseline=name == "plain",
            changes={f"stages.mark.{key}": value for key, value in changes.items()},
            spec={"model": {"use": "Pocket"}, "stages": slots if stages is None else stages},
        )
        for number, answer in enumerate(answers):
            call = {"messages": ["same" if number < kept else point], "reply": {"text": ""}}
            given = (
                {"error": "OSError: no picture"}
                if answer == "-"
                else {"calls": (call,), "answer": None if answer == "?" else answer}
            )
            notes = (KEPT,) if number < kept and name != "plain" else ()
            self.made.record(point, f"s{number}", notes=notes, **given)
        return point

    def finding(self, **config: Any) -> Finding:
        self.made.write()
        config.setdefault("sweep", {})
        (self.made.path / "run.yaml").write_text(yaml.safe_dump({"config": config}))
        return find(score_table(self.made.path))


@pytest.fixture
def study(tmp_path: Path) -> Study:
    made = MadeRun(tmp_path / "run")
    made.task("shape", ["A"] * N)
    return Study(made)


def labels(finding: Finding | TaskFinding) -> list[str]:
    return [row.label for row in finding.rows]


def test_a_main_effect(study: Study) -> None:
    study.arm("plain", ALL, radius=28)
    study.arm("plain", HALF, radius=9)
    study.arm("unmarked", QUARTER, stages={"ask": ASK})
    finding = study.finding(sweep={"stages.mark.radius": [28, 9]})
    assert finding.sentences == (
        "On shape, plain (radius 28) raises Pocket from 25 % right (unmarked) to 100 % [91, 100].",
        "Of 2 variants, 2 are significantly worse: unmarked \u221275, radius 9 \u221250 points.",
    )
    assert labels(finding) == ["plain", "radius 9", "unmarked"]
    assert [join_attributes(row, "is_significant is_baseline") for row in finding.rows] == [
        (False, True),
        (True, False),
        (True, False),
    ]
    differences = [row.difference for row in finding.rows]
    assert [gap and join_attributes(gap, "better worse") for gap in differences] == [
        None,
        (0, 20),
        (0, 30),
    ]
    assert len(finding.flips) == 4
    assert all(
        (flip.before, flip.after, flip.is_gained) == ("A", "B", False) for flip in finding.flips
    )
    assert finding.flip_selection == (
        "4 of the 30 samples of shape that unmarked loses, drawn at random with seed 0"
    )


def test_an_interaction_is_reported_with_the_effect_at_each_level(study: Study) -> None:
    """A small ring costs half of the answers, a small cross none."""
    study.arm("plain", ALL, radius=28, use="Circles")
    study.arm("plain", HALF, radius=28, use="Crosshairs")
    study.arm("plain", HALF, radius=9, use="Circles")
    study.arm("plain", HALF, radius=9, use="Crosshairs")
    sweep = {"stages.mark.radius": [28, 9], "stages.mark.use": ["Circles", "Crosshairs"]}
    finding = study.finding(sweep=sweep)
    assert labels(finding) == ["plain", "style Crosshairs", "radius 9"]
    assert finding.sentences[1:] == (
        "Of 2 variants, 2 are significantly worse: style Crosshairs \u221250, radius 9 \u221250"
        " points.",
        "Radius and style interact (+50 points [31, 64]): radius 9 changes accuracy by \u221250"
        " with style Circles, by +0 with style Crosshairs.",
    )
    console = Console(width=80, file=StringIO())
    console.print(Ending(replace(finding, notes=("Nothing. " * 100,))))
    assert "Radius and style interact" in console.file.getvalue()  # type: ignore[attr-defined]
    crowded = Ending(replace(finding, notes=("Some answers failed.",))).sentences
    assert [sentence.split()[0] for sentence in crowded[2:]] == ["Radius", "Some"]


def test_an_interaction_names_the_factor_it_is_averaged_over(study: Study) -> None:
    for color in ("red", "magenta"):
        study.arm("plain", ALL, radius=28, color=color, use="Circles")
        study.arm("plain", HALF, radius=28, color=color, use="Crosshairs")
        study.arm("plain", HALF, radius=9, color=color, use="Circles")
        study.arm("plain", HALF, radius=9, color=color, use="Crosshairs")
    finding = study.finding(
        sweep={
            "stages.mark.radius": [28, 9],
            "stages.mark.color": ["red", "magenta"],
            "stages.mark.use": ["Circles", "Crosshairs"],
        }
    )
    assert (
        "): averaged over color, radius 9 changes accuracy by \u221250 with style Circles, by +0"
        in finding.sentences[2]
    )


def test_no_significant_effect(study: Study) -> None:
    study.arm("plain", "A" * 30 + "B" * 10, radius=28)
    study.arm("plain", "A" * 28 + "B" * 10 + "AA", radius=9)
    study.arm("zoomed", "B" * 2 + "A" * 28 + "B" * 9 + "A", stages={"mark": {}, "zoom": ZOOM})
    finding = study.finding(sweep={"stages.mark.radius": [28, 9]})
    headline, count = finding.sentences
    assert (
        headline
        == "On shape, plain (radius 28) is right on 75 % [60, 86] of 40 samples; chance is 50 %."
    )
    assert count == (
        "None of 2 contestants differs significantly from the baseline; the smallest p is 1.000"
        " (Holm)."
    )
    assert not finding.has_significant_change
    assert finding.flips == ()


def test_a_manipulation_that_changed_few_requests_is_reported_with_its_null_effect(
    study: Study,
) -> None:
    study.arm("plain", HALF, kept=36)
    zoomed = {"mark": {"use": "prompting.markers.Circles"}, "zoom": ZOOM, "ask": ASK}
    study.arm("zoomed", HALF, kept=36, stages=zoomed)
    same, *said = study.finding().sentences[1:]
    assert same.startswith("zoomed does not differ significantly from the baseline: +0 points [")
    assert said == [
        "changed little: zoom: the request of zoomed equals that of plain on 36 of 40 samples of"
        f" shape; nothing found on 36: {KEPT}",
        f"found nothing: zoomed on 36 of 40 samples of shape: {KEPT}",
    ]


def test_failures_have_no_accuracy_and_their_reasons_are_reported(study: Study) -> None:
    study.arm("plain", ALL[:-4] + "???-")
    study.arm("broken", "-" * N)
    finding = study.finding()
    assert finding.rows[-1].accuracy is None
    assert finding.rows[-1].failure == "OSError: no picture"
    assert finding.sentences[1:] == (
        "broken: every answer failed: OSError: no picture.",
        "Unreadable: 3 of 80 answers, because the reply is empty.",
        "failed: 41 answers, most often with OSError: no picture",
    )


def test_a_table_of_all_tasks_then_one_for_each_the_widest_spread_first(study: Study) -> None:
    study.made.task("color", ["A"] * N)
    study.made.task("size", ["A"] * N)
    for name, shape, color in (("plain", ALL, ALL), ("other", ALL, HALF)):
        study.arm(name, shape)
        study.arm(name, color, task="color")
    study.arm("alone", HALF, task="size")
    finding = study.finding()
    assert [(task.task, labels(task)) for task in finding.tasks] == [
        ("all tasks", ["plain", "other"]),
        ("color", ["plain", "other"]),
        ("shape", ["plain", "other"]),
        ("size", ["alone"]),
    ]
    assert join_attributes(finding.rows[1], "arm change is_significant") == ("", -0.25, True)
    assert join_attributes(finding.rows[1].difference, "better worse") == (0, 20)
    assert finding.flip_selection.startswith("4 of the 20 samples of color that other loses")
    assert finding.sentences[0] == "On all tasks, plain is right on 100 % [95, 100] of 80 samples."


def test_with_two_runs_each_sentence_names_its_run(study: Study, tmp_path: Path) -> None:
    study.arm("plain", ALL)
    study.arm("other", HALF)
    study.finding()
    (tmp_path / "second").mkdir()
    for file in study.made.path.iterdir():
        (tmp_path / "second" / file.name).write_bytes(file.read_bytes())
    both = find(score_table([study.made.path, tmp_path / "second"]))
    assert [task.run for task in both.tasks] == ["run", "second"]
    assert both.sentences[0].startswith("On shape of run, plain is right on 100 % [91, 100]")
    assert both.sentences[2].startswith("On shape of second, plain")


def test_rows_are_labelled_by_what_differs_between_them(study: Study) -> None:
    """Combined changes, a contestant at another setting and a guesser have no row."""
    study.arm("plain", ALL, radius=28, color="red")
    study.arm("plain", ALL, radius=9, color="red")
    study.arm("plain", ALL, radius=9, color="blue")
    study.arm("zoomed", ALL, radius=28, crop=10)
    study.arm("zoomed", ALL, radius=28, crop=20)
    study.arm("zoomed", ALL, radius=9, crop=10)
    study.arm("broken", ALL, width=None)
    sweep: dict[str, list[int]] = {
        f"stages.mark.{name}": [] for name in ("radius", "color", "crop")
    }
    assert labels(study.finding(sweep=sweep)) == [
        "plain",
        "radius 9",
        "zoomed, crop 10",
        "zoomed, crop 20",
        "broken",
    ]


def test_an_interaction_is_not_reported_without_a_significant_change(study: Study) -> None:
    """Each change alone gains five samples, which is not significant; both together lose five."""
    study.arm("plain", "A" * 20 + "B" * 20, radius=28, color="red")
    study.arm("plain", "A" * 25 + "B" * 15, radius=28, color="blue")
    study.arm("plain", "A" * 20 + "B" * 5 + "A" * 5 + "B" * 10, radius=9, color="red")
    study.arm("plain", "A" * 15 + "B" * 25, radius=9, color="blue")
    sweep: dict[str, list[Any]] = {
        "stages.mark.radius": [28, 9],
        "stages.mark.color": ["red", "blue"],
    }
    finding = study.finding(sweep=sweep)
    effects = find_sweep_effects(score_table(study.made.path).scores[0])
    assert any(e.p_holm is not None and e.p_holm < 0.001 for e in effects if " x " in e.factor)
    assert not finding.has_significant_change
    assert not any("interact" in sentence for sentence in finding.sentences)


def test_the_end_of_a_run_shows_significant_rows_first(study: Study) -> None:
    study.arm("plain", ALL[:-1] + "B", radius=0)
    for number in range(1, 13):
        study.arm("plain", HALF if number == 12 else ALL, radius=number)
    study.arm("broken", "-" * N)
    finding = study.finding(sweep={"stages.mark.radius": [*range(13)]})
    console = Console(width=80, file=StringIO())
    console.print(Ending(finding))
    lines = console.file.getvalue().splitlines()  # type: ignore[attr-defined]
    assert len(lines) <= 18 and max(map(len, lines)) <= 80
    (baseline,) = [line for line in lines if line.startswith(" ▸ plain")]
    assert baseline.endswith("baseline") and " 97.5 " in baseline
    (sure,) = [line for line in lines if line.startswith("   radius 12")]
    assert sure.endswith("\u221247.5*")
    assert " * significant at 5 % (Holm)   ┊ chance 50 %   4 more rows: --table full" in lines
    assert not any("failed" in line for line in lines if line.startswith("   radius"))
    only = Finding((replace(finding.tasks[0], rows=finding.rows[-1:]),))
    console = Console(width=80, file=StringIO())
    console.print(Ending(only))
    assert "   broken  all failed: OSError: no picture\n" in console.file.getvalue()  # type: ignore[attr-defined]


def test_an_arm_with_failures_shows_their_count_next_to_its_accuracy(study: Study) -> None:
    """A failure scores 0 in the accuracy and is excluded from the difference."""
    study.arm("plain", ALL)
    study.arm("cross", "-" * 4 + "A" * 36)
    console = Console(width=80, file=StringIO())
    console.print(Ending(finding := study.finding()))
    plain, cross, signs, *_ = console.file.getvalue().splitlines()[1:]  # type: ignore[attr-defined]
    assert plain.endswith("baseline") and " 90.0 " in cross and cross.endswith("+0.0  4 failed")
    assert "failed: score 0, excluded from differences" in signs and len(signs) <= 80
    assert "| failed |" in change_table(finding.tasks[0]).markdown
    whole = replace(finding.tasks[0], rows=finding.rows[:1])
    assert (
        "| significant |" in change_table(whole).markdown
        and "failed" not in change_table(whole).markdown
    )


def test_the_headline_says_how_many_failures_score_0(study: Study) -> None:
    study.arm("plain", "-" * 30 + "A" * 10)
    assert study.finding().sentences[0] == (
        "On shape, plain is right on 25 % [14, 40] of 40 samples (30 of them failed and score 0);"
        " chance is 50 %."
    )


def test_nothing_is_compared_before_the_baseline_was_asked(study: Study) -> None:
    study.arm("plain", "")
    study.arm("zoomed", ALL)
    study.arm("worse", HALF)
    finding = study.finding()
    assert finding.sentences[0] == (
        "Accuracy on shape: zoomed 100 % [91, 100], worse 50 % [35, 65]; chance is 50 %."
    )
    table = score_table(study.made.path)
    assert find(table.where(contestant="worse")).rows[0].label == "worse"


@pytest.fixture
def specialists(study: Study) -> Study:
    """A model on three tasks, specialists on one each, and a guesser on all."""
    for task in ("color", "count"):
        study.made.task(task, ["A"] * N)
    for task, model in (("shape", HALF), ("color", ALL), ("count", QUARTER)):
        study.arm("plain", model, task)
        guess = {"answer": {"use": "specialists.answers.Chance"}}
        point = study.made.point("chance", task, spec={"stages": guess})
        study.made.answers(point, list(HALF))
    for name, task, answers in (
        ("outlines", "shape", "A" * 17 + "B" * 3 + "-" * 20),
        ("exact", "color", "A" * 40),
        ("specialists.answers.Guess", "count", QUARTER),
    ):
        point = study.made.point(name[-8:], task, spec={"stages": {"answer": {"use": name}}})
        for number, answer in enumerate(answers):
            abstained = {"reason": "abstained: too few lines"}
            given = abstained if answer == "-" else {"answer": answer}
            study.made.record(point, f"s{number}", **given)
    return study


def print_ending(finding: Finding, width: int = 80) -> list[str]:
    console = Console(width=width, file=StringIO())
    console.print(Ending(finding))
    return console.file.getvalue().splitlines()  # type: ignore[attr-defined, no-any-return]


@pytest.mark.parametrize("width", [60, 80, 120])
def test_every_contestant_of_its_own_task_is_shown_at_the_end(
    specialists: Study, width: int
) -> None:
    """Regression: only the model had a bar, and abstentions looked like wrong answers."""
    finding = specialists.finding()
    assert [(task.task, labels(task)) for task in finding.shown_tasks] == [
        ("shape", ["plain", "outlines"]),
        ("color", ["plain", "exact"]),
        ("count", ["plain", "rs.Guess"]),
    ]
    lines = print_ending(finding, width)
    assert max(map(len, lines)) <= width
    rows = [line.split() for line in lines if "\u25cf" in line]
    assert [row[: 2 + (row[0] == "\u25b8")] for row in rows] == [
        ["\u25b8", "plain", "50.0"],
        ["outlines", "42.5"],
        ["\u25b8", "plain", "100.0"],
        ["exact", "100.0"],
        ["\u25b8", "plain", "25.0"],
        ["rs.Guess", "25.0"],
    ]
    (abstained,) = [line for line in lines if line.startswith("   outlines")]
    assert abstained.endswith("50 % answered: 85 %")
    told = [sentence for sentence in finding.sentences if sentence.startswith("outlines abst")]
    assert told == [
        "outlines abstained on 50 % of shape and is right on 85 % [64, 95] of the rest."
    ]


@pytest.mark.parametrize(("shape", "color", "count"), [(ALL, "B" * N, 3), (ALL, ALL, 1)])
def test_a_mean_hides_no_difference(study: Study, shape: str, color: str, count: int) -> None:
    """A gain on one task and a loss on the other give +0.0 on all tasks."""
    study.made.task("color", ["A"] * N)
    for task, answers in (("shape", shape), ("color", color)):
        study.arm("plain", HALF, task)
        study.arm("other", answers, task)
    assert len(study.finding().shown_tasks) == count


def test_the_table_of_a_task_has_counts_of_answers_and_abstentions(specialists: Study) -> None:
    shape, color, _ = specialists.finding().shown_tasks
    header, *_ = change_table(shape).markdown.splitlines()
    assert "% right of<br>answered" in header and "abstained<br>%" in header
    (row,) = [row for row in shape.rows if row.label == "outlines"]
    assert (
        row.answered_accuracy
        and join_attributes(row.answered_accuracy, "value n") == (0.85, 20)
        and row.abstained_share == 0.5
    )
    assert "abstained" not in change_table(color).markdown
    markdown = Report(score_table(specialists.made.path)).markdown
    assert all(f"**{task}**" in markdown for task in ("color", "shape", "count"))


CIRCLES = {"use": "prompting.markers.Circles"}
CHANGED: dict[str, tuple[dict[str, Any], str, bool]] = {
    "a stage more": ({"mark": CIRCLES, "zoom": ZOOM, "ask": ASK}, "Pocket", True),
    "a stage in another slot": ({"ring": CIRCLES, "ask": ASK}, "Pocket", True),
    "a stage less": ({"ask": ASK}, "Pocket", True),
    "another model": ({"mark": CIRCLES, "ask": ASK}, "Other", True),
    "another stage and one more": ({"mark": ZOOM, "crop": ZOOM, "ask": ASK}, "Pocket", False),
    "a stage and the model": ({"ask": ASK}, "Other", False),
    "a specialist": ({"answer": {"use": "specialists.answers.NearerPoint"}}, "", False),
}


@pytest.mark.parametrize(("stages", "model", "is_one"), CHANGED.values(), ids=CHANGED)
def test_single_changes_are_reported_as_one_change_at_a_time(
    study: Study, stages: dict[str, Any], model: str, is_one: bool
) -> None:
    study.arm("plain", ALL)
    study.arm("other", HALF, stages=stages)
    spec = {"model": {"use": model}, "stages": stages}
    study.made.points[-1] = replace(study.made.points[-1], spec=spec)
    (task,) = study.finding().tasks
    assert task.caption == ("shape, one change at a time" if is_one else "shape")
    assert change_table(task).header[0] == ("change" if is_one else "contestant")
    markdown = Report(score_table(study.made.path)).markdown
    assert ("one change at a time" in markdown) is is_one


def test_better_is_blue_and_worse_orange_in_a_terminal(study: Study) -> None:
    study.arm("plain", HALF)
    study.arm("better", ALL)
    study.arm("worse", "B" * N)
    study.arm("same", HALF)
    console = Console(width=80, file=StringIO())
    lines = [*Ending(study.finding()).__rich_console__(console, console.options)]
    styles = {line.plain.split()[0]: line.style for line in lines if "\u25cf" in line.plain}
    assert styles == {"better": "bright_blue", "worse": "dark_orange", "same": "", "\u25b8": "bold"}
