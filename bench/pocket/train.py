"""Trains Pocket: `python -m bench.pocket.train FOLDER`; resumes an interrupted training.

Draws the scenes into FOLDER/scenes, learns from six questions about each scene of a step, and
writes the state to FOLDER/state.pt and the curve to FOLDER/curve.csv: step, loss of replies, loss
of classes, seconds. `python -m bench.pocket.export FOLDER` writes the weights.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.random import Generator
from torch import distributed

from bench.pocket.network import SINKS, Batch, Network, Words
from bench.pocket.pointing import Pointer, Shares, list_pointers
from bench.pocket.scenes import Example, more_questions
from bench.pocket.store import SHARD, read_shard, write_shard
from bench.pocket.wording import write_prompt
from looktwice.pipelines.models.pocket.network import (
    ANSWER,
    CLASS_COUNTS,
    INPUT_SIDE,
    LETTERS,
    LINE,
    MAX_REPLY_TOKENS,
    MAX_TEXT_TOKENS,
    PAD,
    PLACES_PER_SIDE,
    TOKEN_IDS,
    tokenize_reply,
    tokenize_text,
)

CHOICE_LETTERS = tuple(TOKEN_IDS[letter] for letter in LETTERS)
QUESTIONS = 6
LOOK_SHARE = 0.15  # weight of the loss of classes at places; that of replies is 1
SLOWER = 0.3  # learning rate of the encoder when trained with the rest, relative to alone
AGAIN = 0.4  # learning rate at the start of the last part, relative to the first part
BLIND = 0.02  # share of scenes whose questions come without any view


@dataclass(frozen=True)
class Text:
    """The tokens of a question and of its reply, whether it has choices, and the attention targets
    of its tokens."""

    words: Sequence[int]
    reply: Sequence[int]
    with_choices: bool
    pointers: Sequence[Pointer]


def make_batch(
    rng: Generator, examples: Sequence[Example], asked: bool = True, counting: int = 3
) -> Batch:
    """Make the tensors of some scenes, with newly worded questions, half of them without choices;
    without questions unless `asked`.

    Of the questions without choices, `counting` of `counting` + 2 ask for a number.
    """
    count = max(len(example.inputs) for example in examples)
    views = np.full((len(examples), count, INPUT_SIDE, INPUT_SIDE, 3), 128, np.uint8)
    grids = np.zeros(
        (len(examples), count, PLACES_PER_SIDE, PLACES_PER_SIDE, len(CLASS_COUNTS)), np.uint8
    )
    shown = np.zeros((len(examples), count), bool)
    texts: dict[bool, list[Text]] = {True: [], False: []}
    for number, example in enumerate(examples):
        views[number, : len(example.inputs)], grids[number, : len(example.inputs)] = (
            example.inputs,
            example.grids,
        )
        shown[number, : len(example.inputs)] = rng.random() >= BLIND
        for with_choices in texts if asked else ():
            for question in more_questions(rng, example, QUESTIONS // 2, with_choices, counting):
                prompt, reply = write_prompt(rng, question, with_choices)
                words = tokenize_text(prompt)
                pointers = (
                    list(list_pointers(words, question, grids[number]))
                    if shown[number].any()
                    else []
                )
                texts[with_choices].append(
                    Text(
                        words,
                        tokenize_reply(reply),
                        with_choices and bool(question.choices),
                        pointers,
                    )
                )
    words_of = tuple(
        _words(each, grids[0].size // len(CLASS_COUNTS) + SINKS) for each in texts.values() if each
    )
    return Batch(
        torch.from_numpy(views), torch.from_numpy(shown), torch.from_numpy(grids), words_of
    )


def _words(texts: Sequence[Text], places: int) -> Words:
    read = max(len(text.words) for text in texts)
    long, each = read + max(len(text.reply) for text in texts), QUESTIONS // 2
    tokens, targets, right = (np.full((len(texts), long), fill) for fill in (PAD, -1, -1))
    at, shares = list[tuple[int, int, int]](), list[Shares]()
    for row, text in enumerate(texts):
        start = read - len(text.words)
        if text.with_choices:
            right[row, start:read] = _right_words(text.words, text.reply[0])
        tokens[row, start:read] = text.words
        tokens[row, read : read + len(text.reply)] = [ANSWER, *text.reply[:-1]]
        targets[row, read : read + len(text.reply)] = text.reply
        at += [
            (row // each, row % each * long + start + pointer.token, pointer.head)
            for pointer in text.pointers
        ]
        shares += [pointer.shares for pointer in text.pointers]
    assert read <= MAX_TEXT_TOKENS and long - read <= MAX_REPLY_TOKENS
    tensors = [torch.from_numpy(part.reshape(-1, each, long)) for part in (tokens, targets, right)]
    looks = np.array(at, np.int64).reshape(-1, 3), np.array(shares, np.float32).reshape(-1, places)
    return Words(tensors[0], read, *tensors[1:], *map(torch.from_numpy, looks))


def _right_words(words: Sequence[int], key: int) -> list[int]:
    """Return 1 at the words of the choice whose letter is `key`, 0 at those of other choices, -1
    elsewhere."""
    labels, now, before = list[int](), -1, LINE
    for word in words:
        if before == LINE:
            now = int(word == key) if CHOICE_LETTERS[0] <= word <= CHOICE_LETTERS[-1] else -1
        labels.append(-1 if word == LINE else now)
        before = word
    return labels


@dataclass(frozen=True)
class Plan:
    """The training plan, in four parts.

    First only the encoder learns to classify places, for `look` steps; then the rest learns to read
    and answer, for `read` steps; then both learn together, for `both` steps, and for `count` more
    with more counting questions, which are learnt last. A step has `batch` scenes of the first
    `scenes` of this `seed`, divided between `workers` processes; on a GPU (`device` cuda) there is
    one.
    """

    folder: Path
    seed: int = 0
    scenes: int = 60_000
    batch: int = 16
    look: int = 3_500
    read: int = 6_000
    both: int = 5_000
    count: int = 2_000
    rate: float = 1.5e-3
    workers: int = 2
    device: str = "cpu"

    @property
    def steps(self) -> int:
        """The number of steps of all parts."""
        return self.look + self.read + self.both + self.count

    def rate_at(self, step: int) -> float:
        """Return the learning rate: warm-up, then half a cosine, once for the encoder alone, once
        for the next two parts, and once for the last."""
        begun, whole, most = step, self.look, 1.0
        if step >= self.look:
            begun, whole = step - self.look, self.read + self.both
        if begun >= whole:
            begun, whole, most = begun - whole, self.count, AGAIN
        return (
            most
            * self.rate
            * min(1, (begun + 1) / 300)
            * (0.02 + 0.98 * 0.5 * (1 + math.cos(math.pi * begun / whole)))
        )


def batches(plan: Plan, worker: int, first: int) -> Iterator[Batch]:
    """Yield a worker's batches endlessly, from step `first` on; the scenes of a batch have equally
    many views."""
    shards = range(worker, plan.scenes // SHARD, plan.workers)
    examples = [
        each
        for shard in shards
        for each in read_shard(write_shard(plan.folder / "scenes", plan.seed, shard))
    ]
    counts, size = (
        np.array([len(example.inputs) for example in examples]),
        plan.batch // plan.workers,
    )
    step, epoch, order = first, -1, list[list[int]]()
    each = sum(int((counts == count).sum()) // size for count in np.unique(counts))
    while True:
        if step // each != epoch:
            epoch = step // each
            rng = np.random.default_rng([plan.seed, worker, epoch])
            alike = [
                rng.permutation(np.flatnonzero(counts == count)) for count in np.unique(counts)
            ]
            order = [
                some[at : at + size].tolist()
                for some in alike
                for at in range(0, len(some) - size + 1, size)
            ]
            rng.shuffle(order)
        chosen = [examples[number] for number in order[step % each]]
        counting = 12 if step >= plan.steps - plan.count else 3
        yield make_batch(
            np.random.default_rng([plan.seed, worker, 1, step]), chosen, step >= plan.look, counting
        )
        step += 1


def train(plan: Plan, until: int | None = None) -> None:
    """Train up to step `until`, resuming an interrupted training; the state is saved every 250
    steps in FOLDER/state.pt."""
    if plan.workers == 1:
        return _work(0, plan, until or plan.steps)
    meet = (plan.folder / "meet").absolute()
    meet.unlink(missing_ok=True)
    torch.multiprocessing.spawn(
        _work_together, (plan, until or plan.steps, f"file://{meet}"), plan.workers
    )


def _work_together(worker: int, plan: Plan, until: int, meet: str) -> None:
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)
    distributed.init_process_group("gloo", init_method=meet, rank=worker, world_size=plan.workers)
    _work(worker, plan, until)
    distributed.destroy_process_group()


def _work(worker: int, plan: Plan, until: int) -> None:
    torch.manual_seed(plan.seed)
    network = Network().to(plan.device)
    optimizer = torch.optim.AdamW(_groups(network), lr=plan.rate, betas=(0.9, 0.98))
    state, first = plan.folder / "state.pt", 0
    if state.exists():
        kept = torch.load(state, map_location=plan.device, weights_only=True)
        network.load_state_dict(kept["network"])
        optimizer.load_state_dict(kept["optimizer"])
        first = int(kept["step"])
    losses, start = [], time.perf_counter()
    for step, batch in zip(range(first, until), batches(plan, worker, first), strict=False):
        for group in optimizer.param_groups:
            group["lr"] = plan.rate_at(step) * (
                SLOWER if group["encodes"] and step >= plan.look else 1
            )
        replies, seen = network(
            batch.to(plan.device), learn_to_look=not plan.look <= step < plan.look + plan.read
        )
        optimizer.zero_grad()
        (replies + LOOK_SHARE * seen).backward()
        if plan.workers > 1:
            _share_gradients(network, plan.workers)
        torch.nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        optimizer.step()
        losses.append((replies.item(), seen.item()))
        if worker:
            continue
        if (step + 1) % 50 == 0:
            mean = np.mean(losses[-50:], axis=0)
            line = f"{step + 1},{mean[0]:.4f},{mean[1]:.4f},{time.perf_counter() - start:.0f}"
            print(line, flush=True)
            with (plan.folder / "curve.csv").open("a", encoding="utf-8") as file:
                file.write(line + "\n")
        if (step + 1) % 250 == 0 or step + 1 == until:
            kept = {
                "network": network.state_dict(),
                "optimizer": optimizer.state_dict(),
                "step": step + 1,
            }
            torch.save(kept, state.with_suffix(".part"))
            state.with_suffix(".part").rename(state)


def _groups(network: Network) -> list[dict[str, Any]]:
    """Return parameter groups: the encoder and the rest, each as matrices with weight decay and
    other weights without."""
    named = [(name.startswith(("encoder.", "look.")), p) for name, p in network.named_parameters()]
    return [
        {
            "params": [p for e, p in named if e == encodes and (p.ndim > 1) == matrix],
            "weight_decay": 0.02 * matrix,
            "encodes": encodes,
        }
        for encodes in (True, False)
        for matrix in (True, False)
    ]


def _share_gradients(network: Network, workers: int) -> None:
    """Replace each worker's gradients by the mean over all workers."""
    found = [p.grad for p in network.parameters() if p.grad is not None]
    flat = torch.cat([each.flatten() for each in found])
    distributed.all_reduce(flat)
    for each, part in zip(found, flat.split([each.numel() for each in found]), strict=True):
        each.copy_(part.view_as(each) / workers)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    for each in fields(Plan)[1:]:
        parser.add_argument(f"--{each.name}", type=type(each.default), default=each.default)
    parser.add_argument(
        "--until", type=int, default=None, help="stop at this step, to resume later"
    )
    args = vars(parser.parse_args())
    until = args.pop("until")
    train(Plan(**args), until)


if __name__ == "__main__":
    main()
