"""The commands with which other programs use looktwice."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Annotated

import typer

from looktwice.eval.commands.completion import complete_config
from looktwice.eval.commands.options import NONE, Overrides, Plugins, say


def mcp(
    study: Annotated[
        str,
        typer.Argument(
            metavar="[STUDY]",
            help="A study with an agent, whose tools are served.",
            autocompletion=complete_config,
        ),
    ] = "look",
    overrides: Overrides = NONE,
    contestant: Annotated[
        str, typer.Option(help="Whose tools, where the study's agents have different ones.")
    ] = "",
    http: Annotated[
        int | None,
        typer.Option(
            min=0, max=65535, help="Serve streamable HTTP on this port; 0 takes a free one."
        ),
    ] = None,
    host: Annotated[
        str, typer.Option(help="Listen on this address instead, for others; needs --token-env.")
    ] = "",
    token_env: Annotated[
        str, typer.Option(help="The environment variable with the token that clients must send.")
    ] = "",
    allow: Annotated[
        list[str],
        typer.Option(
            "--allow", help="A folder whose images may be read (default: the working folder)."
        ),
    ] = NONE,
    out: Annotated[
        Path | None,
        typer.Option(help="The folder of new images (default: looks in the first of --allow)."),
    ] = None,
    placebo: Annotated[
        list[str], typer.Option(help="This tool, zoom, shows another place instead.")
    ] = NONE,
    black: Annotated[list[str], typer.Option(help="This tool shows black images.")] = NONE,
    plugin: Plugins = NONE,
) -> None:
    """Serve image tools to any agent client.

    Zoom, mark, segment, match, measure and more over the Model Context Protocol, on stdin and
    stdout, or over HTTP.
    """
    import asyncio

    from looktwice.eval.homes.chat_requests import LOOPBACK
    from looktwice.eval.homes.command import ServeOptions
    from looktwice.eval.homes.images import Images
    from looktwice.eval.homes.looking import LookTools, find_agent, make_controls
    from looktwice.pipelines.config.classes import ConfigError

    try:
        from looktwice.eval.homes import mcp as server
    except ModuleNotFoundError as exc:
        fault = f"mcp: {exc.name} is not installed; type: pip install 'looktwice[mcp]'"
        raise ConfigError([fault]) from exc
    folders = tuple(Path(folder).expanduser().resolve() for folder in allow or ["."])
    if not allow and folders[0] == Path(folders[0].anchor):
        raise ConfigError([f"mcp: the working folder is {folders[0]}; name folders with --allow"])
    place = (out or folders[0] / "looks").expanduser().resolve()
    agent = find_agent(study, contestant, overrides, plugin, allow)
    looks = LookTools(agent, Images(place, folders), make_controls(agent, placebo, black))
    served = server.make_server(looks)
    with suppress(KeyboardInterrupt):  # the client has left, or as announced
        if http is None:
            asyncio.run(server.serve_stdio(served))
            return
        options = ServeOptions(http, host, token_env)

        def started(url: str) -> None:
            say(f"{len(looks.tools)} tools at {url}; Ctrl-C ends it")

        address = host or LOOPBACK[0]
        asyncio.run(server.serve_http(served, address, http, options.token, started))
