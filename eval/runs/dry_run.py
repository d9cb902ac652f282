"""Runs one sample through the stages of an arm with a scripted model, and from that estimates the
requests of a whole plan."""

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
from looktwice.eval.tasks.base import GeneratedTask, check_items
from looktwice.pipelines.config.classes import is_foreign
from looktwice.pipelines.config.plan import Plan
from looktwice.pipelines.config.spec import Arm, find_settings, get_public_path
from looktwice.pipelines.counted import format_count, format_list, format_number
from looktwice.pipelines.model import (
    CallOptions,
    Messages,
    Model,
    Reply,
    get_model_name,
    make_request_key,
)
from looktwice.pipelines.models.image_tokens import find_image_rule
from looktwice.pipelines.picture import PictureError
from looktwice.pipelines.pipeline import RecordingModel, run_stages
from looktwice.pipelines.runtime.stores import Blobs
from looktwice.pipelines.sample import Item, describe_key_fault
from looktwice.pipelines.state import Call, State
from looktwice.prompting.turns.image_places import find_placeholder

CHARACTERS_PER_TOKEN = 4  # of text, approximately
MAX_COUNT_SECONDS = 2.0  # for counting requests, or for checking correct answers, approximately
AGENT_CLASS = "looktwice.prompting.agent.agent", "Agent"
NOTHING_DONE: Done = {}


def find_key_faults(plan: Plan, limit: int | None) -> Iterator[str]:
    """Yield, for each plugin task, the next sample with invalid ground truth after its first
    sample, after at most `MAX_COUNT_SECONDS` of search. Built-in tasks reject such a sample when it
    is read."""
    begun = time.monotonic()
    for arm in {arm.task_id: arm for arm in plan.points}.values():
        if not is_foreign(get_public_path(type(arm.task))):
            continue
        for item in islice(check_items(arm.task), 1, limit):
            if time.monotonic() - begun > MAX_COUNT_SECONDS:
                break
            if wrong := describe_key_fault(item.answer, len(item.sample.choices)):
                yield f"{arm.task_name}, sample {item.sample.id}: {wrong}; --all lists all"
                break


class HashOnlyBlobs(Blobs):
    """A blob store that returns hashes and stores nothing."""

    def put(self, data: bytes, sha: str = "") -> str:
        """Return the sha256 of `data`."""
        return sha or hashlib.sha256(data).hexdigest()


@dataclass(frozen=True)
class StandIn:
    """A scripted model that replies "(A)" to everything under the identity of `model`, and rejects
    the options that `model.refuse` rejects."""

    model: Any

    @property
    def identity(self) -> str:
        """The identity of the model."""
        return str(getattr(self.model, "identity", "none"))

    def __call__(
        self, messages: Messages, draw: int = 0, options: CallOptions = CallOptions()
    ) -> Reply:
        """Return the reply "(A)". Raises ModelError for options that the model does not accept."""
        getattr(self.model, "refuse", lambda options: None)(options)
        return Reply("(A)")


@dataclass(frozen=True)
class RequestSize:
    """The size of one request: tokens of text and of pictures, and the largest number of reply
    tokens (`max_reply_tokens`; None if no limit is set).

    `key` identifies its reply in the cache.
    """

    key: str
    model: Any
    picture_count: int
    word_tokens: int
    picture_tokens: int
    max_reply_tokens: int | None

    @classmethod
    def from_call(cls, call: Call, model: Any) -> RequestSize:
        """Return the request that a call sends to this model. Raises PictureError."""
        options = call.options.fill_from(model)
        texts, sizes = [getattr(model, "system", "")], list[tuple[int, int]]()
        for turn in call.messages:
            texts += [turn.text, *(asked.arguments for asked in turn.tool_calls)]
            sizes += [view.size for view in turn.views]
        for tool in options.tools or ():
            texts.append(json.dumps([tool.name, tool.description, tool.parameters]))
        words = ceil(sum(map(len, texts)) / CHARACTERS_PER_TOKEN)
        rule = find_image_rule(get_model_name(model), getattr(model, "detail", None))
        pictures = sum(map(rule.count_tokens, sizes))
        key = make_request_key(StandIn(model).identity, call.messages, call.draw, call.options)
        return cls(key, model, len(sizes), words, pictures, options.max_tokens)

    @property
    def price(self) -> float | None:
        """The list price with the longest possible reply, or of the input alone if replies have no
        limit; None for a model without prices."""
        prices: Mapping[str, float] | None = getattr(self.model, "prices", None)
        if not prices:
            return None
        sent = (self.word_tokens + self.picture_tokens) * prices["in"]
        return (sent + (self.max_reply_tokens or 0) * prices["out"]) / 1e6


