"""Penstock's engine against llama.cpp's programs in turns: decoding of 1, 4, 16 sequences, a prompt of 512.

    cpu_vs_llama.py [ROUNDS [MODEL ...]]    3 rounds; 135m and 1.1b
"""

import json
import os
import statistics
import sys

from measuring import BUILD, Gates, run, speed

SEQUENCES = (1, 4, 16)
CONTEXT, OUTPUT, PROMPT = 128, 64, 512
GATES = {"f16": {1: (1.2, 1.5), 4: (1.8, 2.5), 16: (1.7, 2.3), "prompt": (1.25, 1.6)},
         "bf16": {1: (1.2, 1.5), 4: (1.8, 2.5), 16: (1.7, 2.3), "prompt": (1.6, 2.2)}}
MOST_DRIFT = 0.1
# llama.cpp's threads are OpenMP's; bound to cores they are steadier.
TUNED = {"OMP_PROC_BIND": "true", "OMP_PLACES": "cores"}


def sample_bandwidth():
    return float(run([f"{BUILD}/bench/limits/limits_bench", "--bandwidth"]))


def llama_decode(model, sequences, flash):
    output = run(["build/peers/llama-batched-bench", "-m", model, "-npp", CONTEXT, "-ntg", OUTPUT, "-npl", sequences,
                  "-c", sequences * (CONTEXT + OUTPUT), "-t", os.cpu_count(), "-tb", os.cpu_count(), "-fa", flash,
                  "--output-format", "jsonl"], TUNED)
    lines = [json.loads(line) for line in output.splitlines() if line.startswith("{")]
    return lines[-1]["speed_tg"]


def llama_prompt(model, flash):
    output = run(["build/peers/llama-bench", "-m", model, "-p", PROMPT, "-n", 0, "-t", os.cpu_count(), "-r", 3,
                  "-fa", flash, "-o", "json"], TUNED)
    return json.loads(output)[0]["avg_ts"]


def penstock(model, kind, case):
    options = {"compute": "bf16"} if kind == "bf16" else {}
    return statistics.median(trial["tokens_per_s"]
                             for trial in speed(model, [case], trials=1, most=1, **options)[case])


def better_flash(model):
    """Whether flash attention suits llama.cpp better here."""
    rates = {flash: llama_decode(model, 4, flash) for flash in ("on", "off")}
    return max(rates, key=rates.get)


def compare(what, rounds, ours, theirs):
    """The median ratio of rounds in which memory stayed as fast as it was; of all, if it never did."""
    kept, every, rates = [], [], []
    for turn in range(2 * rounds):
        if len(kept) == rounds:
            break
        before = sample_bandwidth()
        pair = {}
        for side in ("ours", "theirs") if turn % 2 == 0 else ("theirs", "ours"):
            pair[side] = (ours if side == "ours" else theirs)()
        after = sample_bandwidth()
        ratio = pair["ours"] / pair["theirs"]
        every.append(ratio)
        rates.append(pair)
        if abs(after / before - 1) <= MOST_DRIFT:
            kept.append(ratio)
    print(f"    {what}: {statistics.median(p['ours'] for p in rates):.1f} against "
          f"{statistics.median(p['theirs'] for p in rates):.1f} tokens/s; ratios "
          f"{' '.join(f'{r:.2f}' for r in every)}", flush=True)
    return statistics.median(kept or every)


def main():
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 3
    models = sys.argv[2:] or ["135m", "1.1b"]
    gates = Gates("cpu-vs-llama")
    for name in models:
        for kind, goals in GATES.items():
            model = f"models/bench/{name}-{kind}.gguf"
            flash = better_flash(model)
            print(f"{name} {kind}, llama.cpp with flash attention {flash}", flush=True)
            for sequences in SEQUENCES:
                case = f"decode:{sequences}:{CONTEXT}:{OUTPUT}"
                ratio = compare(f"decode {sequences}", rounds, lambda: penstock(model, kind, case),
                                lambda: llama_decode(model, sequences, flash))
                gates.least(f"{name} {kind}, {sequences} sequences", ratio, *goals[sequences])
            ratio = compare("prompt", rounds, lambda: penstock(model, kind, f"prefill:{PROMPT}"),
                            lambda: llama_prompt(model, flash))
            gates.least(f"{name} {kind}, prompt of {PROMPT}", ratio, *goals["prompt"])
    gates.report()


main()
