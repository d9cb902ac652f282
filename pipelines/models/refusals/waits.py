"""Reads how long a server asks to wait, from a header, a field or a sentence."""

from __future__ import annotations

import email.utils
import re
import time
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from looktwice.pipelines.models.refusals.bodies import iterate_values

MAX_WAIT_SECONDS = 31 * 86_400.0  # seconds; a larger number has another unit, or is not a wait

UNIT_SECONDS = {
    **dict.fromkeys(("ns", "nanosecond", "nanoseconds"), 1e-9),
    **dict.fromkeys(("us", "\u00b5s", "\u03bcs", "microsecond", "microseconds"), 1e-6),
    **dict.fromkeys(("ms", "msec", "millisecond", "milliseconds", "毫秒"), 1e-3),
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds", "秒", "秒钟"), 1.0),
    **dict.fromkeys(("m", "min", "mins", "minute", "minutes", "分钟"), 60.0),
    **dict.fromkeys(("h", "hr", "hrs", "hour", "hours", "小时"), 3600.0),
    **dict.fromkeys(("d", "day", "days"), 86_400.0),
}
UNIT_REGEX = "|".join(sorted(UNIT_SECONDS, key=len, reverse=True))
STEP_REGEX = rf"\d{{1,20}}(?:\.\d{{1,20}})?\s?(?:{UNIT_REGEX})(?![a-z])"
STEP_PATTERN = re.compile(rf"(\d+(?:\.\d+)?)\s?({UNIT_REGEX})(?![a-z])", re.I)
DURATION_REGEX = rf"{STEP_REGEX}(?:(?:\s|,|and){{0,5}}{STEP_REGEX}){{0,4}}"
NUMBER_PATTERN = re.compile(r"\d{1,40}(\.\d{0,40})?")

RETRY_REGEX = (
    r"\b(?:again|retry(?:ing)?|wait(?:ing)?|resets?|available|back(?:ing)? ?off"
    r"|next request (?:is )?(?:allowed|possible))"
)
WAIT_SENTENCE_PATTERN = re.compile(
    rf"{RETRY_REGEX}[\s_:=-]*(?:(?:in|after|for|at"
    rf" least|about|approximately|another)[\s:=]+){{0,3}}"
    rf"(?P<wait>{DURATION_REGEX})",
    re.I,
)
BARE_NUMBER_PATTERN = re.compile(
    rf"{RETRY_REGEX}[\s_:=-]*(?:in|after|for)[\s:=]+(?P<wait>\d{{1,9}}(?:\.\d{{1,9}})?)"
    r"(?=[.,;)!]?\s*$|[.;)]\s)",
    re.I,
)
RETRY_TIME_PATTERN = re.compile(
    r"\b(?:again|retry|resets?|available)[\s:]+(?:(?:at|after|on)[\s:]+)?"
    r"(?P<wait>\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:\.\d{1,9})?)?(?:Z|[+-]\d\d:?\d\d)?)",
    re.I,
)
CHINESE_WAIT_PATTERN = re.compile(rf"(?P<wait>{STEP_REGEX})[之以]?[后後]")
PROTOBUF_DURATION_PATTERN = re.compile(r"retry_?delay\W{1,6}seconds\W{1,4}(?P<wait>\d{1,9})", re.I)

WAIT_FIELDS = {"retrydelay", "retryafter", "retryafterseconds", "retryinseconds", "resetsinseconds"}
WAIT_FIELDS |= {
    "resetsat",
    "retryat",
    "resetat",
    "resettime",
    "quotaresetdelay",
    "quotaresettimestamp",
}
WAIT_FIELDS |= {"estimatedtime", "waitseconds", "waittime"}
MILLISECOND_FIELDS = {"retryafterms", "retryaftermilliseconds", "retrydelayms"}
WAIT_HEADERS = {"retry-after-ms": 1e-3, "x-ms-retry-after-ms": 1e-3, "retry-after": 1.0}
WAIT_HEADERS |= dict.fromkeys(
    ("retry-after-seconds", "x-retry-after", "x-ratelimit-retry-after"), 1.0
)
COMBINED_LIMIT_PATTERN = re.compile(r"\b(remaining|r|reset|t)\s*=\s*(\d{1,20})")


