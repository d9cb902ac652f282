from .depth_cues import SGBM as SGBM, DepthCue as DepthCue
from .reflectance import ColorRetinex as ColorRetinex, ConstantShading as ConstantShading
