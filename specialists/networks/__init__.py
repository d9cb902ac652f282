"""The base of all networks: opening, devices, batches, stored results, checkpoints, and the size of
the input image.

A new network inherits `networks.Network`, or `networks.HubNetwork` if Hugging Face transformers
opens it.

Not here: any individual network.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
