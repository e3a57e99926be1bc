"""Kills, stops and cuts off shards under load: shard_loss.py PENSTOCK TINY-MODEL MODEL RUNS SEED."""

import collections
import contextlib
import itertools
import os
import random
import re
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
        self.expected, self.usual = {}, {}  # by shape: tokens; the pauses of undisturbed streams

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
            self.usual[shape] = p99([s.pause for s in streams])


class Outcome:
    def __init__(self, what):
        self.what, self.failed, self.changed, self.pauses, self.bound, self.wrong = what, [], 0, [], 0.0, []
        self.missed = False  # the fault came when its phase was over
        self.covered = []  # (rank, fault, phase) that this run has seen happen

    def take(self, server, streams, bench, shape, detection):
        self.failed, self.changed = faults.compare(streams, bench.expected[shape])
        self.pauses = [stream.pause for stream in streams]
        # There are fewer slots than streams, so some wait even when nothing happens.
        self.bound = bench.usual[shape] + detection + server.reload_seconds() + ALLOWANCE

    def late(self):
        """The 99th percentile of the pauses, when it is longer than it may be."""
        return bool(self.pauses) and p99(self.pauses) > self.bound

    def ok(self):
        return not (self.failed or self.changed or self.wrong or self.late())

    def line(self):
        text = f"  {self.what:<44} {len(self.failed)} failed, {self.changed} changed"
        if self.pauses:
            text += f", pause p99 {p99(self.pauses):5.2f} s (bound {self.bound:.2f})"
        text += "" if not self.missed else "; MISSED its phase"
        return text + "".join(f"; {wrong}" for wrong in self.wrong[:2] + self.failed[:1])


def p99(values):
    return sorted(values)[min(len(values) - 1, int(len(values) * 0.99))]


def in_phase(server, load, phase, readiness):
    """Whether, just after the fault, the phase it was meant for was still going on."""
    log = server.log()
    if phase == "load":
        return readiness not in log
    if phase == "warm-up":
        return readiness in log and "\nserving " not in log
    if phase == "prefill":
        return any(not stream.tokens for stream in load.streams)
    if phase == "another recovery":
        return log.count("is ready after") == log.split("\nserving ")[0].count("is ready after")
    return load.progress() < load.total and (phase != "drain" or "draining" in log)


