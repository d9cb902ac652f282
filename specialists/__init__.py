"""What other models see: specialists that answer questions themselves, and that help prompting stages."""

from looktwice.specialists.attention import AttentionShare, VisionAttention
from looktwice.specialists.camera import CameraMotion
from looktwice.specialists.chance import Chance
from looktwice.specialists.correspondence import MatchedPoint
from looktwice.specialists.counting import Count
from looktwice.specialists.depth import NearerPoint
from looktwice.specialists.depth_anything import DepthAnything
from looktwice.specialists.faces import FaceCascade
from looktwice.specialists.forensic import MostReal
from looktwice.specialists.grounding_dino import GroundingDINO
from looktwice.specialists.guess import Guess
from looktwice.specialists.identity import CountIdentities, FaceIdentity, GroupIdentities, SameIdentity, ThingIdentity
from looktwice.specialists.likeness import MostSimilar
from looktwice.specialists.localization import FittingBox
from looktwice.specialists.reflectance import DarkerPoint
from looktwice.specialists.seams import SeamMatcher
from looktwice.specialists.sgbm import SGBM
from looktwice.specialists.sift import SIFT
from looktwice.specialists.spatial import SpatialRelation
from looktwice.specialists.superpixels import Felzenszwalb, Slic

__all__ = [
    "SGBM",
    "SIFT",
    "AttentionShare",
    "CameraMotion",
    "Chance",
    "Count",
    "CountIdentities",
    "DarkerPoint",
    "DepthAnything",
    "FaceCascade",
    "FaceIdentity",
    "Felzenszwalb",
    "FittingBox",
    "GroundingDINO",
    "GroupIdentities",
    "Guess",
    "MatchedPoint",
    "MostReal",
    "MostSimilar",
    "NearerPoint",
    "SameIdentity",
    "SeamMatcher",
    "Slic",
    "SpatialRelation",
    "ThingIdentity",
    "VisionAttention",
]
