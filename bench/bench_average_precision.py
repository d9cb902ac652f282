"""Coverage of the intervals of average precision: how often they contain the figure of 20,000
simulated images.

`make bench` runs it; `python -m bench.bench_average_precision --times 20` is quicker.
"""

import argparse
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from looktwice.extras.grounding.ap_intervals import estimate_precision
from looktwice.extras.grounding.mean_ap import Scene, compute_average_precision
from looktwice.extras.grounding.places import Place

KINDS, MANY = 6, 20_000
SIDES = (12, 25, 60, 120, 200)
FIGURES = ("ap", "ap_50", "ap_75")
Floats = NDArray[np.float64]


class Model(NamedTuple):
    """How a model finds boxes: the logit of finding one, the deviation of its edges as a share of
    the box, invented boxes per image, whether it states confidences, and how much rarer each
    category is than the one before."""

    found: float = 1.0
    off: float = 0.07
    invented: float = 1.2
    scored: bool = True
    rarer: float = 1.0


CASES = (  # images, model
    (30, Model()),
    (100, Model()),
    (300, Model()),
    (40, Model(4.0, 0.01, 0.05)),
    (100, Model(rarer=0.5)),
    (100, Model(scored=False, rarer=0.5)),
    (300, Model(scored=False, rarer=0.5)),
)


def draw_scene(rng: np.random.Generator, model: Model) -> Scene:
    """Draw an image of three boxes on average, and the boxes that the model found; images differ in
    difficulty."""
    true, found, ease = list[Place](), list[Place](), rng.normal(0, 0.7)
    shares = model.rarer ** np.arange(KINDS)
    shares /= shares.sum()

    def draw_box() -> tuple[str, Floats]:
        sides = rng.choice(SIDES, 2)
        return str(rng.choice(KINDS, p=shares)), np.array([*rng.integers(0, 400, 2), *sides], float)

    def make_place(label: str, box: Floats, score: float | None = None) -> Place:
        left, top, width, height = box.tolist()
        return Place((left, top, left + width, top + height), label, score)

    for _ in range(rng.poisson(3)):
        label, box = draw_box()
        true.append(make_place(label, box))
        if rng.random() < 1 / (1 + np.exp(-model.found - ease)):
            moved = box + rng.normal(0, model.off * np.exp(-ease / 2), 4) * np.tile(box[2:], 2)
            moved[2:] = np.maximum(moved[2:], 1)
            found.append(make_place(label, moved, float(rng.beta(4, 2)) if model.scored else None))
    for _ in range(rng.poisson(model.invented * np.exp(-ease / 2))):
        score = float(rng.beta(2, 3)) if model.scored else None
        found.append(make_place(*draw_box(), score))
    return Scene(tuple(found), tuple(true))


def precision_coverage(times: int) -> Iterator[str]:
    """Yield the coverage of each case."""
    for images, model in CASES:
        rng = np.random.default_rng(1)
        truth = compute_average_precision([draw_scene(rng, model) for _ in range(MANY)])
        hits = np.zeros(len(FIGURES))
        for _ in range(times):
            scenes = [draw_scene(rng, model) for _ in range(images)]
            own = estimate_precision(scenes, range(images))
            hits += [own[name].low <= truth[name] <= own[name].high for name in FIGURES]
        shares = ", ".join(
            f"{name} {100 * share:.0f} %" for name, share in zip(FIGURES, hits / times, strict=True)
        )
        yield f"{images} images, AP {truth['ap']:.2f}, {model}: {shares} contain the true figure"


def test_average_precision() -> None:
    """Print the figures in `make bench`."""
    report(100)


def report(times: int) -> None:
    """Print every line as soon as it is computed."""
    for line in precision_coverage(times):
        print(line, flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--times", type=int, default=100, help="simulated data sets of each case")
    report(parser.parse_args().times)
