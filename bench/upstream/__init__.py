"""Specialists compared with their authors' own code: the results of both on a photograph, and their
difference.

`rows.py` lists them; `side.py` runs the authors' code in a separate process, since repositories
need their own packages. Not here: the table (`bench/upstream_table.py`), and the record of small
networks that the tests read (`bench/upstream_networks.py`).
"""
