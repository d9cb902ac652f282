"""Decoding as published: what papers and toolkits ask a model for, each one line in a configuration.

`want: {use: prompting.decoding.DoYouSeeMe}` in a stage that asks; every setting can still be overridden. VLM2-Bench
publishes no temperature, and BLINK-Twice no decoding at all: where nothing is set the model's own setting counts.
"""

from __future__ import annotations

from dataclasses import dataclass

from looktwice.pipelines.model import Want

__all__ = ["Blink", "BlinkConsistency", "DoYouSeeMe", "LmmsEval", "Vlm2Long", "Vlm2Short", "Vlmevalkit"]


@dataclass(frozen=True)
class Blink(Want):
    """BLINK's runner: temperature 0, at most 1,024 tokens."""

    temperature: float | None = 0.0
    max_tokens: int | None = 1024


@dataclass(frozen=True)
class BlinkConsistency(Want):
    """BLINK's self-consistency study: temperature 1, five draws (`draws: 5`)."""

    temperature: float | None = 1.0
    max_tokens: int | None = 1024


@dataclass(frozen=True)
class Vlm2Short(Want):
    """VLM2-Bench's scripts for GC and VID: at most 512 tokens, else the model's own decoding."""

    max_tokens: int | None = 512


@dataclass(frozen=True)
class Vlm2Long(Want):
    """VLM2-Bench's scripts for OC and PC: at most 2,048 tokens, else the model's own decoding."""

    max_tokens: int | None = 2048


@dataclass(frozen=True)
class DoYouSeeMe(Want):
    """Do You See Me, all models: temperature 1.0, top-p 0.95, at most 200 new tokens."""

    temperature: float | None = 1.0
    top_p: float | None = 0.95
    max_tokens: int | None = 200


@dataclass(frozen=True)
class Vlmevalkit(Want):
    """VLMEvalKit's API models: temperature 0, at most 2,048 tokens."""

    temperature: float | None = 0.0
    max_tokens: int | None = 2048


@dataclass(frozen=True)
class LmmsEval(Want):
    """lmms-eval on BLINK: at most 1,024 tokens; temperature 0, which its model wrappers take where a task says none."""

    temperature: float | None = 0.0
    max_tokens: int | None = 1024
