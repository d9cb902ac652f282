"""The shipped studies of several turns, with small made files and a script or a real server."""

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from looktwice.eval.cli import app
from looktwice.eval.records import Record, RunFolder
from looktwice.pipelines.config import load_plan
from looktwice.pipelines.config.load import load
from looktwice.prompting.views import ZoomOnDetections
from tests import official_layouts
from tests.chat_server import ChatServer, chat_server
from tests.optional import needs_extras
from tests.paths import CONFIGS

CASCADE = "contestants.VP-zoom-p.stages.faces.detector={use: specialists.detection.FaceCascade}"
NO_DETECTOR = "contestants.VP-zoom-o=null"


def vlm2(root: Path) -> list[str]:
    official_layouts.vlm2(root, few=True)
    return [f"tasks.gc_mat.path={root}", NO_DETECTOR, CASCADE]


def keep_only(config: str, task: str, root: Path, subset: str) -> list[str]:
    tasks = load(CONFIGS / f"{config}.yaml")["tasks"]
    others = [f"tasks.{name}=null" for name in tasks if name != task]
    return [f"tasks.{task}.path={root}", f"tasks.{task}.subset={subset}", *others]


def blink(root: Path) -> list[str]:
    official_layouts.blink(root)
    return keep_only("blink_blind", "depth", root, "{n: 2}")


def twice(root: Path) -> list[str]:
    return [f"task.path={official_layouts.twice(root)}", "task.subset={n: 2}"]


def dysm(root: Path) -> list[str]:
    official_layouts.dysm(root)
    return keep_only("dysm_redraw", "ground", root, "{n: 1, per: null}")


Study = tuple[str, Callable[[Path], list[str]], tuple[str, ...], dict[str, int]]
"""A configuration, its data and overrides, its models, and the calls of each contestant a sample.
"""
STUDIES: list[Study] = [
    (
        "blink_blind",
        blink,
        ("models.sees", "models.reads"),
        {"sees": 2, "caption+LLM": 4, "draws": 10, "vote": 10},
    ),
    (
        "blink_twice_turns",
        twice,
        ("model",),
        {
            "one-pass": 2,
            "active": 6,
            "active, image once": 6,
            "active, last look": 6,
            "collaborative": 6,
            "collaborative, tools": 2,
            "vote of three": 6,
        },
    ),
    ("dysm_redraw", dysm, ("model",), {"image": 1, "SVG": 2}),
]
SVG = '<svg width="9" height="9"><script>x()</script></svg>\nThe answer is (A).'
SCRIPTED = f"{{use: pipelines.models.Scripted, answer: {json.dumps(SVG)}}}"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ChatServer]:
    with chat_server(tmp_path_factory.mktemp("chat") / "log.jsonl") as running:
        yield running


def run_study(study: Study, root: Path, model: str) -> dict[str, list[Record]]:
    """Return the records of a run by contestant."""
    name, lay, places, _ = study
    words = [
        *lay(root / "data"),
        *(f"{place}={model}" for place in places),
        "--out",
        str(root / "runs"),
    ]
    result = CliRunner().invoke(app, ["run", str(CONFIGS / f"{name}.yaml"), *words])
    assert result.exit_code == 0, result.output
    folder, found = RunFolder(root / "runs" / name), dict[str, list[Record]]()
    for record in folder.records().values():
        found.setdefault(folder.points[record.point].contestant, []).append(record)
    return found


@pytest.fixture(scope="module")
def scripted(
    tmp_path_factory: pytest.TempPathFactory,
) -> Callable[[Study], tuple[Path, dict[str, list[Record]]]]:
    """A function that runs a study with a script once and returns its folder and records."""

    @cache
    def run(name: str) -> tuple[Path, dict[str, list[Record]]]:
        root = tmp_path_factory.mktemp(name)
        (study,) = (study for study in STUDIES if study[0] == name)
        return root / "runs" / name, run_study(study, root, SCRIPTED)

    return lambda study: run(study[0])


def count_calls(records: dict[str, list[Record]], names: Iterable[str]) -> dict[str, int]:
    return {name: sum(len(record.calls) for record in records[name]) for name in names}


@pytest.mark.slow
@pytest.mark.parametrize("study", STUDIES, ids=[study[0] for study in STUDIES])
def test_each_study_runs_with_a_script(study: Study, scripted: Any) -> None:
    _, found = scripted(study)
    assert count_calls(found, study[3]) == study[3]
    assert not any(record.error for records in found.values() for record in records)


@needs_extras
def test_the_records_hold_what_the_designs_need(scripted: Any) -> None:
    path, found = scripted(STUDIES[1])
    folder = RunFolder(path)

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


def test_check_asks_no_second_model_either(tmp_path: Path, server: ChatServer) -> None:
    before = server.stats["requests"]
    model = f"{{use: pipelines.models.ChatAPI, model: m, url: '{server.url}'}}"
    words = [*blink(tmp_path / "data"), f"models.sees={model}", f"models.reads={model}"]
    result = CliRunner().invoke(app, ["check", str(CONFIGS / "blink_blind.yaml"), *words])
    assert result.exit_code == 0 and "FAILED" not in result.output, result.output
    assert server.stats["requests"] == before


@needs_extras
@pytest.mark.parametrize(("words", "detector"), [([], "FaceBoxes"), ([CASCADE], "FaceCascade")])
def test_zooming_on_faces_uses_face_recognition_by_default(
    words: list[str], detector: str, tmp_path: Path
) -> None:
    shipped = [word for word in vlm2(tmp_path) if word != CASCADE]
    words = [*shipped, "model={use: pipelines.models.Scripted}", *words]
    arms = [
        arm
        for arm in load_plan(CONFIGS / "vlm2_prompts.yaml", words).points
        if arm.contestant == "VP-zoom-p"
    ]
    zooms = [stage for arm in arms if isinstance(stage := arm.stages["faces"], ZoomOnDetections)]
    assert [type(zoom.detector).__name__ for zoom in zooms] == [detector] * 3


@pytest.mark.slow
def test_a_custom_wording_is_one_override_and_its_hash_is_stored(tmp_path: Path) -> None:
    said = {
        "CoT-normal.stages.think": "Denk nach.\r\n",
        "VP-grid.stages.explain": "{rows} mal {columns} Punkte.",
    }
    words, hashes = [*vlm2(tmp_path / "data"), "model={use: pipelines.models.Scripted}"], {}
    for number, (place, text) in enumerate(said.items()):
        (tmp_path / f"{number}.txt").write_bytes(text.encode())
        words.append(f"contestants.{place}.text.file={tmp_path / f'{number}.txt'}")
        hashes[f"contestants.{place}.text.file"] = hashlib.sha256(text.encode()).hexdigest()
    words += ["--out", str(tmp_path / "runs")]
    result = CliRunner().invoke(app, ["run", str(CONFIGS / "vlm2_prompts.yaml"), *words])
    assert result.exit_code == 0, result.output
    folder = RunFolder(tmp_path / "runs" / "vlm2_prompts")
    assert folder.facts["files"] == hashes
    ends = {"CoT-normal": (14, "\nDenk nach."), "VP-grid": (4, "\n6 mal 6 Punkte.")}
    records = list(folder.records().values())
    for name, (count, end) in ends.items():
        mine = [record for record in records if folder.points[record.point].contestant == name]
        assert len(mine) == count
        assert all(folder.messages(record)[0].text.endswith(end) for record in mine)
