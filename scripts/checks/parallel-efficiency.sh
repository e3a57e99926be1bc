#!/usr/bin/env bash
# What two ranks gain over one, what their communication costs, and how fast a model is loaded.
#
# A random 1.1B model in f16. Takes some eight minutes, 10 GiB of memory and 2.2 GB of disk, and means
# something only while nothing else runs.
set -euo pipefail
cd "$(dirname "$0")/../.."
. scripts/lib.sh

build_preset release engine_bench load_bench comm_bench
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

run() { # run COMMAND...: 1 (a gate is short) is told by the gate's line
  local status=0
  "$@" | tee -a "$folder/report" || status=$?
  [ $status -le 1 ] || exit $status
}
run build/release/bench/engine/engine_bench 1.1b 3 chunks prefill decode tensor
run build/release/bench/engine/load_bench models/bench/1.1b-f16 3
run build/release/bench/comm/comm_bench 7 8192
awk '/^all-reduce +8192 B/ { match($0, /\([0-9.]+ x/); ratio = substr($0, RSTART + 1, RLENGTH - 3)
       printf "gate: 8 KiB all-reduce of processes %.2f x its spin floor (goal 3): %s\n", ratio, ratio <= 3 ? "ok" : "short" }' \
  "$folder/report" | tee -a "$folder/report"

report_gates parallel-efficiency 12 "$folder/report"
