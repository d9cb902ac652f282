"""The key `fragility` of a study: VPBench's marker styles and codecs in place of a sweep."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, get_args

from pydantic import Field
from typing_extensions import TypedDict

from looktwice.pipelines.config.classes import Faults, did_you_mean, locate, type_hints
from looktwice.pipelines.config.keys import CLOSED, Key
from looktwice.pipelines.config.load import Node


class FragilityEntry(TypedDict, total=False):
    """VPBench's marker styles and codecs in place of a sweep; how far results hang on them is told
    by the report."""

    __pydantic_config__ = CLOSED  # type: ignore[misc]
    slot: Annotated[str, "The slot of the marker, `mark` without it.", "slot: mark"]
    styles: Annotated[
        list[str],
        Field(min_length=2),
        "The styles, the one to compare with first; without it, all seventeen.",
        "styles: [default, color blue]",
    ]
    codecs: Annotated[
        list[str],
        Field(min_length=1),
        "The codecs, in the same way; without it, png and jpeg90, jpeg80, jpeg70.",
        "codecs: [png, jpeg80]",
    ]


STYLE_STAGE, CODEC_STAGE = "prompting.markers.VPBenchStyle", "prompting.views.Encode"


CODECS = ("png", "jpeg90", "jpeg80", "jpeg70")


CODEC_SLOT = "encode"
CODEC = re.compile(r"png|(jpeg|webp)([1-9]\d?|100)")


ASKING = ("prompting.turns.", "prompting.agent.")
"""The rooms of stages before which a picture gets its codec."""


def expand_fragility(config: Node, faults: Faults) -> Node:
    """The configuration with the sweep that its entry `fragility` asks for; without the entry, as
    it is."""
    wanted = config.get("fragility")
    if not isinstance(wanted, Mapping):
        return config
    before = len(faults)
    stages, slot = config.get("stages") or {}, wanted.get("slot", "mark")
    if slot not in stages:
        faults.note(
            f"fragility.slot: there is no slot {slot!r}{did_you_mean(slot, stages)}; it is the slot"
            f" of the marker, and there are {', '.join(stages) or 'none'}"
        )
    if config.get("sweep") or config.get("each"):
        faults.note(
            "fragility: it sweeps styles and codecs itself, so say `sweep: null` and `each: null`"
            " beside it"
        )
    codecs = [str(name) for name in wanted.get("codecs") or CODECS]
    if bad := [name for name in codecs if not CODEC.fullmatch(name)]:
        faults.note(
            "fragility.codecs: expected png, or jpeg or webp with a quality such as jpeg80, found"
            f" {bad[0]!r}"
        )
    if len(faults) > before:
        return config
    # before the stage that asks; where none of ours does, after the marker
    asking = [
        name
        for name, node in stages.items()
        if isinstance(node, Mapping) and str(node.get("use")).startswith(ASKING)
    ]
    place = {"before": asking[0]} if asking else {"after": slot}
    coded = [_encoder(name, {} if CODEC_SLOT in stages else place) for name in codecs]
    # the styles of VPBench's paper: those "no marker" are in its code alone
    every = get_args(type_hints(locate(STYLE_STAGE))["style"])
    styles = wanted.get("styles") or [name for name in every if not name.startswith("no marker")]
    drawn = [{"use": STYLE_STAGE, "style": style} for style in styles]
    return {**config, "sweep": {f"stages.{slot}": drawn, f"stages.{CODEC_SLOT}": coded}}


def _encoder(name: str, place: Node) -> Node:
    codec = name.rstrip("0123456789")
    node: Node = {"use": CODEC_STAGE, "codec": codec}
    if quality := name.removeprefix(codec):
        node["quality"] = int(quality)
    if codec == "jpeg":
        node["chroma"] = "4:2:0"  # Pillow's, with which VPBench encodes
    return {**node, **place}


class Fragility(Key):
    """Sweeps the marker in styles under several codecs."""

    schema = FragilityEntry
    about = (
        "Sweeps the marker in VPBench's styles under several codecs, and tells how far the"
        " results hang on them."
    )
    example = "fragility: {slot: mark, codecs: [png]}"

    def expand(self, value: Any, config: Node, faults: Faults) -> Node:
        """The configuration with the sweep that it stands for."""
        return expand_fragility(config, faults)
