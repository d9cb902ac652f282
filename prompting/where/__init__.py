"""Sources that find the regions of a sample's images to look at, the most important first, behind
one interface.

Not here: what is done with the regions, such as crops (`views.Look`) and markers (`views.Show`).
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
