#!/usr/bin/env bash
# Shards are held up at random for 15 minutes while they serve; nothing may block for ever or change.
#
#   delay-soak.sh [MINUTES [SEED]]
set -euo pipefail
cd "$(dirname "$0")/../.."
. scripts/lib.sh

build_preset release penstock
bench/setup-peers.sh client
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -B tests/golden/make_tiny_model.py "$folder/model"
build/venv-client/bin/python -B scripts/checks/delay_soak.py build/release/cli/penstock "$folder/model" \
  "${1:-15}" "${2:-1}"
