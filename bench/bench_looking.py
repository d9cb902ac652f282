"""Where a network in this process looks, against random, placebo and oracle: a planted network that
looks at ink is asked by ViCrop where to look in pictures in which nothing but what is asked about
is inked, and a simulated reader of known acuity reads what it shows.

python -m bench.bench_looking [QUESTIONS]
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from looktwice.eval import evaluate
from looktwice.eval.readers import Marked
from looktwice.eval.tasks import Facts, LettersAndShapes, NearSighted
from looktwice.pipelines import Pipeline
from looktwice.pipelines.marks import bounding_box
from looktwice.pipelines.picture import Picture
from looktwice.pipelines.runtime import close_networks
from looktwice.pipelines.sample import Item
from looktwice.prompting.turns import Ask
from looktwice.prompting.views import Crop, LongestSide, Look
from looktwice.prompting.where import Elsewhere, Given, Sized, ViCrop, Where
from tests.planted_network import seeks_ink

SHARE = 0.2  # of the sides of a picture, in every arm that looks
LIGHT = 230  # of the least of a pixel's colours, above which it is ground
PIXELS = 400_000  # of a picture as the planted network gets it


@dataclass(frozen=True)
class Alone:
    """Questions of LettersAndShapes in whose pictures all but what is asked about is white."""

    questions: LettersAndShapes

    @property
    def facts(self) -> Facts:
        return self.questions.facts

    def __len__(self) -> int:
        return len(self.questions)

    def __iter__(self) -> Iterator[Item]:
        for item in self.questions:
            (picture,), (target,) = item.sample.images, item.sample.marks
            left, top, right, bottom = map(int, bounding_box(target))
            inked = picture.pixels.min(-1) <= LIGHT
            inked[:top] = inked[bottom:] = inked[:, :left] = inked[:, right:] = False
            pixels = np.where(inked[..., None], picture.pixels, np.uint8(255))
            yield replace(item, sample=replace(item.sample, images=(Picture(pixels),)))


def arms(network: Path) -> dict[str, Pipeline]:
    """One look of one size each, and the whole picture."""
    oracle = Sized(Given(), SHARE)
    inked = ViCrop(model=str(network), layer=-1, base=120, general="")
    sources: dict[str, Where] = {
        "random part": Elsewhere(oracle, tries=1),
        "placebo of the oracle": Elsewhere(oracle),
        "ViCrop, of a planted network": Sized(inked, SHARE),
        "oracle": oracle,
    }
    crop, fit = Crop(padding=0, min_px=0, most=1), LongestSide(480, grow=True)
    looks = {
        name: Pipeline({"look": Look(where, crop), "fit": fit, "ask": Ask()})
        for name, where in sources.items()
    }
    return {"whole picture": Pipeline({"fit": fit, "ask": Ask()}), **looks}


def main(questions: int) -> None:
    """Print the table of the page on where to look."""
    task = Alone(LettersAndShapes(questions))
    sys.stdout.write("| arm | right | tokens of an answer |\n|---|---|---|\n")
    with tempfile.TemporaryDirectory() as made:
        network = seeks_ink(Path(made, "ink"))
        processor = network / "preprocessor_config.json"
        processor.write_text(processor.read_text().replace("50176", str(PIXELS)))
        table = evaluate(
            task,
            arms(network),
            NearSighted(min_height=20),
            out=Path(made, "run"),
            reader=Marked(),
            workers=2,
        )
        for row in table.where(metric="accuracy", slice=""):
            if row.point:
                tokens = sum(filter(None, (row.tokens_in, row.tokens_out))) / row.n
                sys.stdout.write(f"| {row.contestant} | {row.value:.0%} | {tokens:,.0f} |\n")
        close_networks()


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 120)
