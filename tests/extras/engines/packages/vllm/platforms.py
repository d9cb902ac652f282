"""The platform on which the stand-in runs."""

from tests.extras.engines.network import NETWORK


class Platform:
    def is_unspecified(self) -> bool:
        return not NETWORK.has_gpu


current_platform = Platform()
