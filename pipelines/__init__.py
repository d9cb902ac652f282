"""Values, the socket, the door to the model and the configuration: what every other folder stands on."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
