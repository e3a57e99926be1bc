#!/usr/bin/env python3
"""Makes the tiny random checkpoints under tests/data/models and the reference's logits for them.

    pip install torch 'transformers==4.57.*' safetensors numpy
    tests/golden/make_model_golden.py [NAME...]

Each folder has config.json, the weights (model.safetensors, or shards and an index), and
golden.safetensors: input_ids [tokens] i32, logits [tokens, vocab] f32 at every position, and greedy
[n] i32, the reference's greedy continuation of input_ids. The reference is transformers on the CPU in
float32 with eager attention, from the weights as stored. Everything follows from the seed below.
"""

import json
import pathlib
import sys

import numpy as np
import torch
import transformers
from safetensors.numpy import save_file as save_numpy
from safetensors.torch import save_file

ROOT = pathlib.Path(__file__).resolve().parent.parent / "data" / "models"
SEED = 20240531
GREEDY_TOKENS = 12

BASE = dict(vocab_size=97, hidden_size=32, intermediate_size=56, num_hidden_layers=2,
            num_attention_heads=4, max_position_embeddings=128, rms_norm_eps=1e-5,
            rope_theta=10000.0, tie_word_embeddings=False, bos_token_id=1, eos_token_id=2)
WIDE = dict(head_dim=16, num_key_value_heads=2)  # enough frequencies to see what scaling does


class Case:
    """A checkpoint: its family, what its configuration says, how it is stored and spelled."""

    def __init__(self, family, stored=torch.float32, newer=False, shards=1, tokens=40, **config):
        self.family, self.stored, self.newer, self.shards = family, stored, newer, shards
        self.tokens, self.config = tokens, {**BASE, **config}


CASES = {
    "llama-mha": Case("llama"),
    "llama-gqa-tied-llama3": Case(
        "llama", **WIDE, tie_word_embeddings=True, eos_token_id=[2, 5],
        rope_scaling=dict(rope_type="llama3", factor=4.0, low_freq_factor=1.0, high_freq_factor=4.0,
                          original_max_position_embeddings=32)),
    "llama-linear": Case("llama", torch.float16, **WIDE,
                         rope_scaling=dict(type="linear", factor=4.0)),
    "llama-yarn": Case(
        "llama", torch.bfloat16, tokens=90, newer=True, **{**WIDE, "rope_theta": 100.0},
        max_position_embeddings=256,
        rope_scaling=dict(rope_type="yarn", factor=4.0, original_max_position_embeddings=64,
                          beta_fast=4.0)),
    "llama-yarn-mscale": Case(
        "llama", torch.float16, tokens=90, **{**WIDE, "rope_theta": 100.0},
        max_position_embeddings=256,
        rope_scaling=dict(rope_type="yarn", factor=4.0, original_max_position_embeddings=64,
                          beta_fast=4.0, mscale=1.0, mscale_all_dim=0.5, truncate=False)),
    "llama-dynamic": Case("llama", torch.bfloat16, **WIDE,
                          rope_scaling=dict(rope_type="dynamic", factor=2.0)),
    "llama-bias": Case("llama", attention_bias=True, mlp_bias=True, newer=True),
    "llama-uneven": Case(  # 9 heads over 3 KV heads, as SmolLM2-135M, and layers to cut into stages
        "llama", torch.bfloat16, vocab_size=200, hidden_size=72, intermediate_size=96,
        num_hidden_layers=5, num_attention_heads=9, num_key_value_heads=3, tie_word_embeddings=True),
    "mistral-window": Case("mistral", torch.bfloat16, num_key_value_heads=2, sliding_window=8,
                           head_dim=16),
    "qwen2": Case("qwen2", num_key_value_heads=2, shards=3, rope_theta=1000000.0),
    "qwen2-window": Case("qwen2", torch.float16, num_key_value_heads=2, num_hidden_layers=3,
                         use_sliding_window=True, sliding_window=6, max_window_layers=1, newer=True),
    "qwen3": Case("qwen3", num_key_value_heads=2, head_dim=16, tie_word_embeddings=True,
                  newer=True),
    "qwen3-bias": Case("qwen3", torch.bfloat16, num_key_value_heads=4, head_dim=12,
                       attention_bias=True),
}

