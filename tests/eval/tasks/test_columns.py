"""Tables of questions: column maps, VLMEvalKit's TSV, circular evaluation, faults."""

import base64
import csv
import json
import subprocess
import sys
import zipfile
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from looktwice.eval.display.table import score_table
from looktwice.eval.scoring import AllRight
from looktwice.eval.scoring.verdict import build_scorer
from looktwice.eval.tasks import Columns, Folder, Subset, TaskError, Tsv
from looktwice.eval.tasks.answer_cells import (
    find_lettered_columns,
    read_answer_key,
    read_choice_texts,
    split_lettered_choices,
)
from looktwice.eval.tasks.cells import as_list
from looktwice.eval.tasks.image_cells import find_numbered_columns, list_image_cells
from looktwice.pipelines.config.spec import spec
from looktwice.pipelines.picture import PictureError
from tests.made_run import MadeRun
from tests.tables import table


def jpeg(value: int = 90) -> bytes:
    return bytes(cv2.imencode(".jpg", np.full((8, 10, 3), value, np.uint8))[1])


CODE = base64.b64encode(jpeg()).decode()


def jsonl(root: Path, rows: Sequence[Any]) -> Path:
    lines = (row if isinstance(row, str) else json.dumps(row) for row in rows)
    (root / "set.jsonl").write_text("\n".join(lines), encoding="utf-8")
    (root / "a.jpg").write_bytes(jpeg())
    return root / "set.jsonl"


def make_row(number: int, **more: Any) -> dict[str, Any]:
    fields = {"question": "Which?", "image": "a.jpg", "choices": ["cat", "dog"], "answer": "B"}
    return {"id": f"q{number}", **fields, **more}


# ---- cells


@table
def test_keys(cell: Any, choices: tuple[str, ...], first: int | None, found: str | None) -> None:
    assert read_answer_key(cell, choices, first) == found


@table
def test_correct_answers_outside_the_choices(
    cell: Any, choices: str, first: int | None, words: str
) -> None:
    with pytest.raises(ValueError, match=words):
        read_answer_key(cell, tuple(choices), first)


@table
def test_lists_in_cells(cell: Any, parts: list[str]) -> None:
    assert as_list(cell) == parts


@table
def test_options(cell: Any, texts: list[str]) -> None:
    assert read_choice_texts({"options": cell}, ["options"]) == tuple(texts)


@table
def test_options_without_labels(cell: Any) -> None:
    with pytest.raises(ValueError, match=r"the labels of choices must be A, B \.\.\., found"):
        read_choice_texts({"options": cell}, ["options"])


@table
def test_columns_with_numbers(stems: str, names: list[str], found: list[str]) -> None:
    assert find_numbered_columns(stems, names) == tuple(found)


@table
def test_columns_with_letters(names: list[str], found: list[str]) -> None:
    assert find_lettered_columns(names) == tuple(found)


@table
def test_images_in_a_cell(cell: Any, images: list[Any]) -> None:
    assert list_image_cells({"image": cell}, ["image"]) == images


@table
def test_lettered_choices(text: str, before: str, choices: list[str]) -> None:
    assert split_lettered_choices(text) == (before, tuple(choices))


# ---- any table


def test_json_lines_with_a_map(tmp_path: Path) -> None:
    cells = {"ask": "Which?", "pic": "a.jpg", "options": "['cat', 'dog']", "kind": "pet"}
    path = jsonl(tmp_path, [{"uid": n, **cells, "gold": n % 2} for n in range(3)])
    columns = {"question": "ask", "images": "pic", "answer": "gold"}
    items = list(Columns(path, columns, ("kind",), answers_from=0))
    assert [(i.sample.id, i.answer) for i in items] == [("0", "A"), ("1", "B"), ("2", "A")]
    assert items[0].sample.choices == ("cat", "dog")
    assert items[0].sample.meta == {"kind": "pet", "row": 0}
    assert items[2].sample.images[0].payload.data == jpeg()


