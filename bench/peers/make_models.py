"""Writes the models that Penstock and its peers are measured with, the same weights for all.

    build/venv-peers/bin/python bench/peers/make_models.py

models/bench/135m-{f16,bf16}.gguf: the demo model, expanded. models/bench/1.1b-{f16,bf16}.gguf: random weights of
TinyLlama's shape, with as much of the demo model's tokenizer as its vocabulary holds. What is there is left alone.
"""

import os
import sys

import gguf
import numpy as np

DEMO = "models/SmolLM2-135M-Instruct.Q4_1.gguf"
FOLDER = "models/bench"
TYPES = {"f16": gguf.GGMLQuantizationType.F16, "bf16": gguf.GGMLQuantizationType.BF16}
FILE_TYPES = {"f16": gguf.LlamaFileType.MOSTLY_F16, "bf16": gguf.LlamaFileType.MOSTLY_BF16}
LARGE = {"hidden": 2048, "layers": 22, "heads": 32, "kv_heads": 4, "intermediate": 5632, "vocab": 32000}


def copy_metadata(reader, writer, vocab, replaced):
    """The demo model's keys, the tokenizer's cut to `vocab` tokens, those in `replaced` with other values."""
    tokens = None
    for name, field in reader.fields.items():
        if name.startswith("GGUF.") or name in ("general.architecture", "general.file_type"):
            continue
        value = replaced.get(name, field.contents())
        if name == "tokenizer.ggml.tokens":
            value = tokens = value[:vocab]
        elif name == "tokenizer.ggml.token_type":
            value = value[:vocab]
        elif name == "tokenizer.ggml.merges":
            known = set(tokens)
            value = [merge for merge in value if merge.replace(" ", "", 1) in known]
        kind = field.types[0]
        if kind == gguf.GGUFValueType.ARRAY:
            writer.add_array(name, value)
        else:
            writer.add_key_value(name, value, kind)


def add(writer, name, values, kind):
    """Matrices in the wanted type, vectors in f32."""
    if values.ndim == 1:
        return writer.add_tensor(name, values.astype(np.float32))
    if kind == "f16":
        return writer.add_tensor(name, values.astype(np.float16))
    bits = gguf.quants.quantize(np.ascontiguousarray(values, dtype=np.float32), TYPES[kind])
    writer.add_tensor(name, bits, raw_dtype=TYPES[kind])


def write(path, kind, reader, vocab, replaced, tensors):
    if os.path.exists(path):
        return
    print(f"writing {path}", flush=True)
    writer = gguf.GGUFWriter(path + ".part", "llama")
    writer.add_file_type(FILE_TYPES[kind])
    copy_metadata(reader, writer, vocab, replaced)
    for name, values in tensors():
        add(writer, name, values, kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    os.rename(path + ".part", path)


def demo_tensors(reader):
    for tensor in reader.tensors:
        values = gguf.quants.dequantize(tensor.data, tensor.tensor_type)
        yield tensor.name, values.astype(np.float16).astype(np.float32)  # what Penstock makes of it


def large_tensors():
    random = np.random.default_rng(1)
    hidden, inner, kv = LARGE["hidden"], LARGE["intermediate"], LARGE["kv_heads"] * 64

    def matrix(rows, columns):
        return (random.standard_normal((rows, columns), dtype=np.float32) * 0.02).astype(np.float16)

    yield "token_embd.weight", matrix(LARGE["vocab"], hidden)
    yield "output.weight", matrix(LARGE["vocab"], hidden)
    yield "output_norm.weight", np.ones(hidden, np.float32)
    for i in range(LARGE["layers"]):
        layer = f"blk.{i}."
        for name in ("attn_norm", "ffn_norm"):
            yield layer + name + ".weight", np.ones(hidden, np.float32)
        yield layer + "attn_q.weight", matrix(hidden, hidden)
        yield layer + "attn_k.weight", matrix(kv, hidden)
        yield layer + "attn_v.weight", matrix(kv, hidden)
        yield layer + "attn_output.weight", matrix(hidden, hidden)
        yield layer + "ffn_gate.weight", matrix(inner, hidden)
        yield layer + "ffn_up.weight", matrix(inner, hidden)
        yield layer + "ffn_down.weight", matrix(hidden, inner)


def main():
    if not os.path.exists(DEMO):
        sys.exit(f"make_models: {DEMO} is missing; scripts/demo.sh fetches it")
    os.makedirs(FOLDER, exist_ok=True)
    reader = gguf.GGUFReader(DEMO)
    vocab = len(reader.fields["tokenizer.ggml.tokens"].contents())
    replaced = {"llama.block_count": LARGE["layers"], "llama.embedding_length": LARGE["hidden"],
                "llama.feed_forward_length": LARGE["intermediate"], "llama.attention.head_count": LARGE["heads"],
                "llama.attention.head_count_kv": LARGE["kv_heads"], "llama.rope.dimension_count": 64,
                "llama.vocab_size": LARGE["vocab"], "llama.context_length": 8192}
    for kind in TYPES:
        write(f"{FOLDER}/135m-{kind}.gguf", kind, reader, vocab, {}, lambda: demo_tensors(reader))
        write(f"{FOLDER}/1.1b-{kind}.gguf", kind, reader, LARGE["vocab"], replaced, large_tensors)


main()
