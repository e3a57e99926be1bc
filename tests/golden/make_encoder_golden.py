#!/usr/bin/env python3
"""Makes the tiny random encoders under tests/data/encoders and the reference's results for them.

    pip install torch 'transformers==4.57.*' safetensors numpy
    tests/golden/make_encoder_golden.py [NAME...]

Each folder has config.json, model.safetensors, for some the files of sentence-transformers, and
golden.safetensors: lengths [seqs] i32, input_ids and token_types [rows] i32 with the sequences back to
back, and outputs [seqs, width] f32: embeddings, or the classifier's logits. The reference is transformers on the CPU in float32 with eager attention, one
sequence at a time, from the weights as stored. Everything follows from the seed below.
"""

import json
import pathlib
import sys

import numpy as np
import torch
import transformers
from safetensors.numpy import save_file as save_numpy
from safetensors.torch import save_file

ROOT = pathlib.Path(__file__).resolve().parent.parent / "data" / "encoders"
SEED = 20250611
LENGTHS = [1, 7, 33, 2, 16, 40, 5]

BERT = dict(vocab_size=97, hidden_size=32, intermediate_size=56, num_hidden_layers=2,
            num_attention_heads=4, max_position_embeddings=48)
ROBERTA = {**BERT, "max_position_embeddings": 50, "type_vocab_size": 1, "pad_token_id": 1,
           "layer_norm_eps": 1e-5}
DISTILBERT = dict(vocab_size=97, dim=32, hidden_dim=56, n_layers=2, n_heads=4,
                  max_position_embeddings=48)


class Case:
    """An encoder: its class, what its configuration says, how it is stored, spelled and pooled."""

    def __init__(self, family, head, stored=torch.float32, pooling=None, normalize=False,
                 max_seq_length=None, base_prefix=None, old_norms=False, **config):
        self.family, self.head, self.stored = family, head, stored
        self.pooling, self.normalize, self.max_seq_length = pooling, normalize, max_seq_length
        self.base_prefix, self.old_norms = base_prefix, old_norms
        base = {"Bert": BERT, "DistilBert": DISTILBERT}.get(family, ROBERTA)
        self.config = {**base, **config}


CLASSIFY = "ForSequenceClassification"
LABELS3 = {0: "no", 1: "maybe", 2: "yes"}
CASES = {
    "bert-mean": Case("Bert", "Model"),
    "bert-cls-normalized": Case("Bert", "Model", torch.float16, pooling="cls", normalize=True,
                                max_seq_length=40, hidden_act="gelu_new"),
    "bert-classify": Case("Bert", CLASSIFY, id2label=LABELS3),
    "bert-uneven": Case("Bert", "Model", torch.bfloat16, pooling="mean", normalize=True,
                        base_prefix="bert", old_norms=True, hidden_size=60, intermediate_size=100,
                        num_hidden_layers=5, num_attention_heads=3, type_vocab_size=3),
    "roberta-mean": Case("Roberta", "Model", hidden_act="gelu_pytorch_tanh", base_prefix="model"),
    "roberta-classify": Case("Roberta", CLASSIFY, torch.float16, id2label=LABELS3,
                             problem_type="multi_label_classification"),
    "xlm-roberta-cls": Case("XLMRoberta", "Model", pooling="cls", hidden_act="relu"),
    "xlm-roberta-rerank": Case("XLMRoberta", CLASSIFY, id2label={0: "LABEL_0"}),
    "distilbert-mean": Case("DistilBert", "Model", pooling="mean"),
    "distilbert-classify": Case("DistilBert", CLASSIFY, torch.bfloat16, activation="relu"),
}


def make_model(case, generator):
    """A reference model whose weights are large enough that any slip shows in the results."""
    config = getattr(transformers, case.family + "Config")(**case.config,
                                                           attn_implementation="eager")
    model = getattr(transformers, case.family + case.head)(config).float().eval()
    for name, tensor in model.named_parameters():
        if "norm" in name.lower() and name.endswith("weight"):
            value = 0.5 + torch.rand(tensor.shape, generator=generator)
        else:
            std = 1.0 if "embed" in name else 0.25
            value = std * torch.randn(tensor.shape, generator=generator)
        tensor.data = value.to(case.stored).float()
    return model


