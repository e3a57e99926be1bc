"""The `kserve-clients` check: kserve_clients.py PENSTOCK MODEL ENCODER FOLDER. Runs tritonclient and
perf_analyzer against both models, and prints a "gate:" line for each kind of client."""

import csv
import json
import os
import queue
import subprocess
import sys
import sysconfig

import numpy as np
import tritonclient.grpc as triton
from tritonclient.utils import InferenceServerException

from serving import gate, serving

PROMPT = "Once upon a time"
TOKENS = 24
LARGE = 12 << 20  # bytes
WINDOW = 6000  # milliseconds that perf_analyzer measures at a time
HERE = os.path.dirname(sys.executable)


def tensor(name, datatype, values, shape=None):
    kinds = {"BYTES": np.object_, "BOOL": np.bool_, "FP32": np.float32, "FP64": np.float64, "FP16": np.float16}
    array = np.array(values, dtype=kinds.get(datatype) or np.dtype(datatype.lower()))
    array = array.reshape(shape or [len(values)])
    made = triton.InferInput(name, list(array.shape), datatype)
    made.set_data_from_numpy(array)
    return made


def prompt(stream=False, tokens=TOKENS):
    parameters = json.dumps({"temperature": "0", "max_tokens": str(tokens)})
    return [tensor("text_input", "BYTES", [PROMPT.encode()]), tensor("stream", "BOOL", [stream]),
            tensor("exclude_input_in_output", "BOOL", [True]),
            tensor("sampling_parameters", "BYTES", [parameters.encode()])]


def text_of(result):
    return b"".join(result.as_numpy("text_output")).decode()


def same_text(one, other):
    return one.strip("\n") == other.strip("\n")


def check_sync(client, model, expected):
    """One answer, and the same from every way of asking."""
    whole = text_of(client.infer(model, prompt()))
    as_parameters = text_of(client.infer(
        model, [tensor("text_input", "BYTES", [PROMPT.encode()])],
        parameters={"temperature": 0.0, "max_tokens": TOKENS, "exclude_input_in_output": True}))
    as_tensors = text_of(client.infer(model, [
        tensor("text_input", "BYTES", [PROMPT.encode()], [1, 1]), tensor("max_tokens", "INT32", [TOKENS], [1, 1]),
        tensor("temperature", "FP32", [0.0]), tensor("exclude_input_in_output", "BOOL", [True])]))
    compressed = text_of(client.infer(model, prompt(), compression_algorithm="gzip"))
    answers = [whole, as_parameters, as_tensors, compressed]
    same = sum(same_text(answer, expected) for answer in answers)
    gate(f"sync: {same} of {len(answers)} ways give the native answer", f"{len(answers)}", same == len(answers))


def check_async(client, model, expected):
    done = queue.Queue()
    count = 16
    for _ in range(count):
        client.async_infer(model, prompt(), lambda result, error: done.put(error or text_of(result)))
    answers = [done.get(timeout=120) for _ in range(count)]
    same = sum(isinstance(answer, str) and same_text(answer, expected) for answer in answers)
    gate(f"async: {same} of {count} give the native answer", f"{count}", same == count)


def check_streaming(client, model, expected):
    count = 4
    arrived = queue.Queue()
    client.start_stream(lambda result, error: arrived.put((result, error)))
    for number in range(count):
        client.async_stream_infer(model, prompt(stream=True), request_id=str(number),
                                  enable_empty_final_response=True)
    client.async_stream_infer("no-such-model", prompt(stream=True), request_id="bad")
    texts, messages, errors, open_ones = {}, 0, 0, count
    while open_ones or not errors:
        result, error = arrived.get(timeout=120)
        if error:
            errors += 1
            continue
        response = result.get_response()
        messages += 1
        texts[response.id] = texts.get(response.id, "") + text_of(result)
        open_ones -= response.parameters["triton_final_response"].bool_param
    client.stop_stream()
    same = sum(same_text(text, expected) for text in texts.values())
    gate(f"streaming: {same} of {count} give the native answer, in {messages} messages, beside {errors} error",
         f"{count}, 1 error, more messages than requests", same == count and errors == 1 and messages > count)


def check_rpcs(client, model, inputs, datatypes):
    """Every RPC of the client, and tensors of every datatype; counts what answers as it should."""
    def refused(call, *arguments):
        try:
            call(*arguments)
        except InferenceServerException as error:
            return error.status() == "StatusCode.UNIMPLEMENTED"
        return False
    answers = {
        "live": client.is_server_live(),
        "ready": client.is_server_ready(),
        "model ready": client.is_model_ready(model, "1") and not client.is_model_ready("no-such-model"),
        "server metadata": "statistics" in client.get_server_metadata().extensions,
        "model metadata": {i.name for i in client.get_model_metadata(model).inputs} >= inputs,
        "model config": {i.name for i in client.get_model_config(model).config.input} >= inputs,
        "statistics": client.get_inference_statistics(model).model_stats[0].name == model,
        "index": [m.state for m in client.get_model_repository_index().models] == ["READY"],
        "load": refused(client.load_model, model),
        "unload": refused(client.unload_model, model),
        "system memory status": len(client.get_system_shared_memory_status().regions) == 0,
        "cuda memory status": len(client.get_cuda_shared_memory_status().regions) == 0,
        "system memory": refused(client.register_system_shared_memory, "r", "/r", 64),
        "cuda memory": refused(client.register_cuda_shared_memory, "r", b"eA==", 0, 64),
        "no system memory": client.unregister_system_shared_memory() is None,
        "no cuda memory": client.unregister_cuda_shared_memory() is None,
        "trace settings": refused(client.get_trace_settings),
        "log settings": refused(client.get_log_settings),
    }
    for datatype, make in datatypes:
        client.infer(model, make(datatype))
        answers[datatype] = True
    good = sum(answers.values())
    for name in (name for name, answer in answers.items() if not answer):
        print(f"  {model}: {name} is not as it should be")
    return good, len(answers)


