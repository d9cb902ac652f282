"""Writes a page as one HTML file that runs from disk: its data as JSON, its scripts named by hash,
nothing fetched."""

from __future__ import annotations

import hashlib
import json
from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cache
from importlib.resources import files
from itertools import islice
from math import isnan
from typing import Any

from looktwice.eval.display.printable import template
from looktwice.eval.page.data import SPENT, PageAnswer, PageData, PagePicture, PageSample
from looktwice.eval.page.pairs import ContestantPair, ContestantScore, PageNumbers
from looktwice.eval.statistics.intervals import Estimate
from looktwice.pipelines.models.keys import known_keys, mask_keys

__all__ = ["render_page"]

VENDORED = ("vendored/d3.min.js", "vendored/plot.umd.min.js")
OWN = ("page_state.js", "page_charts.js", "page_samples.js", "page.js")
NONE = "'none'"
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
    own, scripts = "'self'" if served else "", [_read(name) for name in (*VENDORED, *OWN)]
    hashes = " ".join(
        f"'sha256-{b64encode(hashlib.sha256(script.encode()).digest()).decode()}'"
        for script in scripts
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
        policy=(
            f"default-src 'none'; script-src {hashes}; style-src 'unsafe-inline';"
            f" img-src {f'data: {own}'.strip()}; connect-src {own or NONE}; base-uri 'none';"
            " form-action 'none'"
        ),
        data=_in_pieces(encode(data, numbers, served)),
    )


def encode(data: PageData, numbers: PageNumbers, served: bool = False) -> dict[str, Any]:
    """The data as the page's scripts read it: numbers for names, and every text once.

    What there may be very much of is made when it is asked for, in the order in which it stands
    here; of an answer, which there may be a hundred thousand of, entries have no names.
    """
    texts = Texts()
    words: dict[int, list[Any]] = {}
    for (who, sample), draws in data.answers.items():
        if data.detailed is None or sample in data.detailed:
            words.setdefault(sample, []).append((who, draws))
    return {
        "served": served,
        "baseline": numbers.baseline,
        "contestants": [who.label for who in data.contestants],
        "tasks": [task.label for task in data.tasks],
        "samples": (_sample(sample, texts) for sample in data.samples),
        "answers": (_brief(key, draws, texts) for key, draws in data.answers.items()),
        "words": ([sample, _details(answers, texts)] for sample, answers in words.items()),
        "detailed": None if data.detailed is None else sorted(data.detailed),
        "arms": [_figures(arm, arm.accuracy) for arm in numbers.arms],
        "pairs": [_figures(pair, pair.paired) for pair in numbers.pairs],
        "lines": [{**vars(chart), "lines": list(chart.lines.items())} for chart in data.lines],
        "grids": [vars(grid) for grid in data.grids],
        "thumbnails": data.thumbnails,
        "texts": (text for each in (texts,) for text in each.known),
    }


def encode_words(
    draws: Mapping[int, Sequence[PageAnswer]], pictures: Sequence[PagePicture]
) -> dict[str, Any]:
    """The words of all answers to one sample by contestant, and its own pictures, as a served page
    fetches them."""
    texts = Texts()
    words = _details(draws.items(), texts)
    return {"words": words, "pictures": [*map(asdict, pictures)], "texts": [*texts.known]}


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


@cache
def _read(name: str) -> str:
    return (
        files("looktwice.eval").joinpath("templates", *name.split("/")).read_text(encoding="utf-8")
    )


def _sample(sample: PageSample, texts: Texts) -> dict[str, Any]:
    return {
        "task": sample.task,
        "id": sample.id,
        "question": texts(sample.question),
        "choices": [texts(choice) for choice in sample.choices],
        "key": sample.key,
        "pictures": [*map(asdict, sample.pictures)],
    }


def _brief(key: tuple[int, int], draws: Sequence[PageAnswer], texts: Texts) -> list[Any]:
    """Contestant, sample, and for each draw its verdict's first letter, value, answer and
    reason."""
    brief = []
    for draw in draws:
        value = int(draw.value) if draw.value in (0.0, 1.0) else _short(draw.value)
        reason = [texts(draw.reason)] if draw.reason else []
        brief.append([draw.verdict[0], value, texts(draw.answer), *reason])
    return [*key, brief]


def _figures(line: ContestantScore | ContestantPair, estimate: Estimate | None) -> Any:
    """The fields of a line, and in place of its estimate those of it."""
    own = {name: value for name, value in vars(line).items() if value is not estimate}
    return _short(own | (vars(estimate) if estimate else {"value": None}))


def _details(answers: Iterable[tuple[int, Sequence[PageAnswer]]], texts: Texts) -> list[Any]:
    """By contestant: of each draw the reply, what it took, the server, and the turns where they
    hold more than the reply."""
    return [[who, [_detail(draw, texts) for draw in draws]] for who, draws in answers]


def _detail(answer: PageAnswer, texts: Texts) -> dict[str, Any]:
    turns = []
    for turn in answer.turns:
        parts = [texts(part) if isinstance(part, str) else asdict(part) for part in turn.parts]
        turns.append({"role": turn.role, "parts": parts})
    numbers = {name: _short(getattr(answer, name)) for name in SPENT}
    words = {"reply": texts(answer.reply), "served_by": texts(answer.served_by)}
    return {**words, **numbers, "turns": turns}


def _short(value: Any) -> Any:
    """Numbers with five digits, all those of a mapping too."""
    if isinstance(value, Mapping):
        return {name: _short(inner) for name, inner in value.items()}
    if not isinstance(value, float):
        return value
    return None if isnan(value) else float(f"{value:.5g}")
