"""What was sent to models, by whichever program: read as requests (`requests`), paired and compared
factor by factor (`factors`), told (`tell`), and what each difference is worth (`worth`).

Not here: what the replies are worth, log against log (`logs`), and arms of a study that differ in
one stage (`eval.analysis`)."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
