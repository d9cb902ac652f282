"""`python without_operators.py MODULE ARGS`: runs a module although torchvision was built for
another torch.

At import, torchvision describes two operators that such a torch lacks; they are declared here. None
of the programs calls them, and no program is modified.
"""

import runpy
import sys

try:
    import torchvision  # noqa: F401
except RuntimeError:
    import torch

    for name in [name for name in sys.modules if name.startswith("torchvision")]:
        del sys.modules[name]
    DECLARED = torch.library.Library("torchvision", "DEF")
    for operator in ("nms", "qnms"):
        DECLARED.define(f"{operator}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")

if __name__ == "__main__":
    module = sys.argv.pop(1)
    runpy.run_module(module, run_name="__main__", alter_sys=True)