def json_config(case):
    model_type = getattr(transformers, case.family + "Config").model_type
    config = {key: value for key, value in case.config.items()}
    if "id2label" in config:
        config["id2label"] = {str(key): value for key, value in config["id2label"].items()}
    out = dict(architectures=[case.family + case.head], model_type=model_type, **config)
    if case.stored != torch.float32:
        out["torch_dtype"] = str(case.stored).removeprefix("torch.")
    return out


def save_weights(case, model, folder):
    tensors = {}
    for name, value in model.state_dict().items():
        if "position_ids" in name:
            continue
        if case.base_prefix:
            name = f"{case.base_prefix}.{name}"
        if case.old_norms:
            name = name.replace("LayerNorm.weight", "LayerNorm.gamma")
            name = name.replace("LayerNorm.bias", "LayerNorm.beta")
        tensors[name] = value.to(case.stored).contiguous()
    save_file(tensors, folder / "model.safetensors", {"format": "pt"})


def write_json(path, value):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value, indent=1) + "\n")


def save_sentence_transformers(case, folder):
    if case.pooling is None:
        return
    kinds = [("Transformer", ""), ("Pooling", "1_Pooling")]
    if case.normalize:
        kinds.append(("Normalize", "2_Normalize"))
    write_json(folder / "modules.json",
               [dict(idx=i, name=str(i), path=path, type="sentence_transformers.models." + kind)
                for i, (kind, path) in enumerate(kinds)])
    on = {"cls": "cls_token", "mean": "mean_tokens"}[case.pooling]
    modes = {f"pooling_mode_{mode}": mode == on
             for mode in ("cls_token", "mean_tokens", "max_tokens", "mean_sqrt_len_tokens")}
    write_json(folder / "1_Pooling" / "config.json",
               dict(word_embedding_dimension=32, **modes))
    if case.max_seq_length:
        write_json(folder / "sentence_bert_config.json",
                   dict(max_seq_length=case.max_seq_length, do_lower_case=False))


@torch.no_grad()
def reference(case, model, generator):
    """Per sequence: ids, token types, result."""
    types = 0 if case.family == "DistilBert" else model.config.type_vocab_size
    for length in LENGTHS:
        ids = torch.randint(3, case.config["vocab_size"], (1, length), generator=generator)
        kinds = torch.randint(0, max(types, 1), (1, length), generator=generator).sort().values
        inputs = dict(input_ids=ids, output_hidden_states=True)
        if types:
            inputs["token_type_ids"] = kinds
        output = model(**inputs)
        rows = output.hidden_states[-1][0]
        if case.head == CLASSIFY:
            result = output.logits[0]
        else:
            result = rows[0] if case.pooling == "cls" else rows.mean(0)
            if case.normalize:
                result = torch.nn.functional.normalize(result, dim=0)
        yield ids[0].numpy(), kinds[0].numpy(), result.numpy()


def main():
    for number, (name, case) in enumerate(CASES.items()):
        if sys.argv[1:] and name not in sys.argv[1:]:
            continue
        generator = torch.Generator().manual_seed(SEED + number)
        folder = ROOT / name
        folder.mkdir(parents=True, exist_ok=True)
        model = make_model(case, generator)
        write_json(folder / "config.json", json_config(case))
        save_weights(case, model, folder)
        save_sentence_transformers(case, folder)
        ids, kinds, results = zip(*reference(case, model, generator))
        save_numpy({"lengths": np.array(LENGTHS, np.int32),
                    "input_ids": np.concatenate(ids).astype(np.int32),
                    "token_types": np.concatenate(kinds).astype(np.int32),
                    "outputs": np.stack(results)},
                   folder / "golden.safetensors")
        spread = np.abs(np.stack(results) - np.stack(results)[0]).max()
        assert spread > 0.05, f"{name}: all results are alike"
        print(f"{name}: width {len(results[0])}, spread {spread:.2f}")


if __name__ == "__main__":
    main()
