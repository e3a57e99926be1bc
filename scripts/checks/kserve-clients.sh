#!/usr/bin/env bash
# Triton's own clients, unchanged, against the language model and the encoder (2 minutes; bench/setup-peers.sh kserve)
set -euo pipefail
cd "$(dirname "$0")/../.."
. scripts/lib.sh

build_preset release penstock
fetch_model
fetch_encoder
bench/setup-peers.sh kserve
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
build/venv-kserve/bin/python -B scripts/checks/kserve_clients.py build/release/cli/penstock "$MODEL" "$ENCODER" \
  "$folder" | tee "$folder/log"
report_gates kserve-clients 6 "$folder/log"
