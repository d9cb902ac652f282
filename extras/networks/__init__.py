"""What all networks share: opening and downloading, devices, batches, stored results, checkpoints,
and tensors of images.

A new network inherits `network.Network`, or `network.HubNetwork` if Hugging Face transformers opens
it.
Not here: any individual network, and specialists without weights (`specialists`).
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