def test_choices_in_the_question_and_fields_with_row_numbers(tmp_path: Path) -> None:
    text = "Which?\n(A) cat\n(B) dog\nReply with a letter."
    cells = {"ask": text, "pic": "a", "gold": "B", "kind": "pet", "boxes": [[0, 0, 1, 1]]}
    path = jsonl(tmp_path, [{**cells, "kind": "fish"}, *[cells] * 3])
    columns = {"question": "ask", "choices": "ask", "images": "pic", "answer": "gold"}
    more: Any = {"numbered": {"pair": (2,), "side": (1, 2)}, "truth": ("boxes",)}
    items = [*Columns(path, columns, where={"kind": "pet"}, image_name="{}.jpg", **more)]
    assert {(i.sample.question, i.sample.choices) for i in items} == {("Which?", ("cat", "dog"))}
    assert items[0].sample.images[0].size == (10, 8)
    places = [tuple(i.sample.meta[name] for name in ("row", "pair", "side")) for i in items]
    assert places == [(1, "0", "1"), (2, "1", "0"), (3, "1", "1")]
    assert items[0].truth == {"boxes": "[[0, 0, 1, 1]]"} and "boxes" not in items[0].sample.meta


@pytest.mark.parametrize("cell", [CODE, f"data:image/jpeg;base64,{CODE}", "a.jpg", [CODE, "a.jpg"]])
def test_images_in_cells(tmp_path: Path, cell: Any) -> None:
    (item,) = Columns(jsonl(tmp_path, [make_row(0, image=cell)]))
    count = len(cell) if isinstance(cell, list) else 1
    assert [image.payload.data for image in item.sample.images] == [jpeg()] * count


TEN = [f"image_{n}" for n in (1, 10, 11, 2, 3, 4, 5, 6, 7, 8, 9)]


@pytest.mark.parametrize("late", [False, True])
def test_images_in_numbered_columns_are_sent_in_order(tmp_path: Path, late: bool) -> None:
    row = {name: base64.b64encode(jpeg(20 * int(name[6:]))).decode() for name in TEN}
    plain = {"question": "Which?", "answer": "cat"}
    first = {"image_2": row["image_2"]} if late else row
    rows = [{"id": n, **plain, **(row if n == 30 else first)} for n in range(31)]
    *_, item = Columns(jsonl(tmp_path, rows))
    wanted = [jpeg(20 * number) for number in range(1, 12)]
    assert [image.payload.data for image in item.sample.images] == wanted


def test_a_tsv_sends_images_in_numbered_columns_in_order(tmp_path: Path) -> None:
    cells = [base64.b64encode(jpeg(20 * int(name[6:]))).decode() for name in TEN]
    head = ["index", "question", "answer"]
    (item,) = Tsv(tsv(tmp_path, [["1", "Which?", "cat", *cells]], [*head, *TEN]))
    wanted = [jpeg(20 * number) for number in range(1, 12)]
    assert [image.payload.data for image in item.sample.images] == wanted
    assert not item.sample.meta.keys() & {*TEN}
    # an image before number two is sent once
    (item,) = Tsv(tsv(tmp_path, [["1", "Which?", "cat", *cells[:2]]], [*head, "image", "image_2"]))
    assert [image.payload.data for image in item.sample.images] == [jpeg(20), jpeg(200)]


def test_maps_and_binary_texts_of_parquet_are_read(tmp_path: Path) -> None:
    kinds = {"question": pa.binary(), "image": pa.binary(), "answer": pa.binary()}
    schema = pa.schema([*kinds.items(), ("choices", pa.map_(pa.string(), pa.string()))])
    row: dict[str, object] = {"question": b"Which?", "image": jpeg(), "answer": b"B"}
    row["choices"] = [("A", "red"), ("B", "blue")]
    pq.write_table(pa.Table.from_pylist([row], schema), tmp_path / "set.parquet")
    (item,) = Columns(tmp_path / "set.parquet")
    assert (item.sample.question, item.sample.choices) == ("Which?", ("red", "blue"))
    assert item.answer == "B"


