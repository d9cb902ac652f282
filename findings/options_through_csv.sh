#!/usr/bin/env bash
# Answer options that went from parquet through pandas into a CSV file.
#
# Guess: a column of lists is written to CSV as Python or JSON lists, and ast.literal_eval or eval,
#   which evaluation scripts use on option columns, reads it back.
# What happens: pandas reads a parquet list column as numpy arrays, and to_csv writes an array as
#   numpy prints it, without commas: ['red' 'dark blue' 'green']. Python joins neighbouring
#   texts, so literal_eval returns a list of one text, 'reddark bluegreen', without an error.
#   Lists of numbers fail with a SyntaxError; long lists lose their middle to "...".
# Why it matters: data sets with options are handed out as parquet and often passed on as CSV or
#   TSV. A question with one option is scored as 100 % right by a harness that shows "A".
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q --disable-pip-version-check 'pandas==2.3.3' 'pyarrow==22.0.0' 'numpy==2.3.5'
cd "$folder"
venv/bin/python - <<'PYTHON'
import ast

import numpy
import pandas
import pyarrow
from pyarrow import parquet

options = [["red", "dark blue", "green"]]
parquet.write_table(pyarrow.table({"options": options, "sizes": [[1, 2, 3]]}), "set.parquet")
pandas.read_parquet("set.parquet").to_csv("set.csv", index=False)
row = pandas.read_csv("set.csv").iloc[0]
print("pandas", pandas.__version__, "numpy", numpy.__version__, "pyarrow", pyarrow.__version__)
print("written:", row.options, "and", row.sizes)
read = ast.literal_eval(row.options)
print("read back:", read)
try:
    ast.literal_eval(row.sizes)
    numbers = "read"
except SyntaxError as error:
    numbers = f"SyntaxError: {error.msg}"
print("numbers:", numbers)
assert row.options == "['red' 'dark blue' 'green']"
assert read == ["reddark bluegreen"]
assert numbers.startswith("SyntaxError")
long = pandas.Series([numpy.array([f"option {n}" for n in range(2000)], dtype=object)]).to_csv()
print("an array of 2,000 texts takes", len(long), "characters")
assert "..." in long and len(long) < 1000
PYTHON
