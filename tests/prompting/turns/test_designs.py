"""The studies of talking and looking again, as a user runs them: small made files, a script or a real server."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from looktwice.eval.cli import app
from looktwice.eval.records import Record, RunFolder
from looktwice.pipelines.config import load_plan
from looktwice.pipelines.config.load import load
from looktwice.prompting.views import ZoomOnDetections
from tests.chat_server import ChatServer, chat_server
from tests.paths import CONFIGS
from tests.tiny_networks import grounding_dino

pytest.importorskip("transformers")  # one arm zooms by a detector of its

WIDE, HIGH = 240, 180
CASCADE = "contestants.VP-zoom-p.stages.faces.detector={use: specialists.detection.FaceCascade}"


def image(number: int = 0) -> bytes:
    pixels = np.full((HIGH, WIDE, 3), 40 + 30 * number, np.uint8)
    cv2.circle(pixels, (60 + 20 * number, 80), 30, (30, 200, 90), -1)
    return bytes(cv2.imencode(".png", pixels)[1])


def file(path: Path, data: bytes | str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data.encode() if isinstance(data, str) else data)


def vlm2(root: Path) -> list[str]:
    grouping = "Which images show the same bag? Choices: A) 1 and 2; B) None"
    kinds: dict[str, tuple[str, Any, str, str]] = {
        "gc_mat": ("data/gc/processed", "T", "Is 'a cup' right? Answer with T or F.", "gc"),
        "gc_trk": ("data/gc/processed", "F", "Is 'it moved' right? Answer with T or F.", "gc"),
        "oc_cpr": ("data/oc/original_obj", "T", "The bags are the same. T or F?", "oc"),
        "oc_cnt": ("data/oc/original_obj", 2, "How many different bags are there?", "oc"),
        "oc_grp": ("data/oc/original_obj", "A) 1 and 2", grouping, "oc"),
        "pc_cpr": ("data/pc/image/picks_face", "T", "The people are the same. T or F?", "pc"),
        "pc_cnt": ("data/pc/image/picks_face", 1, "How many different people are there?", "pc"),
        "pc_grp": ("data/pc/image/picks_face", "B) None", grouping, "pc"),
    }
    for name, (media, key, question, part) in kinds.items():
        identifier = {"oc_cpr": "1_p", "pc_cpr": "tf_1_p"}.get(name, "1")
        row = {"q_id": identifier, "type": "bag", "task": "mat", "question": question, "gt_answer": key,
               "images": ["1.png", "2.png"], "image_seq_len": 2}  # fmt: skip
        file(root / "jsonl" / part / "vanilla" / f"{name}.jsonl", json.dumps(row))
        for number in (1, 2):
            file(root / media / f"{number}.png", image(number))
    detector = grounding_dino(root / "detector")  # untrained: any box will do
    at = "contestants.VP-zoom-o.stages.objects.detector"
    return [f"tasks.gc_mat.path={root}", f"{at}.model={detector}", f"{at}.threshold=0.0", CASCADE]


def blink(root: Path) -> list[str]:
    picture = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    names = ("idx", "question", "sub_task", "answer", "prompt", "explanation")
    fields = [(name, pa.string()) for name in names] + [(f"image_{number}", picture) for number in (1, 2, 3, 4)]
    schema = pa.schema([*fields, ("choices", pa.list_(pa.string()))])
    rows = [
        {"idx": f"val_Relative_Depth_{n}", "question": "Which is closer?", "sub_task": "Relative Depth",
         "image_1": {"bytes": image(n), "path": "x.png"}, "choices": ["A is closer", "B is closer"], "answer": "(A)",
         "prompt": f"Which is closer {n}?\n(A) A is closer\n(B) B is closer", "explanation": ""}
        for n in (1, 2)
    ]  # fmt: skip
    (root / "Relative_Depth").mkdir(parents=True)
    pq.write_table(pa.Table.from_pylist(rows, schema), root / "Relative_Depth" / "val-00000-of-00001.parquet")
    others = ("art_style", "counting", "forensic", "functional", "iq_test", "jigsaw", "multi_view", "localization",
              "reflectance", "semantic", "spatial", "visual", "similarity")  # fmt: skip
    return [f"tasks.depth.path={root}", *(f"tasks.{name}=null" for name in others)]


def twice(root: Path) -> list[str]:
    rows = [{"question": f"Is it so {n}?", "image": f"{n}.png", "answer": "A) Yes"} for n in (1, 2)]
    file(root / "twice.jsonl", "\n".join(map(json.dumps, rows)))
    for number in (1, 2):
        file(root / f"{number}.png", image(number))
    return [f"task.path={root / 'twice.jsonl'}"]


def dysm(root: Path) -> list[str]:
    folder = root / "2D_DoYouSeeMe" / "visual_figure_ground"
    file(folder / "dataset_info.csv", 'filename,answer,background_density,sweep\n0.svg,1,0.1,"(2, 0.1)"\n')
    file(folder / "0.png", image())
    others = ("color", "letter", "spatial", "closure", "constancy", "shape")
    return [f"tasks.ground.path={root}", *(f"tasks.{name}=null" for name in others)]


def all_of_blink(root: Path) -> list[str]:
    blink(root)
    others = [name for name in load(CONFIGS / "blink_bench.yaml")["tasks"] if name not in ("Jigsaw", "Relative_Depth")]
    (root / "Jigsaw").mkdir()
    table = pq.read_table(root / "Relative_Depth" / "val-00000-of-00001.parquet")
    ids = pa.array(["val_Jigsaw_1", "val_Jigsaw_2"])
    pq.write_table(table.set_column(0, "idx", ids), root / "Jigsaw" / "val-00000-of-00001.parquet")
    return [f"tasks.Relative_Depth.path={root}", *(f"tasks.{name}=null" for name in others)]


def all_of_dysm(root: Path) -> list[str]:
    dysm(root)
    others = [name for name in load(CONFIGS / "dysm_bench.yaml")["tasks"] if name != "figure_ground"]
    return [f"tasks.figure_ground.path={root}", *(f"tasks.{name}=null" for name in others)]


Study = tuple[str, Callable[[Path], list[str]], tuple[str, ...], dict[str, int]]
"""A configuration, its data and overrides, its models' places, and how many calls each contestant makes a sample."""
STUDIES: list[Study] = [
    (
        "vlm2_prompts", vlm2, ("model",),
        {"vanilla": 8, "CoT-normal": 8, "CoT-special": 2, "VP-grid": 2, "VP-zoom-o": 3, "VP-zoom-p": 3},
    ),
    (
        "blink_blind", blink, ("models.sees", "models.reads"),
        {"sees": 2, "caption+LLM": 4, "draws": 10, "vote": 10},
    ),
    (
        "blink_twice_turns", twice, ("model",),
        {
            "one-pass": 2, "active": 6, "active, image once": 6, "active, last look": 6, "collaborative": 6,
            "collaborative, tools": 2,
            "vote of three": 6,
        },
    ),
    ("dysm_redraw", dysm, ("model",), {"image": 1, "SVG": 2}),
    ("vlm2_bench", lambda root: [*vlm2(root)[:1], "tasks.pc_vid=null"], ("models.chat",), {"plain": 8}),
    ("blink_twice", twice, ("models.chat",), {"plain": 2}),
    ("blink_bench", all_of_blink, ("models.chat",), {"official": 4}),
    ("dysm_bench", all_of_dysm, ("models.chat",), {"plain": 1}),
]  # fmt: skip
SVG = '<svg width="9" height="9"><script>x()</script></svg>\nThe answer is (A).'
SCRIPTED = f"{{use: pipelines.models.Scripted, answer: {json.dumps(SVG)}}}"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ChatServer]:
    with chat_server(tmp_path_factory.mktemp("chat") / "log.jsonl") as running:
        yield running


