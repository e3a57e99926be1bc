"""Starts the server and the load generator for the checks that measure whole servers."""

import contextlib
import json
import os
import socket
import subprocess
import tempfile
import time


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def gate(figure, goal, ok):
    """A line of which report_gates makes the last one of a check."""
    print(f"gate: {figure} (goal {goal}): {'ok' if ok else 'short'}", flush=True)


class Server:
    def __init__(self, program, address, metrics):
        self.program, self.address, self.metrics = program, address, metrics

    def generate(self, prompt, tokens):
        """What `penstock generate` answers, greedily."""
        run = subprocess.run(
            [self.program, "generate", "--address", self.address, "--temperature", "0",
             "--max-tokens", str(tokens), prompt], capture_output=True, text=True, check=True)
        return run.stdout

    def bench(self, *options):
        """Runs `penstock bench`; its JSON report."""
        with tempfile.NamedTemporaryFile(suffix=".json") as report:
            run = subprocess.run(
                [self.program, "bench", "--address", self.address, "--quiet",
                 "--json", report.name, *map(str, options)],
                capture_output=True, text=True)
            if run.returncode != 0:
                raise SystemExit(f"bench {' '.join(map(str, options))} failed:\n{run.stdout}{run.stderr}")
            result = json.load(open(report.name))
        failed = result["requests"]["failed"]
        if failed:
            raise SystemExit(f"{failed} requests failed: {result['failures']}")
        return result

    def start_bench(self, *options):
        """The same in the background; call the result to wait for the report."""
        handle, path = tempfile.mkstemp(suffix=".json")
        os.close(handle)
        process = subprocess.Popen(
            [self.program, "bench", "--address", self.address, "--quiet", "--json", path,
             *map(str, options)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

        def wait():
            output, _ = process.communicate()
            if process.returncode != 0:
                raise SystemExit(f"bench {' '.join(map(str, options))} failed:\n{output}")
            result = json.load(open(path))
            os.unlink(path)
            return result

        return wait


@contextlib.contextmanager
def serving(program, model, *options):
    """A server of `model`, ready; stopped at the end."""
    address, metrics = (f"127.0.0.1:{free_port()}" for _ in range(2))
    with tempfile.TemporaryFile("w+") as log:
        process = subprocess.Popen(
            [program, "serve", "--model", model, "--listen", address, "--metrics", metrics,
             *map(str, options)], stdout=log, stderr=subprocess.STDOUT)
        try:
            deadline = time.monotonic() + 120
            while True:
                log.seek(0)
                text = log.read()
                if "\nserving " in text or text.startswith("serving "):
                    break
                if process.poll() is not None or time.monotonic() > deadline:
                    raise SystemExit(f"the server did not start:\n{text}")
                time.sleep(0.05)
            yield Server(program, address, metrics)
        finally:
            process.terminate()
            process.wait(60)
