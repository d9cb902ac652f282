"""Invalid settings of networks, and of stages that show their results, are refused."""

from pathlib import Path

from tests.refusals import check_settings, check_stages
from tests.tables import read_yaml

HERE = Path(__file__).parent


def test_a_setting_of_a_network_out_of_its_range_is_refused() -> None:
    check_settings("looktwice.extras", read_yaml(HERE / "settings.yaml"))


def test_an_invalid_setting_of_a_stage_is_refused() -> None:
    check_stages(read_yaml(HERE / "stages.yaml"))
