"""What the files of a run folder must hold: types are checked once, where a line or a file is
read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from looktwice.pipelines.config.yaml_input import LOADER, check_yaml
from looktwice.pipelines.disk import read_file
from looktwice.pipelines.json_input import MOST_DEPTH, read_json
from looktwice.pipelines.model import REPLY, TOOL_CALL, first_non_finite
from looktwice.pipelines.shapes import (
    Shape,
    anything,
    fields as shape_of,
    flag,
    is_not,
    json_reader,
    list_of,
    mapping_of,
    maybe,
    number,
    quickly,
    text,
    whole,
    whole_in,
)


class RunError(ValueError):
    """A run folder that cannot be read or resumed; the message says what was found and what to
    type."""


MOST_DRAWS = 10_000
"""Scoring holds a place for every draw of a sample."""


def choice(value: Any) -> str:
    """A text, or a picture by its sha256."""
    return "" if type(value) is str else PICTURE(value)


MAPPING, TEXTS, WHOLES = mapping_of(anything), list_of(text), list_of(whole)
"""Made once: `shapes` remembers every shape that is made."""


def finite(value: Any) -> str:
    """Whatever holds no number that JSON does not know."""
    found = first_non_finite({"": value})
    return f"{found[0]} is {found[1]}, not a number" if found else ""


def version(value: Any) -> str:
    """A version, or those of several shards."""
    return "" if type(value) is str else TEXTS(value)


def pair(value: Any) -> str:
    """A shard: its number, and of how many."""
    return WHOLES(value) or ("" if len(value) == 2 else is_not(value, "two whole numbers"))


def measure(value: Any) -> str:
    """A number, a category or nothing, or a list of these."""
    one = (str, int, float, type(None))
    fine = type(value) in one or (type(value) is list and all(type(each) in one for each in value))
    return "" if fine else is_not(value, "a number, a text or a list of these")


quickly(choice, "str")
quickly(finite, "str", "int", "float", "bool", "none")
quickly(measure, "int", "float", "str", "none")
MEASURED = maybe(number)
"""A number that JSON does not know is written as null."""
PICTURE = shape_of({"picture": text})
MARK = shape_of(
    {},
    {
        "label": text,
        "image": whole,
        **dict.fromkeys(("x", "y", "x0", "y0", "x1", "y1"), MEASURED),
        **dict.fromkeys(("size", "counts"), list_of(whole)),
    },
)
CALL = shape_of(
    {"messages": list_of(text)},
    {
        "draw": whole,
        "options": mapping_of(anything),
        "reply": maybe(REPLY),
        "error": text,
        "model": text,
    },
)
MESSAGE = shape_of(
    {"role": text, "parts": list_of(choice)}, {"tool_calls": list_of(TOOL_CALL), "call_id": text}
)
TIMED = shape_of({}, {"seconds": MEASURED, "cached": flag}, more=True)
TIMINGS = shape_of(
    {}, {"total": MEASURED, "stages": mapping_of(MEASURED), "calls": list_of(TIMED)}, more=True
)
SENT = shape_of(
    {"sha": text},
    {"bytes": whole, "type": text, "width": whole, "height": whole, "note": text},
    more=True,
)
RECORD = shape_of(
    {"point": text, "sample": text, "sample_sha": text, "v": whole},
    {
        "draw": whole_in(0, MOST_DRAWS),
        "answer": maybe(text),
        "reason": text,
        "confidence": MEASURED,
        "error": text,
        "calls": list_of(CALL),
        "pictures": list_of(text),
        "marks": maybe(list_of(MARK)),
        "notes": list_of(text),
        "timings": TIMINGS,
        "sent": list_of(SENT),
        "choices": maybe(list_of(choice)),
        "letters": maybe(mapping_of(text)),
        "measured": maybe(mapping_of(measure)),
    },
)
QUESTION = {
    "id": text,
    "question": text,
    "images": list_of(text),
    "choices": list_of(choice),
    "marks": list_of(MARK),
}
SAMPLE = shape_of(
    {
        "task": text,
        "sha": text,
        "answer": maybe(text),
        "sample": shape_of({**QUESTION, "meta": mapping_of(finite)}),
    },
    {"truth": mapping_of(finite)},
)
JUDGEMENT = shape_of(
    {name: text for name in ("kind", "point", "sample", "judge", "identity", "words")}
    | {"draw": whole_in(0, MOST_DRAWS), "v": whole},
    {
        "asked": whole,
        "answer": maybe(text),
        "scores": mapping_of(number),
        **dict.fromkeys(("none", "cached"), flag),
        **dict.fromkeys(("reason", "error", "said"), text),
        **dict.fromkeys(("tokens_in", "tokens_out"), whole),
    },
)
NODE = shape_of({}, {"use": text}, more=True)
SPEC = shape_of({}, {"stages": mapping_of(anything), "task": anything}, more=True)
FACTS_OF_TASK = shape_of(
    {},
    {
        "scorer": maybe(NODE),
        **dict.fromkeys(("split", "label_version", "note", "revision"), maybe(text)),
        **dict.fromkeys(("errata", "left_out"), maybe(list_of(text))),
    },
    more=True,
)
CONFIG = shape_of(
    {},
    {
        **dict.fromkeys(
            ("sweep", "contestants", "models", "stages", "fragility", "thresholds"),
            maybe(mapping_of(anything)),
        ),
        "each": maybe(list_of(mapping_of(anything))),
        "published": maybe(
            mapping_of(
                shape_of(
                    {},
                    {
                        "accuracy": maybe(mapping_of(number)),
                        "people": maybe(flag),
                        "split": maybe(text),
                    },
                    more=True,
                )
            )
        ),
    },
    more=True,
)
"""What score and report read of the configuration that a run was made from."""
POINTS = list_of(
    shape_of(
        {"id": text, "contestant": text, "task": text, "task_id": text},
        {
            "changes": mapping_of(anything),
            "baseline": flag,
            "facts": FACTS_OF_TASK,
            "spec": SPEC,
            "read": NODE,
            "draws": whole_in(1, MOST_DRAWS),
            "seed": whole,
            "replies_of": text,
        },
    )
)
COUNTS = ("records", "failed", "tokens_in", "tokens_out")
SHARD = shape_of(
    {"folder": text, **dict.fromkeys(COUNTS, whole)},
    {"planned": mapping_of(whole), "started": maybe(text), "shard": maybe(pair)},
    more=True,
)
FACTS = shape_of(
    {},
    {
        **dict.fromkeys(("name", "started"), maybe(text)),
        "left_out": maybe(mapping_of(anything)),
        "config": maybe(CONFIG),
        "versions": maybe(mapping_of(version)),
        **dict.fromkeys(("samples", "planned"), maybe(mapping_of(whole))),
        "arms": maybe(list_of(text)),
        "plugins": maybe(list_of(shape_of({"name": text, "path": text}, {"sha": text}))),
        "limit": maybe(whole),
        "finished": flag,
        "shard": maybe(pair),
        "data": maybe(mapping_of(mapping_of(text))),
        "shards": maybe(list_of(SHARD)),
    },
    more=True,
)


def parse_line(line: bytes | str, shape: Shape) -> dict[str, Any]:
    """The mapping in a line of JSON. Raises ValueError with the first thing that is wrong."""
    try:
        return json_reader(shape)(line)  # type: ignore[no-any-return]
    except ValueError:  # the careful look says what is wrong
        said = line if isinstance(line, str) else line.decode()
    value: dict[str, Any] = require(
        read_json(said, most=None), shape
    )  # of a record, the writer bounds the length
    return value


def parse_yaml(path: Path, shape: Shape) -> Any:
    """What a YAML file holds; None where it is empty. Raises ValueError and YAMLError with what is
    wrong."""
    said = read_file(path).decode()
    check_yaml(said)
    value = yaml.load(said, Loader=LOADER)
    _refuse_unprintable(value)
    return None if value is None else require(value, shape)


def require(value: Any, shape: Shape) -> Any:
    """The value. Raises ValueError where it has another shape."""
    if fault := shape(value):
        raise ValueError(f"it{fault}" if fault[0] == " " else fault.removeprefix("."))
    return value


def _refuse_unprintable(value: Any, depth: int = 0) -> None:
    """Raises ValueError for half a surrogate pair in a text, and for what is nested too deep."""
    if isinstance(value, str):
        value.encode()
    if isinstance(value, list | dict):
        if depth == MOST_DEPTH:
            raise ValueError(f"nested more than {MOST_DEPTH} levels deep")
        for inner in (*value, *value.values()) if isinstance(value, dict) else value:
            _refuse_unprintable(inner, depth + 1)
