"""BLINK-Twice: files with varying columns, and its several accuracies."""

import base64
import json
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from looktwice.eval.display.table import score_table
from looktwice.eval.records.records import PointRow, SampleRow
from looktwice.eval.scoring import Score, Verdict
from looktwice.eval.scoring.verdict import PointScores, ScoredRecord
from looktwice.eval.tasks import TaskError
from looktwice.extras.blink_twice import BlinkTwice, TwiceScorer
from looktwice.extras.blink_twice.task import compute_cot_score, parse_cot
from looktwice.pipelines.config.spec import spec
from looktwice.pipelines.picture import PictureError
from tests.made_run import MadeRun
from tests.tables import table

FACTS = {"scorer": spec(TwiceScorer())}


def write(root: Path, rows: Sequence[dict[str, Any]]) -> Path:
    for name in ("1_1.png", "1_2.png"):
        (root / name).write_bytes(bytes(cv2.imencode(".png", np.zeros((4, 6, 3), np.uint8))[1]))
    (root / "twice.jsonl").write_text("\n".join(json.dumps(row) for row in rows), encoding="utf-8")
    return root / "twice.jsonl"


def row(image: str = "1_1.png", answer: Any = "B) No", **more: Any) -> dict[str, Any]:
    fields = {"question": "Is it so?", "image": image, "answer": answer}
    return {**fields, "Detailed Visual Clues": "secret", **more}


# ---- files


def test_columns_are_guessed(tmp_path: Path) -> None:
    cells = [("1_1.png", "B) No"), ("1_1.png", "yes"), ("1_2.png", "A"), ("1_2.png", False)]
    task = BlinkTwice(write(tmp_path, [row(*pair, group_id=1) for pair in cells]))
    items = list(task)
    assert [i.answer for i in items] == ["B", "A", "A", "B"]
    assert [i.sample.meta["image"] for i in items] == ["1_1.png", "1_1.png", "1_2.png", "1_2.png"]
    assert [i.sample.meta["slot"] for i in items] == ["1", "2", "1", "2"]
    assert items[0].sample.choices == ("Yes", "No")
    assert items[0].sample.images[0].size == (6, 4)
    assert "secret" not in str(items[0].sample.to_dict())
    assert task.facts.note == "4 questions on 2 images, 1 groups of four"
    assert len(task.facts.errata) == 3


def test_columns_can_be_given_and_cells_can_be_lists(tmp_path: Path) -> None:
    rows = [{"Frage": ["Is it?", "Is it not?"], "Soll": ["No", "Yes"], "Bild": "1_1.png"}]
    columns = {"question": "Frage", "answer": "Soll", "image": "Bild"}
    items = list(BlinkTwice(write(tmp_path, rows), columns))
    found = [(i.sample.id, i.sample.question, i.answer) for i in items]
    assert found == [("row 0_q1", "Is it?", "B"), ("row 0_q2", "Is it not?", "A")]
    assert {i.sample.meta["image"] for i in items} == {"1_1.png"}


def embed(value: int, ending: str = ".png") -> str:
    pixels = np.full((4, 6, 3), value, np.uint8)
    return base64.b64encode(cv2.imencode(ending, pixels)[1].tobytes()).decode()


def figures(made: MadeRun, keys: Any, meta: Any, answers: str) -> dict[str, Any]:
    """Return the value and count of each metric of these answers."""
    made.task("twice", list(keys), meta=list(meta))
    made.answers(made.point("plain", "twice", facts=FACTS), answers)
    rows = score_table(made.write().path).where(contestant="plain", task="twice").rows
    return {row.metric: (row.value, row.n) for row in rows}


def test_embedded_images_are_distinguished_by_their_pixels(tmp_path: Path, made: MadeRun) -> None:
    images = [embed(0), embed(0, ".bmp"), embed(9), embed(9), "%%%" * 200, "%%%" * 200]
    items = list(BlinkTwice(write(tmp_path, [row(image) for image in images])))
    meta = [item.sample.meta for item in items]
    names = [fields["image"] for fields in meta]
    assert names[0] == names[1] != names[2] == names[3]
    assert names[4:] == ["row 4", "row 5"]  # an unreadable image counts as a separate image
    assert [fields["slot"] for fields in meta] == ["1", "2", "1", "2", "1", "1"]
    assert figures(made, [item.answer for item in items], meta, "BBBABB")["i_acc"] == (0.5, 2)


