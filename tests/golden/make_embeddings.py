#!/usr/bin/env python3
"""Makes the reference of the `encoder` check with transformers, in float32 on the CPU.

    pip install torch 'transformers==4.57.*' numpy
    tests/golden/make_embeddings.py models/all-MiniLM-L6-v2

Embeds tests/data/embeddings/sentences.txt, one sentence at a time, as sentence-transformers does: at most
max_seq_length tokens, the mean of the last hidden states, unit length. Writes
tests/data/embeddings/all-MiniLM-L6-v2.f16: float16 little-endian [sentences, 384].
"""

import json
import pathlib
import sys

import numpy
import torch
from transformers import AutoModel, AutoTokenizer

DATA = pathlib.Path(__file__).resolve().parent.parent / "data" / "embeddings"


def main():
    model_path = pathlib.Path(sys.argv[1])
    settings = json.loads((model_path / "sentence_bert_config.json").read_text())
    tokenizer = AutoTokenizer.from_pretrained(model_path)
    model = AutoModel.from_pretrained(model_path, attn_implementation="eager").eval()
    rows = []
    for sentence in (DATA / "sentences.txt").read_text().split("\n")[:-1]:
        inputs = tokenizer(
            sentence, truncation=True, max_length=settings["max_seq_length"], return_tensors="pt"
        )
        with torch.no_grad():
            mean = model(**inputs).last_hidden_state[0].mean(dim=0)
        rows.append(torch.nn.functional.normalize(mean, dim=0).numpy())
    vectors = numpy.stack(rows).astype("<f2")
    vectors.tofile(DATA / (model_path.name + ".f16"))
    print(vectors.shape)


if __name__ == "__main__":
    main()
