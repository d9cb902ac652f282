"""A model as a judge of replies that no rule can read: its prompts, its calls, and the command.

Not here: rules that read replies (`eval.readers`), stored judgements (`eval.records`), and the
agreement of judges (`eval.analysis`).
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
