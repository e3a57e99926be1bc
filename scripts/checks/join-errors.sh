#!/usr/bin/env bash
# Leaders and workers that cannot work together (version, token, TLS, model, memory, address) say so once, soon.
set -euo pipefail
cd "$(dirname "$0")/../.."
. scripts/lib.sh

build_preset release penstock
bench/setup-peers.sh client
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -B tests/golden/make_tiny_model.py "$folder/model"
build/venv-client/bin/python -B scripts/checks/join_errors.py build/release/cli/penstock "$folder/model" \
  tests/data/models/llama-mha
