from .sift import SIFT as SIFT, RotationSearch as RotationSearch
