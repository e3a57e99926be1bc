"""Starts front_bench, a server around an engine that can also be loaded without the server."""

import collections
import contextlib
import json
import os
import subprocess

from serving import Server


class Front:
    def __init__(self, penstock, process, address, vocab):
        self.process, self.vocab = process, vocab
        self.server = Server(penstock, address, None)
        self.seed = 0  # no two loads have the same prompts

    def bare(self, concurrency, requests, prompt, output):
        """A closed loop on the engine, without gRPC and text."""
        self.seed += 1
        self.process.stdin.write(f"bare {concurrency} {requests} {prompt} {output} {self.seed}\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def served(self, concurrency, requests, prompt, output):
        """The same load from another process, with gRPC: the report of `penstock bench`."""
        self.seed += 1
        return self.server.bench("--concurrency", concurrency, "--requests", requests, "--prompt-tokens",
                                 prompt, "--output-tokens", output, "--vocab", self.vocab, "--warm-up", 0,
                                 "--seed", self.seed)

    def cpu(self):
        """Seconds of processor that its threads have had, by name."""
        seconds = collections.Counter()
        tasks = f"/proc/{self.process.pid}/task"
        for task in os.listdir(tasks):
            with contextlib.suppress(OSError):
                name = open(f"{tasks}/{task}/comm").read().split()[0]
                seconds[name] += int(open(f"{tasks}/{task}/schedstat").read().split()[0]) / 1e9
        return seconds


@contextlib.contextmanager
def fronting(penstock, program, model, tokenizer, *options):
    process = subprocess.Popen([program, "--model", model, "--tokenizer", tokenizer, *map(str, options)],
                               stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        ready = json.loads(process.stdout.readline())
        yield Front(penstock, process, ready["address"], ready["vocab"])
    finally:
        process.stdin.close()
        process.wait(60)
