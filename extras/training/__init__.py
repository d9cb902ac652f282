"""A study as an environment for reinforcement learning: rollouts driven by a trainer, an
environment for TRL, a taskset and harness for verifiers, and certificates of checkpoints.

Not here: servers for clients that evaluate (`integrations`), and conversations written for
fine-tuning (`request_diff.trajectories`).
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
