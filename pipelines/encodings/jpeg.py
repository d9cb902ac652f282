"""Whether a JPEG can be decoded, told by its structure and the first bytes of its pixels."""

from __future__ import annotations

import re

__all__: list[str] = []

BASELINE, SCAN, END = {0xC0, 0xC1}, 0xDA, b"\xff\xd9"
ALONE = {0x01, *range(0xD0, 0xD8)}  # markers without a length
FILL = 0xFF  # any number may stand before a marker
FOREIGN = re.compile(rb"\xff[^\x00\xd0-\xd7]")
"""What stands in no scan: the first one behind its beginning ends it."""
FEW = 256  # bytes of a scan, in which the decoder meets each of its tables


def shortened(data: bytes) -> bytes | None:
    """A baseline JPEG of one whole scan with the first bytes of that scan alone; None for any other
    file.

    What a decoder refuses there lies in the header, or is a marker within a scan; of other damage
    it makes wrong pixels, as it does of a scan that ends too early. So where it reads the short
    file, it reads the whole one.
    """
    place, is_baseline = 2, False
    while data[place : place + 1] == b"\xff":
        marker = data[place + 1] if place + 1 < len(data) else 0
        if marker in ALONE:
            place += 2
            continue
        if marker == FILL:
            place += 1
            continue
        is_baseline = is_baseline or marker in BASELINE
        place += 2 + int.from_bytes(data[place + 2 : place + 4])
        if marker == SCAN:
            end = FOREIGN.search(data, place)
            if is_baseline and end and end[0] == END:
                return data[: min(place + FEW, end.start())] + END
            return None
    return None
