"""See contention.sh. Arguments: penstock, front_bench, the language model, rounds."""

import contextlib
import statistics
import subprocess
import sys
import time

from front import fronting

PENSTOCK, FRONT, MODEL, ROUNDS = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])
GATE, GOAL, WORST = 0.45, 0.55, 0.3  # of what it does alone: median, median, every trial
HOGS = {
    "a busy process": "while True: pass",
    "a process that copies memory": "a, b = bytearray(1 << 28), bytearray(1 << 28)\nwhile True: a[:] = b",
}
SHORT = []


@contextlib.contextmanager
def hogging(program):
    process = subprocess.Popen([sys.executable, "-c", program])
    try:
        time.sleep(0.3)
        yield
    finally:
        process.kill()
        process.wait()


def prefill(load):
    return lambda front: 8 * 512 / load(front)["seconds"]


CASES = {
    "decode of 16, engine": lambda front: front.bare(16, 16, 128, 64)["tokens_per_s"],
    "decode of 16, gRPC": lambda front: front.served(16, 16, 128, 64)["throughput"]["output_tokens_per_s"],
    "prefill of 512, engine": prefill(lambda front: front.bare(1, 8, 512, 1)),
    "prefill of 512, gRPC": prefill(lambda front: front.served(1, 8, 512, 1)),
}


def compare(front, name, hog, gated):
    ratios = []
    for _ in range(ROUNDS):
        before = CASES[name](front)
        with hogging(HOGS[hog]):
            beside = CASES[name](front)
        after = CASES[name](front)
        ratios.append(2 * beside / (before + after))
    median, worst = statistics.median(ratios), min(ratios)
    ok = not gated or (median >= GATE and worst >= WORST)
    verdict = f" (gate {GATE}, goal {GOAL}, each >= {WORST}): {'ok' if ok else 'short'}" if gated else ""
    print(f"  {name}, beside {hog}: {median:.2f} of alone ({after:.0f} tokens/s), worst {worst:.2f}{verdict}",
          flush=True)
    if not ok:
        SHORT.append(name)
    return median


with fronting(PENSTOCK, FRONT, MODEL, MODEL) as front:
    for case in CASES.values():  # once, to warm up
        case(front)
    least = min([compare(front, name, "a busy process", True) for name in CASES])
    for name in ("decode of 16, engine", "prefill of 512, engine"):
        compare(front, name, "a process that copies memory", False)
print(f"contention: {least:.2f} of the throughput alone at least, {len(SHORT)} cases short (goal {GATE}, 0): "
      f"{'short' if SHORT else 'ok'}")
sys.exit(bool(SHORT))
