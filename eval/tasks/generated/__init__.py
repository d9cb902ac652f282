"""Do You See Me drawn anew: a module for each kind of scene, over one canvas."""
