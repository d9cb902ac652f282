"""Invalid settings of specialists are refused with their allowed range."""

from pathlib import Path

from tests.refusals import check_settings
from tests.tables import read_yaml


def test_a_setting_out_of_its_range_is_refused() -> None:
    rows = read_yaml(Path(__file__).with_name("settings.yaml"))
    check_settings("looktwice.specialists", rows)
