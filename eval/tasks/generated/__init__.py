"""Do You See Me generated anew: a module for each kind of scene, over one canvas."""
