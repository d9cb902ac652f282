"""What the first table shows first: the headline metric of the benchmark."""

from looktwice.eval import write_report
from looktwice.eval.display.table import Table, score_table
from looktwice.pipelines.config.spec import spec
from tests.made_run import MadeRun
from tests.optional import extension

task = extension("blink_twice.task")

subtasks = extension("do_you_see_me.subtasks")
vlm2 = extension("vlm2")


def titles(table: Table) -> list[str]:
    """The headings of the terminal's blocks, in order."""
    above = repr(table).split("split: ")[0].splitlines()[3:]
    return [line.strip() for line in above if line.startswith("  ") and line[2:3] not in (" ", "")]


def test_vlm2_shows_pairs_before_questions(made: MadeRun) -> None:
    """Item accuracy of 75 % would hide that only half of the pairs are right."""
    metas = [{"pair": str(number // 2)} for number in range(4)]
    made.task("cpr", ["T", "F", "T", "F"], choices=0, meta=metas)
    made.answers(
        made.point("plain", "cpr", facts={"scorer": spec(vlm2.PairScorer("OC-Cpr"))}), "TFTT"
    )
    table = score_table(made.write().path)
    text = repr(table)
    assert titles(table) == ["cpr: pair_accuracy", "cpr"]
    assert text.index("50.0") < text.index("75.0")
    assert "pair_accuracy (n: pairs): the benchmark's own metrics, shown first" in text
    write_report(table, made.path)
    first = (made.path / "report.md").read_text().split("## Accuracy")[1].split("\n\n")[1]
    assert first.startswith("| contestant | cpr<br>pair_accuracy | macro | micro | cpr |")
    assert first.index("50.0") < first.index("75.0")


def test_blink_twice_shows_groups_and_warns_if_there_are_none(made: MadeRun) -> None:
    metas = [{"image": str(n // 2), "group": "g", "slot": str(n % 2)} for n in range(4)]
    made.task("twice", "ABAB", meta=metas)
    warning = "warning: g_acc cannot be computed, because no column identifies groups"
    facts = {"scorer": spec(task.TwiceScorer()), "note": f"4 questions; {warning}"}
    made.answers(made.point("plain", "twice", facts=facts), "ABAB")
    table = score_table(made.write().path)
    assert titles(table) == ["twice: g_acc", "twice"]
    assert table.notes[0] == f"{warning} (twice)" and "warning: g_acc" in repr(table)


def test_do_you_see_me_shows_the_mean_over_all_subtasks(made: MadeRun) -> None:
    for name in subtasks.PARTS_2D:
        made.task(name, ["1", "2"], choices=0)
        facts = {"scorer": spec(subtasks.SweepScorer(name, "2D", "integer"))}
        made.answers(made.point("plain", name, facts=facts), "12")
    assert titles(score_table(made.write().path))[0] == "Do You See Me: mean_2d"


def test_an_arm_of_failures_has_no_accuracy_and_no_difference(made: MadeRun) -> None:
    """Regression: it had 0.0 and a difference of -100 points."""
    made.task("t", "AAAA")
    made.answers(made.point("plain", "t", baseline=True), "AAAB")
    broken, most = made.point("broken", "t"), "ModelError: HTTP 401"
    for number in range(4):
        error = most if number else "ModelError: HTTP 500"
        made.record(broken, f"s{number}", error=f"{error}\nTraceback")
    table = score_table(made.write().path)
    (row,) = table.where(metric="accuracy", task="t", contestant="broken")
    assert {row.value, row.low, row.delta, row.p} == {None} and (row.failed, row.n) == (4, 0)
    assert row.failure == most and most in table.csv
    shown = " ".join(repr(table).split())
    for words in ("broken failed 0 0/0/0/4", f"broken on t: {most}", f"with {most}"):
        assert words in shown
    write_report(table, made.path)
    page = (made.path / "report.md").read_text()
    assert page.count(f"failed<br>{most}") >= 2
    assert "| broken | failed | failed | failed<br>" in page  # macro, micro and the task


def test_an_arm_with_failures_also_shows_the_accuracy_of_answered_samples(made: MadeRun) -> None:
    whole = MadeRun(made.path.with_name("whole")).arms("t", "AA", plain="AB")
    assert "answered" not in repr(score_table(whole))
    made.task("t", "AAAA")
    half = made.point("half", "t")
    made.answers(half, "AA")
    for name in ("s2", "s3"):
        made.record(half, name, error="ModelError: HTTP 503")
    table = score_table(made.write().path)
    (line,) = [line for line in repr(table).splitlines() if line.startswith("    half")]
    assert line.split()[:4] == ["half", "50.0", "[15.0–85.0]", "100.0"]
    assert "answered" in repr(table)
    write_report(table, made.path)
    assert "2 of 4 failed; 100.0 of" in (made.path / "report.md").read_text()
