"""Makes untrusted text of questions, models and servers safe: for terminals, spreadsheets, pages
and file names."""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cache
from io import StringIO
from typing import TYPE_CHECKING, Any

from looktwice.pipelines.config.spec import digest
from looktwice.pipelines.models.keys import mask_keys

if TYPE_CHECKING:
    from rich.text import Text

_CONTROL_PATTERN = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)

UNSAFE_CHARACTERS_PATTERN = re.compile(
    r'[<>:"/\\|?*\x00-\x1f\x7f\u200e\u200f\u2028-\u202e\u2066-\u2069]|[. ]+$'
)
DEVICE_PATTERN = re.compile(r"^((?:con|prn|aux|nul|com\d|lpt\d)(?:\.|$))", re.I)
MAX_NAME_BYTES = 120  # of a file name, before the suffix that makes it unique

_FORMULA_PATTERN = re.compile("(^|[;\t\n])(?=[=+@\t\n\uff0b\uff0d\uff1d\uff20-])")


def printable(text: object) -> str:
    r"""Return the text with control characters escaped (`\x1b`) and keys masked; line breaks and
    tabs stay.

    Characters that change the writing direction count as control characters, because they make text
    appear where it is not. Keys are masked because an error message may quote a setting of a
    configuration into which somebody put a key.
    """
    return _CONTROL_PATTERN.sub(
        lambda found: found[0].encode("unicode_escape").decode(), mask_keys(str(text))
    )


def make_text(text: object, style: str = "") -> Text:
    """Return the printable text as a rich Text, in which `[markup]` has no effect."""
    from rich.text import Text

    return Text(printable(text), style=style)


def format_csv(rows: Iterable[Sequence[object]], end: str = "\n") -> str:
    """Return rows as CSV, with each cell made safe by `make_csv_cell`."""
    out = StringIO(newline="")
    csv.writer(out, lineterminator=end).writerows(
        [make_csv_cell(cell) for cell in row] for row in rows
    )
    return out.getvalue()


def make_csv_cell(value: object) -> object:
    """Return a value as a safe CSV cell: text that a spreadsheet would run as a formula gets a
    leading quote; numbers stay as they are.

    Some programs treat a semicolon or a tab within a text as the end of a cell.
    """
    if not isinstance(value, str):
        return value
    try:
        float(value)
    except ValueError:
        return _FORMULA_PATTERN.sub(r"\1'", printable(value))
    return value


def make_file_names(names: Iterable[str]) -> dict[str, str]:
    """Map each name to a file name that is valid on Windows and unique even when case is
    ignored."""
    safe = dict[str, str]()
    for name in names:
        text = DEVICE_PATTERN.sub(r"_\1", UNSAFE_CHARACTERS_PATTERN.sub("_", name)).encode(
            errors="replace"
        )
        safe[name] = text[:MAX_NAME_BYTES].decode(errors="ignore").rstrip(". ")
    times = Counter(text.casefold() for text in safe.values())
    return {
        name: text
        if text and text == name and times[text.casefold()] == 1
        else f"{text}-{digest(name)[:8]}"
        for name, text in safe.items()
    }


@cache
def load_template(name: str, package: str = "looktwice.eval") -> Any:
    """Load an HTML template from the folder `templates` of a package. All text is escaped, and an
    undefined variable raises an error."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    loader = PackageLoader(package, "templates")
    env = Environment(
        loader=loader,
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return env.get_template(name)
