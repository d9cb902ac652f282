"""The values that flow through a pipeline, the interfaces of stages and models, and the
configuration.

Here: what every other folder builds on, independent of any particular method or benchmark.
Not here: stages that show or ask (`prompting`), stages that compute (`specialists`), tasks and
scores (`eval`).
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
