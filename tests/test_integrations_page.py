"""The page on other programs matches the study, options and code of `make integrations`."""

import json
import re
import shlex
from pathlib import Path

import pytest
import yaml

from bench.integrations.clients import CLIENTS, Client
from bench.integrations.questions import STUDY, write_questions
from looktwice.eval.readers import Robust
from looktwice.pipelines import Picture, Pipeline, Sample, State
from looktwice.pipelines.config.plan import load_plan
from looktwice.pipelines.models import Pocket
from looktwice.prompting import ReadChoices
from tests.optional import extension
from tests.paths import DOCS, ROOT

responder = extension("integrations.responder")

PAGE = (DOCS / "howto" / "homes.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w+) (\S+)\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
URL = "http://127.0.0.1:8765/v1"


def test_the_study_of_the_page_is_the_served_one() -> None:
    (shown,) = (yaml.safe_load(text) for _, name, text in BLOCKS if name == "served.yaml")
    served = yaml.safe_load(STUDY)
    assert shown | {"tasks": None} == served | {"tasks": None}


def test_the_code_of_the_page_is_the_code_that_runs() -> None:
    code = {name: text for language, name, text in BLOCKS if language == "python"}
    assert code == {name: (ROOT / name).read_text(encoding="utf-8") for name in code}
    linked = re.findall(r"\]\(\.\./\.\./(bench/integrations/ask_\w+\.py)\)", PAGE)
    libraries = {
        f"bench/integrations/{file.name}" for file in (ROOT / "bench/integrations").glob("ask_*.py")
    }
    assert {*code, *linked} == libraries - {"bench/integrations/ask_all.py"}


@pytest.mark.parametrize("client", CLIENTS[:5], ids=lambda client: client.package)
def test_the_commands_of_the_page_are_those_that_run(client: Client, tmp_path: Path) -> None:
    command = client.write(tmp_path, write_questions(tmp_path, 2), URL, "zoomed")
    typed = {*command.words, *(f"{name}={value}" for name, value in command.variables.items())}
    program = {"ms-vlmeval": "vlmeval.run", "lmms-eval": "lmms_eval"}.get(client.package)
    start = rf"`(python -m )?{program or command.words[0]} "
    (line,) = (row for row in PAGE.splitlines() if re.search(start, row))
    quoted = next(shlex.split(code) for code in line.split("`")[1::2] if " " in code)
    own = {"TASK.py", "TASKSET", "blink", "BLINK", "-m", "python"}  # placeholders of the reader
    assert [word for word in quoted if word not in typed | own] == []
    unsaid = {"LMUData", "HF_HOME", "PYTHONPATH"}  # the place of these questions
    assert all(name in line for name in command.variables.keys() - unsaid)


@pytest.mark.slow
def test_a_zoom_has_a_large_effect_on_small_questions(tmp_path: Path) -> None:
    questions, model, read = write_questions(tmp_path, 8), Pocket(), Robust()
    arms = responder.name_contestants(load_plan(tmp_path / "study.yaml"))
    right = dict.fromkeys(arms, 0)
    for question in questions:
        image = Picture.open(Path(question.image))
        words = f"<image 1>{question.lettered}"
        sample = Sample(question.id, words, (image,), meta={"placed": True})
        for name, arm in arms.items():
            after = Pipeline(arm.stages)(State.start(sample), model)
            answered = read(ReadChoices()(after, model), model)
            right[name] += answered.answer == question.answer
    assert right["zoomed"] >= right["plain"] + 3 and right["zoomed"] >= 7
    rows = (tmp_path / "samples.jsonl").read_text(encoding="utf-8").splitlines()
    keys = [question.answer for question in questions]
    assert [json.loads(row)["answer"] for row in rows] == keys