@pytest.mark.parametrize(
    ("cells", "choices"),
    [
        (("[0, 1]", "[1, 2]"), 2),
        (("{1: 2}", "{1: 3}"), 2),
        (("[1 2]", "('a',)"), 2),
        (("red", "blue", "nan"), 2),  # as pandas writes an empty cell
    ],
)
def test_a_choice_with_its_own_column(tmp_path: Path, cells: tuple[str, ...], choices: int) -> None:
    row = {"question": "Which?", "image": "a.jpg", "answer": cells[1], "X": 3}
    own = dict(zip("ABC"[: len(cells)], cells, strict=True))
    (item,) = Columns(jsonl(tmp_path, [row | own]))
    assert (item.sample.choices, item.answer) == (cells[:choices], "B")


def test_parts_of_a_table_are_read_by_number(tmp_path: Path) -> None:
    for number in (1, 2, 10):
        table = pa.table({"question": [f"part {number}"], "image": [jpeg()], "answer": ["x"]})
        pq.write_table(table, tmp_path / f"part-{number}.parquet")
    asked_for = [item.sample.question for item in Columns(tmp_path)]
    assert asked_for == ["part 1", "part 2", "part 10"]


@pytest.mark.parametrize("kind", ["jpg", "avif", "jfif", "jpe", "jp2", "pgm", "png", "webp"])
@pytest.mark.parametrize("written", ["sub/a.{}", "sub\\a.{}"])
def test_a_path_is_recognised_whatever_its_extension(
    tmp_path: Path, kind: str, written: str
) -> None:
    image, cell = Image.fromarray(np.full((8, 10, 3), 90, np.uint8)), written.format(kind)
    (tmp_path / "sub").mkdir()
    forms = {"jfif": "jpeg", "jpe": "jpeg", "jpg": "jpeg", "jp2": "jpeg2000", "pgm": "ppm"}
    image.save(tmp_path / f"sub/a.{kind}", forms.get(kind, kind))
    path, table = jsonl(tmp_path, [make_row(0, image=cell)]), tmp_path / "set.tsv"
    table.write_text(f"index\tquestion\tanswer\timage\n1\tWhich?\tcat\t{cell}\n")
    own = {"id": "q", "question": "Which?", "image": cell}
    (tmp_path / "samples.jsonl").write_text(json.dumps(own))
    with zipfile.ZipFile(tmp_path / "set.zip", "w") as packed:
        packed.write(tmp_path / f"sub/a.{kind}", f"sub/a.{kind}")
    packed_up = Columns(path, images=tmp_path / "set.zip")
    for task in (Columns(path), Tsv(table), Folder(tmp_path), packed_up):
        (item,) = task
        assert item.sample.images[0].size == (10, 8)


def test_numbered_options_are_choices_in_order(tmp_path: Path) -> None:
    options = {f"option_{number}": f"cat {number}" for number in (1, 10, 2, 3, 4, 5, 6, 7, 8, 9)}
    row = {"id": 1, "question": "Which?", "image": "a.jpg", "answer": "cat 10", **options}
    (item,) = Columns(jsonl(tmp_path, [row]))
    assert item.sample.choices == tuple(f"cat {number}" for number in range(1, 11))
    assert item.answer == "J"


@table
def test_an_invalid_image_fails_its_own_sample(tmp_path: Path, cell: Any, words: str) -> None:
    good, bad = Columns(jsonl(tmp_path, [make_row(0), make_row(1, image=cell)]))
    assert good.sample.images[0].size == (10, 8)
    with pytest.raises(PictureError, match=words):
        bad.sample.images[0].size  # noqa: B018


def test_columns_of_letters_a_filter_and_a_subset(tmp_path: Path) -> None:
    rows: list[list[Any]] = [["index", "question", "A", "B", "C", "answer", "image", "category"]]
    for n in range(8):
        choices = ["x", "y", "" if n % 2 else "z"]
        rows.append([n, f"line one\nline {n}", *choices, "A", CODE, "ab"[n % 2]])
    with (tmp_path / "set.csv").open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows(rows)
    items = list(Columns(tmp_path / "set.csv", where={"category": "b"}))
    assert [item.sample.id for item in items] == ["1", "3", "5", "7"]
    assert {item.sample.choices for item in items} == {("x", "y")}
    assert items[3].sample.question == "line one\nline 7"
    few = [item.sample for item in Columns(tmp_path / "set.csv", subset=Subset(n=3))]
    assert [sample.question.endswith(sample.id) for sample in few] == [True] * 3


