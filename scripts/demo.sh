#!/usr/bin/env bash
# From a bare machine to streamed tokens: installs what is missing, builds Penstock, fetches
# SmolLM2-135M-Instruct, serves it with two pipeline stages and streams an answer.
#
#   scripts/demo.sh               the committed question; the answer must equal the reference's
#   scripts/demo.sh "A question"  your own
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/lib.sh

say() { printf '\033[1m%s\033[0m\n' "$*"; }

say "1. setup"
scripts/setup.sh build
say "2. build (the first time takes minutes)"
begin=$(now)
build_preset release penstock
echo "built in $(seconds_since "$begin") s"
say "3. model"
fetch_model
echo "$MODEL"
say "4. serve with two pipeline stages, and ask"
exec python3 -B scripts/demo_client.py build/release/cli/penstock "$MODEL" "$@"
