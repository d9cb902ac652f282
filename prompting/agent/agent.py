"""The agent loop: the model calls tools that show it new images, as often as the bounds allow, and
then answers."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import ClassVar

from looktwice.pipelines.json_input import write_canonical
from looktwice.pipelines.model import CallOptions, Message, Model, Reply, Tool, ToolCall
from looktwice.pipelines.pipeline import count_calls
from looktwice.pipelines.ranges import check_ranges
from looktwice.pipelines.runtime.weights import WeightsError
from looktwice.pipelines.state import Stage, State
from looktwice.pipelines.view import View
from looktwice.prompting.agent.call_formats import CallFormat, NativeCalls, decode_arguments
from looktwice.prompting.agent.episode import MAX_NOTE_CHARACTERS, Bounds, Episode, measure_looks
from looktwice.prompting.agent.looks import Look
from looktwice.prompting.agent.tool import (
    AgentTool,
    ResultControl,
    ToolResult,
    describe_tool,
    open_session,
    parse_arguments,
)
from looktwice.prompting.agent.tools import Answer
from looktwice.prompting.coordinates import (
    NO_MODEL,
    UNIT_PHRASES,
    Frame,
    ShownImage,
    ToolError,
    find_new_regions,
)
from looktwice.prompting.turns.ask import Ask, History, check_token_count, split_prompt
from looktwice.prompting.wording.instructions import Parts, Text, fill_in, get_text, read_texts
from looktwice.specialists.rules import NoEvidence

SYSTEM_MESSAGE = (
    "You answer a question about images, and you may look again before you do: every tool that you"
    " call shows a new image, with the next number. Places are told in {unit}; x grows to the right"
    " and y grows down from the top left corner. When you know the answer, give it without calling"
    " a tool."
)
FINAL_MESSAGE = "You cannot look any further. Answer the question now, from what you have seen."
TOOL_NAME_PATTERN = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")


@dataclass(frozen=True)
class Agent:
    """Shows the views and the prompt, and runs the tools that the model calls until it answers.

    `tools` maps the names by which the model calls them to tools of `prompting.agent` or classes of
    your own (docs/howto/own.md shows one). `protocol` is the format of tool calls: `NativeCalls`,
    `TaggedCalls`, `PlainCalls` or `CodeCalls`. `system` is the system message; `{unit}` in it
    becomes the unit of coordinates. `coordinates` is the unit in which the model gives coordinates,
    measured in the image as it was sent. `label` is written before each image: `{n}` becomes the
    image's number, and `{k}` its number among the images that tools returned; an empty label writes
    nothing. `fit` is a stage that resizes every image before it is sent. Tools work on the image
    before that resize, so a zoom shows detail that the resized image has lost. `history` sets which
    parts of earlier turns are sent again.

    A reply without a tool call is the final answer, which is read when the run is scored. An answer
    given through the tool `prompting.agent.Answer` is read by `reader`. When one of the `bounds` is
    reached, the model is sent the text `final` without tools, and its next reply is the answer; if
    it still calls a tool, the sample abstains. A call is malformed if the tool does not exist, if
    its arguments do not match the tool's schema, or if it names a place outside the image. The
    sample also abstains after more than `corrections` malformed replies in a row. A ToolError,
    ValueError, LookupError or NoEvidence raised by a tool is reported to the model and counts as a
    step; any other exception fails the sample.

    `probe` is a question such as "What would you answer now?", which the model is asked before each
    of its turns, outside the conversation. It costs one more call per turn, and shows how each look
    changed the answer.

    `results` is a control, such as `BlackImages`, that changes every tool result before the model
    gets it. With `afresh`, the final answer is requested in a new conversation that shows all
    images at once, without the tools and the tool calls; this measures what the images alone
    contribute.

    Every tool call is written into the record as a `Look` (`prompting.agent.looks`), and every
    image becomes a view. `options` are passed to the model. Measures `looks` (the number of tool
    calls that were run), `crop_share` (the mean share of an image that they showed) and `turn_call`
    (the index of the model call that ended each turn). Raises ModelError, and WeightsError if the
    network of a tool cannot be loaded.
    """

    tools: Mapping[str, AgentTool]
    reader: Stage | None = None
    protocol: CallFormat = field(default_factory=NativeCalls)
    bounds: Bounds = field(default_factory=Bounds)
    coordinates: Frame = "pixels"
    fit: Stage | None = None
    history: History = field(default_factory=History)
    corrections: int = 1
    system: Text = SYSTEM_MESSAGE
    final: Text = FINAL_MESSAGE
    probe: Text = ""
    options: CallOptions = field(default_factory=CallOptions)
    results: ResultControl | None = None
    afresh: bool = False
    label: Text = "Image {n}"

    version: ClassVar[int] = 2  # refusals are worded by `argument_faults`

    def __post_init__(self) -> None:
        read_texts(self)
        if not isinstance(self.tools, Mapping):
            raise TypeError("tools must map names to tools, such as {zoom: {use: ...Zoom}}")
        for name, tool in self.tools.items():
            if not hasattr(tool, "arguments"):
                raise TypeError(f"tools: {name!r} is not a tool; `looktwice list tools` lists them")
        wrong = [name for name in self.tools if not TOOL_NAME_PATTERN.fullmatch(name)]
        if wrong or not self.tools:
            raise ValueError(
                f"tools: {wrong[0]!r} is not a valid tool name; use letters, digits, '_' and '-'"
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
            raise ValueError("options.tools must stay unset: the agent sets it")

    def __call__(self, state: State, model: Model) -> State:
        """Return the state with the conversation, every image shown as a view, and a note for each
        tool call."""
        with ExitStack() as sessions:
            tools = {n: open_session(tool, state, sessions) for n, tool in self.tools.items()}
            looked = replace(self, tools=tools)._run_turns(self._start_episode(state, model))
        if not self.afresh:
            return looked
        # all images at once, in a conversation without tools
        afresh = Ask(tags="Image {n}:", options=self.options)
        asked = afresh(state.replace(views=looked.views), model)
        turns = looked.measures["turn_call"]
        calls = (*(turns if isinstance(turns, tuple) else ()), count_calls(state, model) - 1)
        asked = asked.replace(notes=looked.notes, measures=looked.measures).with_notes(*asked.notes)
        return asked.measured("turn_call", calls)

    @property
    def tool_descriptions(self) -> tuple[Tool, ...]:
        """The tools with their JSON schemas, as the model gets them; empty if the bounds allow no
        steps."""
        named = self.tools.items() if self.bounds.steps else ()
        return tuple(describe_tool(name, tool, self.coordinates) for name, tool in named)

    def _start_episode(self, state: State, model: Model) -> Episode:
        """Start the conversation: the system message, the sample's images with their numbers, and
        the prompt."""
        shown = [ShownImage.from_view(view, self.fit, state) for view in state.views]
        episode = Episode(
            state, model, state.messages, shown, len(shown), count_calls(state, model)
        )
        parts: list[str | View] = []
        for number in range(1, len(shown) + 1):
            parts += episode.make_image_parts(number, self.coordinates, get_text(self.label))
        parts += filter(None, split_prompt(state))
        if not parts:
            raise ValueError(
                f"sample {state.sample.id} has neither a prompt nor an image, so there is nothing"
                " to ask"
            )
        tools = self.tool_descriptions
        system: Parts = ()
        if tools:
            text = fill_in(self.system, unit=UNIT_PHRASES[self.coordinates])
            how = self.protocol.write_instructions(tools)
            system = ("\n\n".join(filter(None, (text, how))),)
        if system and all(message.role != "system" for message in state.messages):
            episode.add_turns(Message("system", system))
            system = ()
        episode.add_turns(Message("user", (*system, *parts)))
        return episode

    def _run_turns(self, episode: Episode) -> State:
        """Ask the model and run its tool calls until it answers or a bound is reached."""
        while not (bound := episode.find_reached_bound(self.bounds)):
            if probe := get_text(self.probe):
                turns, episode.probe = episode.turns, episode.call_count
                episode.add_user_text(probe)
                self._ask(episode, None)
                episode.turns = turns
            reply = self._ask(episode, self.protocol.select_native_tools(self.tool_descriptions))
            calls, count = self.protocol.read_calls(reply, self.bounds.calls)
            fault = "" if calls else self.protocol.find_fault(reply)
            if calls:
                self._run_calls(episode, reply, calls, count)
            elif fault:
                episode.add_look(episode.start_look("", reply.text), reason=fault)
                episode.count_step(valid=False)
                episode.add_turns(reply.as_message())
                episode.add_user_text(f"error: {fault}")
            else:
                episode.add_turns(reply.as_message())
                return self._finish(episode, "reply")
            if episode.answer is not None:
                return self._finish(episode, "answer")
            if episode.malformed_count > self.corrections:
                why = episode.looks[-1].reason
                return self._finish(episode, "malformed").abstain(f"malformed tool call: {why}")
        return self._ask_for_answer(episode, bound)

    def _ask(self, episode: Episode, tools: tuple[Tool, ...] | None) -> Reply:
        messages, notes = self.history(episode.turns)
        options = replace(self.options, tools=tools)
        reply = episode.model(messages, draw=episode.state.draw, options=options)
        episode.notes += [*notes, *check_token_count(messages, reply)]
        episode.add_usage(reply)
        return reply

    def _run_calls(self, episode: Episode, reply: Reply, calls: list[ToolCall], count: int) -> None:
        """Run the calls of one reply in order, and add the reply and the results as turns."""
        before, answers = len(episode.looks), list[tuple[ToolCall, Parts]]()
        for number, call in enumerate(calls, 1):
            answers.append((call, self._run_call(episode, call)))
            if episode.answer is not None:
                episode.add_turns(self.protocol.make_assistant_turn(reply, calls[:number]))
                return
        if left := count - len(calls):
            more = f"{left} more calls of this reply were not run; at most {len(calls)} are"
            answers[-1] = calls[-1], (*answers[-1][1], more)
            episode.notes.append(f"step {episode.step_count + 1}: {more}")
        episode.count_step(any(look.outcome != "refused" for look in episode.looks[before:]))
        episode.add_turns(
            self.protocol.make_assistant_turn(reply, calls),
            *self.protocol.make_result_turns(answers),
        )

    def _run_call(self, episode: Episode, call: ToolCall) -> Parts:
        """Run one call, or refuse it. Faults in the call are reported to the model rather than
        raised."""
        look = episode.start_look(call.name, call.arguments)
        try:
            data = decode_arguments(call)
            if call.name not in self.tools:
                raise ToolError(
                    f"there is no tool {call.name[:64]!r}; there are {', '.join(self.tools)}"
                )
            tool = self.tools[call.name]
            arguments, given, remark = parse_arguments(
                tool, data, episode.shown_images, episode.withdrawn_numbers, self.coordinates
            )
        except ToolError as exc:
            episode.add_look(look, reason=str(exc))
            return (f"error: {exc}",)
        look = episode.start_look(call.name, given)
        key = write_canonical([call.name, arguments.model_dump(mode="json")])
        repeated = key in episode.returned_images and not getattr(tool, "keeps_state", False)
        if repeated and episode.withdrawn_numbers.isdisjoint(episode.returned_images[key]):
            images = ", ".join(f"image {number}" for number in episode.returned_images[key])
            brought = f"; it brought {images}" if images else ", with the same result"
            words = f"you called this before{brought}"
            episode.add_look(look, outcome="repeated", reason=words)
            return (words,)
        # all images so far, at full size
        state = episode.state.replace(views=tuple(image.view for image in episode.shown_images))
        try:
            result = tool(state, arguments)
            result = self.results(result, state) if self.results else result
            shown = [ShownImage.from_view(view, self.fit, episode.state) for view in result.views]
        except (
            WeightsError
        ):  # a fault of the setup, not of the model: it must not count as a failed look
            raise
        except (ValueError, LookupError, NoEvidence) as exc:
            episode.add_look(look, outcome="failed", reason=str(exc)[:MAX_NOTE_CHARACTERS])
            return (f"error: {exc}",)
        if remark:
            result = replace(result, text=f"{result.text}\n{remark}".strip())
            look = replace(look, reason=remark)
        return self._add_result(episode, look, key, result, shown)

    def _add_result(
        self, episode: Episode, look: Look, key: str, result: ToolResult, shown: list[ShownImage]
    ) -> Parts:
        """Add a tool's result: its text with as many images as the bounds allow, its answer, or
        the withdrawal of an image."""
        if result.answer is not None:
            episode.answer = result.answer
            episode.add_look(look, outcome="answered")
            return ()
        if result.undo:
            return episode.withdraw(look)
        parts: list[str | View] = [result.text] if result.text else []
        first = len(episode.shown_images)
        for image in shown:
            if full := episode.find_blocking_bound(image.sent_view, self.bounds):
                episode.blocked_by = full
                break
            episode.shown_images.append(image)
            parts += episode.make_image_parts(
                len(episode.shown_images), self.coordinates, get_text(self.label)
            )
        images = tuple(range(first + 1, len(episode.shown_images) + 1))
        regions = find_new_regions([image.view for image in episode.shown_images], first)
        omitted = len(shown) - len(images)
        if omitted:
            full = f"{omitted} images are not shown: no more are allowed"
            parts.append(full)
            look = replace(look, reason="; ".join(filter(None, (look.reason, full))))
        outcome = "shown" if images else "bound" if omitted else "said"
        episode.add_look(look, outcome=outcome, images=images, regions=regions)
        episode.returned_images[key] = images
        return tuple(parts) or ("done",)

    def _ask_for_answer(self, episode: Episode, bound: str) -> State:
        """Ask for the answer once a bound is reached; the model gets no tools, and its reply is the
        answer."""
        episode.add_user_text(get_text(self.final))
        reply = self._ask(episode, None)
        calls, _ = self.protocol.read_calls(reply, 1)
        if not calls:
            episode.add_turns(reply.as_message())
            return self._finish(episode, bound)
        call, episode.probe = calls[0], None
        if isinstance(self.tools.get(call.name), Answer):
            self._run_call(episode, call)
            if episode.answer is not None:
                episode.add_turns(self.protocol.make_assistant_turn(reply, calls))
                return self._finish(episode, bound)
        why = f"it called {call.name or 'a tool'} instead of answering ({bound} used up)"
        episode.add_turns(reply.as_message())
        look = episode.start_look(call.name, call.arguments)
        episode.add_look(look, outcome="bound", reason=why)
        return self._finish(episode, bound).abstain(why)

    def _finish(self, episode: Episode, by: str) -> State:
        """End the conversation, and let `reader` read an answer that was given through a tool."""
        views = tuple(image.sent_view for image in episode.shown_images)
        notes = (*episode.notes, *(look.note for look in episode.looks), episode.summarize(by).note)
        state = episode.state.replace(messages=episode.turns, views=views).with_notes(*notes)
        state = measure_looks(state, episode.looks, episode.call_count - 1)
        if episode.answer is None or self.reader is None:
            return state
        turn = Message("assistant", (episode.answer,))
        read = self.reader(state.replace(messages=(*state.messages, turn)), NO_MODEL)
        return state.replace(answer=read.answer, reason=read.reason, confidence=read.confidence)
