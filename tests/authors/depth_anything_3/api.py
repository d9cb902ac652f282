"""The face of depth_anything_3: its names, signatures and sizes, over a network that takes what is
red for far, and the camera of each further view for one unit further right."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import cv2
import numpy as np
import torch


class DepthAnything3(torch.nn.Module):  # type: ignore[misc]
    def __init__(self, model_name: str = "da3-large", **kwargs: Any) -> None:
        super().__init__()
        if model_name not in ("da3mono-large", "da3-small"):
            raise KeyError(model_name)
        self.model_name = model_name
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
        """Distances (n, h, w) on the scale of all views together, and on one that is drawn; views
        of other sizes are cropped to the smallest."""
        views = [self.input_processor([pixels], process_res=process_res)[0] for pixels in image]
        size = np.min([view.shape[-2:] for view in views], axis=0)
        seen = np.stack([crop(view.numpy()[0, 0], *size) for view in views])
        depth = seen * float(self.scale[0]) + float(torch.rand(())) + np.mean(seen)
        found = SimpleNamespace(depth=depth.astype(np.float32), is_metric=0)
        found.conf = found.extrinsics = found.intrinsics = None
        if self.model_name == "da3-small":
            count = len(image)
            found.conf, found.extrinsics = depth + 1, np.tile(np.eye(4)[:3], (count, 1, 1))
            found.extrinsics[:, 0, 3] = -np.arange(count)
            camera = np.array([[100.0, 0, size[1] / 2], [0, 100, size[0] / 2], [0, 0, 1]])
            found.intrinsics = np.tile(camera, (count, 1, 1))
        return found

    def input_processor(
        self,
        image: list[Any],
        extrinsics: Any = None,
        intrinsics: Any = None,
        process_res: int = 504,
        process_res_method: str = "upper_bound_resize",
        *,
        sequential: bool | None = None,
    ) -> tuple[Any, None, None]:
        """The red of images of one size, 1 to 2, (n, 1, h, w)."""
        views = []
        for pixels in image:
            assert pixels.dtype == np.uint8
            scale = process_res / max(pixels.shape[:2])
            rows, columns = (max(1, round(side * scale / 14)) * 14 for side in pixels.shape[:2])
            far = pixels[..., 0] / 255.0 + 1
            views.append(cv2.resize(far, (columns, rows), interpolation=cv2.INTER_LINEAR))
        return torch.from_numpy(np.stack(views))[:, None], None, None


def crop(view: Any, rows: int, columns: int) -> Any:
    """The middle of a view."""
    top, left = (view.shape[0] - rows) // 2, (view.shape[1] - columns) // 2
    return view[top : top + rows, left : left + columns]
