"""The agent tools of a study for external agents: which tools work on this machine, their controls,
and single calls from a client's arguments to texts and images."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property, partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from looktwice.extras.integrations.images import Images, OpenedImage
from looktwice.extras.integrations.responder import name_contestants
from looktwice.extras.networks.network import HubNetwork
from looktwice.pipelines.config.classes import ConfigError
from looktwice.pipelines.config.plan import load_plan
from looktwice.pipelines.config.shipped import find_config
from looktwice.pipelines.config.spec import Arm, find_settings
from looktwice.pipelines.json_input import write_canonical
from looktwice.pipelines.marks import Box
from looktwice.pipelines.model import Tool
from looktwice.pipelines.picture import Picture
from looktwice.pipelines.runtime.install import format_install
from looktwice.pipelines.runtime.weights import WeightsError
from looktwice.pipelines.sample import Sample
from looktwice.pipelines.state import State
from looktwice.pipelines.view import Part, View
from looktwice.prompting.agent.agent import Agent
from looktwice.prompting.agent.tool import (
    IMAGE_NUMBER_MARKER,
    AgentTool,
    BlackImages,
    ImageArguments,
    ToolResult,
    describe_tool,
    parse_arguments,
)
from looktwice.prompting.agent.tools import Answer, Undo, Zoom
from looktwice.prompting.controls.images import MAX_CANDIDATES
from looktwice.prompting.coordinates import ShownImage, ToolError, map_to_sources
from looktwice.prompting.grids.grids import find_source_box
from looktwice.prompting.wording.instructions import Parts
from looktwice.specialists.rules import Checked, NoEvidence

DEFAULT_STUDY = "look"
"""The bundled study that has every tool."""
OPEN_TOOL_NAME = "open"
ANY_IMAGE_SCHEMA = {
    "anyOf": [{"type": "integer"}, {"type": "string"}],
    "description": "the image: its number, the path of its file, or a data URL",
}
REPORTED_ERRORS = (ValueError, LookupError, OSError, NoEvidence, WeightsError)
"""The errors that a tool's arguments can cause; they are reported to the client's model."""
Control = Callable[[ToolResult, State, Any], ToolResult]
"""A function that replaces a tool's result with another one that has as many images, or none."""


@dataclass(frozen=True)
class OpenImage:
    """Shows an image as it is."""

    description: str = "Opens an image file: shows it, says its size and gives it a number."

    arguments = ImageArguments

    def __call__(self, state: State, arguments: ImageArguments) -> ToolResult:
        """Return the image itself."""
        return ToolResult("", (state.views[arguments.image - 1],))


