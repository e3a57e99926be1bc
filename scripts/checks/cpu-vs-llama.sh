#!/usr/bin/env bash
# The engine against llama.cpp's, the same weights, 2 threads each (10 minutes, quiet machine; bench/setup-peers.sh)
set -euo pipefail
cd "$(dirname "$0")/../.."
. scripts/lib.sh

build_preset release speed_bench limits_bench
fetch_model
[ -x build/peers/llama-bench ] || bench/setup-peers.sh llama || {
  echo "cpu-vs-llama: llama.cpp cannot be installed (goal 0): short"
  exit 1
}
[ -s models/bench/1.1b-bf16.gguf ] || {
  [ -x build/venv-peers/bin/python ] || bench/setup-peers.sh python || true
  build/venv-peers/bin/python bench/peers/make_models.py
}
exec python3 -B scripts/checks/cpu_vs_llama.py "$@"
