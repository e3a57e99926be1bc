"""Writes tests/data/checkpoint/quants.gguf with the reference implementation of GGUF (PyPI `gguf`).

For every quantization the file holds a tensor TYPE and, as F32, TYPE.expected: what the reference
makes of it. Types that the reference can quantize are made from normal random numbers; of the others
the blocks are random bytes with sensible scales. The metadata holds one key of every value type.

    python3 -m venv VENV && VENV/bin/pip install gguf==0.19.0
    VENV/bin/python tests/golden/make_checkpoint_golden.py tests/data/checkpoint
"""

import os
import sys

import gguf
import numpy as np
from gguf import GGMLQuantizationType as Type
from gguf import GGUFValueType as Value

ROWS, COLS = 3, 512
QUANTIZED = (Type.F16, Type.BF16, Type.Q8_0, Type.Q4_0, Type.Q4_1, Type.Q5_0, Type.Q5_1)
# Where the fp16 scales of a block of random bytes are.
RANDOM = {Type.Q4_K: (0, 2), Type.Q5_K: (0, 2), Type.Q6_K: (208,)}


def random_blocks(random, kind):
    """Blocks of random bytes, [ROWS, bytes of a row]."""
    elements, size = gguf.GGML_QUANT_SIZES[kind]
    blocks = random.integers(0, 256, (ROWS * COLS // elements, size), dtype=np.uint8)
    for at in RANDOM[kind]:
        scales = random.normal(0, 0.01, (len(blocks), 1)).astype(np.float16)
        blocks[:, at:at + 2] = scales.view(np.uint8)
    return blocks.reshape(ROWS, -1)


def add_metadata(writer):
    """A key of every type the format has."""
    writer.add_key_value("test.u8", 200, Value.UINT8)
    writer.add_key_value("test.i8", -100, Value.INT8)
    writer.add_key_value("test.u16", 60000, Value.UINT16)
    writer.add_key_value("test.i16", -30000, Value.INT16)
    writer.add_key_value("test.u32", 4000000000, Value.UINT32)
    writer.add_key_value("test.i32", -2000000000, Value.INT32)
    writer.add_key_value("test.u64", 1 << 63, Value.UINT64)
    writer.add_key_value("test.i64", -(1 << 62), Value.INT64)
    writer.add_key_value("test.f32", 0.5, Value.FLOAT32)
    writer.add_key_value("test.f64", 0.1, Value.FLOAT64)
    writer.add_key_value("test.bool", True, Value.BOOL)
    writer.add_key_value("test.text", "gr\u00fc\u00dfe", Value.STRING)
    writer.add_array("test.texts", ["a", "", "bc"])
    writer.add_array("test.numbers", [1, -2, 3])


def main():
    random = np.random.default_rng(20)
    writer = gguf.GGUFWriter(os.path.join(sys.argv[1], "quants.gguf"), "golden")
    add_metadata(writer)
    for kind in (*QUANTIZED, *RANDOM):
        if kind in RANDOM:
            stored = random_blocks(random, kind)
        else:
            values = random.normal(0, 1, (ROWS, COLS)).astype(np.float32)
            stored = gguf.quants.quantize(values, kind)
        expected = gguf.quants.dequantize(stored, kind).astype(np.float32)
        writer.add_tensor(kind.name, stored, raw_dtype=kind)
        writer.add_tensor(kind.name + ".expected", expected)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


if __name__ == "__main__":
    main()
