"""Pocket's network in torch, for training: a small convolutional encoder, and a transformer for the
text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from bench.pocket.scenes import SIZES
from looktwice.eval.tasks.marked_scenes.scene import COLORS, SHAPES, SYMBOLS
from looktwice.pipelines.models.pocket.network import (
    CLASS_COUNTS,
    HEAD_COUNT,
    LINE,
    MAX_LINES,
    MAX_REPLY_TOKENS,
    MAX_TEXT_TOKENS,
    MAX_VIEWS,
    PLACES_PER_SIDE,
    TOKEN_IDS,
    VOCABULARY,
)

WIDTH, SINKS = 96, 4
LOOKS = (False, True, True, False, False)  # True for layers that attend to the views
CHECKED = 4  # number of layers after which a loss compares each choice with the picture
POINTING_SHARE = 0.2  # weight of the loss of the words' attention; that of replies is 1
SPREAD = 0.1  # standard deviation of the initial embeddings


def _conv(inside: int, outside: int, stride: int = 1) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(inside, outside, 3, stride, 1, bias=False), nn.BatchNorm2d(outside)
    )


class Residual(nn.Module):  # type: ignore[misc]  # torch is not followed
    """Two convolutions with a residual connection."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.one, self.two = _conv(width, width), _conv(width, width)

    def forward(self, x: Tensor) -> Tensor:
        return functional.relu(x + self.two(functional.relu(self.one(x))))


