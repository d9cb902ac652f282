"""YAML to objects and back: reads a configuration, checks all of it, builds what it names, plans
the run.

Here: includes, overlays, overrides and what entries may hold (`load`), what they mean (`keys`),
which files it may read (`paths`), which classes it may name (`classes`), contestants and sweeps
(`expand`), building (`build`), the arms of a run (`plan`), and identities (`spec`). Not here: what
the named classes do, and the YAML files themselves, which lie in `configs/`."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
