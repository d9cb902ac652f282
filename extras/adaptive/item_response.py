"""Item response theory: the difficulty of each item, the ability of each arm, and an arm's total
predicted from its answers to a few items (Rasch 1960, by marginal likelihood)."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from looktwice.eval.display.text_tables import (
    Column,
    Columns,
    attribute_columns,
    percent,
    share_cell,
)
from looktwice.eval.scoring.verdict import RunScores
from looktwice.eval.statistics.intervals import Codes, Estimate, Floats, Z
from looktwice.eval.statistics.paired import ValueMatrix

DIFFICULTY_GRID = np.linspace(-8, 8, 65)
ABILITY_GRID = np.linspace(-6, 6, 121)
MIN_ARMS = 3  # fewer arms cannot separate difficulty from ability
ITEMS_NOTE = (
    "Difficulties come from Rasch's model, fitted on the other arms. The items asked are evenly"
    " spaced by difficulty within every task. `predicted` is the accuracy on `all` items, predicted"
    " from the answers to the items asked, with its 95 % interval. `ability` is in logits; 0 is an"
    " arm that is right on half of the items of average difficulty."
)


@dataclass(frozen=True, eq=False)
class FittedItems:
    """The result of a fit: `posterior` (items, DIFFICULTY_GRID) is the posterior over each item's
    difficulty, `spread` the standard deviation of difficulties, which are centred on 0, and
    `abilities` the abilities of the arms."""

    abilities: Floats
    spread: float
    posterior: Floats

    @property
    def difficulties(self) -> Floats:
        """The posterior mean of each item's difficulty, in logits."""
        return self.posterior @ DIFFICULTY_GRID

    @property
    def standard_errors(self) -> Floats:
        """The posterior standard deviation of each item's difficulty, in logits."""
        squares = self.posterior @ np.square(DIFFICULTY_GRID)
        return np.sqrt(squares - np.square(self.difficulties))


@dataclass(frozen=True)
class Prediction:
    """An arm's ability and its share of correct answers on all items, predicted from its answers to
    `total.n` items."""

    ability: float
    total: Estimate


def fit_items(values: Floats) -> FittedItems:
    """Fit item difficulties and arm abilities to values (arms, items) in 0..1, NaN where an arm has
    no value.

    Abilities and the spread of difficulties, which are normal around 0, maximise the marginal
    likelihood. Raises ValueError for fewer than three arms.
    """
    from scipy.optimize import minimize
    from scipy.special import log_expit, log_softmax, logsumexp

    if len(values) < MIN_ARMS:
        raise ValueError(f"difficulties need {MIN_ARMS} arms or more, found {len(values)}")
    right, wrong = (np.nan_to_num(side.T) for side in (values, 1 - values))

    def compute_log_likelihoods(parameters: Floats) -> Floats:
        ahead = parameters[:-1, None] - DIFFICULTY_GRID
        prior = log_softmax(-np.square(DIFFICULTY_GRID / np.exp(parameters[-1])) / 2)
        return np.asarray(right @ log_expit(ahead) + wrong @ log_expit(-ahead) + prior)

    def compute_loss(parameters: Floats) -> float:
        return -float(logsumexp(compute_log_likelihoods(parameters), axis=1).sum())

    start = np.append(4 * np.nanmean(values, axis=1) - 2, 0.0)
    best = minimize(
        compute_loss, start, method="L-BFGS-B", bounds=[(-6, 6)] * len(values) + [(-2, 1)]
    ).x
    likely = np.exp(log_softmax(compute_log_likelihoods(best), axis=1))
    return FittedItems(best[:-1], float(np.exp(best[-1])), likely)


def predict_total(items: FittedItems, answers: Floats) -> Prediction:
    """Predict the total of an arm that was not used to fit `items`, from its answers (items,); NaN
    marks items that it was not asked.

    The prior of the ability is uniform. The interval is normal and includes the uncertainty of the
    answers not yet given. Items of equal difficulty count as interchangeable, so items of a task at
    which the arm is unusually good should be picked as often as others.
    """
    from scipy.special import expit, softmax

    asked = ~np.isnan(answers)
    chance = items.posterior @ expit(ABILITY_GRID - DIFFICULTY_GRID[:, None])
    given, rest = answers[asked], chance[~asked]
    fit = given @ np.log(chance[asked]) + (1 - given) @ np.log1p(-chance[asked])
    weights, n = softmax(fit), len(answers)
    totals = (given.sum() + rest.sum(axis=0)) / n
    mean = float(weights @ totals)
    noise = (rest * (1 - rest)).sum(axis=0) / n**2
    reach = Z * float(np.sqrt(weights @ (noise + np.square(totals - mean))))
    low, high = max(0.0, mean - reach), min(1.0, mean + reach)
    return Prediction(
        float(weights @ ABILITY_GRID), Estimate(mean, low, high, len(given), len(given))
    )


def pick_items(items: FittedItems, groups: Sequence[Hashable], n: int) -> Codes:
    """Return the sorted indices of n items, evenly spaced in a list sorted by group and then by
    difficulty; ties are shuffled with a fixed seed."""
    codes = {group: code for code, group in enumerate(dict.fromkeys(groups))}
    mixed = np.random.default_rng(0).random(len(groups))
    order = np.lexsort(np.array([mixed, items.difficulties, [codes[group] for group in groups]]))
    return np.sort(order[((np.arange(n) + 0.5) * len(order) / n).astype(int)])


@dataclass(frozen=True)
class ArmPrediction:
    """An arm's share of correct answers on `n` items, and its prediction from some of them."""

    contestant: str
    accuracy: float
    n: int
    prediction: Prediction


PREDICTION_COLUMNS: Columns[ArmPrediction] = (
    *attribute_columns("contestant"),
    Column("ability", "prediction.ability", "{:.2f}"),
    Column("items\nasked", "prediction.total.n"),
    Column("predicted\n%", "prediction.total", share_cell),
    Column("all\n%", "accuracy", percent),
    Column("n", "n"),
)


def collect_item_values(run: RunScores) -> ValueMatrix[str, tuple[str, str]]:
    """Return the score of every contestant on every (task, sample) that all contestants
    answered."""
    arms = dict[str, dict[tuple[str, str], float]]()
    for scores in run.points:
        own = arms.setdefault(scores.contestant, {})
        own |= {
            (scores.point.task, name): value for name, value in scores.comparable_values.items()
        }
    values = ValueMatrix.of(arms, {})
    return values.where(values.valid_mask())


def predict_arms(values: ValueMatrix[str, tuple[str, str]], n: int) -> Iterator[ArmPrediction]:
    """Predict each arm's total from n items, with difficulties fitted on the other arms. Raises
    ValueError."""
    groups = [task for task, _ in values.units]
    for number, arm in enumerate(values.arms):
        items = fit_items(np.delete(values.value, number, axis=0))
        answers = np.full(len(groups), np.nan)
        picked = pick_items(items, groups, n)
        answers[picked] = values[arm][picked]
        prediction = predict_total(items, answers)
        yield ArmPrediction(arm, float(values[arm].mean()), len(groups), prediction)
