#!/usr/bin/env bash
# 64 streams with cancels and malformed requests for 60 s under ASan and TSan; nothing may be reported.
#
#   soak.sh [SECONDS [STREAMS]]
set -euo pipefail
cd "$(dirname "$0")/../.."
. scripts/lib.sh
seconds=${1:-60} streams=${2:-64}

build_preset release check_soak
folder=$(mktemp -d)
server=
trap '[ -z "$server" ] || kill "$server" 2>/dev/null || true; rm -rf "$folder"' EXIT
python3 -B tests/golden/make_tiny_model.py "$folder/model"
export ASAN_OPTIONS=detect_leaks=1:exitcode=66
export UBSAN_OPTIONS=print_stacktrace=1
export TSAN_OPTIONS="exitcode=66:second_deadlock_stack=1:suppressions=$ROOT/scripts/checks/tsan.supp"

used_blocks() { # the number of KV blocks in use
  python3 - "$1" <<'PYTHON'
import re, sys, urllib.request
text = urllib.request.urlopen(f"http://{sys.argv[1]}/metrics", timeout=10).read().decode()
print(int(float(re.search(r'^penstock_kv_cache_blocks\{[^}]*state="used"[^}]*\} (\S+)', text, re.M).group(1))))
PYTHON
}

soak() { # soak PRESET: one server, one soak; its figures on stdout, 1 when something is wrong
  local preset=$1 log=$folder/$1.log address metrics wrong=0 blocks status=0
  address=127.0.0.1:$(free_port) metrics=127.0.0.1:$(free_port)
  build_preset "$preset" penstock
  "build/$preset/cli/penstock" serve --model "$folder/model" --tensor 2 --pipeline 2 --max-context 256 \
    --max-sequences 24 --kv-tokens 2048 --prefill-chunk 16 --listen "$address" --metrics "$metrics" \
    >"$log" 2>&1 &
  server=$!
  until grep -q '^serving ' "$log"; do
    kill -0 "$server" 2>/dev/null || { cat "$log" >&2; return 1; }
    sleep 0.2
  done
  build/release/tests/tools/check_soak "$address" "$seconds" "$streams" || wrong=1
  for _ in $(seq 50); do
    blocks=$(used_blocks "$metrics")
    [ "$blocks" != 0 ] || break
    sleep 0.2
  done
  kill -TERM "$server"
  wait "$server" || status=$?
  server=
  reports=$(grep -cE 'ERROR: AddressSanitizer|LeakSanitizer|runtime error:|WARNING: ThreadSanitizer' "$log" || true)
  echo "$preset: $reports sanitizer reports, $blocks KV blocks left in use, exit status $status"
  if [ "$reports" != 0 ] || [ "$status" != 0 ]; then
    head -150 "$log" >&2
    wrong=1
  fi
  [ "$wrong" = 0 ] && [ "$blocks" = 0 ]
}

bad=0
for preset in asan tsan; do
  soak "$preset" || bad=$((bad + 1))
done
result=ok
[ $bad = 0 ] || result=short
echo "soak: $bad of 2 sanitizers with something wrong (goal 0; $streams streams, $seconds s each): $result"
[ "$result" = ok ]
