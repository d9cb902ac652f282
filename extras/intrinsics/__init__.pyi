from .ordinal_shading import OrdinalShading as OrdinalShading
