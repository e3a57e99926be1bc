#!/usr/bin/env bash
# Random workloads on planner and batcher: no leak, budgets kept, nothing lost, results equal solo runs.
set -euo pipefail
cd "$(dirname "$0")/../.."
. scripts/lib.sh

build_preset release scheduler_test batcher_test
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
for program in scheduler batcher; do
  build/release/tests/$program/${program}_test --gtest_filter='*PropertyTest*' \
    --gtest_output="json:$folder/$program.json" >"$folder/log" 2>&1 || grep -A8 Failure "$folder/log" | head -60
done
python3 - "$folder/scheduler.json" "$folder/batcher.json" <<'PYTHON'
import json, sys
failures, steps = 0, {}
for name in sys.argv[1:]:
    result = json.load(open(name))
    failures += result["failures"]
    for suite in result["testsuites"]:
        count = sum(int(case.get("steps", 0)) for case in suite["testsuite"])
        print(f"{suite['name']}: {suite['tests']} cases, {count} steps, {suite['failures']} failures, {suite['time']}")
        steps[suite["name"]] = count
short = [name for name in ("Seeds/SchedulerPropertyTest", "BatcherPropertyTest") if steps.get(name, 0) < 100_000]
ok = failures == 0 and not short
print(f"scheduler-properties: {failures} failures in {sum(steps.values())} steps "
      f"(goal 0 in at least 100000 of each of planner and batcher): {'ok' if ok else 'short'}")
sys.exit(not ok)
PYTHON
