from .checkpoints import Checkpoint as Checkpoint, certify_checkpoint as certify_checkpoint
from .rollouts import Rollout as Rollout, Rollouts as Rollouts
