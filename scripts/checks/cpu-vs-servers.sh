#!/usr/bin/env bash
# Whole servers with the same model and clients: Penstock against llama.cpp's (8 minutes, quiet machine)
#
# vLLM is not compared: its package for CPUs asks for a build of PyTorch that the package index does not have.
set -euo pipefail
cd "$(dirname "$0")/../.."
. scripts/lib.sh

build_preset release penstock
fetch_model
[ -x build/peers/llama-server ] || bench/setup-peers.sh llama
build/venv-client/bin/python -c 'import grpc, grpc_tools' 2>/dev/null || bench/setup-peers.sh client
[ -s models/bench/135m-f16.gguf ] || build/venv-peers/bin/python bench/peers/make_models.py
stubs=$(mktemp -d)
trap 'rm -rf "$stubs"' EXIT
build/venv-client/bin/python -m grpc_tools.protoc -I proto --python_out="$stubs" --grpc_python_out="$stubs" \
  proto/penstock/v1/generation.proto
PYTHONPATH="$stubs" build/venv-client/bin/python -B scripts/checks/cpu_vs_servers.py "$@"
