"""Holds shards up at random while they serve: delay_soak.py PENSTOCK MODEL MINUTES SEED."""

import contextlib
import os
import random
import signal
import sys
import tempfile
import threading
import time

import grpc

import faults
import shard_loss

LONGEST = 0.08  # seconds a shard is held up for
KINDS = ("processes, shared memory", "processes, TCP")


class Delays(threading.Thread):
    """Stops one of the processes for a random moment, again and again."""

    def __init__(self, pids, rng):
        super().__init__(daemon=True)
        self.pids, self.rng, self.count, self.ending = pids, rng, 0, threading.Event()

    def run(self):
        while not self.ending.is_set():
            pid = self.rng.choice(self.pids)
            os.kill(pid, signal.SIGSTOP)
            time.sleep(self.rng.uniform(0, LONGEST))
            os.kill(pid, signal.SIGCONT)
            self.count += 1
            time.sleep(self.rng.uniform(0, LONGEST))

    def end(self):
        self.ending.set()
        self.join()


def soak(bench, kind, seconds, rng):
    with contextlib.ExitStack() as stack:
        options, pids = (), None
        if kind == KINDS[1]:
            addresses = [f"127.0.0.1:{faults.free_port()}" for _ in range(2)]
            pids = [stack.enter_context(shard_loss.worker(bench.program, address)).pid for address in addresses]
            options = ("--workers", ",".join(f"{address}*2" for address in addresses))
        server = stack.enter_context(bench.serve(*shard_loss.SHAPES["2x2"], *options))
        server.await_log("\nserving ", 60)
        delays = Delays(pids or [server.shard(rank) for rank in range(4)], rng)
        delays.start()
        end, loads, wrong = time.monotonic() + seconds, 0, []
        while time.monotonic() < end and not wrong:
            try:
                failed, changed = faults.compare(bench.load(server).finish(120), bench.expected["2x2"])
                wrong += failed + [f"{changed} changed"] * bool(changed)
            except TimeoutError as error:
                wrong.append(f"deadlock: {error}")
            loads += 1
        delays.end()
        if "lost: " in server.log():
            wrong.append("a shard was taken for lost")
    print(f"  {kind}: {loads} x {shard_loss.STREAMS} streams in {seconds:.0f} s, {delays.count} delays of up to "
          f"{LONGEST * 1e3:.0f} ms{''.join('; ' + text for text in wrong[:3])}", flush=True)
    return not wrong and loads > 0 and delays.count > 0


def main():
    program, model, minutes, seed = *sys.argv[1:3], float(sys.argv[3]), int(sys.argv[4])
    rng = random.Random(seed)
    with tempfile.TemporaryDirectory() as folder:
        messages, services = faults.stubs(folder)
        bench = shard_loss.Bench(program, model, messages, services)
        bench.reference("2x2")
        bad = [kind for kind in KINDS if not soak(bench, kind, minutes * 60 / len(KINDS), rng)]
    print(f"delay-soak: {len(bad)} of {len(KINDS)} kinds of groups with a deadlock or other tokens in {minutes:g} minutes "
          f"(goal 0 in 15): {'short' if bad or minutes < 15 else 'ok'}")
    return 1 if bad or minutes < 15 else 0


if __name__ == "__main__":
    sys.exit(main())
