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
MOST_DRIFT = 0.07  # of memory bandwidth within a round
MOST_FOREIGN = 0.05
# llama.cpp's threads are OpenMP's, bound to cores or not.
BINDINGS = ({}, {"OMP_PROC_BIND": "true", "OMP_PLACES": "cores"})


def sample_bandwidth():
    return float(run([f"{BUILD}/bench/limits/limits_bench", "--bandwidth"]))


def llama_decode(model, sequences, setting):
    binding, flash = setting
    output = run(["build/peers/llama-batched-bench", "-m", model, "-npp", CONTEXT, "-ntg", OUTPUT, "-npl", sequences,
                  "-c", sequences * (CONTEXT + OUTPUT), "-t", os.cpu_count(), "-tb", os.cpu_count(), "-fa", flash,
                  "--output-format", "jsonl"], binding)
    lines = [json.loads(line) for line in output.splitlines() if line.startswith("{")]
    return lines[-1]["speed_tg"]


def llama_prompt(model, setting):
    binding, flash = setting
    output = run(["build/peers/llama-bench", "-m", model, "-p", PROMPT, "-n", 0, "-t", os.cpu_count(), "-r", 3,
                  "-fa", flash, "-o", "json"], binding)
    return json.loads(output)[0]["avg_ts"]


def best_setting(measure):
    """What suits llama.cpp best here, by two runs of each."""
    settings = [(binding, flash) for binding in BINDINGS for flash in ("on", "off")]
    return max(settings, key=lambda setting: max(measure(setting), measure(setting)))


def penstock(model, kind, case):
    """One trial: tokens per second, and whether others used the machine."""
    options = {"compute": "bf16"} if kind == "bf16" else {}
    trial = speed(model, [case], trials=1, most=1, **options)[case][0]
    return trial["tokens_per_s"], trial["foreign"] > MOST_FOREIGN


def compare(what, rounds, ours, theirs):
    """The median ratio of undisturbed rounds; of all, which it says, when there are too few."""
    kept, every, rates = [], [], []
    while len(kept) < rounds and len(every) < 2 * rounds:
        memory, pair = [sample_bandwidth()], {}
        for side in (ours, theirs) if len(every) % 2 == 0 else (theirs, ours):
            pair[side] = side()
            memory.append(sample_bandwidth())
        (our_rate, disturbed), their_rate = pair[ours], pair[theirs]
        rates.append((our_rate, their_rate))
        every.append(our_rate / their_rate)
        if max(memory) / min(memory) - 1 <= MOST_DRIFT and not disturbed:
            kept.append(every[-1])
    note = "" if len(kept) == rounds else f" (only {len(kept)} rounds undisturbed: the median of all)"
    print(f"    {what}: {statistics.median(a for a, _ in rates):.1f} against "
          f"{statistics.median(b for _, b in rates):.1f} tokens/s; ratios "
          f"{' '.join(f'{r:.2f}' for r in every)}{note}", flush=True)
    return statistics.median(kept if len(kept) == rounds else every)


def main():
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 3
    models = sys.argv[2:] or ["135m", "1.1b"]
    gates = Gates("cpu-vs-llama")
    for name in models:
        for kind, goals in GATES.items():
            model = f"models/bench/{name}-{kind}.gguf"
            decoding = best_setting(lambda setting: llama_decode(model, 4, setting))
            prompting = best_setting(lambda setting: llama_prompt(model, setting))
            print(f"{name} {kind}; llama.cpp decodes with {decoding}, takes prompts with {prompting}", flush=True)
            for sequences in SEQUENCES:
                case = f"decode:{sequences}:{CONTEXT}:{OUTPUT}"
                ratio = compare(f"decode {sequences}", rounds, lambda: penstock(model, kind, case),
                                lambda: llama_decode(model, sequences, decoding))
                gates.least(f"{name} {kind}, {sequences} sequences", ratio, *goals[sequences])
            ratio = compare("prompt", rounds, lambda: penstock(model, kind, f"prefill:{PROMPT}"),
                            lambda: llama_prompt(model, prompting))
            gates.least(f"{name} {kind}, prompt of {PROMPT}", ratio, *goals["prompt"])
    gates.report()


main()
