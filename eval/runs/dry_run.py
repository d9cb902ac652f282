"""Runs one sample through the stages of an arm with a scripted model, and counts from that what a
whole plan asks."""

from __future__ import annotations

import hashlib
import json
import sys
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from math import ceil
from typing import Any

from looktwice.eval.records.writer import describe_failure
from looktwice.eval.runs.options import Done
from looktwice.eval.tasks.base import MadeTask, checked_items
from looktwice.pipelines.config.classes import is_foreign
from looktwice.pipelines.config.plan import Plan
from looktwice.pipelines.config.spec import Arm, find_settings, public_path
from looktwice.pipelines.counted import counted, listed
from looktwice.pipelines.model import CallOptions, Messages, Model, Reply, name_of, request_key
from looktwice.pipelines.models.image_tokens import image_rule
from looktwice.pipelines.picture import PictureError
from looktwice.pipelines.pipeline import RecordingModel, execute
from looktwice.pipelines.runtime.stores import Blobs
from looktwice.pipelines.sample import Item, say_key_fault
from looktwice.pipelines.state import Call, State
from looktwice.prompting.turns.image_places import find_place

CHARACTERS = 4  # of a token of words, about
SECONDS = 2.0  # that counting requests, or looking at keys, takes, about
AGENT = "looktwice.prompting.agent.agent", "Agent"
NOTHING: Done = {}


def key_faults(plan: Plan, limit: int | None) -> Iterator[str]:
    """The first wrong key behind the first sample of each task of a plugin, as far as `SECONDS`
    reach; our own tasks refuse one where it is read."""
    begun = time.monotonic()
    for arm in {arm.task_id: arm for arm in plan.points}.values():
        if not is_foreign(public_path(type(arm.task))):
            continue
        for item in islice(checked_items(arm.task), 1, limit):
            if time.monotonic() - begun > SECONDS:
                break
            if wrong := say_key_fault(item.answer, len(item.sample.choices)):
                yield f"{arm.task_name}, sample {item.sample.id}: {wrong}; --all names all"
                break


class HashOnlyBlobs(Blobs):
    """Computes the sha256 of blobs without storing them."""

    def put(self, data: bytes, sha: str = "") -> str:
        """The sha256 of `data`."""
        return sha or hashlib.sha256(data).hexdigest()


@dataclass(frozen=True)
class StandIn:
    """Says "(A)" to everything in place of a model, under its identity; it refuses what the model
    would, where that has a method `refuse`."""

    model: Any

    @property
    def identity(self) -> str:
        """The identity of the model."""
        return str(getattr(self.model, "identity", "none"))

    def __call__(
        self, messages: Messages, draw: int = 0, options: CallOptions = CallOptions()
    ) -> Reply:
        """The one reply. Raises ModelError for options that the model knows not."""
        getattr(self.model, "refuse", lambda options: None)(options)
        return Reply("(A)")


@dataclass(frozen=True)
class Request:
    """What one request costs: tokens of words and of pictures, and at most `out` of the reply
    (None: no bound is set).

    `key` is that of the reply in the cache.
    """

    key: str
    model: Any
    pictures: int
    word_tokens: int
    picture_tokens: int
    out: int | None

    @classmethod
    def of(cls, call: Call, model: Any) -> Request:
        """The request of a call of this model. Raises PictureError."""
        options = call.options.filled_from(model)
        texts, sizes = [getattr(model, "system", "")], list[tuple[int, int]]()
        for turn in call.messages:
            texts += [turn.text, *(asked.arguments for asked in turn.tool_calls)]
            sizes += [view.size for view in turn.views]
        for tool in options.tools or ():
            texts.append(json.dumps([tool.name, tool.description, tool.parameters]))
        words = ceil(sum(map(len, texts)) / CHARACTERS)
        rule = image_rule(name_of(model), getattr(model, "detail", None))
        pictures = sum(map(rule.tokens, sizes))
        key = request_key(StandIn(model).identity, call.messages, call.draw, call.options)
        return cls(key, model, len(sizes), words, pictures, options.max_tokens)

    @property
    def price(self) -> float | None:
        """The list price with the longest reply, or of what is sent alone; None for a model without
        prices."""
        prices: Mapping[str, float] | None = getattr(self.model, "prices", None)
        if not prices:
            return None
        sent = (self.word_tokens + self.picture_tokens) * prices["in"]
        return (sent + (self.out or 0) * prices["out"]) / 1e6


