"""The agent: the model looks again with tools, as often as its bounds allow, and then answers."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from looktwice.pipelines.model import CallOptions, Message, Model, Reply, Tool, ToolCall, canonical
from looktwice.pipelines.pipeline import RecordingModel
from looktwice.pipelines.runtime.networks import WeightsError
from looktwice.pipelines.state import Stage, State
from looktwice.pipelines.view import View
from looktwice.prompting.agent.call_formats import CallFormat, NativeCalls, Parts, decode_arguments
from looktwice.prompting.agent.episode import Bounds, Episode
from looktwice.prompting.agent.record import Look, Outcome
from looktwice.prompting.agent.tool import AgentTool, ToolResult, describe_tool, parse_arguments
from looktwice.prompting.agent.view_tools import Answer
from looktwice.prompting.coordinates import NO_MODEL, UNITS, Frame, ShownImage, ToolError, find_new_regions
from looktwice.prompting.turns.ask import check_token_count
from looktwice.prompting.turns.history import History
from looktwice.prompting.wording.text_file import Text, fill_in, read_texts, text_of
from looktwice.specialists.protocols import NoEvidence

SYSTEM = (
    "You answer a question about images, and you may look again before you do: every tool that you call shows a new "
    "image, with the next number. Places are told in {unit}; x grows to the right and y grows down from the top left "
    "corner. When you know the answer, give it without calling a tool."
)
FINAL = "You cannot look any further. Answer the question now, from what you have seen."
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")
LONGEST = 300  # characters of what a note holds of a model's words


@dataclass(frozen=True)
class Agent:
    """Shows the views, says the prompt, and runs the tools that the model asks for until it answers.

    `tools` are named as the model shall call them; any tool of `prompting.agent`, or a class of your
    own. `protocol` is how they are asked for. Places are told in the frame `coordinates` of the image as it
    was shown; `fit` is a stage that sizes every image before it is sent, and tools cut from the unsized one.
    `history` says what of the earlier turns is sent again.

    A reply without a call is the final one and is read in scoring. An answer that comes through the tool
    `prompting.agent.Answer` is read by `reader`. Where one of the `bounds` is reached the model is told `final`
    and offered no tool: what it then says is its answer, and where it calls a tool all the same, it abstains. After
    more than `corrections` malformed replies in a row (no such tool, arguments that do not fit, a place outside the
    image) it abstains as well. What a tool cannot do is told to the model and counts as a step.

    With `probe`, such as "What would you answer now?", the model is asked so before each of its turns, beside the
    conversation: a call more for each look, that tells what the look was worth.

    Every call of a tool becomes a note in the record (`prompting.agent.record`), and every image shown becomes a view.
    Raises ModelError, and WeightsError where a tool's network cannot be opened.
    """

    tools: Mapping[str, AgentTool]
    reader: Stage | None = None
    protocol: CallFormat = field(default_factory=NativeCalls)
    bounds: Bounds = field(default_factory=Bounds)
    coordinates: Frame = "pixels"
    fit: Stage | None = None
    history: History = field(default_factory=History)
    corrections: int = 1
    system: Text = SYSTEM
    final: Text = FINAL
    probe: Text = ""
    options: CallOptions = field(default_factory=CallOptions)

    def __post_init__(self) -> None:
        read_texts(self)
        wrong = [name for name in self.tools if not NAME.fullmatch(name)]
        if wrong or not self.tools:
            raise ValueError(
                f"tools: {wrong[0]!r} is no name for a tool; use letters, digits, '_' and '-'" if wrong
                else "tools: there is none; without tools, ask with prompting.turns.Ask"
            )  # fmt: skip
        if self.reader is None and any(isinstance(tool, Answer) for tool in self.tools.values()):
            raise ValueError("the tool Answer needs a `reader:` that reads the answer, such as eval.readers.Robust")
        if self.corrections < 0 or self.options.tools is not None:
            raise ValueError(
                f"corrections is 0 or more, found {self.corrections}; and options.tools is the agent's to set"
            )

    def __call__(self, state: State, model: Model) -> State:
        """The state with the conversation, every image shown as a view, and a note for each look."""
        episode = self._opened(state, model)
        while not (bound := episode.over(self.bounds)):
            episode, reply = self._heard(episode, model)
            calls, count = self.protocol.calls(reply, self.bounds.calls)
            fault = "" if calls else self.protocol.fault(reply)
            if not calls and not fault:
                return self._done(episode.said(reply.as_message()), "reply")
            episode = self._worked(episode, reply, calls, count) if calls else self._corrected(episode, reply, fault)
            if episode.answer is not None:
                return self._answered(episode)
            if episode.malformed > self.corrections:
                why = episode.looks[-1].reason
                return self._done(episode, "malformed").abstain(f"malformed tool call: {why}")
        return self._forced(episode, model, bound)

    @property
    def offers(self) -> tuple[Tool, ...]:
        """The tools as the model is told of them; none where no step is allowed."""
        named = self.tools.items() if self.bounds.steps else ()
        return tuple(describe_tool(name, tool, self.coordinates) for name, tool in named)

    def _opened(self, state: State, model: Model) -> Episode:
        """The system's turn, the sample's images with their numbers, and the prompt."""
        shown = tuple(ShownImage.through(view, self.fit, state) for view in state.views)
        heard = [
            *(call for step in state.trace for call in step.calls),
            *(model.calls if isinstance(model, RecordingModel) else ()),
        ]
        calls = len({id(call) for call in heard})  # those of earlier draws of a vote are at the door alone
        episode = Episode(state, state.messages, shown, len(shown), calls)
        numbers = range(1, len(shown) + 1)
        parts: Parts = tuple(part for n in numbers for part in episode.tagged(n, self.coordinates))
        parts = (*parts, state.prompt) if state.prompt else parts
        if not parts:
            raise ValueError(f"sample {state.sample.id}: there is nothing to ask, neither a prompt nor an image")
        words = self._words()
        if any(message.role == "system" for message in state.messages):
            return episode.said(Message("user", (words, *parts) if words else parts))
        return episode.said(*([Message("system", (words,))] if words else []), Message("user", parts))

    def _words(self) -> str:
        if not self.offers:
            return ""
        told = fill_in(self.system, unit=UNITS[self.coordinates]), self.protocol.words(self.offers)
        return "\n\n".join(part for part in told if part)

    def _heard(self, episode: Episode, model: Model) -> tuple[Episode, Reply]:
        """The model's next turn, after the probe where there is one."""
        if text_of(self.probe):
            aside, _ = self._asked(episode.told(text_of(self.probe)), model, None)
            episode = episode.with_(
                calls=aside.calls, tokens=aside.tokens, seconds=aside.seconds, notes=aside.notes, probe=episode.calls
            )
        return self._asked(episode, model, self.protocol.native_tools(self.offers))

    def _asked(self, episode: Episode, model: Model, tools: tuple[Tool, ...] | None) -> tuple[Episode, Reply]:
        messages, notes = self.history(episode.turns)
        reply = model(messages, draw=episode.state.draw, options=replace(self.options, tools=tools))
        return episode.with_(notes=(*episode.notes, *notes, *check_token_count(messages, reply))).counted(reply), reply

    def _worked(self, episode: Episode, reply: Reply, calls: Sequence[ToolCall], count: int) -> Episode:
        """The calls of one reply, run in order and answered."""
        before, answers = len(episode.looks), list[tuple[ToolCall, Parts]]()
        for call in calls:
            episode, parts = self._look(episode, call)
            answers.append((call, parts))
            if episode.answer is not None:
                return episode.said(self.protocol.turn(reply, [call for call, _ in answers]))
        if count > len(calls):
            more = f"{count - len(calls)} more calls of this reply were not run; at most {len(calls)} are"
            answers[-1] = calls[-1], (*answers[-1][1], more)
            episode = episode.with_(notes=(*episode.notes, f"step {episode.steps + 1}: {more}"))
        ran = any(look.outcome != "refused" for look in episode.looks[before:])
        episode = episode.with_(steps=episode.steps + 1, malformed=0 if ran else episode.malformed + 1)
        return episode.said(self.protocol.turn(reply, calls), *self.protocol.results(answers))

    def _corrected(self, episode: Episode, reply: Reply, fault: str) -> Episode:
        """A reply that neither calls nor answers, and what is wrong with it."""
        look = self._noted(episode, "", reply.text, reason=fault)
        episode = episode.looked(look).with_(steps=episode.steps + 1, malformed=episode.malformed + 1)
        return episode.said(reply.as_message()).told(f"error: {fault}")

    def _look(self, episode: Episode, call: ToolCall) -> tuple[Episode, Parts]:
        """One call: refused, or run with what it brought. Nothing that a model writes raises here."""
        look = self._noted(episode, call.name, call.arguments)
        try:
            data = decode_arguments(call)
            if call.name not in self.tools:
                raise ToolError(f"there is no tool {call.name[:64]!r}; there are {', '.join(self.tools)}")
            tool = self.tools[call.name]
            arguments, given = parse_arguments(tool, data, episode.shown, episode.gone, self.coordinates)
        except ToolError as exc:
            return episode.looked(replace(look, reason=str(exc))), (f"error: {exc}",)
        look = replace(look, arguments=_shorten(given))
        key = canonical([call.name, arguments.model_dump(mode="json")])
        if key in episode.done and not episode.gone.intersection(episode.done[key]):
            images = ", ".join(f"image {number}" for number in episode.done[key])
            words = f"you called this before{f'; it brought {images}' if images else ', with the same result'}"
            return episode.looked(replace(look, outcome="repeated", reason=words)), (words,)
        try:
            result = tool(episode.views, arguments)
            shown = [ShownImage.through(view, self.fit, episode.state) for view in result.views]
        except WeightsError:  # the machinery's fault: looks that cannot be made would pass for looks that do not help
            raise
        except (ValueError, LookupError, NoEvidence) as exc:
            return episode.looked(replace(look, outcome="failed", reason=str(exc)[:LONGEST])), (f"error: {exc}",)
        return self._brought(episode, look, key, result, shown)

    def _brought(
        self, episode: Episode, look: Look, key: str, result: ToolResult, shown: Sequence[ShownImage]
    ) -> tuple[Episode, Parts]:
        """A tool's words and the images that a bound leaves room for; or its answer, or an image taken back."""
        if result.answer is not None:
            return episode.looked(replace(look, outcome="answered")).with_(answer=result.answer), ()
        if result.undo:
            return self._undone(episode, look)
        parts: Parts = (result.text,) if result.text else ()
        number = len(episode.shown)
        for each in shown:
            if full := episode.held_by(each.sent, self.bounds):
                episode = episode.with_(full=full)
                break
            episode = episode.with_(shown=(*episode.shown, each))
            parts = (*parts, *episode.tagged(len(episode.shown), self.coordinates))
        images = tuple(range(number + 1, len(episode.shown) + 1))
        areas = find_new_regions([each.view for each in episode.shown], number)
        held = len(shown) - len(images)
        reason = f"{held} images are not shown: no more are allowed" if held else ""
        outcome: Outcome = "shown" if images else "bound" if held else "said"
        look = replace(look, outcome=outcome, images=images, regions=areas, reason=reason)
        parts = (*parts, reason) if reason else parts or ("done",)
        return episode.looked(look).with_(done={**episode.done, key: images}), parts

    def _undone(self, episode: Episode, look: Look) -> tuple[Episode, Parts]:
        there = [n for n in range(episode.first + 1, len(episode.shown) + 1) if n not in episode.gone]
        if not there:
            reason = "no tool has shown an image that could be taken back"
            return episode.looked(replace(look, outcome="failed", reason=reason)), (f"error: {reason}",)
        words = f"image {there[-1]} is taken back"
        episode = episode.looked(replace(look, outcome="said", reason=words))
        return episode.with_(gone=episode.gone | {there[-1]}), (words,)

    def _noted(self, episode: Episode, tool: str, arguments: Any, reason: str = "") -> Look:
        number, asked = len(episode.looks) + 1, episode.calls - 1
        return Look(number, asked, tool[:64], "refused", _shorten(arguments), reason=reason, probe=episode.probe)

    def _forced(self, episode: Episode, model: Model, bound: str) -> State:
        """The last turn: no tool is offered, and what is said is the answer."""
        episode, reply = self._asked(episode.told(text_of(self.final)), model, None)
        calls, _ = self.protocol.calls(reply, 1)
        if calls and isinstance(self.tools.get(calls[0].name), Answer):
            episode, _ = self._look(episode.with_(probe=None), calls[0])
            if episode.answer is not None:
                return self._answered(episode.said(self.protocol.turn(reply, calls)), bound)
        if calls:
            why = f"it called {calls[0].name or 'a tool'} where it had to answer ({bound} used up)"
            look = replace(self._noted(episode, calls[0].name, calls[0].arguments, why), outcome="bound", probe=None)
            return self._done(episode.said(reply.as_message()).looked(look), bound).abstain(why)
        return self._done(episode.said(reply.as_message()), bound)

    def _answered(self, episode: Episode, by: str = "answer") -> State:
        """The answer that came through a tool, as the reader reads it."""
        done = self._done(episode, by)
        turn = Message("assistant", (episode.answer or "",))
        read = self.reader(done.replace(messages=(*done.messages, turn)), NO_MODEL) if self.reader else done
        return done.replace(answer=read.answer, reason=read.reason, confidence=read.confidence)

    def _done(self, episode: Episode, by: str) -> State:
        views: tuple[View, ...] = tuple(shown.sent for shown in episode.shown)
        notes = (*episode.notes, *(look.note for look in episode.looks), episode.used(by).note)
        return episode.state.replace(messages=episode.turns, views=views).noted(*notes)


def _shorten(arguments: Any) -> Any:
    """Arguments as a note holds them: values as they are, or the beginning of a long text."""
    text = arguments if isinstance(arguments, str) else canonical(arguments)
    return arguments if len(text) <= LONGEST else text[:LONGEST] + "..."
