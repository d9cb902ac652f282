"""Analyses of the effect of pictures, marks and looks on the answers: an agent's looks and turns,
the certificate of a tool, measurements and routing.

Not here: probes of a model's layers (`inside`), and the tables of every run (`eval.analysis`).
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
