"""Pocket's network in numpy, which `bench/pocket` trains in torch; its vocabulary, and the square
into which a picture is fitted.

It answers one question at a time. Shapes: a view is INPUT_SIDE x INPUT_SIDE x 3 RGB uint8; its
encoding has one row for each place of a grid (PLACES_PER_SIDE ** 2, width), and that of a text one
row for each word (length, width).
"""

from __future__ import annotations

import hashlib
import io
import re
import threading
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from copy import copy
from functools import lru_cache
from importlib.resources import files

import cv2
import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray
from threadpoolctl import ThreadpoolController

from looktwice.pipelines.picture import Pixels
from looktwice.pipelines.runtime.stores import MemoryCache

SPECIAL_TOKENS = ("<pad>", "<unknown>", "<line>", "<answer>", "<end>")
PAD, UNKNOWN, LINE, ANSWER, END = range(len(SPECIAL_TOKENS))
LETTERS = tuple("ABCDEFGHIJKLMNOPQRSTUVWXYZ")
NUMBERS = tuple(str(number) for number in range(101))
VOCABULARY_TEXT = """
    a about above across all along among an and answer any are as at be below between big bigger
    black blue bottom bright but by can cell cells center choice choices choose circle circled
    circles closely color colored colors column columns complete correct count crescent crescents
    cross crosses dark describe diamond diamonds did different digit digits divide do does drawn
    each equal equally every false figure final find first five following for form four from give
    given gray green grid has have heart hearts height high higher highest how image image's images
    in inside into is it its kind large larger last left letter letters lie lies line list locate
    location look looks lower lowest many mark marked marker marks middle most name named neither no
    none not number numbers object objects of on one ones only option options or orange other out
    outlined over part parts percent pick picture place point pointed position present purple
    question read reads red reply right ring ringed row rows same say says second see seen select
    shape shapes show shown shows six size sizes small smaller so sort square squares star stars
    state step symbol symbols take tall tell than that the their them there these they thing things
    think third this three tile tiles to top triangle triangles true two type under up upper us
    vertical view views visible was what where whether which white whole wide width with within word
    words write written x y yellow yes you your zero
"""
VOCABULARY_WORDS = tuple(re.findall(r"\S+", VOCABULARY_TEXT))
VOCABULARY = (*SPECIAL_TOKENS, ",", *LETTERS, *NUMBERS, *sorted(set(VOCABULARY_WORDS)))
TOKEN_IDS = {word: token for token, word in enumerate(VOCABULARY)}
MAX_TEXT_TOKENS = 72  # tokens of a text that are read; the last ones of a longer text
PIECE_PATTERN = re.compile(r"\n+|[A-Za-z]+(?:'s)?|\d+")


def tokenize_text(text: str) -> list[int]:
    """Return the token ids of the last words of a text. Punctuation is skipped, and a run of
    unknown words is one token.

    A single capital letter is a letter token, so that choice A is not read as the article.
    """
    ids: list[int] = []
    for piece in PIECE_PATTERN.findall(text.strip()):
        token = TOKEN_IDS.get(piece, TOKEN_IDS.get(piece.lower(), UNKNOWN))
        token = LINE if piece[0] == "\n" else token
        if ids[-1:] != [token] or token not in (LINE, UNKNOWN):
            ids.append(token)
    return ids[-MAX_TEXT_TOKENS:]


def tokenize_reply(text: str) -> list[int]:
    """Return the token ids of a reply with its end token; empty if a word is not in the
    vocabulary."""
    ids: list[int] = []
    for part in text.replace(",", " , ").split():
        for piece in PIECE_PATTERN.findall(part) or [part]:
            if piece not in TOKEN_IDS:
                return []
            ids.append(TOKEN_IDS[piece])
    return [*ids, END] if ids else []


def detokenize(ids: Iterable[int]) -> str:
    """Return the text of these token ids, without special tokens."""
    words = [VOCABULARY[token] for token in ids if token >= len(SPECIAL_TOKENS)]
    return " ".join(words).replace(" ,", ",")


INPUT_SIDE = 128  # pixels of the network's square input
PLACE_SIDE = 8  # input pixels per side of one place of the encoder
PLACES_PER_SIDE = INPUT_SIDE // PLACE_SIDE
PADDING_LEVEL = 128


def fit_pixels(pixels: Pixels) -> tuple[Pixels, float, tuple[int, int]]:
    """Fit RGB uint8 pixels into the input, INPUT_SIDE x INPUT_SIDE x 3; return it with the scale,
    and the left and top edge of the picture in it."""
    height, width = pixels.shape[:2]
    scale = INPUT_SIDE / max(height, width)
    size = max(1, round(width * scale)), max(1, round(height * scale))
    shrinks = scale < 1
    sized = cv2.resize(pixels, size, interpolation=cv2.INTER_AREA if shrinks else cv2.INTER_LINEAR)
    if size == (INPUT_SIDE, INPUT_SIDE):
        return np.asarray(sized, np.uint8), scale, (0, 0)
    left, top = (INPUT_SIDE - size[0]) // 2, (INPUT_SIDE - size[1]) // 2
    whole = np.full((INPUT_SIDE, INPUT_SIDE, 3), PADDING_LEVEL, np.uint8)
    whole[top : top + size[1], left : left + size[0]] = sized
    return whole, scale, (left, top)


