"""Writes logs in the formats of others, whichever program wrote them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from looktwice.eval.display.sample_page import file_names
from looktwice.eval.logs.inspect_export import write_inspect
from looktwice.eval.logs.log import Log, name_apart
from looktwice.eval.logs.shared_formats import write_eval_results, write_every_eval_ever
from looktwice.eval.tasks.base import TaskError
from looktwice.pipelines.counted import counted

FORMATS = ("inspect", "every-eval-ever", "eval-results")


def export_logs(logs: Sequence[Log], form: str, out: Path, dataset: str = "") -> Iterator[str]:
    """Write each contestant into the folder `out`, and say a line per file.

    `form` is one of FORMATS: a `.eval` of inspect_ai for each task, Every Eval Ever's pair of
    files, or an entry for Hugging Face's `.eval_results`, which names the repository of the
    `dataset`. Raises TaskError and OSError.
    """
    if form not in FORMATS:
        raise TaskError(
            f"--to {form}: the formats are {', '.join(FORMATS)}; `looktwice replies --export`"
            " writes others"
        )
    if form == "eval-results" and "/" not in dataset:
        raise TaskError(
            "--to eval-results: name the benchmark's repository, such as --dataset"
            " BLINK-Benchmark/BLINK"
        )
    for log in name_apart([log.whole for log in logs]):
        if form == "every-eval-ever":
            yield f"written: {write_every_eval_ever(log, out)}"
        elif form == "eval-results":
            yield f"written: {write_eval_results(log, dataset, out)}"
        else:
            tasks = list(dict.fromkeys(log.rows["task"]))
            names = file_names([f"{log.name}_{task}".strip("_") for task in tasks])
            for task, name in zip(tasks, names.values(), strict=True):
                file = out / f"{name}.eval"
                yield f"written: {file} ({counted(write_inspect(log, task, file), 'sample')})"
