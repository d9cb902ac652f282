"""The effect of each difference between two sides' requests, measured by a study: each arm resends
one side's requests with one factor of the other side."""

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
from looktwice.extras.logs.own import make_row_reader
from looktwice.extras.request_diff.factors import RequestComparison, compare_requests
from looktwice.extras.request_diff.requests import (
    Request,
    get_key_text,
    pair_requests,
    read_requests,
)
from looktwice.extras.request_diff.swaps import InseparableFactor, Swap
from looktwice.pipelines.config.build import Binder
from looktwice.pipelines.config.classes import ConfigError
from looktwice.pipelines.config.load import read_config, resolve_references
from looktwice.pipelines.config.paths import ask_once
from looktwice.pipelines.config.spec import digest
from looktwice.pipelines.model import Message, Model, make_message_json
from looktwice.pipelines.sample import Item, Sample
from looktwice.pipelines.state import State

NO_FACTOR, ALL_FACTORS = "", "all"
"""The values of `factor` for the arms that send the first or the second side's requests
unchanged."""


@dataclass(frozen=True)
class TwoSides:
    """Two logs or runs whose requests are compared: their paths and contestants (`names`);
    `labels` is a log with the correct answers."""

    mine: Path
    theirs: Path
    names: tuple[str, str]
    labels: Path | None = None

    @cached_property
    def comparison(self) -> RequestComparison:
        """The comparison of the two sides' requests."""
        (base,), (rival,) = (
            [side for side in read_requests(path) if side.contestant == name]
            for path, name in zip((self.mine, self.theirs), self.names, strict=True)
        )
        return compare_requests(base, rival)

    @cached_property
    def swaps(self) -> dict[str, Swap]:
        """The pairs of requests, by the sample of the first request."""
        base, rival = self.comparison.base.requests, self.comparison.rival.requests
        return {
            base[row].sample: Swap(base[row], rival[column])
            for row, column in self.comparison.pairing.pairs
        }


@dataclass(frozen=True)
class RequestQuestions:
    """The questions that both sides asked, with the wording and pictures of the first side.

    A key is taken from either side or from `sides.labels`, by the text of its choice. If none is
    known, the first side's answers serve as keys, so that "right" means "the same answer".
    """

    sides: TwoSides

    @property
    def facts(self) -> Facts:
        """The facts of the task, which state where the keys come from."""
        return Facts("sent", "keys" if self.keys[1] else "the answers of the first side")

    def __len__(self) -> int:
        return len(self.sides.swaps)

    def __iter__(self) -> Iterator[Item]:
        """Yield a question for each pair."""
        keys, _ = self.keys
        for name, swap in self.sides.swaps.items():
            mine = swap.mine
            sample = Sample(name, mine.last_user_turn.text, mine.pictures, mine.choices)
            yield Item(sample, keys.get(name))

    @cached_property
    def keys(self) -> tuple[dict[str, str], bool]:
        """The key of each sample, and whether the keys are correct answers (True) or the first
        side's answers (False)."""
        swaps = self.sides.swaps
        keys = dict[str, str]()
        for name, swap in swaps.items():
            keys[name] = _find_letter(swap.mine.key or swap.theirs.key, swap.mine)
        if self.sides.labels is not None:
            mine = [swap.mine for swap in swaps.values()]
            labelled = _read_labelled(self.sides.labels)
            for row, column in pair_requests(mine, labelled).pairs:
                keys[mine[row].sample] = _find_letter(labelled[column].key, mine[row])
        is_key = any(keys.values())
        if not is_key:
            read = make_row_reader(Robust())
            for name, swap in swaps.items():
                replied = {
                    "sample": name,
                    "task": "",
                    "question": swap.mine.last_user_turn.text,
                    "choices": swap.mine.choices,
                    "reply": swap.mine.reply,
                    "key": "A",
                }
                keys[name] = read(replied)["answer"]
        return {name: key for name, key in keys.items() if key}, is_key


def _read_labelled(path: Path) -> list[Request]:
    """Read the requests of a log that have keys; if it has no messages, read its questions."""
    requests = list[Request]()
    try:
        for side in read_requests(path):
            requests += side.requests
    except TaskError:  # the log keeps no messages
        for log in read_logs(path):
            for row in log.whole.rows.to_dict("records"):
                turns = (Message("user", (row["question"],)),)
                key = get_key_text(row["key"], row["choices"])
                requests.append(Request(row["sample"], turns, key=key))
    return [request for request in requests if request.key]


