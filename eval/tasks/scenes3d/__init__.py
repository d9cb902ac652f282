"""A small ray caster: solids on a textured ground, and what every pixel shows: which solid, how
far, its normal and its reflectance."""
