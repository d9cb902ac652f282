"""Words of questions, models and servers on a terminal: control characters are shown there and not obeyed."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.text import Text

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def printable(text: object) -> str:
    r"""The text with `\x1b` for an escape character and the like; line breaks and tabs stay.

    Marks that turn the direction of writing are control characters too: they make words stand where they are not.
    """
    return _CONTROL.sub(lambda found: found[0].encode("unicode_escape").decode(), str(text))


def cell(text: object, style: str = "") -> Text:
    """The same as a text of rich, which takes no `[markup]` from it."""
    from rich.text import Text

    return Text(printable(text), style=style)
