"""What the checks of speed share: running the benchmark programs, medians, gates."""

import json
import os
import statistics
import subprocess

BUILD = "build/release"


def run(command, env=None):
    """The standard output of a program that must succeed."""
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True,
                          env={**os.environ, **(env or {})})
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(map(str, command))} failed:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return done.stdout


def limits():
    """What the machine can do with all its processors, and what it is."""
    report = json.loads(run([f"{BUILD}/bench/limits/limits_bench", "--json"]))
    return report["limits"][-1], report["machine"]


def speed(model, cases, trials=3, most=0, **options):
    """Trials of bench/speed: {case: [trial, ...]}, those that were disturbed only where all were."""
    command = [f"{BUILD}/bench/speed/speed_bench", "--model", model, "--trials", trials]
    if most:
        command += ["--most", most]
    for name, value in options.items():
        command += ["--" + name, value]
    lines = [json.loads(line) for line in run(command + list(cases)).splitlines()]
    result = {line["case"]: line for line in lines if line["case"] == "load"}
    for case in cases:
        every = [line for line in lines if line["case"] == case]
        kept = [line for line in every if line["kept"]]
        if len(kept) < trials and len(every) > trials:
            print(f"  ({case}: {len(kept)} of {len(every)} trials undisturbed)", flush=True)
        result[case] = kept or every
    return result


def median(trials, figure="tokens_per_s"):
    return statistics.median(trial[figure] for trial in trials)


def spread(values):
    """Half of the distance from the least to the largest, of the median."""
    values = list(values)
    return (max(values) - min(values)) / 2 / statistics.median(values)


def bandwidth(trial):
    return (trial["bandwidth_before"] + trial["bandwidth_after"]) / 2


def paired_ratios(above, below, figure="tokens_per_s", most_drift=0.1):
    """Ratios of trials that saw about the same memory bandwidth; of all, when none did."""
    pairs = [(a, b) for a in above for b in below]
    alike = [(a, b) for a, b in pairs if abs(bandwidth(a) / bandwidth(b) - 1) <= most_drift]
    return [a[figure] / b[figure] for a, b in alike or pairs]


class Gates:
    """Figures with a gate and a goal; report() prints the check's last line."""

    def __init__(self, name):
        self.name, self.rows = name, []

    def least(self, what, figure, gate, goal):
        self._add(what, figure, gate, goal, figure >= gate, figure >= goal, ">=")

    def most(self, what, figure, gate, goal):
        self._add(what, figure, gate, goal, figure <= gate, figure <= goal, "<=")

    def _add(self, what, figure, gate, goal, ok, reached, sign):
        self.rows.append(ok)
        verdict = "goal reached" if reached else "ok" if ok else "SHORT"
        print(f"  {what:<52} {figure:8.3f}   {sign} {gate:g} (goal {goal:g}): {verdict}", flush=True)

    def report(self, extra=""):
        short = self.rows.count(False)
        ok = self.rows and not short
        print(f"{self.name}: {short} of {len(self.rows)} figures short{extra} (goal 0): "
              f"{'ok' if ok else 'short'}")
        raise SystemExit(0 if ok else 1)
