from .camera_path import CameraPath as CameraPath
from .depth_anything import DepthAnythingViews as DepthAnythingViews
from .views import (
    GeometricMatcher as GeometricMatcher,
    ViewEstimator as ViewEstimator,
    Views as Views,
)
