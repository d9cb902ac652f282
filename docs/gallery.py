"""Write the gallery, `docs/gallery.md`, `docs/controls.md` and their pictures, from the table in
`gallery.yaml`: `python docs/gallery.py`.

Every picture is what the stages beneath it, built from that very text, made of scikit-image's
photographs.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import yaml
from PIL import Image

from looktwice.eval.tasks import MarkedScenes
from looktwice.eval.tasks.marked_scenes.kinds import KINDS as MARKED
from looktwice.eval.tasks.photographs import load_photograph
from looktwice.extras.drawings.matrices import RULES
from looktwice.extras.looking import MarkQuestions
from looktwice.extras.scenes import LettersAndShapes, Puzzles, RenderedScenes
from looktwice.extras.scenes.rendered_scenes import KINDS as RENDERED
from looktwice.extras.toolkits import BlinkReleasedStyle
from looktwice.pipelines.config import build
from looktwice.pipelines.config.classes import load_plugin
from looktwice.pipelines.marks import Box, Mark, Mask, Point
from looktwice.pipelines.picture import Picture, Pixels
from looktwice.pipelines.pipeline import NoModel
from looktwice.pipelines.sample import Item, Sample
from looktwice.pipelines.state import State
from looktwice.pipelines.view import View
from looktwice.prompting.markers import Circles

HERE = Path(__file__).resolve().parent
TABLE = HERE / "gallery.yaml"
PLUGIN = HERE / "edge_strength.py"
WIDEST = 480  # pixels of a picture in the gallery
QUALITY = 80  # of its WebP files
HEADS = {
    "gallery": "# Gallery\n\nSee what every stage does to an image, and copy its lines into a study.",
    "controls": "# Gallery of controls and tasks\n\n"
    "See controls, burnt-in markers and generated questions, and copy their lines into a study.",
}
"""The title and first sentence of each page of the gallery."""
HEAD = """\

The YAML below each picture goes under `stages:`; paste it into `looktwice studio` to see it on your
own image. The photographs are from scikit-image.
`python docs/gallery.py` makes this page from `docs/gallery.yaml`.
"""


@dataclass(frozen=True)
class Entry:
    """A place in the gallery: its file name, title, sentence, sample, and its stages as YAML.

    `enlarge` is an area (left, top, right, bottom) of the view that alone is shown, larger and
    without smoothing. `model` is the node of the model that is asked, and `words` says that the
    prompt is shown as well.
    """

    name: str
    title: str
    says: str
    sample: str
    stages: str
    enlarge: tuple[int, int, int, int] | None = None
    model: str = ""
    words: bool = False

    @property
    def nodes(self) -> list[dict[str, Any]]:
        """The nodes of the stages, in their order."""
        return list(yaml.safe_load(self.stages).values())

    def run(self) -> State:
        """The state after all stages."""
        plugins = (load_plugin(str(PLUGIN)),)
        state = State.start(SAMPLES[self.sample]())
        model = build(yaml.safe_load(self.model), plugins=plugins) if self.model else NoModel()
        for node in self.nodes:
            state = build(node, plugins=plugins)(state, model)
        return state


@dataclass(frozen=True)
class Group:
    """Entries of one kind under a heading, on one page."""

    heading: str
    says: str
    entries: tuple[Entry, ...]
    page: str = "gallery"


def groups(table: Path = TABLE) -> tuple[Group, ...]:
    """The gallery's table."""
    rows = yaml.safe_load(table.read_text(encoding="utf-8"))
    return tuple(
        Group(
            row["heading"],
            row["says"],
            tuple(map(_entry, row["entries"])),
            row.get("page", "gallery"),
        )
        for row in rows
    )


def _entry(row: Mapping[str, Any]) -> Entry:
    area = row.get("enlarge")
    rest = {key: value.strip() if isinstance(value, str) else value for key, value in row.items()}
    return Entry(**rest | {"enlarge": tuple(area) if area else None})


@cache
def _photo(name: str, width: int, height: int) -> Pixels:
    return np.asarray(
        cv2.resize(load_photograph(name), (width, height), interpolation=cv2.INTER_AREA), np.uint8
    )


def _coffee(*marks: Mark) -> Sample:
    return Sample(
        "coffee",
        "Which point is closer?",
        (Picture(_photo("coffee", 360, 240)),),
        ("Point A", "Point B"),
        marks,
    )


def _points() -> Sample:
    return _coffee(Point("A", 219, 172), Point("B", 160, 88))


def _regions() -> Sample:
    ys, xs = np.mgrid[:240, :360]
    cup = ((xs - 174) / 73) ** 2 + ((ys - 64) / 54) ** 2 <= 1
    return _coffee(Box("A", 191, 140, 247, 199), Mask("B", cup))


def _eyes() -> Sample:
    eyes = Box("A", 105, 63, 170, 122), Box("B", 231, 84, 277, 136)
    picture = Picture(_photo("chelsea", 360, 240))
    return Sample("chelsea", "Which eye is nearer?", (picture,), ("A", "B"), eyes)