def ran(study: Study, root: Path, model: str) -> dict[str, list[Record]]:
    """The records of a run by contestant."""
    name, lay, places, _ = study
    words = [*lay(root / "data"), *(f"{place}={model}" for place in places), "--out", str(root / "runs")]
    result = CliRunner().invoke(app, ["run", str(CONFIGS / f"{name}.yaml"), *words])
    assert result.exit_code == 0, result.output
    folder, found = RunFolder(root / "runs" / name), dict[str, list[Record]]()
    for record in folder.records().values():
        found.setdefault(folder.points[record.point].contestant, []).append(record)
    return found


@pytest.mark.parametrize("study", STUDIES, ids=[study[0] for study in STUDIES])
def test_each_study_runs_with_a_script(study: Study, tmp_path: Path) -> None:
    found = ran(study, tmp_path, SCRIPTED)
    made = {name: sum(len(record.calls) for record in records) for name, records in found.items()}
    assert {name: made[name] for name in study[3]} == study[3]
    assert not any(record.error for records in found.values() for record in records)


@pytest.mark.parametrize("study", STUDIES, ids=[study[0] for study in STUDIES])
def test_each_study_runs_with_an_endpoint_by_one_override(
    study: Study, tmp_path: Path, server: ChatServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    before = server.stats["requests"]
    found = ran(study, tmp_path, f"{{use: pipelines.models.ChatAPI, model: m, url: '{server.url}'}}")
    made = {name: sum(len(record.calls) for record in records) for name, records in found.items()}
    expected = study[3] | ({"SVG": 1} if "SVG" in study[3] else {})  # this server draws nothing
    assert {name: made[name] for name in expected} == expected
    asked = {json.dumps([call["messages"], call["draw"], call.get("options"), call.get("model", "")])
             for records in found.values() for record in records for call in record.calls}  # fmt: skip
    assert server.stats["requests"] - before <= len(asked)  # what was asked before comes from the cache


def test_the_vote_and_its_five_draws_are_the_same_calls(tmp_path: Path, server: ChatServer) -> None:
    before = server.stats["requests"]
    model = f"{{use: pipelines.models.ChatAPI, model: once, url: '{server.url}'}}"
    found = ran(STUDIES[1], tmp_path, model)
    assert server.stats["requests"] - before == 2 + 4 + 10
    for record in found["vote"]:
        singles = {r.draw: r.replies[0].text for r in found["draws"] if r.sample == record.sample}
        assert [reply.text for reply in record.replies] == [singles[draw] for draw in range(5)]
        assert [call["draw"] for call in record.calls] == [0, 1, 2, 3, 4]


def test_the_records_hold_what_the_designs_ask_for(tmp_path: Path) -> None:
    found = ran(STUDIES[2], tmp_path, SCRIPTED)
    folder = RunFolder(tmp_path / "runs" / "blink_twice_turns")

    def images(contestant: str) -> list[list[int]]:
        record = found[contestant][0]
        return [
            [len(m.views) for m in folder.messages(record, call) if m.role == "user"]
            for call in range(len(record.calls))
        ]

    assert images("one-pass") == [[1]]
    assert images("active") == [[1], [1, 1], [1, 1, 1]]
    assert images("active, image once") == [[1], [1, 0], [1, 0, 0]]
    assert images("active, last look") == [[1], [0, 1], [0, 0, 1]]
    assert images("vote of three") == [[1], [1], [1]]
    assert found["active"][0].notes == ("answers: A, A, A; 0 changes",)
    assert found["vote of three"][0].notes == ("vote: A 3",)
    assert (found["vote of three"][0].answer, found["vote of three"][0].confidence) == ("A", 1.0)


def test_a_script_in_an_svg_is_recorded_and_the_run_goes_on(tmp_path: Path) -> None:
    (record,) = ran(STUDIES[3], tmp_path, SCRIPTED)["SVG"]
    assert record.notes[0].startswith("image 1: the SVG was not drawn: ")
    assert len(record.calls) == 2 and not record.error


def test_the_report_has_the_gap_to_people_beside_what_was_published(tmp_path: Path) -> None:
    ran(STUDIES[4], tmp_path, "{use: pipelines.models.Scripted, answer: T}")
    page = (tmp_path / "runs" / "vlm2_bench" / "report.md").read_text(encoding="utf-8")
    heading, *rows = page.split("## Beside what was published")[1].split("## ")[0].strip().splitlines()
    cells = {row.split("|")[1].strip(): [cell.strip() for cell in row.split("|")[2:-1]] for row in rows}
    columns = [cell.strip() for cell in heading.split("|")[2:-1]]
    matching = columns.index("gc_mat.pair_accuracy")
    assert cells["people"][matching] == "95.06" and cells["GPT-4o"][matching] == "37.45"
    assert cells["plain"][0] == "this run"
    here, gap = (float(cells[name][matching]) for name in ("plain", "plain, less people"))
    assert gap == pytest.approx(here - 95.06)
    assert cells["GPT-4o"][columns.index("overall_9")] == "60.36"


def test_show_goes_through_every_turn_again(tmp_path: Path) -> None:
    ran(STUDIES[2], tmp_path, SCRIPTED)
    sample = next(iter(RunFolder(tmp_path / "runs" / "blink_twice_turns").samples))[1]
    result = CliRunner().invoke(app, ["show", str(tmp_path / "runs" / "blink_twice_turns"), sample])
    assert result.exit_code == 0, result.output
    assert "3 calls" in result.output and "answers: A, A, A; 0 changes" in result.output


def test_check_asks_no_second_model_either(tmp_path: Path, server: ChatServer) -> None:
    before = server.stats["requests"]
    model = f"{{use: pipelines.models.ChatAPI, model: m, url: '{server.url}'}}"
    words = [*blink(tmp_path / "data"), f"models.sees={model}", f"models.reads={model}"]
    result = CliRunner().invoke(app, ["check", str(CONFIGS / "blink_blind.yaml"), *words])
    assert result.exit_code == 0 and "FAILED" not in result.output, result.output
    assert server.stats["requests"] == before


@pytest.mark.parametrize(("words", "detector"), [([], "FaceBoxes"), ([CASCADE], "FaceCascade")])
def test_zooming_on_faces_uses_face_recognition_unless_told_otherwise(
    words: list[str], detector: str, tmp_path: Path
) -> None:
    shipped = [word for word in vlm2(tmp_path) if word != CASCADE]
    words = [*shipped, "model={use: pipelines.models.Scripted}", *words]
    arms = [arm for arm in load_plan(CONFIGS / "vlm2_prompts.yaml", words).points if arm.contestant == "VP-zoom-p"]
    zooms = [stage for arm in arms if isinstance(stage := arm.stages["faces"], ZoomOnDetections)]
    assert [type(zoom.detector).__name__ for zoom in zooms] == [detector] * 3


def test_a_users_own_words_are_one_override(tmp_path: Path) -> None:
    file(tmp_path / "mine.txt", "Denk nach.")
    words = [*vlm2(tmp_path / "data"), "model={use: pipelines.models.Scripted}"]
    words += [f"contestants.CoT-normal.stages.think.text.file={tmp_path / 'mine.txt'}", "--out", str(tmp_path / "runs")]
    result = CliRunner().invoke(app, ["run", str(CONFIGS / "vlm2_prompts.yaml"), *words])
    assert result.exit_code == 0, result.output
    folder = RunFolder(tmp_path / "runs" / "vlm2_prompts")
    records = [r for r in folder.records().values() if folder.points[r.point].contestant == "CoT-normal"]
    assert len(records) == 8
    assert all(folder.messages(record)[0].text.endswith("\nDenk nach.") for record in records)