class Encoder(nn.Module):  # type: ignore[misc]  # torch is not followed
    """Encodes pixels (n, 3, SIDE, SIDE) in -1..1 as CELLS x CELLS places (n, CELLS * CELLS,
    WIDTH)."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            _conv(3, 24, 2),
            nn.ReLU(),
            _conv(24, 48, 2),
            nn.ReLU(),
            Residual(48),
            _conv(48, WIDTH, 2),
            nn.ReLU(),
            Residual(WIDTH),
            Residual(WIDTH),
        )

    def forward(self, pixels: Tensor) -> Tensor:
        return self.layers(pixels).flatten(2).transpose(1, 2)


class CrossAttention(nn.Module):  # type: ignore[misc]  # torch is not followed
    """Cross-attention of the text tokens to the places of the views."""

    def __init__(self) -> None:
        super().__init__()
        self.before = nn.LayerNorm(WIDTH)
        self.ask, self.places, self.out = (
            nn.Linear(WIDTH, WIDTH),
            nn.Linear(WIDTH, 2 * WIDTH),
            nn.Linear(WIDTH, WIDTH),
        )

    def forward(
        self, x: Tensor, places: Tensor, hidden: Tensor | None, questions: int
    ) -> tuple[Tensor, Tensor]:
        """Return the tokens with the attended values added, and the attention (scenes, HEADS,
        questions * long, places)."""
        n, long, _ = x.shape
        asked = self.ask(self.before(x)).view(n // questions, questions * long, WIDTH)
        key, value = _split(self.places(places), 2)
        shares = _attention(_split(asked, 1)[0], key, hidden)
        return x + self.out(_join(shares @ value).view(n, long, WIDTH)), shares


class Layer(nn.Module):  # type: ignore[misc]  # torch is not followed
    """A layer of self-attention, cross-attention to the places of the views if the layer has it,
    and a feed-forward network."""

    def __init__(self, looks: bool) -> None:
        super().__init__()
        self.before_words, self.before_mix = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.words, self.words_out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.looking = CrossAttention() if looks else None
        self.mix, self.mix_out = nn.Linear(WIDTH, 2 * WIDTH), nn.Linear(2 * WIDTH, WIDTH)

    def forward(
        self,
        x: Tensor,
        places: Tensor,
        mask: Tensor,
        hidden: Tensor | None,
        questions: int,
        looks: list[Tensor],
    ) -> Tensor:
        """Return the tokens after this layer; append their attention to `looks`."""
        query, key, value = _split(self.words(self.before_words(x)), 3)
        x = x + self.words_out(_join(_attention(query, key, mask) @ value))
        if self.looking is not None:
            x, shares = self.looking(x, places, hidden, questions)
            looks.append(shares)
        return x + self.mix_out(functional.relu(self.mix(self.before_mix(x))))


def _attention(query: Tensor, key: Tensor, mask: Tensor | None) -> Tensor:
    """Return attention weights, with an additive mask; on a CPU this is faster than torch's own for
    heads this narrow."""
    scores = (query * (WIDTH // HEAD_COUNT) ** -0.5) @ key.transpose(-1, -2)
    return (scores if mask is None else scores + mask).softmax(-1)


def _split(x: Tensor, parts: int) -> Any:
    """Split (n, long, parts * WIDTH) into `parts` of (n, HEADS, long, WIDTH / HEADS)."""
    n, long, _ = x.shape
    return x.view(n, long, parts, HEAD_COUNT, WIDTH // HEAD_COUNT).permute(2, 0, 3, 1, 4)


def _join(x: Tensor) -> Tensor:
    n, _, long, _ = x.shape
    return x.transpose(1, 2).reshape(n, long, WIDTH)


@dataclass(frozen=True)
class Words:
    """Tokens (n, questions, long) of texts with their replies; the first `read` tokens are text.

    `targets`, of the same shape, are the next tokens, -1 where there is no loss. `right`, also of
    that shape, is 1 at the words of the correct choice, 0 at those of other choices and -1
    elsewhere. Each row of `at` (m, 3) is (scene, token of all its questions, head), and the same
    row of `shares` (m, places) is where it should look.
    """

    tokens: Tensor
    read: int
    targets: Tensor
    right: Tensor
    at: Tensor
    shares: Tensor


@dataclass(frozen=True)
class Batch:
    """Views (n, v, SIDE, SIDE, 3) uint8, the mask of existing ones (`shown` (n, v)), `grids` (n, v,
    CELLS, CELLS, parts), and words."""

    views: Tensor
    shown: Tensor
    grids: Tensor
    words: tuple[Words, ...]

    def to(self, device: str) -> Batch:
        """Move the batch to a device."""
        words = (
            Words(
                w.tokens.to(device),
                w.read,
                *(part.to(device) for part in (w.targets, w.right, w.at, w.shares)),
            )
            for w in self.words
        )
        return Batch(
            self.views.to(device), self.shown.to(device), self.grids.to(device), tuple(words)
        )


class Network(nn.Module):  # type: ignore[misc]  # torch is not followed
    """Predicts the next tokens of texts and replies, given views."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = Encoder()
        steps = (torch.arange(PLACES_PER_SIDE) + 0.5) / PLACES_PER_SIDE
        self.rows, self.columns = nn.Parameter(_waves(steps)), nn.Parameter(_waves(steps))
        self.view, self.sinks = _drawn(MAX_VIEWS), _drawn(SINKS)
        self.before_seen, self.before_views = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        nn.init.constant_(self.before_seen.weight, SPREAD)
        self.embed = nn.Embedding(len(VOCABULARY), WIDTH)
        nn.init.normal_(self.embed.weight, std=SPREAD)
        numbers = [TOKEN_IDS[str(number)] for number in range(101)]
        with torch.no_grad():
            self.embed.weight[numbers] = 0.5 * self.embed.weight[numbers] + _waves(
                torch.arange(101) / 100
            )
        self.order, self.line = _drawn(MAX_TEXT_TOKENS + MAX_REPLY_TOKENS), _drawn(MAX_LINES)
        self.layers = nn.ModuleList(Layer(looks) for looks in LOOKS)
        self.before_end = nn.LayerNorm(WIDTH)
        self.look = nn.Linear(WIDTH, sum(CLASS_COUNTS))
        self.right = nn.Linear(WIDTH, 1)
        self.register_buffer("class_words", torch.tensor(_class_words()), persistent=False)
        self.other_classes = _drawn(sum(CLASS_COUNTS))

    def meanings(self) -> Tensor:
        """Return the vectors that classes add to a place (classes, WIDTH): the embedding of the
        class's word, if there is one."""
        known = (self.class_words >= 0)[:, None]
        return torch.where(known, self.embed(self.class_words.clamp(min=0)), self.other_classes)

    def places(
        self, views: Tensor, shown: Tensor, learn_to_look: bool = True
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return the places of all views (n, places, WIDTH), the mask of existing ones, and the
        classes (.., sum(CLASSES))."""
        n, count = shown.shape
        with torch.set_grad_enabled(learn_to_look and torch.is_grad_enabled()):
            pixels = views.flatten(0, 1).permute(0, 3, 1, 2).float() / 127.5 - 1
            seen = self.encoder(pixels.contiguous(memory_format=torch.channels_last))
            classes = self.look(seen)
        shares = torch.cat([part.softmax(-1) for part in classes.split(CLASS_COUNTS, -1)], -1)
        where = (self.rows[:, None] + self.columns[None]).view(
            1, PLACES_PER_SIDE * PLACES_PER_SIDE, WIDTH
        )
        named = (self.before_seen(seen) + shares @ self.meanings()).view(
            n, count, PLACES_PER_SIDE * PLACES_PER_SIDE, WIDTH
        )
        x = named + where + self.view[:count, None]
        x = torch.cat([x.flatten(1, 2), self.sinks.expand(n, -1, -1)], 1)
        there = torch.cat(
            [
                shown.repeat_interleave(PLACES_PER_SIDE * PLACES_PER_SIDE, 1),
                shown.new_ones(n, SINKS),
            ],
            1,
        )
        return self.before_views(x), there, classes

    def forward(self, batch: Batch, learn_to_look: bool = True) -> tuple[Tensor, Tensor]:
        """Return the loss of replies and the loss of classes at places; only the latter for a batch
        without words."""
        places, there, seen = self.places(batch.views, batch.shown, learn_to_look)
        if not batch.words:
            return seen.new_zeros(()), self._look_loss(seen, batch)
        losses = [self._reply_loss(words, places, there) for words in batch.words]
        return torch.stack(losses).mean(), self._look_loss(seen, batch)

    def _reply_loss(self, words: Words, places: Tensor, there: Tensor) -> Tensor:
        logits, checked, looks = self.logits(words.tokens, words.read, places, there)
        wanted = words.targets.flatten(0, 1)[:, words.read :]
        loss = functional.cross_entropy(logits.flatten(0, 1), wanted.flatten(), ignore_index=-1)
        if len(words.at):
            scene, token, head = words.at.unbind(1)
            aside = [
                -(words.shares * (look[scene, head, token] + 1e-6).log()).sum(1).mean()
                for look in looks
            ]
            loss = loss + POINTING_SHARE * torch.stack(aside).mean()
        known = words.right.flatten(0, 1) >= 0
        if not bool(known.any()):
            return loss
        right = words.right.flatten(0, 1)[known].float()
        return loss + functional.binary_cross_entropy_with_logits(
            self.right(checked)[..., 0][known], right
        )

    def logits(
        self, tokens: Tensor, read: int, places: Tensor, there: Tensor
    ) -> tuple[Tensor, Tensor, list[Tensor]]:
        """Return logits for tokens from number `read` on (n * questions, long - read, words), the
        states after layer CHECKED, and the attention weights of all layers."""
        _, questions, long = tokens.shape
        tokens = tokens.flatten(0, 1)
        order = torch.cat(
            [
                torch.arange(MAX_TEXT_TOKENS - read, MAX_TEXT_TOKENS),
                MAX_TEXT_TOKENS + torch.arange(long - read),
            ]
        )
        ends = (tokens[:, :read] == LINE).flip(1).cumsum(1).flip(1)
        lines = functional.pad(ends + 1, (0, long - read)).clamp(max=MAX_LINES - 1)
        x = self.embed(tokens) + self.order[order.to(tokens.device)] + self.line[lines]
        visible = (tokens != 0)[:, None, None].expand(-1, -1, long, -1)
        later = torch.ones(long, long, dtype=torch.bool, device=tokens.device).tril()
        later[:, :read] = True
        mask = torch.where(visible & later, 0.0, -1e9)
        hidden = None if bool(there.all()) else torch.where(there, 0.0, -1e9)[:, None, None]
        checked, looks = x, list[Tensor]()
        for number, layer in enumerate(self.layers, 1):
            x = layer(x, places, mask, hidden, questions, looks)
            checked = x if number == CHECKED else checked
        return functional.linear(self.before_end(x[:, read:]), self.embed.weight), checked, looks

    def _look_loss(self, seen: Tensor, batch: Batch) -> Tensor:
        grids = batch.grids.flatten(0, 1).flatten(1, 2).long()[batch.shown.flatten()]
        seen = seen[batch.shown.flatten()]
        there = (grids[..., 0] > 0).float()
        total = seen.new_zeros(())
        for number, part in enumerate(seen.split(CLASS_COUNTS, -1)):
            wanted = grids[..., number]
            each = functional.cross_entropy(part.flatten(0, 1), wanted.flatten(), reduction="none")
            weight = (
                0.15 + 0.85 * there if number == 0 else there * (0.3 + 0.7 * (wanted > 0).float())
            )
            total = total + (each * weight.flatten()).sum() / weight.sum().clamp(min=1.0)
        return total


def _drawn(count: int) -> nn.Parameter:
    return nn.Parameter(SPREAD * torch.randn(count, WIDTH))


def _waves(at: Tensor) -> Tensor:
    """Return (long, WIDTH) sine encodings of numbers in 0..1; near numbers are similar, so that
    image positions are quickly learnt."""
    turns = at[:, None] * torch.pi * torch.tensor([0.5, 1.0, 2.0, 4.0, 8.0, 16.0])
    return torch.cat([turns.sin(), turns.cos()], 1) @ (SPREAD * 0.4 * torch.randn(12, WIDTH))


def _class_words() -> list[int]:
    """Return the token that names each class, -1 if there is none."""
    marks = ["", "marked", "A", "B"]
    names = [
        ["", *SHAPES, "tile"],
        ["", *COLORS],
        ["", *SYMBOLS],
        marks,
        [""] * (SIZES + 1),
        ["", ""],
    ]
    return [TOKEN_IDS[name] if name else -1 for part in names for name in part]