@dataclass(frozen=True, eq=False)
class LookTools:
    """The tools of an agent, and the images that they look at.

    `controls`, by the names of tools, replace the results of these tools; sizes and regions are
    still described as in the tool's own result.
    """

    agent: Agent
    images: Images
    controls: Mapping[str, Control] = field(default_factory=dict)

    @cached_property
    def unavailable_tools(self) -> dict[str, str]:
        """The tools that cannot be used on this machine, with the reason for each."""
        return {
            name: why for name, tool in self.agent.tools.items() if (why := _find_missing(tool))
        }

    @cached_property
    def tools(self) -> dict[str, AgentTool]:
        """The offered tools by name, without those that only steer the loop of looktwice's own
        agent."""
        offered: dict[str, AgentTool] = {OPEN_TOOL_NAME: OpenImage()}
        for name, tool in self.agent.tools.items():
            if name not in self.unavailable_tools and not isinstance(tool, Answer | Undo):
                offered[name] = tool
        return offered

    @cached_property
    def descriptions(self) -> list[Tool]:
        """The descriptions of the tools for clients, in which every image is a number, a path or a
        data URL."""
        described = []
        for name, tool in self.tools.items():
            plain = describe_tool(name, tool, self.agent.coordinates)
            properties = {**plain.parameters["properties"]}
            properties |= dict.fromkeys(_list_image_fields(tool), ANY_IMAGE_SCHEMA)
            parameters = {**plain.parameters, "properties": properties}
            described.append(replace(plain, parameters=parameters))
        return described

    def look(self, name: str, data: Mapping[str, Any]) -> Parts:
        """Call a tool; return texts, and each image after the text that describes it. Raises the
        errors of tools."""
        if name not in self.tools:
            raise ToolError(f"there is no tool {name[:64]!r}; there are {', '.join(self.tools)}")
        tool, frame = self.tools[name], self.agent.coordinates
        opened = {
            key: self.images.open(data.get(key, default))
            for key, default in _list_image_fields(tool).items()
        }
        scene = _Scene.from_images(tuple(opened.values()), write_canonical([name, dict(data)]))
        state, numbers = scene.state, {key: image.number for key, image in opened.items()}
        # cached, since the first image can have many positions
        through = cache(partial(ShownImage.from_view, fit=self.agent.fit, state=state))
        shown = list(map(through, state.views))
        others = {*range(1, len(shown) + 1)} - {*numbers.values()}
        parsed = parse_arguments(tool, {**data, **numbers}, shown, others, frame)
        arguments = parsed.valid_arguments
        true = tool(state, arguments)
        control = self.controls.get(name)
        result = control(true, state, arguments) if control else true
        parts: list[str | View] = [text for text in (result.text, parsed.remark) if text]
        for view, seen in zip(true.views, result.views, strict=False):
            parts += self._show(scene, replace(view, picture=seen.picture), name, bool(control))
        return tuple(parts) or ("done",)

    def _show(self, scene: _Scene, view: View, tool: str, controlled: bool) -> Parts:
        """Return the description of an image that a tool returned, and the image as it is sent;
        write the image to a file unless it is one already."""
        view = scene.map_view(view)
        files, first = [file for file, _ in scene.sources], scene.images[0]
        file = first.file
        if view.picture is not first.view.picture:
            stem = f"{files[0].stem[:40]}-{tool}"
            file = self.images.keep(view, files, stem, controlled or scene.has_control)
        sent = ShownImage.from_view(view, self.agent.fit, scene.state).sent_view
        width, height = sent.size
        words = f"Image {self.images.assign_number(file)} ({width} x {height} pixels)"
        if region := find_source_box(view, Box("", 0, 0, *view.size)):
            left, top, right, bottom = (f"{edge:.0f}" for edge in region.xyxy)
            name, picture = scene.sources[region.image]
            words += f" shows {name.name} from x {left} to {right} and y {top} to {bottom}"
            words += " of its {} x {} pixels".format(*picture.size)
        if sent.size != view.size:
            words += "; coordinates are in the pixels shown here, the file has {} x {}".format(
                *view.size
            )
        return f"{words}. File: {file}", sent


@dataclass(frozen=True, eq=False)
class _Scene:
    """The images of one call as the views of a state, and the pictures that they show as the images
    of the state's sample.

    Each view has the image's number as its position, so that tools report it correctly; positions
    in between repeat the first image.
    """

    images: tuple[OpenedImage, ...]
    sources: tuple[tuple[Path, Picture], ...]
    state: State
    claims: Mapping[int, View]

    @classmethod
    def from_images(cls, opened: Sequence[OpenedImage], request: str) -> _Scene:
        """Build the scene of one call; random choices depend on `request` and on the pixels."""
        images = tuple({image.number: image for image in opened}.values())
        sources = dict[Path, Picture]()
        for image in images:
            sources |= image.sources
        sources |= {image.file: image.view.picture for image in images if image.is_control}
        places = [*sources]
        views, claims = dict[int, View](), dict[int, View]()
        for image in images:
            own = [places.index(file) for file, _ in image.sources]
            parts = tuple(replace(part, source=own[part.source]) for part in image.view.parts)
            views[image.number] = replace(image.view, parts=parts)
            if image.is_control:
                source = places.index(image.file)
                claims[source] = views[image.number]
                views[image.number] = View.of(image.view.picture, source)
        name, first = f"{images[0].view.picture.sha} {request}", views[images[0].number]
        placed = tuple(views.get(number, first) for number in range(1, max(views) + 1))
        state = State.start(Sample(name, "", tuple(sources.values()))).replace(views=placed)
        return cls(images, tuple(sources.items()), state, claims)

    @property
    def has_control(self) -> bool:
        """True if one of the images is the result of a control."""
        return bool(self.claims)

    def map_view(self, view: View) -> View:
        """Return the view with its parts mapped from the images of controls to the regions that
        these images claim to show."""
        parts = tuple[Part, ...]()
        for part in view.parts:
            claim = self.claims.get(part.source)
            alone = View(view.picture, (part,))
            parts += map_to_sources(claim, alone).parts if claim else (part,)
        return View(view.picture, parts)


