#!/usr/bin/env python3
"""Writes a tiny random Llama with a byte-level tokenizer, as a Hugging Face folder: make_tiny_model.py
FOLDER. Needs nothing but Python; always writes the same bytes. For checks of serving, where the model
must be quick and what it says does not matter.
"""

import array
import json
import os
import random
import struct
import sys

HIDDEN, LAYERS, HEADS, KV_HEADS, HEAD_DIM, INTERMEDIATE = 96, 4, 6, 3, 16, 128
SPECIAL = ["<|end|>", "<|begin|>", "<|other|>"]
MERGES = ["t h", "th e", "i n", "e r", "a n", "r e", "o n", "Ġ t", "Ġ the", "Ġ a"]


def byte_alphabet():
    """GPT-2's printable stand-ins for the 256 bytes."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    spare = iter(range(256, 512))
    return [chr(byte if byte in printable else next(spare)) for byte in range(256)]


def tokenizer():
    tokens = SPECIAL + byte_alphabet() + [merge.replace(" ", "") for merge in MERGES]
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    return {
        "version": "1.0", "truncation": None, "padding": None,
        "added_tokens": [
            {"id": i, "content": text, "single_word": False, "lstrip": False, "rstrip": False,
             "normalized": False, "special": True} for i, text in enumerate(SPECIAL)],
        "normalizer": None, "pre_tokenizer": byte_level, "post_processor": None, "decoder": byte_level,
        "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
                  "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False,
                  "ignore_merges": False, "vocab": {text: i for i, text in enumerate(tokens)},
                  "merges": MERGES},
    }


def config(vocab):
    return {
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu",
        "hidden_size": HIDDEN, "num_hidden_layers": LAYERS, "num_attention_heads": HEADS,
        "num_key_value_heads": KV_HEADS, "head_dim": HEAD_DIM, "intermediate_size": INTERMEDIATE,
        "vocab_size": vocab, "max_position_embeddings": 512, "rms_norm_eps": 1e-5, "rope_theta": 10000.0,
        "tie_word_embeddings": False, "attention_bias": False, "mlp_bias": False,
        "bos_token_id": 1, "eos_token_id": 0, "torch_dtype": "float32",
    }


def shapes(vocab):
    yield "model.embed_tokens.weight", (vocab, HIDDEN)
    for layer in range(LAYERS):
        prefix = f"model.layers.{layer}."
        yield prefix + "input_layernorm.weight", (HIDDEN,)
        yield prefix + "self_attn.q_proj.weight", (HEADS * HEAD_DIM, HIDDEN)
        yield prefix + "self_attn.k_proj.weight", (KV_HEADS * HEAD_DIM, HIDDEN)
        yield prefix + "self_attn.v_proj.weight", (KV_HEADS * HEAD_DIM, HIDDEN)
        yield prefix + "self_attn.o_proj.weight", (HIDDEN, HEADS * HEAD_DIM)
        yield prefix + "post_attention_layernorm.weight", (HIDDEN,)
        yield prefix + "mlp.gate_proj.weight", (INTERMEDIATE, HIDDEN)
        yield prefix + "mlp.up_proj.weight", (INTERMEDIATE, HIDDEN)
        yield prefix + "mlp.down_proj.weight", (HIDDEN, INTERMEDIATE)
    yield "model.norm.weight", (HIDDEN,)
    yield "lm_head.weight", (vocab, HIDDEN)


def write_safetensors(path, vocab):
    source, header, data = random.Random(7), {}, bytearray()
    for name, shape in shapes(vocab):
        count = shape[0] * (shape[1] if len(shape) > 1 else 1)
        spread, middle = (0.2, 0.0) if len(shape) > 1 else (0.05, 1.0)
        values = array.array("f", (middle + spread * (2 * source.random() - 1) for _ in range(count)))
        begin = len(data)
        data += values.tobytes()
        header[name] = {"dtype": "F32", "shape": list(shape), "data_offsets": [begin, len(data)]}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)


def main():
    folder = sys.argv[1]
    os.makedirs(folder, exist_ok=True)
    vocab = len(SPECIAL) + 256 + len(MERGES)
    for name, value in (("config.json", config(vocab)), ("tokenizer.json", tokenizer())):
        with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
            json.dump(value, file, ensure_ascii=False)
    write_safetensors(os.path.join(folder, "model.safetensors"), vocab)


if __name__ == "__main__":
    main()
