"""What every network shares: opening, devices, batches, stored results, checkpoints, and the size
of its input image.

A new network inherits `networks.Network`, or `networks.HubNetwork` where Hugging Face transformers
opens it.

Not here: any one network."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
