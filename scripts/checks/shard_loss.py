"""Kills, stops and cuts off shards under load: shard_loss.py PENSTOCK TINY-MODEL MODEL RUNS SEED."""

import contextlib
import os
import random
import signal
import subprocess
import sys
import tempfile
import time

import grpc

import faults

STREAMS, PROMPT, TOKENS, VOCAB = 100, 96, 160, 260
SILENCE = 2.0  # seconds, --shard-silence
ALLOWANCE = 2.0  # seconds beyond detection and reload
SHAPES = {"2x2": ("--tensor", 2, "--pipeline", 2), "4x1": ("--tensor", 4)}
PHASES = ("load", "warm-up", "prefill", "decode", "drain", "another recovery")
FAULTS = {"kill": (faults.kill, 0.0), "stop": (faults.stop, SILENCE + 0.5)}
COMMON = ("--max-context", 512, "--max-sequences", 64, "--kv-tokens", 32768, "--threads", 1,
          "--shard-silence", SILENCE, "--step-timeout", 30, "--grace", 120)


class Bench:
    def __init__(self, program, model, messages, services):
        self.program, self.model, self.messages, self.services = program, model, messages, services
        self.expected = {}

    def serve(self, *options):
        return faults.Server(self.program, self.model, *COMMON, *options)

    def load(self, server, streams=STREAMS, prompt=PROMPT, tokens=TOKENS):
        return faults.Load(grpc, self.messages, self.services, server.address, streams, prompt, tokens, VOCAB)

    def reference(self, shape, **size):
        """What each stream says when nothing happens."""
        with self.serve(*SHAPES[shape]) as server:
            server.await_log("\nserving ", 60)
            streams = self.load(server, **size).finish(240)
            failed = [s.error for s in streams if s.error]
            if failed:
                raise RuntimeError(f"undisturbed streams fail: {failed[0]}")
            self.expected[shape] = [s.tokens for s in streams]


class Outcome:
    def __init__(self, what):
        self.what, self.failed, self.changed, self.pauses, self.bound, self.wrong = what, [], 0, [], 0.0, []

    def take(self, server, streams, expected, detection):
        self.failed, self.changed = faults.compare(streams, expected)
        self.pauses = [stream.pause for stream in streams]
        self.bound = detection + server.reload_seconds() + ALLOWANCE

    def late(self):
        """The 99th percentile of the pauses, when it is longer than it may be."""
        return bool(self.pauses) and p99(self.pauses) > self.bound

    def ok(self):
        return not (self.failed or self.changed or self.wrong or self.late())

    def line(self):
        text = f"  {self.what:<44} {len(self.failed)} failed, {self.changed} changed"
        if self.pauses:
            text += f", pause p99 {p99(self.pauses):5.2f} s (bound {self.bound:.2f})"
        return text + "".join(f"; {wrong}" for wrong in self.wrong[:2] + self.failed[:1])


def p99(values):
    return sorted(values)[min(len(values) - 1, int(len(values) * 0.99))]


