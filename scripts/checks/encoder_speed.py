"""Sentences a second of the same token ids: Penstock's engine, ONNX Runtime, sentence-transformers.

That the outputs are equal is seen from Penstock's server, which is given the text.
"""

import json
import os
import random
import statistics
import subprocess
import tempfile
import time

import numpy as np
import onnxruntime
from tokenizers import Tokenizer

from measuring import median, speed
from serving import serving

MODEL, ONNX = "models/all-MiniLM-L6-v2", "models/bench/all-MiniLM-L6-v2.onnx"
PENSTOCK = "build/release/cli/penstock"
INPUTS, MOST_TOKENS, ROUNDS = 256, 250, 7
WORDS = ("water power river turbine valley stone energy winter spring engine model music garden letter window "
         "market doctor silver planet forest bridge sailor coffee mirror number signal thunder village").split()


def make_sentences():
    """Lengths are log-normal: most are short, some fill the model."""
    draw = random.Random(1)
    lengths = [min(MOST_TOKENS, max(2, int(draw.lognormvariate(3.2, 0.9)))) for _ in range(INPUTS)]
    return [" ".join(draw.choices(WORDS, k=length)) for length in lengths]


class OnnxRuntime:
    """Sorted by length, so that a batch has little padding; the better graph, the best size of a batch."""

    def __init__(self, sentences):
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = os.cpu_count()
        tokenizer = Tokenizer.from_file(f"{MODEL}/tokenizer.json")
        tokenizer.no_padding()
        tokenizer.enable_truncation(256)
        self.ids = [encoding.ids for encoding in tokenizer.encode_batch(sentences)]
        settings = []
        for path in (ONNX, ONNX.replace(".onnx", ".fused.onnx")):
            self.session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
            self.seconds(32)  # once to warm up
            settings += [(min(self.seconds(size), self.seconds(size)), size, path, self.session)
                         for size in (8, 16, 32, 64)]
        _, self.batch, self.graph, self.session = min(settings, key=lambda setting: setting[0])

    def seconds(self, batch):
        begin = time.perf_counter()
        self.embed(batch)
        return time.perf_counter() - begin

    def embed(self, batch):
        order = sorted(range(len(self.ids)), key=lambda i: len(self.ids[i]))
        vectors = [None] * len(order)
        for first in range(0, len(order), batch):
            chosen = order[first:first + batch]
            longest = max(len(self.ids[i]) for i in chosen)
            ids = np.zeros((len(chosen), longest), np.int64)
            mask = np.zeros_like(ids)
            for row, i in enumerate(chosen):
                ids[row, :len(self.ids[i])] = self.ids[i]
                mask[row, :len(self.ids[i])] = 1
            states = self.session.run(None, {"input_ids": ids, "attention_mask": mask})[0]
            means = (states * mask[..., None]).sum(1) / mask.sum(1, keepdims=True)
            for row, i in enumerate(chosen):
                vectors[i] = means[row] / np.linalg.norm(means[row])
        return vectors


def penstock_vectors(sentences):
    with serving(PENSTOCK, MODEL) as server:
        run = subprocess.run([PENSTOCK, "embed", "--address", server.address], input="\n".join(sentences) + "\n",
                             capture_output=True, text=True, check=True)
    return [json.loads(line)["values"] for line in run.stdout.splitlines()]


def penstock_rate(path):
    case = f"encode:{path}"
    return median(speed(MODEL, [case], trials=1, most=1)[case], "texts_per_s")


def sentence_transformers_rate(sentences):
    try:
        import sentence_transformers
        import torch
    except ImportError:
        return None
    torch.set_num_threads(os.cpu_count())
    model = sentence_transformers.SentenceTransformer(MODEL, device="cpu")
    seconds = []
    for _ in range(2):
        begin = time.perf_counter()
        model.encode(sentences, batch_size=32)
        seconds.append(time.perf_counter() - begin)
    return len(sentences) / min(seconds)


def main():
    sentences = make_sentences()
    peer = OnnxRuntime(sentences)
    tokens = sum(map(len, peer.ids))
    vectors = penstock_vectors(sentences)
    cosine = min(float(np.dot(a, b)) for a, b in zip(vectors, peer.embed(peer.batch)))
    ratios, ours, theirs = [], [], []
    with tempfile.NamedTemporaryFile("w", suffix=".ids") as file:
        file.writelines(" ".join(map(str, ids)) + "\n" for ids in peer.ids)
        file.flush()
        for _ in range(ROUNDS):
            ours.append(penstock_rate(file.name))
            theirs.append(2 * INPUTS / (peer.seconds(peer.batch) + peer.seconds(peer.batch)))
            ratios.append(ours[-1] / theirs[-1])
    ratio = statistics.median(ratios)
    print(f"{INPUTS} sentences of {tokens / INPUTS:.0f} tokens on average; worst cosine {cosine:.7f}")
    print(f"  Penstock                      {statistics.median(ours):7.1f} sentences/s")
    print(f"  ONNX Runtime, batches of {peer.batch:<3}  {statistics.median(theirs):7.1f}; "
          f"{'fused' if 'fused' in peer.graph else 'plain'} graph; ratios {' '.join(f'{r:.2f}' for r in ratios)}")
    other = sentence_transformers_rate(sentences)
    if other:
        print(f"  sentence-transformers         {other:7.1f} (with its tokenizer)")
    ok = ratio >= 1.3 and cosine >= 0.9999
    print(f"encoder-speed: {ratio:.2f} x ONNX Runtime, cosine {cosine:.6f} (goal 1.3, 0.9999): {'ok' if ok else 'short'}")
    raise SystemExit(0 if ok else 1)


main()
