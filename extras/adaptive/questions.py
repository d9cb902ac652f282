"""The analysis of a finished run's items: the difficulty of each, and totals predicted from a few
of them."""

from __future__ import annotations

from typing import Any

from looktwice.eval.analysis.requested import AnalysisOnRequest, AnalysisRequest
from looktwice.eval.display.printable import format_csv
from looktwice.eval.display.text_tables import table
from looktwice.eval.records.records import RunError
from looktwice.extras.adaptive import item_response as response
from looktwice.pipelines.disk import dump_yaml, write_file


def show_items(request: AnalysisRequest) -> None:
    """Print each arm's total predicted from `n` items (default: a tenth of all), and write the item
    difficulties and the chosen subset next to the run."""
    values = response.collect_item_values(request.run)
    most = len(values.units)
    n = request.settings.get("n", -(-most // 10))
    if not isinstance(n, int) or not 1 <= n <= most:
        raise RunError(
            f"n must be from 1 to {most}, the number of items that all arms answered, got {n!r}"
        )
    try:
        items, lines = response.fit_items(values.value), [*response.predict_arms(values, n)]
    except ValueError as exc:
        raise RunError(f"{request.run.folder.path}: {exc}") from exc
    request.show(
        table(response.PREDICTION_COLUMNS, lines), f"totals from {n} items", response.ITEMS_NOTE
    )
    rows: list[tuple[str, ...]] = [("task", "sample", "difficulty", "error", "right")]
    shares = values.value.mean(axis=0)
    for unit, *numbers in zip(
        values.units, items.difficulties, items.standard_errors, shares, strict=True
    ):
        rows.append((*unit, *map("{:.3f}".format, numbers)))
    subset: dict[str, Any] = {}
    for place in response.pick_items(items, [task for task, _ in values.units], n):
        task, sample = values.units[place]
        subset.setdefault(task, {"subset": {"ids": []}})["subset"]["ids"].append(sample)
    page = request.get_page_path("items.csv")
    write_file(page, format_csv(rows))
    short = "task" in request.run.config and len(subset) == 1
    node = {"task": subset.popitem()[1]} if short else {"tasks": subset}
    write_file(page.with_name("subset.yaml"), dump_yaml(node))
    request.say(
        f"items: {page}; {n} of them are in subset.yaml next to it, for `include:` and `--only`"
    )


ITEMS_ANALYSIS = AnalysisOnRequest(
    "Item difficulties, and totals predicted from a few items", ("n",), show_items
)
