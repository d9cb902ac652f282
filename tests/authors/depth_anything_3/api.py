"""The face of depth_anything_3: its names, signatures and sizes, over a network that takes what is
red for far."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import cv2
import numpy as np
import torch


class DepthAnything3(torch.nn.Module):  # type: ignore[misc]
    def __init__(self, model_name: str = "da3-large", **kwargs: Any) -> None:
        super().__init__()
        if model_name != "da3mono-large":
            raise KeyError(model_name)
        self.scale = torch.nn.Parameter(torch.ones(2))
        self.again = self.scale  # one tensor under two names, which safetensors stores once

    def inference(
        self,
        image: list[Any],
        extrinsics: Any = None,
        intrinsics: Any = None,
        align_to_input_ext_scale: bool = True,
        infer_gs: bool = False,
        use_ray_pose: bool = False,
        ref_view_strategy: str = "saddle_balanced",
        render_exts: Any = None,
        render_ixts: Any = None,
        render_hw: Any = None,
        process_res: int = 504,
        process_res_method: str = "upper_bound_resize",
        export_dir: str | None = None,
        export_format: str = "mini_npz",
        export_feat_layers: Any = None,
        conf_thresh_percentile: float = 40.0,
        num_max_points: int = 1_000_000,
        show_cameras: bool = True,
        feat_vis_fps: int = 15,
        export_kwargs: Any = None,
    ) -> Any:
        """Distances (n, h, w) on the scale of all views together, and on one that is drawn."""
        views = []
        for pixels in image:
            assert pixels.dtype == np.uint8
            scale = process_res / max(pixels.shape[:2])
            rows, columns = (max(1, round(side * scale / 14)) * 14 for side in pixels.shape[:2])
            far, size = pixels[..., 0] / 255.0 + 1, (columns, rows)
            views.append(cv2.resize(far, size, interpolation=cv2.INTER_LINEAR))
        seen = np.stack(views)
        depth = seen * float(self.scale[0]) + float(torch.rand(())) + np.mean(seen)
        return SimpleNamespace(depth=depth.astype(np.float32), is_metric=0)
