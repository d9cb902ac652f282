"""The schema of a configuration: every entry with its type, purpose and example, from which the
reference is generated; and the interface of top-level keys that extensions add."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, ClassVar, NotRequired

from pydantic import ConfigDict, Field
from typing_extensions import TypedDict

from looktwice.pipelines.config.classes import Faults
from looktwice.pipelines.config.spec import Arm
from looktwice.pipelines.extensions import list_extensions

Node = dict[str, Any]
Nodes = dict[str, Node | None]
Names = str | list[str]
Entry = tuple[str, str]
"""The purpose of an entry, and an example as written in a file."""
FORBID_EXTRA = ConfigDict(extra="forbid")


class Needs(TypedDict, total=False):
    """Requirements of a contestant, in addition to those of its model."""

    __pydantic_config__ = FORBID_EXTRA  # type: ignore[misc]
    env: Annotated[
        Names | None,
        "Environment variables that must be set, one or a list; `A|B` means either of the two.",
        "env: OPENAI_API_KEY|OPENAI_BASE_URL",
    ]
    file: Annotated[
        Names | None, "Files or folders that must exist, one or a list.", "file: data/replies.jsonl"
    ]


class Contestant(TypedDict, total=False):
    """A named overlay of the file."""

    __pydantic_config__ = FORBID_EXTRA  # type: ignore[misc]
    stages: Annotated[
        Nodes,
        "Slots that this contestant changes, adds or drops; the file's other slots stay.",
        "stages: {mark: {radius: 20}, think: null}",
    ]
    replace: Annotated[
        bool,
        "Whether `stages` replace the file's stages; by default, they are overlaid on them.",
        "replace: true",
    ]
    model: Annotated[
        str | Node | None,
        "The contestant's model: a name under `models`, or a node.",
        "model: chat",
    ]
    only: Annotated[
        list[str], "The tasks that the contestant answers; by default, all.", "only: [jigsaw]"
    ]
    needs: Annotated[
        Needs | None,
        "The contestant's requirements; if one is not met, the run leaves it out and reports why.",
        "needs: {env: OPENAI_API_KEY}",
    ]
    read: Annotated[
        Node, "The reader of the contestant's replies.", "read: {use: eval.readers.BlinkOfficial}"
    ]
    draws: Annotated[
        int,
        Field(ge=1, le=9_999),
        "How often the contestant answers each sample, instead of the file's `draws`.",
        "draws: 5",
    ]


class Published(TypedDict):
    """Published results of one contestant, in percent by task, with their source. They are shown
    next to the results and never run."""

    __pydantic_config__ = FORBID_EXTRA  # type: ignore[misc]
    source: Annotated[str, "Where the numbers were published.", "source: Table 3 of the paper"]
    accuracy: Annotated[
        dict[str, float],
        "Percentages, each under the name of a task in this file, under `task.metric`, or under"
        " the metric of a total.",
        "accuracy: {depth: 59.7, blink_macro: 51.1}",
    ]
    people: Annotated[
        NotRequired[bool],
        "Whether the answers are those of people; if so, every table compares with them.",
        "people: true",
    ]
    split: Annotated[
        NotRequired[str],
        "The split to which the numbers apply; if the run uses another one, the row says so and is"
        " not compared.",
        "split: test",
    ]
    n: Annotated[
        NotRequired[dict[str, int]],
        "The number of questions behind each percentage, under the same keys as in `accuracy`;"
        " the run is then compared with it as with an independent sample.",
        "n: {depth: 124}",
    ]


class StudyConfig(TypedDict, total=False):
    """A complete configuration, with its includes merged."""

    __pydantic_config__ = FORBID_EXTRA  # type: ignore[misc]
    name: Annotated[
        str,
        "The name of the run's folder below `--out`; by default, the file's name.",
        "name: depth_markers",
    ]
    note: Annotated[
        str,
        "A remark for readers of the file; it has no effect.",
        "note: pilot of the marker study",
    ]
    plugins: Annotated[
        list[str],
        "Packages or .py files whose classes `use:` may name, as with `--plugin`; a path is"
        " relative to this file's folder. The first run asks before it loads them.",
        "plugins: [my_stages.py]",
    ]
    task: Annotated[
        Node | None,
        "The only task; its name in tables is its `name` or `kind`, else `task`.",
        "task: {use: eval.tasks.Photos, kind: jigsaw}",
    ]
    tasks: Annotated[
        Nodes | None,
        "Tasks by name, instead of `task`; null drops one.",
        "tasks: {mine: {use: eval.tasks.Folder, path: questions}}",
    ]
    model: Annotated[
        str | Node | None,
        "The model that stages ask: a node, or a name under `models`; if `models` holds only one,"
        " it need not be named.",
        "model: {use: pipelines.models.ChatAPI, model: some-vlm}",
    ]
    models: Annotated[
        Nodes | None,
        "Models by name, for `model`, for contestants, and for `{ref: NAME}` in a setting.",
        "models: {chat: {use: pipelines.models.ChatAPI, model: some-vlm}}",
    ]
    prices: Annotated[
        dict[str, dict[str, Any]] | None,
        "A price list for models without `prices`, by their `model` setting; studies can share a"
        " list by including its file.",
        "prices: {some-vlm: {in: 2.5, out: 10, currency: USD, date: 2026-08-01, source: its"
        " price page}}",
    ]
    stages: Annotated[
        Nodes | None,
        "Named slots, called in order, each a stage; null drops one.",
        "stages: {mark: {use: prompting.markers.Circles}, ask: {use: prompting.turns.Ask}}",
    ]
    read: Annotated[
        Node | None,
        "The reader that finds the answer in a reply; by default, `eval.readers.Robust`.",
        "read: {use: eval.readers.Strict}",
    ]
    seed: Annotated[
        int, "The seed of every random choice that a stage makes; by default, 0.", "seed: 1"
    ]
    draws: Annotated[
        int,
        Field(ge=1, le=9_999),
        "How often every sample is answered; by default, once. Above temperature 0 the answers"
        " may differ.",
        "draws: 5",
    ]
    sweep: Annotated[
        dict[str, Annotated[list[Any], Field(min_length=1)]] | None,
        "Lists of values, by dotted path; every combination of the values is an arm.",
        "sweep: {stages.mark.radius: [5, 10], stages.mark.color: [red, white]}",
    ]
    each: Annotated[
        list[Node] | None,
        "Changes made one at a time: one arm for the file as it is, then one for each entry.",
        "each: [{stages.think: null}, {stages.mark.color: gray}]",
    ]
    contestants: Annotated[
        dict[str, Contestant | None] | None,
        "Pipelines to compare, each an overlay of the file; by default, `plain`. Null drops one.",
        "contestants: {plain: {}, unmarked: {stages: {mark: null}}}",
    ]
    baseline: Annotated[
        str | None,
        "The contestant that all others are compared with; by default, the first.",
        "baseline: plain",
    ]
    published: Annotated[
        dict[str, Published] | None,
        "Published numbers, by name; shown next to the results, never run.",
        'published: {paper: {source: "Table 3", accuracy: {depth: 59.7}}}',
    ]


SPECIAL_KEYS: Mapping[str, Entry] = {
    "use": (
        "The class of a node, `folder.room.Class` or, from a plugin, `file.Class`; the other keys"
        " are its settings. In an overlay, another `use` replaces the whole node; the same one, or"
        " none, merges the settings.",
        "mark: {use: prompting.markers.Circles, radius: 5}",
    ),
    "ref": (
        "The name of a model under `models`, for a stage setting that takes a model.",
        "captioner: {ref: chat}",
    ),
    "before": (
        "The slot before which a slot of an overlay is inserted.",
        "zoom: {use: prompting.views.ZoomOnMarks, before: ask}",
    ),
    "after": (
        "The slot after which a slot of an overlay is inserted.",
        "think: {use: prompting.wording.ChainOfThought, after: mark}",
    ),
    "include": (
        "A configuration, or a list of them, that this file extends; only at the top level.",
        "include: quickstart.yaml",
    ),
    "null": ("Drops an entry: a slot, a task, a model, a contestant.", "mark: null"),
    "${...}": (
        "The value at another dotted path of the configuration, after overrides.",
        'path: "${tasks.depth.path}"',
    ),
}
"""Keys and values with a special meaning in any node: the purpose and an example of each."""


class Key:
    """A top-level key that an extension adds to studies; its methods do nothing by default.

    `schema` is the type of its value, which pydantic checks; `about` states its purpose, and
    `example` shows it as written in a file. `plan` is the `Plan` of the study.
    """

    schema: ClassVar[Any] = dict
    about: ClassVar[str] = ""
    example: ClassVar[str] = ""

    def expand(self, value: Any, config: dict[str, Any], faults: Faults) -> dict[str, Any]:
        """Return the configuration with the key applied, and note any `faults`."""
        return config

    def add_arms(self, value: Any, arms: Sequence[Arm], faults: Faults) -> Sequence[Arm]:
        """Return further arms, without ids, in addition to those of the contestants."""
        return ()

    def warn(self, value: Any, plan: Any, first: int) -> Iterator[str]:
        """Yield the warnings that `check` prints about the first samples of each task."""
        yield from ()

    def make_companion(self, value: Any, plan: Any) -> Any:
        """Return a companion of the run, an `eval.runs.Companion`, or None."""
        return None


def list_keys() -> dict[str, Key]:
    """Return the keys of all extensions, by name."""
    return {name: extension.open()() for name, extension in list_extensions("keys").items()}
