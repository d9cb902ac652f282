"""What each difference between two sides' requests is worth: the requests of one are asked again
with one factor of the other at a time, as arms of a study."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from string import ascii_uppercase
from typing import Any

from looktwice.eval.readers.robust import Robust
from looktwice.eval.runs.from_python import evaluate
from looktwice.eval.tasks.base import Facts, TaskError
from looktwice.extras.logs.compare import LogComparison, compare_logs
from looktwice.extras.logs.format import read_logs
from looktwice.extras.logs.own import row_reader
from looktwice.extras.sent.factors import SentComparison, compare_sent
from looktwice.extras.sent.requests import Request, key_text, pair_requests, read_requests
from looktwice.extras.sent.swaps import NotAlone, Swap
from looktwice.pipelines.config.build import Binder
from looktwice.pipelines.config.classes import ConfigError
from looktwice.pipelines.config.load import read_config, resolve
from looktwice.pipelines.config.paths import ask_once
from looktwice.pipelines.config.spec import digest
from looktwice.pipelines.model import Message, Model, message_json
from looktwice.pipelines.sample import Item, Sample
from looktwice.pipelines.state import State

MINE, THEIRS = "", "all"
"""The factors of the arms that ask as one side did."""


@dataclass(frozen=True)
class TwoSides:
    """Two sides by their paths and contestants; `labels` is a log with the
    keys of their questions."""

    mine: Path
    theirs: Path
    names: tuple[str, str]
    labels: Path | None = None

    @cached_property
    def comparison(self) -> SentComparison:
        """What differs."""
        (base,), (rival,) = (
            [side for side in read_requests(path) if side.contestant == name]
            for path, name in zip((self.mine, self.theirs), self.names, strict=True)
        )
        return compare_sent(base, rival)

    @cached_property
    def swaps(self) -> dict[str, Swap]:
        """The pairs of requests by the sample of the first."""
        base, rival = self.comparison.base.requests, self.comparison.rival.requests
        return {
            base[row].sample: Swap(base[row], rival[column])
            for row, column in self.comparison.pairing.pairs
        }


@dataclass(frozen=True)
class SentQuestions:
    """The questions that two sides asked, as the first of them worded and encoded them.

    A key is that of either side, or of `sides.labels`, by the text of its choice. Where none is
    known, it is the answer that the first side got, so that right means the same answer.
    """

    sides: TwoSides

    @property
    def facts(self) -> Facts:
        """What the keys are."""
        return Facts("sent", "keys" if self.keys[1] else "the answers of the first side")

    def __len__(self) -> int:
        return len(self.sides.swaps)

    def __iter__(self) -> Iterator[Item]:
        """A question for each pair."""
        keys, _ = self.keys
        for name, swap in self.sides.swaps.items():
            mine = swap.mine
            sample = Sample(name, mine.asked.text, mine.pictures, mine.choices)
            yield Item(sample, keys.get(name))

    @cached_property
    def keys(self) -> tuple[dict[str, str], bool]:
        """The key of each sample, and whether these are keys, and not the answers of the first
        side."""
        swaps = self.sides.swaps
        keys = dict[str, str]()
        for name, swap in swaps.items():
            keys[name] = _letter(swap.mine.key or swap.theirs.key, swap.mine)
        if self.sides.labels is not None:
            mine = [swap.mine for swap in swaps.values()]
            labelled = _labelled(self.sides.labels)
            for row, column in pair_requests(mine, labelled).pairs:
                keys[mine[row].sample] = _letter(labelled[column].key, mine[row])
        is_key = any(keys.values())
        if not is_key:
            read = row_reader(Robust())
            for name, swap in swaps.items():
                replied = {
                    "sample": name,
                    "task": "",
                    "question": swap.mine.asked.text,
                    "choices": swap.mine.choices,
                    "reply": swap.mine.reply,
                    "key": "A",
                }
                keys[name] = read(replied)["answer"]
        return {name: key for name, key in keys.items() if key}, is_key


def _labelled(path: Path) -> list[Request]:
    """The requests, or the words of the questions, to which a log knows the keys."""
    requests = list[Request]()
    try:
        for side in read_requests(path):
            requests += side.requests
    except TaskError:  # it keeps no messages
        for log in read_logs(path):
            for row in log.whole.rows.to_dict("records"):
                turns = (Message("user", (row["question"],)),)
                key = key_text(row["key"], row["choices"])
                requests.append(Request(row["sample"], turns, key=key))
    return [request for request in requests if request.key]


def _letter(key: str, asked: Request) -> str:
    """A key, which is the text of a choice or a letter, as a letter of the choices that a request
    lists; empty where they do not hold it, and the key itself where it lists none."""
    if not (key and asked.choices):
        return key
    letters = ascii_uppercase[: len(asked.choices)]
    if key in asked.choices:
        return letters[asked.choices.index(key)]
    return key if key in letters else ""


@dataclass(frozen=True)
class AskAgain:
    """Sends the request of the first side again, with one `factor` of the second, or as the second
    side sent it where the factor is "all"."""

    sides: TwoSides
    factor: str = MINE

    def __call__(self, state: State, model: Model) -> State:
        """The state with the conversation and its reply. Raises NotAlone, ModelError."""
        swap = self.sides.swaps[state.sample.id]
        whole = {MINE: swap.mine, THEIRS: swap.theirs}
        again = whole.get(self.factor) or swap(self.factor)
        reply = model(again.messages, state.draw, again.options)
        sample, letters = state.sample, dict[str, str]()
        if again.choices and again.choices != sample.choices:
            if sorted(again.choices) != sorted(map(str, sample.choices)):
                raise NotAlone("the choices there have other texts, and the key may be another")
            own = dict(zip(map(str, sample.choices), sample.letters, strict=True))
            letters = {x: own[text] for x, text in zip(sample.letters, again.choices, strict=True)}
            sample = replace(sample, choices=again.choices)
        return state.replace(
            sample=sample, letters=letters, messages=(*again.messages, reply.as_message())
        )


@dataclass(frozen=True)
class Worth:
    """What the differences are worth: contrasts with the first side as asked again, and which
    factors could not be swapped alone, and why. `keyed` says whether right means right, and not the
    same answer."""

    compared: LogComparison
    left_out: dict[str, str]
    keyed: bool
    questions: int


def measure_worth(sides: TwoSides, model: Model, out: Path, names: tuple[str, str]) -> Worth:
    """Ask the model the requests of the first side, these with one factor of the second at a time,
    and those of the second, and compare them on the same questions; `names` tell the two sides. The
    run, in a folder that is named `out` and after what both sent, is resumed."""
    task = SentQuestions(sides)
    sent_by_both = [
        [[message_json(message) for message in request.messages], dict(request.settings)]
        for swap in sides.swaps.values()
        for request in (swap.mine, swap.theirs)
    ]
    out = out.with_name(f"{out.name}-{digest([sent_by_both, task.keys[0]])[:8]}")
    factors, left_out = list[str](), dict[str, str]()
    for difference in sides.comparison.differences:
        swap = sides.swaps[difference.examples[0].sample]
        try:
            swap(difference.factor)
            factors.append(difference.factor)
        except NotAlone as exc:
            left_out[difference.factor] = str(exc)
    single = {f"with the {factor}": AskAgain(sides, factor) for factor in factors}
    first, last = {f"as {names[0]}": AskAgain(sides)}, {f"as {names[1]}": AskAgain(sides, THEIRS)}
    arms = first | single | last
    evaluate(task, arms, model, out=out)
    return Worth(compare_logs(read_logs(out)), left_out, task.keys[1], len(task))


@ask_once()
def build_asked(node: str, plugins: Sequence[str]) -> Model:
    """The model of a node such as `{use: pipelines.models.ChatAPI, model: NAME}`, the name of a
    class, or the first of `models:` in a YAML file. Raises ConfigError."""
    source: Any = Path(node) if node.endswith((".yaml", ".yml")) else {}
    text = node if node.startswith("{") else f"{{use: {node}}}"
    overrides = [] if source else [f"models.asked={text}"]
    config, scope, faults = read_config(source, overrides, plugins)
    config = resolve({**config, "models": config.get("models") or {}}, faults)
    models = {"model": config["model"]} if config.get("model") else config["models"]
    if not models:
        faults.append(f"--ask {node}: it names no model under `models:`")
        raise ConfigError(faults)
    name, chosen = next(iter(models.items()))
    binder = Binder(scope, models, faults)
    made: Model = binder.node(chosen, f"models.{name}", "model")
    if binder.faults:
        raise ConfigError(binder.faults)
    return made
