"""Compares this tree with an earlier commit: every figure, identity and request of the bundled
studies.

`python -m bench.golden COMMIT FOLDER [STUDY...]` checks out COMMIT in FOLDER/tree, runs the studies
with both trees, and compares report.csv, effects.csv and report.md, the ids of arms, the items, and
the requests (pictures by their pixels), replies and notes of each record. Then this tree resumes,
scores, reports and replays copies of the earlier runs without any new request, and runs a study
behind a server again from the earlier commit's cache, also without any new request. The results of
the earlier commit stay in FOLDER and are reused. Studies of recorded replies are skipped, with a
message, if the benchmark files are missing.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from PIL import Image

ROOT = Path(__file__).resolve().parents[1]
DATA = Path(os.environ.get("LOOKTWICE_DATA") or ROOT.parent / "shared" / "data")
TEXTS = ("report.csv", "effects.csv", "report.md")
NOT_COMPARED = ("timings",)
"""Fields of a record that differ from run to run."""
PORT = "18753"
SERVER = f"http://127.0.0.1:{PORT}/v1"
POCKET = "{use: pipelines.models.Pocket}"
STUDIES: dict[str, tuple[str, ...]] = {
    "quickstart": ("--limit", "12"),
    "pocket": ("--limit", "4"),
    "marked_scenes": ("--limit", "6", f"models.chat={POCKET}"),
    "blindness": ("--limit", "6"),
    "probes": (
        "--limit",
        "6",
        f"model={{use: pipelines.models.ChatAPI, model: pocket, url: {SERVER}, name: pocket,"
        " temperature: 0, logprobs: 2}",
    ),
    "tool_contribution": ("--limit", "12"),
    "agent_near_sighted": ("--limit", "12"),
    "dysm_generated": (),
    "why_different_readers": (f"tasks.Art_Style.path={DATA / 'blink_replies'}", f"--allow={DATA}"),
    "blink_concatenation_recorded": (f"tasks.Jigsaw.path={DATA}", f"--allow={DATA}"),
}
PLANS = """
import json, sys
from pathlib import Path
from looktwice.pipelines.config import ConfigError, load_plan
plans = {}
for path in sorted(Path(sys.argv[1]).glob("*.yaml")):
    try:
        plan = load_plan(path, allow=["/"])
        plans[path.stem] = [[arm.contestant, str(arm.changes), arm.id, arm.task_id] for arm in \
plan.points]
    except ConfigError as exc:
        plans[path.stem] = len(str(exc).splitlines())
print(json.dumps(plans))
"""


@dataclass
class Comparison:
    """The number of compared values, and the differences with their places."""

    values: int = 0
    differences: list[str] = field(default_factory=list)

    def compare(self, place: str, before: object, after: object) -> None:
        """Count one value, and store its place if the two versions differ."""
        self.values += 1
        if before != after:
            self.differences.append(f"{place}: {str(before)[:90]} -> {str(after)[:90]}")


def looktwice(tree: Path, *arguments: str, cwd: Path) -> str:
    """Return the output of one of the tree's commands. Raises SystemExit if it fails."""
    program = "from looktwice.eval.cli import main; main()"
    return _python(tree, "-c", program, *arguments, cwd=cwd)


def _python(tree: Path, *arguments: str, cwd: Path) -> str:
    environment = {**os.environ, "PYTHONPATH": str(tree / "typings"), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, *arguments], cwd=cwd, env=environment, capture_output=True, text=True
    )
    if done.returncode:
        raise SystemExit(
            f"{' '.join(arguments[-6:])} failed in"
            f" {tree}:\n{done.stdout[-2000:]}{done.stderr[-2000:]}"
        )
    return done.stdout


