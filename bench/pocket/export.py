"""Writes the trained weights in the format of the numpy network: `python -m bench.pocket.export
FOLDER [FILE]`.

Half precision, normalisation folded into the convolutions, linear layers as (in, out).
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from bench.pocket.network import Network
from looktwice.pipelines.models.pocket import network as shipped


def arrays_of(network: Network) -> dict[str, Tensor]:
    """Return every weight by its name in the numpy network."""
    found: dict[str, Tensor] = {}
    blocks = [block for block in network.encoder.layers if not isinstance(block, nn.ReLU)]
    for number, block in enumerate(blocks):
        pairs = (
            {"": block}
            if isinstance(block, nn.Sequential)
            else {".one": block.one, ".two": block.two}
        )
        for name, pair in pairs.items():
            found |= _folded(f"encoder.{number}{name}", *pair)
    for name, part in network.named_modules():
        if isinstance(part, nn.Linear | nn.LayerNorm) and name != "right":
            weight = part.weight.T if isinstance(part, nn.Linear) else part.weight
            found |= {f"{name}.weight": weight, f"{name}.bias": part.bias}
    where = (network.rows[:, None] + network.columns[None]).flatten(0, 1)
    found |= {"embed": network.embed.weight, "meanings": network.meanings(), "where": where}
    return found | {name: getattr(network, name) for name in ("order", "line", "view", "sinks")}


def _folded(name: str, convolution: nn.Conv2d, norm: nn.BatchNorm2d) -> dict[str, Tensor]:
    scale = norm.weight / (norm.running_var + norm.eps).sqrt()
    weight = (convolution.weight * scale[:, None, None, None]).flatten(1).T
    return {f"{name}.weight": weight, f"{name}.bias": norm.bias - norm.running_mean * scale}


def export(network: Network, file: Path) -> None:
    """Write the weights."""
    held = {
        name: value.detach().cpu().numpy().astype(np.float16)
        for name, value in arrays_of(network).items()
    }
    np.savez_compressed(file, **held)


def main() -> None:
    folder = Path(sys.argv[1])
    file = (
        Path(sys.argv[2])
        if len(sys.argv) > 2
        else Path(shipped.__file__).with_name(shipped.WEIGHTS_FILE)
    )
    network = Network()
    network.load_state_dict(torch.load(folder / "state.pt", weights_only=True)["network"])
    export(network.eval(), file)
    print(f"{file}: {file.stat().st_size / 1e6:.2f} MB")


if __name__ == "__main__":
    main()
