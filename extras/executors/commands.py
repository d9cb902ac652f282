"""The command `merge`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Argument, Exit, Option

from looktwice.eval.commands.options import complete_run, say


def merge(
    shards: Annotated[
        list[Path],
        Argument(
            metavar="SHARD...",
            help="The run folders that `run --shard` wrote.",
            autocompletion=complete_run,
        ),
    ],
    out: Annotated[Path, Option(help="The folder of the merged run.")],
) -> None:
    """Merge the shards of a run into one run folder.

    Shards of other studies, or with other questions, correct answers or pictures, are refused.
    Missing shards are named; a shard that arrives later can be merged into the same folder.
    """
    from looktwice.extras.executors.merge import merge

    merged = merge(shards, out)
    say(merged.summary)
    if merged.missing:
        raise Exit(1)
