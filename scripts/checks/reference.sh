#!/usr/bin/env bash
# Greedy tokens and distributions of the real model against the reference implementation's.
#
# Compares with the committed output of transformers. With --live it also runs transformers now, in an
# environment of its own (some GiB to fetch), and prints the KL divergence over the whole vocabulary.
set -euo pipefail
cd "$(dirname "$0")/../.."
. scripts/lib.sh

build_preset release check_reference
fetch_model
check=build/release/tests/tools/check_reference
if [ "${1:-}" != --live ]; then
  exec "$check" "$MODEL" tests/data/reference
fi

venv=build/venv-reference
if ! "$venv/bin/python" -c 'import torch, transformers, gguf, accelerate' 2>/dev/null; then
  python3 -m venv "$venv"
  "$venv/bin/pip" install -q torch transformers gguf accelerate numpy
fi
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"$venv/bin/python" tests/golden/make_reference.py "$MODEL" --logits "$folder/reference.f32"
status=0
"$check" "$MODEL" tests/data/reference "$folder/penstock.f32" >"$folder/figures" || status=$?
"$venv/bin/python" - "$folder" <<'PYTHON'
import sys
import numpy
reference, penstock = (numpy.memmap(f"{sys.argv[1]}/{name}.f32", "<f4") for name in ("reference", "penstock"))
vocab = 49152
kl, agreed, steps = 0.0, 0, reference.size // vocab
for i in range(steps):
    p, q = (numpy.asarray(x[i * vocab:(i + 1) * vocab], "f8") for x in (reference, penstock))
    agreed += int(p.argmax() == q.argmax())
    p, q = (x - x.max() for x in (p, q))
    p, q = (x - numpy.log(numpy.exp(x).sum()) for x in (p, q))
    kl += float((numpy.exp(p) * (p - q)).sum())
print(f"live: {steps} steps, top-1 agreement {100 * agreed / steps:.2f} %, mean KL over the whole vocabulary {kl / steps:.2e}")
PYTHON
cat "$folder/figures"
exit $status
