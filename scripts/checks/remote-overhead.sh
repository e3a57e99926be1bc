#!/usr/bin/env bash
# What a step costs more when its two stages are processes, on shared memory and over loopback TCP.
#
# One sequence of the demo model decodes, one step at a time, by threads and by processes in turn; prints where the
# difference goes. Half a minute; means something only while nothing else runs.
set -euo pipefail
cd "$(dirname "$0")/../.."
. scripts/lib.sh

build_preset release remote_bench penstock
fetch_model
folder=$(mktemp -d)
trap 'kill $(jobs -p) 2>/dev/null || true; rm -rf "$folder"' EXIT
program=$PWD/build/release/cli/penstock
first=127.0.0.1:$(free_port) second=127.0.0.1:$(free_port)
"$program" shard --listen "$first" 2>"$folder/first" &
"$program" shard --listen "$second" 2>"$folder/second" &
build/release/bench/remote/remote_bench "$MODEL" "$program" 5 150 "$first,$second" | tee "$folder/gates"
report_gates remote-overhead 2 "$folder/gates"
