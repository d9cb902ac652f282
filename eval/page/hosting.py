"""The shared handling, in all our servers, of clients that do not speak HTTP: status 400, and no
line in the log."""

from __future__ import annotations

import logging
from typing import Any

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

__all__: list[str] = []

FAULTS_OF_CLIENTS = (HttpProcessingError, web.RequestPayloadError, ConnectionError)
"""Header lines that are too long, bytes that are not a request, bodies that break off."""

LOGGER = logging.getLogger("looktwice.server")


def is_server_fault(record: logging.LogRecord) -> bool:
    """Return whether a log record reports more than a client that sent an invalid request."""
    return not (record.exc_info and isinstance(record.exc_info[1], FAULTS_OF_CLIENTS))


LOGGER.addFilter(is_server_fault)


def make_runner(app: web.Application, **settings: Any) -> web.AppRunner:
    """Return the runner of an application, which logs neither requests nor faults of clients."""
    return web.AppRunner(app, access_log=None, logger=LOGGER, **settings)


def get_host(request: web.Request) -> str:
    """Return the host that a request names; empty if it names none or an invalid one."""
    try:
        return request.url.host or ""
    except ValueError:
        return ""
