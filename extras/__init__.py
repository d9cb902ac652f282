"""Looktwice's own extensions: the table by which they attach. The core never imports a room of this
folder; it opens what a name here stands for."""

from __future__ import annotations

from collections.abc import Mapping

from looktwice.pipelines.extensions import Extension

_ANALYSIS, _ADAPTIVE = "looktwice.eval.analysis", "looktwice.eval.adaptive"

_ROOM, _FENCED = "looktwice.eval.commands", ("--allow",)

EXTENSIONS: Mapping[str, Mapping[str, Extension]] = {
    "commands": {
        "compare": Extension(
            "looktwice.eval.logs.commands:compare",
            "Compare logs of any harness, sample by sample.",
            _FENCED,
        ),
        "studio": Extension(
            "looktwice.eval.studio.commands:studio",
            "Put marks and stages on your own picture in a browser.",
            _FENCED,
        ),
        "discover": Extension(
            "looktwice.eval.adaptive.commands:discover",
            "Find the best arm of a sweep for a part of its answers.",
            _FENCED,
        ),
        "make": Extension(f"{_ROOM}.studies:make", "Make questions from your own files.", _FENCED),
        "annotate": Extension(
            "looktwice.eval.annotation.commands:annotate",
            "Draw a sheet for people to fill in, and read it again.",
            _FENCED,
        ),
        "export": Extension(
            "looktwice.eval.logs.commands:export",
            "Write runs and logs in the formats of others.",
            _FENCED,
        ),
        "serve": Extension(
            "looktwice.eval.homes.commands:serve",
            "Serve a study's contestants to any OpenAI-compatible client.",
            _FENCED,
        ),
        "mcp": Extension(
            "looktwice.eval.homes.commands:mcp", "Serve image tools to any agent client.", _FENCED
        ),
    },
    "keys": {
        "choose": Extension(f"{_ADAPTIVE}.keys:Choose"),
        "thresholds": Extension(f"{_ADAPTIVE}.keys:Thresholds"),
        "fragility": Extension(f"{_ANALYSIS}.fragility_key:Fragility"),
        "gap": Extension(f"{_ANALYSIS}.gap_key:Gap"),
    },
    "analyses": {
        "gap": Extension(
            f"{_ANALYSIS}.gap:FACTORS_ANALYSIS", "Why the numbers differ", ("key:gap",)
        ),
        "fragility": Extension(
            f"{_ANALYSIS}.fragility:FRAGILITY_ANALYSIS",
            "How fragile the marker makes it",
            ("key:fragility",),
        ),
        "flips": Extension(
            f"{_ANALYSIS}.ranks:FLIPS_ANALYSIS",
            "Who would lead under another style",
            ("key:fragility",),
        ),
        "ranks": Extension(
            f"{_ANALYSIS}.ranks:RANK_MOVES_ANALYSIS", "Ranks under other styles", ("key:fragility",)
        ),
        "styles": Extension(
            f"{_ANALYSIS}.fragility:EVERY_STYLE_ANALYSIS",
            "Every style and codec",
            ("key:fragility",),
        ),
        "order": Extension(
            f"{_ANALYSIS}.ranks:ORDER_ANALYSIS",
            "Would the order hold",
            ("key:sweep|key:each|draws",),
        ),
        "audit": Extension(
            f"{_ANALYSIS}.looking.audit:AUDIT", "What is answered without the images", ("asked",)
        ),
        "probe": Extension(
            "looktwice.eval.probes.arms:PROBE", "Where in a model the answer is lost", ("asked",)
        ),
        "items": Extension(
            "looktwice.eval.psychometrics.questions:ITEMS",
            "How hard each item is, and totals from few of them",
            ("asked",),
        ),
        "race": Extension(f"{_ADAPTIVE}.race:RACE_ANALYSIS", "The race", ("file:race.json",)),
        "thresholds": Extension(
            "looktwice.eval.psychometrics.thresholds:THRESHOLDS_ANALYSIS",
            "Thresholds",
            ("key:thresholds|by",),
        ),
        "crossed": Extension(
            "looktwice.eval.psychometrics.thresholds:CROSSED_ANALYSIS",
            "Two fields crossed, of --by A,B",
            ("by",),
        ),
        "people": Extension(
            f"{_ANALYSIS}.gap:PEOPLE_ANALYSIS",
            "Beside people on the same items",
            ("file:*/humans.csv",),
        ),
        "published": Extension(
            f"{_ANALYSIS}.gap:PUBLISHED_ANALYSIS", "Beside what was published", ("key:published",)
        ),
        "published-gaps": Extension(
            f"{_ANALYSIS}.gap:PUBLISHED_GAPS_ANALYSIS",
            "Less what was published, points",
            ("key:published",),
        ),
    },
    "executors": {
        "processes": Extension("looktwice.eval.runs.elsewhere.processes:Processes"),
        "ray": Extension("looktwice.eval.runs.elsewhere.on_ray:OnRay"),
    },
    "parts": {
        "replies": Extension("looktwice.eval.logs.replies:replies_lines"),
        "studio": Extension("looktwice.eval.studio.server:studio_of_page"),
    },
}
