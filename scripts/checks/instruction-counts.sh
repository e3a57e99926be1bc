#!/usr/bin/env bash
# Instructions of fixed workloads against the recorded baseline; exact, whatever else the machine does (--record: a new baseline).
set -euo pipefail
cd "$(dirname "$0")/../.."
. scripts/lib.sh

command -v valgrind >/dev/null || { echo "instruction-counts: needs valgrind (scripts/setup.sh test)" >&2; exit 2; }
build_preset release instruction_bench
exec python3 -B scripts/checks/instruction_counts.py build/release/bench/instructions/instruction_bench "$@"
