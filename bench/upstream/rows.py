"""All rows of the table."""

from bench.upstream import detection, features, maps, masks, matching

ROWS = [*matching.ROWS, *features.ROWS, *maps.ROWS, *masks.ROWS, *detection.ROWS]
# networks of `bench/upstream_networks.py`: the specialist that opens the file, and the repository
NETWORKS = {
    "depth_anything_v1": ("`DepthAnything`, version 1", "LiheYoung/Depth-Anything"),
    "depth_anything_v2": ("`DepthAnything`, version 2", "DepthAnything/Depth-Anything-V2"),
    "dinov2": ("`DINOv2`", "facebookresearch/dinov2"),
    "dinov2_registers": ("`DINOv2`, registers", "facebookresearch/dinov2"),
    "grounding_dino": ("`GroundingDINO`", "IDEA-Research/GroundingDINO"),
    "sam": ("`SAM`", "facebookresearch/segment-anything"),
    "sam_hq": ("`SAM`, SAM-HQ", "SysCV/sam-hq"),
    "sam2": ("`SAM`, SAM 2.1", "facebookresearch/sam2"),
    "efficient_loftr": ("`KeypointMatcher`, EfficientLoFTR", "zju3dv/EfficientLoFTR"),
}
NOT_RUN = [
    (
        "`DepthAnything` with ZoeDepth, Depth Pro, DPT or GLPN",
        "their authors' repositories",
        "files of these are not read",
    ),
    ("`MarigoldAlbedo`", "prs-eth/Marigold", "its files are diffusers'"),
    ("`ColorRetinex`", "its authors' MATLAB code", "no MATLAB"),
    ("any network with its released weights, but for those above", "", "no hub could be reached"),
]
