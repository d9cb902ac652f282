"""Every entry of a configuration: what it holds, what it is for, and an example, from which the
reference is written; and the top-level keys that extensions bring, with what these do to the plan
and to the run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, ClassVar, NotRequired

from pydantic import ConfigDict, Field
from typing_extensions import TypedDict

from looktwice.pipelines.config.classes import Faults
from looktwice.pipelines.config.spec import Arm
from looktwice.pipelines.extensions import find_extension, list_extensions

Node = dict[str, Any]
Nodes = dict[str, Node | None]
Words = str | list[str]
Entry = tuple[str, str]
"""What an entry is for, and an example as it stands in a file."""
CLOSED = ConfigDict(extra="forbid")


class Needs(TypedDict, total=False):
    """What must be there for a contestant to take part, beside what its model says itself that it
    needs."""

    __pydantic_config__ = CLOSED  # type: ignore[misc]
    env: Annotated[
        Words | None,
        "Environment variables that must be set, one or a list; `A|B` means one of the two.",
        "env: OPENAI_API_KEY|OPENAI_BASE_URL",
    ]
    file: Annotated[
        Words | None,
        "Files or folders that must be there, one or a list.",
        "file: data/replies.jsonl",
    ]


class Contestant(TypedDict, total=False):
    """An overlay of the file by name."""

    __pydantic_config__ = CLOSED  # type: ignore[misc]
    stages: Annotated[
        Nodes,
        "Slots that this contestant changes, adds or drops; the file's others stay.",
        "stages: {mark: {radius: 20}, think: null}",
    ]
    replace: Annotated[
        bool,
        "Whether `stages` stand alone; without it they are laid over the file's.",
        "replace: true",
    ]
    model: Annotated[
        str | Node | None,
        "The model that it asks: a name under `models`, or a node.",
        "model: chat",
    ]
    only: Annotated[
        list[str], "The tasks that it is given; without it, all of them.", "only: [jigsaw]"
    ]
    needs: Annotated[
        Needs | None,
        "What must be there for it to take part; else it is left out, and the run says so.",
        "needs: {env: OPENAI_API_KEY}",
    ]
    read: Annotated[Node, "The reader of its replies.", "read: {use: eval.readers.BlinkOfficial}"]
    draws: Annotated[
        int,
        Field(ge=1, le=9_999),
        "How often it answers each sample, in place of the file's `draws`.",
        "draws: 5",
    ]


class Published(TypedDict):
    """What others published of one contestant, in percent by task, and where it stands: shown
    beside, never run."""

    __pydantic_config__ = CLOSED  # type: ignore[misc]
    source: Annotated[str, "Where the numbers stand.", "source: Table 3 of the paper"]
    accuracy: Annotated[
        dict[str, float],
        "Percent by the name of the task in this file, by `task.metric`, or by the metric of a"
        " total.",
        "accuracy: {depth: 59.7, blink_macro: 51.1}",
    ]
    people: Annotated[
        NotRequired[bool],
        "Whether these are people; every table then compares with them.",
        "people: true",
    ]
    split: Annotated[
        NotRequired[str],
        "The split they are of: beside a run on another one, the row says so and is compared"
        " with nothing.",
        "split: test",
    ]
    n: Annotated[
        NotRequired[dict[str, int]],
        "Of how many questions each number is, by the same names: then the run is compared with"
        " it as with another sample.",
        "n: {depth: 124}",
    ]


class StudyConfig(TypedDict, total=False):
    """A whole configuration, its includes already laid below it."""

    __pydantic_config__ = CLOSED  # type: ignore[misc]
    name: Annotated[
        str,
        "The name of the run's folder below `--out`; without it, the file's name.",
        "name: depth_markers",
    ]
    note: Annotated[
        str,
        "A remark for whoever reads the file; nothing depends on it.",
        "note: pilot of the marker study",
    ]
    plugins: Annotated[
        list[str],
        "Packages or .py files whose classes `use:` may name, as after `--plugin`; a path counts"
        " from this file's folder. The first run asks before it loads them.",
        "plugins: [my_stages.py]",
    ]
    task: Annotated[
        Node | None,
        "The only task; its name in tables is its `name` or `kind`, or `task`.",
        "task: {use: eval.tasks.Photos, kind: jigsaw}",
    ]
    tasks: Annotated[
        Nodes | None,
        "Tasks by name, in place of `task`; null drops one.",
        "tasks: {mine: {use: eval.tasks.Folder, path: questions}}",
    ]
    model: Annotated[
        str | Node | None,
        "The model that stages ask: a node, or a name under `models`; "
        "a model that stands alone under `models` need not be named.",
        "model: {use: pipelines.models.ChatAPI, model: some-vlm}",
    ]
    models: Annotated[
        Nodes | None,
        "Models by name, for `model`, for contestants, and for `{ref: NAME}` in a setting.",
        "models: {chat: {use: pipelines.models.ChatAPI, model: some-vlm}}",
    ]
    prices: Annotated[
        dict[str, dict[str, Any]] | None,
        "A price list: the `prices` of every `ChatAPI` that has none, by the `model` that it"
        " asks for; a file of its own that studies include keeps them in one place.",
        "prices: {some-vlm: {in: 2.5, out: 10, currency: USD, date: 2026-08-01, source: its"
        " price page}}",
    ]
    stages: Annotated[
        Nodes | None,
        "Named slots that are called in order, each a stage; null drops one.",
        "stages: {mark: {use: prompting.markers.Circles}, ask: {use: prompting.turns.Ask}}",
    ]
    read: Annotated[
        Node | None,
        "The reader that finds the answer in a reply; without it, `eval.readers.Robust`.",
        "read: {use: eval.readers.Strict}",
    ]
    seed: Annotated[
        int, "The seed of every random choice that a stage makes; 0 without it.", "seed: 1"
    ]
    draws: Annotated[
        int,
        Field(ge=1, le=9_999),
        "How often every sample is answered; 1 without it. Above temperature 0 the answers may"
        " differ.",
        "draws: 5",
    ]
    sweep: Annotated[
        dict[str, Annotated[list[Any], Field(min_length=1)]] | None,
        "Values by place; every combination of them is an arm.",
        "sweep: {stages.mark.radius: [5, 10], stages.mark.color: [red, white]}",
    ]
    each: Annotated[
        list[Node] | None,
        "Changes that are made one at a time: the file as it is, then each entry alone is an arm.",
        "each: [{stages.think: null}, {stages.mark.color: gray}]",
    ]
    contestants: Annotated[
        dict[str, Contestant | None] | None,
        "Named variants of the file; without it, there is one, `plain`. Null drops one.",
        "contestants: {plain: {}, unmarked: {stages: {mark: null}}}",
    ]
    baseline: Annotated[
        str | None,
        "The contestant that all others are compared with; without it, the first.",
        "baseline: plain",
    ]
    published: Annotated[
        dict[str, Published] | None,
        "Numbers that others published, by name; shown beside the results, never run.",
        'published: {paper: {source: "Table 3", accuracy: {depth: 59.7}}}',
    ]


WORDS: Mapping[str, Entry] = {
    "use": (
        "The class of a node, `folder.room.Class` or, of a plugin, `file.Class`; the other keys are"
        " its settings. Over a node with another `use` it replaces the whole node; with the same"
        " one, or none, settings are merged.",
        "mark: {use: prompting.markers.Circles, radius: 5}",
    ),
    "ref": (
        "A model of `models`, where a setting of a stage wants a model.",
        "captioner: {ref: chat}",
    ),
    "before": (
        "The slot before which a slot of an overlay stands.",
        "zoom: {use: prompting.views.ZoomOnMarks, before: ask}",
    ),
    "after": (
        "The slot after which a slot of an overlay stands.",
        "think: {use: prompting.wording.ChainOfThought, after: mark}",
    ),
    "include": (
        "Configurations, one or a list, that lie below this file as if it were laid over them; at"
        " the top alone.",
        "include: quickstart.yaml",
    ),
    "null": ("Drops what stands here: a slot, a task, a model, a contestant.", "mark: null"),
    "${...}": (
        "The value at another place of the configuration, overrides included.",
        'path: "${tasks.depth.path}"',
    ),
}
"""The words with a meaning of their own in an overlay, whatever node they stand in: what each does,
and an example."""


class Key:
    """A key of a study; every method does nothing unless a subclass writes it.

    `schema` is the type of its value, as pydantic checks it; `about` says what it is for, and
    `example` shows it as it stands in a file. `plan` is the `Plan` of the study.
    """

    schema: ClassVar[Any] = dict
    about: ClassVar[str] = ""
    example: ClassVar[str] = ""

    def expand(self, value: Any, config: dict[str, Any], faults: Faults) -> dict[str, Any]:
        """The configuration that the key stands for; what cannot be done is noted in `faults`."""
        return config

    def add_arms(self, value: Any, arms: Sequence[Arm], faults: Faults) -> Sequence[Arm]:
        """Arms in addition to those of the contestants, without ids."""
        return ()

    def warn(self, value: Any, plan: Any, first: int) -> Iterator[str]:
        """What `check` says of the first samples of each task."""
        yield from ()

    def companion(self, value: Any, plan: Any) -> Any:
        """What goes along with the run, an `eval.runs.Companion`; or None."""
        return None


def keys_in(config: Mapping[str, Any]) -> dict[str, Key]:
    """The keys of extensions that a configuration has, by name; `null` drops one."""
    keys = dict[str, Key]()
    for name, value in config.items():
        if name in StudyConfig.__annotations__ or value is None:
            continue
        if extension := find_extension("keys", name):
            keys[name] = extension.open()()
    return keys


def all_keys() -> dict[str, Key]:
    """The keys of all extensions, by name."""
    return {name: extension.open()() for name, extension in list_extensions("keys").items()}
