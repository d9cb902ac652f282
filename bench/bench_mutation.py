"""Mutation testing: the share of 200 small random changes to core modules that the tests of their
rooms notice.

`make bench` runs it; `python -m bench.bench_mutation --n 20 --only scoring` tries a few. Changes
are made in copies.
"""

import argparse
import ast
import itertools
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from queue import SimpleQueue

from tests.paths import DATA, ROOT
from tests.source_tree import copy_source, symbolic_link

CHANGES, SEED, WORKERS, NOTICED = 200, 0, 2, 0.85
STOPPING = (
    "tests/first_day/test_typed_again.py tests/first_day/test_stopping.py"
    " tests/first_day/test_servers.py"
)
MODULES = {  # files, and the tests that must notice changes to them, quick ones first
    "pipelines/geometry.py": ("tests/pipelines/test_geometry.py tests/prompting/views"),
    "pipelines/marks.py": ("tests/pipelines/test_geometry.py tests/prompting/markers"),
    "pipelines/models/wire.py": (
        "tests/pipelines/test_chat_api.py tests/under_fire/test_large_replies.py"
    ),
    "pipelines/models/cache.py": "tests/pipelines/test_cache.py",
    "pipelines/models/wrappers.py": (
        "tests/pipelines/test_endpoint.py tests/pipelines/test_wrappers.py"
    ),
    "prompting/views/crop.py": "tests/prompting/views tests/prompting/controls",
    "prompting/views/zoom.py": "tests/prompting/views tests/prompting/controls",
    "eval/scoring/*.py": (
        "tests/eval/scoring tests/eval/display/test_table.py tests/eval/runs/test_unchanged.py"
        " tests/extras/looking/test_turns.py"
    ),
    "eval/statistics/*.py": "tests/eval/statistics tests/eval/scoring",
    "eval/runs/run.py": f"tests/eval/runs/test_run.py {STOPPING}",
    "eval/runs/trial.py": f"tests/eval/runs/test_run.py {STOPPING}",
    "eval/recorded/merge.py": "tests/eval/runs",
}
# Equivalent changes, which no test can notice because the program behaves the same: "file function:
# before -> after", and the reason.
EQUIVALENT = {
    "eval/runs/run.py _run_items: 0 -> -1": (
        "the points of one walk share a task, so the last one gives the same"
    ),
    "eval/scoring/kept.py _add: :DIGEST_BYTES * len(table) -> :DIGEST_BYTES * len(table) + 1": (
        "a part that was read has a buffer of its own, which ends with it"
    ),
    "eval/scoring/kept.py _write: False -> True": "escaped letters are read as the same letters",
    "eval/scoring/notes.py _write_sentences: 0 -> -1": "the arms of a class sent the same",
    "eval/scoring/row.py make_micro_row: 0 -> -1": "there is one row, as the condition says",
    "eval/scoring/row.py module: 1 -> 0": "read only in means over tasks, which set it",
    "eval/scoring/verdict.py compare_with_key: False -> True": (
        "callers that omit it ask only whether the answer is right"
    ),
    "eval/analysis/letters.py compute_position_bias: True -> False": (
        "both have one value per letter"
    ),
    "eval/statistics/intervals.py mean_of_shares: True -> False": (
        "the linked clusters are made from the strata, one each"
    ),
    "eval/statistics/paired.py _exact_power: 1 - share -> 1 + share": (
        "further numbers of differing pairs have hardly any weight"
    ),
    "eval/scoring/run_rows.py make_reference_rows: 1 -> 2": (
        "the first of the two most common is the most common"
    ),
    "eval/scoring/run_rows.py make_reference_rows: 0 -> -1": (
        "the first of one most common key is the last"
    ),
    "eval/scoring/run_rows.py make_comparable_accuracy: 0.0 -> 1.0": (
        "the value of a failed unit is never compared"
    ),
    "eval/scoring/run_rows.py make_comparable_accuracy: 0.0 -> -1.0": (
        "the value of a failed unit is never compared"
    ),
    "eval/scoring/run_rows.py compare: 0 -> -1": (
        "the first pair is taken only where it is the last as well"
    ),
    "eval/scoring/run_rows.py _make_mean_rows: True -> False": (
        "the lengths were found equal two lines before"
    ),
    "eval/statistics/shares.py _pearson: a - mine -> a + mine": (
        "`joint` adds deviations, whose sum is 0"
    ),
    "eval/statistics/shares.py _pearson: b - theirs -> b + theirs": (
        "`joint` adds deviations, whose sum is 0"
    ),
    "eval/statistics/shares.py _pearson: True -> False": (
        "every caller pairs values of the same samples"
    ),
    "pipelines/geometry.py _clip_half_plane: True -> False": (
        "a polygon has as many corners as sides"
    ),
    "pipelines/geometry.py _measure_signed_distance: 1.0 -> 2.0": (
        "the distance from a side without a length is 0 either way"
    ),
    "pipelines/geometry.py _measure_signed_area: True -> False": (
        "a polygon has as many corners as sides"
    ),
    "pipelines/geometry.py contains: True -> False": "a polygon has as many corners as sides",
    "pipelines/geometry.py intersect: 1.0 -> 2.0": (
        "only the sign counts: a factor cancels out where sides are cut"
    ),
    "pipelines/geometry.py intersect: True -> False": "a polygon has as many corners as sides",
    "pipelines/geometry.py intersect: _measure_signed_area(other) >= 0"
    " -> _measure_signed_area(other) > 0": ("nothing is left anyway"),
    "pipelines/models/cache.py __len__: 0 -> -1": "the row has one column",
    "pipelines/models/cache.py module: 60.0 -> 59.0": "the timeout differs by a second",
    "pipelines/models/cache.py module: 60.0 -> 61.0": "the timeout differs by a second",
    "pipelines/models/wire.py _make_turn: 0 -> -1": (
        "there is one part, as the first half of the condition says"
    ),
    "prompting/views/crop.py _union: True -> False": "every box has four edges",
}
COMPARISONS: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Lt: (ast.LtE, ast.Gt),
    ast.LtE: (ast.Lt, ast.GtE),
    ast.Gt: (ast.GtE, ast.Lt),
    ast.GtE: (ast.Gt, ast.LtE),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
}