Floats = NDArray[np.float32]
HEAD_COUNT = 4
MAX_LINES = 8  # lines of a text that are distinguished, counted from its end
CLASS_COUNTS = (10, 9, 17, 4, 13, 2)
"""Number of classes of each attribute of a place: shape, colour, symbol, mark, size, and whether it
is the centre of an object. The first class of each means none."""
MAX_REPLY_TOKENS = 8  # tokens of the longest reply, including its end
MAX_VIEWS = 4  # views that are distinguished
CACHE_BYTES = 25 << 20  # bytes of encoded views that are cached, about 256 views
WEIGHTS_FILE = "pocket.npz"


class OneThread:
    """A context in which numpy's matrix products run on one thread, because they are too small for
    several.

    Several threads use five times the processor time, because they wait for each other, and two
    concurrent questions would compete for them.
    """

    def __init__(self) -> None:
        self._inside, self._lock, self._limit = 0, threading.Lock(), ExitStack()
        self._pools = ThreadpoolController()

    def __enter__(self) -> None:
        with self._lock:
            self._inside += 1
            if self._inside == 1:
                self._limit.enter_context(self._pools.limit(limits=1, user_api="blas"))

    def __exit__(self, *raised: object) -> None:
        with self._lock:
            self._inside -= 1
            if self._inside == 0:
                self._limit.close()


ONE_THREAD = OneThread()
"""The instance of this process."""


class Weights:
    """The bundled weights by name, and the sha256 of their file."""

    def __init__(self, data: bytes) -> None:
        self.sha = hashlib.sha256(data).hexdigest()
        with np.load(io.BytesIO(data), allow_pickle=False) as arrays:
            self._arrays: Mapping[str, Floats] = {
                name: array.astype(np.float32) for name, array in arrays.items()
            }
        numbers = (name.split(".")[1] for name in self._arrays if name.startswith("layers."))
        self.layers = 1 + max(map(int, numbers))
        self.encoded_views = MemoryCache(CACHE_BYTES)

    @property
    def parameter_count(self) -> int:
        """The number of parameters."""
        return sum(array.size for array in self._arrays.values())

    def __getitem__(self, name: str) -> Floats:
        return self._arrays[name]

    def __contains__(self, name: str) -> bool:
        return name in self._arrays

    def apply_linear(self, name: str, x: Floats) -> Floats:
        """Apply the linear layer of this name."""
        return x @ self[f"{name}.weight"] + self[f"{name}.bias"]

    def apply_norm(self, name: str, x: Floats) -> Floats:
        """Apply the layer norm of this name."""
        centred = x - x.mean(-1, keepdims=True, dtype=np.float32)
        spread = np.sqrt(
            (centred * centred).mean(-1, keepdims=True, dtype=np.float32) + np.float32(1e-5)
        )
        return np.asarray(
            centred / spread * self[f"{name}.weight"] + self[f"{name}.bias"], np.float32
        )

    def encode_view(self, sha: str, pixels: Pixels) -> Floats:
        """Return the encoder's output at each position of a view, cached by its picture's
        sha256."""

        def encode() -> tuple[Floats, int]:
            places = compute_encoder_states(self, pixels)[-1]
            return places, places.nbytes

        return self.encoded_views.get_or_compute(sha, encode)


@lru_cache(maxsize=1)
def load_bundled_weights() -> Weights:
    """Return the weights bundled with looktwice, read once."""
    return Weights(files(__package__).joinpath(WEIGHTS_FILE).read_bytes())


def compute_encoder_states(weights: Weights, pixels: Pixels) -> list[Floats]:
    """Return the output of each encoder layer for a view, (places, channels), followed by the
    vectors that the decoder attends to."""
    x = np.asarray(pixels.transpose(2, 0, 1), np.float32) / np.float32(127.5) - np.float32(1)
    states = []
    for layer in range(6):
        name = f"encoder.{layer}"
        if layer in (2, 4, 5):
            inner = _relu(_convolve(weights, f"{name}.one", x))
            x = _relu(x + _convolve(weights, f"{name}.two", inner))
        else:
            x = _relu(_convolve(weights, name, x, 2))
        states.append(np.ascontiguousarray(x.reshape(x.shape[0], -1).T))
    classes = np.split(weights.apply_linear("look", states[-1]), np.cumsum(CLASS_COUNTS)[:-1], -1)
    shares = np.concatenate([_softmax(part) for part in classes], -1)
    seen = weights.apply_norm("before_seen", states[-1]) + shares @ weights["meanings"]
    return [*states, np.asarray(seen, np.float32)]


