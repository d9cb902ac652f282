"""Makes a large run folder with the real writer, for measurements: `python -m bench.large_run
FOLDER [SAMPLES]`. With pictures, every question shows one of 20 photographs with a mark, and half
of the contestants see a circle around it."""

from __future__ import annotations

import json
import os
import random
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from looktwice.eval.records.records import SampleRow
from looktwice.eval.records.writer import RunWriter, make_record
from looktwice.eval.runs.run import Run
from looktwice.pipelines.config import load_plan
from looktwice.pipelines.config.spec import Arm
from looktwice.pipelines.model import CallOptions, Message, Reply, Usage
from looktwice.pipelines.pipeline import NoModel
from looktwice.pipelines.sample import Item
from looktwice.pipelines.state import Call, State, Step
from looktwice.pipelines.view import View
from looktwice.prompting.markers import Circles

ARMS, LETTERS, PICTURES = 10, "ABCD", 20
WORDING = '{use: prompting.wording.Template, text: "Way %d: {{ question }}"}'
MARK = "{use: prompting.markers.Circles, before: choose}"
CONFIG = """
name: large
tasks:
  colours: {use: eval.tasks.Folder, path: questions}
models:
  chat: {use: pipelines.models.Scripted, answer: "(A)"}
model: chat
stages:
  choose: {use: prompting.wording.MultipleChoice}
  ask: {use: prompting.turns.Ask}
read: {use: eval.readers.Robust}
baseline: say0
contestants:
"""
NO_MODEL = NoModel("drawing needs no model")
REPLIES = (
    (
        "Looking at the picture, the object on the left side is closer to the camera. The answer is"
        " ({}) I believe."
    ),
    (
        "({}) The second marker lies on the wall behind the chair, which is farther away from the"
        " camera than the"
    ),
    (
        "The best choice among the four options that are given in the question above is option {},"
        " since it fits."
    ),
    (
        "Both of the markers are hard to tell apart here, as the picture is blurred, so that no"
        " choice can be made."
    ),
)


def make_run(
    root: Path, samples: int = 10_000, *, with_pictures: bool = False
) -> tuple[Path, Path]:
    """Make a configuration and its finished run in `root`: one record for each of 10 arms and every
    sample."""
    questions = root / "questions"
    questions.mkdir(parents=True, exist_ok=True)
    draw = random.Random(0)
    pixels = np.random.default_rng(0)
    for number in range(PICTURES if with_pictures else 0):
        picture = pixels.integers(0, 256, (12, 16, 3), np.uint8).repeat(20, 0).repeat(20, 1)
        Image.fromarray(picture).save(questions / f"{number}.png")
    with (questions / "samples.jsonl").open("w", encoding="utf-8") as file:
        for number in range(samples):
            choices = [f"{colour} thing {number}" for colour in ("red", "green", "blue", "grey")]
            row: dict[str, Any] = {
                "id": f"q{number:05}",
                "question": f"Which thing of scene {number} is nearest?",
                "choices": choices,
            }
            if with_pictures:
                mark = {"label": "A", "x": 40 + number % 200, "y": 30 + number % 150}
                row |= {"image": f"{number % PICTURES}.png", "marks": [mark]}
            meta = {"scene": number % 20, "subtask": f"part {number % 7}"}
            file.write(json.dumps(row | {"answer": draw.choice(LETTERS), "meta": meta}) + "\n")
    config = root / "large.yaml"
    marks = [f", mark: {MARK}" if with_pictures and n % 2 else "" for n in range(ARMS)]
    arms = [f"  say{n}: {{stages: {{choose: {WORDING % n}{marks[n]}}}}}\n" for n in range(ARMS)]
    config.write_text(CONFIG + "".join(arms), encoding="utf-8")
    plan, folder = load_plan(config), root / "runs" / "large"
    with RunWriter(folder) as writer:
        for item in plan.points[0].task:  # all arms of a sample in turn, as a run asks them
            writer.add_sample(
                SampleRow(
                    plan.points[0].task_id, item.sample.sha, item.answer, item.sample.to_dict()
                )
            )
            own = tuple(View.of(image) for image in item.sample.images)
            circled = Circles()(State.start(item.sample), NO_MODEL).views if own else ()
            for arm in plan.points:
                shown = circled if "mark" in arm.stages else own
                state = _answered(arm, item, draw, shown)
                writer.record(make_record(arm, item.sample, item.sample.sha, state, writer.blobs))
    # an hour old, because newer files are read again at every resume
    for blob in (folder / "blobs").glob("*/*"):
        os.utime(blob, (blob.stat().st_mtime - 3600,) * 2)
    Run(plan, folder)()
    return config, folder


def _answered(arm: Arm, item: Item, draw: random.Random, views: Sequence[View]) -> State:
    prompt = f"{arm.contestant}: {item.sample.question}"
    text = draw.choice(REPLIES).format(draw.choice(LETTERS + (item.answer or "A") * 4))
    reply = Reply(
        text, usage=Usage(120, 25), seconds=0.4, served_by={"model": "large", "engine": "none"}
    )
    call = Call((Message("user", (*views, prompt)),), 0, CallOptions(), reply)
    return State(item.sample, prompt=prompt, trace=(Step("ask", 0.4, (call,), (), prompt),))


if __name__ == "__main__":
    make_run(Path(sys.argv[1]), *map(int, sys.argv[2:3]), with_pictures="pictures" in sys.argv)
