#!/usr/bin/env bash
# What gRPC and text cost beside the engine: throughput, CPU per token, first token. Arguments: rounds, parts (null first 135m 1.1b).
set -euo pipefail
cd "$(dirname "$0")/../.."
. scripts/lib.sh

fetch_model
build_preset release penstock front_bench
rounds=${1:-3}
exec python3 -B scripts/checks/grpc_overhead.py build/release/cli/penstock \
  build/release/bench/grpc/front_bench "$MODEL" "$rounds" "${@:2}"
