"""What other models see: specialists that answer questions themselves, and that help prompting stages."""

from looktwice.specialists.chance import Chance
from looktwice.specialists.correspondence import MatchedPoint
from looktwice.specialists.depth import NearerPoint
from looktwice.specialists.faces import FaceCascade
from looktwice.specialists.seams import SeamMatcher
from looktwice.specialists.sgbm import SGBM
from looktwice.specialists.sift import SIFT
from looktwice.specialists.superpixels import Felzenszwalb, Slic

__all__ = [
    "SGBM",
    "SIFT",
    "Chance",
    "FaceCascade",
    "Felzenszwalb",
    "MatchedPoint",
    "NearerPoint",
    "SeamMatcher",
    "Slic",
]