@table
def test_wrong_columns_and_settings_are_refused(
    tmp_path: Path, settings: dict[str, Any], words: str
) -> None:
    with pytest.raises(TaskError, match=words):
        len(Columns(**{"path": jsonl(tmp_path, [make_row(0)]), **settings}))


def test_only_a_hub_id_contacts_the_hub(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(TaskError, match="needs huggingface_hub; install it with: pip"):
        len(Columns(hub="somebody/something"))


@pytest.mark.parametrize(
    ("row", "words"),
    [
        (make_row(0), "row 20: row 0 already has the id 'q0'"),
        (make_row(20, answer="E"), "row 20: the answer 'E' is neither one of the letters A, B nor"),
        (make_row(20, question=" "), "row 20: the question is empty"),
        (make_row(20, choices=["cat", "cat"]), "choices must be two or more different texts"),
    ],
)
def test_one_bad_row_is_skipped_and_counted(tmp_path: Path, row: Any, words: str) -> None:
    task = Columns(jsonl(tmp_path, [*(make_row(n) for n in range(20)), row]))
    assert len(list(task)) == len(task) == 20
    count, reason = task.facts.left_out
    assert count == "1 rows of set.jsonl left out"
    assert words in reason


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ([make_row(0), "{broken"], "line 2: not a JSON object"),
        ([make_row(0), "[1]"], "line 2: expected a JSON object"),
        (
            [make_row(n, answer="E") for n in range(3)],
            "3 of 3 rows cannot be used .*first is row 0",
        ),
        ([make_row(n, answer=1) for n in range(3)], "set `answers_from` to 0 or 1"),
        ([], "set.jsonl is empty: it has no columns"),
    ],
)
def test_unusable_files_are_refused(tmp_path: Path, rows: Sequence[Any], words: str) -> None:
    with pytest.raises(TaskError, match=words):
        len(Columns(jsonl(tmp_path, rows)))


# ---- parquet


IMAGE = pa.struct([("bytes", pa.binary()), ("path", pa.string())])


def parquet(path: Path, rows: int, size: int = 0, **options: Any) -> Path:
    """Write questions with embedded images; `size` pads each with this many bytes of noise."""
    rng = np.random.default_rng(0)
    text = pa.string()
    columns = {"idx": text, "question": text, "image": IMAGE, "choices": pa.list_(text)}
    schema = pa.schema([*columns.items(), ("answer", text)])
    same = {"question": "Which?", "choices": ["x", "y"], "answer": "(A)"}
    with pq.ParquetWriter(path, schema) as writer:
        for start in range(0, rows, 1000):
            batch = []
            for n in range(start, min(rows, start + 1000)):
                image = {"bytes": jpeg(n % 250) + rng.bytes(size), "path": "a"}
                batch.append({"idx": f"q{n}", "image": image, **same})
            writer.write_table(pa.Table.from_pylist(batch, schema), **options)
    return path


def test_parquet_shards_and_subsets(tmp_path: Path) -> None:
    for shard in range(2):
        parquet(tmp_path / f"{shard}.parquet", 30, row_group_size=7)
    with pytest.raises(
        TaskError, match=r"30 of 60 rows .*\n  row 30: row 0 already has the id 'q0'"
    ):
        len(Columns(tmp_path))
    assert len(Columns(tmp_path, {"id": None})) == 60
    items = list(Columns(tmp_path / "0.parquet", subset=Subset(n=5)))
    assert len(items) == 5
    for item in items:
        number = int(item.sample.id[1:])
        assert item.sample.images[0].payload.data == jpeg(number % 250)
        assert (item.answer, item.sample.meta) == ("A", {"row": number})


MEASURE = """
import sys
from pathlib import Path
import cv2, numpy, pyarrow.parquet
from looktwice.eval.tasks import Columns
# not ru_maxrss: a process inherits that of its parent, which has just written the file
peak = lambda: next(int(line.split()[1]) for line in open("/proc/self/status") if \
line.startswith("VmHWM")) / 1024
before = peak()
items = iter(Columns(Path(sys.argv[1])))
next(items).sample.images[0].payload
first = peak() - before
count = 1 + sum(len(item.sample.images[0].payload.data) > 0 for item in items)
print(first, peak() - before, count)
"""


