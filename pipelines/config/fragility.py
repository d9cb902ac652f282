"""The sweep that `fragility:` stands for: every marker style of VPBench under every codec, at one
slot."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from looktwice.pipelines.config.suggest import did_you_mean

STYLE_STAGE, CODEC_STAGE = "prompting.markers.VPBenchStyle", "prompting.views.Encode"
STYLES = (
    "default",
    "color blue",
    "color green",
    "color yellow",
    "font scale 0.2",
    "font scale 1.0",
    "marker type diamond",
    "marker type square",
    "marker type triangle",
    "radius 1",
    "radius 3",
    "radius 10",
    "radius 15",
    "text label",
    "text offset below",
    "text offset left",
    "text offset right",
)
CODECS = ("png", "jpeg90", "jpeg80", "jpeg70")
CODEC_SLOT = "encode"
ASKING = ("prompting.turns.", "prompting.agent.")
"""The rooms of stages before which a picture gets its codec."""


def expand_fragility(config: dict[str, Any], faults: list[str]) -> dict[str, Any]:
    """The configuration with the sweep that its entry `fragility` asks for; without the entry, as
    it is."""
    wanted = config.get("fragility")
    if not isinstance(wanted, Mapping):
        return config
    stages, slot = config.get("stages") or {}, wanted.get("slot", "mark")
    if slot not in stages:
        faults.append(
            f"fragility.slot: there is no slot {slot!r}{did_you_mean(slot, stages)}; it is the slot"
            f" of the marker, and there are {', '.join(stages) or 'none'}"
        )
    if config.get("sweep") or config.get("each"):
        faults.append(
            "fragility: it sweeps styles and codecs itself, so say `sweep: null` and `each: null`"
            " beside it"
        )
    styles, codecs = wanted.get("styles") or STYLES, wanted.get("codecs") or CODECS
    bad = [name for name in codecs if not re.fullmatch(r"png|(jpeg|webp)([1-9]\d?|100)", str(name))]
    if bad:
        faults.append(
            "fragility.codecs: expected png, or jpeg or webp with a quality such as jpeg80, found"
            f" {bad[0]!r}"
        )
    if faults:
        return config
    place = {} if CODEC_SLOT in stages else _place(stages, slot)
    drawn = [{"use": STYLE_STAGE, "style": style} for style in styles]
    coded = [{"use": CODEC_STAGE, **_codec(str(name)), **place} for name in codecs]
    return {**config, "sweep": {f"stages.{slot}": drawn, f"stages.{CODEC_SLOT}": coded}}


def _codec(name: str) -> dict[str, Any]:
    codec, quality = re.fullmatch(r"([a-z]+)(\d*)", name).groups()  # type: ignore[union-attr]
    settings = {"codec": codec, **({"quality": int(quality)} if quality else {})}
    return settings | (
        {"chroma": "4:2:0"} if codec == "jpeg" else {}
    )  # Pillow's, with which VPBench encodes


def _place(stages: Mapping[str, Any], slot: str) -> dict[str, str]:
    """Before the stage that asks; where none of ours does, after the marker."""
    for name, node in stages.items():
        if isinstance(node, Mapping) and str(node.get("use", "")).startswith(ASKING):
            return {"before": name}
    return {"after": slot}