def _convolve(weights: Weights, name: str, x: Floats, stride: int = 1) -> Floats:
    """Apply a 3 x 3 convolution with zero padding; the weights are (9 * input channels, output
    channels), with the normalisation folded in."""
    padded = np.pad(x, ((0, 0), (1, 1), (1, 1)))
    windows = sliding_window_view(padded, (3, 3), axis=(1, 2))[:, ::stride, ::stride]
    inside, height, width = windows.shape[:3]
    columns = windows.transpose(0, 3, 4, 1, 2).reshape(inside * 9, height * width)
    out = weights[f"{name}.weight"].T @ columns + weights[f"{name}.bias"][:, None]
    return out.reshape(-1, height, width)


def _relu(x: Floats) -> Floats:
    return np.maximum(x, np.float32(0))


class Conversation:
    """The tokens of a text, its views, and the reply generated so far.

    `tokens` are those of the text; `views` holds the encoder's output for each view, in order.
    `write` appends a token and returns the natural log-probability of each word that may follow it.
    """

    def __init__(self, weights: Weights, tokens: Sequence[int], views: Sequence[Floats]) -> None:
        self._weights, self._written = weights, 0
        self._places = self._project(views)
        self._words: list[tuple[Floats, Floats]] = []
        ends = np.cumsum(np.array(tokens)[::-1] == LINE)[::-1]
        x = (
            weights["embed"][list(tokens)]
            + weights["order"][MAX_TEXT_TOKENS - len(tokens) : MAX_TEXT_TOKENS]
        )
        x = x + weights["line"][np.minimum(ends + 1, MAX_LINES - 1)]
        for layer in range(weights.layers):
            x = self._apply_layer(layer, x, is_initial=True)

    def fork(self) -> Conversation:
        """Return a copy that can be continued independently."""
        twin = copy(self)
        twin._words = list(self._words)
        return twin

    def write(self, token: int) -> Floats:
        """Append a token and return the natural log-probability of each word that may follow it."""
        weights = self._weights
        logits = (
            weights.apply_norm("before_end", self.compute_states(token)[-1])[0] @ weights["embed"].T
        )
        logits = logits - logits.max()
        return np.asarray(logits - np.log(np.exp(logits).sum(dtype=np.float32)), np.float32)

    def compute_states(self, token: int) -> list[Floats]:
        """Append a token and return the output of each layer for it, (1, width)."""
        weights, order = self._weights, MAX_TEXT_TOKENS + self._written
        x = weights["embed"][[token]] + weights["order"][order] + weights["line"][0]
        self._written += 1
        states = []
        for layer in range(weights.layers):
            x = self._apply_layer(layer, x, is_initial=False)
            states.append(x)
        return states

    def _project(self, views: Sequence[Floats]) -> list[tuple[Floats, Floats] | None]:
        """Return the keys and values of all places for each layer; None for a layer without
        cross-attention."""
        weights, parts = self._weights, list[Floats]()
        for number, places in enumerate(views):
            parts.append(places + weights["where"] + weights["view"][number])
        x = weights.apply_norm("before_views", np.concatenate([*parts, weights["sinks"]]))
        projected: list[tuple[Floats, Floats] | None] = []
        for layer in range(weights.layers):
            name = f"layers.{layer}.looking.places"
            if f"{name}.weight" not in weights:
                projected.append(None)
                continue
            key, value = np.split(weights.apply_linear(name, x), 2, -1)
            projected.append((np.ascontiguousarray(key), np.ascontiguousarray(value)))
        return projected

    def _apply_layer(self, layer: int, x: Floats, is_initial: bool) -> Floats:
        weights, name = self._weights, f"layers.{layer}"
        query, key, value = np.split(
            weights.apply_linear(f"{name}.words", weights.apply_norm(f"{name}.before_words", x)),
            3,
            -1,
        )
        if is_initial:
            self._words.append((key, value))
        else:
            keys, values = self._words[layer]
            key, value = np.concatenate([keys, key]), np.concatenate([values, value])
            self._words[layer] = key, value
        x = x + weights.apply_linear(f"{name}.words_out", attend(query, key, value))
        if places := self._places[layer]:
            query = weights.apply_linear(
                f"{name}.looking.ask", weights.apply_norm(f"{name}.looking.before", x)
            )
            x = x + weights.apply_linear(f"{name}.looking.out", attend(query, *places))
        mixed = _relu(
            weights.apply_linear(f"{name}.mix", weights.apply_norm(f"{name}.before_mix", x))
        )
        return x + weights.apply_linear(f"{name}.mix_out", mixed)


def attend(queries: Floats, key: Floats, value: Floats) -> Floats:
    """Compute multi-head attention of queries (n, width) to keys and values (places, width);
    returns (n, width)."""
    query, key, value = (
        vectors.reshape(len(vectors), HEAD_COUNT, -1).transpose(1, 0, 2)
        for vectors in (queries, key, value)
    )
    scores = query @ key.transpose(0, 2, 1) / np.float32(np.sqrt(query.shape[-1]))
    seen = _softmax(scores) @ value
    return np.asarray(seen.transpose(1, 0, 2).reshape(queries.shape), np.float32)


def _softmax(x: Floats) -> Floats:
    shares = np.exp(x - x.max(-1, keepdims=True))
    return np.asarray(shares / shares.sum(-1, keepdims=True, dtype=np.float32), np.float32)