def _list_image_fields(tool: AgentTool) -> dict[str, int]:
    """Return the names of a tool's arguments that are images, with the default number of each."""
    declared = tool.arguments.model_fields
    return {
        name: info.default
        for name, info in declared.items()
        if IMAGE_NUMBER_MARKER in info.metadata
    }


def _find_missing(tool: AgentTool) -> str:
    """Return the reason why a tool's specialists cannot run on this machine, without loading
    them."""
    for specialist in find_settings(tool, Checked):
        try:
            if hasattr(specialist, "files"):
                specialist.files()
        except WeightsError as exc:
            return str(exc)
        if isinstance(specialist, HubNetwork) and find_spec("transformers") is None:
            return f"transformers is not installed; type: {format_install('hf')}"
    return ""


def find_arms(study: Path | str, contestant: str, *load_options: Sequence[str]) -> dict[str, Arm]:
    """Return a study's arm by the name of its contestant, as in `serve`, or all arms if
    `contestant` is empty; `load_options` (overrides, plugins and allowed folders) are passed to
    `load_plan`. Raises ConfigError."""
    arms = name_contestants(load_plan(find_config(study), *load_options))
    if contestant not in ("", *arms):
        wrong = f"there is no contestant {contestant!r}; the contestants are {', '.join(arms)}"
        raise ConfigError([f"{study}: {wrong}"])
    return {contestant: arms[contestant]} if contestant else arms


def find_agent(study: Path | str, contestant: str = "", *load_options: Sequence[str]) -> Agent:
    """Return the agent of a contestant, or the one agent that a study's contestants share. Raises
    ConfigError if their agents differ. The `load_options` are those of `find_arms`."""
    agents = {
        name: agent
        for name, arm in find_arms(study, contestant, *load_options).items()
        for agent in find_settings(arm.stages, Agent)
    }
    looks = [
        (agent.tools, agent.fit, agent.coordinates, agent.results) for agent in agents.values()
    ]
    if not looks or looks.count(looks[0]) < len(looks):
        differ = f"the agents of {', '.join(agents)} have different tools; name a --contestant"
        raise ConfigError([f"{study}: {differ if agents else 'no contestant has an agent'}"])
    return next(iter(agents.values()))


def make_controls(
    agent: Agent, placebo: Sequence[str] = (), black: Sequence[str] = (), random: Sequence[str] = ()
) -> dict[str, Control]:
    """Return the controls for the named tools, as in the arms of a certificate: a crop of the same
    size that avoids the requested region (`placebo`), a crop that may show any region (`random`),
    or a black image (`black`); add the agent's own changes to results. Raises ConfigError."""
    controls, faults = dict[str, Control](), list[str]()
    if own := agent.results:
        controls = {name: lambda true, state, _: own(true, state) for name in agent.tools}
    for option, names in (("placebo", placebo), ("random", random), ("black", black)):
        for name in names:
            if name not in agent.tools:
                faults.append(
                    f"--{option} {name}: no such tool; the tools are {', '.join(agent.tools)}"
                )
            elif option == "black":
                controls[name] = lambda true, state, _: BlackImages()(true, state)
            elif isinstance(zoom := agent.tools[name], Zoom):
                tries = 1 if option == "random" else MAX_CANDIDATES
                controls[name] = partial(
                    _crop_elsewhere, replace(zoom, elsewhere=True, tries=tries)
                )
            else:
                only = "only a Zoom can crop another place instead; use --black for other tools"
                faults.append(f"--{option} {name}: {only}")
    if faults:
        raise ConfigError(faults)
    return controls


def _crop_elsewhere(placebo: Zoom, true: ToolResult, state: State, asked: Any) -> ToolResult:
    return replace(true, views=placebo(state, asked).views)
