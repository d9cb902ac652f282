"""Control arms change only what they claim, and scoring maps permuted letters back."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from hypothesis import given, settings, strategies as st
from numpy.typing import NDArray
from scipy.stats import chisquare

from looktwice.eval.readers import Robust
from looktwice.eval.records import Record
from looktwice.pipelines.config import build
from looktwice.pipelines.config.spec import identity, spec
from looktwice.pipelines.marks import Box, Mark, Mask, Point, bounding_box
from looktwice.pipelines.model import Messages
from looktwice.pipelines.models import Scripted
from looktwice.pipelines.picture import Picture
from looktwice.pipelines.pipeline import NoModel, Pipeline
from looktwice.pipelines.sample import Item, Sample
from looktwice.pipelines.state import Stage, State
from looktwice.pipelines.view import View
from looktwice.prompting.agent import Zoom
from looktwice.prompting.agent.tool import BoxArguments
from looktwice.prompting.controls import (
    BlankImage,
    NoImage,
    Noise,
    OracleCrop,
    OtherImage,
    PermuteChoices,
    PermuteLabels,
    RandomCrop,
    RandomMarks,
)
from looktwice.prompting.controls.images import compute_signal_factor
from looktwice.prompting.markers import Circles
from looktwice.prompting.turns import Ask
from looktwice.prompting.views import Crop
from looktwice.prompting.wording import MarksAsText, MultipleChoice
from tests.made_run import MadeRun
from tests.paths import CONFIGS
from tests.prompting.scenes import record_state, table

CASES = table("controls/controls.yaml")

POINTS = (Point("A", 20, 30), Point("B", 70, 60), Point("C", 120, 20), Point("D", 150, 90))
NAMES = tuple(f"Point {letter}" for letter in "ABCD")


def noise(width: int = 180, height: int = 110, seed: int = 0) -> Picture:
    return Picture(
        np.random.default_rng(seed).integers(0, 255, (height, width, 3)).astype(np.uint8)
    )


def start(
    *marks: Mark,
    images: tuple[Picture, ...] = (),
    seed: int = 0,
    question: str = "Which?",
    **more: Any,
) -> State:
    return State.start(Sample("s1", question, images or (noise(),), marks=marks, **more), seed)


def apply_stage(stage: Stage, state: State) -> State:
    return stage(state, NoModel())


def test_no_image_and_blank_image() -> None:
    state = start(*POINTS)
    assert apply_stage(NoImage(), state).views == ()
    blank = apply_stage(BlankImage("teal"), state)
    assert (blank.views[0].pixels == (0, 128, 128)).all()
    assert blank.views[0].parts == state.views[0].parts
    mean = apply_stage(BlankImage("mean"), state).views[0].pixels
    assert (mean == mean[0, 0]).all()
    assert np.abs(mean[0, 0] - state.views[0].pixels.mean((0, 1))).max() <= 0.5
    marked = apply_stage(Circles(), blank).views[0].pixels
    assert tuple(marked[30, 30]) == (255, 0, 0)


def others(*pictures: Picture) -> list[Item]:
    return [Item(Sample(f"s{n}", "?", (picture,)), "A") for n, picture in enumerate(pictures)]


def test_another_image_is_never_that_of_the_sample() -> None:
    shared = noise(seed=1)
    # s1 and s3 show the same picture
    task = others(noise(seed=0), shared, noise(90, 200, seed=2), shared)
    state = start(*POINTS, images=(shared,))
    seen = set()
    for seed in range(20):
        stage = OtherImage(task, seed=seed)
        shown = apply_stage(stage, state)
        assert shown.views[0].picture.sha != shared.sha
        assert shown.views[0].size == state.views[0].size
        assert shown.views[0].parts == state.views[0].parts
        assert apply_stage(stage, state).views[0].picture.sha == shown.views[0].picture.sha
        seen.add(shown.notes)
    assert seen == {(f"shown with the images of sample {name}",) for name in ("s0", "s2")}
    with pytest.raises(ValueError, match="sample s1: the task of list has no other sample"):
        apply_stage(OtherImage(others(noise(), noise())), start())
    assert apply_stage(OtherImage([]), start().replace(views=())).views == ()


def test_the_fit_of_another_image() -> None:
    tall = Picture(np.repeat(np.arange(200, dtype=np.uint8)[:, None, None], 90, 1).repeat(3, 2))
    state = start(images=(noise(180, 100),))
    task = others(noise(), noise(), tall)[2:]
    cover = apply_stage(OtherImage(task), state).views[0].pixels
    assert cover.shape == (100, 180, 3)
    # the centre of the other stays central, at its own proportions
    assert abs(int(cover[50, 0, 0]) - 100) <= 2
    assert int(cover[-1, 0, 0]) - int(cover[0, 0, 0]) < 55
    stretch = apply_stage(OtherImage(task, fit="stretch"), state).views[0].pixels
    assert int(stretch[-1, 0, 0]) - int(stretch[0, 0, 0]) > 190
    none = apply_stage(OtherImage(task, fit="none"), state).views[0]
    assert none.size == (90, 200)
    assert none.picture.payload.sha == tall.payload.sha
    assert none.parts[0].source == 0


def test_controls_are_one_line_of_a_configuration() -> None:
    for name in ("NoImage", "BlankImage", "RandomMarks", "RandomCrop"):
        node = {"use": f"prompting.controls.{name}"}
        assert identity(build(node)) == node
    task = {"use": "eval.tasks.Photos", "kind": "depth", "n": 4}
    other = build({"use": "prompting.controls.OtherImage", "task": task})
    assert spec(other)["task"]["kind"] == "depth"
    assert len(list(other.task)) == 4
    crop = build({"use": "prompting.controls.OracleCrop", "label": "REF", "crop": {"padding": 0.5}})
    assert crop == OracleCrop("REF", crop=Crop(padding=0.5))


MASK = Mask("M", np.pad(np.ones((8, 12), bool), ((5, 97), (9, 159))))


@given(st.integers(0, 10_000))
@settings(max_examples=40, deadline=None)
def test_random_marks_keep_label_kind_and_shape_and_lie_elsewhere(seed: int) -> None:
    state = start(*POINTS, Box("E", 5, 5, 30, 25), MASK, Point("REF", 90, 90), seed=seed)
    moved = apply_stage(RandomMarks(keep=("REF",)), state).sample.marks
    assert [(m.label, type(m)) for m in moved] == [(m.label, type(m)) for m in state.sample.marks]
    assert moved[-1] == Point("REF", 90, 90)
    for mark, old in zip(moved[:-1], state.sample.marks, strict=False):
        x0, y0, x1, y1 = bounding_box(mark)
        a, b, c, d = bounding_box(old)
        assert (x1 - x0, y1 - y0) == pytest.approx((c - a, d - b))
        assert min(x0, y0) >= 0 and x1 <= 180 and y1 <= 110
        if isinstance(mark, Mask) and isinstance(old, Mask):
            assert mark.pixels.sum() == old.pixels.sum()
        away = [np.hypot(*np.subtract(mark.center, other.center)) for other in state.sample.marks]
        assert min(away) >= 11 - 1e-9
    centers = np.array([m.center for m in moved])
    gaps = np.hypot(*(centers[:, None] - centers[None]).transpose(2, 0, 1))
    assert (gaps + 999 * np.eye(len(moved))).min() >= 11 - 1e-9


def test_random_marks_are_seeded_drawn_and_recorded(tmp_path: Path) -> None:
    state = start(*POINTS)
    first, second, other = (apply_stage(RandomMarks(seed=seed), state) for seed in (0, 0, 1))
    assert first.sample.marks == second.sample.marks != other.sample.marks
    x, y = map(round, first.sample.marks[0].center)
    drawn = apply_stage(Circles(), first).views[0].pixels
    changed = (drawn != state.views[0].pixels).any(-1)
    assert changed[max(0, y - 11) : y + 12, max(0, x - 11) : x + 12].sum() > 60
    kept = record_state(first, tmp_path, state.sample).marks
    assert kept == tuple(mark.to_dict() for mark in first.sample.marks)


@pytest.mark.parametrize(
    ("marks", "fact"),
    [
        ((), "s1 has no marks"),
        ((Box("big", 0, 0, 200, 40),), "'big' .*180 x 110"),
        ((Point("A", 1, 1, 3),), "'A' is on image 3"),
        (tuple(Point(str(n), n, n) for n in range(110)), "no room"),
    ],
)
def test_marks_that_cannot_be_moved(marks: tuple[Mark, ...], fact: str) -> None:
    with pytest.raises(ValueError, match=fact):
        apply_stage(RandomMarks(apart=0.3), start(*marks))


TIGHT = Crop(padding=0.25, min_px=1)


@pytest.mark.parametrize(
    ("stage", "meta"),
    [
        (OracleCrop("E", crop=TIGHT), {}),
        (OracleCrop(crop=TIGHT), {"region": "E"}),
        (OracleCrop(crop=TIGHT), {"region": [80, 40, 120, 60]}),
        (OracleCrop(hint="where", crop=TIGHT), {"where": Box("x", 80, 40, 120, 60).to_dict()}),
    ],
)
def test_the_oracle_cuts_around_the_hint(stage: OracleCrop, meta: dict[str, Any]) -> None:
    state = start(Point("A", 5, 5), Box("E", 80, 40, 120, 60), meta=meta)
    cut = apply_stage(stage, state)
    (view,) = cut.views
    assert view.size == (60, 40)
    assert (view.pixels == state.views[0].pixels[30:70, 70:130]).all()
    assert view.to_view(Box("E", 80, 40, 120, 60)) == (Box("E", 10, 10, 50, 30),)
    assert cut.notes == ("view 1 cropped to (70, 30, 130, 70)",)


def test_the_oracle_is_presented_like_any_zoom() -> None:
    state = start(Point("A", 2, 108), images=(noise(), noise(seed=3)))
    view, second = apply_stage(OracleCrop("A", crop=Crop(min_px=55)), state).views
    assert view.size == (55, 55)
    assert view.to_view(state.sample.marks[0])[0].center == (2, 108 - 55)
    assert second is state.views[1]  # it shows no region
    both = apply_stage(OracleCrop("A", crop=Crop(min_px=33, show="both")), state).views
    assert [v.size for v in both] == [(180, 110), (33, 33), (180, 110)]


@pytest.mark.parametrize(("meta", "message"), CASES["hints"])
def test_unusable_hints(meta: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        apply_stage(OracleCrop(), start(Point("A", 5, 5), meta=meta))


@pytest.mark.parametrize("mark", [Box("E", 10, 10, 40, 40), Point("E", 170, 5), MASK])
def test_a_random_crop_has_the_size_of_the_oracle_and_avoids_it(mark: Mark) -> None:
    state = start(mark)
    oracle = OracleCrop(mark.label, crop=Crop(min_px=40))
    true = apply_stage(oracle, state).views[0]
    places = set()
    for seed in range(10):
        (view,) = apply_stage(replace(oracle, elsewhere=True, seed=seed), state).views
        assert view.size == true.size
        assert view.to_view(mark) == ()
        places.add(view.parts[0].affine)
    assert len(places) > 5
    both = apply_stage(OracleCrop(mark.label, crop=Crop(show="both"), elsewhere=True), state).views
    assert [v.size for v in both] == [(180, 110), (64, 64)]


@pytest.mark.slow
@pytest.mark.parametrize("mark", [Box("E", 60, 30, 110, 70), Box("E", 172, 104, 190, 120)])
def test_with_one_try_every_possible_place_is_equally_likely(mark: Box) -> None:
    """Positions are pooled to 5 x 3 cells, also for a region across the edge of the view."""
    crop = Crop(padding=0, min_px=1, aspect=1.0)
    state, oracle = start(mark), OracleCrop("E", crop=crop, elsewhere=True, tries=1)
    true = apply_stage(replace(oracle, elsewhere=False), state).views[0]
    (width, height), (across, down) = true.size, np.subtract(state.views[0].size, true.size) + 1
    drawn = np.zeros((across, down))
    for seed in range(600):
        (view,) = apply_stage(replace(oracle, seed=seed), state).views
        assert view.size == (width, height)
        drawn[corner(view)] += 1
    rows = np.array_split(drawn, 5)
    blocks = [block for row in rows for block in np.array_split(row, 3, axis=1)]
    counts, likely = zip(*((b.sum(), b.size * 600 / drawn.size) for b in blocks), strict=True)
    assert chisquare(counts, likely).pvalue > 0.001


def test_the_random_arm_of_certify_samples_uniformly() -> None:
    """For any requested place, with the settings of the shipped configuration."""
    arms = yaml.safe_load((CONFIGS / "tool_contribution.yaml").read_text())["contestants"]
    settings = arms["random"]["stages"]["agent"]["tools"]["zoom"]
    state, drawn = start(), []
    for seed in range(500):
        zoom = Zoom(**settings, crop=Crop(padding=0, min_px=1), seed=seed)
        (view,) = zoom(state, BoxArguments(image=1, box=(90, 50, 150, 90))).views
        drawn.append(corner(view))
    # 180 - 60 + 1 and 110 - 40 + 1 places
    for lefts, count in zip(np.transpose(drawn), (121, 71), strict=True):
        assert lefts.min() == 0 and lefts.max() == count - 1
        counts = np.bincount(lefts * 10 // count, minlength=10)
        assert chisquare(counts, expected(count, 10)).pvalue > 0.001


def corner(view: View) -> tuple[int, int]:
    """Return the position in its image at which a crop starts."""
    affine = view.parts[0].affine
    return round(-affine.c), round(-affine.f)


def expected(count: int, bins: int) -> NDArray[np.float64]:
    """Return how many of 500 draws from `count` equally likely places fall in each bin."""
    return np.bincount(np.arange(count) * bins // count, minlength=bins) * 500 / count


def test_a_random_crop_of_a_share() -> None:
    state = start()
    assert apply_stage(RandomCrop(share=0.5), state).views[0].size == (90, 55)
    assert apply_stage(RandomCrop(share=1), state).views[0].size == (180, 110)
    assert apply_stage(RandomCrop(), start(images=(noise(1, 1),))).views[0].size == (1, 1)
    whole = start(Box("E", 0, 0, 180, 110))
    # there is no other place
    assert apply_stage(OracleCrop("E", elsewhere=True), whole).views[0].size == (180, 110)


def make_reader(words: Callable[[str], str]) -> Scripted:
    """Return a model that answers from the text it is sent."""

    def answer(messages: Messages) -> str:
        return words(messages[-1].text)

    return Scripted(answer)


def verdict(folder: Path, before: State, end: State, key: str) -> tuple[str, str | None]:
    """Return the verdict and the answer in the letters of the key, from a scored run folder."""
    from looktwice.eval.records.records import SampleRow
    from looktwice.eval.scoring.score import score_run

    made = MadeRun(folder)
    made.samples.append(SampleRow("id-t", before.sample.sha, key, before.sample.to_dict()))
    made.point("c", "t")
    made.records.append(record_state(end, folder, before.sample))
    (scores,) = score_run(made.write()).points
    scored = scores.scored["s1"][0]
    return scored.verdict.value, scored.answer


ANIMALS = ("a dog", "a cat", "a fig", "an owl")


def build_asking(**stages: Stage) -> Pipeline:
    return Pipeline({**stages, "say": MultipleChoice(), "ask": Ask()})


def make_script(text: str, by_letter: bool = True) -> Scripted:
    """Return a model that knows the right text, and replies with its letter or the text."""

    def words(prompt: str) -> str:
        line = next(line for line in prompt.splitlines() if line.endswith(text))
        return line[1] if by_letter else f"I see {text}"

    return make_reader(words)


@pytest.mark.parametrize("stage", [("rotated",), ("rotated", 2), ("reversed",), ("shuffled", 4)])
def test_permuted_choices_are_mapped_back(stage: Any, tmp_path: Path) -> None:
    before = start(choices=ANIMALS)
    for by_letter in (True, False):
        end = build_asking(permute=PermuteChoices(*stage))(before, make_script("a fig", by_letter))
        assert end.sample.choices != before.sample.choices
        assert verdict(tmp_path / str(by_letter), before, end, "C") == ("right", "C")
        assert Robust()(end, NoModel()).answer != "C"  # a reader refers to the letters as asked


def test_a_preferred_letter_is_spread_over_the_choices_and_permutations_add_up(
    tmp_path: Path,
) -> None:
    before = start(choices=ANIMALS)
    answers = []
    for by in range(4):
        end = build_asking(permute=PermuteChoices("rotated", by))(before, Scripted("(A)"))
        answers.append(verdict(tmp_path / str(by), before, end, "C")[1])
    assert sorted(filter(None, answers)) == ["A", "B", "C", "D"]
    twice = build_asking(one=PermuteChoices("rotated"), two=PermuteChoices("shuffled", by=3))
    end = twice(before, make_script("a cat"))
    assert end.sample.choices != before.sample.choices
    assert verdict(tmp_path, before, end, "B") == ("right", "B")


@pytest.mark.parametrize("order", ["rotated", "reversed", "shuffled"])
def test_permuted_labels_are_mapped_back(order: str, tmp_path: Path) -> None:
    """A model that looks at (120, 20), the key's C, is right under every labelling."""

    def words(prompt: str) -> str:
        line = next(line for line in prompt.splitlines() if "x=120, y=20" in line)
        return f"The answer is ({line[0]})"

    before = start(*POINTS, Point("REF", 10, 100), choices=(*NAMES[:3], "none of them"))
    stage = PermuteLabels(order)  # type: ignore[arg-type]
    end = build_asking(permute=stage, marks=MarksAsText())(before, make_reader(words))
    assert verdict(tmp_path, before, end, "C") == ("right", "C")
    assert end.sample.marks[3:] == before.sample.marks[3:]  # D and REF are not names of choices
    assert end.letters["D"] == "D"
    kept = record_state(end, tmp_path, before.sample)
    assert kept.letters == dict(end.letters)
    assert kept.choices is None
    assert kept.marks is not None
    assert Record.from_line(kept.to_line()) == kept