def _find_letter(key: str, asked: Request) -> str:
    """Convert a key (the text of a choice, or a letter) to the letter of that choice in a request.

    Return "" if the choices do not contain the key, and the key itself if the request lists no
    choices.
    """
    if not (key and asked.choices):
        return key
    letters = ascii_uppercase[: len(asked.choices)]
    if key in asked.choices:
        return letters[asked.choices.index(key)]
    return key if key in letters else ""


@dataclass(frozen=True)
class Resend:
    """A stage that resends the first side's request with one `factor` of the second side, or the
    second side's request if the factor is "all"."""

    sides: TwoSides
    factor: str = NO_FACTOR

    def __call__(self, state: State, model: Model) -> State:
        """Return the state with the conversation and its reply. Raises InseparableFactor,
        ModelError."""
        swap = self.sides.swaps[state.sample.id]
        unchanged = {NO_FACTOR: swap.mine, ALL_FACTORS: swap.theirs}
        request = unchanged.get(self.factor) or swap(self.factor)
        reply = model(request.messages, state.draw, request.options)
        sample, letters = state.sample, dict[str, str]()
        if request.choices and request.choices != sample.choices:
            if sorted(request.choices) != sorted(map(str, sample.choices)):
                raise InseparableFactor(
                    "the other side's choices have other texts, so its key may differ"
                )
            own = dict(zip(map(str, sample.choices), sample.letters, strict=True))
            letters = {
                x: own[text] for x, text in zip(sample.letters, request.choices, strict=True)
            }
            sample = replace(sample, choices=request.choices)
        return state.replace(
            sample=sample, letters=letters, messages=(*request.messages, reply.as_message())
        )


@dataclass(frozen=True)
class SwapEffects:
    """The effects of the differences: contrasts with the resent requests of the first side, and
    the factors that could not be swapped on their own, with the reason (`skipped_factors`).

    `has_correct_answers` is False if "right" means "the same answer as the first side".
    """

    comparison: LogComparison
    skipped_factors: dict[str, str]
    has_correct_answers: bool
    question_count: int


def measure_effects(
    sides: TwoSides, model: Model, out: Path, names: tuple[str, str]
) -> SwapEffects:
    """Send the model the first side's requests, the same requests with one factor of the second
    side at a time, and the second side's requests; compare the answers to the same questions.

    `names` are the names of the two sides. The run's folder is `out` with a digest of the requests
    appended, so an earlier run of the same requests is resumed.
    """
    task = RequestQuestions(sides)
    sent_by_both = [
        [[make_message_json(message) for message in request.messages], dict(request.settings)]
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
        except InseparableFactor as exc:
            left_out[difference.factor] = str(exc)
    single = {f"with the {factor}": Resend(sides, factor) for factor in factors}
    first, last = {f"as {names[0]}": Resend(sides)}, {f"as {names[1]}": Resend(sides, ALL_FACTORS)}
    arms = first | single | last
    evaluate(task, arms, model, out=out)
    return SwapEffects(compare_logs(read_logs(out)), left_out, task.keys[1], len(task))


@ask_once()
def build_model_to_ask(node: str, plugins: Sequence[str]) -> Model:
    """Build a model from a node such as `{use: pipelines.models.ChatAPI, model: NAME}`, from the
    name of a class, or from a YAML file, of which the first entry of `models:` is used. Raises
    ConfigError."""
    source: Any = Path(node) if node.endswith((".yaml", ".yml")) else {}
    text = node if node.startswith("{") else f"{{use: {node}}}"
    overrides = [] if source else [f"models.asked={text}"]
    config, scope, faults = read_config(source, overrides, plugins)
    config = resolve_references({**config, "models": config.get("models") or {}}, faults)
    models = {"model": config["model"]} if config.get("model") else config["models"]
    if not models:
        faults.append(f"--ask {node}: there is no model under `models:`")
        raise ConfigError(faults)
    name, chosen = next(iter(models.items()))
    binder = Binder(scope, models, faults)
    made: Model = binder.build_node(chosen, f"models.{name}", "model")
    if binder.faults:
        raise ConfigError(binder.faults)
    return made
