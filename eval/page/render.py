"""Writes a page as one HTML file that runs from disk: its data as JSON, its scripts named by hash,
nothing fetched."""

from __future__ import annotations

import hashlib
import json
from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from itertools import islice
from typing import Any

from looktwice.eval.display.templates import template
from looktwice.eval.page.data import PageAnswer, PageData, PagePicture, PageSample, PageTurn
from looktwice.eval.page.pairs import PageNumbers
from looktwice.pipelines.models.keys import known_keys, mask_keys

__all__ = ["render_page"]

VENDORED = ("vendored/d3.min.js", "vendored/plot.umd.min.js")
OWN = ("page_state.js", "page_charts.js", "page_samples.js", "page.js")
LICENSES = ("vendored/d3.LICENSE", "vendored/plot.LICENSE")


def render_page(data: PageData, *, served: bool = False, **context: Any) -> str:
    """The page as HTML; the arguments are those of `page_pieces`."""
    return "".join(page_pieces(data, served=served, **context))


def page_pieces(data: PageData, *, served: bool = False, **context: Any) -> Iterator[str]:
    """The page as HTML, piece by piece: it may be large. `context` are further names of the
    template.

    `served` says that a server has the pictures.

    Words of models and questions stay words: they are JSON, in which "<" is escaped, and are shown
    as text. The page's Content-Security-Policy names its scripts by sha256 and allows no connection
    but, where it is served, to its server.
    """
    scripts = [_read(name) for name in (*VENDORED, *OWN)]
    hashes = " ".join(
        f"'sha256-{b64encode(hashlib.sha256(each.encode()).digest()).decode()}'" for each in scripts
    )
    numbers = PageNumbers(data)
    shown = {
        "title": data.title,
        "summary": numbers.summary,
        "provenance": data.provenance,
        "contestants": [(who.label, who.facts) for who in data.contestants],
        "tasks": [(task.label, task.facts) for task in data.tasks],
        "notes": data.notes,
        "tables": (),
        "method": (),
        "left_out": (),
    }
    yield from template("report.html.j2").generate(
        **(shown | context),
        scripts=scripts,
        style=_read("page.css"),
        licenses=[_read(name) for name in LICENSES],
        policy=_policy(hashes, served),
        data=_in_pieces(encode(data, numbers, served)),
    )


def encode(data: PageData, numbers: PageNumbers, served: bool = False) -> dict[str, Any]:
    """The data as the page's scripts read it: numbers for names, and every text once.

    What there may be very much of is made when it is asked for, in the order in which it stands
    here.
    """
    texts = Texts()
    return {
        "served": served,
        "baseline": numbers.baseline,
        "contestants": [who.label for who in data.contestants],
        "tasks": [task.label for task in data.tasks],
        "samples": (_sample(sample, texts) for sample in data.samples),
        "answers": (_brief(key, draws, texts) for key, draws in data.answers.items()),
        "words": _words(data, texts),
        "detailed": None if data.detailed is None else sorted(data.detailed),
        "arms": [
            [
                a.contestant,
                a.task,
                *map(_short, (a.accuracy, a.low, a.high)),
                a.n,
                _sums(a.sums),
                a.clusters,
            ]
            for a in numbers.arms
        ],
        "pairs": [
            [
                *(pair.contestant, pair.rival, pair.task),
                *map(
                    _short,
                    (
                        pair.paired.value,
                        pair.paired.low,
                        pair.paired.high,
                        pair.paired.p,
                        pair.p_holm,
                    ),
                ),
                *(pair.paired.n, pair.paired.better, pair.paired.worse, pair.out),
            ]
            for pair in numbers.pairs
        ],
        "test": numbers.pairs[0].paired.test if numbers.pairs else "",
        "lines": [[x.factor, x.task, x.chance, list(x.lines.items())] for x in data.lines],
        "grids": [[x.x, x.y, x.task, x.contestant, x.cells] for x in data.grids],
        "thumbnails": data.thumbnails,
        "texts": (text for each in (texts,) for text in each.known),
    }


