"""Benchmarks of which only some tasks are on the disk."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from looktwice.eval.tasks import Blink
from looktwice.eval.tasks.base import AbsentTask
from looktwice.extras.do_you_see_me import DoYouSeeMe
from looktwice.extras.vlm2 import Vlm2Bench

CASES: dict[str, tuple[Callable[[Path, str], Any], str, str, str, int]] = {
    "BLINK": (Blink, "Jigsaw/val-0.parquet", "Jigsaw", "Counting", 14),
    "Do You See Me": (
        lambda path, name: DoYouSeeMe(path=path, name=name),
        "2D_DoYouSeeMe/visual_closure/dataset_info.csv",
        "visual_closure",
        "figure_ground",
        12,
    ),
    "VLM2-Bench": (
        lambda path, name: Vlm2Bench(path=path, name=name),
        "jsonl/gc/vanilla/gc_mat.jsonl",
        "GC-Mat",
        "GC-Trk",
        9,
    ),
}


@pytest.mark.parametrize("suite", CASES)
def test_an_absent_task_names_those_that_are_there(tmp_path: Path, suite: str) -> None:
    make, file, present, absent, total = CASES[suite]
    (tmp_path / file).parent.mkdir(parents=True)
    (tmp_path / file).touch()
    make(tmp_path, present).require_present()
    with pytest.raises(AbsentTask) as caught:
        make(tmp_path, absent).require_present()
    assert (caught.value.suite, caught.value.total) == (suite, total)
    assert [name.split(" ")[0] for name in caught.value.found] == [present]
