"""Writes the page of generated Do You See Me images, `docs/dysm.md` and its pictures:
`python docs/dysm.py`.

`python docs/dysm.py --official data/dysm FOLDER` writes FOLDER/index.html instead: the published
samples in a copy of the benchmark, each beside ours at the same levels. It holds others' images, so
it belongs into none of our folders.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from html import escape
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import yaml
from PIL import Image

from looktwice.extras.do_you_see_me import DoYouSeeMe
from looktwice.extras.do_you_see_me.subtasks import SUBTASKS
from looktwice.extras.scenes import GeneratedDoYouSeeMe
from looktwice.pipelines.config import build
from looktwice.pipelines.picture import Picture, Pixels

HERE = Path(__file__).resolve().parent
TABLE = HERE / "dysm.yaml"
WIDEST = 640  # pixels of a picture on the page
COUNTED = 300  # questions behind a share in the table of shortcuts
HEAD = """\
# Do You See Me, generated

Generate unlimited questions of Do You See Me's seven 2D and five 3D subtasks and of its Appendix O,
at any control parameters and without its files.

![A generated question of visual-spatial: a grid of shapes, filled and hollow](dysm/visual-spatial-1-1.webp)

    tasks:
      shapes:
        use: eval.tasks.GeneratedDoYouSeeMe
        name: shape_discrimination
        n: 200
        seed: 0
        controls: {num_shapes: [2, 5], max_instances: 20}

Parameters that `controls` omits have the paper's levels; all combinations are equally frequent.
Sizes, questions and parameter names are those of the official files, so `accuracy_along` and the
Kruskal-Wallis tests are comparable.
Flaws of the authors' images are corrected unless `official: true` is set.

Each item's `truth` has every shape with its place (also `task.make_scene(number)`), hidden from stages.
`marks: true` adds shapes, letters, cells or options to the sample as boxes, for oracles and zooms.

The best constant answer in 300 questions at the paper's levels (17.92, 87.75 and 40.69 % in the
published files):

"""
FOOT = """
## Compared with the published samples

The published images may not be copied. With your copy in `data/dysm`,

    python docs/dysm.py --official data/dysm /tmp/dysm

writes a page with each published sample next to two of ours at the same levels, with and without
the flaws.
"""
STYLE = (
    "body{font:15px"
    " sans-serif;margin:2em;background:#eee;color:#222}table{border-spacing:12px}td{vertical-align:top;max-width:31vw}img{max-width:100%;max-height:70vh;border:1px"
    " solid #999;background:#fff}h2{margin-top:2em}"
)


@dataclass(frozen=True)
class Entry:
    """A task as text, and the numbers of its questions that are shown."""

    task: str
    shows: tuple[int, ...]

    @property
    def built(self) -> GeneratedDoYouSeeMe:
        """The task."""
        made = build(yaml.safe_load(self.task))
        return replace(made, n=max(self.shows) + 1)


@dataclass(frozen=True)
class Group:
    """The entries of a subtask under a heading."""

    heading: str
    says: str
    entries: tuple[Entry, ...]


def groups(table: Path = TABLE) -> tuple[Group, ...]:
    """The page's table."""
    rows = yaml.safe_load(table.read_text(encoding="utf-8"))
    return tuple(
        Group(
            row["heading"],
            row["says"],
            tuple(Entry(e["task"], tuple(e["shows"])) for e in row["entries"]),
        )
        for row in rows
    )


def written(entry: Entry, name: str, folder: Path) -> str:
    """The Markdown of an entry; its pictures, named after `name`, are written into `folder`."""
    items = [item for number, item in enumerate(entry.built) if number in entry.shows]
    parts = []
    for place, item in enumerate(items, 1):
        file = f"{name}-{place}.webp"
        Image.fromarray(_shown(item.sample.images[0].pixels)).save(
            folder / file, "WEBP", lossless=True, method=6
        )
        levels = ", ".join(
            f"{control} {item.sample.meta[control]}" for control in entry.built.levels
        )
        asked = item.sample.question
        asks = "" if asked in "".join(parts) else f"*{asked}*\n"
        parts.append(
            f"![{name}, {place}]({folder.name}/{file})\n\n{asks}**{item.answer}** ({levels})\n"
        )
    return "\n".join([*parts, f"```yaml\n{entry.task}\n```\n"])


