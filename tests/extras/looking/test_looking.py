"""The pages on methods of looking."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from looktwice.eval.records import RunFolder
from looktwice.eval.runs import RunOptions, Study
from looktwice.eval.runs.check import check
from looktwice.extras.networks.opening import close_networks
from looktwice.pipelines.config import load_plan
from tests.chat_server import chat_server
from tests.optional import require_extras
from tests.paths import ROOT
from tests.tiny import tiny

PAGE = (ROOT / "docs" / "looking.md").read_text(encoding="utf-8")
SECTIONS = {part.partition("\n")[0]: part for part in PAGE.split("\n## ")[1:]}
STUDY, COST = re.compile(r"```yaml\n(task:.*?)```", re.S), re.compile(r"\*\*Costs\*\*: `(.*?)`")
STUDIES = {name: STUDY.findall(text) for name, text in SECTIONS.items()}
COSTS = {name: COST.findall(" ".join(text.split())) for name, text in SECTIONS.items()}
METHODS = [name for name, studies in STUDIES.items() if studies]
LOCAL = ["ViCrop", "Contrast decoding: CRG and VCD", "Attention-made prompts (API)"]
PARTS = "**Paper", "**Reproduced**", "**Different**", "**Costs**", "](gallery/"


def test_every_method_has_a_page_with_all_sections() -> None:
    assert len(METHODS) == 13 and [name for name in METHODS if not COSTS[name]] == LOCAL
    whole = [name for name in METHODS if all(part in SECTIONS[name] for part in PARTS)]
    # two belong to no paper
    lacking = ["Confidence", "A budget of tokens"]
    assert [name for name in METHODS if name not in whole] == lacking


@pytest.mark.parametrize(
    "method", [pytest.param(m, marks=pytest.mark.slow) if m == "ZoomEye" else m for m in METHODS]
)
def test_the_study_costs_what_check_reports(method: str, tmp_path: Path) -> None:
    (study,) = STUDIES[method]
    (tmp_path / "study.yaml").write_text(study)
    if "LettersAndShapes" in study:
        require_extras()
    plan = load_plan(tmp_path / "study.yaml")
    if method in LOCAL:
        return  # it is built; its forward passes are no requests and need weights
    (cost,) = COSTS[method]
    lines = [*check(plan)]
    assert "no faults" in lines[0]
    assert [cost in line for line in lines if line.startswith("a run sends")] == [True]


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """The model arguments on the page: a server, and a tiny network of each family."""
    pytest.importorskip("transformers")
    llava = tiny("llava", tmp_path_factory.mktemp("llava"))
    with chat_server() as server:
        endpoint = f'ChatAPI, url: "{server.url}", model: gpt-4o'
        yield {
            "ChatAPI, model: gpt-4o": endpoint,
            "llava-hf/llava-1.5-7b-hf": str(llava),
            "llava-hf/llava-1.5-13b-hf": str(llava),
            "layer: 14": "layer: 1",
            "layer: 20": "layer: 1",
        }
    close_networks()


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
def test_the_study_runs(
    method: str, models: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    (study,) = STUDIES[method]
    for name, tried in models.items():
        study = study.replace(name, tried)
    (tmp_path / "study.yaml").write_text(study)
    run = Study(load_plan(tmp_path / "study.yaml"), tmp_path / "runs", RunOptions(limit=1))()
    records = RunFolder(run.folder).records().values()
    assert len(records) == 1 + study.count("use: prompting.turns.ContrastAnswer")
    assert [record.error for record in records if record.error] == []
