"""YAML to objects and back: reads and checks a configuration, builds the objects that it names and
plans the run.

Here: includes, overlays, overrides and the entries of a file (`load`), their meaning (`keys`),
which files a configuration may read (`paths`), which classes it may name (`classes`), contestants
and sweeps (`expand`), building (`build`), the arms of a run (`plan`), and identities (`spec`).
Not here: what the named classes do, and the YAML files themselves, which are in `configs/`.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
