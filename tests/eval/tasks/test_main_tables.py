"""The papers' main tables run completely from the shipped configurations."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from looktwice.eval.cli import app
from looktwice.eval.display.table import score_table
from looktwice.eval.records import RunFolder
from looktwice.eval.replies import load_answer_key
from looktwice.eval.runs import Study
from looktwice.pipelines.config import load_plan
from tests import official_layouts as made
from tests.paths import CONFIGS
from tests.tables import read_yaml
from tests.tiny import tiny

TABLES: dict[str, dict[str, Any]] = read_yaml(Path(__file__).with_suffix(".yaml"))


def read_prompts(root: Path) -> list[str]:
    """The few questions, and detectors for the arms that crop."""
    pytest.importorskip("transformers")
    made.vlm2(root, few=True)
    objects, faces = (
        f"contestants.VP-zoom-{kind}.stages.{slot}.detector"
        for kind, slot in (("o", "objects"), ("p", "faces"))
    )
    detector = tiny("grounding_dino", root / "detector")  # untrained: any box will do
    words = [f"tasks.gc_mat.path={root}", f"{objects}.model={detector}", f"{objects}.threshold=0.0"]
    return [*words, f"{faces}={{use: specialists.detection.FaceCascade}}"]


def write_layout(table: dict[str, Any], root: Path) -> list[str]:
    """Write the files of a benchmark and return the options that make a configuration use them."""
    if table["lay"] == "prompted":
        return read_prompts(root)
    laid = getattr(made, table["lay"])(root)
    words = [f"{table['place']}={laid if isinstance(laid, Path) else root}"]
    if isinstance(laid, dict):  # a reply for each question
        made.json_lines(root / "said.jsonl", [{"idx": k, "reply": v} for k, v in laid.items()])
        words.append(f"models.chat={{use: pipelines.models.Replay, path: {root}/said.jsonl}}")
    return words


@pytest.mark.slow
@pytest.mark.parametrize("config", TABLES)
def test_a_main_table_runs_from_start_to_end(config: str, tmp_path: Path) -> None:
    table = TABLES[config]
    words = write_layout(table, tmp_path / "set")
    if table["said"]:
        scripted = f"{{use: pipelines.models.Scripted, answer: {json.dumps(table['said'])}}}"
        words.append(f"{table.get('model', 'models.chat')}={scripted}")
    folder = run_table(config, words, tmp_path)
    assert not folder.facts["left_out"] and folder.facts["finished"]
    asked = dict.fromkeys(table["records"], 0)
    for record in folder.records().values():
        assert not record.error
        asked[folder.points[record.point].contestant] += 1
    assert asked == table["records"]
    if config == "vlm2_prompts":
        check_prompts(folder)
    # the videos are not judged, and nine subtasks are needed
    assert not score_table(folder.path).where(metric="overall_9").rows
    wanted = {
        f"{place} | {metric}": percent
        for place, cells in table["cells"].items()
        for metric, percent in cells.items()
    }
    assert cells_of(folder.path, wanted) == pytest.approx(wanted, abs=0.0051)


FOUR = ("1. Understand", "2. Perceive", "3. Connect", "4. Conclude")
GRID = ("instruction", "6 rows and 6 columns", "(image, row, column)", "four steps", *FOUR[:2])
CONNECT = ("coordinates", FOUR[2], "the same places", FOUR[3], "MY_ANSWER:")
STRUCTURE = {
    "vanilla": ("Q gc_mat0?",),
    "CoT-normal": ("Q gc_mat0?", "step by step"),
    "CoT-special": ("Q gc_mat0?", "four steps", FOUR[0], "form", *FOUR[1:]),
    "VP-grid": ("Q gc_mat0?", *GRID, *CONNECT),
}
"""The parts of VLM2-Bench's prompts in order, as its Tables 16 and 17 and Fig. 9 print them."""


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


def run_table(config: str, words: list[str], root: Path) -> RunFolder:
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


@pytest.mark.slow
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


@pytest.mark.slow
def test_blink_on_the_real_files_that_are_available(shared_data: Path, tmp_path: Path) -> None:
    """Half of val for three tasks."""
    right = {"Jigsaw": (38, 75), "Relative_Depth": (27, 62), "Spatial_Relation": (39, 72)}
    words = [f"tasks.{name}=null" for name in made.BLINK if name not in right]
    words += [f"tasks.Relative_Depth.path={shared_data / 'blink'}"]
    words += ["models.chat={use: pipelines.models.Scripted, answer: (A)}"]
    Study(load_plan(CONFIGS / "blink_bench.yaml", words), tmp_path)()
    folder = RunFolder(tmp_path / "blink_bench")
    assert not any(record.error for record in folder.records().values())
    key = load_answer_key(shared_data / "blink_replies" / "val_answers.json")
    assert sum(key[name] == "(A)" for _, name in folder.samples) == 38 + 27 + 39
    table = score_table(folder.path).where(metric="accuracy", slice="")
    for contestant in ("official", "robust"):
        rows = table.where(contestant=contestant).rows
        assert {row.task_name: (row.right, row.n) for row in rows if row.task_name} == right
