#!/usr/bin/env python3
"""Makes the reference data of the `demo` and `reference` checks with transformers, in float32 on the CPU.

    make_reference.py MODEL.gguf --out tests/data     rewrites what is committed
    make_reference.py MODEL.gguf --logits FILE        writes the teacher-forced logits of the committed
                                                      sequences, float32 [sequences * steps, vocab]

Needs torch, transformers, accelerate and gguf (scripts/check.sh reference --live makes such an
environment). Written are:

demo/transcript.json     a chat prompt, its ids, the greedy continuation up to the end token, its text
reference/smollm2.json   30 prompts, 64 greedy tokens each (the end token is one like any other), and by
                         how much each token's logit exceeds the runner-up's
reference/smollm2.top    for each of these tokens the 32 largest log-probabilities, as (uint16 id, float32)
                         little-endian, largest first, sequences and steps in order
"""

import argparse
import json
import os
import struct

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

HERE = os.path.dirname(os.path.abspath(__file__))
SYSTEM = "You are a helpful AI assistant named SmolLM, trained by Hugging Face"
DEMO_QUESTION = "How do plants make food?"
DEMO_TOKENS = 128
STEPS = 64
TOP = 32


def chat(question):
    """The model's chat template, spelled out."""
    return (
        f"<|im_start|>system\n{SYSTEM}<|im_end|>\n"
        f"<|im_start|>user\n{question}<|im_end|>\n<|im_start|>assistant\n"
    )


def prompts():
    with open(os.path.join(HERE, "prompts.txt"), encoding="utf-8") as file:
        for line in file.read().splitlines():
            kind, text = line.split("|", 1)
            yield chat(text) if kind == "chat" else text.replace("\\n", "\n")


def greedy(model, ids, steps, end=None):
    """The tokens and their logits rows, [steps, vocab]; stops behind `end`."""
    past, feed, tokens, rows = None, torch.tensor([ids]), [], []
    for _ in range(steps):
        out = model(feed, past_key_values=past, use_cache=True)
        past, row = out.past_key_values, out.logits[0, -1].float()
        tokens.append(int(row.argmax()))
        rows.append(row)
        if tokens[-1] == end:
            break
        feed = torch.tensor([[tokens[-1]]])
    return tokens, torch.stack(rows)


def margins(rows):
    top = rows.topk(2).values
    return (top[:, 0] - top[:, 1]).tolist()


def write_json(path, value):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        json.dump(value, file, ensure_ascii=False, separators=(",", ":"))
        file.write("\n")


def write_demo(model, tokenizer, folder):
    text = chat(DEMO_QUESTION)
    ids = tokenizer(text, add_special_tokens=False).input_ids
    tokens, rows = greedy(model, ids, DEMO_TOKENS, tokenizer.eos_token_id)
    write_json(os.path.join(folder, "demo/transcript.json"), {
        "question": DEMO_QUESTION, "prompt": text, "prompt_ids": ids, "ids": tokens,
        "text": tokenizer.decode(tokens, skip_special_tokens=True),
        "smallest_margin": round(min(margins(rows)), 4)})


def write_sequences(model, tokenizer, folder):
    sequences, top = [], bytearray()
    for text in prompts():
        ids = tokenizer(text, add_special_tokens=False).input_ids
        tokens, rows = greedy(model, ids, STEPS)
        sequences.append({"text": text, "prompt": ids, "tokens": tokens,
                          "margins": [round(m, 5) for m in margins(rows)]})
        for values, indices in zip(*rows.log_softmax(-1).topk(TOP)):
            for value, index in zip(values.tolist(), indices.tolist()):
                top += struct.pack("<Hf", index, value)
        print(f"{len(sequences):2} {min(margins(rows)):.4f} {tokenizer.decode(tokens)!r}", flush=True)
    write_json(os.path.join(folder, "reference/smollm2.json"), {"sequences": sequences})
    with open(os.path.join(folder, "reference/smollm2.top"), "wb") as file:
        file.write(top)


def write_logits(model, path):
    with open(os.path.join(HERE, "../data/reference/smollm2.json"), encoding="utf-8") as file:
        sequences = json.load(file)["sequences"]
    with open(path, "wb") as file:
        for sequence in sequences:
            ids = sequence["prompt"] + sequence["tokens"][:-1]
            rows = model(torch.tensor([ids])).logits[0, len(sequence["prompt"]) - 1:]
            file.write(rows.float().contiguous().numpy().tobytes())


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("model")
    parser.add_argument("--out", help="the folder tests/data")
    parser.add_argument("--logits", help="a file for the teacher-forced logits")
    arguments = parser.parse_args()
    folder, name = os.path.split(os.path.abspath(arguments.model))
    model = AutoModelForCausalLM.from_pretrained(folder, gguf_file=name, dtype=torch.float32)
    tokenizer = AutoTokenizer.from_pretrained(folder, gguf_file=name)
    with torch.no_grad():
        if arguments.out:
            write_demo(model, tokenizer, arguments.out)
            write_sequences(model, tokenizer, arguments.out)
        if arguments.logits:
            write_logits(model, arguments.logits)


if __name__ == "__main__":
    main()
