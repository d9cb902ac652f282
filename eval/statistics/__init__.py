"""Statistics on plain numbers: intervals, paired tests, factors, ranks, draws, choices and
agreement.

Every function takes arrays and says which paper its formula is from. Each file opens with what it
is about; to add a method, write a function there and let a table of `analysis` call it.
Not here: which samples are compared (`scoring`), and what a report says about them (`analysis`)."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
