#!/usr/bin/env bash
# Sets a bare machine up and passes every test. Prints the time of each phase; exits non-zero if any
# phase failed.
#
#   scripts/test.sh [PHASE]...    setup style format dev clang fuzz asan tsan counts; all by default
#
#   style   layering, sizes, words; needs no build
#   format  clang-format leaves every source as it is
#   dev     GCC, warnings as errors, CUDA where there is a toolkit; all tests (those of NEON emulated)
#   clang   Clang, warnings as errors, -Wthread-safety; built, not run
#   fuzz    Clang with libFuzzer; a short run of each target
#   asan    AddressSanitizer and UndefinedBehaviorSanitizer; the library tests
#   tsan    ThreadSanitizer; the library tests
#   counts  instructions of fixed workloads against a baseline (scripts/check.sh instruction-counts)
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1
. scripts/lib.sh

PHASES=(setup style format dev clang fuzz asan tsan counts)
FUZZ_SECONDS=10

# The test programs of the libraries. Those that speak gRPC are left to the dev phase: most of what they
# wait for is in gRPC, which as packaged no sanitizer sees into.
library_tests() {
  sed -n 's/^ *penstock_test(\([a-z0-9_]*\).*/\1/p' tests/*/CMakeLists.txt | sort |
    grep -vxE 'bench_client_test|cli_test|kserve_test|remote_test|server_test|tei_test|vllm_test'
}

phase_setup() { scripts/setup.sh test; }

phase_style() {
  local failed=0 rule
  for rule in layering sizes words; do
    python3 -B "tests/style/$rule.py" . || failed=1
  done
  return $failed
}

phase_format() {
  git ls-files -co --exclude-standard '*.h' '*.cc' '*.cu' '*.cuh' | grep -v '^tests/data/' |
    xargs -r clang-format-14 --dry-run --Werror 2>&1 | { grep -E ': error: code should' || true; } | cut -d: -f1 | sort | uniq -c |
    awk '{print $2 ": " $1 " places differ from clang-format"; bad = 1} END {exit bad}'
}

# run_tests BUILD [ctest options]: the whole output goes to a file; what matters is printed.
run_tests() {
  local build=$1 log=$1/ctest.log status
  shift
  ctest --test-dir "$build" -j 2 --output-on-failure --no-tests=error "$@" >"$log" 2>&1
  status=$?
  if [ $status -ne 0 ]; then
    grep -B2 -A60 -E '\*\*\*(Failed|Timeout|Exception|Not Run)' "$log" | head -300
  fi
  sed -n '/tests passed/,$p' "$log"
  return $status
}

phase_dev() { build_preset dev && run_tests build/dev; }

phase_clang() { # -O0 without debug information: only the warnings are wanted
  cmake --preset clang -DCMAKE_CXX_FLAGS_DEBUG=-O0 >/dev/null && build_preset clang
}

phase_fuzz() {
  local fuzzer failed=0 log
  cmake --preset clang -B build/fuzz -DPENSTOCK_FUZZERS=ON -DPENSTOCK_SANITIZE=address \
    -DCMAKE_CXX_FLAGS_DEBUG="-O1 -g1" >/dev/null || return 1
  for fuzzer in tests/fuzz/*_fuzz.cc; do
    fuzzer=$(basename "$fuzzer" .cc) log=build/fuzz/fuzz.log
    build_tree build/fuzz "$fuzzer" || return 1
    if (cd build/fuzz && "tests/fuzz/$fuzzer" -max_total_time=$FUZZ_SECONDS) >$log 2>&1; then
      echo "$fuzzer: $(grep -oE 'Done [0-9]+ runs' $log)"
    else
      tail -60 $log >&2
      failed=1
    fi
  done
  return $failed
}

sanitized() { # sanitized PRESET [ctest options]
  local preset=$1 tests label
  shift
  mapfile -t tests < <(library_tests)
  label="^($(IFS='|'; echo "${tests[*]}"))\$"
  build_preset "$preset" "${tests[@]}" && run_tests "build/$preset" -L "$label" "$@"
}

phase_asan() {
  ASAN_OPTIONS=detect_leaks=1 LSAN_OPTIONS=suppressions=$ROOT/scripts/lsan.supp sanitized asan
}
phase_counts() { scripts/check.sh instruction-counts; }
# Without groups over TCP: of the packaged Gloo ThreadSanitizer sees the memory but not the locks.
phase_tsan() { TSAN_OPTIONS=halt_on_error=1:second_deadlock_stack=1 sanitized tsan -E 'Tcp|GlooComm'; }

main() {
  local phase begin rows=() failed=0
  for phase in "${@:-${PHASES[@]}}"; do
    declare -F "phase_$phase" >/dev/null || { echo "test.sh: no phase '$phase' (${PHASES[*]})" >&2; exit 2; }
  done
  [ $# -gt 0 ] || set -- "${PHASES[@]}"
  for phase in "$@"; do
    echo "== $phase"
    begin=$SECONDS
    if "phase_$phase"; then rows+=("$phase $((SECONDS - begin)) ok")
    else rows+=("$phase $((SECONDS - begin)) FAILED") failed=1; fi
    [ "$phase$failed" != setup1 ] || break
  done
  echo "== phases"
  printf '%-8s %6s s  %s\n' $(printf '%s\n' "${rows[@]}")
  printf '%-8s %6s s\n' total "$SECONDS"
  return $failed
}

main "$@"
