"""What other models see: specialists that answer the questions themselves, and that help prompting stages."""

from looktwice.specialists.chance import Chance
from looktwice.specialists.correspondence import MatchedPoint
from looktwice.specialists.depth import NearerPoint
from looktwice.specialists.seams import SeamMatcher
from looktwice.specialists.sgbm import SGBM
from looktwice.specialists.sift import SIFT

__all__ = ["SGBM", "SIFT", "Chance", "MatchedPoint", "NearerPoint", "SeamMatcher"]
