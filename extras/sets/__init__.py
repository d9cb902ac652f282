"""Published sets of perception questions whose file formats the core's tables cannot read, and the
rules by which their authors parse and score replies.

Not here: sets that `eval.tasks.Columns` and `eval.tasks.Tsv` read (their configurations are in
`configs`), BLINK, VLM2-Bench, BLINK-Twice and Do You See Me (`eval.tasks`), and points and boxes in
any notation (`prompting.where`).
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
