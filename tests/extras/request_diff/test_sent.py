"""Requests of two programs for the same questions: exactly the planted differences are named, and
unmatched requests have a reason."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import pandas
import pytest

from looktwice.eval import Facts, MarkedScenes, evaluate
from looktwice.eval.runs.requests import Forward
from looktwice.extras.request_diff.factors import RequestComparison, compare_requests
from looktwice.extras.request_diff.report import describe_requests
from looktwice.extras.request_diff.requests import (
    Pairing,
    Request,
    Requests,
    read_requests,
    select_sides,
)
from looktwice.pipelines import (
    CallOptions,
    Item,
    Message,
    Picture,
    Pipeline,
    Sample,
    Scripted,
    Stage,
    State,
    View,
)
from looktwice.prompting import Ask, Circles, Encode, FixedHeight, MultipleChoice
from looktwice.prompting.views.resize import resize_view
from tests.extras.integrations.served import plan_of, post, serving, tapping
from tests.first_day.studies import looktwice
from tests.tables import read_yaml

N = 60


@cache
def samples(kind: str = "symbol", seed: int = 0) -> tuple[Sample, ...]:
    return tuple(item.sample for item in MarkedScenes(kind, n=N, seed=seed))


@dataclass(frozen=True)
class Program:
    """How a harness asks, with a setting for each factor."""

    codec: Encode | None = None
    height: int = 320
    ring: int = 0
    pictures: tuple[int, ...] = (0, 1)
    system: str = ""
    before: str = ""
    label: str = "({})"
    after: str = "Answer with the letter of one choice."
    choices: tuple[int, ...] = (0, 1, 2, 3)
    parts: str = "pictures words"
    options: tuple[tuple[str, Any], ...] = (("temperature", 0),)

    def request(self, sample: Sample, neighbour: Sample) -> Request:
        size = FixedHeight(self.height).size
        states = [State.start((sample, neighbour)[n]) for n in self.pictures]
        if self.ring:
            states = [Pipeline({"ring": Circles(radius=self.ring)})(state) for state in states]
        images = [state.views[0] for state in states]
        shown = [resize_view(view, size(*view.size)) for view in images]
        if self.codec is not None:
            shown = [self.codec.encode(view) for view in shown]
        texts = [str(sample.choices[n]) for n in self.choices if n < len(sample.choices)]
        labels = map(self.label.format, "ABCD"[: len(texts)])
        listed = "\n".join(map(" ".join, zip(labels, texts, strict=True)))
        words = "\n".join(filter(None, (self.before, sample.question, listed, self.after)))
        parts: tuple[str | View, ...] = (
            (*shown, words) if self.parts == "pictures words" else (words, *shown)
        )
        turns = [Message("system", (self.system,))] if self.system else []
        return Request(sample.id, (*turns, Message("user", parts)), dict(self.options))

    @cache  # noqa: B019  a few programs
    def requests(self, name: str = "a", n: int = N, first: int = 0) -> Requests:
        every = samples()
        pairs = list(zip(every, (*every[1:], every[0]), strict=True))
        return Requests(name, tuple(self.request(*pair) for pair in pairs[first:n]))


def as_turn(message: Message) -> dict[str, Any]:
    """Return a turn as clients of the OpenAI API write it."""
    content = list[dict[str, Any]]()
    for part in message.parts:
        if isinstance(part, str):
            content.append({"type": "text", "text": part})
        else:
            url = {"url": part.picture.payload.data_url}
            content.append({"type": "image_url", "image_url": url})
    return {"role": message.role, "content": content}


FIRST = Program()
JPEG = Encode("jpeg", 75, "4:2:0")


def freeze(value: Any) -> Any:
    """Return a setting of a program as a file contains it."""
    if isinstance(value, dict):
        return tuple(value.items())
    return JPEG if value == "jpeg" else tuple(value) if isinstance(value, list) else value


PLANTED: dict[str, tuple[dict[str, Any], set[str]]] = {
    name: (dict(zip(settings, map(freeze, settings.values()), strict=True)), {*factors})
    for name, (settings, factors) in read_yaml(Path(__file__).with_suffix(".yaml")).items()
}


def compare(rival: Requests, base: Requests | None = None) -> RequestComparison:
    return compare_requests(base or FIRST.requests(), rival)


@pytest.mark.parametrize("name", PLANTED)
def test_exactly_the_planted_differences_are_named(name: str) -> None:
    settings, factors = PLANTED[name]
    n = N if name in ("nothing", "four at once") else 12
    compared = compare(replace(FIRST, **settings).requests("b", n), FIRST.requests("a", n))
    assert compared.pairing.pairs == [(number, number) for number in range(n)]
    assert {difference.factor for difference in compared.differences} == factors
    assert {len(difference.examples) for difference in compared.differences} <= {n, n - 1}
    assert ("  no differences in 60 pairs" in list(describe_requests(compared))) == (not factors)


def test_both_sides_are_quoted_unchanged() -> None:
    compared = compare(replace(FIRST, **PLANTED["four at once"][0]).requests("b"))
    assert {d.factor: d.most_frequent for d in compared.differences} == {
        "codec": (("PNG", "JPEG 75 4:2:0"), N),
        "size": (("320 x 320", "240 x 240"), N),
        "form of the choices": (("(A) …⏎(B) …", "A. …⏎B. …"), N),
        "system words": (("none", "You are careful."), N),
    }
    compared = compare(replace(FIRST, after="Answer in one word.").requests("b"))
    assert compared.changed_words == [(("with the letter of", "in"), N), (("choice.", "word."), N)]
    readable = samples()[0].images[0].payload.data
    good, bad = (
        Requests("side", (Request("s", (Message("user", (View(Picture.encoded(data)), "?")),)),))
        for data in (readable, b"no picture")
    )
    assert RequestComparison(good, bad, Pairing([(0, 0)], [], [])).factors[0]["codec"] == (
        *("PNG", "unreadable"),
    )
    assert compare_requests(bad, bad).factors == [{}]


def test_unmatched_requests_have_a_reason() -> None:
    """Other scenes, half of the same ones, the same picture with another question, and a duplicated
    request, which is ambiguous."""
    scenes = [Message("user", (View.of(s.images[0]), s.question)) for s in samples("color", 7)]
    alien = Requests("alien", tuple(Request(str(n), (m,)) for n, m in enumerate(scenes)))
    compared = compare(alien)
    assert not compared.pairing.pairs
    reason = "no request of the other side has the same pictures and question"
    assert {why for _, why in compared.pairing.unpaired_base} == {reason}

    half = compare(replace(FIRST, height=200).requests("half", 40, 10))
    assert half.pairing.pairs == [(n + 10, n) for n in range(30)]
    assert [place for place, _ in half.pairing.unpaired_base] == [*range(10), *range(40, N)]

    mine = FIRST.requests().requests
    words = ["What is the time on the clock?", "How many birds are in the sky?"]
    shown = [mine[0].pictures[0]] * 2
    asked = [Message("user", (View.of(p), w)) for p, w in zip(shown, words, strict=True)]
    requests = [Request(name, (turn,)) for name, turn in zip("ab", asked, strict=True)]
    swapped = Requests("ab", tuple(requests)), Requests("ba", tuple(requests[::-1]))
    assert compare_requests(*swapped).pairing.pairs == [(0, 1), (1, 0)]

    twice = compare(Requests("twice", (*mine, mine[3])))
    assert twice.pairing.unpaired_base == [
        (3, "two requests of the other side are equally likely matches")
    ]
    assert [place for place, _ in twice.pairing.unpaired_rival] == [3, N]


@dataclass(frozen=True)
class Keyless:
    """The questions without their answer keys, as a server gets them."""

    facts = Facts("keyless", "made")

    def __len__(self) -> int:
        return N

    def __iter__(self) -> Iterator[Item]:
        return (Item(sample, None) for sample in samples())


def test_the_command_compares_requests_without_answer_keys(tmp_path: Path) -> None:
    asks = Ask(options=CallOptions(temperature=0)), Ask(system="Look.")
    sides: dict[str, dict[str, Stage]] = {
        "one": {"choose": MultipleChoice(), "ask": asks[0]},
        "two": {"codec": JPEG, "choose": MultipleChoice("A."), "ask": asks[1]},
    }
    for name, stages in sides.items():
        evaluate(Keyless(), {name: Pipeline(stages)}, Scripted("(A)"), out=tmp_path / name)
    words = ["compare", *(str(tmp_path / name) for name in sides), "--out", str(tmp_path / "out")]
    result = looktwice(*words)
    assert not result.exception, result.output
    assert "two against one: 60 pairs among 60 and 60 requests" in result.output
    named = "codec (60), system words (60), form of the choices (60), temperature (60)"
    assert f"differs: {named}" in result.output
    rows = pandas.read_csv(tmp_path / "out" / "differences.csv").to_dict("records")
    assert len(rows) == 4 * N
    assert json.dumps(rows[0])


@pytest.mark.slow
def test_two_taps_of_the_same_questions(tmp_path: Path) -> None:
    plan = plan_of({"m": {"ask": Forward()}}, Scripted("(A)"))
    with serving(plan, tmp_path) as upstream:
        other = replace(FIRST, **PLANTED["four at once"][0])
        for name, program in (("one", FIRST), ("two", other)):
            with tapping(upstream.url, tmp_path / name) as tap:
                for request in program.requests(name).requests:
                    turns = [as_turn(message) for message in request.messages]
                    body = {"model": "m", "messages": turns, "temperature": 0}
                    assert post(tap.url, body).status == 200
                assert post(tap.url, body).status == 200
    folders = [tmp_path / name / "tap" for name in ("one", "two")]
    one, two = select_sides([side for folder in folders for side in read_requests(folder)])
    assert [one.name, two.name] == [f"{folder}: m" for folder in folders]
    assert (one.repeat_count, two.repeat_count) == (1, 1)
    compared = compare_requests(one, two)
    assert len(compared.pairing.pairs) == N
    planted = PLANTED["four at once"][1]
    assert {(d.factor, len(d.examples)) for d in compared.differences} == {(f, N) for f in planted}
    assert not compare_requests(one, one).differences
