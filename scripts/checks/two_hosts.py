"""A model over two hosts with a slow, a narrow and a lossy road between them: two_hosts.py PENSTOCK MODEL."""

import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile

import faults
import hosts

DELAY_MS, CAP_MBIT, LOSS = 10, 1000, 0.01
PROBE_MS = 10  # the least that TCP waits before it sends a lost tail again
TOLERANCE = 0.15
HIDDEN, CHUNK = 576, 256  # of SmolLM2-135M; --prefill-chunk
PROMPT = "Tell me a long story about a river"
TRIALS = 3


class TwoHosts:
    """A leader and the first stage on one host, the second stage on the other."""

    def __init__(self, program, model, here, there, stack):
        self.program, self.here = program, here
        self.address = f"{here.address}:50051"
        self.log = stack.enter_context(tempfile.TemporaryFile("w+"))
        for host in (here, there):
            self.start(stack, host, "shard", "--listen", f"{host.address}:7000", "--data-address", host.address,
                       "--insecure")
        self.server = self.start(
            stack, here, "serve", "--model", model, "--pipeline", 2, "--threads", 1, "--max-context", 2048,
            "--workers", f"{here.address}:7000,{there.address}:7000", "--listen", self.address, "--metrics", "off",
            "--prefill-chunk", CHUNK, "--prefix-cache=false")
        faults.wait_for(lambda: "\nserving " in os.pread(self.log.fileno(), 1 << 20, 0).decode(), 60,
                        "the server to be ready")

    def start(self, stack, host, *words):
        process = subprocess.Popen(host.command(self.program, *words), stdout=self.log, stderr=self.log)
        stack.callback(process.wait)
        stack.callback(process.kill)
        return process

    def generate(self):
        return self.here.run(self.program, "generate", "--address", self.address, "--max-tokens", 100, "--seed", 7,
                             "--ignore-eos", PROMPT).stdout

    def bench(self, concurrency, requests, prompt, output):
        with tempfile.NamedTemporaryFile(suffix=".json") as report:
            self.here.run(self.program, "bench", "--address", self.address, "--quiet", "--json", report.name,
                          "--concurrency", concurrency, "--requests", requests, "--prompt-tokens", prompt,
                          "--output-tokens", output, "--warm-up", 0)
            return json.load(open(report.name))

    def figures(self):
        """Seconds of a token of one stream, of a round of 16, and to the first token of a long prompt; medians."""
        def median(measure):
            return statistics.median(measure() for _ in range(TRIALS))
        return {"token": median(lambda: self.bench(1, 2, 16, 64)["latency_seconds"]["itl"]["p50"]),
                "round of 16": median(lambda: self.bench(16, 16, 16, 64)["latency_seconds"]["itl"]["p50"]),
                "first token of 1024": median(lambda: self.bench(1, 2, 1024, 2)["latency_seconds"]["ttft"]["p50"])}


@contextlib.contextmanager
def bridged(mbit=None, loss=None):
    with hosts.bridged(2, mbit) as (here, there):
        for host in (here, there):
            if loss:
                host.run("iptables", "-A", "INPUT", "-i", "eth0", "-m", "statistic", "--mode", "random",
                         "--probability", loss, "-j", "DROP")
        yield here, there


@contextlib.contextmanager
def relayed(delay):
    with hosts.bridged(2) as (here, there):
        ends = [hosts.Host(here.name, "10.215.0.1"), hosts.Host(there.name, "10.215.0.2")]
        relay = subprocess.Popen(
            [sys.executable, "-B", os.path.join(os.path.dirname(os.path.abspath(__file__)), "relay.py"),
             here.name, ends[0].address, there.name, ends[1].address, str(delay)], stdout=subprocess.PIPE, text=True)
        try:
            if relay.stdout.readline() != "ready\n":
                raise RuntimeError("the relay did not start")
            yield ends
        finally:
            relay.kill()
            relay.wait()


def measure(program, model, road):
    with contextlib.ExitStack() as stack:
        pair = TwoHosts(program, model, *stack.enter_context(road), stack)
        text = pair.generate()
        return text, pair.figures()


def main():
    program, model = sys.argv[1:3]
    short, cases = [], 0
    undisturbed = {}

    def compare(what, road, base, predict, tolerance):
        nonlocal cases
        cases += 1
        try:
            text, seconds = measure(program, model, road)
        except (RuntimeError, TimeoutError) as error:
            print(f"  {what}: {error}")
            short.append(what)
            return
        same = text == undisturbed["text"]
        fine = same
        print(f"{what}: {'the same tokens' if same else 'OTHER TOKENS'}")
        for figure, value in seconds.items():
            predicted = predict(figure, undisturbed[base][figure])
            off = value / predicted - 1
            fine = fine and off <= tolerance
            print(f"  {figure:<20} {value * 1e3:8.1f} ms, predicted {predicted * 1e3:8.1f} ms ({off:+.0%}), "
                  f"undisturbed {undisturbed[base][figure] * 1e3:.1f} ms", flush=True)
        if not fine:
            short.append(what)

    for kind, road in (("bridge", bridged), ("relay", lambda: relayed(0))):
        undisturbed["text"], first = measure(program, model, road())
        _, second = measure(program, model, road())
        undisturbed[kind] = {figure: min(first[figure], second[figure]) for figure in first}
    # A step's activations and then its result cross the road: two delays in every round.
    compare(f"{DELAY_MS} ms each way", relayed(DELAY_MS), "relay",
            lambda figure, value: value + 2 * DELAY_MS / 1e3, TOLERANCE)
    # While a chunk crosses, the next is computed; what is added is the crossing of the last.
    crossing = CHUNK * HIDDEN * 4 * 8 / (CAP_MBIT * 1e6)
    compare(f"{CAP_MBIT / 1e3:g} Gbit/s", bridged(mbit=CAP_MBIT), "bridge",
            lambda figure, value: value + (crossing if figure.startswith("first") else 0), TOLERANCE)
    # About five packets a round, each of which is lost with this probability and then sent again.
    compare(f"{LOSS:.0%} of packets lost", bridged(loss=LOSS), "bridge",
            lambda figure, value: value + 5 * LOSS * PROBE_MS / 1e3, 1.0)
    print(f"two-hosts: {len(short)} of {cases} roads with other tokens or slower than predicted "
          f"{'(' + ', '.join(short) + ') ' if short else ''}(goal 0): {'short' if short else 'ok'}")
    return 1 if short else 0


if __name__ == "__main__":
    sys.exit(main())
