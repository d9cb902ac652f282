"""The command that makes questions from a user's own files."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Option

from looktwice.eval.commands.options import NO_VALUES, ConfigPath, Overrides, Plugins, say


def make(
    config: ConfigPath,
    overrides: Overrides = NO_VALUES,
    out: Annotated[Path, Option(help="The folder for the new question sets.")] = Path("made"),
    split: Annotated[
        str, Option(help="The name of the split; every question's id begins with it.")
    ] = "val",
    plugin: Plugins = NO_VALUES,
) -> None:
    """Make questions from your own files.

    Each task is saved as a folder of questions, with a parquet file in BLINK's format.
    """
    from looktwice.extras.make.saving import make_questions

    for line in make_questions(config, overrides, plugin, out, split):
        say(line)