@dataclass(frozen=True, eq=False)
class DryRun:
    """A sample after the stages of an arm, the requests they made, and the `error` if a stage
    failed."""

    arm: Arm
    item: Item
    state: State
    error: str
    requests: Sequence[RequestSize]

    @property
    def calls(self) -> list[Call]:
        """The calls of all stages."""
        return [call for entry in self.state.trace for call in entry.calls]

    def find_losses(self) -> Iterator[str]:
        """Yield a sentence on each detail of the sent views that their model cannot see."""
        from looktwice.prompting.views.seen import describe_losses, describe_lost_drawings

        for call, request in zip(self.calls, self.requests, strict=False):
            sent = [view for message in call.messages for view in message.views]
            name = get_model_name(request.model)
            yield from describe_losses(sent, self.state.sample.marks, name)
            yield from describe_lost_drawings(self.state, self.arm.stages, sent, name)

    def find_unbounded_stages(self) -> Iterator[str]:
        """Name the stages that may send further views in later turns, which a token budget does not
        limit."""
        budget = "looktwice.prompting.views.resize", "TokenBudget"
        if not _contains_instance(self.arm.stages, *budget):
            return
        for slot, stage in self.arm.stages.items():
            verifies = _contains_instance(stage, "looktwice.prompting.turns.repeat", "Verify")
            later = verifies or _contains_instance(stage, *AGENT_CLASS)
            if later and not _contains_instance(stage, *budget):
                fit = "; give it a TokenBudget as its `fit`" if verifies else ""
                yield (
                    f"stage {slot!r} may send more views in later turns, which TokenBudget does not"
                    f" limit{fit}"
                )

    def find_stray_placeholder(self) -> str:
        """Return the first image placeholder that would be sent as plain text along with images;
        empty if there is none."""
        turns = [message for call in self.calls for message in call.messages]
        if not any(message.views for message in turns):
            return ""
        return next(
            filter(None, (find_placeholder(turn.text) for turn in turns if turn.role != "tool")), ""
        )


def warn_of_placeholders(trials: Sequence[DryRun], limit: int | None) -> Iterator[str]:
    """Warn of each task whose questions mark the places of images with placeholders, and name the
    arms that send these as text. Searches for at most `MAX_COUNT_SECONDS`."""
    tasks, begun = defaultdict[str, list[DryRun]](list), time.monotonic()
    for trial in trials:
        if not isinstance(trial.arm.task, GeneratedTask):
            tasks[trial.arm.task_id].append(trial)
    for alike in tasks.values():
        first = alike[0].arm
        for item in islice(check_items(first.task), limit):
            if time.monotonic() - begun > MAX_COUNT_SECONDS:
                return
            sample = item.sample
            asked = (sample.question, *sample.choices, sample.meta.get("prompt"))
            if not (sample.images and any(find_placeholder(str(words)) for words in asked)):
                continue
            found = {
                trial.arm.contestant: try_arm(trial.arm, item).find_stray_placeholder()
                for trial in alike
            }
            if names := [name for name, place in found.items() if place]:
                place = found[names[0]]
                yield (
                    f"warning: sample {sample.id} of {first.task_name} has the placeholder {place}"
                    f" for an image; {format_list(names, 3)} would send it as text, apart from the"
                    " images; `images: inline` of `prompting.turns.Ask` puts each image at its"
                    " placeholder"
                )
            break


def try_arm(arm: Arm, item: Item) -> DryRun:
    """Run the sample through the stages of the arm; no model is called."""
    models = {"": arm.model}

    def stand_in(second: Model) -> Model:
        models[second.identity] = second
        return StandIn(second)

    recorder = RecordingModel(StandIn(arm.model), item.sample.id, wrap_second=stand_in)
    trial = run_stages(arm.stages, item.sample, arm.seed, 0, recorder)
    error = describe_failure(trial.error) if trial.error else ""
    tried = DryRun(arm, item, trial.state, error, ())
    try:
        requests = [RequestSize.from_call(call, models[call.model]) for call in tried.calls]
    except PictureError as exc:
        # a stand-in does not read the picture's bytes, which a real model would be sent
        return replace(tried, error=error or describe_failure(exc))
    return replace(tried, requests=requests)


