from .depth_anything import DepthAnything as DepthAnything
from .depth_anything_3 import DepthAnything3 as DepthAnything3
from .depth_cues import (
    Brightness as Brightness,
    Haze as Haze,
    LocalContrast as LocalContrast,
    Saturation as Saturation,
    Sharpness as Sharpness,
    TextureSize as TextureSize,
    VerticalPosition as VerticalPosition,
)
from .marigold import MarigoldAlbedo as MarigoldAlbedo
from .retinex import ColorRetinex as ColorRetinex, ConstantShading as ConstantShading
from .sgbm import SGBM as SGBM
