"""Table 2 of BLINK: each of its rows has a contestant of its specialist, and its printed number."""

import pytest

from tests.paths import CONFIGS
from tests.tables import read_yaml

STUDY = read_yaml(CONFIGS / "blink_specialists.yaml")
ROWS = [
    ("Visual_Correspondence", "features.DIFTHPatches", 96.51),
    ("Relative_Depth", "maps.DepthAnything", 97.58),
    ("Multi-view_Reasoning", "matching.LoFTR", 90.22),
    ("Semantic_Correspondence", "features.DIFTSPair", 71.22),
    ("Forensic_Detection", "detection.DIRE", 68.94),
    ("Relative_Reflectance", "maps.OrdinalShading", 77.61),
]


@pytest.mark.parametrize(("task", "specialist", "printed"), ROWS)
def test_a_row_has_its_specialist_and_its_printed_accuracy(
    task: str, specialist: str, printed: float
) -> None:
    answering = [
        contestant["stages"]["answer"]
        for contestant in STUDY["contestants"].values()
        if task in contestant.get("only", ()) and "answer" in contestant["stages"]
    ]
    used = {
        value["use"]
        for rule in answering
        for value in rule.values()
        if isinstance(value, dict) and "use" in value
    }
    assert f"specialists.{specialist}" in used
    assert STUDY["published"]["specialists"]["accuracy"][task] == printed
    for row in ("people", "GPT-4V", "Gemini Pro"):
        assert task in STUDY["published"][row]["accuracy"]
