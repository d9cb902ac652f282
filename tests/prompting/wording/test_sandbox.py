"""Every template terminates: its operations are counted, in the same way on every machine."""

import threading

import numpy as np
import pytest

from looktwice.pipelines.picture import Picture
from looktwice.pipelines.pipeline import NoModel
from looktwice.pipelines.sample import Sample
from looktwice.pipelines.state import State
from looktwice.prompting import Template
from looktwice.prompting.wording import sandbox
from looktwice.prompting.wording.sandbox import MAX_STEPS, get_environment, limit_work
from tests.tables import table

IMAGE = Picture(np.zeros((5, 5, 3), np.uint8))
START = State.start(
    Sample("s1", "Is it?", (IMAGE,), ("yes", "no"), (), {"subtask": "Relative_Depth"})
)
REFUSED = "takes more than [0-9,]+ steps|writes more than 200,000 characters"


@table
def test_an_endless_template_is_refused(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox, "MAX_STEPS", MAX_STEPS // 50)
    with pytest.raises(ValueError, match=REFUSED):
        Template(text)(START, NoModel())


@table
def test_a_finite_template_reports_its_work(text: str, prompt: str) -> None:
    assert Template(text)(START, NoModel()).prompt == prompt


@table
def test_the_work_of_a_template_is_counted(text: str, least: int, most: int) -> None:
    template = get_environment().from_string(text)
    with limit_work() as work:
        template.render()
        assert least <= MAX_STEPS - work.remaining_steps <= most


@pytest.mark.slow
def test_renderings_in_several_threads_are_counted_separately() -> None:
    """Each thread has the full allowance, and does not affect the others."""
    half = Template(
        "{% for a in range(30000) %}{% for b in range(5) %}{% endfor %}{% endfor %}done"
    )
    made = list[str]()
    threads = [
        threading.Thread(target=lambda: made.append(half(START, NoModel()).prompt))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert made == ["done"] * 4
    assert half(START, NoModel()).prompt == "done"
