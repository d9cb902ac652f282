"""Vision models for one task each (specialists), used by answer rules and by prompting stages.

`protocols` defines what each kind takes and returns, and explains how to add one; `results` holds
the classes that they return.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
