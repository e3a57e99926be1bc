"""Counts the instructions of each workload of a program with callgrind and compares them with
bench/instructions/baseline.json: instruction_counts.py PROGRAM [--record]

A count is the same in every run, so the tolerance is not for noise but for library versions, and for
changes too small to argue about. A count that falls beyond it has to be recorded too: a later slowdown
could hide in what was won. Counts of another compiler mean nothing, so they are not compared.
"""

import concurrent.futures
import json
import os
import re
import shutil
import subprocess
import sys

NAME = "instruction-counts"
BASELINE = "bench/instructions/baseline.json"
FUNCTION = "penstock_counted"
TOLERANCE_PERCENT = {"": 3, "encode/": 5, "decode/": 5, "scheduler/": 5}  # by the name's beginning
SECONDS = 300


class Problem(Exception):
    """What ends the check without a figure."""


def describe(program):
    answer = subprocess.run([program], capture_output=True, text=True, check=True, timeout=SECONDS)
    return json.loads(answer.stdout)


def count(program, workload):
    """Instructions within FUNCTION, with an empty environment: its size would move the stack."""
    command = [shutil.which("valgrind"), "--tool=callgrind", "--callgrind-out-file=/dev/null",
               f"--toggle-collect={FUNCTION}", program, workload]
    done = subprocess.run(command, capture_output=True, text=True, env={}, timeout=SECONDS,
                          check=False)
    found = re.search(r"Collected : (\d+)", done.stderr)
    if done.returncode != 0 or not found or found[1] == "0":
        raise Problem(f"{workload}: {done.stderr.strip()[-600:]}")
    return int(found[1])


def count_all(program, workloads):
    with concurrent.futures.ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        return dict(zip(workloads, pool.map(lambda name: count(program, name), workloads)))


def made_with(build):
    """What decides the counts, but for the compiler's minor version."""
    return (f"{build['compiler']} {build['compiler_version'].split('.')[0]} on {build['processor']}")


def tolerance(baseline, workload):
    fitting = [prefix for prefix in baseline["tolerance_percent"] if workload.startswith(prefix)]
    return baseline["tolerance_percent"][max(fitting, key=len)]


def verdict(baseline, workload, counted):
    """The change in percent and what is wrong with it, if anything."""
    recorded = baseline["instructions"].get(workload)
    if recorded is None:
        return None, "not recorded: --record"
    percent = 100 * (counted - recorded) / recorded
    if percent > tolerance(baseline, workload):
        return percent, "MORE than allowed"
    if percent < -tolerance(baseline, workload):
        return percent, "fewer; keep what was won: --record"
    return percent, ""


def compare(baseline, counts):
    """Prints all; the number of workloads that are not as recorded."""
    wrong, largest = 0, 0.0
    for workload, counted in counts.items():
        percent, what = verdict(baseline, workload, counted)
        recorded = baseline["instructions"].get(workload, 0)
        change = "" if percent is None else f"{percent:+.2f} %"
        print(f"{workload:24} {counted:12,} {recorded:12,} {change:>10}  {what}".rstrip())
        wrong += what != ""
        largest = max(largest, percent or 0.0, key=abs)
    for workload in sorted(set(baseline["instructions"]) - set(counts)):
        print(f"{workload:24} is recorded, but there is no such workload: --record")
        wrong += 1
    return wrong, largest


def record(build, counts):
    kept = {key: build[key] for key in ("compiler", "compiler_version", "processor", "flags", "isa")}
    with open(BASELINE, "w", encoding="utf-8") as file:
        json.dump({**kept, "tolerance_percent": TOLERANCE_PERCENT, "instructions": counts}, file, indent=1)
        file.write("\n")
    print(f"{NAME}: {len(counts)} workloads recorded in {BASELINE} (goal a baseline): ok")


def check(program, recording):
    build = describe(program)
    if recording:
        record(build, count_all(program, build["workloads"]))
        return True
    with open(BASELINE, encoding="utf-8") as file:
        baseline = json.load(file)
    if made_with(build) != made_with(baseline):
        for workload, counted in count_all(program, build["workloads"]).items():
            print(f"{workload:24} {counted:12,}")
        print(f"{NAME}: counted with {made_with(build)}, the baseline with {made_with(baseline)} "
              "(goal the same counts): ok (other compiler: not compared)")
        return True
    for key in ("flags", "isa"):
        if build[key] != baseline[key]:
            raise Problem(f"built with {key} '{build[key]}', the baseline with '{baseline[key]}'")
    counts = count_all(program, build["workloads"])
    wrong, largest = compare(baseline, counts)
    print(f"{NAME}: {wrong} of {len(counts)} workloads are not as recorded, the largest change is "
          f"{largest:+.2f} % (goal 0): {'short' if wrong else 'ok'}")
    return wrong == 0


def main(arguments):
    if len(arguments) not in (1, 2) or arguments[1:] not in ([], ["--record"]):
        print(__doc__.split("\n\n")[0], file=sys.stderr)
        return 2
    try:
        return 0 if check(arguments[0], len(arguments) == 2) else 1
    except (Problem, OSError, subprocess.SubprocessError) as problem:
        print(f"{NAME}: {problem}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
