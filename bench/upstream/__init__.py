"""Each specialist beside its authors' own code: what that gives on a photograph, what ours gives,
how far apart.

`rows.py` lists them, `side.py` runs the authors' code in a process of its own, since repositories
want packages of their own. Not here: the table (`bench/upstream_table.py`), and the record of small
networks that the tests read (`bench/upstream_networks.py`)."""