def test_rotated_labels_shift_and_answers_of_specialists_are_mapped_too(tmp_path: Path) -> None:
    before = start(*POINTS, choices=NAMES)
    relabelled = apply_stage(PermuteLabels("rotated"), before)
    assert [mark.label for mark in relabelled.sample.marks] == ["B", "C", "D", "A"]
    closer = ("A is closer", "B is closer")  # the article is not a label
    state = start(*POINTS[:2], choices=closer, question="A photo has two points. Which?")
    assert [m.label for m in apply_stage(PermuteLabels("rotated"), state).sample.marks] == [
        "B",
        "A",
    ]
    answered = relabelled.replace(answer="D")  # the place formerly labelled C
    assert verdict(tmp_path, before, answered, "C") == ("right", "C")


@pytest.mark.parametrize(
    ("state", "fact"),
    [
        (start(choices=("yes", "no")), r"0 of the marks \(none\)"),
        (start(*POINTS, choices=("yes", "no")), "0 of the marks A, B, C, D"),
        (start(*POINTS, choices=("A is closer than B", "equal")), "one label"),
        (start(*POINTS, choices=("A is near", "A is far")), "must name exactly one label"),
        (start(*POINTS, choices=NAMES, question="Is it B or C?"), "names B, C"),
        (start(*POINTS), "s1 has 0 choices"),
        (start(*POINTS, choices=NAMES).replace(answer="A"), "before the model"),
    ],
)
def test_labels_that_cannot_be_permuted_safely(state: State, fact: str) -> None:
    with pytest.raises(ValueError, match=fact):
        apply_stage(PermuteLabels(), state)


