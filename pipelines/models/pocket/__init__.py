"""Pocket: a very small vision-language network that comes with looktwice and needs nothing but
numpy."""
