"""The command that opens the studio in a browser."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from looktwice.eval.commands.options import (
    NO_VALUES,
    OpenBrowser,
    Plugins,
    Port,
    announce,
    complete_config,
    until_interrupted,
)

NO_PATHS: list[Path] = []


def studio(
    what: Annotated[
        list[Path],
        Argument(
            metavar="[IMAGE ... | RUN SAMPLE | STUDY]",
            help="What to open. Default: a page that takes a dropped picture or shows an example.",
            autocompletion=complete_config,
        ),
    ] = NO_PATHS,
    model: Annotated[
        list[str],
        Option(help="Another model that the studio may ask: {use: pipelines.models.ChatAPI, ...}."),
    ] = NO_VALUES,
    port: Port = 0,
    opened: OpenBrowser = False,
    plugin: Plugins = NO_VALUES,
) -> None:
    """Try marks and stages on your own picture in a browser.

    The studio shows the exact pictures and texts that a model receives, asks it, and exports the
    study. It is served on this machine only, and keys come from the environment.
    """
    import tempfile

    from looktwice.eval.page.serving import serve_page
    from looktwice.extras.studio.backend import StudioBackend
    from looktwice.extras.studio.server import StudioServer, open_draft

    with tempfile.TemporaryDirectory(prefix="looktwice-studio-") as folder:
        backend = StudioBackend(Path(folder).resolve(), plugins=plugin)
        draft = open_draft(backend, what, model)
        server = StudioServer(backend, lambda _: draft)
        with until_interrupted():
            serve_page(server, port, partial(announce, opened), "studio")
