"""What other models see: specialists that answer questions themselves, and that help prompting stages."""

from looktwice.specialists.attention import AttentionShare, VisionAttention
from looktwice.specialists.camera import CameraMotion
from looktwice.specialists.chance import Chance
from looktwice.specialists.correspondence import MatchedPoint
from looktwice.specialists.counting import Count
from looktwice.specialists.depth import NearerPoint
from looktwice.specialists.depth_anything import DepthAnything
from looktwice.specialists.depth_cues import (
    Brightness,
    Haze,
    LocalContrast,
    Saturation,
    Sharpness,
    TextureSize,
    VerticalPosition,
)
from looktwice.specialists.dift import DIFT, DIFTHPatches, DIFTSPair
from looktwice.specialists.dino import DINOv2
from looktwice.specialists.dire import DIRE
from looktwice.specialists.efficientnet import EfficientNet
from looktwice.specialists.faces import FaceBoxes, FaceCascade, FaceRecognition
from looktwice.specialists.forensic import MostReal
from looktwice.specialists.grounded_sam import GroundedSAM
from looktwice.specialists.grounding_dino import GroundingDINO
from looktwice.specialists.guess import Guess
from looktwice.specialists.identity import CountIdentities, FaceIdentity, GroupIdentities, SameIdentity, ThingIdentity
from looktwice.specialists.keypoints import KeypointMatcher
from looktwice.specialists.lightglue import LightGlue
from looktwice.specialists.likeness import MostSimilar
from looktwice.specialists.localization import FittingBox
from looktwice.specialists.loftr import LoFTR
from looktwice.specialists.nearest_feature import NearestFeature
from looktwice.specialists.ocr import LetterReader
from looktwice.specialists.pattern_sheets import PatternMatcher
from looktwice.specialists.reflectance import DarkerPoint
from looktwice.specialists.retinex import AsSeen, ColorRetinex
from looktwice.specialists.sam import SAM, SegmentEverything
from looktwice.specialists.seams import SeamMatcher
from looktwice.specialists.sgbm import SGBM
from looktwice.specialists.shape_counting import ColoredShapeCounter, OutlineCounter
from looktwice.specialists.shape_grids import GridReader
from looktwice.specialists.sift import SIFT
from looktwice.specialists.spatial import SpatialRelation
from looktwice.specialists.style import DenseSimilarity, GlobalSimilarity, GramSimilarity
from looktwice.specialists.superpixels import Felzenszwalb, Slic
from looktwice.specialists.turned import Turned
from looktwice.specialists.xfeat import XFeat
from looktwice.specialists.yunet import YuNet

__all__ = [
    "DIFT",
    "DIRE",
    "SAM",
    "SGBM",
    "SIFT",
    "AsSeen",
    "AttentionShare",
    "Brightness",
    "CameraMotion",
    "Chance",
    "ColorRetinex",
    "ColoredShapeCounter",
    "Count",
    "CountIdentities",
    "DIFTHPatches",
    "DIFTSPair",
    "DINOv2",
    "DarkerPoint",
    "DenseSimilarity",
    "DepthAnything",
    "EfficientNet",
    "FaceBoxes",
    "FaceCascade",
    "FaceIdentity",
    "FaceRecognition",
    "Felzenszwalb",
    "FittingBox",
    "GlobalSimilarity",
    "GramSimilarity",
    "GridReader",
    "GroundedSAM",
    "GroundingDINO",
    "GroupIdentities",
    "Guess",
    "Haze",
    "KeypointMatcher",
    "LetterReader",
    "LightGlue",
    "LoFTR",
    "LocalContrast",
    "MatchedPoint",
    "MostReal",
    "MostSimilar",
    "NearerPoint",
    "NearestFeature",
    "OutlineCounter",
    "PatternMatcher",
    "SameIdentity",
    "Saturation",
    "SeamMatcher",
    "SegmentEverything",
    "Sharpness",
    "Slic",
    "SpatialRelation",
    "TextureSize",
    "ThingIdentity",
    "Turned",
    "VerticalPosition",
    "VisionAttention",
    "XFeat",
    "YuNet",
]
