"""Helpers: plain pictures, samples with marks, the drawings of a stage, and tables of cases."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from looktwice.eval.records import Record
from looktwice.eval.records.writer import make_record
from looktwice.pipelines.config import build
from looktwice.pipelines.config.spec import Arm
from looktwice.pipelines.marks import Mark
from looktwice.pipelines.model import CallOptions, Messages, Reply
from looktwice.pipelines.picture import Picture, Pixels
from looktwice.pipelines.pipeline import NoModel
from looktwice.pipelines.runtime.stores import Blobs
from looktwice.pipelines.sample import Sample
from looktwice.pipelines.state import Stage, State
from looktwice.prompting.markers import Label
from tests.tables import read_yaml

GREY, RED, BLACK, WHITE = (90, 90, 90), (255, 0, 0), (0, 0, 0), (255, 255, 255)
NONE = Label(placement="none")


def plain(width: int = 120, height: int = 100, grey: int = 90) -> Picture:
    return Picture(np.full((height, width, 3), grey, np.uint8))


def start(*marks: Mark, images: tuple[Picture, ...] = (), **more: Any) -> State:
    """Return the state of a question about these images, or a plain one, with these marks."""
    return State.start(Sample("s1", "Which?", images or (plain(),), marks=marks, **more))


def draw_view(stage: Stage, *marks: Mark, image: Picture | None = None) -> Pixels:
    """Return the pixels of the first view after a stage."""
    images = (image,) if image else ()
    return stage(start(*marks, images=images), NoModel()).views[0].pixels


def is_color(pixels: Pixels, color: tuple[int, int, int]) -> NDArray[np.bool_]:
    return np.asarray((pixels == color).all(-1))


def find_box(here: NDArray[np.bool_]) -> tuple[int, int, int, int]:
    """Return left, top, right and bottom of the true pixels, half-open."""
    ys, xs = np.nonzero(here)
    return int(xs.min()), int(ys.min()), int(xs.max()) + 1, int(ys.max()) + 1


class ScriptedReplies:
    """Gives its replies in turn, starting over at the end, and records calls with their options."""

    identity = "heard"

    def __init__(self, *answers: str | Reply) -> None:
        self.answers = [a if isinstance(a, Reply) else Reply(a) for a in answers or ("(A)",)]
        self.calls: list[tuple[Messages, int, CallOptions]] = []

    def __call__(
        self, messages: Messages, draw: int = 0, options: CallOptions = CallOptions()
    ) -> Reply:
        self.calls.append((messages, draw, options))
        return self.answers[(len(self.calls) - 1) % len(self.answers)]

    @property
    def draws(self) -> list[int]:
        return [draw for _, draw, _ in self.calls]


def record_state(state: State, folder: Path, sample: Sample | None = None) -> Record:
    """Return the record that a run would store for a state that began with this sample, by default
    its own."""
    arm = Arm("c", {}, "t", None, None, {}, None, 1, 0, False, "p0", "id-t")
    sample = sample or state.sample
    return make_record(arm, sample, sample.sha, state, Blobs(folder / "blobs"))


def build_stage(node: dict[str, Any]) -> Any:
    """Build the stage of a node in a table of cases, whose `use` is relative to `prompting`."""
    return build({**node, "use": f"prompting.{node['use']}"})


def table(name: str) -> Any:
    """Read a table of cases from `FOLDER/NAME.yaml` next to this file."""
    return read_yaml(Path(__file__).parent / name)