@dataclass(frozen=True, eq=False)
class DryRun:
    """A sample behind the stages of an arm, what they asked, and `error`, which is why one
    failed."""

    arm: Arm
    item: Item
    state: State
    error: str
    requests: Sequence[Request]

    @property
    def calls(self) -> list[Call]:
        """The calls of all stages."""
        return [call for entry in self.state.trace for call in entry.calls]

    def losses(self) -> Iterator[str]:
        """What the model of each request cannot see of the views that it would be sent."""
        from looktwice.prompting.views.losses import say_lost_drawings
        from looktwice.prompting.views.seen import say_losses

        for call, request in zip(self.calls, self.requests, strict=False):
            sent = [view for message in call.messages for view in message.views]
            name = name_of(request.model)
            yield from say_losses(sent, self.state.sample.marks, name)
            yield from say_lost_drawings(self.state, self.arm.stages, sent, name)

    def unbounded(self) -> Iterator[str]:
        """The stages that may send more views in later turns than a budget of tokens bounds."""
        budget = "looktwice.prompting.views.resize", "TokenBudget"
        if not _holds(self.arm.stages, *budget):
            return
        for slot, stage in self.arm.stages.items():
            verifies = _holds(stage, "looktwice.prompting.turns.repeat", "Verify")
            later = verifies or _holds(stage, *AGENT)
            if later and not _holds(stage, *budget):
                fit = "; give it a TokenBudget as its `fit`" if verifies else ""
                yield (
                    f"stage {slot!r} may send more views in later turns, which TokenBudget does not"
                    f" bound{fit}"
                )

    def unplaced(self) -> str:
        """The first placeholder of an image that stands in the words which are sent with images;
        empty where none does."""
        turns = [message for call in self.calls for message in call.messages]
        if not any(message.views for message in turns):
            return ""
        return next(
            filter(None, (find_place(turn.text) for turn in turns if turn.role != "tool")), ""
        )


def warn_of_places(trials: Sequence[DryRun], limit: int | None) -> Iterator[str]:
    """A warning for each task in whose questions, as far as `SECONDS` reach, placeholders say where
    images stand, and the arms that send them as words."""
    tasks, begun = defaultdict[str, list[DryRun]](list), time.monotonic()
    for trial in trials:
        if not isinstance(trial.arm.task, MadeTask):
            tasks[trial.arm.task_id].append(trial)
    for alike in tasks.values():
        first = alike[0].arm
        for item in islice(checked_items(first.task), limit):
            if time.monotonic() - begun > SECONDS:
                return
            sample = item.sample
            asked = (sample.question, *sample.choices, sample.meta.get("prompt"))
            if not (sample.images and any(find_place(str(words)) for words in asked)):
                continue
            found = {trial.arm.contestant: try_arm(trial.arm, item).unplaced() for trial in alike}
            if names := [name for name, place in found.items() if place]:
                place = found[names[0]]
                yield (
                    f"warning: sample {sample.id} of {first.task_name} says {place} where an"
                    f" image stands; {listed(names, 3)} sends that as words, and the images apart"
                    " from them; `images: inline` of `prompting.turns.Ask` puts each in its place"
                )
            break


def try_arm(arm: Arm, item: Item) -> DryRun:
    """Run the sample through the stages of the arm; no model is called."""
    models = {"": arm.model}

    def stand_in(second: Model) -> Model:
        models[second.identity] = second
        return StandIn(second)

    recorder = RecordingModel(StandIn(arm.model), item.sample.id, wrap_second=stand_in)
    trial = execute(arm.stages, item.sample, arm.seed, 0, recorder)
    error = describe_failure(trial.error) if trial.error else ""
    tried = DryRun(arm, item, trial.state, error, ())
    try:
        requests = [Request.of(call, models[call.model]) for call in tried.calls]
    except PictureError as exc:
        # a model would be sent its bytes, which a stand-in does not look at
        return replace(tried, error=error or describe_failure(exc))
    return replace(tried, requests=requests)


