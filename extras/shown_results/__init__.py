"""Results of specialists, presented to the model: drawn into images, described in sentences, or
returned by tools of an agent.

Not here: the specialists themselves (`specialists`), and markers on given marks
(`prompting.markers`).
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
