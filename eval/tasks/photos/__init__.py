"""Questions on scikit-image's photographs, with answers known by construction."""
