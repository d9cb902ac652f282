"""The exception of a specialist or rule that cannot decide, and the validation of settings."""

from looktwice.pipelines.ranges import Ranged

__all__ = ["NoEvidence"]


class NoEvidence(Exception):
    """Raised if a specialist or rule cannot decide; the stage abstains and gives the message as its
    reason."""


class Checked(Ranged):
    """A specialist whose numeric settings are validated against the rules in its `ranges`."""
