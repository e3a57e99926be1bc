"""The `openai-gateway` check: openai_gateway.py PENSTOCK MODEL. Puts the SMG gateway in front of a server of
two stages, talks to it with OpenAI's client, and prints a "gate:" line for each thing that must hold."""

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
import urllib.request

import openai

from serving import free_port, gate, serving

TOKENS = 40
QUESTION = "What is the capital of France?"
# What the model's template makes of the question.
PROMPT = ("<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n"
          f"<|im_start|>user\n{QUESTION}<|im_end|>\n<|im_start|>assistant\n")


@contextlib.contextmanager
def gateway(worker):
    """A client of a gateway before the worker, ready."""
    port = free_port()
    command = [os.path.join(os.path.dirname(sys.executable), "smg"), "launch", "--worker-urls", f"grpc://{worker}",
               "--host", "127.0.0.1", "--port", str(port), "--prometheus-host", "127.0.0.1",
               "--prometheus-port", str(free_port())]
    with tempfile.TemporaryFile("w+") as log:
        process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
        client = openai.OpenAI(base_url=f"http://127.0.0.1:{port}/v1", api_key="none", max_retries=0)
        try:
            deadline = time.monotonic() + 60
            while True:
                try:
                    ask(client, client.models.list().data[0].id, max_tokens=1)
                    break
                except (openai.APIError, IndexError) as error:
                    if process.poll() is not None or time.monotonic() > deadline:
                        log.seek(0)
                        raise SystemExit(f"the gateway did not start: {error}\n{log.read()[-4000:]}")
                    time.sleep(0.2)
            yield client
        finally:
            process.terminate()
            process.wait(30)


def ask(client, model, **options):
    return client.chat.completions.create(
        model=model, messages=[{"role": "user", "content": QUESTION}],
        **{"temperature": 0, "max_tokens": TOKENS, **options})


def stream(client, model, **options):
    text, usage = "", None
    for event in ask(client, model, stream=True, stream_options={"include_usage": True}, **options):
        usage = event.usage or usage
        for choice in event.choices:
            text += choice.delta.content or ""
    return text, usage


def running(server):
    lines = urllib.request.urlopen(f"http://{server.metrics}/metrics").read().decode().splitlines()
    return sum(float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith("penstock_requests_running{"))


def check_answers(client, model, expected):
    whole = ask(client, model)
    text, usage = stream(client, model)
    same = [whole.choices[0].message.content, text].count(expected)
    gate(f"chat: {same} of 2 ways give the native answer", "2", same == 2)
    counts = [(u.prompt_tokens, u.completion_tokens) for u in (whole.usage, usage)]
    gate(f"usage: {counts[0]} at once, {counts[1]} streaming", "the same, not 0",
         counts[0] == counts[1] and min(counts[0]) > 0)


def check_options(client, model, expected):
    stopped = ask(client, model, stop=[" is"]).choices[0]
    samples = ask(client, model, n=3).choices
    logprobs = ask(client, model, logprobs=True, top_logprobs=2).choices[0].logprobs.content
    cut = ask(client, model, max_tokens=2).choices[0]
    held = [stopped.finish_reason == "stop" and stopped.message.content.strip() == expected.split(" is")[0],
            len(samples) == 3 and all(s.message.content == expected for s in samples),
            all(len(token.top_logprobs) == 2 and token.logprob <= 0 for token in logprobs),
            cut.finish_reason == "length" and expected.startswith(cut.message.content)]
    gate(f"options: {sum(held)} of {len(held)} (stop, n, logprobs, max_tokens)", f"{len(held)}", all(held))


def check_refusal(client, model):
    """What the server does not do is refused, and others are served on."""
    schema = {"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "object"}}}
    try:
        ask(client, model, response_format=schema)
        told = "was answered"
    except openai.APIError as error:
        told = str(error)
    print(f"a schema: {told}")
    gate(f"refusal: {'named' if 'json_schema' in told else 'not named'}", "named", "json_schema" in told)


def check_disconnect(client, server, model):
    events = ask(client, model, stream=True, max_tokens=1500, temperature=1.5)
    next(iter(events))
    events.close()
    deadline = time.monotonic() + 10
    while running(server) > 0 and time.monotonic() < deadline:
        time.sleep(0.05)
    gate(f"disconnect: {running(server):.0f} sequences left", "0", running(server) == 0)


def main(program, model_path):
    with serving(program, model_path, "--pipeline", 2) as server, gateway(server.address) as client:
        model = client.models.list().data[0].id
        expected = server.generate(PROMPT, TOKENS).rstrip("\n")
        print(json.dumps({"model": model, "answer": expected}))
        check_answers(client, model, expected)
        check_options(client, model, expected)
        check_refusal(client, model)
        check_disconnect(client, server, model)
    gate("stubs of TGIS and TEI: none driven", "every RPC", False)  # TGIS is not served yet


if __name__ == "__main__":
    main(*sys.argv[1:])
