"""A linear probe: ridge regression onto the classes, with the penalty chosen by cross-validation
within the training part.

One decomposition serves all penalties and all sets of shuffled labels (Hastie, Tibshirani and
Friedman 2009, section 3.4.1). The probe predicts the class with the largest value.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from looktwice.eval.statistics.intervals import Codes, Floats, cluster_codes

Mask = NDArray[np.bool_]
PENALTY_GRID = 10.0 ** np.arange(-5, 4)  # times the features' mean square along their axes
FOLD_COUNT = 5
SHUFFLE_COUNT = 20
SEED = 0


@dataclass(frozen=True)
class ProbeResult:
    """A probe's predictions for held-out questions, as label codes.

    `training_accuracy` is its accuracy within the training questions, by cross-validation.
    `shuffled_predictions`, of shape (shuffles, questions), are those of probes trained on the same
    states with shuffled labels.
    """

    predictions: Codes
    training_accuracy: float
    shuffled_predictions: Codes


def fit_probe(
    train: Floats,
    labels: Codes,
    clusters: Sequence[Hashable],
    held_out: Floats,
    allowed: Mask,
    allowed_out: Mask,
) -> ProbeResult:
    """Train a probe on states of shape (questions, width) with labels 0, 1, ...; questions of one
    cluster are always in the same fold.

    `allowed`, of shape (questions, labels), marks the labels that each question offers; only these
    are predicted. There must be at least two clusters and two labels.
    """
    random = np.random.default_rng(SEED)
    sets = np.stack([labels, *(random.permutation(labels) for _ in range(SHUFFLE_COUNT))])
    targets = np.eye(allowed.shape[1])[sets].transpose(1, 0, 2)  # questions, sets, labels
    codes = cluster_codes(clusters, len(labels))
    fold_of = random.permutation(int(codes.max()) + 1)[codes] % FOLD_COUNT
    inner, outer = _to_principal_axes(train, held_out)
    right = np.zeros((len(PENALTY_GRID), len(sets)))
    for fold in np.unique(fold_of):
        out = fold_of == fold
        chosen = _predict_labels(inner[~out], targets[~out], inner[out], allowed[out])
        right += (chosen == sets[:, out]).sum(-1)
    best = len(PENALTY_GRID) - 1 - right[::-1].argmax(0)  # the largest of tied penalties
    chosen = _predict_labels(inner, targets, outer, allowed_out)[best, np.arange(len(sets))]
    return ProbeResult(chosen[0], float(right[best[0], 0]) / len(labels), chosen[1:])


def _to_principal_axes(train: Floats, held_out: Floats) -> tuple[Floats, Floats]:
    """Standardise both sets of states by the mean and spread of `train`, and rotate them onto its
    principal axes; there are at most as many axes as training questions."""
    mean, spread = train.mean(0), train.std(0)
    kept = spread > 1e-6 * np.abs(train).max()
    first, second = ((part[:, kept] - mean[kept]) / spread[kept] for part in (train, held_out))
    if not kept.any():  # the layer is the same for all questions
        return np.zeros((len(train), 1)), np.zeros((len(held_out), 1))
    left, sizes, axes = np.linalg.svd(first, full_matrices=False)
    return left * sizes, second @ axes.T


def _predict_labels(train: Floats, targets: Floats, asked: Floats, allowed: Mask) -> Codes:
    """Return, for every penalty, set of labels and question, the allowed label with the largest
    value."""
    mean, base = train.mean(0), targets.mean(0)
    centred = train - mean
    squares, axes = np.linalg.eigh(centred.T @ centred)
    squares = np.maximum(squares, 0.0)
    toward = np.tensordot(centred @ axes, targets - base, (0, 0))
    along = (asked - mean) @ axes
    scale = max(float(squares.mean()), 1e-12)
    answers = []
    for penalty in PENALTY_GRID * scale:
        shrunk = along / (squares + penalty)
        values = np.tensordot(shrunk, toward, 1) + base
        answers.append(np.where(allowed[:, None], values, -np.inf).argmax(-1).T)
    return np.stack(answers)
