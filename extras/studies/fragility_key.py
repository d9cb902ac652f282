"""The key `fragility` of a study: VPBench's marker styles and codecs instead of a sweep."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, get_args

from pydantic import Field
from typing_extensions import TypedDict

from looktwice.pipelines.config.classes import (
    Faults,
    extend_hint,
    find_class,
    get_hints,
    suggest_names,
)
from looktwice.pipelines.config.keys import FORBID_EXTRA, Key
from looktwice.pipelines.config.load import Node


class FragilityEntry(TypedDict, total=False):
    """A sweep over VPBench's marker styles and codecs, to measure how much results depend on
    them."""

    __pydantic_config__ = FORBID_EXTRA  # type: ignore[misc]
    slot: Annotated[str, "The slot of the marker; default `mark`.", "slot: mark"]
    styles: Annotated[
        list[str],
        Field(min_length=2),
        "The styles, beginning with the baseline; default all seventeen.",
        "styles: [default, color blue]",
    ]
    codecs: Annotated[
        list[str],
        Field(min_length=1),
        "The codecs, beginning with the baseline; default png, jpeg90, jpeg80, jpeg70.",
        "codecs: [png, jpeg80]",
    ]


STYLE_STAGE, CODEC_STAGE = "prompting.markers.VPBenchStyle", "prompting.views.Encode"


CODECS = ("png", "jpeg90", "jpeg80", "jpeg70")


CODEC_SLOT = "encode"
CODEC_PATTERN = re.compile(r"png|(jpeg|webp)([1-9]\d?|100)")


ASKING_ROOMS = ("prompting.turns.", "prompting.agent.")
"""The packages whose stages call the model; pictures are encoded before the first such stage."""


def expand_fragility(config: Node, faults: Faults) -> Node:
    """Add to the configuration the sweep that its entry `fragility` describes; return it unchanged
    if there is no such entry."""
    wanted = config.get("fragility")
    if not isinstance(wanted, Mapping):
        return config
    before = len(faults)
    stages, slot = config.get("stages") or {}, wanted.get("slot", "mark")
    if slot not in stages:
        advice = f"name the slot of the marker, one of {', '.join(stages) or 'none'}"
        near = extend_hint(suggest_names(slot, stages), advice)
        faults.note(f"fragility.slot: there is no slot {slot!r}{near}")
    if config.get("sweep") or config.get("each"):
        faults.note(
            "fragility: it sweeps styles and codecs itself; remove `sweep` and `each`, or set"
            " `sweep: null` and `each: null`"
        )
    codecs = [str(name) for name in wanted.get("codecs") or CODECS]
    if bad := [name for name in codecs if not CODEC_PATTERN.fullmatch(name)]:
        faults.note(
            "fragility.codecs: expected png, or jpeg or webp with a quality such as jpeg80, found"
            f" {bad[0]!r}"
        )
    if len(faults) > before:
        return config
    # before the stage that asks, or after the marker if no stage is known to ask a model
    asking = [
        name
        for name, node in stages.items()
        if isinstance(node, Mapping) and str(node.get("use")).startswith(ASKING_ROOMS)
    ]
    position = {"before": asking[0]} if asking else {"after": slot}
    coded = [_make_encoder(name, {} if CODEC_SLOT in stages else position) for name in codecs]
    # the styles of VPBench's paper; the "no marker" styles are only in its code
    every = get_args(get_hints(find_class(STYLE_STAGE))["style"])
    styles = wanted.get("styles") or [name for name in every if not name.startswith("no marker")]
    drawn = [{"use": STYLE_STAGE, "style": style} for style in styles]
    return {**config, "sweep": {f"stages.{slot}": drawn, f"stages.{CODEC_SLOT}": coded}}


def _make_encoder(name: str, position: Node) -> Node:
    codec = name.rstrip("0123456789")
    node: Node = {"use": CODEC_STAGE, "codec": codec}
    if quality := name.removeprefix(codec):
        node["quality"] = int(quality)
    if codec == "jpeg":
        node["chroma"] = "4:2:0"  # the default of Pillow, which VPBench uses
    return {**node, **position}


class Fragility(Key):
    """The study key `fragility`, which sweeps the marker's style and the codec."""

    schema = FragilityEntry
    about = (
        "Sweeps VPBench's marker styles and several codecs, and reports how much the results"
        " depend on them."
    )
    example = "fragility: {slot: mark, codecs: [png]}"

    def expand(self, value: Any, config: Node, faults: Faults) -> Node:
        """Return the configuration with this key replaced by its sweep."""
        return expand_fragility(config, faults)
