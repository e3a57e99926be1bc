#!/usr/bin/env bash
# Shards are killed, stopped and cut off in every phase under 100 streams; none may fail or change.
#
#   shard-loss.sh [RUNS [SEED]]   RUNS: 50; below 48 not every (shard, fault, phase) is covered
#
# Needs network namespaces (root) for the runs with two hosts, gRPC for Python, and about ten minutes.
set -euo pipefail
cd "$(dirname "$0")/../.."
. scripts/lib.sh

build_preset release penstock
fetch_model
bench/setup-peers.sh client
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -B tests/golden/make_tiny_model.py "$folder/model"
build/venv-client/bin/python -B scripts/checks/shard_loss.py build/release/cli/penstock "$folder/model" "$MODEL" \
  "${1:-50}" "${2:-1}"
