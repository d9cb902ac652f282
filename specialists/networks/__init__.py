"""What every network shares: how it is opened, batched, moved to a device, and which image size it sees.

Here: also checkpoints in files and packages, and networks of transformers by hub id. Not here: any one network."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
