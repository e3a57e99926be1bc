#!/usr/bin/env bash
# Measures everything in one run and writes report.md and report.json: the machine's limits, the engine, the server
# over gRPC, scaling over threads and ranks, and the peers that bench/setup-peers.sh has installed.
#
#   bench/suite.sh [--quick] [--out FOLDER]     build/bench-report; 20 minutes, 3 with --quick, on a quiet machine
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/lib.sh

build_preset release penstock speed_bench limits_bench
fetch_model
PYTHONPATH=scripts/checks exec python3 -B bench/suite.py "$@"
