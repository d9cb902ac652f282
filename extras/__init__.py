"""The table of looktwice's bundled extensions. The core never imports from this folder: it opens an
entry of this table when its name is used."""

from __future__ import annotations

from collections.abc import Mapping

from looktwice.pipelines.extensions import Extension

GATED_OPTIONS = ("--allow",)
FRAGILITY = ("key:fragility",)


def _at(place: str, help: str = "", needs: tuple[str, ...] = ()) -> Extension:
    return Extension(f"looktwice.extras.{place}", help, needs)


COMMANDS = {
    "compare": _at(
        "request_diff.commands:compare",
        "Compare logs of any harness, sample by sample.",
        GATED_OPTIONS,
    ),
    "studio": _at(
        "studio.commands:studio",
        "Put marks and stages on your own picture in a browser.",
        GATED_OPTIONS,
    ),
    "discover": _at(
        "adaptive.commands:discover",
        "Find the best arm of a sweep with a fraction of its answers.",
        GATED_OPTIONS,
    ),
    "make": _at("make.commands:make", "Make questions from your own files.", GATED_OPTIONS),
    "annotate": _at(
        "annotation.commands:annotate",
        "Create an annotation sheet for people, or evaluate filled-in ones.",
        GATED_OPTIONS,
    ),
    "export": _at(
        "request_diff.commands:export",
        "Export runs and logs to the formats of other tools.",
        GATED_OPTIONS,
    ),
    "serve": _at(
        "integrations.commands:serve",
        "Serve a study's contestants to any OpenAI-compatible client.",
        GATED_OPTIONS,
    ),
    "mcp": _at(
        "integrations.commands:mcp", "Serve image tools to any agent client.", GATED_OPTIONS
    ),
}
KEYS = {
    "choose": _at("adaptive.keys:Choose"),
    "thresholds": _at("adaptive.keys:Thresholds"),
    "fragility": _at("studies.fragility_key:Fragility"),
    "gap": _at("studies.gap_key:Gap"),
}
ANALYSES = {
    "gap": _at("studies.gap:FACTORS_ANALYSIS", "Why the numbers differ", ("key:gap",)),
    "fragility": _at(
        "studies.fragility:FRAGILITY_ANALYSIS", "Fragility under marker styles", FRAGILITY
    ),
    "flips": _at(
        "studies.ranks:FLIPS_ANALYSIS", "Changes of the lead under other styles", FRAGILITY
    ),
    "ranks": _at("studies.ranks:RANK_MOVES_ANALYSIS", "Ranks under other styles", FRAGILITY),
    "styles": _at("studies.fragility:EVERY_STYLE_ANALYSIS", "Every style and codec", FRAGILITY),
    "order": _at(
        "studies.ranks:ORDER_ANALYSIS", "Stability of the order", ("key:sweep|key:each|draws",)
    ),
    "race": _at("adaptive.race:RACE_ANALYSIS", "The race", ("file:race.json",)),
    "thresholds": _at(
        "adaptive.thresholds:THRESHOLDS_ANALYSIS", "Thresholds", ("key:thresholds|by",)
    ),
    "crossed": _at(
        "adaptive.thresholds:CROSSED_ANALYSIS", "Two fields crossed (--by A,B)", ("by",)
    ),
    "people": _at(
        "studies.gap:PEOPLE_ANALYSIS", "People on the same items", ("file:*/humans/humans.csv",)
    ),
    "published": _at("studies.gap:PUBLISHED_ANALYSIS", "Published results", ("key:published",)),
    "published-gaps": _at(
        "studies.gap:PUBLISHED_GAPS_ANALYSIS",
        "Difference from published results, points",
        ("key:published",),
    ),
    "audit": _at("studies.audit:AUDIT", "Answers without the images", ("asked",)),
    "probe": _at("inside.arms:PROBE", "Where in a model the answer is lost", ("asked",)),
    "items": _at(
        "adaptive.questions:ITEMS",
        "Item difficulties, and totals predicted from a few items",
        ("asked",),
    ),
}
CLASSES = {
    "eval.homes.Requests": _at("integrations.recorded:Requests"),
    "eval.make.Correspondence": _at("make.points:Correspondence"),
    "eval.make.Jigsaw": _at("make.files:Jigsaw"),
    "eval.make.Localization": _at("make.localization:Localization"),
    "eval.make.RelativeDepth": _at("make.relative_depth:RelativeDepth"),
    "eval.make.Sequences": _at("make.sequences:Sequences"),
    "eval.tasks.GeneratedDoYouSeeMe": _at("scenes.generated:GeneratedDoYouSeeMe"),
    "eval.tasks.LettersAndShapes": _at("scenes.letters_and_shapes:LettersAndShapes"),
    "eval.tasks.NearSighted": _at("scenes.toy_models:NearSighted"),
    "eval.tasks.NeverLooks": _at("scenes.toy_models:NeverLooks"),
    "eval.tasks.Puzzles": _at("scenes.puzzles:Puzzles"),
    "eval.tasks.RenderedScenes": _at("scenes.rendered_scenes:RenderedScenes"),
    "pipelines.models.Batched": _at("batches.model:Batched"),
    "specialists.answers.FigureAnalogy": _at("drawings.matrices:FigureAnalogy"),
    "specialists.answers.MatrixSolver": _at("drawings.matrices:MatrixSolver"),
    "specialists.drawings.ColoredShapeCounter": _at("drawings.shapes:ColoredShapeCounter"),
    "specialists.drawings.DotLetterReader": _at("drawings.sheets:DotLetterReader"),
    "specialists.drawings.MarkAskedShapes": _at("drawings.shapes:MarkAskedShapes"),
    "specialists.drawings.OutlineCounter": _at("drawings.shapes:OutlineCounter"),
    "specialists.drawings.PatternMatcher": _at("drawings.sheets:PatternMatcher"),
    "specialists.drawings.ShapeGridReader": _at("drawings.sheets:ShapeGridReader"),
}
"""Classes that studies and records still name by their former path in the core."""
EXTENSIONS: Mapping[str, Mapping[str, Extension]] = {
    "commands": COMMANDS,
    "keys": KEYS,
    "analyses": ANALYSES,
    "executors": {
        "processes": _at("executors.processes:Processes"),
        "ray": _at("executors.ray_executor:RayExecutor"),
    },
    "classes": CLASSES,
    "parts": {
        "replies": _at("logs.replies:report_replies"),
        "studio": _at("studio.server:make_page_studio"),
    },
}
