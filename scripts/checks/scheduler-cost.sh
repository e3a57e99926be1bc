#!/usr/bin/env bash
# What the scheduler costs per step (plan, build, commit) with an executor that does nothing.
set -euo pipefail
cd "$(dirname "$0")/../.."
. scripts/lib.sh

build_preset release scheduler_bench
build/release/bench/scheduler/scheduler_bench | tee /dev/stderr | awk '
  /16 sequences at/ && !/256/ { us = $0; sub(/.*turn */, "", us); if (us + 0 > few) few = us + 0 }
  /256 sequences at/ { us = $0; sub(/.*: turn */, "", us); if (us + 0 > many) many = us + 0 }
  END {
    ok = few > 0 && many > 0 && few <= 30 && many <= 250
    printf "scheduler-cost: %.1f us at 16 sequences, %.1f us at 256 with 4k context each (goal 30 and 250): %s\n",
           few, many, ok ? "ok" : "short"
    exit !ok
  }'
