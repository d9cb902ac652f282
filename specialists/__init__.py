"""What other models see: specialists that answer questions themselves, and that help prompting stages."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
