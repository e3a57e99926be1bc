"""For the checks that hurt a server's shards: starting it, streaming from it, and what was streamed."""

import glob
import importlib
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time

from serving import free_port

PROTO = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../proto")


def stubs(folder):
    """The messages and stubs of generation.proto, compiled into `folder`."""
    subprocess.run([sys.executable, "-m", "grpc_tools.protoc", f"-I{PROTO}", f"--python_out={folder}",
                    f"--grpc_python_out={folder}", "penstock/v1/generation.proto"], check=True)
    sys.path.insert(0, folder)
    return (importlib.import_module("penstock.v1.generation_pb2"),
            importlib.import_module("penstock.v1.generation_pb2_grpc"))


def children(parent):
    """The shards that a process has started: pids by rank."""
    found = {}
    for path in glob.glob("/proc/[0-9]*/cmdline"):
        try:
            line = open(path, "rb").read().decode().split("\0")
        except OSError:
            continue
        socket = next((word for word in line if word.startswith("unix:") and "/rank-" in word), None)
        if socket and line[line.index("--leader") + 1] == str(parent):
            found[int(re.search(r"rank-(\d+)\.sock", socket)[1])] = int(path.split("/")[2])
    return found


def wait_for(condition, seconds, what):
    end = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise TimeoutError(f"{what}: not within {seconds} s")
        time.sleep(0.002)


class Server:
    """A `penstock serve`, perhaps not ready yet. Use as a context."""

    def __init__(self, program, model, *options):
        self.address, self.metrics = (f"127.0.0.1:{free_port()}" for _ in range(2))
        self.log_file = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen(
            [program, "serve", "--model", model, "--listen", self.address, "--metrics", self.metrics,
             *map(str, options)], stdout=self.log_file, stderr=subprocess.STDOUT)

    def log(self):
        # Not through the shared file position, at which the server writes.
        return os.pread(self.log_file.fileno(), 1 << 24, 0).decode(errors="replace")

    def await_log(self, text, seconds, count=1):
        def look():
            if self.process.poll() is not None:
                raise RuntimeError(f"the server has ended:\n{self.log()}")
            return self.log().count(text) >= count
        wait_for(look, seconds, f"'{text}' in the server's log")

    def shard(self, rank, seconds=20):
        return wait_for(lambda: children(self.process.pid).get(rank), seconds, f"a process of rank {rank}")

    def reload_seconds(self):
        """The longest that a shard took to be ready, joining included."""
        return max([0.0] + [float(s) for s in re.findall(r"is ready after ([\d.e-]+) s", self.log())])

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()


class Stream(threading.Thread):
    """One request, read to its end."""

    def __init__(self, messages, stub, index, prompt, tokens):
        super().__init__(daemon=True)
        self.stub, self.tokens, self.error, self.pause = stub, [], None, 0.0
        self.request = messages.GenerateRequest(
            tokens=messages.TokenIds(ids=prompt),
            sampling=messages.Sampling(temperature=0.0 if index % 2 else 0.9, top_k=40, seed=index),
            stopping=messages.Stopping(max_tokens=tokens, ignore_eos=True),
            output=messages.Output(token_ids_only=True))

    def run(self):
        last = time.monotonic()
        try:
            for message in self.stub.Generate(self.request, timeout=240):
                now = time.monotonic()
                self.pause, last = max(self.pause, now - last), now
                self.tokens.extend(message.token_ids)
        except Exception as error:  # whatever it is, the stream has failed
            self.error = str(error)


class Load:
    """`streams` requests at once, greedy and seeded in turn, each with a prompt of its own."""

    def __init__(self, grpc, messages, services, address, streams, prompt, tokens, vocab):
        self.channel, self.total = grpc.insecure_channel(address), streams * tokens
        stub = services.GenerationStub(self.channel)
        self.streams = [
            Stream(messages, stub, i, [(i * 7919 + j * 104729) % (vocab - 3) + 3 for j in range(prompt)],
                   tokens) for i in range(streams)]
        for stream in self.streams:
            stream.start()

    def progress(self):
        return sum(len(stream.tokens) for stream in self.streams)

    def ended(self):
        return not any(stream.is_alive() for stream in self.streams)

    def finish(self, seconds):
        end = time.monotonic() + seconds
        for stream in self.streams:
            stream.join(max(0.0, end - time.monotonic()))
        if not self.ended():
            raise TimeoutError(f"streams are not done within {seconds} s")
        self.channel.close()
        return self.streams


def compare(streams, expected):
    """How many failed, and how many have other tokens than they should."""
    failed = [stream.error for stream in streams if stream.error]
    changed = sum(stream.tokens != tokens for stream, tokens in zip(streams, expected) if not stream.error)
    return failed, changed


def leftovers(before):
    """Shared memory and sockets that were not there before."""
    return sorted(set(glob.glob("/dev/shm/penstock*") + glob.glob("/tmp/penstock-*")) - set(before))


def stop(pid):
    os.kill(pid, signal.SIGSTOP)


def kill(pid):
    os.kill(pid, signal.SIGKILL)
