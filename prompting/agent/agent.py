"""The agent loop: the model calls tools that show it new images, as often as its bounds allow, and
then answers."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from looktwice.pipelines.model import CallOptions, Message, Model, Reply, Tool, ToolCall, canonical
from looktwice.pipelines.pipeline import calls_made
from looktwice.pipelines.runtime.networks import WeightsError
from looktwice.pipelines.state import Stage, State
from looktwice.pipelines.view import View
from looktwice.prompting.agent.call_formats import CallFormat, NativeCalls, Parts, decode_arguments
from looktwice.prompting.agent.episode import Bounds, Episode, Look, Outcome, measure_looks
from looktwice.prompting.agent.tool import (
    AgentTool,
    ResultControl,
    ToolResult,
    describe_tool,
    parse_arguments,
)
from looktwice.prompting.agent.tools import Answer
from looktwice.prompting.coordinates import (
    NO_MODEL,
    UNITS,
    Frame,
    ShownImage,
    ToolError,
    find_new_regions,
)
from looktwice.prompting.ranges import check_ranges
from looktwice.prompting.turns.ask import Ask, History, check_token_count
from looktwice.prompting.wording.instructions import Text, fill_in, read_texts, text_of
from looktwice.specialists.protocols import NoEvidence

SYSTEM = (
    "You answer a question about images, and you may look again before you do: every tool that you"
    " call shows a new image, with the next number. Places are told in {unit}; x grows to the right"
    " and y grows down from the top left corner. When you know the answer, give it without calling"
    " a tool."
)
FINAL = "You cannot look any further. Answer the question now, from what you have seen."
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")
LONGEST = 300  # characters of what a note holds of a model's words


@dataclass(frozen=True)
class Agent:
    """Shows the views and the prompt, and runs the tools that the model calls until it answers.

    `tools` maps the names by which the model calls them to tools of `prompting.agent` or classes of
    your own (docs/guide.md shows one). `protocol` is the format of the calls: `NativeCalls`,
    `TaggedCalls` or `PlainCalls`. `system` stands in front of the conversation, `{unit}` in it for
    the frame of coordinates. The model gives coordinates in the frame `coordinates` of the image
    that it was sent. `fit` is a stage that resizes every image before it is sent; tools work on the
    image before that, so a zoom shows detail that the resized image has lost. `history` says what
    of the earlier turns is sent again.

    A reply without a tool call is the final answer, which is read when the run is scored. An answer
    given through the tool `prompting.agent.Answer` is read by `reader`. When one of the `bounds` is
    reached the model gets the text `final` and no tools, and its next reply is the answer; if it
    still calls a tool, the sample abstains. A call is malformed if there is no such tool, if its
    arguments do not match the tool's, or if it names a place outside the image; after more than
    `corrections` malformed replies in a row the sample abstains too. A ToolError, ValueError,
    LookupError or NoEvidence of a tool is reported to the model and counts as a step; any other
    exception fails the sample.

    With a `probe`, such as "What would you answer now?", the model is asked this before each of its
    turns, outside the conversation. It costs one more call per turn, and shows what each look
    changed.

    `results`, such as `BlackImages`, is a control that changes what every tool returned before the
    model gets it. With `afresh` the last answer is asked for in a new conversation that shows every
    image at once, without tools and looks: the results alone.

    Every tool call is written into the record as a `Look` (`prompting.agent.episode`), and every
    image becomes a view. Measured are the `looks` that were run, the `crop_share` of an image that
    they showed, and the turns. Raises ModelError, and WeightsError if the network of a tool cannot
    be loaded.
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
    results: ResultControl | None = None
    afresh: bool = False

    def __post_init__(self) -> None:
        read_texts(self)
        wrong = [name for name in self.tools if not NAME.fullmatch(name)]
        if wrong or not self.tools:
            raise ValueError(
                f"tools: {wrong[0]!r} cannot be the name of a tool; use letters, digits, '_'"
                " and '-'"
                if wrong
                else "tools is empty; to ask without tools, use prompting.turns.Ask"
            )
        if self.reader is None and any(isinstance(tool, Answer) for tool in self.tools.values()):
            raise ValueError(
                "the tool Answer needs a `reader:` that reads the answer, such as"
                " eval.readers.Robust"
            )
        check_ranges(self, "corrections >= 0")
        if self.options.tools is not None:
            raise ValueError("options.tools must stay unset, the agent sets it")

    def __call__(self, state: State, model: Model) -> State:
        """The state with the conversation, every image shown as a view, and a note for each
        look."""
        looked = self._look(state, model)
        return self._ask_afresh(state, looked, model) if self.afresh else looked

    def _look(self, state: State, model: Model) -> State:
        episode = self._open(state, model)
        while not (bound := episode.reached_bound(self.bounds)):
            episode, reply = self._next_reply(episode, model)
            calls, count = self.protocol.read_calls(reply, self.bounds.calls)
            fault = "" if calls else self.protocol.find_fault(reply)
            if not calls and not fault:
                return self._finish(episode.add_turns(reply.as_message()), "reply")
            episode = (
                self._run_calls(episode, reply, calls, count)
                if calls
                else self._reject(episode, reply, fault)
            )
            if episode.answer is not None:
                return self._finish_with_answer(episode)
            if episode.malformed > self.corrections:
                why = episode.looks[-1].reason
                return self._finish(episode, "malformed").abstain(f"malformed tool call: {why}")
        return self._ask_for_answer(episode, model, bound)

    @property
    def tool_descriptions(self) -> tuple[Tool, ...]:
        """The tools with their JSON schemas, as the model gets them; none if no step is allowed."""
        named = self.tools.items() if self.bounds.steps else ()
        return tuple(describe_tool(name, tool, self.coordinates) for name, tool in named)

    def _open(self, state: State, model: Model) -> Episode:
        """Start the conversation: the system text, the sample's images with their numbers, and the
        prompt."""
        shown = tuple(ShownImage.through(view, self.fit, state) for view in state.views)
        episode = Episode(state, state.messages, shown, len(shown), calls_made(state, model))
        numbers = range(1, len(shown) + 1)
        parts: Parts = tuple(
            part for n in numbers for part in episode.image_parts(n, self.coordinates)
        )
        parts = (*parts, state.prompt) if state.prompt else parts
        if not parts:
            raise ValueError(
                f"sample {state.sample.id}: there is nothing to ask, neither a prompt nor an image"
            )
        texts = [
            fill_in(self.system, unit=UNITS[self.coordinates]),
            self.protocol.instructions(self.tool_descriptions),
        ]
        system = "\n\n".join(text for text in texts if text) if self.tool_descriptions else ""
        if any(message.role == "system" for message in state.messages):
            return episode.add_turns(Message("user", (system, *parts) if system else parts))
        return episode.add_turns(
            *([Message("system", (system,))] if system else []), Message("user", parts)
        )

    def _next_reply(self, episode: Episode, model: Model) -> tuple[Episode, Reply]:
        """The model's next turn, after the probe if there is one."""
        if text_of(self.probe):
            probed, _ = self._ask(episode.add_user_text(text_of(self.probe)), model, None)
            episode = probed.replace(turns=episode.turns, probe=episode.calls)
        return self._ask(episode, model, self.protocol.native_tools(self.tool_descriptions))

    def _ask(
        self, episode: Episode, model: Model, tools: tuple[Tool, ...] | None
    ) -> tuple[Episode, Reply]:
        messages, notes = self.history(episode.turns)
        reply = model(messages, draw=episode.state.draw, options=replace(self.options, tools=tools))
        notes = (*episode.notes, *notes, *check_token_count(messages, reply))
        episode = episode.replace(notes=notes).add_usage(reply)
        # a describer's too
        return (episode.replace(calls=max(episode.calls, calls_made(episode.state, model))), reply)

    def _run_calls(
        self, episode: Episode, reply: Reply, calls: Sequence[ToolCall], count: int
    ) -> Episode:
        """Run the calls of one reply in order, and add the reply and the results as turns."""
        before, answers = len(episode.looks), list[tuple[ToolCall, Parts]]()
        for call in calls:
            episode, parts = self._run_call(episode, call)
            answers.append((call, parts))
            if episode.answer is not None:
                return episode.add_turns(
                    self.protocol.assistant_turn(reply, [call for call, _ in answers])
                )
        if count > len(calls):
            more = (
                f"{count - len(calls)} more calls of this reply were not run; at most"
                f" {len(calls)} are"
            )
            answers[-1] = calls[-1], (*answers[-1][1], more)
            episode = episode.replace(notes=(*episode.notes, f"step {episode.steps + 1}: {more}"))
        ran = any(look.outcome != "refused" for look in episode.looks[before:])
        episode = episode.replace(
            steps=episode.steps + 1, malformed=0 if ran else episode.malformed + 1
        )
        return episode.add_turns(
            self.protocol.assistant_turn(reply, calls), *self.protocol.result_turns(answers)
        )

    def _reject(self, episode: Episode, reply: Reply, fault: str) -> Episode:
        """Add a reply that neither calls a tool nor answers, and tell the model what is wrong with
        it."""
        look = self._new_look(episode, "", reply.text, reason=fault)
        episode = episode.add_look(look).replace(
            steps=episode.steps + 1, malformed=episode.malformed + 1
        )
        return episode.add_turns(reply.as_message()).add_user_text(f"error: {fault}")

    def _run_call(self, episode: Episode, call: ToolCall) -> tuple[Episode, Parts]:
        """Run one call, or refuse it. Errors in what a model writes are reported to the model and
        raise nothing."""
        look = self._new_look(episode, call.name, call.arguments)
        try:
            data = decode_arguments(call)
            if call.name not in self.tools:
                raise ToolError(
                    f"there is no tool {call.name[:64]!r}; there are {', '.join(self.tools)}"
                )
            tool = self.tools[call.name]
            arguments, given = parse_arguments(
                tool, data, episode.shown, episode.withdrawn, self.coordinates
            )
        except ToolError as exc:
            return episode.add_look(replace(look, reason=str(exc))), (f"error: {exc}",)
        look = replace(look, arguments=_shorten(given))
        key = canonical([call.name, arguments.model_dump(mode="json")])
        if key in episode.done and not episode.withdrawn.intersection(episode.done[key]):
            images = ", ".join(f"image {number}" for number in episode.done[key])
            words = (
                "you called this"
                f" before{f'; it brought {images}' if images else ', with the same result'}"
            )
            return episode.add_look(replace(look, outcome="repeated", reason=words)), (words,)
        try:
            result = tool(episode.full_size_state, arguments)
            result = self.results(result, episode.full_size_state) if self.results else result
            shown = [ShownImage.through(view, self.fit, episode.state) for view in result.views]
        except (
            WeightsError
        ):  # our fault, not the model's: a look that failed would count as one that did not help
            raise
        except (ValueError, LookupError, NoEvidence) as exc:
            return episode.add_look(replace(look, outcome="failed", reason=str(exc)[:LONGEST])), (
                f"error: {exc}",
            )
        return self._add_result(episode, look, key, result, shown)

    def _add_result(
        self,
        episode: Episode,
        look: Look,
        key: str,
        result: ToolResult,
        shown: Sequence[ShownImage],
    ) -> tuple[Episode, Parts]:
        """Add what a tool returned: its text with as many images as the bounds allow, its answer,
        or an undo."""
        if result.answer is not None:
            return (
                episode.add_look(replace(look, outcome="answered")).replace(answer=result.answer),
                (),
            )
        if result.undo:
            return self._withdraw(episode, look)
        parts: Parts = (result.text,) if result.text else ()
        number = len(episode.shown)
        for image in shown:
            if full := episode.bound_for(image.sent, self.bounds):
                episode = episode.replace(full=full)
                break
            episode = episode.replace(shown=(*episode.shown, image))
            parts = (*parts, *episode.image_parts(len(episode.shown), self.coordinates))
        images = tuple(range(number + 1, len(episode.shown) + 1))
        regions = find_new_regions([image.view for image in episode.shown], number)
        omitted = len(shown) - len(images)
        reason = f"{omitted} images are not shown: no more are allowed" if omitted else ""
        outcome: Outcome = "shown" if images else "bound" if omitted else "said"
        look = replace(look, outcome=outcome, images=images, regions=regions, reason=reason)
        parts = (*parts, reason) if reason else parts or ("done",)
        return episode.add_look(look).replace(done={**episode.done, key: images}), parts

    def _withdraw(self, episode: Episode, look: Look) -> tuple[Episode, Parts]:
        """Take back the last image that a tool showed."""
        left = [
            n
            for n in range(episode.first + 1, len(episode.shown) + 1)
            if n not in episode.withdrawn
        ]
        if not left:
            reason = "no tool has shown an image that could be taken back"
            return episode.add_look(replace(look, outcome="failed", reason=reason)), (
                f"error: {reason}",
            )
        words = f"image {left[-1]} is taken back"
        episode = episode.add_look(replace(look, outcome="said", reason=words))
        return episode.replace(withdrawn=episode.withdrawn | {left[-1]}), (words,)

    def _new_look(self, episode: Episode, tool: str, arguments: Any, reason: str = "") -> Look:
        number, asked = len(episode.looks) + 1, episode.calls - 1
        return Look(
            number,
            asked,
            tool[:64],
            "refused",
            _shorten(arguments),
            reason=reason,
            probe=episode.probe,
        )

    def _ask_for_answer(self, episode: Episode, model: Model, bound: str) -> State:
        """The last turn at a bound: the model gets no tools, and its reply is the answer."""
        episode, reply = self._ask(episode.add_user_text(text_of(self.final)), model, None)
        calls, _ = self.protocol.read_calls(reply, 1)
        if calls and isinstance(self.tools.get(calls[0].name), Answer):
            episode, _ = self._run_call(episode.replace(probe=None), calls[0])
            if episode.answer is not None:
                return self._finish_with_answer(
                    episode.add_turns(self.protocol.assistant_turn(reply, calls)), bound
                )
        if calls:
            why = f"it called {calls[0].name or 'a tool'} where it had to answer ({bound} used up)"
            look = replace(
                self._new_look(episode, calls[0].name, calls[0].arguments, why),
                outcome="bound",
                probe=None,
            )
            return self._finish(
                episode.add_turns(reply.as_message()).add_look(look), bound
            ).abstain(why)
        return self._finish(episode.add_turns(reply.as_message()), bound)

    def _ask_afresh(self, state: State, looked: State, model: Model) -> State:
        """The answer to all images at once, in a conversation that knows of no tool."""
        asked = Ask(tags="Image {n}:", options=self.options)(
            state.replace(views=looked.views), model
        )
        turns = looked.measures["turn_call"]
        asked = asked.replace(notes=looked.notes, measures=looked.measures).with_notes(*asked.notes)
        return asked.measured(
            "turn_call",
            (*(turns if isinstance(turns, tuple) else ()), calls_made(state, model) - 1),
        )

    def _finish_with_answer(self, episode: Episode, by: str = "answer") -> State:
        """Finish with the answer that a tool gave, as `reader` reads it."""
        done = self._finish(episode, by)
        turn = Message("assistant", (episode.answer or "",))
        read = (
            self.reader(done.replace(messages=(*done.messages, turn)), NO_MODEL)
            if self.reader
            else done
        )
        return done.replace(answer=read.answer, reason=read.reason, confidence=read.confidence)

    def _finish(self, episode: Episode, by: str) -> State:
        views: tuple[View, ...] = tuple(shown.sent for shown in episode.shown)
        notes = (*episode.notes, *(look.note for look in episode.looks), episode.summarize(by).note)
        state = episode.state.replace(messages=episode.turns, views=views).with_notes(*notes)
        return measure_looks(state, episode.looks, episode.calls - 1)


def _shorten(arguments: Any) -> Any:
    """Arguments as a note holds them: unchanged, or the beginning of their text if it is long."""
    text = arguments if isinstance(arguments, str) else canonical(arguments)
    return arguments if len(text) <= LONGEST else text[:LONGEST] + "..."
