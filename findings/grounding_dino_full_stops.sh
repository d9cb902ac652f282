#!/usr/bin/env bash
# Grounding DINO's processor and a label with a full stop.
#
# Guess: a list of labels is joined to one text, "cat. dog.", whatever the labels hold.
# What happens: if one label holds a full stop ("st. bernard", "7.5 mm screw"), nothing is joined.
#   A flat list then becomes one text per label, without an error: a batch of two texts for one
#   image. A list of lists, the form for several images, raises an error about the type of `text`.
# Why it matters: object names come from questions and answer options, where full stops are common.
#   A run over many questions either stops at the first of them, or detects each label alone and
#   pairs images with the wrong texts.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q --disable-pip-version-check 'transformers==5.24.0' 'pillow==12.0.0' 'numpy==2.3.5'
"$folder/venv/bin/python" - <<'PYTHON'
import warnings

warnings.filterwarnings("ignore")
import transformers
from transformers import BertTokenizer, GroundingDinoImageProcessorPil, GroundingDinoProcessor

words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", ".", "st", "bernard", "cat", "dog"]
tokenizer = BertTokenizer(vocab={word: number for number, word in enumerate(words)})
processor = GroundingDinoProcessor(GroundingDinoImageProcessorPil(), tokenizer)


def texts(labels):
    try:
        ids = processor(text=labels)["input_ids"]
    except ValueError as error:
        return f"{type(error).__name__}: {error}"
    rows = ids if isinstance(ids[0], list) else [ids]
    return [" ".join(tokenizer.convert_ids_to_tokens(row)) for row in rows]


print("transformers", transformers.__version__)
seen = {}
for labels in (["cat", "dog"], ["st. bernard", "dog"], [["cat", "dog"]], [["st. bernard", "dog"]]):
    seen[str(labels)] = texts(labels)
    print(labels, "->", seen[str(labels)])
plain, stopped, nested, nested_stopped = seen.values()
assert plain == nested == ["[CLS] cat . dog . [SEP]"]
assert stopped == ["[CLS] st . bernard [SEP]", "[CLS] dog [SEP]"], "two texts for one image"
assert isinstance(nested_stopped, str) and "`text` must be a string" in nested_stopped
PYTHON
