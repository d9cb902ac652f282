"""Renders a page as one HTML file that works from disk and fetches nothing: its data as JSON, its
scripts identified by hash."""

from __future__ import annotations

import hashlib
import json
from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from itertools import chain, islice, product
from math import isnan
from typing import Any

from looktwice.eval.display.printable import load_template
from looktwice.eval.page.data import RESOURCES, PageAnswer, PageData, PagePicture
from looktwice.eval.page.pairs import PageNumbers
from looktwice.pipelines.models.keys import list_known_keys, mask_keys

__all__ = ["render_page"]

VENDORED_SCRIPTS = ("vendored/d3.min.js", "vendored/plot.umd.min.js")
PAGE_SCRIPTS = ("page_state.js", "page_charts.js", "page_pictures.js", "page_samples.js", "page.js")
NO_SOURCE = " 'none'"
TEXT_FIELDS = {"question", "choices", "reply", "served_by", "parts"}
Outcome = tuple[str, float, str, str]
"""The verdict, value, answer and reason of a draw."""
LICENSE_FILES = ("vendored/d3.LICENSE", "vendored/plot.LICENSE")


def render_page(data: PageData, **context: Any) -> str:
    """Return the page as HTML; the arguments are those of `stream_page`."""
    return "".join(stream_page(data, **context))


def stream_page(data: PageData, *, served: bool = False, **context: Any) -> Iterator[str]:
    """Yield the page as HTML in pieces, because it may be large. `context` holds further variables
    of the template.

    `served` is True if a server provides the pictures. Texts of models and questions cannot become
    markup: they are JSON, in which "<" is escaped, and are shown as text. The page's
    Content-Security-Policy names its scripts by sha256 and allows no connection except to its own
    server, if the page is served.
    """
    scripts = [read_page_file(name) for name in (*VENDORED_SCRIPTS, *PAGE_SCRIPTS)]
    numbers = PageNumbers(data)
    shown = {
        "title": data.title,
        "summary": data.sentences or numbers.summary,
        "about": data.about,
        "is_served": served,
        "counts": (len(data.contestants), len(data.samples)),
        "provenance": data.provenance,
        "contestants": [(who.label, who.facts) for who in data.contestants],
        "tasks": [(task.label, task.facts) for task in data.tasks],
        "notes": data.notes,
        "tables": (),
        "method": (),
        "left_out": (),
    }
    yield from load_template("report.html.j2").generate(
        **(shown | context),
        scripts=scripts,
        style=read_page_file("page.css"),
        licenses=[read_page_file(name) for name in LICENSE_FILES],
        policy=make_page_policy(scripts, served=served),
        data=_stream_json(encode_page(data, numbers, served)),
        pictures=escape_json(data.thumbnails),
    )


def encode_page(data: PageData, numbers: PageNumbers, served: bool = False) -> dict[str, Any]:
    """Return the data as the page's scripts read it: with numbers for names, and every text once.

    Large parts are generated on demand, in the order of the keys here. Each draw of a contestant is
    encoded as two numbers, because there may be a hundred thousand draws: the distance from the
    sample of the previous draw, and the number of the outcome.
    """
    texts, outcomes = Texts(), dict[Outcome, int]()
    answered = (key for key in data.answers if data.detailed is None or key[1] in data.detailed)
    return {
        "served": served,
        "baseline": numbers.baseline,
        "baselines": numbers.baselines,
        "contestants": [who.label for who in data.contestants],
        "tasks": [task.label for task in data.tasks],
        "people": [task.people for task in data.tasks],
        "samples": ({**simplify(sample, texts), "group": ""} for sample in data.samples),
        "draws": iter(_encode_draws(data, outcomes)),
        "outcomes": (
            [verdict[0], simplify(value), texts(answer), texts(reason)]
            for verdict, value, answer, reason in outcomes
        ),
        "words": ([*key, _encode_replies(data.answers[key], texts)] for key in answered),
        "is_whole": data.detailed is None,
        "arms": [simplify(arm) for arm in numbers.arms],
        "pairs": [simplify(pair) for pair in numbers.pairs],
        "comparisons": numbers.comparison_count,
        "finding": simplify(data.finding),
        "evidence": simplify(data.evidence),
        "lines": [{**vars(chart), "lines": list(chart.lines.items())} for chart in data.lines],
        "grids": [vars(grid) for grid in data.grids],
        "thumbnails": {
            n: data.thumbnails[n] for n in _list_first_pictures(data) if n in data.thumbnails
        },
        "texts": (text for whole in (texts,) for text in whole.masked_texts),
    }


