from .depth_anything import DepthAnything as DepthAnything, DepthAnything3 as DepthAnything3
from .depth_cues import (
    Brightness as Brightness,
    Haze as Haze,
    LocalContrast as LocalContrast,
    Saturation as Saturation,
    Sharpness as Sharpness,
    TextureSize as TextureSize,
    VerticalPosition as VerticalPosition,
)
from .reflectance import (
    ColorRetinex as ColorRetinex,
    ConstantShading as ConstantShading,
    MarigoldAlbedo as MarigoldAlbedo,
)
from .sgbm import SGBM as SGBM
