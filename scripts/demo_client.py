#!/usr/bin/env python3
"""Starts a server, streams one answer from it, and prints what it cost: demo_client.py PENSTOCK MODEL
[QUESTION]. Without a question the committed one is asked and the answer compared with the reference's;
the last line is then the verdict of the `demo` check. The server is stopped at the end, whatever happens.
"""

import json
import os
import re
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request

HERE = os.path.dirname(os.path.abspath(__file__))
TRANSCRIPT = os.path.join(HERE, "../tests/data/demo/transcript.json")
STAGES = 2
GOAL_SECONDS = 3.0
READY_SECONDS = 60


def chat(transcript, question):
    return transcript["prompt"].replace(transcript["question"], question)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Server:
    """A `penstock serve` of our own. Use as a context."""

    def __init__(self, penstock, model):
        self.address = f"127.0.0.1:{free_port()}"
        self._metrics = f"127.0.0.1:{free_port()}"
        self._log = tempfile.TemporaryFile("w+")
        self.started = time.monotonic()
        self._process = subprocess.Popen(
            [penstock, "serve", "--model", model, "--pipeline", str(STAGES), "--listen", self.address,
             "--metrics", self._metrics], stdout=self._log, stderr=subprocess.STDOUT)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._process.terminate()
        try:
            self._process.wait(30)
        except subprocess.TimeoutExpired:
            self._process.kill()

    def log(self):
        with open(f"/proc/self/fd/{self._log.fileno()}", encoding="utf-8") as file:
            return file.read()

    def wait_until_ready(self):
        while "serving " not in self.log():
            if self._process.poll() is not None:
                raise SystemExit(f"the server ended while starting:\n{self.log()}")
            if time.monotonic() - self.started > READY_SECONDS:
                raise SystemExit(f"the server was not ready after {READY_SECONDS} s:\n{self.log()}")
            time.sleep(0.01)
        print(self.log().rstrip(), flush=True)

    def stage_seconds(self):
        """{("busy" or "bubble", stage): seconds} since the server's start."""
        with urllib.request.urlopen(f"http://{self._metrics}/metrics", timeout=10) as reply:
            text = reply.read().decode()
        found = re.findall(
            r'^penstock_stage_(busy|bubble)_seconds_total\{[^}]*stage="(\d+)"[^}]*\} (\S+)', text, re.M)
        return {(kind, int(stage)): float(value) for kind, stage, value in found}


class Answer:
    """What came back, and when."""

    def __init__(self):
        self.ids, self.text, self.arrivals, self.last = [], "", [], {}

    def add(self, message):
        ids = message.get("token_ids", [])
        self.ids += ids
        self.text += message.get("text", "")
        self.arrivals += [time.monotonic()] * len(ids)
        self.last = message

    def tokens_per_second(self):
        span = self.arrivals[-1] - self.arrivals[0] if self.arrivals else 0
        return (len(self.arrivals) - 1) / span if span > 0 else 0.0


def ask(penstock, server, prompt):
    """Streams the greedy answer, printing it as it comes."""
    command = [penstock, "generate", "--address", server.address, "--prompt", prompt,
               "--temperature", "0", "--max-tokens", "256", "--json"]
    answer = Answer()
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as client:
        for line in client.stdout:
            answer.add(json.loads(line))
            print(json.loads(line).get("text", ""), end="", flush=True)
    print("\n")
    if client.returncode != 0 or not answer.ids:
        raise SystemExit(f"penstock generate failed; the server said:\n{server.log()}")
    return answer


def print_figures(server, asked, answer, before):
    after = server.stage_seconds()
    print(f"time to first token  {1e3 * (answer.arrivals[0] - asked):.0f} ms")
    print(f"tokens per second    {answer.tokens_per_second():.1f} ({len(answer.ids)} tokens)")
    for stage in range(STAGES):
        busy, bubble = (after.get((kind, stage), 0) - before.get((kind, stage), 0)
                        for kind in ("busy", "bubble"))
        share = 100 * bubble / (busy + bubble) if busy + bubble > 0 else 0
        print(f"stage {stage}              busy {busy:.2f} s, bubble {bubble:.2f} s ({share:.0f} %)")
    print("(one stream can keep only one stage busy at a time; several fill the pipe)")


def verdict(transcript, answer, first_token):
    same = answer.ids == transcript["ids"] and answer.text == transcript["text"]
    if not same:
        print(f"expected: {transcript['text']}\nexpected ids: {transcript['ids']}\nids: {answer.ids}")
    ok = same and first_token <= GOAL_SECONDS
    print(f"demo: {len(answer.ids)} tokens {'equal to' if same else 'other than'} the reference's, first token "
          f"{first_token:.2f} s after the start (goal equal, at most {GOAL_SECONDS:g} s): "
          f"{'ok' if ok else 'short'}")
    return 0 if ok else 1


def main():
    penstock, model = sys.argv[1:3]
    with open(TRANSCRIPT, encoding="utf-8") as file:
        transcript = json.load(file)
    question = sys.argv[3] if len(sys.argv) > 3 else transcript["question"]
    with Server(penstock, model) as server:
        server.wait_until_ready()
        before = server.stage_seconds()
        print(f"\n> {question}\n", flush=True)
        asked = time.monotonic()
        answer = ask(penstock, server, chat(transcript, question))
        print_figures(server, asked, answer, before)
        if question != transcript["question"]:
            return 0
        return verdict(transcript, answer, answer.arrivals[0] - server.started)


if __name__ == "__main__":
    sys.exit(main())