@dataclass(frozen=True)
class RequestTotals:
    """The requests of several arms together. `max_reply_tokens` is None if a reply has no limit,
    `price` if no model has prices.

    `has_agent` is True if an agent is among the arms; the agent's looks are not counted, because
    its model decides on them.
    """

    request_count: int
    picture_count: int
    word_tokens: int
    picture_tokens: int
    max_reply_tokens: int | None
    price: float | None
    has_agent: bool

    def __str__(self) -> str:
        tokens = f"about {self.word_tokens + self.picture_tokens:,} tokens in"
        pictures = f" + {self.picture_tokens:,} of pictures" if self.picture_count else ""
        bound = "at most " if self.max_reply_tokens is not None and not self.has_agent else ""
        out = (
            "unknown (no `max_tokens`)"
            if self.max_reply_tokens is None
            else f"{bound}{self.max_reply_tokens:,}"
        )
        requests = format_count(self.request_count, "request")
        asked = f"{requests}, {format_count(self.picture_count, 'picture')}"
        sentence = f"{asked}, {tokens} ({self.word_tokens:,} of text{pictures}), out {out}"
        if self.price is not None:
            replies = (
                " and the replies" if self.max_reply_tokens is None else " with the longest replies"
            )
            price = f"{self.price:,.2f}" if self.price >= 1 else format_number(self.price, 2)
            sentence += f"; cost about {price}{'' if self.has_agent else replies}"
        return f"{sentence}, not counting looks (tool calls)" if self.has_agent else sentence


def count_requests(
    trials: Iterable[DryRun], samples: Mapping[str, int], done: Done = NOTHING_DONE
) -> RequestTotals:
    """Count the requests of these trials' arms over all samples (task id -> number of samples) and
    draws, except what is `done`.

    A request that several arms make for the same sample is counted once, because it is sent once.
    """
    asked: dict[tuple[str, str], tuple[int, set[tuple[str, int]], RequestSize]] = {}
    has_agent = False
    for trial in trials:
        has_agent = has_agent or _contains_instance(trial.arm.stages, *AGENT_CLASS)
        task = trial.arm.task_id
        for request in trial.requests:
            most, answered, _ = asked.get((task, request.key), (0, set(), request))
            most = max(most, samples[task] * trial.arm.draws)
            asked[task, request.key] = most, answered | done.get(trial.arm.id, set()), request
    left = [(most - len(answered), request) for most, answered, request in asked.values()]
    left = [(number, request) for number, request in left if number > 0]

    def total(name: str) -> Any:
        return sum(number * (getattr(request, name) or 0) for number, request in left)

    return RequestTotals(
        sum(number for number, _ in left),
        total("picture_count"),
        total("word_tokens"),
        total("picture_tokens"),
        max_reply_tokens=total("max_reply_tokens")
        if all(request.max_reply_tokens is not None for _, request in left)
        else None,
        price=total("price") if any(request.price is not None for _, request in left) else None,
        has_agent=has_agent,
    )


def _contains_instance(stages: Any, module: str, name: str) -> bool:
    """Return whether stages or their settings include an instance of a class, without importing its
    module."""
    opened = sys.modules.get(module)
    return opened is not None and any(find_settings(stages, getattr(opened, name)))


def announce_requests(
    plan: Plan, samples: Mapping[str, int], done: Done = NOTHING_DONE, cached: int = 0
) -> str:
    """Return a sentence on the requests of a run, printed before it starts; empty if it sends none.

    Requests that are `done` are excluded; some of the rest may be among the `cached` replies. Arms
    with networks, and those not tried within `MAX_COUNT_SECONDS`, are only counted as arms, so that
    the run can begin.
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
        slow = _contains_instance(arm.stages, "looktwice.specialists.protocols", "OpensNetwork")
        if not slow and time.monotonic() - begun < MAX_COUNT_SECONDS:
            items[arm.task_id] = items.get(arm.task_id) or next(check_items(arm.task))
            trials.append(try_arm(arm, items[arm.task_id]))
    left, amount = len(asking) - len(trials), count_requests(trials, samples, done)
    if not (left or amount.request_count):
        return ""
    sentence = f"about to send {'up to ' if cached else ''}{amount}"
    if left:
        sentence += f", and the requests of {format_count(left, 'arm')} with slow stages"
    return f"{sentence}; cached replies are not requested again" if cached else sentence