def _face() -> Sample:
    return Sample("astronaut", "Where is her helmet?", (Picture(_photo("astronaut", 300, 300)),))


def _rocket() -> Sample:
    marks = Point("A", 181, 90), Point("B", 86, 212), Point("C", 254, 95), Point("D", 204, 219)
    return Sample(
        "rocket", "What stands at A?", (Picture(_photo("rocket", 360, 240)),), tuple("ABCD"), marks
    )


def _stereo() -> Sample:
    pictures = tuple(Picture(_photo(name, 356, 240)) for name in ("motorcycle", "motorcycle_right"))
    marks = (
        Point("REF", 261, 73),
        Point("A", 247, 73, 1),
        Point("B", 131, 166, 1),
        Point("C", 58, 62, 1),
    )
    return Sample(
        "motorcycle", "Which point of the second image is REF?", pictures, tuple("ABC"), marks
    )


def _burnt() -> Sample:
    """The coffee as BLINK would publish it: its circles are pixels of a JPEG file, and no mark
    tells of them."""
    (view,) = BlinkReleasedStyle()(State.start(_points()), NoModel()).views
    file = io.BytesIO()
    Image.fromarray(view.pixels).save(file, "JPEG", quality=92)
    return Sample(
        "burnt",
        "Which point is closer?",
        (Picture.encoded(file.getvalue()),),
        ("Point A", "Point B"),
    )


def _first(make: Callable[..., Iterable[Item]], *words: Any, **settings: Any) -> Sample:
    """The first question of a made task."""
    return next(iter(make(*words, n=1, **settings))).sample


def _mark_question() -> Sample:
    """A question about a mark, which its marker has drawn."""
    mark = Circles(radius=28, thickness=3, color="magenta", label=None)
    return next(iter(MarkQuestions(MarkedScenes("shape", n=1), mark, "where"))).sample


SAMPLES: dict[str, Callable[[], Sample]] = {
    **{f"rendered-{kind}": partial(_first, RenderedScenes, kind) for kind in RENDERED},
    **{f"marked-{kind}": partial(_first, MarkedScenes, kind, ground="plain") for kind in MARKED},
    **{
        f"puzzle-{rule}": partial(_first, Puzzles, controls={"rule": rule, "size": 72, "moved": 1})
        for rule in RULES
    },
    "mark-question": _mark_question,
    "points": _points,
    "regions": _regions,
    "eyes": _eyes,
    "face": _face,
    "rocket": _rocket,
    "stereo": _stereo,
    "burnt": _burnt,
    "letters": partial(_first, LettersAndShapes),  # the question is about one of many
}


def shown(view: View, enlarge: tuple[int, int, int, int] | None) -> Image.Image:
    """A view as the gallery shows it, at most WIDEST pixels wide."""
    if enlarge is not None:
        left, top, right, bottom = enlarge
        cut, times = view.pixels[top:bottom, left:right], max(1, WIDEST // (right - left))
        return Image.fromarray(
            np.asarray(cv2.resize(cut, None, fx=times, fy=times, interpolation=cv2.INTER_NEAREST))
        )
    width, height = view.size
    if width <= WIDEST:
        return Image.fromarray(view.pixels)
    size = WIDEST, round(height * WIDEST / width)
    return Image.fromarray(np.asarray(cv2.resize(view.pixels, size, interpolation=cv2.INTER_AREA)))


def written(entry: Entry, folder: Path) -> Iterator[str]:
    """Write the pictures of an entry into `folder`, and yield the Markdown of each."""
    state = entry.run()
    views = state.views
    for number, view in enumerate(views, 1):
        name = f"{entry.name}-{number}.webp" if len(views) > 1 else f"{entry.name}.webp"
        shown(view, entry.enlarge).save(folder / name, "WEBP", quality=QUALITY, method=6)
        yield f"![{entry.title}]({folder.name}/{name})"
    if not views:
        yield "*(no image)*"
    if entry.words:
        yield f"\n```text\n{state.prompt}\n```"


def section(entry: Entry, folder: Path) -> str:
    """The Markdown of an entry; its pictures are written into `folder`."""
    views = "\n".join(written(entry, folder))
    return f"**{entry.title}.** {entry.says}\n\n{views}\n\n```yaml\n{entry.stages}\n```\n"


def write(page: Path, table: Sequence[Group]) -> None:
    """Writes the page, and its pictures into the folder beside it that has the page's name; old
    ones are removed."""
    folder = page.with_suffix("")
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("*.webp"):
        old.unlink()
    parts = [HEADS.get(page.stem, HEADS["gallery"]) + "\n" + HEAD]
    for group in table:
        parts += [
            f"## {group.heading}\n\n{group.says}\n",
            *(section(entry, folder) for entry in group.entries),
        ]
    page.write_text("\n".join(parts), encoding="utf-8")


if __name__ == "__main__":
    for stem in HEADS:
        write(HERE / f"{stem}.md", [group for group in groups() if group.page == stem])
