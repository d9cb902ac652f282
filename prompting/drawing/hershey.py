"""Letters as OpenCV 4 drew them: Hershey's simplex face in lines a pixel wide, which OpenCV 5 has given up."""

from __future__ import annotations

from itertools import pairwise
from string import ascii_uppercase, digits

import numpy as np
from numpy.typing import NDArray

from looktwice.pipelines.picture import Pixels
from looktwice.prompting.drawing.colors import RGB

SHIFT = 16  # bits of a pixel's fraction
ONE = 1 << SHIFT
CAP, BASE = 12, 9  # units of the face above and below its middle

STROKES = r"""
I[RFJ[ RFZ[ MTWT|G\KFK[ KFTFWGXHYJYLXNWOTP KPTPWQXRYTYWXYWZT[K[|H]ZKYIWGUFQFOGMILKKNKSLVMXOZQ[U[WZYXZV
G\KFK[ KFRFUGWIXKYNYSXVWXUZR[K[|H[LFL[ LFYF LPTP L[Y[|HZLFL[ LFYF LPTP
H]ZKYIWGUFQFOGMILKKNKSLVMXOZQ[U[WZYXZVZS USZS|G]KFK[ YFY[ KPYP|NVRFR[|JZVFVVUYTZR[P[NZMYLVLT|G\KFK[ YFKT POY[
HYLFL[ L[X[|F^JFJ[ JFR[ ZFR[ ZFZ[|G]KFK[ KFY[ YFY[|G]PFNGLIKKJNJSKVLXNZP[T[VZXXYVZSZNYKXIVGTFPF
G\KFK[ KFTFWGXHYJYMXOWPTQKQ|G]PFNGLIKKJNJSKVLXNZP[T[VZXXYVZSZNYKXIVGTFPF SWY]|G\KFK[ KFTFWGXHYJYLXNWOTPKP RPY[
H\YIWGTFPFMGKIKKLMMNOOUQWRXSYUYXWZT[P[MZKX|JZRFR[ KFYF|G]KFKULXNZQ[S[VZXXYUYF|I[JFR[ ZFR[|F^HFM[ RFM[ RFW[ \FW[
H\KFY[ YFK[|I[JFRPR[ ZFRP|H\YFK[ KFYF K[Y[|H\QFNGLJKOKRLWNZQ[S[VZXWYRYOXJVGSFQF|H\NJPISFS[
H\LKLJMHNGPFTFVGWHXJXLWNUQK[Y[|H\MFXFRNUNWOXPYSYUXXVZS[P[MZLYKW|H\UFKTZT UFU[
H\WFMFLOMNPMSMVNXPYSYUXXVZS[P[MZLYKW|H\XIWGTFRFOGMJLOLTMXOZR[S[VZXXYUYTXQVOSNRNOOMQLT|H\YFO[ KFYF
H\PFMGLILKMMONSOVPXRYTYWXYWZT[P[MZLYKWKTLRNPQOUNWMXKXIWGTFPF|H\XMWPURRSQSNRLPKMKLLINGQFRFUGWIXMXRWWUZR[P[MZLX
"""
"""The simplex face that A. V. Hershey digitised at the U.S. National Bureau of Standards, in OpenCV's order of strokes.

A sign's first two letters are its left and right edge, then each pair is a point, as letters before and after R; a
space lifts the pen.
"""

SIGNS = dict(zip(ascii_uppercase + digits, STROKES.replace("\n", "|").strip("|").split("|"), strict=True))


def hershey_size(text: str, scale: float) -> tuple[int, int]:
    """(width, height) of a text without what hangs below its line, as OpenCV 4 measures it at thickness 1.

    Raises ValueError for a sign other than A to Z and 0 to 9.
    """
    width = sum(ord(_sign(each)[1]) - ord(_sign(each)[0]) for each in text)
    return round(width * scale + 1), round((CAP + BASE) * scale + 1)


def draw_hershey(pixels: Pixels, text: str, left: int, line: int, scale: float, color: RGB) -> None:
    """Write on the picture itself, from `left` on the `line` that the letters stand on; what lies outside is cut."""
    unit = round(scale * ONE)
    x, y = left << SHIFT, (line << SHIFT) - BASE * unit
    for each in text:
        edges, *strokes = _points(_sign(each))
        start = np.array([x - edges[0, 0] * unit, y])
        for stroke in strokes:
            for first, last in pairwise(stroke * unit + start):
                _draw_line(pixels, first, last, color)
        x += int(edges[0, 1] - edges[0, 0]) * unit


def _draw_line(pixels: Pixels, first: NDArray[np.int64], last: NDArray[np.int64], color: RGB) -> None:
    """A line a pixel wide between two points (x, y) in fractions of a pixel: one for each step along its longer side.

    OpenCV 5 takes other pixels for lines that begin inside a pixel, so this walks as OpenCV 4 did.
    """
    along = 0 if abs(last[0] - first[0]) > abs(last[1] - first[1]) else 1
    first, last = (first, last) if last[along] >= first[along] else (last, first)
    way = last - first
    slope = abs(int(way[1 - along]) << SHIFT) // (int(way[along]) | 1) * (-1 if way[1 - along] < 0 else 1)
    step = np.array([ONE, slope] if along == 0 else [slope, ONE])
    count = (int(last[along] - first[along]) + ONE) >> SHIFT
    places = np.vstack([first + np.arange(count)[:, None] * step, last]) + ONE // 2 >> SHIFT
    xs, ys = places[((places >= 0) & (places < pixels.shape[1::-1])).all(1)].T
    pixels[ys, xs] = color


def _points(sign: str) -> list[NDArray[np.int64]]:
    """The edges of a sign as one point, then each of its strokes as (n, 2)."""
    lines = [sign[:2], *sign[2:].split(" ")]
    return [np.array([ord(letter) - ord("R") for letter in line]).reshape(-1, 2) for line in lines]


def _sign(letter: str) -> str:
    if letter not in SIGNS:
        raise ValueError(f"OpenCV 4's letters are kept for A to Z and 0 to 9, found {letter!r}; set letters: opencv5")
    return SIGNS[letter]
