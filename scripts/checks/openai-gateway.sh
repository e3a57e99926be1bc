#!/usr/bin/env bash
# OpenAI's client through the SMG gateway (1 minute; bench/setup-peers.sh gateway)
set -euo pipefail
cd "$(dirname "$0")/../.."
. scripts/lib.sh

build_preset release penstock
fetch_model
bench/setup-peers.sh gateway
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
build/venv-gateway/bin/python -B scripts/checks/openai_gateway.py build/release/cli/penstock "$MODEL" | tee "$folder/log"
report_gates openai-gateway 6 "$folder/log"
