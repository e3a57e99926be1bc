#!/usr/bin/env bash
# Two pipeline stages on two cores: how much they idle, how even they are, what they gain over one rank.
#
# Engine level with a random 1.1B model (the gates), then the splits that suit each phase of the demo
# model, then the demo model over gRPC. Takes six minutes and 6 GiB, and means something only while
# nothing else runs.
set -euo pipefail
cd "$(dirname "$0")/../.."
. scripts/lib.sh

build_preset release engine_bench penstock
fetch_model
folder=$(mktemp -d)
server=
trap '[ -z "$server" ] || kill "$server" 2>/dev/null || true; rm -rf "$folder"' EXIT
bench=build/release/bench/engine/engine_bench

status=0
"$bench" 1.1b 3 | tee "$folder/gates" || status=$?
[ $status -le 1 ] || exit $status
"$bench" "$MODEL" 3 splits

stages() { # stages METRICS-ADDRESS: each stage's busy and bubble seconds so far
  python3 - "$1" <<'PYTHON'
import re, sys, urllib.request
text = urllib.request.urlopen(f"http://{sys.argv[1]}/metrics", timeout=10).read().decode()
for stage in ("0", "1"):
    print(*(re.search(rf'^penstock_stage_{what}_seconds_total\{{[^}}]*stage="{stage}"[^}}]*\}} (\S+)', text, re.M).group(1)
            for what in ("busy", "bubble")))
PYTHON
}

over_grpc() { # over_grpc WHAT BENCH-OPTION...: the stages' shares of bubbles under a load
  local what=$1
  shift
  stages "$metrics" >"$folder/before"
  build/release/cli/penstock bench --address "$address" --quiet --warm-up 0 "$@" >"$folder/report" ||
    { cat "$folder/report" >&2; return 1; }
  stages "$metrics" >"$folder/after"
  paste -d ' ' "$folder/before" "$folder/after" | awk -v what="$what" '
    { busy = $3 - $1; bubble = $4 - $2; share = 100 * bubble / (busy + bubble)
      shares = shares (NR > 1 ? " and " : "") sprintf("%.1f %%", share) }
    END { printf "  %-50s bubbles %s of the stages'\'' active time\n", what, shares }'
}

address=127.0.0.1:$(free_port) metrics=127.0.0.1:$(free_port)
build/release/cli/penstock serve --model "$MODEL" --pipeline 2 --threads 1 --max-context 4096 \
  --prefix-cache=false --listen "$address" --metrics "$metrics" >"$folder/log" 2>&1 &
server=$!
until grep -q '^serving ' "$folder/log"; do
  kill -0 "$server" 2>/dev/null || { cat "$folder/log" >&2; exit 1; }
  sleep 0.2
done
echo "Over gRPC, demo model, client on the same cores"
over_grpc "16 clients, 128 + 64 tokens" --concurrency 16 --requests 96 --prompt-tokens 128 --output-tokens 64
over_grpc "prompts of 512 tokens only, 8 clients" --concurrency 8 --requests 32 --prompt-tokens 512 --output-tokens 1
over_grpc "arrivals at random, 4 a second, about 128 + 32" --rate 4 --requests 48 \
  --prompt-tokens uniform:64-192 --output-tokens uniform:16-48
{
  for _ in $(seq 8); do echo 0,128,160; done
  echo 1,2048,1
} >"$folder/long.csv"
over_grpc "a prompt of 2,048 tokens among 8 that decode" --trace "$folder/long.csv"
kill -TERM "$server"
wait "$server" || true
server=

report_gates pipeline-bubble 5 "$folder/gates"
