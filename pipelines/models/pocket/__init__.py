"""Pocket: a very small vision-language network bundled with looktwice, which needs only numpy."""
