from .table import Table as Table, score_table as score_table
