"""See grpc-overhead.sh. Arguments: penstock, front_bench, the language model, rounds."""

import statistics
import sys

from front import fronting

PENSTOCK, FRONT, MODEL, ROUNDS = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])
PARTS = sys.argv[5:]  # none: all
ENGINE = ("rank", "compute")  # names of the engine's threads; the rest of the server is beside it
SHORT = []  # what missed its gate


def judge(what, value, gate, goal, form="{:.3f}", at_least=True):
    ok = value >= gate if at_least else value <= gate
    side = ">=" if at_least else "<="
    print(f"  {what}: {form.format(value)} (gate {side} {form.format(gate)}, goal {form.format(goal)}): "
          f"{'ok' if ok else 'short'}", flush=True)
    if not ok:
        SHORT.append(what)


def outside(before, after):
    """Processor seconds beside the engine, and a line that tells whose."""
    used = {name: after[name] - before[name] for name in after if after[name] - before[name] > 1e-5}
    beside = {name: seconds for name, seconds in used.items() if name not in ENGINE}
    return sum(beside.values()), beside


def tell_shares(beside, tokens):
    return ", ".join(f"{name} {1e6 * seconds / tokens:.1f}"
                     for name, seconds in sorted(beside.items(), key=lambda item: -item[1]))


def measure_engine(name, model, gates, requests, output):
    """V1 to V3: tokens per second with gRPC over without, and the processor time beside the engine."""
    with fronting(PENSTOCK, FRONT, model, MODEL) as front:
        front.bare(16, 16, 128, 16)
        front.served(16, 16, 128, 16)
        for streams, (gate, goal) in gates.items():
            ratios, costs, shares = [], [], []
            load = (streams, requests[streams], 128, output[streams])
            for _ in range(ROUNDS):
                first = front.bare(*load)["tokens_per_s"]
                before = front.cpu()
                result = front.served(*load)
                beside, by_name = outside(before, front.cpu())
                second = front.bare(*load)["tokens_per_s"]
                served, bare = result["throughput"]["output_tokens_per_s"], (first + second) / 2
                tokens = result["tokens"]["output"]
                ratios.append(served / bare)
                costs.append(1e6 * beside / tokens)
                shares.append(by_name)
                print(f"    {name}, {streams:2} streams: bare {first:.1f} and {second:.1f}, gRPC {served:.1f} "
                      f"tokens/s; {costs[-1]:.1f} us a token ({tell_shares(by_name, tokens)})", flush=True)
            judge(f"{name}, {streams} streams, gRPC over bare", statistics.median(ratios), gate, goal)
            what = f"{name}, {streams} streams, CPU beside the engine, us a token"
            if streams == 16 and model == MODEL:  # others' steps are so long that every one begins cold
                judge(what, statistics.median(costs), 40, 20, "{:.1f}", at_least=False)
            else:
                print(f"  {what}: {statistics.median(costs):.1f}", flush=True)


def measure_null(rounds=ROUNDS):
    """V4: how many tokens a core of the server can send, and how many when none share a message."""
    for what, step, gated in (("as fast as they come", 0, True), ("a step each 150 us", 150, False)):
        rates, alone = [], []
        with fronting(PENSTOCK, FRONT, "null", MODEL, "--step-us", step) as front:
            front.served(16, 16, 16, 256)
            for _ in range(rounds):
                before = front.cpu()
                result = front.served(16, 64 if step else 512, 16, 2048)
                beside, by_name = outside(before, front.cpu())
                tokens = result["tokens"]["output"]
                messages = result["latency_seconds"]["itl"]["count"] + result["requests"]["succeeded"]
                rates.append(tokens / beside)
                alone.append(messages / beside)
                print(f"    null engine, {what}: {result['throughput']['output_tokens_per_s']:.0f} tokens/s, "
                      f"{tokens / messages:.2f} a message, {1e6 * beside / messages:.1f} us a message "
                      f"({tell_shares(by_name, messages)})", flush=True)
        if gated:
            judge("null engine, tokens/s per server core", statistics.median(rates) / 1e3, 100, 150, "{:.0f} k")
        print(f"  null engine, {what}: {statistics.median(alone) / 1e3:.0f} k messages/s per server core")


def compare_first_token(model, rounds, requests):
    """Medians, over rounds, of what gRPC adds to the first token of a prompt of 16, in ms."""
    added = {"p50": [], "p99": []}
    with fronting(PENSTOCK, FRONT, model, MODEL) as front:
        front.bare(1, requests, 16, 1)
        front.served(1, requests, 16, 1)
        for _ in range(rounds):
            bare = front.bare(1, requests, 16, 1)
            served = front.served(1, requests, 16, 1)["latency_seconds"]["ttft"]
            for rank in added:
                added[rank].append(1e3 * (served[rank] - bare[f"ttft_{rank}"]))
    return {rank: statistics.median(values) for rank, values in added.items()}


def measure_first_token():
    """V6: the time to the first token of an idle server over that of the bare engine."""
    null = compare_first_token("null", ROUNDS, 500)
    print(f"  added to the first token of the null engine: p50 {null['p50']:.2f} ms, p99 {null['p99']:.2f} ms")
    added = compare_first_token(MODEL, 4 * ROUNDS, 50)
    judge("added to the first token, p50 ms", added["p50"], 0.5, 0.2, at_least=False)
    judge("added to the first token, p99 ms", added["p99"], 2, 1, at_least=False)


PARTS_BY_NAME = {
    "null": measure_null,
    "first": measure_first_token,
    "135m": lambda: measure_engine("135M", MODEL, {16: (0.88, 0.94), 1: (0.88, 0.94)},
                                   {16: 32, 1: 4}, {16: 128, 1: 128}),
    "1.1b": lambda: measure_engine("1.1B", "1.1b", {16: (0.95, 0.98), 1: (0.96, 0.99)},
                                   {16: 16, 1: 1}, {16: 64, 1: 96}),
}
for part in PARTS or PARTS_BY_NAME:
    PARTS_BY_NAME[part]()
print(f"grpc-overhead: {len(SHORT)} of its figures short{': ' + '; '.join(SHORT) if SHORT else ''} "
      f"(goal 0): {'short' if SHORT else 'ok'}")
sys.exit(bool(SHORT))
