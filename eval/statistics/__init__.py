"""Statistics on plain numbers: intervals, paired tests, factors, ranks, draws and agreement.

Every function takes arrays and names the paper of its formula. To add a method, write a function in
the file of its topic and call it from a table of `analysis`.
Not here: which samples are compared (`scoring`), and how a report presents the results
(`analysis`).
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
