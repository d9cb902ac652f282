from .depth_anything import DepthAnything as DepthAnything, DepthAnything3 as DepthAnything3
from .depth_cues import SGBM as SGBM, DepthCue as DepthCue
from .reflectance import (
    ColorRetinex as ColorRetinex,
    ConstantShading as ConstantShading,
    MarigoldAlbedo as MarigoldAlbedo,
)
