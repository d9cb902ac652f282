from .depth_anything import DepthAnything as DepthAnything, DepthAnything3 as DepthAnything3
from .marigold import MarigoldAlbedo as MarigoldAlbedo