def run_studies(tree: Path, folder: Path, names: Sequence[str]) -> None:
    """Run the studies of a tree into `folder`, unless their results exist."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        if not (folder / name / "report.csv").exists():
            looktwice(
                tree,
                "run",
                str(tree / "configs" / f"{name}.yaml"),
                *STUDIES[name],
                "--out",
                ".",
                cwd=folder,
            )
            print(f"ran {name} of {tree}", flush=True)


@contextmanager
def pocket_server() -> Iterator[None]:
    """Serve Pocket on `SERVER` with this tree."""
    program = "from looktwice.eval.cli import main; main()"
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "typings")}
    command = [sys.executable, "-c", program, "serve", "pocket", "--port", PORT]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE) as server:
        assert server.stdout is not None
        server.stdout.readline()  # the server is ready
        try:
            yield
        finally:
            server.kill()


def rerun_from_cache(before: Path, folder: Path, name: str, comparison: Comparison) -> None:
    """Run a study behind a server again from the earlier commit's cache, and check that no request
    is sent."""
    replies, out = folder / "cache", folder / "from the cache"
    for path in (replies, out):
        shutil.rmtree(path, ignore_errors=True)
    shutil.copytree(before / ".cache", replies)
    words = [*STUDIES[name], "--only-cached", "--cache", str(replies), "--out", str(out)]
    looktwice(ROOT, "run", str(ROOT / "configs" / f"{name}.yaml"), *words, cwd=folder)
    for key, record in _records(out / name):
        comparison.compare(f"{name}: {key} from the earlier cache", "", record["error"])


def compare_plans(before: Path, comparison: Comparison, folder: Path) -> None:
    """Compare the arms of the earlier configurations, built by both trees: names, changes and
    ids."""
    old, new = (
        json.loads(_python(tree, "-c", PLANS, str(before / "configs"), cwd=folder))
        for tree in (before, ROOT)
    )
    for name, arms in old.items():
        comparison.compare(f"plan of {name}", arms, new[name])


def compare_texts(before: Path, after: Path, comparison: Comparison) -> None:
    """Compare report.csv and effects.csv cell by cell, by column names, and the other tables line
    by line."""
    for name in TEXTS:
        if name == "effects.csv" and not (before / name).exists() and not (after / name).exists():
            continue  # a study without a sweep
        if name.endswith(".csv"):
            old, new = (
                list(csv.DictReader((run / name).open(newline=""))) for run in (before, after)
            )
        else:
            old, new = (
                [{"line": line} for line in (run / name).read_text().splitlines()]
                for run in (before, after)
            )
        comparison.compare(f"{after.name}/{name}: rows", len(old), len(new))
        for number, (line, now) in enumerate(zip(old, new, strict=False), 1):
            for column, value in line.items():
                comparison.compare(f"{after.name}/{name}:{number} {column}", value, now.get(column))


def compare_records(before: Path, after: Path, comparison: Comparison) -> None:
    """Compare the items, and the requests, replies and notes of each record."""
    items, now_items = (
        sorted((run / "samples.jsonl").read_text().splitlines()) for run in (before, after)
    )
    comparison.compare(f"{after.name}: items", items, now_items)
    old, new = dict(_records(before)), dict(_records(after))
    comparison.compare(f"{after.name}: records", sorted(old), sorted(new))
    for key in old.keys() & new.keys():
        for name, value in old[key].items():
            comparison.compare(f"{after.name}: {key} {name}", value, new[key].get(name))


def _records(run: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield every record, with each picture as the sha256 of its pixels, because the encoder's
    bytes may differ."""

    @cache
    def blob(sha: str) -> bytes:
        return (run / "blobs" / sha[:2] / sha).read_bytes()

    @cache
    def pixels(sha: str) -> str:
        image = Image.open(io.BytesIO(blob(sha)))
        return hashlib.sha256(f"{image.mode}{image.size}".encode() + image.tobytes()).hexdigest()

    @cache
    def message(sha: str) -> str:
        text = blob(sha).decode()
        return re.sub(r'(?<="picture":")\w+', lambda picture: pixels(picture[0]), text)

    for line in (run / "records.jsonl").read_text().splitlines():
        record = json.loads(line)
        name = " ".join(str(record[key]) for key in ("point", "sample", "draw"))
        for call in record.get("calls", ()):
            call["messages"] = [*map(message, call["messages"])]
        record["pictures"] = [*map(pixels, record.get("pictures", ()))]
        for sent in record.get("sent", ()):
            sent["sha"], sent["bytes"] = pixels(sent["sha"]), 0
        yield name, {key: value for key, value in record.items() if key not in NOT_COMPARED}


def resume_copy(before: Path, copy: Path, comparison: Comparison) -> None:
    """Resume, score, report and replay a copy of an earlier run with this tree, and check that no
    request is sent."""
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(before, copy)
    records = (copy / "records.jsonl").read_bytes()
    (copy / "report.csv").unlink()
    config = str(ROOT / "configs" / f"{copy.name}.yaml")
    printed = looktwice(ROOT, "run", config, *STUDIES[copy.name], "--out", ".", cwd=copy.parent)
    comparison.compare(
        f"{copy.name}: asked anew on resume", True, "(0 new" in " ".join(printed.split())
    )
    comparison.compare(
        f"{copy.name}: records after resume", records, (copy / "records.jsonl").read_bytes()
    )
    for command, *more in (["score"], ["score", "--report"], ["replay"]):
        looktwice(ROOT, command, str(copy), *more, f"--allow={DATA}", cwd=copy.parent)
    compare_texts(before, copy, comparison)


def main() -> None:
    """Print the number of compared values and the first differences; exit with 1 if there are
    any."""
    commit, folder = sys.argv[1], Path(sys.argv[2]).resolve()
    names = sys.argv[3:] or [
        name for name in STUDIES if DATA.is_dir() or str(DATA) not in str(STUDIES[name])
    ]
    for name in STUDIES.keys() - set(names):
        print(f"{name}: not run")
    tree = folder / "tree"
    if not tree.exists():
        folder.mkdir(parents=True, exist_ok=True)
        subprocess.run(
            ["git", "worktree", "add", "--detach", str(tree), commit], cwd=ROOT, check=True
        )
    comparison = Comparison()
    compare_plans(tree, comparison, folder)
    shutil.rmtree(folder / "after", ignore_errors=True)
    with pocket_server():
        run_studies(tree, folder / "before", names)
        run_studies(ROOT, folder / "after", names)
    for name in names:
        compare_texts(folder / "before" / name, folder / "after" / name, comparison)
        compare_records(folder / "before" / name, folder / "after" / name, comparison)
        resume_copy(folder / "before" / name, folder / "taken over" / name, comparison)
        if any(SERVER in word for word in STUDIES[name]):
            rerun_from_cache(folder / "before", folder, name, comparison)
    print("\n".join(comparison.differences[:40]))
    print(f"{comparison.values:,} values compared, {len(comparison.differences):,} differ")
    sys.exit(bool(comparison.differences))


if __name__ == "__main__":
    main()
