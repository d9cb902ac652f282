"""The script for a GPU, with the stand-ins in place of the packages."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from bench import on_gpu
from tests.extras.engines.network import Network, Seen, name_pictures

FAULTS: dict[str, Callable[[Seen], str]] = {
    "a seed repeats a draw": lambda seen: str(id(seen)),
    "draws differ": name_pictures,
    "a schema is followed": lambda seen: '{"color": 1}',
}


def reply(seen: Seen) -> str:
    """Reply with the pictures, the seed, and JSON if the request has a schema."""
    found = vars(seen.sampling)
    seed = found.get("seed", found.get("sampling_seed"))
    if found.get("json_schema") or found.get("structured_outputs"):
        return '{"colour": "red"}'
    return f"{name_pictures(seen)} {seed or ''}"


@pytest.fixture(autouse=True)
def less_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """Use small pictures and few rounds."""
    monkeypatch.setattr(on_gpu, "LONG", 1000)
    monkeypatch.setattr(on_gpu, "BLOCK", 2)
    monkeypatch.setattr(on_gpu, "ROUNDS", 1)


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_both_sides_give_equal_replies_and_every_check_holds(
    engine: str, network: Network, capsys: pytest.CaptureFixture[str]
) -> None:
    network.reply = reply
    bare, ours = (on_gpu.run_side(engine, "m", side) for side in ("bare", "ours"))
    assert [ours[key]["texts"] for key in bare] == [bare[key]["texts"] for key in bare]
    assert len(set(bare["32"]["texts"])) == 32 * (on_gpu.ROUNDS + 1)
    assert ours["faults"] == [] and on_gpu.report(bare, ours)
    printed = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in printed[1:]] == ["1", "8", "32"]
    assert network.closed == len(network.arguments) and network.most > 1


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_a_check_that_fails_is_named(engine: str, fault: str, network: Network) -> None:
    network.reply = FAULTS[fault]
    model: Any = on_gpu.MODELS[engine]("m", max_tokens=on_gpu.TOKENS)
    faults = on_gpu.list_faults(engine, "m", model)
    assert fault in faults
    sides = {key: {"rate": 1.0, "texts": ["a"]} for key in ("1", "8", "32")}
    assert not on_gpu.report(sides, {**sides, "faults": faults})