def generator_datatypes():
    def integers(datatype):
        return [tensor("input_ids", datatype, [5, 6, 7]), tensor("max_tokens", "INT32", [1])]

    def floats(datatype):
        return [*prompt(tokens=1), tensor("top_p", datatype, [0.5])]
    names = [f"{sign}INT{bits}" for sign in ("", "U") for bits in (8, 16, 32, 64)]
    return ([(name, integers) for name in names] + [(name, floats) for name in ("FP16", "FP32", "FP64")] +
            [("BOOL", lambda datatype: [*prompt(tokens=1), tensor("ignore_eos", datatype, [True])])])


def check_encoder(client, server, penstock, model):
    texts = [PROMPT, "In the beginning", "x"]
    embedded = client.infer(model, [tensor("text", "BYTES", [t.encode() for t in texts], [3, 1])]).as_numpy("embedding")
    run = subprocess.run([penstock, "embed", "--address", server.address, *texts],
                         capture_output=True, text=True, check=True)
    told = [json.loads(line) for line in run.stdout.splitlines()]
    apart = max(np.abs(row - np.array(one["values"], np.float32)).max() for row, one in zip(embedded, told))
    large = client.infer(model, [tensor("text", "BYTES", [b"word " * (LARGE // 5)])], parameters={"truncate": True})
    width = large.as_numpy("embedding").shape[1]
    gate(f"encoder: {apart:.1e} from the native answer; a request of {LARGE >> 20} MB gives {width} numbers",
         "0, more than 0", apart == 0 and width > 0)


def perf_analyzer(server, model, folder, *options):
    """Its table: requests per second by concurrency, and the count of errors."""
    table = os.path.join(folder, "table.csv")
    library = os.path.join(sysconfig.get_paths()["purelib"], "nvidia/cuda_runtime/lib")
    environment = dict(os.environ, LD_LIBRARY_PATH=f"{library}:{HERE}/../lib")
    run = subprocess.run(
        [os.path.join(HERE, "perf_analyzer"), "-m", model, "-u", server.address, "-i", "grpc", "-f", table,
         "--measurement-interval", str(WINDOW), "--stability-percentage", "50", *options],
        capture_output=True, text=True, env=environment)
    if run.returncode != 0:
        print(run.stdout + run.stderr)
        return []
    with open(table, encoding="utf-8") as file:
        return [float(row["Inferences/Second"]) for row in csv.DictReader(file)]


def load(server, model, folder, *options):
    rates = perf_analyzer(server, model, folder, *options)
    print(f"  perf_analyzer {' '.join(options)}: {', '.join(f'{rate:.1f}/s' for rate in rates) or 'failed'}")
    return bool(rates) and min(rates) > 0


def payload(folder, name, inputs):
    path = os.path.join(folder, name)
    with open(path, "w", encoding="utf-8") as file:
        json.dump({"data": [inputs]}, file)
    return path


def generator_load(server, model, folder):
    """As genai-perf drives it, with its payloads for vLLM's and for TensorRT-LLM's front end."""
    vllm = payload(folder, "vllm.json", {"text_input": [PROMPT], "exclude_input_in_output": [True], "stream": [True],
                                          "sampling_parameters": ['{"max_tokens": "8", "min_tokens": "8"}']})
    tensorrt = payload(folder, "tensorrt.json", {"text_input": [PROMPT], "max_tokens": [8], "min_length": [8],
                                                  "exclude_input_in_output": [True], "stream": [True]})
    options = ["--async", "--streaming", "--concurrency-range", "4"]
    return [load(server, model, folder, *options, "--input-data", path) for path in (vllm, tensorrt)]


def main():
    penstock, model, encoder, folder = sys.argv[1:]
    with serving(penstock, model, "--served-model-name", "smol", "--pipeline", 2) as server:
        client = triton.InferenceServerClient(server.address)
        expected = server.generate(PROMPT, TOKENS)
        check_sync(client, "smol", expected)
        check_async(client, "smol", expected)
        check_streaming(client, "smol", expected)
        rpcs = check_rpcs(client, "smol", {"text_input", "stream", "max_tokens"}, generator_datatypes())
        loads = generator_load(server, "smol", folder)
    with serving(penstock, encoder, "--served-model-name", "minilm") as server:
        client = triton.InferenceServerClient(server.address)
        check_encoder(client, server, penstock, "minilm")
        ids = [(name, lambda datatype: [tensor("input_ids", datatype, [101, 7592, 102], [1, 3])])
               for name in ("INT32", "INT64")]
        more = check_rpcs(client, "minilm", {"text"}, ids)
        texts = payload(folder, "texts.json", {"text": [PROMPT]})
        loads.append(load(server, "minilm", folder, "--concurrency-range", "1:4:3", "-b", "4", "--input-data", texts))
    good, known = (sum(pair) for pair in zip(rpcs, more))
    gate(f"{good} of {known} RPCs and datatypes", f"{known}", good == known)
    gate(f"perf_analyzer: {sum(loads)} of {len(loads)} loads", f"{len(loads)}", all(loads))


if __name__ == "__main__":
    main()
