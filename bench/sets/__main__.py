"""Prints the table of comparisons: `python -m bench.sets CLONES`, a folder of clones named
owner+name/repo."""

import sys
from pathlib import Path

from bench.sets.rows import COMPARISONS, compare

clones = Path(sys.argv[1])
print("| set | code | compared | replies | largest difference | their failures |")
print("|---|---|---|---|---|---|")
for row in COMPARISONS:
    code = f"{row.source.repository}@{row.source.commit}"
    if not row.source.is_there(clones):
        print(f"| {row.name} | {code} | not there | | | |")
        continue
    result = compare(row, clones)
    cells = (row.name, code, row.what, result.count, f"{result.largest:g}", result.failures)
    print("|", " | ".join(map(str, cells)), "|", result.first)