def reach(bench, server, phase, lose_another):
    """Waits for a phase behind the start; the load that is under way."""
    server.await_log("\nserving ", 60)
    load = bench.load(server)
    if phase == "prefill":
        faults.wait_for(lambda: load.progress() > 0, 60, "the first token")
        return load
    faults.wait_for(lambda: load.progress() > load.total // 8, 60, "tokens")
    if phase == "drain":
        server.process.send_signal(signal.SIGTERM)
        server.await_log("draining", 10)
    elif phase == "another recovery":
        lose_another()
        server.await_log("lost: ", 30)
    return load


def hurt_at(bench, server, phase, rank, others, hurt):
    """Waits for the phase and hurts the rank; the load (one that begins later, when hurt at the start), the pid
    of the rank, and whether it was hurt in the phase."""
    if phase in ("load", "warm-up"):
        pid = server.shard(rank)
        readiness = f"(pid {pid}) is ready"
        if phase == "warm-up":
            server.await_log("is ready after", 60, count=1 + len(others))
        hurt(pid)
        hit = in_phase(server, None, phase, readiness)
        server.await_log("\nserving ", 60)
        return bench.load(server), pid, hit
    pids = {}

    def lose_another():
        faults.kill(pids[random.choice(others)])

    server.await_log("\nserving ", 60)
    pids.update(faults.children(server.process.pid))
    load = reach(bench, server, phase, lose_another)
    hurt(pids[rank])
    return load, pids[rank], in_phase(server, load, phase, "")


def noticed(log, pid, rank):
    """Whether the server says that it has lost the process, and that another one has its rank."""
    ready = re.findall(rf"rank {rank} \(pid (\d+)\) is ready", log)
    return told_lost(log, f"pid {pid}") and any(int(other) != pid for other in ready)


def local_run(bench, shape, rank, fault, phase):
    hurt, detection = FAULTS[fault]
    outcome = Outcome(f"{shape}, rank {rank}, {fault}, {phase}")
    others = [other for other in range(4) if other != rank]
    with bench.serve(*SHAPES[shape]) as server:
        try:
            load, pid, hit = hurt_at(bench, server, phase, rank, others, hurt)
            outcome.take(server, load.finish(120), bench, shape, detection)
            if phase != "drain":
                server.process.terminate()
            if (code := server.process.wait(30)) != 0:
                outcome.wrong.append(f"exit code {code}")
            if not noticed(server.log(), pid, rank):
                outcome.wrong.append("the fault was not noticed")
            elif not hit:
                outcome.missed = True
            else:
                outcome.covered = [(rank, fault, phase)]
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
            outcome.take(server, load.finish(120), bench, "2x2", SILENCE + 0.5)
            if before >= STREAMS * TOKENS:
                outcome.wrong.append("it woke too late to do harm")
        except (TimeoutError, RuntimeError) as error:
            outcome.wrong.append(str(error).replace("\n", " | ")[-600:])
    return outcome


def run_ip(*arguments):
    subprocess.run(["ip", *arguments], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)


@contextlib.contextmanager
def namespace():
    """A host of its own: a network namespace; its name, and the addresses of both ends of the link to it."""
    name, link = f"penstock{os.getpid()}", f"pk{os.getpid() % 100000}"
    run_ip("netns", "add", name)
    try:
        run_ip("link", "add", link, "type", "veth", "peer", "name", "eth0", "netns", name)
        run_ip("addr", "add", "10.213.7.1/24", "dev", link)
        run_ip("link", "set", link, "up")
        run_ip("-n", name, "addr", "add", "10.213.7.2/24", "dev", "eth0")
        run_ip("-n", name, "link", "set", "eth0", "up")
        run_ip("-n", name, "link", "set", "lo", "up")
        yield name, "10.213.7.1", "10.213.7.2"
    finally:
        subprocess.run(["ip", "netns", "del", name], check=False)
        subprocess.run(["ip", "link", "del", link], check=False, stderr=subprocess.DEVNULL)


def connected(pid, port):
    """Whether somebody has a connection to a port of the process's network namespace."""
    pattern = re.compile(rf"^ *\d+: [0-9A-F]+:{port:04X} [0-9A-F]+:[0-9A-F]+ 01 ", re.M)
    return any(pattern.search(open(f"/proc/{pid}/net/{table}").read()) for table in ("tcp", "tcp6"))


class Hosts:
    """A worker here, one on a host of its own that can be cut off, and where they are, by ranks. Use as a context."""

    PORT = 7000

    def __init__(self, bench, cut):
        self.bench, self.cut, self.stack = bench, cut, contextlib.ExitStack()

    def __enter__(self):
        self.name, here, there = self.stack.enter_context(namespace())
        self.near, self.far = f"{here}:{faults.free_port()}", f"{there}:{self.PORT}"
        self.spare = f"{here}:{faults.free_port()}"
        self.near_process = self.start(self.near)
        self.far_process = self.start(self.far, "ip", "netns", "exec", self.name)
        order = (self.far, self.near) if self.cut == 0 else (self.near, self.far)
        self.options = ("--workers", ",".join(f"{address}*2" for address in order))
        return self

    def __exit__(self, *error):
        return self.stack.__exit__(*error)

    def start(self, address, *prefix):
        return self.stack.enter_context(worker(self.bench.program, address, *prefix))

    def lose_near(self):
        """Kills the worker here and starts it again, as whoever runs it would."""
        self.near_process.kill()
        self.near_process.wait()
        self.near_process = self.start(self.near)

    def set_link(self, state):
        # At the far end: without the near one its route would go, and packets would leave by the default route.
        run_ip("-n", self.name, "link", "set", "eth0", state)


def cut_at(bench, server, hosts, phase):
    """Waits for the phase and cuts the far host off; the load that is under way, and whether it was the phase."""
    readiness = f"({hosts.far}) is ready"
    if phase not in ("load", "warm-up"):
        load = reach(bench, server, phase, hosts.lose_near)
        hosts.set_link("down")
        return load, in_phase(server, load, phase, readiness)
    # Held for the moment that cutting takes: both phases are shorter with a tiny model.
    if phase == "load":
        held = hosts.far_process
        faults.wait_for(lambda: connected(held.pid, hosts.PORT), 20, "a connection to the far worker")
    else:
        held = server.process
        server.await_log("is ready after", 20, count=2)
    held.send_signal(signal.SIGSTOP)
    hosts.set_link("down")
    hit = in_phase(server, None, phase, readiness)
    held.send_signal(signal.SIGCONT)
    return None, hit


def cut_run(bench, cut, phase, spare=False):
    """The link to one of two hosts goes down until it is noticed; then it is back, or a spare has taken over."""
    ranks = (2 * cut, 2 * cut + 1)
    outcome = Outcome(f"2x2 on two hosts, ranks {ranks[0]} {ranks[1]}, cut, {phase}{', spare' if spare else ''}")
    with contextlib.ExitStack() as stack:
        try:
            hosts = stack.enter_context(Hosts(bench, cut))
            if spare:
                hosts.start(hosts.spare)
                hosts.options += ("--spares", hosts.spare)
            server = stack.enter_context(bench.serve(*SHAPES["2x2"], *hosts.options))
            load, hit = cut_at(bench, server, hosts, phase)
            faults.wait_for(lambda: told_lost(server.log(), hosts.far), 30, "the server's notice of the cut")
            if not spare:
                hosts.set_link("up")
            server.await_log("\nserving ", 60)
            load = load or bench.load(server)
            outcome.take(server, load.finish(120), bench, "2x2", SILENCE + 0.5)
            server.process.terminate()
            if (code := server.process.wait(30)) != 0:
                outcome.wrong.append(f"exit code {code}")
            back = server.log().count(f"({hosts.spare if spare else hosts.far}) is ready")
            if back < (1 if spare or phase == "load" else 2):
                outcome.wrong.append("nobody has taken the place of what was cut off")
            outcome.missed = not hit
            outcome.covered = [(rank, "cut", phase) for rank in ranks] if hit else []
        except subprocess.CalledProcessError as error:
            outcome.wrong.append(f"no network namespaces here: {error.stderr.decode().strip()}")
        except (TimeoutError, RuntimeError, subprocess.TimeoutExpired) as error:
            outcome.wrong.append(str(error).replace("\n", " | ")[-600:])
    return outcome


def told_lost(log, name):
    """Whether the server says that it has lost the process or host of this name."""
    return any(f"({name})" in line and "is ready" not in line for line in log.splitlines())


def schedule(runs, rng):
    """Every (rank, fault, phase) at least once, the shape at random, in random order."""
    every = [(rank, fault, phase) for rank in range(4) for fault in FAULTS for phase in PHASES]
    rng.shuffle(every)
    chosen = [every[i % len(every)] for i in range(runs)]
    return [(rng.choice(sorted(SHAPES)), *case) for case in chosen]


def runs_of(bench, runs, rng):
    """The runs with the tiny model; one that missed its phase is made again, twice at most."""
    cases = [(local_run, bench, *case) for case in schedule(runs, rng)]
    cases += [(cut_run, bench, cut, phase) for cut in range(2) for phase in PHASES]
    rng.shuffle(cases)
    for run, *case in cases:
        for _ in range(3):
            outcome = run(*case)
            yield outcome
            if not outcome.missed:
                break
    yield stale_run(bench)
    yield cut_run(bench, 1, "decode", spare=True)


def print_coverage(outcomes):
    """The table of what has been seen to happen, how often; how many cases never were."""
    counts = collections.Counter(case for outcome in outcomes for case in outcome.covered)
    print(f"\n  {'rank, fault':<14}" + "".join(f"{phase:>18}" for phase in PHASES))
    missing = 0
    for rank in range(4):
        for fault in (*FAULTS, "cut"):
            row = [counts[rank, fault, phase] for phase in PHASES]
            missing += row.count(0)
            print(f"  {rank}, {fault:<11}" + "".join(f"{count:>18}" for count in row))
    return missing


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
        print(f"{runs} runs and those with two hosts; {STREAMS} streams, {PROMPT} + {TOKENS} tokens, seed {seed}")
        outcomes, begin = [], time.monotonic()
        for outcome in itertools.chain(runs_of(bench, runs, rng), real_runs(program, model, messages, services)):
            outcomes.append(outcome)
            print(outcome.line(), flush=True)
    return report(outcomes, time.monotonic() - begin, before)


def report(outcomes, seconds, before):
    """Prints what came of it all; the exit code."""
    missing = print_coverage(outcomes)
    left = faults.leftovers(before)
    bad = [outcome for outcome in outcomes if not outcome.ok()]
    failed, changed = sum(len(o.failed) for o in outcomes), sum(o.changed for o in outcomes)
    pauses = [p99(o.pauses) for o in outcomes if o.pauses]
    print(f"{len(outcomes)} runs in {seconds:.0f} s; the longest p99 of pauses {max(pauses, default=0):.2f} s; "
          f"{missing} (rank, fault, phase) never seen; left behind: {left or 'nothing'}")
    for outcome in bad:
        print("short:" + outcome.line())
    ok = not bad and not missing and not left
    print(f"shard-loss: {failed} failed and {changed} changed streams, {len(bad)} of {len(outcomes)} runs short, "
          f"{missing} cases not covered (goal 0, 0, 0, 0): {'ok' if ok else 'short'}")
    return 0 if ok else 1


if __name__ == "__main__":
    sys.exit(main())
