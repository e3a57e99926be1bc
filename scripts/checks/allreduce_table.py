"""Ways of adding up over capped links, as a table: allreduce_table.py ALL_REDUCE_RANK."""

import json
import subprocess
import sys
import tempfile

import hosts

RANKS = (2, 4, 8)
SIZES = (4 << 10, 64 << 10, 1 << 20, 16 << 20, 64 << 20)
WAYS = ("ring", "root", "rank-order")
MBIT = 400  # of each link, each way: low enough that two cores keep eight ranks going
STEP = 0.050  # seconds of computing beside one sum, about what a step of a 1.1B model takes on two cores
TRIALS, GOAL = 3, 0.7


def measure(program, ranks):
    """{(way, bytes): seconds} of a group whose ranks are each a host of their own."""
    with hosts.bridged(ranks, MBIT) as machines, tempfile.TemporaryDirectory() as folder:
        processes = [subprocess.Popen(
            machine.command(program, rank, ranks, machine.address, folder, TRIALS, *SIZES),
            stdout=subprocess.PIPE, text=True) for rank, machine in enumerate(machines)]
        output, _ = processes[0].communicate(timeout=1200)
        codes = [process.wait(60) for process in processes]
    if any(codes):
        raise SystemExit(f"all_reduce_rank ended with {codes}:\n{output}")
    lines = [json.loads(line) for line in output.splitlines()]
    return {(line["way"], line["bytes"]): line["seconds"] for line in lines}


def size_name(size):
    return f"{size >> 20} MiB" if size >= 1 << 20 else f"{size >> 10} KiB"


def main():
    print(f"links of {MBIT} Mbit/s each way; medians of {TRIALS}; share: of a step that computes for {STEP * 1e3:.0f} ms")
    print(f"{'ranks':>5} {'bytes':>8}  " + "  ".join(f"{way:>12} {'MB/s':>7} {'share':>6}" for way in WAYS) +
          f"  {'ring : root':>11}  {'rank-order : ring':>17}")
    ratios = {}
    for ranks in RANKS:
        times = measure(sys.argv[1], ranks)
        for size in SIZES:
            seconds = {way: times[way, size] for way in WAYS}
            cells = "  ".join(f"{seconds[way] * 1e3:9.2f} ms {size / seconds[way] / 1e6:7.1f} "
                              f"{seconds[way] / (seconds[way] + STEP):6.0%}" for way in WAYS)
            ratios[ranks, size] = seconds["root"] / seconds["ring"]
            print(f"{ranks:5} {size_name(size):>8}  {cells}  {ratios[ranks, size]:10.2f}x  "
                  f"{seconds['rank-order'] / seconds['ring']:16.2f}x", flush=True)
    largest = [ratios[ranks, SIZES[-1]] / ranks for ranks in RANKS]
    ok = all(ratio >= GOAL for ratio in largest)
    figures = ", ".join(f"{ratio:.2f}n at {ranks}" for ratio, ranks in zip(largest, RANKS))
    print(f"allreduce-table: ring over root at 64 MiB {figures} ranks (goal >= {GOAL}n): {'ok' if ok else 'short'}")
    return 0 if ok else 1


if __name__ == "__main__":
    sys.exit(main())
