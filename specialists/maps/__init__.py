"""Dense prediction: depth by networks, stereo or pictorial cues, and reflectance.

Not here: the rules that answer questions with these maps (`answers`).
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
