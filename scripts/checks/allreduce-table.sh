#!/usr/bin/env bash
# Ring, gather-at-root and rank-ordered sums at 2, 4 and 8 ranks over capped links: throughput and share of a step.
#
# Each rank is a process in a network namespace of its own (root). Some minutes.
set -euo pipefail
cd "$(dirname "$0")/../.."
. scripts/lib.sh

build_preset release all_reduce_rank
python3 -B scripts/checks/allreduce_table.py build/release/bench/comm/all_reduce_rank
