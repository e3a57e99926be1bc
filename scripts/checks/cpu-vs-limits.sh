#!/usr/bin/env bash
# The engine on all processors, against what memory and arithmetic units can do (4 minutes, quiet machine)
set -euo pipefail
cd "$(dirname "$0")/../.."
. scripts/lib.sh

build_preset release speed_bench limits_bench
exec python3 -B scripts/checks/cpu_vs_limits.py
