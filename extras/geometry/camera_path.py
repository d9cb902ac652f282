"""A rule that answers in which direction the camera moved, from its estimated positions."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from looktwice.extras.geometry.views import ViewEstimator
from looktwice.pipelines.sample import Sample
from looktwice.specialists.answers.choices import AnswerRule, Decision, find_choice
from looktwice.specialists.rules import NoEvidence
from looktwice.specialists.sharing import look_once

MIN_PATH_LENGTH = 1e-9
"""Shorter paths, on the scale of the network, have no direction."""


@dataclass(frozen=True)
class CameraPath(AnswerRule):
    """Answers left or right by the position of the second camera in the space of the first.

    `views` is the network, such as `DepthAnythingViews`. Unlike `CameraMotion`, which uses optical
    flow, it makes no assumption about rotations of the camera. Confidence is the sideways component
    as a share of the length of the path. Abstains without two images, if the camera did not move,
    and if no choice says left or right.
    """

    views: ViewEstimator

    def decide(self, sample: Sample) -> Decision:
        """Return the letter and the confidence. Raises NoEvidence."""
        left, right = find_choice(sample, r"\bleft\b"), find_choice(sample, r"\bright\b")
        if left is None or right is None or left == right:
            raise NoEvidence("the choices are not one for left and one for right")
        if len(sample.images) < 2:
            raise NoEvidence(f"camera motion needs two images, found {len(sample.images)}")
        first, second = sample.images[:2]
        path = look_once(self.views, first.pixels, second.pixels).camera_path
        length = float(np.linalg.norm(path))
        if not length > MIN_PATH_LENGTH or path[0] == 0:
            raise NoEvidence("the cameras do not stand side by side")
        return right if path[0] > 0 else left, abs(float(path[0])) / length