FAMILIES = {
    "llama": (transformers.LlamaConfig, transformers.LlamaForCausalLM),
    "mistral": (transformers.MistralConfig, transformers.MistralForCausalLM),
    "qwen2": (transformers.Qwen2Config, transformers.Qwen2ForCausalLM),
    "qwen3": (transformers.Qwen3Config, transformers.Qwen3ForCausalLM),
}


def make_model(case, generator):
    """A reference model whose weights are large enough that any slip shows in the logits."""
    config_class, model_class = FAMILIES[case.family]
    model = model_class(config_class(**case.config, attn_implementation="eager")).float().eval()
    for name, tensor in model.named_parameters():
        if name.endswith("norm.weight"):
            value = 0.5 + torch.rand(tensor.shape, generator=generator)
        else:
            std = 1.0 if "embed" in name else 0.25
            value = std * torch.randn(tensor.shape, generator=generator)
        tensor.data = value.to(case.stored).float()
    return model


def json_config(case, model_class):
    """config.json in the older or the newer spelling."""
    out = dict(architectures=[model_class.__name__], model_type=case.family, hidden_act="silu",
               **case.config)
    dtype = str(case.stored).removeprefix("torch.")
    if not case.newer:
        return {**out, "torch_dtype": dtype}
    scaling = out.pop("rope_scaling", None) or {"rope_type": "default"}
    out["rope_parameters"] = {"rope_theta": out.pop("rope_theta"), **scaling}
    return {**out, "dtype": dtype}


def save_weights(case, model, folder):
    tensors = {name: value.to(case.stored).contiguous() for name, value in model.state_dict().items()
               if not (case.config["tie_word_embeddings"] and name == "lm_head.weight")}
    if case.shards == 1:
        save_file(tensors, folder / "model.safetensors", {"format": "pt"})
        return
    weight_map = {}
    for i in range(case.shards):
        name = f"model-{i + 1:05}-of-{case.shards:05}.safetensors"
        part = dict(list(tensors.items())[i::case.shards])
        save_file(part, folder / name, {"format": "pt"})
        weight_map.update({tensor: name for tensor in part})
    size = sum(t.numel() * t.element_size() for t in tensors.values())
    index = {"metadata": {"total_size": size}, "weight_map": weight_map}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index, indent=1) + "\n")


@torch.no_grad()
def reference(model, case, generator):
    ids = torch.randint(3, case.config["vocab_size"], (1, case.tokens), generator=generator)
    logits = model(ids).logits[0]
    greedy, so_far = [], ids
    for _ in range(GREEDY_TOKENS):
        token = model(so_far).logits[0, -1].argmax()
        greedy.append(int(token))
        so_far = torch.cat([so_far, token.view(1, 1)], dim=1)
    return ids[0], logits, greedy


@torch.no_grad()
def layout_error(model, ids, logits):
    """How wrong the logits get when q and k are taken for the interleaved rotary layout."""
    head_dim = model.model.layers[0].self_attn.head_dim
    order = torch.arange(head_dim).view(-1, 2).t().reshape(-1)
    for layer in model.model.layers:
        for projection in (layer.self_attn.q_proj, layer.self_attn.k_proj):
            rows = projection.weight.view(-1, head_dim, projection.weight.shape[1])
            projection.weight.data = rows[:, order].reshape(projection.weight.shape).contiguous()
    return float((model(ids[None]).logits[0] - logits).abs().max() / logits.abs().max())


def main():
    for number, (name, case) in enumerate(CASES.items()):
        if sys.argv[1:] and name not in sys.argv[1:]:
            continue
        generator = torch.Generator().manual_seed(SEED + number)
        folder = ROOT / name
        folder.mkdir(parents=True, exist_ok=True)
        model = make_model(case, generator)
        config = json_config(case, FAMILIES[case.family][1])
        (folder / "config.json").write_text(json.dumps(config, indent=1) + "\n")
        save_weights(case, model, folder)
        ids, logits, greedy = reference(model, case, generator)
        save_numpy({"input_ids": ids.numpy().astype(np.int32), "logits": logits.numpy(),
                    "greedy": np.array(greedy, np.int32)}, folder / "golden.safetensors")
        error = layout_error(model, ids, logits)
        assert error > 0.05, f"{name} would not notice a wrong rotary layout"
        print(f"{name}: max |logit| {logits.abs().max():.2f}, wrong layout {error:.2f}")


if __name__ == "__main__":
    main()
