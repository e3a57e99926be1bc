"""One load generator, two servers in turns: tokens per second, and p99 of the first token and of the gaps.

    cpu_vs_servers.py [ROUNDS]

Closed loops of 1, 4 and 16 clients on the servers' processors; the same prompts of 128 random token ids, 64 tokens each,
greedy. Each server is started anew for its turn, and has answered a few requests before.
"""

import asyncio
import contextlib
import json
import os
import random
import statistics
import subprocess
import sys
import time
import urllib.request

import grpc
from penstock.v1 import generation_pb2 as pb
from penstock.v1 import generation_pb2_grpc

from measuring import Gates
from serving import free_port, serving

MODEL = "models/bench/135m-f16.gguf"
PROMPT, OUTPUT, VOCAB = 128, 64, 49000
PENSTOCK_OPTIONS = ["--max-decode-delay", "0.012"]  # prompts join steps in smaller pieces: steadier gaps
CLIENTS = {1: 12, 4: 32, 16: 96}  # and their requests


def prompts(count):
    draw = random.Random(count)
    return [[draw.randrange(100, VOCAB) for _ in range(PROMPT)] for _ in range(count)]


class Penstock:
    name = "Penstock"

    @staticmethod
    @contextlib.contextmanager
    def run():
        with serving("build/release/cli/penstock", MODEL, *PENSTOCK_OPTIONS) as server:
            yield server.address

    @staticmethod
    @contextlib.asynccontextmanager
    async def connect(address):
        async with grpc.aio.insecure_channel(address) as channel:
            stub = generation_pb2_grpc.GenerationStub(channel)

            async def stream(prompt):
                request = pb.GenerateRequest(tokens=pb.TokenIds(ids=prompt), sampling=pb.Sampling(temperature=0),
                                             stopping=pb.Stopping(max_tokens=OUTPUT, ignore_eos=True))
                tokens = 0
                async for message in stub.Generate(request):
                    tokens += len(message.token_ids)
                    if message.token_ids:
                        yield
                check(Penstock, tokens)

            yield stream


class Llama:
    name = "llama.cpp"

    @staticmethod
    @contextlib.contextmanager
    def run():
        """As its documentation has it: a slot per client, continuous batching, threads for the processors."""
        port, slots = free_port(), max(CLIENTS)
        process = subprocess.Popen(
            ["build/peers/llama-server", "-m", MODEL, "--port", str(port), "-np", str(slots), "-c",
             str(slots * (PROMPT + OUTPUT)), "-t", str(os.cpu_count()), "-tb", str(os.cpu_count()), "-fa", "on"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            deadline = time.monotonic() + 60
            while True:
                try:
                    urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=1).read()
                    break
                except OSError:
                    if process.poll() is not None or time.monotonic() > deadline:
                        raise SystemExit("llama-server did not start")
                    time.sleep(0.1)
            yield port
        finally:
            process.terminate()
            process.wait(30)

    @staticmethod
    @contextlib.asynccontextmanager
    async def connect(port):
        async def stream(prompt):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            body = json.dumps({"prompt": prompt, "n_predict": OUTPUT, "temperature": 0, "ignore_eos": True,
                               "stream": True, "cache_prompt": False, "return_tokens": True}).encode()
            writer.write(b"POST /completion HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: "
                         b"application/json\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
            async for line in reader:
                if not line.startswith(b"data: {"):
                    continue
                message = json.loads(line[6:])
                if message["stop"]:
                    check(Llama, message["tokens_predicted"])
                elif message.get("tokens") or message.get("content"):
                    yield
            writer.close()

        yield stream


def check(server, tokens):
    if tokens != OUTPUT:
        raise SystemExit(f"{server.name} gave {tokens} tokens instead of {OUTPUT}")


async def client(stream, work, times):
    while work:
        last, what = time.perf_counter(), "first"
        async for _ in stream(work.pop()):  # each time that tokens come
            now = time.perf_counter()
            times[what].append(now - last)
            last, what = now, "gap"


async def load(server, address, clients):
    times = {"first": [], "gap": []}
    async with server.connect(address) as stream:
        await asyncio.gather(*(client(stream, prompts(1), {"first": [], "gap": []}) for _ in range(clients)))
        work = prompts(CLIENTS[clients])
        begin = time.perf_counter()
        await asyncio.gather(*(client(stream, work, times) for _ in range(clients)))
        seconds = time.perf_counter() - begin
    return {"rate": CLIENTS[clients] * OUTPUT / seconds, "first": p99(times["first"]), "gap": p99(times["gap"])}


def p99(values):
    return sorted(values)[max(0, -(-99 * len(values) // 100) - 1)]


def main():
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 3
    results = {(server.name, clients): [] for server in (Penstock, Llama) for clients in CLIENTS}
    for turn in range(rounds):
        for server in (Penstock, Llama) if turn % 2 == 0 else (Llama, Penstock):
            with server.run() as address:
                for clients in CLIENTS:
                    results[server.name, clients].append(asyncio.run(load(server, address, clients)))
    gates = Gates("cpu-vs-servers")
    for clients in CLIENTS:
        ours, theirs = (results[server.name, clients] for server in (Penstock, Llama))
        for name, runs in ((Penstock.name, ours), (Llama.name, theirs)):
            rate, first, gap = (statistics.median(run[what] for run in runs) for what in ("rate", "first", "gap"))
            print(f"{clients:3} clients, {name:<10} {rate:7.1f} tokens/s, first token {1000 * first:7.1f} ms, "
                  f"gap {1000 * gap:6.1f} ms (p99)", flush=True)

        def ratio(what):
            return statistics.median(a[what] / b[what] for a, b in zip(ours, theirs))

        gates.least(f"{clients} clients, tokens per second", ratio("rate"), 1, 1.5)
        gates.most(f"{clients} clients, p99 of the first token", ratio("first"), 1, 0.7)
        gates.most(f"{clients} clients, p99 of the gaps", ratio("gap"), 1, 0.7)
    gates.report()


main()
