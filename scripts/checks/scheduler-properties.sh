#!/usr/bin/env bash
# Random workloads on planner and batcher: no leak, budgets kept, nothing lost, results equal solo runs.
set -euo pipefail
cd "$(dirname "$0")/../.."
. scripts/lib.sh

build_preset release scheduler_test
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
status=0
build/release/tests/scheduler/scheduler_test --gtest_filter='*PropertyTest*' \
  --gtest_output="json:$folder/result.json" >"$folder/log" 2>&1 || status=$?
[ $status = 0 ] || grep -A8 Failure "$folder/log" | head -60
python3 - "$folder/result.json" <<'PYTHON'
import json, sys
result = json.load(open(sys.argv[1]))
steps = {}
for suite in result["testsuites"]:
    count = sum(int(case.get("steps", 0)) for case in suite["testsuite"])
    print(f"{suite['name']}: {suite['tests']} cases, {count} steps, {suite['failures']} failures, {suite['time']}")
    steps[suite["name"]] = count
ok = result["failures"] == 0 and len(steps) >= 2 and all(count >= 100_000 for count in steps.values())
print(f"scheduler-properties: {result['failures']} failures in {sum(steps.values())} steps "
      f"(goal 0 in at least 100000 of each of planner and batcher): {'ok' if ok else 'short'}")
sys.exit(not ok)
PYTHON
