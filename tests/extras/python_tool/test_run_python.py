"""An agent that writes Python: its variables, the places of its pictures, and its record."""

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from looktwice.extras.python_tool import RunPython
from looktwice.extras.python_tool.tool import read_result
from looktwice.pipelines.config import ConfigError, load_plan
from looktwice.pipelines.config.paths import allow_access
from looktwice.pipelines.model import Message, Reply
from looktwice.pipelines.models.scripted import Scripted
from looktwice.pipelines.picture import Picture
from looktwice.pipelines.sample import Sample
from looktwice.pipelines.state import State
from looktwice.prompting.agent import Agent, Bounds, PlainCalls
from looktwice.prompting.agent.looks import read_looks
from looktwice.prompting.views.resize import LongestSide
from tests.extras.python_tool.stand_in import StandIn
from tests.first_day.studies import looktwice

PIXELS = np.random.default_rng(0).integers(0, 255, (60, 80, 3), np.uint8)
SAMPLE = Sample("a", "What?", images=(Picture(PIXELS),))
SANDBOX = StandIn(seconds=60)


def call(code: str) -> str:
    return f"CALL python {json.dumps({'code': code})}"


def look(*replies: str, **settings: Any) -> tuple[State, list[tuple[Message, ...]]]:
    """Run an agent on the sample; return its last state, and what the model was sent."""
    model = Scripted([*replies, "ANSWER: x"])
    agent = Agent({"python": RunPython(SANDBOX)}, protocol=PlainCalls(), **settings)
    return agent(State.start(SAMPLE), model), [tuple(sent) for sent in model.asked]


REGIONS: dict[str, tuple[float, ...]] = {
    "show(image_1.crop((10, 20, 40, 50)))": (0, 10, 20, 40, 50),
    "image_1.crop((10, 20, 42, 52)).resize((90, 90))": (0, 10, 20, 42, 52),
    "show(image_1.resize((90, 90), box=(8, 6, 38, 36)))": (0, 8, 6, 38, 36),
    "show(image_1.crop((0, 0, 20, 30)).transpose(2))": (0, 0, 0, 20, 30),
    "show(image_1.transpose(0).crop((0, 0, 30, 60)))": (0, 50, 0, 80, 60),
    "show(image_1.rotate(90, expand=True).crop((0, 0, 60, 10)))": (0, 70, 0, 80, 60),
    "x = image_1.crop((0, 0, 40, 40)); x.thumbnail((10, 10)); show(x)": (0, 0, 0, 40, 40),
    "image_1.crop((4, 4, 20, 20)).convert('L').save('part.png')": (0, 4, 4, 20, 20),
    "import numpy; a = numpy.asarray(image_1); show(a[5:15, 6:26], 1, (6, 5, 26, 15))": (
        *(0, 6, 5, 26, 15),
    ),
    "import numpy; show(numpy.asarray(image_1)[5:15, 6:26])": (),
    "show(image_1.rotate(30, expand=True))": (),
    "show(image_1.reduce(2))": (),
}


def test_pictures_are_mapped_to_the_sample_if_the_map_is_known() -> None:
    state, _ = look(*map(call, REGIONS), bounds=Bounds(steps=20, images=20))
    looks = read_looks(state.notes)
    found = {code: each.regions for code, each in zip(REGIONS, looks, strict=True)}
    assert found == {code: (region,) for code, region in REGIONS.items()}


def test_a_crop_shows_the_pixels_of_the_image_at_full_size() -> None:
    state, sent = look(call("show(image_1.crop((10, 20, 40, 50)))"), fit=LongestSide(40))
    assert np.array_equal(state.views[1].pixels, PIXELS[20:50, 10:40])
    assert sent[0][-1].views[0].size == (40, 30) and "Image 2" in sent[1][-1].text


def test_variables_last_for_one_sample() -> None:
    StandIn.starts.clear()
    _, sent = look(call("n = 1"), call("n += 1; print('n is', n)"), call("print(n)"))
    assert "n is 2" in sent[2][-1].text and len(StandIn.starts) == 1
    _, sent = look(call("print(n)"))
    assert "NameError" in sent[1][-1].text and len(StandIn.starts) == 2
    _, sent = look(call("n = 1"), *[call("n = n + 1 if 'n' in vars() else 1; print(n)")] * 2)
    assert "3" in sent[3][-1].text, "the same code runs again"
    assert all(process.poll() is not None for process in StandIn.running)


def test_errors_and_exits_are_returned_as_text() -> None:
    _, sent = look(
        call("x = 5"), call("x / 0"), call("import os; os._exit(0)"), call("print(image_1.size, x)")
    )
    texts = [turns[-1].text for turns in sent]
    assert "cell 2, line 1: x / 0\nZeroDivisionError" in texts[2]
    assert "all variables are lost" in texts[3] and "NameError" in texts[4]


