#!/usr/bin/env bash
# Throughput beside one more busy process, over that without; an argument is the number of rounds.
set -euo pipefail
cd "$(dirname "$0")/../.."
. scripts/lib.sh

fetch_model
build_preset release penstock front_bench
exec python3 -B scripts/checks/contention.py build/release/cli/penstock \
  build/release/bench/grpc/front_bench "$MODEL" "${1:-3}"
