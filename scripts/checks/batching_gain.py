"""See batching-gain.sh. Arguments: program, language model, encoder, rounds."""

import statistics
import sys

from serving import serving

PROGRAM, MODEL, ENCODER, ROUNDS = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])
SHORT = []  # what missed its goal


def judge(what, value, goal, at_least=True):
    ok = value >= goal if at_least else value <= goal
    print(f"  {what}: {value:.2f} (goal {'>=' if at_least else '<='} {goal}): {'ok' if ok else 'short'}",
          flush=True)
    if not ok:
        SHORT.append(what)


def compare_batching():
    """Continuous against static batches, everything queued at once, 16 slots."""
    print("continuous against static batching, 16 slots, SmolLM2-135M, prompts of 32 tokens")
    goals = {"uniform:16-256": (1.1, 1.5), "exponential:64": (1.45, 2.4)}
    modes = ("continuous", "static", "static-padded")
    seen = {(outputs, mode): [] for outputs in goals for mode in modes}
    for _ in range(ROUNDS):
        for outputs in goals:
            for mode in modes:
                with serving(PROGRAM, MODEL, "--max-sequences", 16, "--batching", mode) as server:
                    seen[outputs, mode].append(server.bench(
                        "--concurrency", 192, "--requests", 192, "--prompt-tokens", 32,
                        "--output-tokens", outputs, "--warm-up", 0, "--timeout", 600))
    for outputs, (dropped, padded) in goals.items():
        rate = {m: statistics.median(r["throughput"]["output_tokens_per_s"] for r in seen[outputs, m])
                for m in modes}
        ttft = {m: statistics.median(r["latency_seconds"]["ttft"]["p99"] for r in seen[outputs, m])
                for m in modes}
        for mode in modes:
            print(f"  {outputs:15} {mode:14} {rate[mode]:7.0f} tokens/s, p99 TTFT {ttft[mode]:6.2f} s")
        judge(f"{outputs}, continuous / static", rate["continuous"] / rate["static"], dropped)
        judge(f"{outputs}, continuous / static-padded", rate["continuous"] / rate["static-padded"], padded)
        judge(f"{outputs}, p99 TTFT over static's", ttft["continuous"] / ttft["static"], 1.0, at_least=False)


def compare_dynamic():
    """One input per call at growing rates, against calls of 16 inputs, against no batching."""
    delay = 0.005
    load = ("--kind", "embed", "--input-tokens", "uniform:16-64", "--vocab", 30000)
    print("dynamic batching, all-MiniLM-L6-v2, inputs of 16 to 64 tokens")
    with serving(PROGRAM, ENCODER, "--max-batch", 16, "--batch-delay", delay) as server:
        offline = server.bench(*load, "--batch", 16, "--concurrency", 3, "--requests", 600,
                               "--warm-up", 30)["throughput"]["inputs_per_s"]
        rows = []
        for share in (0.1, 0.3, 0.5, 0.7, 0.85, 0.95, 1.3):
            rate = share * offline
            result = server.bench(*load, "--rate", f"{rate:.1f}", "--requests", max(200, int(4 * rate)),
                                  "--warm-up", 50, "--timeout", 60)
            latency = result["latency_seconds"]["e2e"]
            rows.append((share, result["throughput"]["inputs_per_s"], latency))
    with serving(PROGRAM, ENCODER, "--max-batch", 1, "--batch-delay", 0) as server:
        alone = server.bench(*load, "--rate", f"{0.1 * offline:.1f}", "--requests",
                             max(200, int(0.4 * offline)), "--warm-up", 50)["latency_seconds"]["e2e"]
        unbatched = server.bench(*load, "--concurrency", 16, "--requests", 4000,
                                 "--warm-up", 50)["throughput"]["inputs_per_s"]
    print(f"  offline, 16 inputs a call: {offline:.0f} inputs/s; one by one: {unbatched:.0f} inputs/s")
    print("  offered / offline   inputs/s   p50 ms   p95 ms   p99 ms")
    for share, rate, latency in rows:
        print(f"  {share:17.2f} {rate:10.0f} {1e3 * latency['p50']:8.2f} {1e3 * latency['p95']:8.2f} "
              f"{1e3 * latency['p99']:8.2f}")
    judge("throughput under more load than it can take / offline", max(r[1] for r in rows) / offline, 0.85)
    allowed = alone["p95"] + delay
    judge(f"p95 at a tenth of the load over unbatched {1e3 * alone['p95']:.2f} ms + delay {1e3 * delay:.0f} ms",
          rows[0][2]["p95"] / allowed, 1.0, at_least=False)


def measure_gaps():
    """How long prompts that arrive hold up streams that run."""
    print("chunked prefill: 8 running streams while prompts of 512 tokens arrive, chunks of 256")
    streams = ("--concurrency", 8, "--requests", 8, "--prompt-tokens", 32, "--output-tokens", 600,
               "--warm-up", 0)
    with serving(PROGRAM, MODEL, "--max-decode-delay", 10, "--prefix-cache=false") as server:
        quiet = server.bench(*streams)["latency_seconds"]["itl"]["p50"]
        chunk = server.bench("--concurrency", 1, "--requests", 20, "--prompt-tokens", 256,
                             "--output-tokens", 1, "--warm-up", 2)["latency_seconds"]["ttft"]["p50"]
        running = server.start_bench(*streams)
        server.bench("--rate", 1.5, "--requests", 10, "--prompt-tokens", 512, "--output-tokens", 1,
                     "--warm-up", 0)
        gaps = running()["latency_seconds"]["itl"]
    print(f"  decode step of 8 {1e3 * quiet:.1f} ms, chunk {1e3 * chunk:.1f} ms; "
          f"gaps p50 {1e3 * gaps['p50']:.1f}, p99 {1e3 * gaps['p99']:.1f}, max {1e3 * gaps['max']:.1f} ms")
    judge("p99 gap over chunk + decode step", gaps["p99"] / (chunk + quiet), 2.0, at_least=False)


def measure_prefix():
    """The first token of a prompt of 512 tokens, 448 of them known."""
    print("prefix cache: prompts of 512 tokens, 448 in common")
    load = ("--concurrency", 1, "--requests", 30, "--prompt-tokens", 512, "--output-tokens", 1,
            "--warm-up", 2)
    with serving(PROGRAM, MODEL) as server:
        cold = server.bench(*load, "--seed", 1)
        warm = server.bench(*load, "--seed", 2, "--shared-prefix", 448)
    times = [r["latency_seconds"]["ttft"]["p50"] for r in (cold, warm)]
    print(f"  TTFT cold {1e3 * times[0]:.1f} ms, with 448 cached {1e3 * times[1]:.1f} ms; tokens found "
          f"{cold['tokens']['cached_prompt']} and {warm['tokens']['cached_prompt']} of {30 * 512}")
    judge("TTFT with 448 of 512 cached over cold", times[1] / times[0], 0.25, at_least=False)


for part in (measure_prefix, measure_gaps, compare_dynamic, compare_batching):
    part()
print(f"batching-gain: {len(SHORT)} of its comparisons short{': ' + '; '.join(SHORT) if SHORT else ''} "
      f"(goal 0): {'short' if SHORT else 'ok'}")
sys.exit(bool(SHORT))
