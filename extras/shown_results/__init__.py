"""Results of specialists as the model is shown them: drawn into images, told in words, and as tools
of an agent.

Not here: the specialists themselves (`specialists`), and markers of given places
(`prompting.markers`).
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