@dataclass(frozen=True)
class Amount:
    """What several arms ask in all. `out` is None where a reply has no bound, `price` where no
    model has prices.

    `looks` says that an agent is among them, whose looks are not counted, as its model decides on
    them.
    """

    requests: int
    pictures: int
    word_tokens: int
    picture_tokens: int
    out: int | None
    price: float | None
    looks: bool

    def __str__(self) -> str:
        tokens = f"about {self.word_tokens + self.picture_tokens:,} tokens in"
        pictures = f" + {self.picture_tokens:,} of pictures" if self.pictures else ""
        bound = "at most " if self.out is not None and not self.looks else ""
        out = "unknown (no `max_tokens`)" if self.out is None else f"{bound}{self.out:,}"
        asked = f"{counted(self.requests, 'request')}, {counted(self.pictures, 'picture')}"
        sentence = f"{asked}, {tokens} ({self.word_tokens:,} of words{pictures}), out {out}"
        if self.price is not None:
            replies = " and the replies" if self.out is None else " with the longest replies"
            price = f"{self.price:,.2f}" if self.price >= 1 else f"{self.price:.2g}"
            sentence += f"; cost about {price}{'' if self.looks else replies}"
        return f"{sentence}, all without looks" if self.looks else sentence


def count_requests(
    trials: Iterable[DryRun], samples: Mapping[str, int], done: Done = NOTHING
) -> Amount:
    """What the arms of these trials ask over all samples (task id -> how many) and draws, without
    what is `done`.

    A request that several arms make of the same sample is counted once, as it is sent once.
    """
    asked: dict[tuple[str, str], tuple[int, set[tuple[str, int]], Request]] = {}
    looks = False
    for trial in trials:
        looks = looks or _holds(trial.arm.stages, *AGENT)
        task = trial.arm.task_id
        for request in trial.requests:
            most, answered, _ = asked.get((task, request.key), (0, set(), request))
            most = max(most, samples[task] * trial.arm.draws)
            asked[task, request.key] = most, answered | done.get(trial.arm.id, set()), request
    left = [(most - len(answered), request) for most, answered, request in asked.values()]
    left = [(number, request) for number, request in left if number > 0]

    def total(name: str) -> Any:
        return sum(number * (getattr(request, name) or 0) for number, request in left)

    return Amount(
        sum(number for number, _ in left),
        total("pictures"),
        total("word_tokens"),
        total("picture_tokens"),
        out=total("out") if all(request.out is not None for _, request in left) else None,
        price=total("price") if any(request.price is not None for _, request in left) else None,
        looks=looks,
    )


def _holds(stages: Any, module: str, name: str) -> bool:
    """Whether a class is among stages and their settings; a module that the plan has not opened is
    left alone."""
    opened = sys.modules.get(module)
    return opened is not None and any(find_settings(stages, getattr(opened, name)))


def announce_requests(
    plan: Plan, samples: Mapping[str, int], done: Done = NOTHING, cached: int = 0
) -> str:
    """What is said before a run that asks a server: how much it asks; empty where nothing is asked.

    What is `done` is left out; of the rest some may be among the `cached` replies. Arms with
    networks are left out, and those that are not tried within `SECONDS`: the run should begin.
    """
    asking = list[Arm]()
    for arm in plan.points:
        models = replace(plan, points=(arm,)).models
        if any(getattr(model, "remote", False) for model in models):
            asking.append(arm)
    if not any(samples[arm.task_id] * arm.draws > len(done.get(arm.id, ())) for arm in asking):
        return ""
    trials, items, begun = list[DryRun](), dict[str, Item](), time.monotonic()
    for arm in asking:
        slow = _holds(arm.stages, "looktwice.specialists.networks.network", "Network")
        if not slow and time.monotonic() - begun < SECONDS:
            items[arm.task_id] = items.get(arm.task_id) or next(checked_items(arm.task))
            trials.append(try_arm(arm, items[arm.task_id]))
    left, amount = len(asking) - len(trials), count_requests(trials, samples, done)
    if not (left or amount.requests):
        return ""
    sentence = f"about to ask {'up to ' if cached else ''}{amount}"
    if left:
        sentence += f", and what {counted(left, 'arm')} with slow stages ask{'s' * (left == 1)}"
    return f"{sentence}; what the cache holds is not asked again" if cached else sentence