def test_a_shown_picture_is_an_image_of_the_next_code() -> None:
    _, sent = look(call("show(image_1.crop((0, 0, 9, 9)))"), call("print(image_2.size)"))
    assert "(9, 9)" in sent[2][-1].text


def test_what_a_sandbox_reports_is_not_trusted() -> None:
    good = {"png": Picture(PIXELS).payload.text.decode()}
    numbers = [1.0, 0.0, 0.0, 0.0, 1.0, 0.0]

    def read(*pictures: dict[str, Any]) -> Any:
        reply = Reply("said", attached={"pictures": list(pictures)})
        return read_result(reply, State.start(SAMPLE))

    placed, whole = {**good, "image": 1, "map": numbers}, read(good)
    assert whole.views[0].size == (80, 60) and not whole.views[0].parts
    assert read(placed).views[0].parts
    for wrong in ({"image": 9}, {"map": [0.0] * 6}, {"map": [1e9, 0, 0, 0, 1e9, 0]}):
        assert not read({**placed, **wrong}).views[0].parts, wrong
    for png in ("AAAA", 3, "?", None):
        found = read({"png": png}, good)
        assert "cannot be read" in found.text and len(found.views) == 1, png


STUDY = """
task: {use: eval.tasks.LettersAndShapes, n: 2}
model:
  use: pipelines.models.Scripted
  answer:
    - 'CALL python {"code": "part = image_1.crop((100, 100, 400, 300)); print(part.size)"}'
    - 'CALL python {"code": "show(part.resize((600, 400)))"}'
    - "ANSWER: A"
stages:
  agent:
    use: prompting.agent.Agent
    protocol: {use: prompting.agent.PlainCalls}
    tools: {python: {use: prompting.agent.RunPython, sandbox: {use: stand_in.StandIn}}}
read: {use: eval.readers.Marked}
"""
PLUGIN = "--plugin", str(Path(__file__).with_name("stand_in.py"))
RUN = Path("runs/study")


@pytest.fixture
def study(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A study in the working folder, and nothing allowed."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "configuration"))
    monkeypatch.delenv("LOOKTWICE_ALLOW", raising=False)
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "study.yaml"
    path.write_text(STUDY)
    return path


def count_starts() -> int:
    """Return how many sandboxes the last command started."""
    return len(sys.modules["stand_in"].StandIn.starts)


@pytest.mark.slow
def test_an_arm_runs_resumes_and_replays_without_running_code(study: Path) -> None:
    refused = looktwice("run", "study.yaml", *PLUGIN)
    assert refused.exit_code == 2 and "--allow python-code" in refused.output and not RUN.exists()
    allowed = looktwice("run", "study.yaml", *PLUGIN, "--allow", "python-code", "--limit", 1)
    assert allowed.exit_code == 0 and count_starts() == 1
    resumed = looktwice("run", "study.yaml", *PLUGIN, "--allow", "python-code")
    assert "1 new, 1 existing, 0 failed" in resumed.output and count_starts() == 1
    for line in (RUN / "records.jsonl").read_text().splitlines():
        (first, second) = (c["reply"] for c in json.loads(line)["calls"] if c.get("model"))
        assert first["text"] == "(300, 200)"
        assert second["attached"]["pictures"][0]["image"] == 1
        notes = read_looks(json.loads(line)["notes"])
        assert [each.outcome for each in notes] == ["said", "shown"]
        assert notes[1].regions == ((0, 100, 100, 400, 300),)
    sys.modules["stand_in"].StandIn.starts.clear()
    replayed = looktwice("replay", RUN)
    assert "2 records identical bit for bit" in replayed.output and count_starts() == 0
    record = (RUN / "records.jsonl").read_text()
    (RUN / "records.jsonl").write_text(record.replace("(300, 200)", "(300, 201)"))
    assert "different" in looktwice("replay", RUN).output, "what code printed is in later requests"


def test_without_a_sandbox_a_run_does_not_begin(study: Path) -> None:
    change = "stages.agent.tools.python.sandbox.fault=install one"
    output = looktwice("run", "study.yaml", *PLUGIN, "--allow", "python-code", change)
    assert output.exit_code == 2 and "install one" in output.output and not RUN.exists()
    checked = looktwice("check", "study.yaml", *PLUGIN, "--allow", "python-code", change)
    assert "cannot start yet: install one" in checked.output


def test_permission_is_asked_for_once_and_remembered(study: Path) -> None:
    asked = list[str]()

    def answer(question: str) -> bool:
        asked.append(question)
        return len(asked) > 1

    with allow_access((), answer), pytest.raises(ConfigError, match="python-code"):
        load_plan(study, plugins=PLUGIN[1:])
    with allow_access((), answer):
        load_plan(study, plugins=PLUGIN[1:])
    load_plan(study, plugins=PLUGIN[1:])
    assert len(asked) == 2 and "runs Python code that a model writes" in asked[0]
