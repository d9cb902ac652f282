"""The letters that OpenCV 4 draws: a Hershey typeface, one pixel wide and not smoothed."""

from __future__ import annotations

from itertools import pairwise
from string import ascii_uppercase, digits

import numpy as np
from numpy.typing import NDArray

from looktwice.pipelines.picture import Pixels
from looktwice.prompting.drawing.colors import RGB

FRACTION_BITS = 16  # fractional bits of a coordinate

FIXED_ONE = 1 << FRACTION_BITS

CAP_HEIGHT, BASE_DEPTH = 12, 9  # units of the typeface above and below its middle

HERSHEY_STROKES = r"""
I[RFJ[ RFZ[ MTWT
G\KFK[ KFTFWGXHYJYLXNWOTP KPTPWQXRYTYWXYWZT[K[
H]ZKYIWGUFQFOGMILKKNKSLVMXOZQ[U[WZYXZV
G\KFK[ KFRFUGWIXKYNYSXVWXUZR[K[|H[LFL[ LFYF LPTP L[Y[|HZLFL[ LFYF LPTP
H]ZKYIWGUFQFOGMILKKNKSLVMXOZQ[U[WZYXZVZS USZS
G]KFK[ YFY[ KPYP
NVRFR[
JZVFVVUYTZR[P[NZMYLVLT
G\KFK[ YFKT POY[
HYLFL[ L[X[|F^JFJ[ JFR[ ZFR[ ZFZ[|G]KFK[ KFY[ YFY[|G]PFNGLIKKJNJSKVLXNZP[T[VZXXYVZSZNYKXIVGTFPF
G\KFK[ KFTFWGXHYJYMXOWPTQKQ
G]PFNGLIKKJNJSKVLXNZP[T[VZXXYVZSZNYKXIVGTFPF SWY]
G\KFK[ KFTFWGXHYJYLXNWOTPKP RPY[
H\YIWGTFPFMGKIKKLMMNOOUQWRXSYUYXWZT[P[MZKX
JZRFR[ KFYF
G]KFKULXNZQ[S[VZXXYUYF
I[JFR[ ZFR[
F^HFM[ RFM[ RFW[ \FW[
H\KFY[ YFK[|I[JFRPR[ ZFRP|H\YFK[ KFYF K[Y[|H\QFNGLJKOKRLWNZQ[S[VZXWYRYOXJVGSFQF|H\NJPISFS[
H\LKLJMHNGPFTFVGWHXJXLWNUQK[Y[|H\MFXFRNUNWOXPYSYUXXVZS[P[MZLYKW|H\UFKTZT UFU[
H\WFMFLOMNPMSMVNXPYSYUXXVZS[P[MZLYKW|H\XIWGTFRFOGMJLOLTMXOZR[S[VZXXYUYTXQVOSNRNOOMQLT|H\YFO[ KFYF
H\PFMGLILKMMONSOVPXRYTYWXYWZT[P[MZLYKWKTLRNPQOUNWMXKXIWGTFPF
H\XMWPURRSQSNRLPKMKLLINGQFRFUGWIXMXRWWUZR[P[MZLX
"""
"""The simplex typeface that A. V. Hershey digitised at the U.S. National Bureau of Standards, in
OpenCV's order of strokes.

A character's first two letters are its left and right edge; after that each pair is a point, as
letters before and after R. A space lifts the pen.
"""

HERSHEY_CHARACTERS = dict(
    zip(
        ascii_uppercase + digits,
        HERSHEY_STROKES.replace("\n", "|").strip("|").split("|"),
        strict=True,
    )
)


def get_hershey_strokes(letter: str) -> list[NDArray[np.int64]]:
    """Return the left and right edge of a character of OpenCV 4's typeface, (1, 2), and then the
    points (n, 2) of each stroke, relative to its middle.

    Raises ValueError for a character other than A to Z and 0 to 9.
    """
    if letter not in HERSHEY_CHARACTERS:
        raise ValueError(
            f"OpenCV 4's letters are bundled only for A to Z and 0 to 9, found {letter!r}; set"
            " letters:"
            " opencv5"
        )
    edges, strokes = HERSHEY_CHARACTERS[letter][:2], HERSHEY_CHARACTERS[letter][2:].split(" ")
    return [np.array([*map(ord, pairs)]).reshape(-1, 2) - ord("R") for pairs in (edges, *strokes)]


def measure_hershey(text: str, scale: float) -> tuple[int, int]:
    """Return (width, height) of a text, without descenders, as OpenCV 4 measures it at thickness 1.

    Raises ValueError for a character other than A to Z and 0 to 9.
    """
    width = sum(int(np.ptp(get_hershey_strokes(letter)[0])) for letter in text)
    return round(width * scale + 1), round((CAP_HEIGHT + BASE_DEPTH) * scale + 1)


def draw_hershey(pixels: Pixels, text: str, left: int, line: int, scale: float, color: RGB) -> None:
    """Write text into the pixels, from `left`, on the baseline `line`; parts outside the image are
    cut off."""
    unit = round(scale * FIXED_ONE)
    x, y = left << FRACTION_BITS, (line << FRACTION_BITS) - BASE_DEPTH * unit
    for letter in text:
        edges, *strokes = get_hershey_strokes(letter)
        start = np.array([x - edges[0, 0] * unit, y])
        for stroke in strokes:
            for first, last in pairwise(stroke * unit + start):
                _draw_line(pixels, first, last, color)
        x += int(np.ptp(edges)) * unit


def _draw_line(
    pixels: Pixels, first: NDArray[np.int64], last: NDArray[np.int64], color: RGB
) -> None:
    """Draw a line one pixel wide between two points (x, y) in fractions of a pixel: one pixel per
    step along the longer side.

    OpenCV 5 chooses other pixels for lines that begin inside a pixel, so this follows OpenCV 4.
    """
    along = 0 if abs(last[0] - first[0]) > abs(last[1] - first[1]) else 1
    first, last = (first, last) if last[along] >= first[along] else (last, first)
    way = last - first
    slope = (
        abs(int(way[1 - along]) << FRACTION_BITS)
        // (int(way[along]) | 1)
        * (-1 if way[1 - along] < 0 else 1)
    )
    step = np.array([FIXED_ONE, slope] if along == 0 else [slope, FIXED_ONE])
    count = (int(last[along] - first[along]) + FIXED_ONE) >> FRACTION_BITS
    places = (
        np.vstack([first + np.arange(count)[:, None] * step, last]) + FIXED_ONE // 2
        >> FRACTION_BITS
    )
    xs, ys = places[((places >= 0) & (places < pixels.shape[1::-1])).all(1)].T
    pixels[ys, xs] = color
