"""The page of each way of looking: its study runs as it stands, what it costs is what `looktwice
check` says of it, and it has all that a page should tell."""

import re
from pathlib import Path

import pytest

from looktwice.eval.runs.check import check
from looktwice.pipelines.config import load_plan
from tests.paths import ROOT

PAGE = (ROOT / "docs" / "looking.md").read_text(encoding="utf-8")
SECTIONS = {part.partition("\n")[0]: part for part in PAGE.split("\n## ")[1:]}
STUDY, COST = re.compile(r"```yaml\n(task:.*?)```", re.S), re.compile(r"\*\*Costs\*\*: `(.*?)`")
STUDIES = {name: STUDY.findall(text) for name, text in SECTIONS.items()}
COSTS = {name: COST.findall(" ".join(text.split())) for name, text in SECTIONS.items()}
METHODS = [name for name, studies in STUDIES.items() if studies]
LOCAL = ["ViCrop", "Contrast decoding: CRG and VCD", "Attention-made prompts (API)"]
PARTS = "**Paper", "**Reproduced**", "**Different**", "**Costs**", "](gallery/"


def test_every_method_has_a_page_with_all_parts() -> None:
    assert len(METHODS) == 14 and [name for name in METHODS if not COSTS[name]] == LOCAL
    whole = [name for name in METHODS if all(part in SECTIONS[name] for part in PARTS)]
    # two are none of a paper's
    lacking = ["Confidence, and looking again where it is low", "A budget of tokens"]
    assert [name for name in METHODS if name not in whole] == lacking


@pytest.mark.parametrize(
    "method", [pytest.param(m, marks=pytest.mark.dear) if m == "ZoomEye" else m for m in METHODS]
)
def test_the_study_runs_and_costs_what_check_says(method: str, tmp_path: Path) -> None:
    (study,) = STUDIES[method]
    (tmp_path / "study.yaml").write_text(study)
    plan = load_plan(tmp_path / "study.yaml")
    if method in LOCAL:
        return  # it is built; their forward passes are no requests, and take weights
    (cost,) = COSTS[method]
    lines = [*check(plan)]
    assert "no faults" in lines[0]
    assert [cost in line for line in lines if line.startswith("a run asks")] == [True]
