"""What a specialist or rule raises that cannot decide, and the check of its settings."""

from looktwice.pipelines.ranges import Ranged

__all__ = ["NoEvidence"]


class NoEvidence(Exception):
    """A specialist or rule lacks what it needs to decide; the stage abstains with the message as
    its reason."""


class Checked(Ranged):
    """A specialist that has settings, whose numbers hold the rules in its `ranges`."""
