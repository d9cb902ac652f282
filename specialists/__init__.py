"""Vision models for one task each (specialists): they answer questions by a rule, or serve
prompting stages.

`protocols` says what each kind takes and returns and how to add one; `results` holds the classes
that they return.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
