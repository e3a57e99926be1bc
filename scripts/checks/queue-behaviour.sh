#!/usr/bin/env bash
# Queues, timeouts, deadlines, cancels, killed clients, priorities: their tests, and a real server.
#
#   queue-behaviour.sh [BUILD]   BUILD: a folder that is built already, instead of build/release
set -euo pipefail
cd "$(dirname "$0")/../.."
. scripts/lib.sh
goal=50 # ms from a bound to its DEADLINE_EXCEEDED, 99th percentile

tree=${1:-build/release}
[ $# -gt 0 ] || build_preset release penstock check_queue server_test scheduler_test
fetch_model
folder=$(mktemp -d)
server=
trap '[ -z "$server" ] || kill -9 "$server" 2>/dev/null || true; rm -rf "$folder"' EXIT
wrong=0
fail() {
  echo "  WRONG: $*"
  wrong=$((wrong + 1))
}

run_tests() { # run_tests PROGRAM FILTER
  local log=$folder/tests.log
  if "$tree/tests/$1" --gtest_brief=1 --gtest_filter="$2" >"$log" 2>&1; then
    echo "  $(basename "$1"): $(grep -oE 'PASSED.*' "$log" | tr -d ']')"
  else
    tail -40 "$log"
    fail "$1"
  fi
}

start() { # start OPTION...: a server of the demo model at $address
  address=127.0.0.1:$(free_port) metrics=127.0.0.1:$(free_port)
  rm -f "$folder/server.log" # or the last server's line would be found
  "$tree/cli/penstock" serve --model "$MODEL" --pipeline 2 --max-context 2048 --kv-tokens 16384 \
    --max-sequences 4 --listen "$address" --metrics "$metrics" "$@" >"$folder/server.log" 2>&1 &
  server=$!
  until grep -qs '^serving ' "$folder/server.log"; do
    kill -0 "$server" 2>/dev/null || { cat "$folder/server.log" >&2; exit 1; }
    sleep 0.1
  done
}

stop() { # stop EXPECTED: SIGTERM; the exit code must be EXPECTED
  local code=0
  kill -TERM "$server"
  wait "$server" || code=$?
  server=
  echo "  exit code after SIGTERM: $code"
  [ "$code" = "$1" ] || fail "exit code $code instead of $1"
}

used_blocks() {
  python3 - "$metrics" <<'PYTHON'
import re, sys, urllib.request
text = urllib.request.urlopen(f"http://{sys.argv[1]}/metrics", timeout=10).read().decode()
found = re.findall(r'^penstock_kv_cache_blocks\{[^}]*state="used"[^}]*\} (\S+)', text, re.M)
print(int(sum(map(float, found))))
PYTHON
}

expect_no_blocks() { # expect_no_blocks WHAT
  local blocks
  for _ in $(seq 25); do
    blocks=$(used_blocks)
    [ "$blocks" != 0 ] || break
    sleep 0.2
  done
  echo "  KV blocks in use behind $1: $blocks"
  [ "$blocks" = 0 ] || fail "$blocks KV blocks still in use behind $1"
}

measure() { # measure ARGUMENT...: of check_queue; its last line in $last
  local status=0
  "$tree/tests/tools/check_queue" "$address" "$@" >"$folder/out" || status=$?
  last=$(tail -1 "$folder/out")
  echo "  $(head -1 "$folder/out")"
  [ $status = 0 ] || fail "check_queue $*"
}

await_stream() { # await_stream FILE: where a client process tells that its stream has begun
  for _ in $(seq 300); do
    ! grep -qs streaming "$1" || return 0
    sleep 0.1
  done
  fail "no stream within 30 s: $(cat "$1")"
}

kill_clients() { # kill_clients COUNT: processes, each by SIGKILL in the middle of its stream
  local pids=() i pid killed=0
  for i in $(seq "$1"); do
    "$tree/tests/tools/check_queue" "$address" stream >"$folder/stream.$i" 2>&1 &
    pids+=($!)
    if [ ${#pids[@]} = 4 ] || [ "$i" = "$1" ]; then # as many as run at once
      for pid in "${!pids[@]}"; do
        await_stream "$folder/stream.$((i - ${#pids[@]} + 1 + pid))"
        kill -9 "${pids[$pid]}" 2>/dev/null && killed=$((killed + 1))
        wait "${pids[$pid]}" 2>/dev/null || true
      done
      pids=()
    fi
  done
  echo "  $killed client processes killed in the middle of their streams"
  [ "$killed" = "$1" ] || fail "only $killed clients could be killed in mid-stream"
}

echo "tests:"
run_tests server/server_test 'LoadTest.*:LifecycleTest.*:DeadlineTest.*:SlowReaderTest.*:CallDeadlinesTest.*:TimerTest.*:HealthTest.*:*Scheduling*'
run_tests scheduler/scheduler_test '*Router*:PrefixAffinityTest.*:GenerationEstimateTest.*:*Cancel*:*Fairness*:*Deadline*:*Priorit*'

echo "a server with 4 slots:"
start --priority-ageing 2
measure cancels 300
expect_no_blocks "300 cancelled streams"
kill_clients 100
expect_no_blocks "100 killed clients"
measure queue-timeouts 200
read -r queue_p50 queue_p99 <<<"$last"
echo "  queue timeouts: late by p50 $queue_p50 ms, p99 $queue_p99 ms"
measure starvation
expect_no_blocks "all of it"
stop 0

echo "a server with a request timeout of 0.5 s:"
start --request-timeout 0.5
measure request-timeouts 100 0.5
read -r decode_p50 decode_p99 <<<"$last"
echo "  request timeouts: late by p50 $decode_p50 ms, p99 $decode_p99 ms"
expect_no_blocks "100 calls that ran out of time"
stop 0

echo "a server whose grace of 0.5 s runs out:"
start --grace 0.5
"$tree/tests/tools/check_queue" "$address" stream >"$folder/stream" 2>&1 &
client=$!
await_stream "$folder/stream"
stop 3
wait "$client" && fail "the stream that was cut off ended with OK"

p99=$(printf '%s\n' "$queue_p99" "$decode_p99" | sort -g | tail -1)
result=ok
if [ $wrong != 0 ] || awk -v p="$p99" -v g=$goal 'BEGIN {exit !(p > g)}'; then result=short; fi
echo "queue-behaviour: deadlines late by $p99 ms at p99, $wrong things wrong (goal $goal ms, 0): $result"
[ "$result" = ok ]
