#!/usr/bin/env python3
"""Writes the reference's embeddings of a few texts, for check_embeddings.

    pip install torch 'transformers==4.57.*' numpy
    tests/golden/make_embedding_reference.py FOLDER > tests/data/reference/NAME.json

FOLDER is a model of the BERT family with its tokenizer whose sentence-transformers files ask for the
normalized mean, as those of all-MiniLM-L6-v2 do. The reference is transformers on the CPU in float32, one
text at a time, mean and length in float64.
"""

import json
import pathlib
import sys

import torch
import transformers

TEXTS = [
    "Hello",
    "A penstock is the pipe that carries water to a row of turbines.",
    "The cat sits outside while the dog sleeps.",
    "Eine Katze sitzt draußen, während der Hund schläft.",
    "東京は日本の首都です。",
    "3.14159, 2.71828 and 1.41421!?",
    "def add(a, b):\n    return a + b",
    "Ünïcödé, naïve café — “quotes” and emoji 🙂 too",
    "Inference servers pack sequences of different lengths without padding. " * 3,
    "It was the best of times, it was the worst of times, it was the age of wisdom, it was the age of "
    "foolishness, it was the epoch of belief, it was the epoch of incredulity. " * 4,
    "water " * 300,
    "",
]


@torch.no_grad()
def embed(model, ids):
    rows = model(input_ids=torch.tensor([ids])).last_hidden_state[0].double()
    mean = rows.mean(0)
    return (mean / mean.norm()).tolist()


def main():
    folder = pathlib.Path(sys.argv[1])
    longest = json.loads((folder / "sentence_bert_config.json").read_text())["max_seq_length"]
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model = transformers.AutoModel.from_pretrained(folder).float().eval()
    entries = []
    for text in TEXTS:
        ids = tokenizer(text, truncation=True, max_length=longest)["input_ids"]
        entries.append(dict(text=text, ids=ids, embedding=[round(x, 7) for x in embed(model, ids)]))
    json.dump(dict(model=folder.name, entries=entries), sys.stdout)
    print()


if __name__ == "__main__":
    main()
