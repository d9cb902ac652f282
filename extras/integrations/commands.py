"""The commands that serve looktwice to other programs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from typer import Argument, Option

from looktwice.eval.commands.options import (
    NO_VALUES,
    OutCache,
    OutFolder,
    Overrides,
    Plugins,
    Port,
    Workers,
    complete_config,
    refuse,
    say,
    until_interrupted,
)
from looktwice.eval.commands.studies import load_study

Host = Annotated[
    str,
    Option(
        help="The address to listen on, if other machines may send requests; needs --token-env."
    ),
]
TokenVariable = Annotated[
    str,
    Option(metavar="NAME", help="The environment variable that holds the token clients must send."),
]
AgentStudy = Annotated[
    str,
    Argument(
        metavar="[STUDY]",
        help="A study with an agent, whose tools are served.",
        autocompletion=complete_config,
    ),
]
PortOfHTTP = Annotated[
    int | None,
    Option(min=0, max=65535, help="Serve streamable HTTP on this port; 0 picks a free one."),
]
ImageFolders = Annotated[
    list[str],
    Option("--allow", help="A folder whose images may be read (default: the working folder)."),
]


def serve(
    study: Annotated[
        str,
        Argument(
            metavar="[STUDY]",
            help="A study, or `pocket`: the small model bundled with looktwice.",
            autocompletion=complete_config,
        ),
    ] = "pocket",
    overrides: Overrides = NO_VALUES,
    tap: Annotated[
        str,
        Option(
            metavar="URL",
            help="Instead of a study: forward requests to this server, and record them.",
        ),
    ] = "",
    port: Port = 8765,
    host: Host = "",
    token_env: TokenVariable = "",
    out: OutFolder = Path("runs"),
    name: Annotated[
        str, Option(help="The folder in OUT/serve (default: the study's name, or tap).")
    ] = "",
    cache: OutCache = None,
    show_looks: Annotated[
        bool,
        Option("--show-looks", help="Also send the texts that the model writes before its answer."),
    ] = False,
    abstain: Annotated[
        Literal["error", "text"],
        Option(help="The response when the stages abstain: `error` (422), or `text`."),
    ] = "error",
    workers: Workers = 64,
    plugin: Plugins = NO_VALUES,
) -> None:
    """Serve a study's contestants to clients of OpenAI and Anthropic.

    Clients name a contestant as the model, in chat completions, Responses or Messages, and their
    requests are recorded as a run in OUT/serve. By default only this machine can send requests, and
    no key is needed. Images must be data URLs.
    """
    from looktwice.extras.integrations.command import (
        ServeOptions,
        make_pocket_plan,
        serve_study,
        serve_tap,
    )
    from looktwice.pipelines.config.shipped import find_config

    options = ServeOptions(port, host, token_env, out, name, cache, show_looks, abstain, workers)
    is_there = study == "pocket" or find_config(study).is_file()
    if tap and (study != "pocket" or overrides):
        refuse(
            f"serve {study} --tap: --tap forwards to a server and takes no study; leave out the"
            " study or --tap"
        )
    if not is_there:
        refuse(f"serve {study}: no such study; give `pocket`, or the file of a study")
    with until_interrupted():
        if tap:
            serve_tap(tap, options, say)
        elif study == "pocket":
            serve_study(make_pocket_plan(), options, say)
        else:
            serve_study(load_study(Path(study), overrides, plugin), options, say)


def mcp(
    study: AgentStudy = "look",
    overrides: Overrides = NO_VALUES,
    contestant: Annotated[
        str, Option(help="The contestant whose tools to serve, if the study's agents differ.")
    ] = "",
    http: PortOfHTTP = None,
    host: Host = "",
    token_env: TokenVariable = "",
    allow: ImageFolders = NO_VALUES,
    out: Annotated[
        Path | None,
        Option(help="The folder for new images (default: looks, in the first --allow folder)."),
    ] = None,
    placebo: Annotated[
        list[str], Option(help="Control: this zoom tool avoids the requested place.")
    ] = NO_VALUES,
    random: Annotated[
        list[str], Option(help="Control: this zoom tool shows any place, even the requested one.")
    ] = NO_VALUES,
    black: Annotated[list[str], Option(help="Control: this tool shows black images.")] = NO_VALUES,
    plugin: Plugins = NO_VALUES,
) -> None:
    """Serve image tools to any agent client.

    Tools to zoom, mark, segment, match, measure and more, over the Model Context Protocol, on stdin
    and stdout or over HTTP.
    """
    import asyncio

    from looktwice.extras.integrations.command import ServeOptions
    from looktwice.extras.integrations.images import Images
    from looktwice.extras.integrations.looking import LookTools, find_agent, make_controls
    from looktwice.extras.integrations.protocols.questions import LOOPBACK_HOSTS

    try:
        from looktwice.extras.integrations import mcp as server
    except ModuleNotFoundError as exc:
        from looktwice.pipelines.runtime.install import format_install

        refuse(f"mcp: {exc.name} is not installed; type: {format_install('mcp')}")
    folders = tuple(Path(folder).expanduser().resolve() for folder in allow or ["."])
    if not allow and folders[0] == Path(folders[0].anchor):
        refuse(f"mcp: the working folder is {folders[0]}; name the folders to read with --allow")
    place = (out or folders[0] / "looks").expanduser().resolve()
    agent = find_agent(study, contestant, overrides, plugin)
    looks = LookTools(agent, Images(place, folders), make_controls(agent, placebo, black, random))
    served = server.make_server(looks)
    with until_interrupted():
        if http is None:
            asyncio.run(server.serve_stdio(served))
            return
        options = ServeOptions(http, host, token_env)

        def started(url: str) -> None:
            say(f"{len(looks.tools)} tools at {url}; press Ctrl-C to stop")

        address = host or LOOPBACK_HOSTS[0]
        asyncio.run(server.serve_http(served, address, http, options.token, started))