TWO = [row(embed(0)), row(embed(0))]


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        (TWO, "identifies images, so a hash of their pixels is used"),
        (TWO, "warning: g_acc cannot be computed, because no column identifies groups"),
        ([row(group=""), row(group=1)], "g_acc cannot be computed, because no group has four"),
        ([row(), row("1_2.png")], "i_acc and q_acc_either cannot be computed, because no image"),
    ],
)
def test_a_warning_names_metrics_that_cannot_be_computed(
    tmp_path: Path, rows: list[Any], said: str
) -> None:
    assert said in BlinkTwice(write(tmp_path, rows)).facts.note


@pytest.mark.parametrize(
    ("rows", "settings", "words"),
    [
        (
            [{"q": "?", "pic": "x"}],
            {},
            "no column was found for `question` and `answer` and `image`",
        ),
        ([row()], {"columns": {"question": "ask"}}, "there is no column 'ask'"),
        ([row()], {"columns": {"questoin": "ask"}}, "did you mean 'question'"),
        ([row(answer="perhaps")], {}, "1 of 1 rows .*\\n  row 0: the answer 'perhaps' is neither"),
        ([row()], {"path": None}, "either `path`"),
    ],
)
def test_unusable_files_are_refused(
    tmp_path: Path, rows: Any, settings: dict[str, Any], words: str
) -> None:
    with pytest.raises(TaskError, match=words):
        len(BlinkTwice(**{"path": write(tmp_path, rows), **settings}))


def test_bad_rows_are_counted_and_missing_images_fail_alone(tmp_path: Path) -> None:
    rows = [row(id=n) for n in range(10)]
    rows += [row(id=10, image="gone.png"), row(id=3), row(id=11, answer="hidden")]
    task = BlinkTwice(write(tmp_path, rows))
    items = list(task)
    count, reason = task.facts.left_out
    assert (len(items), count) == (12, "1 rows of twice.jsonl left out")
    assert reason == "row 11: row 3 already has the id '3'; ids must be unique"
    assert items[-1].answer is None
    with pytest.raises(PictureError, match="gone"):
        items[10].sample.images[0].size  # noqa: B018


# ---- metrics


def meta(images: int) -> list[dict[str, str]]:
    """Two questions per image, two images per group."""
    pairs = product(range(images), "12")
    return [{"image": f"i{i}", "group": f"g{i // 2}", "slot": slot} for i, slot in pairs]


def test_the_accuracies(made: MadeRun) -> None:
    shares = figures(made, "BABABABABA", meta(5), "BABABBAAAB")
    sides = {"no_acc": (0.6, 5), "yes_acc": (0.6, 5), "q_acc": (0.6, 10), "q_acc_either": (0.8, 5)}
    whole = {"i_acc": (0.4, 5), "q_acc_naturalbench": (0.5, 4), "g_acc": (0.5, 2)}
    assert shares == shares | sides | whole


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from("AB"), st.booleans()), min_size=8, max_size=8),
    st.integers(2, 8),
)
def test_how_the_accuracies_bound_each_other(drawn: list[tuple[str, bool]], count: int) -> None:
    rows, scored = {}, {}
    for n, fields in enumerate(meta(4)[:count]):
        name, (key, right) = f"s{n}", drawn[n]
        sample = {"id": name, "choices": ["Yes", "No"], "meta": fields}
        rows[name] = SampleRow("t", "", key, sample)
        score = Score(Verdict.RIGHT if right else Verdict.WRONG, float(right))
        scored[name] = {0: ScoredRecord(name, 0, "A", score)}
    point = PointScores(PointRow("p", "c", "t", "t"), rows, scored)
    units = {metric.name: metric.units for metric in TwiceScorer().metrics(point)}
    mean = {name: sum(values.values()) / len(values) for name, values in units.items()}
    sides = [sum(units[name].values()) for name in ("no_acc", "yes_acc") if name in units]
    assert mean["q_acc"] * count == pytest.approx(sum(sides))
    if "i_acc" in units:
        assert mean["i_acc"] <= mean["q_acc_either"]
    if "g_acc" in units:
        images = [f"i{2 * int(group[1:]) + k}" for group, k in product(units["g_acc"], (0, 1))]
        assert mean["g_acc"] <= sum(units["i_acc"][image] for image in images) / len(images)
        assert mean["g_acc"] <= mean["q_acc_naturalbench"]


@table
def test_the_published_q_acc_is_a_mix_of_no_and_yes(no: float, yes: float, q: float) -> None:
    assert min(no, yes) < q < max(no, yes)
    assert q == pytest.approx((459 * no + 437 * yes) / 896, abs=0.004)


def test_the_cot_score() -> None:
    assert compute_cot_score(0.5, 1.0) == 0.75
    with pytest.raises(ValueError, match="clues must be in 0"):
        compute_cot_score(1.5, 0)


@table
def test_the_two_criteria_of_a_judge(text: str, found: list[float] | None) -> None:
    assert parse_cot(text) == (found and tuple(found))
