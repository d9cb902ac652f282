"""Questions, each with marks on a photograph of 640 x 480 pixels by default, and the studies that
ask them."""

from __future__ import annotations

import json
from pathlib import Path

import cv2
import numpy as np

from looktwice.eval.tasks.photographs import PHOTOGRAPHS, load_photograph

SIZE, LETTERS = (640, 480), "ABCD"
STUDY = """
task: {{use: eval.tasks.Folder, path: questions}}
model: {{use: pipelines.models.ChatAPI, model: wire, url: "{url}", in_flight: {in_flight}}}
stages:{mark}
  choose: {{use: prompting.wording.MultipleChoice}}
  ask: {{use: prompting.turns.Ask}}
"""
CIRCLES = "\n  mark: {use: prompting.markers.Circles, radius: 20, thickness: 3}"


def write_questions(folder: Path, count: int, size: tuple[int, int] = SIZE) -> None:
    """Write `samples.jsonl` and a different photograph for each question, cut from larger ones, as
    JPEG at quality 90."""
    rng, (width, height) = np.random.default_rng(0), size
    whole = width * 3 // 2, height * 3 // 2
    (folder / "images").mkdir(parents=True)
    large = [
        cv2.resize(load_photograph(name), whole, interpolation=cv2.INTER_AREA)
        for name in PHOTOGRAPHS
    ]
    with (folder / "samples.jsonl").open("w", encoding="utf-8") as file:
        for number in range(count):
            x, y = int(rng.integers(whole[0] - width)), int(rng.integers(whole[1] - height))
            pixels = large[number % len(large)][y : y + height, x : x + width, ::-1].copy()
            pixels[:8, :8] = rng.integers(0, 256, 3)
            name = f"images/{number:05}.jpg"
            cv2.imwrite(str(folder / name), pixels, [cv2.IMWRITE_JPEG_QUALITY, 90])
            points = [
                {
                    "label": letter,
                    "x": float(rng.integers(40, width - 40)),
                    "y": float(rng.integers(40, height - 40)),
                }
                for letter in LETTERS
            ]
            row = {
                "id": f"q{number:05}",
                "question": "Which thing is nearest to the camera?",
                "images": [name],
                "choices": ["the left one", "the right one", "both", "neither"],
                "answer": LETTERS[number % 4],
                "marks": points,
            }
            file.write(json.dumps(row) + "\n")


def write_study(folder: Path, url: str, in_flight: int, circles: bool = False) -> Path:
    """Write the configuration that asks the questions in `folder`/questions."""
    path = folder / f"wire{in_flight}{'-circles' * circles}.yaml"
    path.write_text(
        STUDY.format(url=url, in_flight=in_flight, mark=CIRCLES * circles), encoding="utf-8"
    )
    return path
