"""Ways of looking compared with random, placebo and oracle controls, with networks and readers
whose evidence is planted: windows, boxes and votes for a reader that reads only large things; blur,
dimming and points for a reader of salient things; contrasts, with the control that their critics
propose, for a reader with a letter bias.

python -m bench.bench_looking [QUESTIONS]
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product
from pathlib import Path

from bench.planted_readers import (
    BoxNamingReader,
    IsolatedQuestions,
    PlantedContrast,
    SalienceReader,
    write_red_seeker,
)
from looktwice.eval import evaluate
from looktwice.eval.readers import Marked
from looktwice.eval.tasks import Task
from looktwice.extras.model_guided import Dimmed, ViCrop
from looktwice.extras.networks import close_networks
from looktwice.extras.scenes import LettersAndShapes, NearSighted
from looktwice.pipelines import Pipeline
from looktwice.pipelines.marks import Box, Mark
from looktwice.pipelines.model import Model
from looktwice.pipelines.state import Stage, State
from looktwice.prompting.controls import Noise
from looktwice.prompting.markers import Cover, Spotlight
from looktwice.prompting.turns import Ask, Verify, Vote, ZoomOnClaim
from looktwice.prompting.views import Crop, LongestSide, Look, Show
from looktwice.prompting.where import Claimed, Elsewhere, Given, Places, Sized, Where
from tests.planted_network import write_ink_seeker

SHARE = 0.2  # of a picture's sides: the size of a look in every arm
PIXELS = 400_000  # of a picture as the planted network receives it
ORACLE = Sized(Given(), SHARE)
CROP, FIT = Crop(padding=0, min_px=0, most=1), LongestSide(480, grow=True)
CONTROLS: dict[str, Where] = {
    "random part": Elsewhere(ORACLE, tries=1),
    "placebo of the oracle": Elsewhere(ORACLE),
}
NOISE = Noise(step=900)
POINT = "{prompt}\nFirst point at it: [x, y], in {unit}."
PARTS, PART = 5, 0.4  # parts per side, and their length as a share of it


def arms(network: Path) -> dict[str, Pipeline]:
    """Return arms that show one crop of the same size, and one that shows the whole picture."""
    inked = ViCrop(model=str(network), layer=-1, base=120, general="")
    sources = {**CONTROLS, "ViCrop, of a planted network": Sized(inked, SHARE), "oracle": ORACLE}
    looks = {
        name: Pipeline({"look": Look(where, CROP), "fit": FIT, "ask": Ask()})
        for name, where in sources.items()
    }
    return {"whole picture": Pipeline({"fit": FIT, "ask": Ask()}), **looks}


def make_emphasis_arms(network: Path) -> dict[str, Pipeline]:
    """Return arms that blur or dim all but one part, for the reader of salient things."""
    blur = Spotlight(dim=0, blur=5, radius=40)
    window = ViCrop(model=str(network), layer=-1, base=120, general="")
    looks: dict[str, Stage] = {
        name: Show(where, blur, most=1)
        for name, where in {
            **CONTROLS,
            "FGVP's blur, around ViCrop's window": Sized(window, SHARE),
        }.items()
    }
    looks["API, of a planted network"] = Dimmed(model=str(network), layer=-1, ground=200)
    looks["oracle"] = Show(ORACLE, blur)
    pointing = Verify(where=POINT, zoom=Show(Claimed(points=True), blur))
    return {
        "whole picture": Pipeline({"ask": Ask()}),
        **{name: Pipeline({"look": look, "ask": Ask()}) for name, look in looks.items()},
        "point, then answer": Pipeline({"ask": pointing}),
    }


def make_second_looks() -> dict[str, Pipeline]:
    """Return arms with a second look next to the whole picture, and arms with up to three rounds of
    boxes."""
    crop = Crop(padding=0, min_px=0, most=1, upscale=480)
    zooms: dict[str, Stage] = {
        name: Look(where, crop) for name, where in {**CONTROLS, "oracle": ORACLE}.items()
    }
    asked = {name: Verify(zoom=zoom) for name, zoom in zooms.items()}
    for rounds in (1, 2, 3):
        asked[f"refined boxes, rounds {rounds}"] = Verify(
            zoom=ZoomOnClaim(crop=crop), rounds=rounds
        )
    whole = {"whole picture": Pipeline({"fit": FIT, "ask": Ask()})}
    return whole | {name: Pipeline({"fit": FIT, "ask": ask}) for name, ask in asked.items()}


@dataclass(frozen=True)
class Part(Where):
    """One of several overlapping parts of a picture."""

    column: int
    row: int

    def places(self, state: State, model: Model) -> Places:
        """Return the part."""

        def look(number: int) -> list[Mark]:
            width, height = state.sample.images[number].size
            step = (1 - PART) / (PARTS - 1)
            left, top = self.column * step, self.row * step
            right, bottom = left + PART, top + PART
            return [Box("", left * width, top * height, right * width, bottom * height, number)]

        return Places.search("part", state, None, look)


def make_vote_arms() -> dict[str, Pipeline]:
    """Return arms that vote over parts, vote over as many looks at the whole picture, or look once
    at the right part."""
    parts = [Part(*place) for place in product(range(PARTS), repeat=2)]
    styles = tuple(Pipeline({"look": Look(part, CROP), "fit": FIT}) for part in parts)
    right = Sized(Given(), PART)
    looks: dict[str, Where] = {
        "random part": Elsewhere(right, tries=1),
        "placebo": Elsewhere(right),
        "oracle": right,
    }
    votes = {
        "votes over the whole picture": Vote(read=Marked(), n=len(parts), styles=(FIT,)),
        "votes over parts": Vote(read=Marked(), n=len(parts), styles=styles),
    }
    return {
        **{
            name: Pipeline({"look": Look(where, CROP), "fit": FIT, "ask": Ask()})
            for name, where in looks.items()
        },
        **{name: Pipeline({"vote": vote}) for name, vote in votes.items()},
    }


def make_contrast_arms(network: Path) -> dict[str, Pipeline]:
    """Return the plain answer, the contrasts, and the controls of their critics."""
    window = ViCrop(model=str(network), layer=-1, base=120, general="")
    covers = {
        **{f"CRG, {name}": where for name, where in CONTROLS.items()},
        "CRG, ViCrop's window": Sized(window, SHARE),
        "CRG, oracle": ORACLE,
    }
    answers = {
        "plain": PlantedContrast(change=NOISE, alpha=0),
        "cut-off alone": PlantedContrast(change=NOISE, alpha=0, beta=0.1),
        "VCD": PlantedContrast(change=NOISE, beta=0.1),
    }
    for name, where in covers.items():
        answers[name] = PlantedContrast(change=Show(where, Cover(color="white")))
    return {name: Pipeline({"answer": answer}) for name, answer in answers.items()}


def compare(title: str, task: Task, pipelines: Mapping[str, Pipeline], model: Model) -> None:
    """Print a table of the arms."""
    sys.stdout.write(f"\n{title}\n\n| arm | right | tokens of an answer |\n|---|---|---|\n")
    with tempfile.TemporaryDirectory() as made:
        out = Path(made, "run")
        table = evaluate(task, pipelines, model, out=out, reader=Marked(), workers=2)
        for row in table.where(metric="accuracy", slice=""):
            if row.point:
                tokens = sum(filter(None, (row.tokens_in, row.tokens_out))) / row.n
                sys.stdout.write(f"| {row.contestant} | {row.value:.0%} | {tokens:,.0f} |\n")
    sys.stdout.flush()


def main(questions: int) -> None:
    """Print the tables of docs/looking.md."""
    near, asked = NearSighted(min_height=20), LettersAndShapes(questions)
    small = LettersAndShapes(questions, width=800, height=600, smallest=20, largest=40)
    among = IsolatedQuestions(small, beside=True, letters=True)
    compare("boxes", IsolatedQuestions(asked), make_second_looks(), BoxNamingReader(near))
    compare("votes", asked, make_vote_arms(), near)
    with tempfile.TemporaryDirectory() as made:
        ink, red = write_ink_seeker(Path(made, "ink")), write_red_seeker(Path(made, "red"))
        for network in (ink, red):
            processor = network / "preprocessor_config.json"
            processor.write_text(processor.read_text().replace("50176", str(PIXELS)))
        compare("contrasts, among others", among, make_contrast_arms(red), near)
        compare(
            "contrasts, alone",
            IsolatedQuestions(small, letters=True),
            make_contrast_arms(red),
            near,
        )
        compare("emphasis", among, make_emphasis_arms(red), SalienceReader())
        compare("windows", IsolatedQuestions(asked), arms(ink), near)
        close_networks()


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 40)
