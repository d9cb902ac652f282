"""The table of looktwice's bundled extensions. The core never imports from this folder: it opens an
entry of this table when its name is used."""

from __future__ import annotations

from collections.abc import Mapping

from looktwice.pipelines.extensions import Extension

GATED_OPTIONS = ("--allow",)
FRAGILITY_NEEDS = ("key:fragility",)
AGENT_NEEDS = ("room:prompting.agent",)


def _make_entry(target: str, help: str = "", needs: tuple[str, ...] = ()) -> Extension:
    return Extension(f"looktwice.extras.{target}", help, needs)


def _list_classes(*rows: tuple[str, str, str]) -> dict[str, Extension]:
    """Return an entry for each class. A row has the classes' room in studies and records, the
    module that defines them, and their names."""
    return {
        f"{room}.{name}": _make_entry(f"{module}:{name}")
        for room, module, names in rows
        for name in names.split()
    }


COMMANDS = {
    "compare": _make_entry(
        "request_diff.commands:compare",
        "Compare logs of any harness, sample by sample.",
        GATED_OPTIONS,
    ),
    "studio": _make_entry(
        "studio.commands:studio",
        "Try marks and stages on your own picture in a browser.",
        GATED_OPTIONS,
    ),
    "judge": _make_entry(
        "judging.commands:judge", "Let a model grade replies that no rule can read.", GATED_OPTIONS
    ),
    "merge": _make_entry(
        "executors.commands:merge", "Merge the shards of a run into one run folder.", GATED_OPTIONS
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
        "studies.fragility:FRAGILITY_ANALYSIS", "Fragility under marker styles", FRAGILITY_NEEDS
    ),
    "flips": _make_entry(
        "studies.ranks:FLIPS_ANALYSIS", "Changes of the lead under other styles", FRAGILITY_NEEDS
    ),
    "ranks": _make_entry(
        "studies.ranks:RANK_MOVES_ANALYSIS", "Ranks under other styles", FRAGILITY_NEEDS
    ),
    "styles": _make_entry(
        "studies.fragility:EVERY_STYLE_ANALYSIS", "Every style and codec", FRAGILITY_NEEDS
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
    "looks": _make_entry(
        "looking.agent_looks:LOOKS_CHANGED_ANALYSIS", "What an agent's looks changed", AGENT_NEEDS
    ),
    "certify": _make_entry(
        "looking.contribution:CERTIFICATE_ANALYSIS",
        "What a tool contributes, part by part",
        ("asked",),
    ),
    "tool": _make_entry(
        "looking.contribution:TOOL_ANALYSIS", "What the tool contributes", AGENT_NEEDS
    ),
    "look_turns": _make_entry(
        "looking.agent_looks:LOOK_TURNS_ANALYSIS",
        "Accuracy by number of turns with looks",
        AGENT_NEEDS,
    ),
    "turns": _make_entry(
        "looking.turns:FURTHER_TURNS_ANALYSIS", "What further turns changed", ("turns",)
    ),
    "stopping": _make_entry("looking.turns:STOPPING_ANALYSIS", "When to stop", ("turns",)),
    "risk": _make_entry("looking.measured:RISK_ANALYSIS", "Risk and coverage", ("measured",)),
    "routing": _make_entry(
        "looking.measured:ROUTING_ANALYSIS", "Routing by confidence", ("measured",)
    ),
    "measured": _make_entry(
        "looking.measured:MEASURED_ANALYSIS", "Measurements and accuracy", ("measured",)
    ),
    "seen": _make_entry(
        "looking.turns:SEEN_ANALYSIS",
        "Was the mark seen?",
        ("class:prompting.controls.MarkQuestions",),
    ),
    "spread": _make_entry(
        "studies.steadiness:SPREAD_ANALYSIS", "Spread over variants", ("variants",)
    ),
    "draws": _make_entry("studies.steadiness:SEVERAL_DRAWS_ANALYSIS", "Draws", ("draws",)),
    "audit": _make_entry("studies.audit:AUDIT_ANALYSIS", "Answers without the images", ("asked",)),
    "probe": _make_entry(
        "inside.arms:PROBE_ANALYSIS", "Where in a model the answer is lost", ("asked",)
    ),
    "items": _make_entry(
        "adaptive.questions:ITEMS_ANALYSIS",
        "Item difficulties, and totals predicted from a few items",
        ("asked",),
    ),
}
CLASSES = _list_classes(
    ("eval.homes", "integrations.recorded", "Requests"),
    ("eval.make", "make.points", "Correspondence"),
    ("eval.make", "make.files", "Jigsaw"),
    ("eval.make", "make.localization", "Localization"),
    ("eval.make", "make.relative_depth", "RelativeDepth"),
    ("eval.make", "make.sequences", "Sequences"),
    ("eval.readers", "toolkits.readers", "BlinkOfficial LmmsEval Vlm2 Vlmevalkit"),
    ("eval.readers", "sets.readers", "Boxed"),
    ("eval.readers", "grounding.reader", "PlacesInReply"),
    ("eval.scoring", "toolkits.scorer", "BenchmarkScorer"),
    ("eval.scoring", "grounding.scorer", "PlacesScorer"),
    ("eval.scoring", "sets.point_answers", "PointScorer"),
    ("eval.scoring", "sets.rules", "SetScorer"),
    ("eval.scoring", "sets.vis_factor", "VisFactorScorer"),
    ("eval.tasks", "sets.baby_vision", "BabyVision"),
    ("eval.tasks", "blink_twice.task", "BlinkTwice TwiceScorer"),
    ("eval.tasks", "grounding.coco_file", "CocoFile"),
    ("eval.tasks", "vlm2.metrics", "CountScorer GroupScorer PairScorer VideoScorer"),
    ("eval.tasks", "sets.depth_pairs", "Da2k"),
    ("eval.tasks", "do_you_see_me.task", "DoYouSeeMe JointQuestions"),
    ("eval.tasks", "grounding.drawn_scenes", "DrawnScenes"),
    ("eval.tasks", "sets.embodied", "Erqa"),
    ("eval.tasks", "scenes.generated", "GeneratedDoYouSeeMe"),
    ("eval.tasks", "do_you_see_me.subtasks", "JointScorer SweepScorer"),
    ("eval.tasks", "scenes.letters_and_shapes", "LettersAndShapes"),
    ("eval.tasks", "looking.mark_questions", "MarkQuestions"),
    ("eval.tasks", "scenes.toy_models", "NearSighted NeverLooks"),
    ("eval.tasks", "sets.spatial", "OmniSpatial SpatialDise"),
    ("eval.tasks", "sets.pointing", "PointBench RefSpatial"),
    ("eval.tasks", "scenes.puzzles", "Puzzles"),
    ("eval.tasks", "scenes.rendered_scenes", "RenderedScenes"),
    ("eval.tasks", "video.frames", "Video"),
    ("eval.tasks", "sets.vis_factor", "VisFactor"),
    ("eval.tasks", "vlm2.task", "Vlm2Bench"),
    ("pipelines.models", "batches.model", "Batched"),
    ("pipelines.models", "wires.native", "GeminiAPI MessagesAPI ResponsesAPI"),
    ("pipelines.models", "engines.local_vlm", "LocalVLM"),
    ("pipelines.models", "engines.sglang_engine", "SGLang"),
    ("pipelines.models", "engines.vllm_engine", "VLLM"),
    (
        "prompting.agent",
        "shown_results.stage_tools",
        "ApplyStage CropByWord ShowDepth ShowMatches ShowSegments ZoomOnFaces",
    ),
    ("prompting.agent", "python_tool.bubblewrap", "Bubblewrap"),
    ("prompting.agent", "trained_agents.tools", "CodeCalls Edit ZoomIn"),
    ("prompting.agent", "shown_results.tools", "CompareRegions TellNearer"),
    ("prompting.agent", "python_tool.container", "Container"),
    ("prompting.agent", "python_tool.tool", "RunPython"),
    ("prompting.burnt_in", "burnt_in.erase", "EraseMarks"),
    ("prompting.burnt_in", "burnt_in.known_pictures", "MarksFrom"),
    ("prompting.burnt_in", "burnt_in.recover", "RecoverMarks"),
    (
        "prompting.markers",
        "toolkits.styles",
        "BlinkPaperStyle BlinkReleasedStyle SomStyle VPBenchPrompt VPBenchStyle Vlm2Style",
    ),
    (
        "prompting.markers",
        "shown_results.overlays",
        "DepthOverlay MatchOverlay ScalarOverlay SegmentTint",
    ),
    (
        "prompting.telling",
        "shown_results.words",
        "DepthWords MatchWords RegionWords SimilarityWords",
    ),
    ("prompting.turns", "model_guided.contrast", "ContrastAnswer"),
    ("prompting.views", "model_guided.dimmed", "Dimmed"),
    ("prompting.views", "model_guided.retrieved", "RetrievedCrops"),
    ("prompting.views", "video.native", "SendVideo"),
    ("prompting.where", "model_guided.search", "AskedCells Rules TreeSearch"),
    ("prompting.where", "model_guided.attention", "ViCrop"),
    (
        "prompting.wording",
        "toolkits.wording",
        "BlinkConsistencyDecoding BlinkDecoding DoYouSeeMeDecoding LmmsEvalDecoding "
        "LmmsEvalPrompt OfficialPrompt Vlm2LongDecoding Vlm2ShortDecoding VlmevalkitDecoding "
        "VlmevalkitPrompt",
    ),
    ("specialists.answers", "geometry.camera_path", "CameraPath"),
    ("specialists.answers", "drawings.matrices", "FigureAnalogy MatrixSolver"),
    ("specialists.detection", "detection.dire", "DIRE"),
    ("specialists.detection", "detection.faces", "FaceBoxes FaceCascade FaceRecognition"),
    ("specialists.detection", "detection.boxes", "Florence2 MaskBoxes RFDETR"),
    ("specialists.detection", "detection.grounding_dino", "GroundingDINO"),
    ("specialists.detection", "detection.face_networks", "MTCNN YuNet"),
    ("specialists.detection", "detection.ppocr", "PPOCR"),
    (
        "specialists.drawings",
        "drawings.shapes",
        "ColoredShapeCounter MarkAskedShapes OutlineCounter",
    ),
    ("specialists.drawings", "drawings.sheets", "DotLetterReader PatternMatcher ShapeGridReader"),
    ("specialists.features", "features.attention", "AttentionShare VisionAttention"),
    ("specialists.features", "features.dift", "DIFT DIFTHPatches DIFTSPair"),
    ("specialists.features", "features.backbones", "DINOv2 EfficientNet"),
    ("specialists.features", "features.salience", "EditSalience"),
    ("specialists.features", "features.question_attention", "QuestionAttention"),
    ("specialists.maps", "maps.depth_anything", "DepthAnything DepthAnything3"),
    ("specialists.maps", "geometry.depth_anything", "DepthAnythingViews"),
    ("specialists.maps", "maps.marigold", "MarigoldAlbedo"),
    ("specialists.maps", "intrinsics.ordinal_shading", "OrdinalShading"),
    ("specialists.matching", "geometry.views", "GeometricMatcher"),
    ("specialists.matching", "matching.keypoints", "KeypointMatcher"),
    ("specialists.matching", "matching.lightglue", "LightGlue XFeat"),
    ("specialists.matching", "matching.pair_network", "LoFTR RoMa"),
    ("specialists.networks", "networks.network", "Network"),
    ("specialists.segmentation", "segmentation.sam3", "GroundedSAM SAM3"),
    ("specialists.segmentation", "segmentation.sam", "SAM SegmentEverything"),
    ("specialists.segmentation", "segmentation.u2net", "U2Net"),
)
"""Classes of extensions that studies and records name by a path in the core, which held most of
them before."""
EXTENSIONS: Mapping[str, Mapping[str, Extension]] = {
    "commands": COMMANDS,
    "keys": KEYS,
    "analyses": ANALYSES,
    "executors": {"ray": _make_entry("executors.ray_executor:RayExecutor")},
    "classes": CLASSES,
    "passes": {
        "key": _make_entry("sets.key_judge:KEY_PASS"),
        "vid": _make_entry("vlm2.judge:VIDEO_PASS"),
    },
    "parts": {
        "figures": _make_entry("paper.figures:save_figures"),
        "latex": _make_entry("paper.latex:make_latex_table"),
        "processes": _make_entry("executors.processes:Processes"),
        "replies": _make_entry("logs.replies:report_replies"),
        "still": _make_entry("video.still:make_still"),
        "studio": _make_entry("studio.server:make_page_studio"),
        "video_inputs": _make_entry("video.inputs:make_inputs"),
    },
}
