"""Image tools over the Model Context Protocol, for any agent client: over stdio, or streamable
HTTP. It needs the extra `mcp`, the official SDK from version 2."""

from __future__ import annotations

import asyncio
import hmac
import socket
from collections.abc import Awaitable, Callable
from typing import Any

import mcp_types as protocol
import uvicorn
from mcp.server import Server, ServerRequestContext
from mcp.server.stdio import stdio_server
from mcp.server.transport_security import TransportSecuritySettings
from starlette.requests import Request
from starlette.responses import PlainTextResponse

from looktwice.extras.integrations.looking import REPORTED_ERRORS, LookTools
from looktwice.extras.integrations.protocols.questions import LOOPBACK_HOSTS, MAX_BYTES
from looktwice.pipelines.config.classes import ConfigError
from looktwice.prompting.coordinates import UNIT_PHRASES

INSTRUCTIONS = (
    "Look again at an image before you answer about it: open its file, then zoom, mark, compare or"
    " measure. An image is named by its number, by the path of its file, or by a data URL; every"
    " result says its size, which part of which picture it shows, and the file that it was written"
    " to, which the next call may name. Coordinates are in {unit}; x grows to the right and y grows"
    " down from the top left corner."
)


def make_server(looks: LookTools) -> Server[Any]:
    """Make a server that offers the tools of `looks`, for either transport."""
    lines = [INSTRUCTIONS.format(unit=UNIT_PHRASES[looks.agent.coordinates])]
    lines += [f"Not offered: {name}, as {why}." for name, why in looks.unavailable_tools.items()]

    async def list_tools(
        context: ServerRequestContext[Any], page: protocol.PaginatedRequestParams | None
    ) -> protocol.ListToolsResult:
        reads = protocol.ToolAnnotations(read_only_hint=True, open_world_hint=False)
        tools = [
            protocol.Tool(
                name=tool.name,
                description=tool.description,
                input_schema=dict(tool.parameters),
                annotations=reads,
            )
            for tool in looks.descriptions
        ]
        return protocol.ListToolsResult(tools=tools)

    async def call_tool(
        context: ServerRequestContext[Any], asked: protocol.CallToolRequestParams
    ) -> protocol.CallToolResult:
        return await asyncio.to_thread(answer_call, looks, asked.name, asked.arguments or {})

    from importlib.metadata import version

    return Server(
        "looktwice",
        version=version("looktwice"),
        instructions="\n".join(lines),
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )


def answer_call(looks: LookTools, name: str, arguments: dict[str, Any]) -> protocol.CallToolResult:
    """Call a tool; errors are returned as results for the client's model."""
    try:
        parts = looks.look(name, arguments)
    except REPORTED_ERRORS as exc:
        fault = protocol.TextContent(text=f"error: {exc}")
        return protocol.CallToolResult(content=[fault], is_error=True)
    content = list[protocol.ContentBlock]()
    for part in parts:
        if isinstance(part, str):
            content.append(protocol.TextContent(text=part))
        else:
            sent = part.picture.payload
            image = protocol.ImageContent(data=sent.text.decode(), mime_type=sent.media_type)
            content.append(image)
    return protocol.CallToolResult(content=content)


async def serve_stdio(server: Server[Any]) -> None:
    """Serve one client over stdin and stdout until it disconnects."""
    async with stdio_server() as (incoming, outgoing):
        await server.run(incoming, outgoing, server.create_initialization_options())


async def serve_http(
    server: Server[Any], host: str, port: int, token: str, started: Callable[[str], None]
) -> None:
    """Serve any number of clients over streamable HTTP at /mcp until interrupted; `started`
    receives the URL. With a `token`, only clients that send it may send requests, but they may
    address this machine by any name. Raises ConfigError if the port is taken."""
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        listening = socket.create_server((host, port), family=family)
    except OSError as exc:
        fault = f"--http {port}: {host} cannot be used ({exc.strerror}); give another port"
        raise ConfigError([fault]) from exc
    port = listening.getsockname()[1]
    shown = f"[{host}]" if ":" in host else host
    hosts = [f"{name}:*" for name in dict.fromkeys((*LOOPBACK_HOSTS, "[::1]", shown))]
    app = server.streamable_http_app(
        max_request_body_size=MAX_BYTES,
        transport_security=TransportSecuritySettings(
            enable_dns_rebinding_protection=not token,  # web pages do not have the token
            allowed_hosts=hosts,
            allowed_origins=[f"http://{name}" for name in hosts],
        ),
    )
    guarded = _require_token(app, token) if token else app
    config = uvicorn.Config(guarded, log_level="warning", access_log=False)
    started(f"http://{shown}:{port}/mcp")
    with listening:
        await uvicorn.Server(config).serve(sockets=[listening])


def _require_token(app: Any, token: str) -> Callable[..., Awaitable[None]]:
    expected = f"Bearer {token}".encode()

    async def guarded(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            given = Request(scope).headers.get("authorization", "").encode()
            if not hmac.compare_digest(given, expected):
                refusal = PlainTextResponse("send the token: Authorization: Bearer TOKEN", 401)
                await refusal(scope, receive, send)
                return
        await app(scope, receive, send)

    return guarded
