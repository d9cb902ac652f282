"""Reads the boxes and points that a reply names, in the forms that model families write."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from looktwice.pipelines.json_input import read_json
from looktwice.prompting.coordinates import Frame

__all__ = ["LAST_IMAGE", "Claim", "read_claims"]

LAST_IMAGE = -1
EVIDENCE_LINE_PATTERN = re.compile(r"^[^\w\n]*LOOK\b.*", re.M)
ORDINALS = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth")
CARDINALS = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
CHINESE_DIGITS = "一二三四五六七八九"
IMAGE_NOUN_REGEX = r"(?:image|img|picture|photo|photograph|pic|frame|view|figure|fig)"

NUMBER_REGEX = r"-?(?:\d{1,6}(?:\.\d{0,20})?|\.\d{1,20})(?:\s?(?:%|px))?"
COMMA_REGEX = r"\s{0,20},\s{0,20}"
XY_REGEX = rf"{NUMBER_REGEX}{COMMA_REGEX}{NUMBER_REGEX}"
PAIR_REGEX = rf"[\[(]\s{{0,20}}{XY_REGEX}(?:;\s?{XY_REGEX}){{0,200}}\s{{0,20}}[\])]"
FOUR_NUMBERS_REGEX = rf"{NUMBER_REGEX}(?:{COMMA_REGEX}{NUMBER_REGEX}){{3}}"
NUMBER_QUADRUPLES_REGEX = rf"{FOUR_NUMBERS_REGEX}(?:;\s?{FOUR_NUMBERS_REGEX}){{0,200}}"
OPENING_TAG_REGEX = r"<\|?(?:box_start|begin_of_box|box|bbox|det|point_start|point)\|?>"
CLOSING_TAG_REGEX = r"<\|?/?(?:box_end|end_of_box|box|bbox|det|point_end|point)\|?>"
SIDE_REGEX = (
    r"(?:x_?min|y_?min|x_?max|y_?max|x_?[012]|y_?[012]|left|top|right|bottom|width|height|x|y|w|h)"
)
NAMED_SIDE_REGEX = rf"[\"'`]?\b{SIDE_REGEX}[\"'`]?\s{{0,5}}[=:]\s{{0,5}}{NUMBER_REGEX}"
TOKEN_PATTERN = re.compile(
    "|".join(
        [
            r"(?P<percents>\{(?:<\d{1,3}>){4}\})",
            r"(?P<object>\{(?:[^{}]|\{[^{}]{0,2000}\}){0,2000}\})",
            rf"(?P<tagged>{OPENING_TAG_REGEX}(?:[^<{{]|<\d{{1,4}}>){{1,2000}}{CLOSING_TAG_REGEX})",
            r"(?P<points><points?\s[^<>]{1,20000}>)",
            r"(?P<loc>(?:<loc_?\d{1,4}>){2,400})",
            r"(?P<patches><patch_index_\d{4}>\s?<patch_index_\d{4}>)",
            rf"(?P<box>[\[(]\s{{0,20}}{NUMBER_QUADRUPLES_REGEX}\s{{0,20}}[\])]|\[{NUMBER_REGEX}(?:\s{{1,3}}{NUMBER_REGEX}){{3}}\])",
            rf"(?P<pairs>{PAIR_REGEX}(?:(?:{COMMA_REGEX}|\s?(?:-|–|to)?\s?){PAIR_REGEX}){{0,200}})",
            rf"(?P<sides>{NAMED_SIDE_REGEX}(?:[,;]?\s{{0,20}}{NAMED_SIDE_REGEX}){{1,3}})",
            rf"(?P<nth>\b(?:{'|'.join(ORDINALS)}|last|[1-9]\d?(?:st|nd|rd|th))\s(?:{IMAGE_NOUN_REGEX})\b)",
            rf"(?P<numbered>\b{IMAGE_NOUN_REGEX}[\"']?[\s_:(\[-]{{0,3}}(?:#|no\.?\s|number\s)?[\"']?"
            rf"(?:\d{{1,3}}|{'|'.join(CARDINALS)})\b(?!\s{{0,5}},?\s{{0,5}}\.?\d))",
            rf"(?P<chinese>图(?:片|像)?\s?[\d{CHINESE_DIGITS}]{{1,2}}|第\s?[\d{CHINESE_DIGITS}]{{1,2}}\s?[张幅个]图)",
            r"(?P<line>\n)",
        ]
    ),
    re.I,
)
BARE_NUMBERS_PATTERN = re.compile(
    rf"\s{{0,20}}{NUMBER_REGEX}(?:(?:[,;]\s?|\s){NUMBER_REGEX}){{1}}(?:(?:(?:[,;]\s?|\s){NUMBER_REGEX}){{2}})?\.?\s{{0,20}}"
)
BOX_KEYS = ("bbox_2d", "bbox", "box", "bounding_box", "boundingbox", "boxes", "bboxes", "region")
POINT_KEYS = ("point_2d", "point", "points", "center", "centre")
IMAGE_KEYS = ("image", "image_id", "image_number", "image_index", "img", "picture", "photo", "view")
EDGE_NAMES = (
    (("x1", "y1", "x2", "y2"), False),
    (("x0", "y0", "x1", "y1"), False),
    (("xmin", "ymin", "xmax", "ymax"), False),
    (("left", "top", "right", "bottom"), False),
    (("left", "top", "width", "height"), True),
    (("x", "y", "width", "height"), True),
    (("x", "y", "w", "h"), True),
)
"""Names of the edges of a box, and whether the last two are its width and height."""
LABEL_KEYS = ("label", "name", "class", "category", "object", "description", "text_content", "text")
SCORE_KEYS = ("score", "scores", "confidence", "conf", "probability")
GENERIC_KEY_PATTERN = re.compile(
    r".*(?:box|point|region|coord|loc|image|cent[er]{2}|position).*|"
    r"(?:objects?|detections?|results?|items?|answers?|targets?|instances?|predictions?)"
)
"""JSON keys that are too generic to label an object."""
LOC_BIN_COUNT, PERCENT_DIVISOR, PATCHES_PER_SIDE = 1024, 100, 32


class Claim(NamedTuple):
    """A place, which is a point or a box, that a reply names: the number of its image from 1
    (`LAST_IMAGE` for the last), its coordinates (x, y) or (left, top, right, bottom), and their
    frame if the notation determines it.

    `label` and `score` are those of its JSON object. `notation` is the JSON key of the numbers, or
    else the kind of token; `span` is where the token begins and ends in the reply.
    """

    image: int
    numbers: tuple[float, ...]
    frame: Frame | None = None
    label: str = ""
    score: float | None = None
    notation: str = ""
    span: tuple[int, int] = (0, 0)


class _Place(NamedTuple):
    numbers: tuple[float, ...]
    frame: Frame | None = None
    image: int | None = None
    label: str = ""
    score: float | None = None
    notation: str = ""


class _Token(NamedTuple):
    """Places, or the name of an image, with their position in the line and in the reply."""

    places: tuple[_Place, ...]
    image: int | None
    start: int
    end: int
    span: tuple[int, int] = (0, 0)


def read_claims(reply: str, points: bool, distinct: bool = True) -> Iterator[Claim]:
    """Yield each box of a reply or, with `points`, each point, in order; without repetitions if
    `distinct`.

    If any lines begin with LOOK, only these are read. With `points` a box counts as the point at
    its centre; without `points`, a point that has a tag or a name is yielded unchanged. An image is
    named in the same object or line, or by a line above: a heading such as "Image 2:", or the line
    just before.
    """
    if BARE_NUMBERS_PATTERN.fullmatch(reply):  # only the numbers of one place
        reply = f"[{', '.join(re.findall(NUMBER_REGEX, reply))}]"
    evidence = bool(EVIDENCE_LINE_PATTERN.search(reply))
    heading, introduced = 1, None
    seen = set[tuple[Any, ...]]()
    for line, tokens in _split_lines(reply, points):
        named = [token.image for token in tokens if token.image is not None]
        if any(token.places for token in tokens):
            default = heading if introduced is None else introduced
            if evidence and not EVIDENCE_LINE_PATTERN.match(line):
                continue
            for claim in _place_on_images(line, tokens, default):
                key = claim[:4] if distinct else (*claim[:4], claim.span)
                if key not in seen:
                    seen.add(key)
                    yield claim
        elif named and _is_heading(line, tokens):
            heading, introduced = named[-1], None
        elif line.strip():
            introduced = named[0] if len(set(named)) == 1 and not evidence else None


def _split_lines(reply: str, points: bool) -> Iterator[tuple[str, list[_Token]]]:
    """Yield each line with its tokens; a place that spans several lines joins them into one."""
    start, tokens = 0, list[_Token]()
    for match in TOKEN_PATTERN.finditer(reply):
        kind = str(match.lastgroup)
        if kind == "line":
            yield reply[start : match.start()], tokens
            start, tokens = match.end(), []
        elif kind in ("nth", "numbered", "chinese"):
            place = match.start() - start
            tokens.append(_Token((), _read_image_number(match[0]), place, place + len(match[0])))
        else:
            found = _read_places(kind, match[0], points)
            places = tuple(p._replace(notation=p.notation or kind) for p in found)
            place = match.start() - start
            if places:
                tokens.append(_Token(places, None, place, place + len(match[0]), match.span()))
    yield reply[start:], tokens


def _is_heading(line: str, tokens: Sequence[_Token]) -> bool:
    """Return whether a line contains little more than the name of an image."""
    token = next(token for token in tokens if token.image is not None)
    rest = f"{line[: token.start]} {line[token.end :]}"
    return len(re.findall(r"\w+", rest)) <= 3 and not re.search(r"[.!?]\s*$", line)


def _place_on_images(line: str, tokens: Sequence[_Token], default: int) -> Iterator[Claim]:
    """Yield the places of a line with their images: the last image named before a place or, if the
    line ends with an image, as in "[...] in image 2", the next one after it."""
    behind = bool(tokens[0].places) and tokens[-1].image is not None
    behind = behind and all(
        not re.search(r"[.;!?]\s", line[before.end : after.start])
        for before, after in pairwise(tokens)
        if before.places
    )
    image = default
    for number, token in enumerate(tokens):
        if token.image is not None:
            image = token.image
        elif behind:
            image = next(t.image for t in tokens[number:] if t.image is not None)
        for numbers, frame, own, label, score, notation in token.places:
            on = image if own is None else own
            yield Claim(on, numbers, frame, label, score, notation, token.span)


def _read_image_number(text: str) -> int:
    """Return the number in the name of an image."""
    if digits := re.search(r"\d+", text):
        return int(digits[0])
    lowered = text.lower()
    if lowered.startswith("last"):
        return LAST_IMAGE
    for words in (ORDINALS, CARDINALS, CHINESE_DIGITS):
        for number, word in enumerate(words, 1):
            if word in lowered:
                return number
    return 1


def _read_places(kind: str, text: str, points: bool) -> Iterator[_Place]:
    """Yield the places that a token contains."""
    if kind == "object":
        yield from _read_object(text, points)
        return
    if kind == "points":
        yield from _read_point_attributes(text)
        return
    numbers, frame = _convert_bins(kind, text)
    if kind == "sides":
        yield from _read_named_sides(text, points)
    elif kind == "pairs":
        yield from _read_pairs(numbers, points, frame)
    elif kind in ("tagged", "loc") and (len(numbers) == 2 or "point" in text.lower()):
        pairs = zip(numbers[::2], numbers[1::2], strict=False)
        yield from (_Place(pair, frame) for pair in pairs)
    elif len(numbers) % 4 == 0:
        yield from _make_boxes(numbers, points, frame)


def _convert_bins(kind: str, text: str) -> tuple[list[float], Frame | None]:
    """Return the numbers in a token, left before top, and their frame if the token determines
    it."""
    numbers, frame = _parse_numbers(text)
    if kind == "percents":
        return [number / PERCENT_DIVISOR for number in numbers], "0-1"
    if kind == "patches":
        return _read_patches(*map(int, numbers)), "0-1"
    if kind == "tagged" and re.search(r"<\d", text):
        return numbers, "0-1000"
    if kind == "loc" and "_" in text:  # Florence counts 1000 bins, the left first
        return numbers, "0-1000"
    if kind == "loc":  # PaliGemma counts 1024 bins, the top first
        pairs = zip(numbers[1::2], numbers[::2], strict=False)
        return [number / LOC_BIN_COUNT for pair in pairs for number in pair], "0-1"
    return numbers, frame


def _read_patches(first: int, last: int) -> list[float]:
    """Return Kosmos-2's box, in shares, from the first and the last of its 32 x 32 patches: between
    their centres, or around them if they are in one row or column."""
    (top, left), (bottom, right) = divmod(first, PATCHES_PER_SIDE), divmod(last, PATCHES_PER_SIDE)
    inset = 0.0 if top == bottom or left == right else 0.5
    edges = (left + inset, top + inset, right + 1 - inset, bottom + 1 - inset)
    return [edge / PATCHES_PER_SIDE for edge in edges]


def _parse_numbers(text: str) -> tuple[list[float], Frame | None]:
    """Return the numbers in a text, with percentages as shares."""
    is_token = text.startswith(("<loc", "<patch"))
    found = re.findall(r"\d+" if is_token else rf"(?<![\w.]){NUMBER_REGEX}", text)
    numbers = [float(number.rstrip("%px \t\n")) for number in found]
    if found and all(number.endswith("%") for number in found):
        return [number / PERCENT_DIVISOR for number in numbers], "0-1"
    return numbers, None


def _read_pairs(numbers: Sequence[float], points: bool, frame: Frame | None) -> Iterator[_Place]:
    """Yield consecutive points; if boxes are requested, two points are the corners of one box."""
    pairs = list(zip(numbers[::2], numbers[1::2], strict=True))
    if points:
        yield from (_Place(pair, frame) for pair in pairs)
    elif len(pairs) == 2:
        yield _Place((*pairs[0], *pairs[1]), frame)


def _make_boxes(numbers: Sequence[float], points: bool, frame: Frame | None) -> Iterator[_Place]:
    """Yield boxes of four numbers each, or their centres."""
    for k in range(0, len(numbers), 4):
        left, top, right, bottom = numbers[k : k + 4]
        if points:
            yield _Place(((left + right) / 2, (top + bottom) / 2), frame)
        else:
            yield _Place((left, top, right, bottom), frame)


def _read_point_attributes(text: str) -> Iterator[_Place]:
    """Yield Molmo's points, in percent: <point x="1" y="2"> or <points x1="1" y1="2" x2="3"
    y2="4">; or Molmo2's, in thousandths, each after its number and a list after that of its image:
    <points coords="1 1 500 250 2 750 250;2 1 100 100">."""
    for group in re.split("[;\t]", "".join(re.findall(r"\bcoords=\"([\d\t:;, .]+)\"", text))):
        image, *numbers = re.findall(r"\d+", group) or [""]
        for x, y in zip(numbers[1::3], numbers[2::3], strict=False):
            yield _Place((float(x), float(y)), "0-1000", int(image))
    named = dict(re.findall(rf"\b([xy]\d{{0,3}})\s?=\s?[\"']?({NUMBER_REGEX})", text))
    for name, x in named.items():
        y = named.get(name.replace("x", "y"))
        if name.startswith("x") and y is not None:
            yield _Place((float(x) / PERCENT_DIVISOR, float(y) / PERCENT_DIVISOR), "0-1")


def _read_named_sides(text: str, points: bool) -> Iterator[_Place]:
    """Yield a place whose edges have names, such as "left: 10, top: 20, right: 30, bottom: 40"."""
    pairs = re.findall(rf"({SIDE_REGEX})[\"'`]?\s{{0,5}}[=:]\s{{0,5}}({NUMBER_REGEX})", text, re.I)
    yield from _read_sides({name: float(number.rstrip("%px ")) for name, number in pairs}, points)


def _read_sides(fields: Mapping[str, Any], points: bool) -> Iterator[_Place]:
    """Yield the box or point whose edges or coordinates these fields hold."""
    named = {name.lower().replace("_", ""): value for name, value in fields.items()}
    for names, sized in EDGE_NAMES:
        edges = [_parse_number(named.get(name)) for name in names]
        if None not in edges:
            left, top, right, bottom = (float(edge or 0) for edge in edges)
            if sized:
                right, bottom = left + right, top + bottom
            yield from _make_boxes([left, top, right, bottom], points, None)
            return
    x, y = _parse_number(named.get("x")), _parse_number(named.get("y"))
    if x is not None and y is not None:
        yield _Place((x, y))


def _parse_number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    return (
        float(value)
        if re.fullmatch(NUMBER_REGEX, str(value)) and str(value)[-1] not in "%x"
        else None
    )


def _read_object(text: str, points: bool) -> Iterator[_Place]:
    """Yield the places of a JSON object, or of a text in braces that only looks like one."""
    try:
        value = read_json(text)
    except ValueError:
        inner = [token for _, tokens in _split_lines(text[1:-1], points) for token in tokens]
        named = {token.image for token in inner if token.image is not None}
        image = named.pop() if len(named) == 1 else None
        for token in inner:
            yield from (place._replace(image=place.image or image) for place in token.places)
        return
    yield from _read_value(value, points, None)


def _read_value(value: Any, points: bool, image: int | None) -> Iterator[_Place]:
    """Yield the places of a JSON value, on the image that the innermost enclosing object names."""
    if isinstance(value, list):
        for inner in value:
            yield from _read_value(inner, points, image)
    if not isinstance(value, Mapping):
        return
    fields = {str(name).lower(): inner for name, inner in value.items()}
    image = _find_image(fields, image)
    named = next((fields[name] for name in LABEL_KEYS if fields.get(name)), "")
    for name, inner in fields.items():
        if "size" in name or name in SCORE_KEYS:
            continue
        on = _read_image_number(name) if _names_image(name) else image
        places = _read_field(name, inner, points, on)
        for number, place in enumerate(places):
            label = place.label or _pick_label(named, fields.get("labels"), name, number)
            score = _find_score(fields, number) if place.score is None else place.score
            yield _Place(*place[:2], place.image or on, label, score, place.notation or name)
    for place in _read_sides(fields, points):
        label, score = _pick_label(named, None, "", 0), _find_score(fields, 0)
        yield _Place(*place[:2], image, label, score, "sides")


def _read_field(name: str, value: Any, points: bool, image: int | None) -> list[_Place]:
    """Return the places of one field of an object."""
    numbers = _flatten(value)
    if name == "box_2d" and len(numbers) == 4:  # Gemini's, the top first
        top, left, bottom, right = numbers
        return [*_make_boxes([left, top, right, bottom], points, None)]
    if name in POINT_KEYS and numbers and len(numbers) % 2 == 0:
        return [_Place(pair) for pair in zip(numbers[::2], numbers[1::2], strict=True)]
    if numbers and len(numbers) % 4 == 0 and (name in BOX_KEYS or not _is_list_of_pairs(value)):
        return [*_make_boxes(numbers, points, None)]
    if numbers and len(numbers) % 2 == 0:
        return [*_read_pairs(numbers, points, None)]
    return [*_read_value(value, points, image)]


def _pick_label(named: Any, listed: Any, key: str, number: int) -> str:
    """Return the label of place `number` under a key: the place's own label in a list, the label of
    its object, or the key itself, such as "cup", unless it is a word for a place."""
    for labels in (named, listed):
        if isinstance(labels, list):
            named = labels[number] if number < len(labels) else ""
    own = "" if GENERIC_KEY_PATTERN.fullmatch(key) else key
    return named if isinstance(named, str) and named else own


def _find_score(fields: Mapping[str, Any], number: int) -> float | None:
    """Return the confidence that an object states for place `number`, as a share ("90%" and 90 are
    0.9)."""
    for name in SCORE_KEYS:
        value = fields.get(name)
        if isinstance(value, list):
            value = value[number] if number < len(value) else None
        if re.fullmatch(r"\d{1,3}(?:\.\d{1,20})?%?", text := str(value)):
            score = float(text.rstrip("%"))
            score /= PERCENT_DIVISOR if text.endswith("%") or score > 1 else 1
            return score if score <= 1 else None
    return None


def _find_image(fields: Mapping[str, Any], image: int | None) -> int | None:
    """Return the number of the image that an object names, or else that of the enclosing object."""
    index = fields.get("img_idx")  # counted from 0 by the models that know it
    if isinstance(index, int):
        return index + 1
    for name in IMAGE_KEYS:
        value = fields.get(name)
        if isinstance(value, int) and not isinstance(value, bool):
            return value
        if isinstance(value, str) and (value.strip().isdecimal() or _names_image(value)):
            return _read_image_number(value)
    return image


def _names_image(text: str) -> bool:
    match = TOKEN_PATTERN.search(text)
    return match is not None and match.lastgroup in ("nth", "numbered", "chinese")


def _is_list_of_pairs(value: Any) -> bool:
    return all(isinstance(inner, list) and len(inner) == 2 for inner in value)


def _flatten(value: Any) -> list[float]:
    """Return the numbers of nested lists; empty if they contain anything else."""
    numbers = list[float]()
    values = [value]
    while values:
        inner = values.pop(0)
        if isinstance(inner, list):
            values = [*inner, *values]
        elif (number := _parse_number(inner)) is not None:
            numbers.append(number)
        else:
            return []
    return numbers if isinstance(value, list) else []
