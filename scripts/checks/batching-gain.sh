#!/usr/bin/env bash
# What batching, chunked prefill and the prefix cache are worth: each against what it replaces, in one run.
#
#   batching-gain.sh [ROUNDS]
set -euo pipefail
cd "$(dirname "$0")/../.."
. scripts/lib.sh

build_preset release penstock
fetch_model
fetch_encoder
exec python3 -B scripts/checks/batching_gain.py build/release/cli/penstock "$MODEL" "$ENCODER" "${1:-2}"
