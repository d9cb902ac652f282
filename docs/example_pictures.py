"""The photographs and the figures of docs/examples, which `docs/examples.py` writes."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from looktwice.eval.tasks.photographs import PHOTOGRAPHS, load_photograph, make_rng
from looktwice.extras.scenes.letters_and_shapes import COLORS
from looktwice.pipelines import Pipeline, State
from looktwice.pipelines.config.classes import load_plugin
from looktwice.pipelines.config.plan import Plan
from looktwice.pipelines.config.spec import Arm
from looktwice.pipelines.pipeline import NoModel
from looktwice.pipelines.sample import Item
from looktwice.prompting.markers import Circles

FOLDER = Path(__file__).resolve().parent / "examples"
SMALL, LARGE = 320, 640  # pixels of the longer side of marked photographs, and of lettered ones
LOWEST, HIGHEST = 9, 36  # font sizes of letters in pixels
MARGIN = 20  # pixels around a letter
CELL = 240  # pixels of the longer side of a picture in a figure
LINE = 17  # pixels of a line of text in a figure


def write_photographs(folder: Path) -> None:
    """Write scikit-image's photographs, and questions about two points on each."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in PHOTOGRAPHS:
        image = Image.fromarray(load_photograph(name))
        image.thumbnail((SMALL, SMALL), Image.Resampling.LANCZOS)
        image.save(folder / f"{name}.webp", "WEBP", quality=65, method=6)
    import_module(load_plugin(str(FOLDER / "mark_photographs.py"))).write_questions(folder)


