"""The effect of each difference between requests on a model that reacts to some of them, by
swapping one at a time."""

from __future__ import annotations

from dataclasses import dataclass, replace
from io import BytesIO
from pathlib import Path
from typing import Literal

import pytest
from PIL import Image

from looktwice.eval import MarkedScenes, evaluate
from looktwice.extras.request_diff.effects import TwoSides, measure_effects
from looktwice.extras.request_diff.factors import compare_requests
from looktwice.extras.request_diff.requests import Request, Requests
from looktwice.extras.request_diff.swaps import Swap
from looktwice.pipelines import Message, Picture, Pipeline, Scripted, Stage, View
from looktwice.pipelines.model import CallOptions, Messages, Reply
from looktwice.prompting import Ask, FixedHeight, MultipleChoice
from tests.extras.request_diff.test_sent import FIRST, JPEG, PLANTED, Keyless
from tests.first_day.studies import looktwice

ALONE = sorted({*PLANTED} - {"nothing", "fewer choices", "warmer"})


@pytest.mark.parametrize("name", [*ALONE, "back"])
def test_only_the_named_factor_is_swapped(name: str) -> None:
    """A request with one factor of the other differs from it in exactly the other factors, also
    from the encoded side back to the lossless one."""
    programs = FIRST, replace(FIRST, **PLANTED.get(name, PLANTED["four at once"])[0])
    mine, theirs = (p.requests("b", 3) for p in (programs if name != "back" else programs[::-1]))
    factors = {difference.factor for difference in compare_requests(mine, theirs).differences}
    assert factors
    for factor in factors:
        swapped = list[Request]()
        for a, b in zip(mine.requests, theirs.requests, strict=True):
            again = Swap(a, b)(factor)
            swapped.append(replace(a, messages=again.messages, settings=again.options.to_dict()))
        left = compare_requests(Requests("c", tuple(swapped)), theirs)
        assert {difference.factor for difference in left.differences} == factors - {factor}


def test_pixels_are_those_of_the_other_side_where_possible() -> None:
    """Its bytes where the codec alone differs; at another size too, what a JPEG has lost comes from
    the lossless side."""
    whole = FIRST.requests("b", 1).requests[0]
    small = replace(FIRST, codec=JPEG, height=240).requests("b", 1).requests[0]
    file = BytesIO()  # differs from our bytes
    Image.fromarray(whole.pictures[0].pixels).save(file, "JPEG", quality=75, optimize=True)
    lossy = Message("user", (View.of(Picture.encoded(file.getvalue())), whole.last_user_turn.text))
    bare = Message("user", (View.of(whole.pictures[0]), whole.last_user_turn.text))
    for mine, theirs in ((bare, lossy), (lossy, bare)):
        (turn,) = Swap(Request("a", (mine,)), Request("b", (theirs,)))("codec").messages
        assert turn.views[0].picture.sha == theirs.views[0].picture.sha
    (turn,) = Swap(small, whole)("codec").messages
    wanted = replace(FIRST, height=240).requests("b", 1).requests[0]
    for view, picture in zip(turn.views, wanted.pictures, strict=True):
        assert (view.pixels == picture.pixels).all()


def reply_if_disturbed(messages: Messages) -> str:
    """Reply A to a lossless picture with choices in brackets, else B, whatever the size and system
    message."""
    text = messages[-1].text
    (view,) = messages[-1].views
    bare = "\nA. " in text
    jpeg = view.picture.payload.media_type == "image/jpeg"
    return "(B)" if bare or jpeg else "(A)"


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sides")
    plain: dict[str, Stage] = {"choose": MultipleChoice(), "ask": Ask()}
    other: dict[str, Stage] = {
        "size": FixedHeight(240),
        "codec": JPEG,
        "choose": MultipleChoice("A."),
        "ask": Ask(system="You are careful."),
    }
    for name, stages in (("one", plain), ("two", other)):
        evaluate(
            Keyless(), {name: Pipeline(stages)}, Scripted(reply_if_disturbed), out=folder / name
        )
    keyed = MarkedScenes("symbol", n=60)
    evaluate(keyed, {"keys": Pipeline({"ask": Ask()})}, Scripted("(A)"), out=folder / "keys")
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("labels", ["keys", None])
def test_the_effect_of_a_factor_is_measured_by_disturbing_it(
    folders: Path, tmp_path: Path, labels: str | None
) -> None:
    """A quarter of the keys is A; without keys, the answer of the first side counts as right."""
    place = folders / labels if labels else None
    sides = TwoSides(folders / "one", folders / "two", ("one", "two"), place)
    worth = measure_effects(sides, Scripted(reply_if_disturbed), tmp_path / "asked", ("one", "two"))
    assert (worth.has_correct_answers, worth.question_count, worth.skipped_factors) == (
        bool(labels),
        60,
        {},
    )
    keys = [item.answer for item in MarkedScenes("symbol", n=60)] if labels else ["A"] * 60
    drop = pytest.approx((keys.count("B") - keys.count("A")) / 60)
    against = {c.contestant: c for c in worth.comparison.contrasts if c.baseline == "as one"}
    drops = {"with the codec": drop, "with the form of the choices": drop, "as two": drop}
    expected = drops | {"with the size": 0, "with the system words": 0}
    assert {name: round(c.paired.value, 9) for name, c in against.items()} == expected
    assert {c.paired.n for c in against.values()} == {60}


@dataclass
class Warm:
    """Records the temperature of its calls."""

    identity = "warm"

    def __init__(self) -> None:
        self.asked = set[float | None]()

    def __call__(
        self, messages: Messages, draw: int = 0, options: CallOptions = CallOptions()
    ) -> Reply:
        self.asked.add(options.temperature)
        return Reply("(A)")


@pytest.mark.parametrize(("kind", "warmth"), [("color", 0.5), ("symbol", 0.7)])
def test_changed_requests_are_asked_again(
    kind: Literal["color"], warmth: float, tmp_path: Path
) -> None:
    """The same folder of replies for other taps: other questions, or another setting."""
    for place, shown, heat in (("old", "symbol", 0.5), ("new", kind, warmth)):
        taps = tmp_path / place / "a" / "tap", tmp_path / place / "b" / "tap"
        for tap, options in zip(taps, (CallOptions(), CallOptions(heat)), strict=True):
            ask: dict[str, Stage] = {"choose": MultipleChoice(), "ask": Ask(options=options)}
            scenes = MarkedScenes(shown, n=4)
            evaluate(scenes, {"m": Pipeline(ask)}, Scripted("(A)"), out=tap)
        model, sides = Warm(), TwoSides(*taps, ("m", "m"))
        worth = measure_effects(sides, model, tmp_path / "asked", ("a: m", "b: m"))
        assert (worth.question_count, model.asked) == (4, {None, heat})


@pytest.mark.slow
def test_the_command_asks_a_model(folders: Path, tmp_path: Path) -> None:
    sides = [str(folders / name) for name in ("one", "two")]
    asked = ["--ask", "pipelines.models.Pocket", "--labels", str(folders / "keys")]
    result = looktwice("compare", *sides, *asked, "--out", tmp_path)
    assert not result.exception, result.output
    assert "effect of each difference" in result.output
    assert "with the codec against as one" in result.output