def test_choices_that_cannot_be_permuted() -> None:
    state = start(choices=("a dog", "a cat"), meta={"prompt": "(A) a dog (B) a cat", "level": 3})
    assert apply_stage(PermuteChoices(), state).sample.meta == {"level": 3}
    for wrong, fact in (
        (apply_stage(MultipleChoice(), state), "already"),
        (start(choices=("a dog",)), "s1 has 1 choices"),
        (start(*POINTS, choices=NAMES), "A, B, C, D"),
    ):
        with pytest.raises(ValueError, match=fact):
            apply_stage(PermuteChoices(), wrong)
    swapped = apply_stage(PermuteChoices("reversed"), start(choices=("A dog", "A cat")))
    assert swapped.sample.choices == ("A cat", "A dog")


def test_choices_that_are_pictures_are_recorded_by_hash(tmp_path: Path) -> None:
    pictures: tuple[Picture, ...] = (noise(20, 20, 5), noise(20, 20, 6))
    before = start(choices=pictures)
    end = build_asking(permute=PermuteChoices("reversed"))(before, Scripted("B"))
    hashes = tuple({"picture": picture.sha} for picture in pictures[::-1])
    assert record_state(end, tmp_path, before.sample).choices == hashes
    assert verdict(tmp_path, before, end, "A") == ("right", "A")


SHARES = {0: 0.999989, 100: 0.998293, 200: 0.993879, 300: 0.980984, 400: 0.94486, 500: 0.863017}
SHARES |= {600: 0.734247, 700: 0.592677, 800: 0.467014, 900: 0.364888, 999: 0.285043}


@pytest.mark.parametrize(("step", "share"), SHARES.items())
def test_noise_matches_that_of_the_reference_implementation(step: int, share: float) -> None:
    assert compute_signal_factor(step) == pytest.approx(share, abs=1e-6)
    grey = Picture(np.full((60, 80, 3), 120, np.uint8))
    state = State.start(Sample("s", "?", (grey,)))
    one, two, other = (apply_stage(Noise(step, seed), state).views[0].pixels for seed in (0, 0, 1))
    assert np.array_equal(one, two) and not np.array_equal(one, other)
    spread = one[..., 1].std() / 255 / 0.2613
    assert spread == pytest.approx((1 - share**2) ** 0.5, rel=0.1 if step < 600 else 0.4)