def _shown(pixels: Pixels) -> Pixels:
    height, width = pixels.shape[:2]
    if width <= WIDEST:
        return pixels
    size = WIDEST, round(height * WIDEST / width)
    return np.asarray(cv2.resize(pixels, size, interpolation=cv2.INTER_AREA), np.uint8)


def shortcuts() -> Iterator[str]:
    """A table of the most frequent answers, ours and official."""
    yield "| subtask | ours | official |\n|---|---|---|"
    for name in SUBTASKS["2D"]:
        if SUBTASKS["2D"][name].form == "integer":
            cells = (
                _most(GeneratedDoYouSeeMe(name, official=official)) for official in (False, True)
            )
            yield f"| {name} | {' | '.join(cells)} |"


def _most(task: GeneratedDoYouSeeMe) -> str:
    ((answer, times),) = Counter(
        task.make_scene(number).answer for number in range(COUNTED)
    ).most_common(1)
    return f'always "{answer}": {100 * times / COUNTED:.1f} %'


def write(page: Path, table: Sequence[Group]) -> None:
    """Writes the page, and its pictures into the folder beside it that has the page's name; old
    ones are removed."""
    folder = page.with_suffix("")
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("*.webp"):
        old.unlink()
    parts = [HEAD + "\n".join(shortcuts()) + "\n"]
    for group in table:
        parts.append(f"## {group.heading}\n\n{group.says}\n")
        for number, entry in enumerate(group.entries, 1):
            parts.append(written(entry, f"{entry.built.name.replace('_', '-')}-{number}", folder))
    page.write_text("\n".join(parts) + FOOT, encoding="utf-8")


def beside(data: Path, folder: Path) -> int:
    """Writes index.html with the published samples beside ours into `folder`; gives how many
    samples there were."""
    folder.mkdir(parents=True, exist_ok=True)
    parts = [
        f"<!doctype html><meta charset=utf-8><title>Do You See Me</title><style>{STYLE}</style>"
    ]
    parts.append("<h1>Published samples, ours with the authors' flaws, and ours without</h1>")
    count = 0
    for name in SUBTASKS["2D"]:
        parts.append(f"<h2>{name}</h2><table>")
        for file, meta, question in _published(data, name):
            parts.append(f"<tr>{''.join(_cells(name, file, meta, question, folder))}</tr>")
            count += 1
        parts.append("</table>")
    (folder / "index.html").write_text("\n".join(parts), encoding="utf-8")
    return count


def _published(data: Path, name: str) -> Iterator[tuple[Path, Mapping[str, Any], str]]:
    """The subtask's images, with the fields and question of their rows; some were renamed and have
    none."""
    rows = {
        str(item.sample.meta["image"]): item.sample for item in DoYouSeeMe(name, data, blind=True)
    }
    for subfolder in SUBTASKS["2D"][name].folders:
        for file in sorted(data.rglob(f"{subfolder}/*.png"), key=lambda path: int(path.stem)):
            row = rows.get(file.stem)
            yield (
                file,
                row.meta if row else {},
                row.question if row else "(no row has this image's name)",
            )


def _cells(
    name: str, file: Path, meta: Mapping[str, Any], question: str, folder: Path
) -> Iterator[str]:
    controls = {
        control: meta[control] for control in GeneratedDoYouSeeMe(name).levels if control in meta
    }
    pictures = [("published", question, Picture.open(file))]
    for official in (True, False):
        item = next(
            iter(
                GeneratedDoYouSeeMe(
                    name, n=1, seed=int(file.stem), official=official, controls=controls
                )
            )
        )
        version = "ours, official: true" if official else "ours"
        pictures.append((version, f"{item.sample.question} [{item.answer}]", item.sample.images[0]))
    levels = ", ".join(f"{control} {level}" for control, level in controls.items())
    for place, (version, words, picture) in enumerate(pictures):
        target = folder / f"{name}-{file.stem}-{place}.png"
        Image.fromarray(picture.pixels).save(target)
        yield (
            f"<td><b>{escape(version)}</b> {escape(levels)}<br><img"
            f" src='{target.name}'><br>{escape(words)}</td>"
        )


if __name__ == "__main__":
    if len(sys.argv) == 4 and sys.argv[1] == "--official":
        beside(Path(sys.argv[2]), Path(sys.argv[3]))
    elif len(sys.argv) == 1:
        write(HERE / "dysm.md", groups())
    else:
        sys.exit(__doc__)
