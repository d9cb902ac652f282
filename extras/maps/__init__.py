"""Networks for dense prediction: depth by Depth Anything, and reflectance by Marigold.

Not here: stereo, pictorial cues and Retinex (`specialists.maps`), depth from two views
(`geometry`), reflectance by Ordinal Shading (`intrinsics`), and the rules that answer with these
maps (`specialists.answers`).
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