def _encode_draws(data: PageData, outcomes: dict[Outcome, int]) -> list[list[int]]:
    """Return the draws of each contestant, as `encode_page` describes, and number the outcomes."""
    draws = [list[int]() for _ in data.contestants]
    last, numbers = [0] * len(draws), dict[int, int]()
    for (who, sample), given in data.answers.items():
        for draw in given:
            if (number := numbers.get(id(draw))) is None:  # equal ones are often one object
                outcome = draw.verdict, draw.value, draw.answer, draw.reason
                number = numbers[id(draw)] = outcomes.setdefault(outcome, len(outcomes))
            draws[who] += sample - last[who], number
            last[who] = sample
    return draws


def _list_first_pictures(data: PageData) -> Iterator[str]:
    """Yield the names of the pictures on the first screen, which the page draws before it reads all
    pictures."""
    if evidence := data.evidence:
        for who, number in product((evidence.contestant, evidence.rival), evidence.samples):
            first = data.answers[who, number][0]
            parts = chain.from_iterable(turn.parts for turn in first.turns)
            sent = [part for part in parts if isinstance(part, PagePicture)]
            shown = first.places or sent or data.samples[number].pictures
            yield from (picture.name for picture in shown)


def encode_texts(
    draws: Mapping[int, Sequence[PageAnswer]], pictures: Sequence[PagePicture]
) -> dict[str, Any]:
    """Return what a served page fetches for a sample: the texts of all its answers by contestant,
    and its own pictures."""
    texts = Texts()
    words = [[who, _encode_replies(answers, texts)] for who, answers in draws.items()]
    return {"words": words, "pictures": simplify(pictures), "texts": [*texts.masked_texts]}


def _encode_replies(draws: Sequence[PageAnswer], texts: Texts) -> list[dict[str, Any]]:
    """Return the resources, reply, server, turns and places of each draw."""
    names = (*RESOURCES, "reply", "served_by", "turns", "places")
    return [{name: simplify(getattr(draw, name), texts, name) for name in names} for draw in draws]


@dataclass
class Texts:
    """A numbered list of distinct texts. Calling it returns a text's number."""

    numbers: dict[str, int] = field(default_factory=dict)

    def __call__(self, text: str) -> int:
        return self.numbers.setdefault(text, len(self.numbers))

    @property
    def masked_texts(self) -> Iterator[str]:
        """The texts in the order of their numbers, with API keys masked."""
        keys = list_known_keys()
        return (mask_keys(text, keys) for text in self.numbers)


def simplify(value: Any, texts: Texts | None = None, name: str = "") -> Any:
    """Convert a value of a page for JSON: dataclasses to their fields, texts (the fields in
    TEXT_FIELDS) to their number in `texts`, floats to five digits."""
    if isinstance(value, str):
        return texts(value) if texts and name in TEXT_FIELDS else value
    if isinstance(value, float):
        return None if isnan(value) else float(f"{value:.5g}")
    if value is None or isinstance(value, int):
        return value
    if isinstance(value, list | tuple):
        return [simplify(inner, texts, name) for inner in value]
    if names := getattr(value, "__dataclass_fields__", None):
        return {name: simplify(getattr(value, name), texts, name) for name in names}
    if isinstance(value, Mapping):
        return {key: simplify(inner, texts) for key, inner in value.items()}
    if isinstance(value, Sequence):
        return [simplify(inner, texts, name) for inner in value]
    return value


def escape_json(value: Any) -> str:
    """Return JSON that is safe inside a script element: ASCII, with the characters `<`, `>` and `&`
    escaped."""
    text = json.dumps(value, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _stream_json(value: Mapping[str, Any]) -> Iterator[str]:
    """Yield the JSON of a mapping as `escape_json` writes it, in pieces; generators are read a
    thousand entries at a time."""
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
def read_page_file(name: str, package: str = "looktwice.eval") -> str:
    """Return the text of a script, style or license in the folder `templates` of a package."""
    return files(package).joinpath("templates", name).read_text(encoding="utf-8")


def make_page_policy(scripts: Sequence[str], *, served: bool) -> str:
    """Return the Content-Security-Policy of a page: its scripts by sha256, and no connection except
    to its own server, if the page is served."""
    hashes = " ".join(
        f"'sha256-{b64encode(hashlib.sha256(script.encode()).digest()).decode()}'"
        for script in scripts
    )
    own = " 'self'" if served else ""
    return (
        f"default-src 'none'; script-src {hashes}; style-src 'unsafe-inline'; img-src data:{own};"
        f" connect-src{own or NO_SOURCE}; base-uri 'none'; form-action 'none'"
    )