def write_letters(folder: Path) -> None:
    """Write the photographs in pale grey with four coloured letters, and questions about these."""
    folder.mkdir(parents=True, exist_ok=True)
    lines = [line for name in PHOTOGRAPHS for line in _letter_questions(name, folder)]
    (folder / "samples.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


def _letter_questions(name: str, folder: Path) -> Iterator[dict[str, Any]]:
    photo = Image.fromarray(load_photograph(name)).convert("L")
    scale = LARGE / max(photo.size)
    size = round(photo.width * scale), round(photo.height * scale)
    pale = photo.resize(size, Image.Resampling.LANCZOS).point(lambda grey: 110 + grey // 2)
    image, rng = pale.convert("RGB"), make_rng("letters on photographs", name)
    draw = ImageDraw.Draw(image)
    letters = [str(letter) for letter in rng.permutation([*"ABCDEFGHIJKLMNOPQRSTUVWXYZ"])]
    colors = [str(color) for color in rng.permutation([*COLORS])]
    for quarter in range(4):
        share = (quarter + rng.random()) / 4
        high = round(LOWEST * (HIGHEST / LOWEST) ** share)
        left, top = (
            int(side * part / 2 + MARGIN + rng.random() * (side / 2 - 2 * MARGIN - high))
            for side, part in zip(size, (quarter % 2, quarter // 2), strict=True)
        )
        font = ImageFont.load_default(high / 0.7)  # a capital is 0.7 em high
        at, letter, color = (left, top - high // 3), letters[quarter], colors[quarter]
        draw.text(at, letter, COLORS[color], font)
        box = zip(("x0", "y0", "x1", "y1"), draw.textbbox(at, letter, font), strict=True)
        yield {
            "id": f"{name}-{color}",
            "image": f"{name}.webp",
            "question": f"Which letter is {color}?",
            "answer": letter,
            "marks": [{"label": "target", **dict(box)}],
            "meta": {"photo": name, "region": "target"},
        }
    image.save(folder / f"{name}.webp", "WEBP", quality=70, method=6)


def run_arm(arm: Arm, item: Item) -> State:
    """Return the state of a sample after the stages of an arm and its reader."""
    stages = {slot: stage for slot, stage in arm.stages.items() if stage is not None}
    state = Pipeline(stages)(State.start(item.sample, arm.seed), arm.model or NoModel())
    return state if state.answer is not None or state.ended else arm.read(state, NoModel())


def find_arm(plan: Plan, contestant: str, task: str) -> Arm:
    """Return the arm of a contestant on a task. Raises ValueError if there is none."""
    for arm in plan.points:
        if (arm.contestant, arm.task_name) == (contestant, task):
            return arm
    raise ValueError(f"{plan.name} has no contestant {contestant!r} on {task!r}")


def draw_markers(plan: Plan, contestants: Sequence[str], rows: int = 2) -> Image.Image:
    """Draw photographs, each marked in several ways, with the model's answers; the first ones on
    which half of the ways are right."""
    arms = [find_arm(plan, name, "task") for name in contestants]
    shown, photos = list[list[Image.Image]](), set[object]()
    for item in arms[0].task:
        states = [run_arm(arm, item) for arm in arms]
        right = [state.answer == item.answer for state in states]
        photo = item.sample.meta["photo"]
        if len(shown) < rows and sum(right) == len(arms) // 2 and photo not in photos:
            photos.add(photo)
            cells = zip(contestants, states, right, strict=True)
            shown.append([_cell(name, s, good, item.answer) for name, s, good in cells])
    return stack([beside(row) for row in shown])


def _cell(name: str, state: State, is_right: bool, answer: str | None) -> Image.Image:
    said = f"{state.answer}: right" if is_right else f"{state.answer}, not {answer}"
    return captioned(state.views[-1].pixels, [(name, "black"), (said, _tint(is_right))])


def draw_specialists(plan: Plan, task: str, model: str, specialist: str) -> Image.Image:
    """Draw the first question that the specialist answers right and the model wrong."""
    arms = [find_arm(plan, name, task) for name in (model, specialist)]
    for item in arms[0].task:
        answers = [run_arm(arm, item).answer for arm in arms]
        if answers[1] == item.answer != answers[0]:
            break
    views = Circles(radius=14, color="red")(State.start(item.sample), NoModel()).views
    said = f"{model}: {answers[0]}", f"{specialist}: {answers[1]}"
    cells = [
        captioned(view.pixels, [(text, _tint(text == said[1]))], 1.5)
        for view, text in zip(views, said, strict=True)
    ]
    return beside(cells)


def draw_agent(plan: Plan, contestant: str) -> Image.Image:
    """Draw the images of the first sample that is answered right after a look."""
    arm = find_arm(plan, contestant, "task")
    for item in arm.task:
        state = run_arm(arm, item)
        call = state.trace[-1].calls[-1]
        views = [view for message in call.messages for view in message.views]
        if len(views) == 2 and state.answer == item.answer:
            break
    texts = item.sample.question, f"after its zoom: {state.answer}"
    cells = zip(views, texts, ("black", _tint(True)), strict=True)
    return beside([captioned(view.pixels, [(text, tint)], 1.2) for view, text, tint in cells])


def _tint(is_right: bool) -> str:
    return "green" if is_right else "red"


def captioned(
    pixels: np.ndarray[Any, Any], lines: Sequence[tuple[str, str]], times: float = 1
) -> Image.Image:
    """Return a picture below lines of text, each with its color."""
    image, side = Image.fromarray(pixels), CELL * times
    scale = side / max(image.size)
    image = image.resize((round(image.width * scale), round(image.height * scale)))
    whole = Image.new("RGB", (image.width, image.height + LINE * len(lines) + 2), "white")
    whole.paste(image, (0, whole.height - image.height))
    draw = ImageDraw.Draw(whole)
    for number, (text, color) in enumerate(lines):
        draw.text((2, LINE * number), text, color, font_size=14)
    return whole


def beside(cells: Sequence[Image.Image], gap: int = 6) -> Image.Image:
    """Return pictures side by side."""
    width = sum(cell.width for cell in cells) + gap * (len(cells) - 1)
    whole = Image.new("RGB", (width, max(cell.height for cell in cells)), "white")
    left = 0
    for cell in cells:
        whole.paste(cell, (left, 0))
        left += cell.width + gap
    return whole


def stack(rows: Sequence[Image.Image], gap: int = 6) -> Image.Image:
    """Return pictures below each other."""
    height = sum(row.height for row in rows) + gap * (len(rows) - 1)
    whole = Image.new("RGB", (max(row.width for row in rows), height), "white")
    top = 0
    for row in rows:
        whole.paste(row, (0, top))
        top += row.height + gap
    return whole
