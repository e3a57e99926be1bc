"""Writes models/bench/all-MiniLM-L6-v2.onnx: hidden states from input ids and attention mask, in f32.

Beside it, as .fused.onnx, what ONNX Runtime's own optimizer for BERT makes of it: fused attention, GELU and
normalization. Which of the two is faster depends on the machine.
"""

import os
import warnings

import torch
from onnxruntime.transformers import optimizer
from transformers import AutoModel

MODEL, PATH = "models/all-MiniLM-L6-v2", "models/bench/all-MiniLM-L6-v2.onnx"


class States(torch.nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, input_ids, attention_mask):
        return self.model(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state


def main():
    warnings.filterwarnings("ignore")
    os.makedirs(os.path.dirname(PATH), exist_ok=True)
    model = States(AutoModel.from_pretrained(MODEL, attn_implementation="eager").eval())
    ids = torch.ones(2, 8, dtype=torch.long)
    axes = {0: "batch", 1: "length"}
    torch.onnx.export(model, (ids, ids), PATH + ".part", dynamo=False, opset_version=17,
                      input_names=["input_ids", "attention_mask"], output_names=["states"],
                      dynamic_axes={"input_ids": axes, "attention_mask": axes, "states": axes})
    config = model.model.config
    os.rename(PATH + ".part", PATH)
    fused = optimizer.optimize_model(PATH, model_type="bert", num_heads=config.num_attention_heads,
                                     hidden_size=config.hidden_size, opt_level=1)
    print("fused:", {name: count for name, count in fused.get_fused_operator_statistics().items() if count})
    fused.save_model_to_file(PATH.replace(".onnx", ".fused.onnx"))


main()
