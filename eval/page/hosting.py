"""Code that all servers share: clients that do not speak HTTP get status 400 and are not logged."""

from __future__ import annotations

import logging
from typing import Any

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

__all__: list[str] = []

CLIENT_FAULTS = (HttpProcessingError, web.RequestPayloadError, ConnectionError)
"""The errors raised for overlong header lines, invalid requests and truncated bodies."""

LOGGER = logging.getLogger("looktwice.server")


def is_server_fault(record: logging.LogRecord) -> bool:
    """Return whether a log record reports a fault of the server rather than an invalid request."""
    return not (record.exc_info and isinstance(record.exc_info[1], CLIENT_FAULTS))


LOGGER.addFilter(is_server_fault)


def make_runner(app: web.Application, **settings: Any) -> web.AppRunner:
    """Return a runner for an application that logs neither requests nor faults of clients."""
    return web.AppRunner(app, access_log=None, logger=LOGGER, **settings)


def get_host(request: web.Request) -> str:
    """Return the host that a request names; empty if it names none or an invalid one."""
    try:
        return request.url.host or ""
    except ValueError:
        return ""
