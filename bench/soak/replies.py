"""Hostile replies: SVG attacks, absurd tool calls, endless replies for every reader, and terminal
control characters."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from PIL import Image

from bench.soak.forked import looktwice_each
from bench.soak.hostile_server import Answer, Json, completion, hostile_server, http
from bench.soak.scene import Finding, faults, find_keys, finding, looktwice, write_study
from looktwice.eval.readers.reader import map_readers
from looktwice.eval.records import RunFolder
from looktwice.pipelines.json_input import write_canonical

LENGTH = 100_000
RUNS = (
    *(
        "\n",
        "\n ",
        " ",
        "\t",
        "x",
        "1",
        "1, ",
        "A ",
        "(A)",
        "the answer is ",
        "[",
        "(",
        "<",
        "{",
        "[a](",
        "![",
        "'",
        '"',
    ),
    *(
        "`",
        "```\n",
        "*",
        "_",
        "#",
        "$",
        "\\",
        "\\boxed{",
        "- ",
        "|",
        "<think>",
        "</think>",
        "<answer>",
        "<br>",
        "https://",
    ),
)
EVIL = "\x1b]0;owned\x07\x1b[2J\u202ered [bold]\x9b31m[/nothing]\r"

OPEN = '<svg xmlns="http://www.w3.org/2000/svg" width="80" height="60">'
INSIDE = (
    *(
        "<script>alert(1)</script>",
        '<rect onclick="x()"/>',
        '<image href="file:///etc/passwd"/>',
        "<foreignObject/>",
    ),
    *(
        '<use href="http://127.0.0.1/x.svg#a"/>',
        '<rect fill="url(http://127.0.0.1/#a)"/>',
        "<animate/>",
        "&bomb;",
        "<",
    ),
    *(
        "<style>@import 'http://127.0.0.1/a.css';</style>",
        "<g>" * 200 + "</g>" * 200,
        "<g/>" * 30_000,
        " " * 600_000,
    ),
    *(
        '<g id="a"><use href="#a"/></g>',
        '<rect width="1e999" height="-1e999"/>',
        '<path d="M0 0 L 1e308 1e308"/>',
    ),
    *(
        f'<path d="M0 0 {"L 1 1 " * 50_000}"/>',
        f"<text font-size='{'9' * 400}'>x</text>",
        "<rect width='NaN'/>",
    ),
    (
        '<filter id="f"><feGaussianBlur stdDeviation="99999"/></filter><rect filter="url(#f)"'
        ' width="9" height="9"/>'
    ),
    (
        '<pattern id="p" width="0.0001" height="0.0001"><rect/></pattern><rect fill="url(#p)"'
        ' width="80" height="60"/>'
    ),
    *(
        "<rect/>" * 15_000,
        "<text>" + "\u202e\U0001f600" * 2000 + "</text>",
        "\x1b[2J",
        "<!-- " + "-" * 9999,
    ),
    "".join(f'<g id="g{n}"><use href="#g{n + 1}"/><use href="#g{n + 1}"/></g>' for n in range(40)),
)
DRAWINGS = (
    *(f"{OPEN}{inside}</svg>" for inside in INSIDE),
    *(
        "<svg>",
        "<svg " * 20_000,
        "<svg></svg>" * 5000,
        f'<!DOCTYPE svg [<!ENTITY a "b">]>{OPEN}&a;</svg>',
        f"{OPEN}</svg>",
    ),
    (
        '<svg xmlns="http://www.w3.org/2000/svg" width="999999999" height="999999999"><rect'
        ' width="9" height="9"/></svg>'
    ),
)

ABSURD: tuple[object, ...] = (
    *(
        None,
        5,
        "x",
        [],
        [5],
        {},
        True,
        -1,
        1e308,
        -1e308,
        0,
        1e-308,
        "9" * 4000,
        [[]],
        [0, 0, 0, 0],
        [9, 9, 1, 1],
    ),
    *(
        [-1e9, -1e9, 1e9, 1e9],
        [0, 0, 0.1, 0.1],
        ["a"] * 4,
        [None] * 4,
        [1] * 999,
        {"x": 1},
        "\u202e",
        "../x",
        [1, 2, 3, 4],
    ),
)


def tool_calls() -> list[Json]:
    """Return first replies of a model with absurd tool calls."""
    arguments = [json.dumps({"box": value}) for value in ABSURD] + [
        json.dumps({"image": value}) for value in ABSURD
    ]
    arguments += [json.dumps({"degrees": value}) for value in ABSURD]
    arguments += [
        "",
        "{",
        "null",
        "[" * 5000,
        '{"box": [1e999, 0, 1, 1]}',
        '{"box": ' + "9" * 5000 + "}",
        '{"\\ud83d": 1}',
    ]
    names = ["zoom", "turn", "", "x" * 9999, "__class__", "zoom\x1b[2J", "../zoom"]
    called = [[(names[n % 2], text)] for n, text in enumerate(arguments)] + [
        [(name, "{}")] for name in names
    ]
    called += [[("zoom", '{"box": [0, 0, 9, 9]}')] * 500]
    return [
        completion(
            choices=[
                {
                    "message": {
                        "tool_calls": [
                            {"function": dict(zip(("name", "arguments"), c, strict=True))}
                            for c in calls
                        ]
                    }
                }
            ]
        )
        for calls in called
    ]


def run_replies(
    folder: Path, first: Sequence[Json], stages: str, name: str, picture: bool = True
) -> Iterator[Finding]:
    """Run a study whose n-th sample gets the n-th reply first, then every command on the run."""

    # identifies requests that do not repeat the question; every picture is different
    order = itertools.count()

    def answer(body: Json, before: int) -> Answer:
        text = write_canonical(body["messages"])
        number = re.search(r"number (\d+)\?", text)
        fresh = number and not any(message["role"] == "assistant" for message in body["messages"])
        said = first[int(number[1])] if number and fresh else completion("(A)")
        said = said if number else first[next(order) % len(first)]
        return Answer(http(200, json.dumps(said).encode()))

    with hostile_server(answer) as server:
        config = write_study(folder, server.url, (f"Is it number {n}?" for n in range(len(first))))
        if picture:
            data = folder / "questions/samples.jsonl"
            rows = [json.loads(line) for line in data.read_text().splitlines()]
            data.write_text(
                "".join(json.dumps(row | {"image": f"{row['id']}.png"}) + "\n" for row in rows)
            )
            for number, row in enumerate(rows):
                Image.new("RGB", (80, 60), (200, 30, number)).save(
                    folder / f"questions/{row['id']}.png"
                )
        config.write_text(config.read_text().partition("stages:")[0] + stages)
        ended = looktwice("run", config, "--out", folder / "runs", url=server.url, seconds=200)
        there = (folder / "runs/study/records.jsonl").exists()
        records = RunFolder(folder / "runs/study").records().values() if there else ()
        failed = sum(bool(record.error) for record in records)
        wrong = faults(ended, {0}) + [f"{failed} failed"] * bool(failed) + find_keys(folder)
        wrong += ["records missing"] if len(records) < len(first) else []
        notes = sum(bool(record.notes) for record in records)
        figure = (
            f"{len(records)} recorded, {notes} with a note, {len(server.exchanges)} requests,"
            f" {ended.seconds:.0f} s"
        )
        yield finding(name, f"{len(first)} replies", figure, wrong, ended)
        yield from read_again(folder / "runs/study", name, server.url)


def read_again(run: Path, name: str, url: str) -> Iterator[Finding]:
    """Run the commands that read a run's records."""
    commands = [
        ["score", run, "--report"],
        ["view", run, "--sample", "s0"],
        ["replay", run],
        ["export", run, "--to", "trajectories", "--out", run / "t.jsonl"],
    ]
    for words, ended in zip(commands, looktwice_each(commands, url, seconds=60), strict=True):
        figure = f"exit {ended.code}, {ended.seconds:.1f} s"
        yield finding(name, f"{words[0]} of these", figure, faults(ended, {0, 1, 2}), ended)


