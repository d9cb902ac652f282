"""Dense prediction without networks: depth by stereo or pictorial cues, and reflectance.

Not here: networks, which are an extension, and the rules that answer questions with these maps
(`answers`).
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