def read_retry_after(
    headers: Mapping[str, str], error: Any = None, status: int = 429
) -> float | None:
    """Return the seconds that a server asks to wait, or None if it does not say.

    Explicit requests come first: Retry-After and similar headers, then the fields and sentences of
    `error`; the longest wait counts. Otherwise, the reset time of the exhausted limit counts; for a
    429 without a remaining count, any limit may be the exhausted one.
    """
    now = time.time()
    values = [*iterate_values(error)]
    wrapped = {
        str(name).lower(): str(value)
        for key, inner in values
        if key == "headers" and isinstance(inner, Mapping)
        for name, value in inner.items()
    }
    for given in (headers, wrapped):
        for name, scale in WAIT_HEADERS.items():
            if (wait := read_seconds(given.get(name, ""), now, scale)) is not None:
                return wait
    waits = [wait for key, value in values for wait in _read_field(key, value, now)]
    if waits:
        return max(waits)
    used_up, unknown = list[float](), list[float]()
    for wait, remaining in (*_find_resets(headers, now), *_find_resets(wrapped, now)):
        if remaining is None:
            unknown.append(wait)
        elif remaining <= 0:
            used_up.append(wait)
    if status == 429:
        used_up = used_up or unknown
    return max(used_up, default=None)


def read_seconds(text: Any, now: float, scale: float = 1.0) -> float | None:
    """Parse the seconds that a string states: a number in units of `scale` seconds, a Unix time in
    seconds to nanoseconds, a duration such as 1m2.5s, or a date. Returns None for any other text
    and for an implausible number."""
    text = str(text).strip().strip('"')
    if NUMBER_PATTERN.fullmatch(text):
        number = float(text)
        digits = [size for size in (1e9, 1e12, 1e15, 1e18) if number >= size]
        if digits and scale == 1.0:
            return _limit_wait(max(0.0, number / digits[-1] * 1e9 - now))
        return _limit_wait(number * scale)
    if re.fullmatch(DURATION_REGEX, text, re.I):
        return _limit_wait(
            sum(float(n) * UNIT_SECONDS[unit.lower()] for n, unit in STEP_PATTERN.findall(text))
        )
    return _read_date(text, now)


def _read_date(text: str, now: float) -> float | None:
    """Return the seconds until a date; None for anything else."""
    for read in (datetime.fromisoformat, email.utils.parsedate_to_datetime):
        try:
            date = read(text)
            date = date if date.tzinfo else date.replace(tzinfo=UTC)
            return _limit_wait(max(0.0, date.timestamp() - now))
        except (ValueError, OverflowError):
            continue
    return None


def _limit_wait(seconds: float) -> float | None:
    """Return the seconds, or None if they exceed `MAX_WAIT_SECONDS`."""
    return seconds if seconds <= MAX_WAIT_SECONDS else None


def _read_field(key: str, value: Any, now: float) -> Iterator[float]:
    """Yield the waits in one field of an error."""
    if isinstance(value, Mapping) and key == "retrydelay":
        value = f"{value.get('seconds', 0)}.{int(value.get('nanos') or 0):09}"
    is_plain = isinstance(value, str | int | float) and not isinstance(value, bool)
    waits = list[float | None]()
    if key in WAIT_FIELDS | MILLISECOND_FIELDS and is_plain:
        waits.append(read_seconds(value, now, 1e-3 if key in MILLISECOND_FIELDS else 1.0))
    elif isinstance(value, str):
        for pattern in (
            WAIT_SENTENCE_PATTERN,
            BARE_NUMBER_PATTERN,
            RETRY_TIME_PATTERN,
            CHINESE_WAIT_PATTERN,
            PROTOBUF_DURATION_PATTERN,
        ):
            waits += [read_seconds(match["wait"], now) for match in pattern.finditer(value)]
    yield from (wait for wait in waits if wait is not None)


def _find_resets(headers: Mapping[str, str], now: float) -> Iterator[tuple[float, float | None]]:
    """Yield, for each rate limit, the seconds until its reset and the remaining count, if
    stated."""
    for name, text in headers.items():
        if "ratelimit" not in name.replace("-limit", "limit"):
            continue
        remaining, reset = headers.get(name.replace("reset", "remaining"), ""), text
        if "reset" not in name:
            parts: dict[str, str] = dict(COMBINED_LIMIT_PATTERN.findall(text))
            remaining = parts.get("remaining", parts.get("r", ""))
            reset = parts.get("reset", parts.get("t", ""))
        wait = read_seconds(reset, now, 1e-3 if name.endswith("-ms") else 1.0)
        if wait is not None:
            count = NUMBER_PATTERN.fullmatch(remaining.strip())
            yield wait, float(count[0]) if count else None
