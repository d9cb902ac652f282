"""The papers' main tables run whole from the configurations that ship, with the cells that a count
by hand gives."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
from typer.testing import CliRunner

from looktwice.eval.cli import app
from looktwice.eval.display.table import score_table
from looktwice.eval.records import RunFolder
from looktwice.eval.replies import load_key
from looktwice.eval.runs import Study
from looktwice.pipelines.config import load_plan
from tests import official_layouts as made
from tests.paths import CONFIGS

SVG = (
    '<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"><rect width="4"'
    ' height="4"/></svg>\nThe answer is 1.'
)


@dataclass(frozen=True)
class MainTable:
    """A configuration, its files and overrides, what the model says, the planned records of each
    contestant, and cells.

    A cell is `contestant | task | metric` of the table in percent, a total's task being the
    benchmark.
    """

    config: str
    lay: Callable[[Path], list[str]]
    said: str
    records: Mapping[str, int]
    cells: Mapping[str, float]
    model: str = "models.chat"


def blink(root: Path) -> list[str]:
    made.blink(root)
    return [f"tasks.Relative_Depth.path={root}"]


def dysm(task: str) -> Callable[[Path], list[str]]:
    def lay(root: Path) -> list[str]:
        made.dysm(root)
        return [f"tasks.{task}.path={root}"]

    return lay


def data(lay: Callable[[Path], None]) -> Callable[[Path], list[str]]:
    def laid(root: Path) -> list[str]:
        lay(root)
        return [f"data={root}"]

    return laid


def vlm2(root: Path) -> list[str]:
    """With a reply for each question: one pair of three right, one "T." for T, one count unread and
    one near."""
    return [f"tasks.gc_mat.path={root}", recorded(root, made.vlm2(root))]


def recorded(root: Path, replies: Mapping[str, str]) -> str:
    rows = [{"idx": name, "reply": text} for name, text in replies.items()]
    made.json_lines(root / "said.jsonl", rows)
    return f"models.chat={{use: pipelines.models.Replay, path: {root / 'said.jsonl'}}}"


def natural(root: Path) -> list[str]:
    return [f"data={root}", recorded(root, made.natural_bench(root))]


def prompted(root: Path) -> list[str]:
    from tests.tiny import tiny

    pytest.importorskip("transformers")
    made.vlm2(root, few=True)
    detector = tiny("grounding_dino", root / "detector")  # untrained: any box will do
    objects = "contestants.VP-zoom-o.stages.objects.detector"
    faces = "contestants.VP-zoom-p.stages.faces.detector"
    words = [f"tasks.gc_mat.path={root}", f"{objects}.model={detector}"]
    return [
        *words,
        f"{objects}.threshold=0.0",
        f"{faces}={{use: specialists.detection.FaceCascade}}",
    ]


TABLES = [
    MainTable(  # (A) is the key of one question of one, two or three
        "blink_bench",
        blink,
        "(A)",
        {"official": 27, "robust": 0},
        {
            **{
                f"official | {name} | accuracy": 100 / task.rows
                for name, task in made.BLINK.items()
            },
            "official | BLINK | blink_macro": (5 * 100 + 5 * 50 + 4 * 100 / 3) / 14,
            "official | BLINK | blink_micro": 100 * 14 / 27,
            "official | BLINK | blink_macro_without_reflectance": (
                (4 * 100 + 5 * 50 + 4 * 100 / 3) / 13
            ),
            "official | BLINK | blink_micro_without_reflectance": 100 * 13 / 26,
            "robust | BLINK | blink_macro": (5 * 100 + 5 * 50 + 4 * 100 / 3) / 14,
        },
    ),
    # 1 is the key of three pictures of 3 + second; of the two questions of a picture of the first
    MainTable(
        "dysm_bench",
        dysm("figure_ground"),
        "The answer is 1.",
        {"plain": 5 + 8 + 4 + 6 + 10 + 4 + 7 + 4 + 5 + 4 + 4 + 6},
        {
            "plain | figure_ground | accuracy": 100 * 3 / 4,
            "plain | visual_spatial | accuracy": 100 * 3 / 10,
            "plain | joint_shape_color | accuracy": 100 * 3 / 8,
            "plain | shape_discrimination | accuracy": 100 * 3 / 5,
            "plain | letter_disambiguation | accuracy": 0.0,
            "plain | form_constancy | accuracy": 100 * 3 / 6,
            "plain | visual_closure | accuracy": 100 * 3 / 7,
            "plain | Do You See Me | mean_2d": (
                100 * (0.75 + 0.3 + 0.375 + 0.6 + 0.0 + 0.5 + 3 / 7) / 7
            ),
            "plain | joint_shape_color_3d | accuracy": 100 * 3 / 5,
            "plain | letter_disambiguation_3d | accuracy": 0.0,
            "plain | shape_discrimination_3d | accuracy": 100 * 3 / 4,
            "plain | form_constancy_3d | accuracy": 0.0,
            "plain | visual_spatial_3d | accuracy": 100 * 3 / 6,
            "plain | Do You See Me | mean_3d": 100 * (0.6 + 0.0 + 0.75 + 0.0 + 0.5) / 5,
        },
    ),
    # two pictures of each setting, where it has two: right on one question of each of the first
    # setting
    MainTable(
        "dysm_redraw",
        dysm("shape"),
        SVG,
        {"image": 4 + 6 + 3 + 8 + 4 + 3 + 4, "SVG": 4 + 6 + 3 + 8 + 4 + 3 + 4},
        {
            f"{arm} | {task} | accuracy": 100 * share
            for arm in ("image", "SVG")
            for task, share in {
                "shape": 2 / 4,
                "color": 2 / 6,
                "letter": 0,
                "spatial": 2 / 8,
                "closure": 2 / 4,
                "ground": 2 / 3,
                "constancy": 2 / 4,
            }.items()
        },
        model="model",
    ),
    MainTable(
        "vlm2_bench",
        vlm2,
        "",
        {"plain": 6 * 4 + 9 + 24 + 4 + 4 + 2, "robust": 0},
        {
            "plain | gc_mat | pair_accuracy": 100 / 3,
            "plain | gc_mat | positive_accuracy": 200 / 3,
            "plain | gc_mat | negative_accuracy": 100 / 3,
            "plain | gc_trk | pair_accuracy": 0.0,
            "robust | gc_trk | pair_accuracy": 100.0,
            "plain | oc_cpr | pair_accuracy": 100 / 3,
            "plain | oc_cnt | numeric_official": 710.404 / 8,
            "plain | oc_cnt | numeric_vlmevalkit": 710.404 / 9,
            "plain | oc_cnt | accuracy": 700 / 9,
            "plain | oc_grp | accuracy": 50.0,
            "robust | oc_grp | accuracy": 75.0,
            "plain | pc_cpr | pair_accuracy": 100 / 3,
            "plain | pc_cnt | numeric_official": 100.0,
            "plain | pc_grp | accuracy": 50.0,
            "plain | VLM2-Bench | overall_8": (3 * 100 / 3 + 0 + 710.404 / 8 + 2 * 50 + 100) / 8,
            "chance (level) | oc_cnt | numeric_official": 34.876,  # as the paper prints them
            "chance (level) | pc_cnt | numeric_official": 34.87,
            "chance (level) | VLM2-Bench | overall_8": 33.72,
        },
    ),
    # "T" is right of one of each two statements and of no pair, and neither a count nor an option
    MainTable(
        "vlm2_prompts",
        prompted,
        "Step by step.\nMY_ANSWER: T",
        {
            "vanilla": 14,
            "CoT-normal": 14,
            "CoT-special": 4,
            "VP-grid": 4,
            "VP-zoom-o": 5,
            "VP-zoom-p": 5,
        },
        {
            **{
                f"{arm} | gc_trk | accuracy": 50.0
                for arm in ("vanilla", "CoT-normal", "CoT-special", "VP-grid")
            },
            **{
                f"{arm} | oc_cpr | accuracy": 50.0 for arm in ("vanilla", "CoT-normal", "VP-zoom-o")
            },
            **{
                f"{arm} | pc_cpr | accuracy": 50.0 for arm in ("vanilla", "CoT-normal", "VP-zoom-p")
            },
            "VP-grid | gc_mat | pair_accuracy": 0.0,
            "VP-grid | gc_mat | positive_accuracy": 100.0,
            "VP-zoom-o | oc_cnt | accuracy": 0.0,
            "VP-zoom-p | pc_grp | accuracy": 0.0,
        },
        model="model",
    ),
    MainTable(  # Yes is right of all but the first of eight questions
        "blink_twice",
        lambda root: [f"task.path={made.twice(root)}"],
        "Final Answer: Yes",
        {"plain": 8, "chance": 8},
        {
            "plain | task | no_acc": 0.0,
            "plain | task | yes_acc": 100.0,
            "plain | task | q_acc": 100 * 7 / 8,
            "plain | task | q_acc_either": 100.0,
            "plain | task | q_acc_naturalbench": 75.0,
            "plain | task | i_acc": 75.0,
            "plain | task | g_acc": 50.0,
            "chance (level) | task | accuracy": 50.0,
        },
    ),
    MainTable(
        "dysm_joint",
        lambda root: [f"task.path={made.joint(root)}"],
        "I see.\nFinal Answer: A",
        {"plain": 10},
        {
            "plain | task | perception_accuracy": 40.0,
            "plain | task | reasoning_accuracy": 60.0,
            "plain | task | both": 20.0,
            "plain | task | perception_wrong_when_reasoning_right": 200 / 3,
        },
    ),
    MainTable(
        "v_star",
        data(made.v_star),
        "A",
        {"plain": 4, "chance": 4},
        {
            "plain | task | accuracy": 75.0,
            "plain | task | mean_accuracy": 100 * (2 / 3 + 1) / 2,
            "chance (level) | task | mean_accuracy": 37.5,
        },
    ),
    MainTable(
        "hr_bench",
        data(made.hr_bench),
        "(A)",
        {"plain": 16, "chance": 16},
        {"plain | 4k | mean_accuracy": 37.5, "plain | 8k | mean_accuracy": 37.5},
    ),
    MainTable(
        "mmvp",
        data(made.mmvp),
        "(a)",
        {"plain": 6, "chance": 6},
        {
            "plain | task | accuracy": 50.0,
            "plain | task | pair_accuracy": 100 / 3,
            "chance (level) | task | pair_accuracy": 25.0,
        },
    ),
    MainTable(
        "cv_bench",
        data(made.cv_bench),
        "A",
        {"plain": 7, "chance": 7},
        {"plain | task | mean_accuracy": 100 * ((1 + 1 / 4) / 2 + 1 / 2) / 2},
    ),
    MainTable(
        "natural_bench",
        natural,
        "",
        {"plain": 8},
        {
            "plain | task | accuracy": 87.5,
            "plain | task | q_acc": 75.0,
            "plain | task | i_acc": 75.0,
            "plain | task | g_acc": 50.0,
        },
    ),
    MainTable(
        "tree_bench",
        data(made.tree_bench),
        "<think><box>[0,0,10,10]</box></think> <answer>A</answer>",
        {"plain": 2},
        {
            "plain | task | accuracy": 50.0,
            "plain | task | box_iou": 75.0,
            "plain | task | mean_accuracy": 50.0,
        },
    ),
    MainTable(
        "vlms_are_blind",
        data(made.vlms_are_blind),
        "{3} rows={4} columns={5}, I know",
        {"plain": 4},
        {
            "plain | task | accuracy": 75.0,
            "plain | task | mean_accuracy": 100 * (1 / 2 + 1 + 1) / 3,
        },
    ),
    MainTable(
        "vp_bench",
        data(made.vp_bench),
        "Answer: D",
        {"plain": 3},
        {"plain | task | accuracy": 200 / 3},
    ),
    MainTable(
        "hallusion_bench",
        data(made.hallusion_bench),
        "Yes, it is.",
        {"plain": 4},
        {
            "plain | task | accuracy": 75.0,
            "plain | task | q_acc": 50.0,
            "plain | task | f_acc": 50.0,
        },
    ),
]
"""By hand, with `tests.official_layouts` beside one."""


@pytest.mark.dear
@pytest.mark.parametrize("table", TABLES, ids=[table.config for table in TABLES])
def test_a_main_table_runs_whole(table: MainTable, tmp_path: Path) -> None:
    words = table.lay(tmp_path / "set")
    if table.said:
        answer = json.dumps(table.said)
        words.append(f"{table.model}={{use: pipelines.models.Scripted, answer: {answer}}}")
    folder = ran(table.config, words, tmp_path)
    assert not folder.facts["left_out"] and folder.facts["finished"]
    asked = dict.fromkeys(table.records, 0)
    for record in folder.records().values():
        assert not record.error
        asked[folder.points[record.point].contestant] += 1
    assert asked == table.records
    if table.config == "vlm2_prompts":
        check_prompts(folder)
    # the videos are not judged, and nine subtasks are needed
    assert not score_table(folder.path).where(metric="overall_9").rows
    assert cells_of(folder.path, table.cells) == pytest.approx(table.cells, abs=0.0051)


FOUR = ("1. Understand", "2. Perceive", "3. Connect", "4. Conclude")
GRID = ("instruction", "6 rows and 6 columns", "(image, row, column)", "four steps", *FOUR[:2])
CONNECT = ("coordinates", FOUR[2], "the same places", FOUR[3], "MY_ANSWER:")
STRUCTURE = {
    "vanilla": ("Q gc_mat0?",),
    "CoT-normal": ("Q gc_mat0?", "step by step"),
    "CoT-special": ("Q gc_mat0?", "four steps", FOUR[0], "form", *FOUR[1:]),
    "VP-grid": ("Q gc_mat0?", *GRID, *CONNECT),
}
"""What the prompts of VLM2-Bench hold, one after the other, as its Tables 16 and 17 and Fig. 9
print it."""


def check_prompts(folder: RunFolder) -> None:
    views, texts = {}, dict[str, str]()
    for record in folder.records().values():
        point, message = folder.points[record.point], folder.messages(record)[0]
        views[point.contestant, record.sample] = len(message.views)
        if point.task == "gc_mat":
            texts.setdefault(point.contestant, message.text)
    for arm, parts in STRUCTURE.items():
        at = 0
        for part in parts:
            assert (at := texts[arm].find(part, at)) >= 0, (arm, part, texts[arm])
    for arm in ("VP-grid", "VP-zoom-o", "VP-zoom-p"):  # each image once, with dots or as its crop
        shown = {sample: count for (name, sample), count in views.items() if name == arm}
        assert shown and all(count == views["vanilla", sample] for sample, count in shown.items())


def ran(config: str, words: list[str], root: Path) -> RunFolder:
    words = ["run", str(CONFIGS / f"{config}.yaml"), *words, "--out", str(root / "runs")]
    result = CliRunner().invoke(app, words, env={"OPENAI_API_KEY": "none"})
    assert result.exit_code == 0, result.output
    return RunFolder(root / "runs" / config)


def cells_of(folder: Path, wanted: Mapping[str, float]) -> dict[str, float]:
    cells = {}
    for row in score_table(folder).rows:
        name = f"{row.contestant} | {row.task} | {row.metric}"
        if name in wanted and not row.slice and row.value is not None:
            cells[name] = 100 * row.value
    return cells


@pytest.mark.dear
def test_every_style_and_codec_of_marker_fragility_is_asked(tmp_path: Path) -> None:
    """68 arms of a question of depth, with the key A, and of a correspondence with the key C."""
    words = ["tasks.depth.n=1", "tasks.correspondence.n=1"]
    words += ["model={use: pipelines.models.Scripted, answer: (A)}"]
    Study(load_plan(CONFIGS / "marker_fragility.yaml", words), tmp_path)()
    folder = RunFolder(tmp_path / "marker_fragility")
    records = folder.records().values()
    assert len(records) == 17 * 4 * 2 and not any(record.error for record in records)
    prompts = {folder.messages(record)[0].text for record in records}
    for said in ("circle in blue", "diamond in red", "(B) Point 2"):  # the words go with the style
        assert any(said in text for text in prompts), said
    rows = score_table(folder.path).where(metric="accuracy", slice="").rows
    arms = [row for row in rows if row.point]
    assert len({row.contestant for row in arms}) == 68
    shares = {(row.task_name, row.value, row.n) for row in arms}
    assert shares == {("depth", 1.0, 1), ("correspondence", 0.0, 1)}


@pytest.mark.dear
def test_blink_on_the_real_files_that_are_here(shared_data: Path, tmp_path: Path) -> None:
    """Half of val of three tasks; (A) is right of as many as the authors' key, a file of its own,
    says."""
    right = {"Jigsaw": (38, 75), "Relative_Depth": (27, 62), "Spatial_Relation": (39, 72)}
    words = [f"tasks.{name}=null" for name in made.BLINK if name not in right]
    words += [f"tasks.Relative_Depth.path={shared_data / 'blink'}"]
    words += ["models.chat={use: pipelines.models.Scripted, answer: (A)}"]
    Study(load_plan(CONFIGS / "blink_bench.yaml", words), tmp_path)()
    folder = RunFolder(tmp_path / "blink_bench")
    assert not any(record.error for record in folder.records().values())
    key = load_key(shared_data / "blink_replies" / "val_answers.json")
    assert sum(key[name] == "(A)" for _, name in folder.samples) == 38 + 27 + 39
    table = score_table(folder.path).where(metric="accuracy", slice="")
    for contestant in ("official", "robust"):
        rows = table.where(contestant=contestant).rows
        assert {row.task_name: (row.right, row.n) for row in rows if row.task_name} == right