@dataclass(frozen=True)
class Change:
    """A small change to one module, with the whole text of the changed module."""

    path: str
    function: str
    line: int
    what: str
    text: str
    tests: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line} {self.function}: {self.what}"

    @property
    def name(self) -> str:
        """The description without the line number, which shifts too often to be recorded."""
        return f"{self.path} {self.function}: {self.what}"


class Replace(ast.NodeTransformer):
    """Replaces one node by another."""

    def __init__(self, old: ast.AST, new: ast.AST) -> None:
        self.old, self.new = old, new

    def visit(self, node: ast.AST) -> ast.AST:
        return self.new if node is self.old else self.generic_visit(node)


def variants(node: ast.AST) -> Iterator[tuple[str, ast.expr]]:
    """Yield possible replacements of a node, each with the kind of change."""
    match node:
        case ast.Compare(left, ops, others):
            for at, op in enumerate(ops):
                for new in COMPARISONS[type(op)]:
                    yield (
                        "comparison",
                        ast.Compare(left, [*ops[:at], new(), *ops[at + 1 :]], others),
                    )
        case ast.BoolOp(op, values):
            yield "and/or", ast.BoolOp(ast.Or() if isinstance(op, ast.And) else ast.And(), values)
        case ast.BinOp(left, ast.Add() | ast.Sub() as sign, right):
            yield (
                "+/-",
                ast.BinOp(left, ast.Sub() if isinstance(sign, ast.Add) else ast.Add(), right),
            )
        case ast.Call(ast.Name("min" | "max" as name), given, named):
            yield "min/max", ast.Call(ast.Name("max" if name == "min" else "min"), given, named)
        case ast.Constant(bool(value)):
            yield "True/False", ast.Constant(not value)
        case ast.Constant(int(number) | float(number)):
            yield "constant", ast.Constant(number + 1)
            yield "constant", ast.Constant(number - 1)
        case ast.Slice(lower, upper, step) if isinstance(upper, ast.expr) and not isinstance(
            upper, ast.Constant
        ):
            yield "slice", ast.Slice(lower, ast.BinOp(upper, ast.Add(), ast.Constant(1)), step)


def list_executed_nodes(node: ast.AST, function: str = "module") -> Iterator[tuple[ast.AST, str]]:
    """Yield every executed node below one, with the function that contains it; annotations and
    decorators are left out."""
    for field, value in ast.iter_fields(node):
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST) and field not in (
                "annotation",
                "returns",
                "decorator_list",
            ):
                inside = child.name if isinstance(child, ast.FunctionDef) else function
                yield child, inside
                yield from list_executed_nodes(child, inside)


def list_changes(path: str, tests: str) -> Iterator[tuple[str, Callable[[], Change]]]:
    """Yield every possible change to a module, with its kind; the text is made only for chosen
    changes."""
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))

    def make(node: ast.AST, new: ast.AST, function: str) -> Change:
        what = f"{ast.unparse(node)} -> {ast.unparse(new)}"
        text = ast.unparse(Replace(node, new).visit(tree))
        Replace(new, node).visit(tree)
        return Change(path, function, getattr(node, "lineno", 0), what, text, tests)

    for node, function in list(list_executed_nodes(tree)):
        for kind, new in variants(node):
            yield kind, partial(make, node, new, function)


