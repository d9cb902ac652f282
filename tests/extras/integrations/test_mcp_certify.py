"""The effect of an agent's zoom over the Model Context Protocol, measured as its page describes."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from looktwice.extras.integrations.images import Images
from looktwice.extras.integrations.looking import LookTools, find_agent, make_controls
from looktwice.extras.scenes import LettersAndShapes, NearSighted
from looktwice.pipelines import CallOptions, Message, Picture, Pipeline, Sample, State, View
from looktwice.pipelines.model import Tool
from looktwice.prompting.views import LongestSide
from tests.extras.integrations.test_mcp import call, file_of, pixels_of
from tests.first_day.studies import looktwice
from tests.optional import optional

optional("mcp")


def last_reply(looks: LookTools | None, sample: Sample, picture: Path) -> str:
    """Return the answer of a near-sighted agent that sees a smaller picture than the file; None
    without tools."""
    small = Pipeline({"fit": LongestSide(pixels=320)})(State.start(sample)).views[0]
    files, turns = {1: str(picture)}, [Message("user", ("Image 1:", small, sample.question))]
    offered = CallOptions(tools=(Tool("zoom", ""),) if looks else None)
    for _ in range(4):
        reply = NearSighted()(turns, options=offered)
        if looks is None or not reply.tool_calls:
            break
        asked = json.loads(reply.tool_calls[0].arguments)
        (result,) = call(looks, ("zoom", asked | {"image": files[asked["image"]]}))
        number = 1 + len(files)
        files[number] = file_of(result)
        seen = View.of(Picture(pixels_of(result)[0]))
        turns += [reply.as_message(), Message("tool", (f"Image {number}:", seen))]
    return reply.text


ARMS: dict[str, dict[str, Sequence[str]] | None] = {
    "without": None,
    "full": {},
    "random": {"placebo": ["zoom"]},
    "black": {"black": ["zoom"]},
}


@pytest.mark.slow
def test_certify_reports_the_effect_of_zooming(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path.resolve()
    monkeypatch.chdir(folder)
    agent = find_agent("tool_contribution", "full", ("stages.agent.fit.pixels=320",))
    items = [*LettersAndShapes(n=20, width=640, height=480, largest=40, smallest=10)]
    rows, replies = list[dict[str, Any]](), {name: list[str]() for name in ARMS}
    (folder / "questions").mkdir()
    for item in items:
        name = item.sample.id
        picture = folder / "questions" / f"{name}.png"
        picture.write_bytes(item.sample.images[0].payload.data)
        row = {"id": name, "image": picture.name, "question": item.sample.question}
        rows.append(row | {"answer": item.answer})
        for arm, controls in ARMS.items():
            images = Images(folder / "looks" / arm, (folder,), folder)
            made = controls is not None and make_controls(agent, **controls)
            looks = LookTools(agent, images, made) if isinstance(made, dict) else None
            reply = last_reply(looks, item.sample, picture)
            replies[arm].append(json.dumps({"idx": name, "reply": reply}))
    Path("questions/samples.jsonl").write_text("\n".join(map(json.dumps, rows)))
    for arm, lines in replies.items():
        Path(f"{arm}.jsonl").write_text("\n".join(lines))
    page = (Path(__file__).parents[3] / "docs/howto/mcp.md").read_text()
    (study,) = re.findall(r"```yaml\n(task.*?)```", page, re.S)
    Path("study.yaml").write_text(study)
    for command in (["run", "study.yaml"], ["analyse", "runs/study", "certify"]):
        result = looktwice(*command)
        assert not result.exception, result.output
    assert re.findall(r"(?:gains|gained,) (\d+\.\d)", result.output) == ["100.0"] * 3
