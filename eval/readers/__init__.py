"""Readers: stages that find the answer in a reply, or the reason why there is none, for scoring.

`robust` reads free text by our own rules and lists the file of each kind of rule.
`fixed_format` reads replies in a fixed format. `reader` holds the base classes and helpers of all
readers. To add a reader, write a subclass of `reader.TextReader`,
or of `reader.Reader` if it needs more than the reply, and name it in `__init__.pyi`. Not here:
scoring of answers (`scoring`), models that judge replies, and readers that follow the code of
benchmarks, which are extensions.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
