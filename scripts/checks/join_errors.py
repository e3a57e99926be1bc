"""Leaders and workers that cannot work together: join_errors.py PENSTOCK MODEL OTHER-MODEL."""

import concurrent.futures
import contextlib
import os
import re
import subprocess
import sys
import tempfile
import threading
import time

import grpc

import faults
from serving import free_port

BOUND = 15.0  # seconds from the start to the error
START = 3  # --start-timeout


def certificates(folder):
    """An authority, a certificate for localhost by it, and another authority that knows neither."""
    def openssl(*arguments):
        subprocess.run(["openssl", *arguments], check=True, capture_output=True, cwd=folder)
    for name in ("ca", "stranger"):
        openssl("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", f"/CN={name}",
                "-keyout", f"{name}.key", "-out", f"{name}.pem")
    openssl("req", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=localhost", "-keyout", "host.key", "-out", "host.csr")
    with open(f"{folder}/host.ext", "w") as file:
        file.write("subjectAltName=DNS:localhost,IP:127.0.0.1\n")
    openssl("x509", "-req", "-in", "host.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial",
            "-days", "2", "-extfile", "host.ext", "-out", "host.pem")


@contextlib.contextmanager
def worker(program, *options, address=None, wait=True):
    address = address or f"127.0.0.1:{free_port()}"
    log = tempfile.TemporaryFile("w+")
    process = subprocess.Popen([program, "shard", "--listen", address, *options], stderr=log)
    try:
        if wait:
            faults.wait_for(lambda: "waiting for its leader" in os.pread(log.fileno(), 4096, 0).decode(), 10,
                            "a worker that listens")
        yield address
    finally:
        process.kill()
        process.wait()


@contextlib.contextmanager
def other_build(folder):
    """A worker that says it is of another build."""
    sys.path.insert(0, folder)
    subprocess.run([sys.executable, "-m", "grpc_tools.protoc", f"-I{faults.PROTO}", f"--python_out={folder}",
                    f"--grpc_python_out={folder}", "penstock/v1/shard.proto"], check=True)
    from penstock.v1 import shard_pb2, shard_pb2_grpc

    class Other(shard_pb2_grpc.ShardWorkerServicer):
        def Serve(self, requests, context):
            for _ in requests:
                yield shard_pb2.WorkerMessage(hello=shard_pb2.Hello(protocol=1, build="0.0.1"))

    server = grpc.server(concurrent.futures.ThreadPoolExecutor(2))
    shard_pb2_grpc.add_ShardWorkerServicer_to_server(Other(), server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        server.stop(0)


def run(program, *arguments):
    """The exit code, standard error, and the seconds it took."""
    begin = time.monotonic()
    try:
        result = subprocess.run([program, *arguments], capture_output=True, text=True, timeout=60)
    except subprocess.TimeoutExpired:
        return None, "", time.monotonic() - begin
    return result.returncode, result.stderr, time.monotonic() - begin


def main():
    program, model, other_model = sys.argv[1:4]
    folder = tempfile.mkdtemp()
    certificates(folder)
    for name, token in (("token", "correct-horse-battery"), ("wrong", "incorrect-horse-battery")):
        with open(f"{folder}/{name}", "w", opener=lambda path, flags: os.open(path, flags, 0o600)) as file:
            file.write(token + "\n")
    tls = [f"--shard-tls-{part}={folder}/{file}" for part, file in (("ca", "ca.pem"), ("cert", "host.pem"), ("key", "host.key"))]
    bad = 0

    def expect(what, result, *words):
        nonlocal bad
        code, text, seconds = result
        errors = [line for line in text.splitlines() if line.startswith("penstock: error: ")]
        told = len(errors) == 1 and all(re.search(word, errors[0]) for word in words)
        fine = code not in (0, None) and told and seconds <= BOUND
        bad += not fine
        print(f"  {'ok   ' if fine else 'SHORT'} {what}, {seconds:.1f} s, exit code {code}: "
              f"{errors[0][17:] if errors else text[-300:]}")

    def serve(workers, *options):
        return run(program, "serve", "--model", model, "--pipeline", "2", "--listen", "127.0.0.1:0", "--metrics", "off",
                   "--workers", workers, "--start-timeout", str(START), "--shard-silence", "2", *options)

    with other_build(folder) as address:
        expect("another version", serve(f"{address}*2"), "0.0.1", r"build")
    with worker(program, "--shard-token-file", f"{folder}/token") as address:
        expect("a wrong token", serve(f"{address}*2", "--shard-token-file", f"{folder}/wrong"), "token")
        expect("no token", serve(f"{address}*2"), "token")
    with worker(program, *tls) as address:
        expect("no TLS against TLS", serve(f"{address}*2"), r"TLS|tls|certificate")
        expect("another authority", serve(f"{address}*2", f"--shard-tls-ca={folder}/stranger.pem", *tls[1:]),
               r"certificate|CERTIFICATE")
    expect("beyond this host without either", run(program, "shard", "--listen", "0.0.0.0:0"), "--insecure", "--shard-token-file")
    with worker(program, "--model", other_model) as address:
        expect("another model there", serve(f"{address}*2"), "is not the model that the leader has")
    with worker(program, "--model", "/no/such/model") as address:
        expect("no model there", serve(f"{address}*2"), "/no/such/model")
    with worker(program) as address:
        expect("too little memory", serve(f"{address}*2", "--kv-tokens", "2000000000"), r"memory|KV|kv-tokens")
        expect("a worker that listens there already", run(program, "shard", "--listen", address), "in use")
    with worker(program) as address:
        expect("a worker with a leader", busy(program, model, address, serve), "has a leader already")
    expect("a name that does not resolve", serve("no-such-host.invalid:7000*2"), "no-such-host.invalid", r"resol|DNS")
    expect("nobody there", serve(f"127.0.0.1:{free_port()}*2"), "127.0.0.1", r"[Cc]onnect|refused|listen")
    expect("too few ranks", serve("127.0.0.1:7000"), "ranks")
    expect("no address at all", serve("everywhere"), "HOST:PORT")
    expect("a certificate that is not there", serve("127.0.0.1:7000*2", "--shard-tls-ca=/no/ca.pem", *tls[1:]),
           "/no/ca.pem")
    print(f"join-errors: {bad} of 16 cases without one clear error within {BOUND:.0f} s (goal 0): {'short' if bad else 'ok'}")
    return 1 if bad else 0


def busy(program, model, address, serve):
    """A second leader, while the first is served."""
    with faults.Server(program, model, "--pipeline", 2, "--workers", f"{address}*2") as server:
        server.await_log("\nserving ", 30)
        return serve(f"{address}*2")


if __name__ == "__main__":
    sys.exit(main())