@pytest.mark.nightly
def test_six_thousand_items_are_streamed(tmp_path: Path) -> None:
    path = parquet(tmp_path / "set.parquet", 6000, size=60_000)
    command = [sys.executable, "-c", MEASURE, str(path)]
    runs = []
    for _ in range(3):
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        runs.append([float(word) for word in done.stdout.split()])
    begun, megabytes, counts = zip(*runs, strict=True)
    assert set(counts) == {6000}
    assert max(begun) < 150, "MB that were read before the first sample came"
    assert 1 < max(megabytes) < 300, f"MB above the imports, of {path.stat().st_size >> 20} MB"


# ---- VLMEvalKit's TSV


def tsv(root: Path, rows: Sequence[Sequence[Any]], head: Sequence[str] = ()) -> Path:
    header = list(head) or ["index", "question", "A", "B", "answer", "category", "image"]
    with (root / "set.tsv").open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, delimiter="\t").writerows([header, *rows])
    return root / "set.tsv"


def test_tsv_items(tmp_path: Path) -> None:
    rows = [
        [1, 'Say "hi"\nWhich?', "x", "y", "B", "art", CODE],
        [2, "Which?", "x", "y", "A", "art", "1"],
        [3, "Open?", "", "", "seven", "maths", repr([CODE, CODE])],
    ]
    items = list(Tsv(tsv(tmp_path, rows)))
    assert [item.answer for item in items] == ["B", "A", "seven"]
    assert [item.sample.choices for item in items] == [("x", "y"), ("x", "y"), ()]
    assert items[0].sample.question == 'Say "hi"\nWhich?'
    assert items[0].sample.meta == {"category": "art", "row": 0, "circle": "1"}
    assert [len(i.sample.images) for i in items] == [1, 1, 2]
    # a short cell names the row whose image it shares
    assert items[1].sample.images[0].payload.data == jpeg()
    assert [i.sample.id for i in Tsv(tmp_path / "set.tsv", where={"category": "maths"})] == ["3"]


def test_tsv_paths(tmp_path: Path) -> None:
    (tmp_path / "pics").mkdir()
    (tmp_path / "pics/a.jpg").write_bytes(jpeg())
    head = ["index", "question", "answer", "image_path", "hint"]
    path = tsv(tmp_path, [[1, "Which?", "x", "a.jpg", "look"]], head)
    (item,) = Tsv(path, images=tmp_path / "pics")
    assert item.sample.images[0].payload.data == jpeg()
    assert item.sample.meta["hint"] == "look"


@table
def test_tsv_faults(tmp_path: Path, rows: Any, head: Sequence[str], words: str) -> None:
    with pytest.raises(TaskError, match=words):
        len(Tsv(tsv(tmp_path, rows, head), where={"split": "dev"}))
    with pytest.raises(TaskError, match=r"is not a \.tsv file"):
        len(Tsv(tmp_path / "set.csv"))


# ---- circular evaluation and BLINK's totals


def test_a_circular_item_is_correct_only_in_all_rotations(tmp_path: Path) -> None:
    rows = []
    for r, n in product((0, 1), (1, 2)):
        rows.append([r * 1_000_000 + n, "Which?", "x", "y", "AB"[(n + r) % 2], "art", CODE])
    task = Tsv(tsv(tmp_path, rows), scorer=AllRight())
    items = list(task)
    assert [i.sample.meta["circle"] for i in items] == ["1", "2", "1", "2"]
    made = MadeRun(tmp_path / "run")
    made.task("t", [i.answer for i in items], meta=[i.sample.meta for i in items])
    point = made.point("plain", "t", facts={"scorer": spec(task.facts.scorer)})
    made.answers(point, ["B", "A", "A", "A"])
    table = score_table(made.write().path).where(metric="circular_accuracy")
    (circle,), (chance,) = (table.where(contestant=who).rows for who in ("plain", "chance (level)"))
    assert (circle.value, circle.n, chance.value) == (0.5, 2, 0.25)


def test_facts_name_a_scorer_only_if_there_is_one() -> None:
    assert build_scorer({}) is None
    assert build_scorer({"scorer": {}}) is None
