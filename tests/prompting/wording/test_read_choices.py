"""Choices are read from the recorded texts of other programs, and from nothing else."""

import numpy as np

from looktwice.pipelines.picture import Picture
from looktwice.pipelines.pipeline import NoModel
from looktwice.pipelines.sample import Sample
from looktwice.pipelines.state import State
from looktwice.prompting.wording import MultipleChoice, ReadChoices
from tests.tables import table

ASKED = ("red dog", "A blue cat", "3.5", "none of these")


def start(words: str, choices: tuple[str, ...] = ()) -> State:
    images = tuple(Picture(np.full((8, 8, 3), level, np.uint8)) for level in (0, 99))
    return State.start(Sample("s1", words, images, choices))


@table
def test_choices_in_the_formats_of_other_programs(
    program: str, words: str, style: str, bare: str
) -> None:
    read = ReadChoices()(start(words), NoModel())
    assert read.sample.choices == ASKED, program
    assert (read.prompt, read.sample.question) == (words, bare), program
    assert read.notes == (f"4 choices read from the prompt, written {style}",)
    dropped = ReadChoices(words="drop")(start(words), NoModel())
    asked = MultipleChoice(instruction="")(dropped, NoModel())
    assert asked.prompt == f"{bare}\n(A) red dog\n(B) A blue cat\n(C) 3.5\n(D) none of these"


@table
def test_lines_that_form_a_list_of_choices(words: str, choices: list[str] | None) -> None:
    read = ReadChoices()(start(words), NoModel())
    assert read.sample.choices == tuple(choices or ())
    if choices is None:
        assert read.notes == ("the prompt lists no choices A, B ...; kept as it is",)
        assert ReadChoices(missing="abstain")(start(words), NoModel()).ended


def test_choices_of_a_sample_are_kept() -> None:
    read = ReadChoices(words="drop")(start("Q\n(A) x\n(B) y", ("left", "right")), NoModel())
    assert (read.sample.choices, read.prompt) == (("left", "right"), "Q\n(A) x\n(B) y")
