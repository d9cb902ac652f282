"""What every server of ours does with a client that speaks no HTTP: 400, and no line for the one
who serves."""

from __future__ import annotations

import logging
from typing import Any

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

__all__: list[str] = []

FAULTS_OF_CLIENTS = (HttpProcessingError, web.RequestPayloadError, ConnectionError)
"""Header lines that are too long, bytes that are no request, bodies that break off."""

LOGGER = logging.getLogger("looktwice.server")


def is_our_fault(record: logging.LogRecord) -> bool:
    """Whether a line of the log tells of more than a client that sent what nobody should."""
    return not (record.exc_info and isinstance(record.exc_info[1], FAULTS_OF_CLIENTS))


LOGGER.addFilter(is_our_fault)


def make_runner(app: web.Application, **settings: Any) -> web.AppRunner:
    """What serves an application, without a log of requests and of faults of clients."""
    return web.AppRunner(app, access_log=None, logger=LOGGER, **settings)


def host_of(request: web.Request) -> str:
    """The host that a request names, empty where it names none that could be one."""
    try:
        return request.url.host or ""
    except ValueError:
        return ""
