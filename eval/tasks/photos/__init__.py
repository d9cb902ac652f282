"""Questions from scikit-image's real photographs, with answers known by construction."""
