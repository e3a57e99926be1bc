"""Runs the benchmark programs one after the other and writes what they found; see suite.sh."""

import argparse
import json
import os
import platform
import statistics
import subprocess
import time

from measuring import BUILD, limits, median, run, speed
from serving import serving
from suite_report import format_report

DEMO = "models/SmolLM2-135M-Instruct.Q4_1.gguf"
PENSTOCK = f"{BUILD}/cli/penstock"


def revision():
    done = subprocess.run(["git", "describe", "--always", "--dirty"], capture_output=True, text=True)
    return done.stdout.strip() or "unknown"


def figures(trials):
    """Medians of a case's trials, and how far they are apart."""
    rates = [trial["tokens_per_s"] for trial in trials]
    return {"tokens_per_s": statistics.median(rates), "least": min(rates), "most": max(rates),
            "of_bandwidth": median(trials, "of_bandwidth"), "gflops": median(trials, "gflops"),
            "bandwidth": median(trials, "bandwidth_before"), "trials": len(rates)}


def engine(models, quick):
    rows = []
    trials = 1 if quick else 3
    for model in models:
        decode = [f"decode:{n}:128:{32 if model == '1.1b' else 96}" for n in ((1, 16) if quick else (1, 4, 8, 16, 32, 64))]
        cases = decode + ["prefill:512"] + ([] if quick else ["prefill:2048", "decode:1:4096:32", "decode:8:4096:32"])
        for dtype, compute in (("f16", "auto"), ("bf16", "bf16")):
            result = speed(model, cases, trials, dtype=dtype, compute=compute)
            load = result["load"]
            rows += [{"model": model, "dtype": dtype, "case": case, **figures(result[case])} for case in cases]
            rows.append({"model": model, "dtype": dtype, "case": "load", "seconds": load["seconds"],
                         "resident": load["resident_bytes"], "planned": load["planned_bytes"]})
    return rows


def scaling(models, quick):
    """One rank of one thread, and what two threads, two tensor ranks and two stages make of it."""
    rows = []
    for model in models:
        base = None
        for name, options in (("1 thread", {"threads": 1}), ("2 threads", {"threads": 2}),
                              ("tensor 2", {"threads": 1, "tensor": 2}), ("pipeline 2", {"threads": 1, "pipeline": 2})):
            result = speed(model, ["prefill:2048", "decode:16:128:64"], 1 if quick else 3, dtype="f16", **options)
            row = {case.split(":")[0]: median(result[case]) for case in ("prefill:2048", "decode:16:128:64")}
            base = base or row
            rows.append({"model": model, "ranks": name, **row,
                         "prefill_ratio": row["prefill"] / base["prefill"], "decode_ratio": row["decode"] / base["decode"]})
    return rows


def server(quick):
    rows = []
    with serving(PENSTOCK, DEMO, "--prefix-cache=false") as running:
        for clients in (1, 16) if quick else (1, 4, 16, 64):
            report = running.bench("--concurrency", clients, "--requests", max(8, 2 * clients), "--prompt-tokens", 128,
                                   "--output-tokens", 64)
            rows.append({"clients": clients, "tokens_per_s": report["throughput"]["output_tokens_per_s"],
                         "ttft_ms": percentiles(report, "ttft"), "itl_ms": percentiles(report, "itl")})
    return rows


def percentiles(report, name):
    latency = report["latency_seconds"][name]
    return {p: 1000 * latency[p] for p in ("p50", "p99")}


def peers(quick):
    """The checks that compare, as they print it; those whose peer is not installed are left out."""
    found = []
    if os.access("build/peers/llama-bench", os.X_OK) and not quick:
        found.append("cpu-vs-llama")
    if os.access("build/venv-peers/bin/python", os.X_OK):
        found.append("encoder-speed")
    results = {}
    for check in found:
        print(f"  {check}", flush=True)
        done = subprocess.run(["scripts/check.sh", check], capture_output=True, text=True)
        results[check] = done.stdout.strip() or done.stderr.strip()[-1000:]
    return results


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--out", default="build/bench-report")
    arguments = parser.parse_args()
    os.makedirs(arguments.out, exist_ok=True)
    models = ["135m"] if arguments.quick else ["135m", "1.1b"]
    peak, machine = limits()
    report = {"date": time.strftime("%Y-%m-%d %H:%M"), "revision": revision(), "system": platform.platform(),
              "machine": machine, "limits": peak}
    for name, measure in (("engine", lambda: engine(models, arguments.quick)),
                          ("scaling", lambda: scaling(models, arguments.quick)),
                          ("server", lambda: server(arguments.quick)),
                          ("peers", lambda: peers(arguments.quick))):
        print(f"{name}", flush=True)
        report[name] = measure()
    with open(f"{arguments.out}/report.json", "w") as file:
        json.dump(report, file, indent=1)
    with open(f"{arguments.out}/report.md", "w") as file:
        file.write(format_report(report))
    print(f"written: {arguments.out}/report.md and report.json")


main()