def choose_changes(count: int, seed: int, only: str) -> list[Change]:
    """Choose `count` changes at random, or all if there are fewer; every kind is equally likely."""
    kinds: dict[str, list[Callable[[], Change]]] = {}
    for pattern, tests in MODULES.items():
        paths = sorted(path.relative_to(ROOT).as_posix() for path in ROOT.glob(pattern))
        assert paths, f"{pattern} names no file"
        for path in paths:
            for kind, make in list_changes(path, tests) if only in path else ():
                kinds.setdefault(kind, []).append(make)
    dice, found = random.Random(seed), list[Change]()
    while len(found) < count and kinds:
        kind = dice.choice(sorted(kinds))
        change = kinds[kind].pop(dice.randrange(len(kinds[kind])))()
        found += [] if change.name in EQUIVALENT else [change]
        kinds = {kind: left for kind, left in kinds.items() if left}
    return found


class Trees:
    """Copies of the source, each of which tests one change at a time."""

    def __init__(self, folder: Path, paths: set[str]) -> None:
        """Make the copies, with the modules at `paths` written back unchanged from their syntax
        trees."""
        self.free: SimpleQueue[Path] = SimpleQueue()
        self.seconds: dict[str, float] = {}
        self.clock = itertools.count(1)
        for number in range(WORKERS):
            tree = copy_source(folder / str(number) / "tree", symbolic_link)
            for path in paths:
                self.write(
                    tree / path, ast.unparse(ast.parse((ROOT / path).read_text(encoding="utf-8")))
                )
            self.free.put(tree)

    def measure(self, tests: str) -> None:
        """Run the tests on the unchanged code, which must pass, to measure their time."""
        tree, start = self.free.get(), time.monotonic()
        failed = self.fails(tree, tests, None)
        self.seconds[tests] = time.monotonic() - start
        self.free.put(tree)
        assert not failed, f"{tests} fail without any change"

    def noticed(self, change: Change) -> bool:
        """Return whether the tests fail, or hang, with the change."""
        tree = self.free.get()
        file = tree / change.path
        before = file.read_text(encoding="utf-8")
        try:
            self.write(file, change.text)
            return self.fails(tree, change.tests, 20 + 4 * self.seconds[change.tests])
        finally:
            self.write(file, before)
            self.free.put(tree)

    def write(self, file: Path, text: str) -> None:
        """Write a file with a unique modification time, so that the previous text's byte code is
        not reused."""
        file.write_text(text, encoding="utf-8")
        moment = next(self.clock)
        os.utime(file, (moment, moment))

    def fails(self, tree: Path, tests: str, timeout: float | None) -> bool:
        """Return whether pytest fails. After the timeout it is stopped with all its processes,
        which counts as a failure."""
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-x",
            "-q",
            "-p",
            "no:cacheprovider",
            *tests.split(),
        ]
        more = {
            "PYTHONPATH": str(tree / "typings"),
            "LOOKTWICE_DATA": str(DATA),
            "OMP_NUM_THREADS": "1",
        }
        quiet, environment = subprocess.DEVNULL, os.environ | more
        with subprocess.Popen(
            command, cwd=tree, env=environment, stdout=quiet, stderr=quiet, start_new_session=True
        ) as process:
            try:
                return process.wait(timeout) != 0
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                return True


def measure_noticed_share(count: int = CHANGES, seed: int = SEED, only: str = "") -> float:
    """Print each change as it is tested, and last those that no test notices; return the share of
    noticed changes."""
    drawn = choose_changes(count, seed, only)
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(WORKERS) as pool:
        trees = Trees(Path(folder), {change.path for change in drawn})
        list(pool.map(trees.measure, {change.tests for change in drawn}))
        survivors = []
        for change, noticed in zip(drawn, pool.map(trees.noticed, drawn), strict=True):
            print("noticed:" if noticed else "NOT NOTICED:", change, flush=True)
            survivors += [] if noticed else [change]
    print("", *sorted(map(str, survivors)), sep="\n  ")
    share = 1 - len(survivors) / len(drawn)
    print(
        f"{len(drawn) - len(survivors)} of {len(drawn)} changes noticed, {share:.0%} (limit"
        f" {NOTICED:.0%})"
    )
    return share


def test_small_changes_are_noticed() -> None:
    assert measure_noticed_share() >= NOTICED


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--n", type=int, default=CHANGES, help="number of changes")
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--only", default="", help="part of the path of the modules to change")
    given = parser.parse_args()
    measure_noticed_share(given.n, given.seed, given.only)