def encode_words(
    draws: Mapping[int, Sequence[PageAnswer]], pictures: Sequence[PagePicture]
) -> dict[str, Any]:
    """The words of all answers to one sample by contestant, and its own pictures, as a served page
    fetches them."""
    texts = Texts()
    words = [
        [who, [_detail(answer, texts) for answer in answers]] for who, answers in draws.items()
    ]
    return {
        "words": words,
        "pictures": [_picture(each) for each in pictures],
        "texts": [*texts.known],
    }


@dataclass
class Texts:
    """Texts by number, each once; keys are masked."""

    numbers: dict[str, int] = field(default_factory=dict)

    def __call__(self, text: str) -> int:
        return self.numbers.setdefault(text, len(self.numbers))

    @property
    def known(self) -> Iterator[str]:
        """The texts in the order of their numbers."""
        keys = known_keys()
        return (mask_keys(text, keys) for text in self.numbers)


def escape_json(value: Any) -> str:
    """JSON that may stand in a script element: ASCII, without a character that means something in
    HTML."""
    text = json.dumps(value, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _in_pieces(value: Mapping[str, Any]) -> Iterator[str]:
    """The JSON of a mapping as `escape_json` writes it, by and by: of a generator a thousand
    entries at a time."""
    for number, (name, inner) in enumerate(value.items()):
        yield f"{',' if number else '{'}{escape_json(name)}:"
        if not isinstance(inner, Iterator):
            yield escape_json(inner)
            continue
        before = "["
        while some := [*islice(inner, 1000)]:
            yield before + escape_json(some)[1:-1]
            before = ","
        yield "]" if before == "," else "[]"
    yield "}"


def _policy(hashes: str, served: bool) -> str:
    own = " 'self'" if served else ""
    return (
        f"default-src 'none'; script-src {hashes}; style-src 'unsafe-inline'; img-src data:{own};"
        f" connect-src {own.strip() or chr(39) + 'none' + chr(39)}; base-uri 'none'; form-action"
        " 'none'"
    )


@cache
def _read(name: str) -> str:
    return (
        files("looktwice.eval").joinpath("templates", *name.split("/")).read_text(encoding="utf-8")
    )


def _sample(sample: PageSample, texts: Texts) -> list[Any]:
    choices = [texts(choice) for choice in sample.choices]
    pictures = [_picture(each) for each in sample.pictures]
    return [sample.task, sample.id, texts(sample.question), choices, sample.key, pictures]


def _brief(key: tuple[int, int], draws: Sequence[PageAnswer], texts: Texts) -> list[Any]:
    """Contestant, sample, and for each draw its verdict's first letter, value, answer and
    reason."""
    return [
        *key,
        [
            [a.verdict[0], _value(a), texts(a.answer), *([texts(a.reason)] if a.reason else [])]
            for a in draws
        ],
    ]


def _value(answer: PageAnswer) -> float | int:
    return int(answer.value) if answer.value in (0.0, 1.0) else _short(answer.value) or 0.0


def _words(data: PageData, texts: Texts) -> Iterator[Any]:
    """Sample, then each of its contestants with the words of its draws."""
    found: dict[int, list[Any]] = {}
    for (who, sample), draws in data.answers.items():
        if data.detailed is None or sample in data.detailed:
            found.setdefault(sample, []).append([who, [_detail(answer, texts) for answer in draws]])
    yield from found.items()


def _detail(answer: PageAnswer, texts: Texts) -> list[Any]:
    """Reply, seconds, tokens in and out, cost, server, and the turns where they hold more than the
    reply."""
    turns = [_turn(turn, texts) for turn in answer.turns]
    numbers = (answer.seconds, answer.tokens_in, answer.tokens_out, answer.cost)
    return [texts(answer.reply), *map(_short, numbers), texts(answer.served_by), turns]


def _turn(turn: PageTurn, texts: Texts) -> list[Any]:
    return [
        turn.role,
        [_picture(part) if isinstance(part, PagePicture) else texts(part) for part in turn.parts],
    ]


def _picture(picture: PagePicture) -> list[Any]:
    return (
        [picture.name, picture.caption, picture.marks]
        if picture.caption or picture.marks
        else [picture.name]
    )


def _short(number: float | None) -> float | None:
    return None if number is None else float(f"{number:.5g}")


def _sums(sums: Mapping[str, float]) -> dict[str, float | None]:
    return {name: _short(value) for name, value in sums.items()}
