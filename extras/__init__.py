"""The table of looktwice's bundled extensions. The core never imports from this folder: it opens an
entry of this table when its name is used."""

from __future__ import annotations

from collections.abc import Mapping

from looktwice.pipelines.extensions import Extension

GATED_OPTIONS = ("--allow",)
FRAGILITY_TRAITS = ("key:fragility",)


def _make_entry(place: str, help: str = "", needs: tuple[str, ...] = ()) -> Extension:
    return Extension(f"looktwice.extras.{place}", help, needs)


COMMANDS = {
    "compare": _make_entry(
        "request_diff.commands:compare",
        "Compare logs of any harness, sample by sample.",
        GATED_OPTIONS,
    ),
    "studio": _make_entry(
        "studio.commands:studio",
        "Put marks and stages on your own picture in a browser.",
        GATED_OPTIONS,
    ),
    "discover": _make_entry(
        "adaptive.commands:discover",
        "Find the best arm of a sweep with a fraction of its answers.",
        GATED_OPTIONS,
    ),
    "make": _make_entry("make.commands:make", "Make questions from your own files.", GATED_OPTIONS),
    "annotate": _make_entry(
        "annotation.commands:annotate",
        "Create an annotation sheet for people, or evaluate filled-in ones.",
        GATED_OPTIONS,
    ),
    "export": _make_entry(
        "request_diff.commands:export",
        "Export runs and logs to the formats of other tools.",
        GATED_OPTIONS,
    ),
    "serve": _make_entry(
        "integrations.commands:serve",
        "Serve a study's contestants to clients of OpenAI and Anthropic.",
        GATED_OPTIONS,
    ),
    "mcp": _make_entry(
        "integrations.commands:mcp", "Serve image tools to any agent client.", GATED_OPTIONS
    ),
}
KEYS = {
    "choose": _make_entry("adaptive.keys:Choose"),
    "thresholds": _make_entry("adaptive.keys:Thresholds"),
    "fragility": _make_entry("studies.fragility_key:Fragility"),
    "gap": _make_entry("studies.gap_key:Gap"),
}
ANALYSES = {
    "gap": _make_entry("studies.gap:FACTORS_ANALYSIS", "Why the numbers differ", ("key:gap",)),
    "fragility": _make_entry(
        "studies.fragility:FRAGILITY_ANALYSIS", "Fragility under marker styles", FRAGILITY_TRAITS
    ),
    "flips": _make_entry(
        "studies.ranks:FLIPS_ANALYSIS", "Changes of the lead under other styles", FRAGILITY_TRAITS
    ),
    "ranks": _make_entry(
        "studies.ranks:RANK_MOVES_ANALYSIS", "Ranks under other styles", FRAGILITY_TRAITS
    ),
    "styles": _make_entry(
        "studies.fragility:EVERY_STYLE_ANALYSIS", "Every style and codec", FRAGILITY_TRAITS
    ),
    "order": _make_entry(
        "studies.ranks:ORDER_ANALYSIS", "Stability of the order", ("key:sweep|key:each|draws",)
    ),
    "race": _make_entry("adaptive.race:RACE_ANALYSIS", "The race", ("file:race.json",)),
    "thresholds": _make_entry(
        "adaptive.thresholds:THRESHOLDS_ANALYSIS", "Thresholds", ("key:thresholds|by",)
    ),
    "crossed": _make_entry(
        "adaptive.thresholds:CROSSED_ANALYSIS", "Two fields crossed (--by A,B)", ("by",)
    ),
    "people": _make_entry(
        "studies.gap:PEOPLE_ANALYSIS", "People on the same items", ("file:*/humans/humans.csv",)
    ),
    "published": _make_entry(
        "studies.gap:PUBLISHED_ANALYSIS", "Published results", ("key:published",)
    ),
    "published-gaps": _make_entry(
        "studies.gap:PUBLISHED_GAPS_ANALYSIS",
        "Difference from published results, points",
        ("key:published",),
    ),
    "audit": _make_entry("studies.audit:AUDIT", "Answers without the images", ("asked",)),
    "probe": _make_entry("inside.arms:PROBE", "Where in a model the answer is lost", ("asked",)),
    "items": _make_entry(
        "adaptive.questions:ITEMS",
        "Item difficulties, and totals predicted from a few items",
        ("asked",),
    ),
}
CLASSES = {
    "eval.readers.Boxed": _make_entry("sets.readers:Boxed"),
    "eval.scoring.PointScorer": _make_entry("sets.point_answers:PointScorer"),
    "eval.scoring.SetScorer": _make_entry("sets.rules:SetScorer"),
    "eval.scoring.VisFactorScorer": _make_entry("sets.vis_factor:VisFactorScorer"),
    "eval.tasks.BabyVision": _make_entry("sets.baby_vision:BabyVision"),
    "eval.tasks.Da2k": _make_entry("sets.depth_pairs:Da2k"),
    "eval.tasks.Erqa": _make_entry("sets.embodied:Erqa"),
    "eval.tasks.OmniSpatial": _make_entry("sets.spatial:OmniSpatial"),
    "eval.tasks.PointBench": _make_entry("sets.pointing:PointBench"),
    "eval.tasks.RefSpatial": _make_entry("sets.pointing:RefSpatial"),
    "eval.tasks.SpatialDise": _make_entry("sets.spatial:SpatialDise"),
    "eval.tasks.VisFactor": _make_entry("sets.vis_factor:VisFactor"),
    "eval.homes.Requests": _make_entry("integrations.recorded:Requests"),
    "eval.make.Correspondence": _make_entry("make.points:Correspondence"),
    "eval.make.Jigsaw": _make_entry("make.files:Jigsaw"),
    "eval.make.Localization": _make_entry("make.localization:Localization"),
    "eval.make.RelativeDepth": _make_entry("make.relative_depth:RelativeDepth"),
    "eval.make.Sequences": _make_entry("make.sequences:Sequences"),
    "eval.readers.PlacesInReply": _make_entry("grounding.reader:PlacesInReply"),
    "eval.scoring.PlacesScorer": _make_entry("grounding.scorer:PlacesScorer"),
    "eval.tasks.CocoFile": _make_entry("grounding.coco_file:CocoFile"),
    "eval.tasks.DrawnScenes": _make_entry("grounding.drawn_scenes:DrawnScenes"),
    "eval.tasks.GeneratedDoYouSeeMe": _make_entry("scenes.generated:GeneratedDoYouSeeMe"),
    "eval.tasks.LettersAndShapes": _make_entry("scenes.letters_and_shapes:LettersAndShapes"),
    "eval.tasks.NearSighted": _make_entry("scenes.toy_models:NearSighted"),
    "eval.tasks.NeverLooks": _make_entry("scenes.toy_models:NeverLooks"),
    "eval.tasks.Puzzles": _make_entry("scenes.puzzles:Puzzles"),
    "eval.tasks.RenderedScenes": _make_entry("scenes.rendered_scenes:RenderedScenes"),
    "eval.tasks.Video": _make_entry("video.frames:Video"),
    "pipelines.models.Batched": _make_entry("batches.model:Batched"),
    "pipelines.models.GeminiAPI": _make_entry("wires.native:GeminiAPI"),
    "pipelines.models.MessagesAPI": _make_entry("wires.native:MessagesAPI"),
    "pipelines.models.ResponsesAPI": _make_entry("wires.native:ResponsesAPI"),
    "pipelines.models.SGLang": _make_entry("engines.sglang_engine:SGLang"),
    "pipelines.models.VLLM": _make_entry("engines.vllm_engine:VLLM"),
    "prompting.agent.Bubblewrap": _make_entry("python_tool.bubblewrap:Bubblewrap"),
    "prompting.agent.Container": _make_entry("python_tool.container:Container"),
    "prompting.agent.RunPython": _make_entry("python_tool.tool:RunPython"),
    "prompting.views.SendVideo": _make_entry("video.native:SendVideo"),
    "specialists.answers.CameraPath": _make_entry("geometry.camera_path:CameraPath"),
    "specialists.answers.FigureAnalogy": _make_entry("drawings.matrices:FigureAnalogy"),
    "specialists.answers.MatrixSolver": _make_entry("drawings.matrices:MatrixSolver"),
    "specialists.drawings.ColoredShapeCounter": _make_entry("drawings.shapes:ColoredShapeCounter"),
    "specialists.drawings.DotLetterReader": _make_entry("drawings.sheets:DotLetterReader"),
    "specialists.drawings.MarkAskedShapes": _make_entry("drawings.shapes:MarkAskedShapes"),
    "specialists.drawings.OutlineCounter": _make_entry("drawings.shapes:OutlineCounter"),
    "specialists.drawings.PatternMatcher": _make_entry("drawings.sheets:PatternMatcher"),
    "specialists.drawings.ShapeGridReader": _make_entry("drawings.sheets:ShapeGridReader"),
    "specialists.maps.DepthAnythingViews": _make_entry(
        "geometry.depth_anything:DepthAnythingViews"
    ),
    "specialists.maps.OrdinalShading": _make_entry("intrinsics.ordinal_shading:OrdinalShading"),
    "specialists.matching.GeometricMatcher": _make_entry("geometry.views:GeometricMatcher"),
}
"""Classes that studies and records name by a path in the core: most were there once."""
EXTENSIONS: Mapping[str, Mapping[str, Extension]] = {
    "commands": COMMANDS,
    "keys": KEYS,
    "analyses": ANALYSES,
    "executors": {"ray": _make_entry("executors.ray_executor:RayExecutor")},
    "classes": CLASSES,
    "passes": {"key": _make_entry("sets.key_judge:KEY_PASS")},
    "parts": {
        "processes": _make_entry("executors.processes:Processes"),
        "replies": _make_entry("logs.replies:report_replies"),
        "still": _make_entry("video.still:show_still"),
        "studio": _make_entry("studio.server:make_page_studio"),
        "video_inputs": _make_entry("video.inputs:make_inputs"),
    },
}
