"""The audit of simulated models that never look at images: the false-positive rate under various
answer biases, and the share of planted leaks that are found.

`make bench` runs it; `python -m bench.bench_audit --times 20` is quicker. All seeds are fixed.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from looktwice.extras.studies.answer_bias import KNOWN_RIGHT_SHARE, BlindQuestion, estimate_bias
from looktwice.extras.studies.blindness import select_beyond_bias

DRAWS = (6, 10, 20)
TYPES = ("What color is it?", "Which color comes next?", "Name the color of the thing, please.")


@dataclass(frozen=True)
class BlindModel:
    """A model that guesses with biases drawn from Dirichlet distributions with these
    concentrations: the smaller, the stronger the bias; None means no bias.

    `word` is the bias for words, drawn for each of `types` kinds of questions, `letter` for
    positions among the choices, `item` for each single question. With `unique`, no word occurs in
    two questions; `firm` is the share of questions that get the same guess in all draws. With
    `permuted`, choices are reordered in every draw.
    """

    name: str
    word: float | None = None
    letter: float | None = None
    item: float | None = None
    types: int = 1
    unique: bool = False
    firm: float = 0.0
    permuted: bool = True

    def answer(
        self, rng: np.random.Generator, n: int, choices: int, draws: int, leaks: float
    ) -> tuple[list[BlindQuestion], set[str]]:
        """Answer n questions, whose choices are drawn from a vocabulary with at most one more word
        than a question has choices; return them with the ids of leaked questions, whose answers the
        model knows."""
        vocabulary = [f"w{number}" for number in range(max(2, choices + (choices > 2)))]
        by_word = [self._draw_biases(rng, self.word, vocabulary) for _ in range(self.types)]
        by_letter = np.array([*self._draw_biases(rng, self.letter, vocabulary[:choices]).values()])
        questions, leaky = [], set[str]()
        for number in range(n):
            kind = number % self.types
            words = [str(word) for word in rng.permutation(vocabulary)[:choices]]
            bias_weights = np.array([by_word[kind][word] for word in words])
            if self.item is not None:
                bias_weights = bias_weights * rng.dirichlet(np.full(choices, self.item))
            if self.unique:
                words = [f"{number}.{place}" for place in range(choices)]
            key, firm = words[int(rng.integers(choices))], rng.random() < self.firm
            if knows := rng.random() < leaks:
                leaky.add(str(number))
            answers = self._simulate_draws(rng, words, bias_weights, by_letter, draws, firm)
            answers = [
                key if knows and rng.random() < KNOWN_RIGHT_SHARE else answer for answer in answers
            ]
            counts = Counter(answers)
            text = f"{TYPES[kind]} No. {number}" if self.unique else TYPES[kind]
            questions.append(
                BlindQuestion(str(number), text, tuple(words), key, counts, draws, counts[key])
            )
        return questions, leaky

    def _simulate_draws(
        self,
        rng: np.random.Generator,
        words: list[str],
        bias_weights: NDArray[np.float64],
        by_letter: NDArray[np.float64],
        draws: int,
        firm: bool,
    ) -> list[str]:
        answers = []
        for _ in range(draws):
            order = rng.permutation(len(words)) if self.permuted else np.arange(len(words))
            weights = bias_weights[order] * by_letter + 1e-12
            answers.append(words[int(order[rng.choice(len(words), p=weights / weights.sum())])])
        return answers[:1] * draws if firm else answers

    @staticmethod
    def _draw_biases(
        rng: np.random.Generator, concentration: float | None, names: list[str]
    ) -> dict[str, float]:
        if concentration is None:
            return dict.fromkeys(names, 1.0)
        return dict(
            zip(names, rng.dirichlet(np.full(len(names), concentration)).tolist(), strict=True)
        )


MODELS = (
    BlindModel("guesses anew"),
    BlindModel("guesses anew, no word twice", unique=True),
    BlindModel("words 0.1", word=0.1),
    BlindModel("words 0.5", word=0.5),
    BlindModel("words 2", word=2.0),
    BlindModel("words 0.3, 3 kinds", word=0.3, types=3),
    BlindModel("letters 0.3", letter=0.3),
    BlindModel("letters 0.3, never permuted", letter=0.3, permuted=False),
    BlindModel("words and letters 0.5", word=0.5, letter=0.5),
    BlindModel("each question 0.3", item=0.3),
    BlindModel("each question 2", item=2.0),
    BlindModel("each question 8, no word twice", item=8.0, unique=True),
    BlindModel("firm at 1 of 50", firm=0.02),
    BlindModel("firm at 1 of 10, words 0.5", word=0.5, firm=0.1),
)


def list_findings(questions: list[BlindQuestion]) -> set[str]:
    """Return the ids of the questions that the audit lists."""
    return {question.sample for question in select_beyond_bias(estimate_bias(questions))}


def audit(
    model: BlindModel, n: int, choices: int, draws: int, times: int
) -> tuple[float, float, float]:
    """Return three shares: runs without leaks in which the audit finds any, false positives among
    the finds when a tenth of the questions leak, and leaks that are found."""
    any_find, false, power = 0, list[float](), list[float]()
    for seed in range(times):
        rng = np.random.default_rng(seed)
        any_find += bool(list_findings(model.answer(rng, n, choices, draws, 0.0)[0]))
        questions, leaky = model.answer(rng, n, choices, draws, 0.1)
        finds = list_findings(questions)
        false.append(len(finds - leaky) / max(1, len(finds)))
        power.append(len(finds & leaky) / max(1, len(leaky)))
    return any_find / times, float(np.mean(false)), float(np.mean(power))


def table(times: int) -> Iterator[str]:
    """Yield a line for each model and number of choices: the three shares in percent, by number of
    draws."""
    yield (
        f"{times} simulated models each; leaks in a tenth of the questions, right in"
        f" {KNOWN_RIGHT_SHARE:.0%}"
        " of the draws."
    )
    yield (
        "| model | n | choices | draws 6: any, false, found % | 10 | 20"
        " |\n|---|---:|---:|---|---|---|"
    )
    for model in MODELS:
        for n, choices in ((60, 4), (200, 4), (200, 2)):
            shares = (audit(model, n, choices, draws, times) for draws in DRAWS)
            cells = (", ".join(f"{100 * share:.1f}" for share in three) for three in shares)
            yield f"| {model.name} | {n} | {choices} | {' | '.join(cells)} |"


def test_audit() -> None:
    """Print the figures in `make bench`."""
    report(100)


def report(times: int) -> None:
    """Print every line as soon as it is computed."""
    for line in table(times):
        print(line, flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--times", type=int, default=100, help="simulated models of each kind")
    report(parser.parse_args().times)