def hurt_at(bench, server, phase, rank, others, hurt):
    """Waits for the phase and hurts the rank; the load that was under way, or a new one."""
    if phase == "load":
        hurt(server.shard(rank))
        server.await_log("\nserving ", 60)
        return bench.load(server)
    if phase == "warm-up":
        server.await_log("is ready after", 60, count=1 + len(others))
        hurt(server.shard(rank))
        server.await_log("\nserving ", 60)
        return bench.load(server)
    server.await_log("\nserving ", 60)
    pid = server.shard(rank)
    load = bench.load(server)
    if phase == "prefill":
        faults.wait_for(lambda: load.progress() > 0, 60, "the first token")
        hurt(pid)
        return load
    faults.wait_for(lambda: load.progress() > STREAMS * TOKENS // 8, 60, "tokens")
    if phase == "drain":
        server.process.send_signal(signal.SIGTERM)
        server.await_log("draining", 10)
    elif phase == "another recovery":
        faults.kill(server.shard(random.choice(others)))
        server.await_log("lost: ", 30)
    hurt(pid)
    return load


def local_run(bench, shape, rank, fault, phase):
    hurt, detection = FAULTS[fault]
    outcome = Outcome(f"{shape}, rank {rank}, {fault}, {phase}")
    others = [other for other in range(4) if other != rank]
    with bench.serve(*SHAPES[shape]) as server:
        try:
            load = hurt_at(bench, server, phase, rank, others, hurt)
            outcome.take(server, load.finish(120), bench.expected[shape], detection)
            if phase != "drain":
                server.process.terminate()
            if (code := server.process.wait(30)) != 0:
                outcome.wrong.append(f"exit code {code}")
            if "lost: " not in server.log() and phase not in ("load", "drain"):
                outcome.wrong.append("the fault was not noticed")
        except (TimeoutError, RuntimeError, ProcessLookupError, subprocess.TimeoutExpired) as error:
            outcome.wrong.append(str(error).replace("\n", " | ")[-600:])
    return outcome


@contextlib.contextmanager
def worker(program, address, *prefix):
    process = subprocess.Popen([*prefix, program, "shard", "--listen", address, "--data-address",
                                address.rsplit(":", 1)[0], "--insecure"],
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(signal.SIGCONT)
        process.kill()
        process.wait()


def stale_run(bench):
    """A worker elsewhere is stopped, a spare takes its place, and the stopped one wakes."""
    outcome = Outcome("2x2 elsewhere, stopped, continued when replaced")
    addresses = [f"127.0.0.1:{faults.free_port()}" for _ in range(3)]
    with contextlib.ExitStack() as stack:
        workers = [stack.enter_context(worker(bench.program, address)) for address in addresses]
        server = stack.enter_context(bench.serve(
            *SHAPES["2x2"], "--workers", f"{addresses[0]}*2,{addresses[1]}*2", "--spares", addresses[2]))
        try:
            server.await_log("\nserving ", 60)
            load = bench.load(server)
            faults.wait_for(lambda: load.progress() > STREAMS * TOKENS // 8, 60, "tokens")
            workers[1].send_signal(signal.SIGSTOP)
            server.await_log("lost: ", 30)
            server.await_log(f"({addresses[2]}) is ready", 30)
            before = load.progress()
            workers[1].send_signal(signal.SIGCONT)
            outcome.take(server, load.finish(120), bench.expected["2x2"], SILENCE + 0.5)
            if before >= STREAMS * TOKENS:
                outcome.wrong.append("it woke too late to do harm")
        except (TimeoutError, RuntimeError) as error:
            outcome.wrong.append(str(error).replace("\n", " | ")[-600:])
    return outcome


def run_ip(*arguments):
    subprocess.run(["ip", *arguments], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)


@contextlib.contextmanager
def namespace():
    """A host of its own: a network namespace; its name, the link to it, and the addresses of both ends."""
    name, link = f"penstock{os.getpid()}", f"pk{os.getpid() % 100000}"
    run_ip("netns", "add", name)
    try:
        run_ip("link", "add", link, "type", "veth", "peer", "name", "eth0", "netns", name)
        run_ip("addr", "add", "10.213.7.1/24", "dev", link)
        run_ip("link", "set", link, "up")
        run_ip("-n", name, "addr", "add", "10.213.7.2/24", "dev", "eth0")
        run_ip("-n", name, "link", "set", "eth0", "up")
        run_ip("-n", name, "link", "set", "lo", "up")
        yield name, link, "10.213.7.1", "10.213.7.2"
    finally:
        subprocess.run(["ip", "netns", "del", name], check=False)
        subprocess.run(["ip", "link", "del", link], check=False, stderr=subprocess.DEVNULL)


def cut_run(bench, away):
    """The link to another host goes down for a while; it is back, or a spare takes over."""
    outcome = Outcome(f"2x2 on two hosts, cut off, {'link back' if away else 'spare takes over'}")
    with contextlib.ExitStack() as stack:
        try:
            name, link, here, there = stack.enter_context(namespace())
        except subprocess.CalledProcessError as error:
            outcome.wrong.append(f"no network namespaces here: {error.stderr.decode().strip()}")
            return outcome
        first, second, spare = f"{here}:{faults.free_port()}", f"{there}:7000", f"{here}:{faults.free_port()}"
        stack.enter_context(worker(bench.program, first))
        stack.enter_context(worker(bench.program, second, "ip", "netns", "exec", name))
        stack.enter_context(worker(bench.program, spare))
        options = () if away else ("--spares", spare)
        server = stack.enter_context(bench.serve(
            *SHAPES["2x2"], "--workers", f"{first}*2,{second}*2", *options))
        try:
            server.await_log("\nserving ", 60)
            load = bench.load(server)
            faults.wait_for(lambda: load.progress() > STREAMS * TOKENS // 8, 60, "tokens")
            run_ip("link", "set", link, "down")
            server.await_log("lost: ", 30)
            if away:
                run_ip("link", "set", link, "up")
            # The cut host gives its session up only when its own keepalive has failed, too.
            detection = SILENCE + 0.5 + (12 if away else 0)
            outcome.take(server, load.finish(120), bench.expected["2x2"], detection)
        except (TimeoutError, RuntimeError) as error:
            outcome.wrong.append(str(error).replace("\n", " | ")[-600:])
    return outcome


def schedule(runs, rng):
    """Every (rank, fault, phase) at least once, the shape at random, in random order."""
    every = [(rank, fault, phase) for rank in range(4) for fault in FAULTS for phase in PHASES]
    rng.shuffle(every)
    chosen = [every[i % len(every)] for i in range(runs)]
    return [(rng.choice(sorted(SHAPES)), *case) for case in chosen], len(set(chosen)) == len(every)


def real_runs(program, model, messages, services):
    bench = Bench(program, model, messages, services)
    size = {"prompt": 24, "tokens": 24}
    bench.load = lambda server: Bench.load(bench, server, **size)
    bench.reference("2x2")
    for rank, fault in ((1, "kill"), (2, "stop"), (3, "kill")):
        outcome = local_run(bench, "2x2", rank, fault, "decode")
        outcome.what = "SmolLM2 " + outcome.what
        yield outcome


def main():
    program, tiny, model, runs, seed = *sys.argv[1:4], int(sys.argv[4]), int(sys.argv[5])
    rng = random.Random(seed)
    random.seed(seed)
    before = faults.leftovers([])
    with tempfile.TemporaryDirectory() as folder:
        messages, services = faults.stubs(folder)
        bench = Bench(program, tiny, messages, services)
        for shape in SHAPES:
            bench.reference(shape)
        cases, all_covered = schedule(runs, rng)
        print(f"{len(cases)} runs of {STREAMS} streams, {PROMPT} + {TOKENS} tokens, seed {seed}")
        outcomes = []

        def note(outcome):
            outcomes.append(outcome)
            print(outcome.line(), flush=True)

        begin = time.monotonic()
        for case in cases:
            note(local_run(bench, *case))
        note(stale_run(bench))
        for away in (False, True):
            note(cut_run(bench, away))
        for outcome in real_runs(program, model, messages, services):
            note(outcome)
    left = faults.leftovers(before)
    bad = [outcome for outcome in outcomes if not outcome.ok()]
    failed, changed = sum(len(o.failed) for o in outcomes), sum(o.changed for o in outcomes)
    pauses = [p99(o.pauses) for o in outcomes if o.pauses]
    print(f"{len(outcomes)} runs in {time.monotonic() - begin:.0f} s; the longest p99 of pauses {max(pauses):.2f} s; "
          f"every (rank, fault, phase) {'once at least' if all_covered else 'NOT covered'}; left behind: {left or 'nothing'}")
    for outcome in bad:
        print("short:" + outcome.line())
    ok = not bad and all_covered and not left
    print(f"shard-loss: {failed} failed and {changed} changed streams, {len(bad)} of {len(outcomes)} runs short "
          f"(goal 0, 0, 0): {'ok' if ok else 'short'}")
    return 0 if ok else 1


if __name__ == "__main__":
    sys.exit(main())