def svg(folder: Path) -> Iterator[Finding]:
    """Draw hostile SVG for a second look."""
    stages = (
        "stages: {say: {use: prompting.wording.MultipleChoice}, ask: {use:"
        " prompting.turns.RedrawThenAnswer}}\n"
    )
    yield from run_replies(folder, [completion(text) for text in DRAWINGS], stages, "svg")


def tools(folder: Path) -> Iterator[Finding]:
    """Call an agent's tools with invalid values."""
    stages = (
        "stages: {agent: {use: prompting.agent.Agent, tools: {zoom: {use: prompting.agent.Zoom}, "
    )
    yield from run_replies(
        folder, tool_calls(), stages + "turn: {use: prompting.agent.Rotate}}}}\n", "tool calls"
    )


def readers(folder: Path) -> Iterator[Finding]:
    """Read replies of 100,000 characters with every named reader."""
    texts = [f"x{run * (LENGTH // len(run))} A x" for run in RUNS]
    stages = (
        "stages: {choose: {use: prompting.wording.MultipleChoice}, ask: {use:"
        " prompting.turns.Ask}}\n"
    )
    yield from run_replies(
        folder, [completion(text) for text in texts], stages, "readers", picture=False
    )
    names = sorted(map_readers())
    ends = looktwice_each(
        [["score", folder / "runs/study", "--reader", name] for name in names], seconds=60
    )
    for name, ended in zip(names, ends, strict=True):
        wrong = faults(ended, {0, 1, 2}) + (["slow"] if ended.seconds > 30 else [])
        if wrong:
            yield finding("readers", name, "", wrong, ended)
    slowest = max(ended.seconds for ended in ends)
    yield finding(
        "readers", f"{len(names)} readers x {len(texts)}", f"the slowest in {slowest:.1f} s", []
    )


def terminal(folder: Path) -> Iterator[Finding]:
    """Put terminal control characters into ids, questions, replies and errors."""
    first = [
        completion(EVIL),
        completion("(A)", model=EVIL),
        {"error": {"message": EVIL, "code": "content_filter"}},
    ]
    stages = (
        "stages: {choose: {use: prompting.wording.MultipleChoice}, ask: {use:"
        " prompting.turns.Ask}}\n"
    )
    yield from run_replies(folder, first, stages, "terminal", picture=False)
    data = folder / "questions/samples.jsonl"
    rows = [
        json.loads(line) | {"id": f"{EVIL}{n}"}
        for n, line in enumerate(data.read_text().splitlines())
    ]
    data.write_text("".join(json.dumps(row) + "\n" for row in rows))
    config, run = folder / "study.yaml", folder / "again/study"
    commands: list[list[object]] = [
        ["check", config],
        ["check", config, f"a.{EVIL}=1"],
        ["view", run, "--sample", EVIL],
    ]
    commands += [
        ["run", config, "--out", folder / "again", "--only-cached"],
        ["score", run, "--by", EVIL],
    ]
    for words, ended in zip(commands, looktwice_each(commands), strict=True):
        yield finding(
            "terminal",
            f"{words[0]} of hostile ids",
            f"exit {ended.code}",
            faults(ended, {0, 1, 2}),
            ended,
        )
