#!/usr/bin/env bash
# all-MiniLM on inputs of mixed lengths against ONNX Runtime (1 minute, quiet machine; bench/setup-peers.sh)
set -euo pipefail
cd "$(dirname "$0")/../.."
. scripts/lib.sh

build_preset release penstock speed_bench
fetch_encoder
build/venv-peers/bin/python -c 'import onnxruntime, torch, transformers' 2>/dev/null || bench/setup-peers.sh python || true
[ -s models/bench/all-MiniLM-L6-v2.fused.onnx ] || build/venv-peers/bin/python bench/peers/export_encoder.py
exec build/venv-peers/bin/python -B scripts/checks/encoder_speed.py
