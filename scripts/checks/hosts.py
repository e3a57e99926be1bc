"""Network namespaces as hosts, joined by a bridge or a relay. Needs root. Touches no interface that it has not made."""

import contextlib
import itertools
import os
import subprocess

_groups = itertools.count()  # what is deleted goes only when its last user does, so names are not used again


def run(*words, check=True):
    result = subprocess.run(words, capture_output=True, text=True)
    if check and result.returncode != 0:
        raise RuntimeError(f"{' '.join(words)}: {result.stderr.strip()}")
    return result


class Host:
    def __init__(self, name, address):
        self.name, self.address = name, address

    def command(self, *words):
        return ["ip", "netns", "exec", self.name, *map(str, words)]

    def run(self, *words):
        return run(*self.command(*words))


@contextlib.contextmanager
def bridged(count, mbit=None):
    """Hosts on one bridge, whose links each carry `mbit` Mbit/s in either direction."""
    tag = f"pk{os.getpid() % 10000}g{next(_groups)}"
    bridge, hosts = f"{tag}br", []
    run("ip", "link", "add", bridge, "type", "bridge")
    try:
        run("ip", "link", "set", bridge, "up")
        for i in range(count):
            host, link = Host(f"{tag}h{i}", f"10.214.0.{i + 1}"), f"{tag}v{i}"
            run("ip", "netns", "add", host.name)
            hosts.append(host)
            run("ip", "link", "add", link, "type", "veth", "peer", "name", "eth0", "netns", host.name)
            run("ip", "link", "set", link, "master", bridge, "up")
            host.run("ip", "addr", "add", f"{host.address}/24", "dev", "eth0")
            for device in ("eth0", "lo"):
                host.run("ip", "link", "set", device, "up")
            if mbit:
                shape = ("root", "tbf", "rate", f"{mbit}mbit", "burst", "128kb", "latency", "10ms")
                run("tc", "qdisc", "add", "dev", link, *shape)
                host.run("tc", "qdisc", "add", "dev", "eth0", *shape)
        yield hosts
    finally:
        for i, host in enumerate(hosts):
            run("ip", "link", "del", f"{tag}v{i}", check=False)
            run("ip", "netns", "del", host.name, check=False)
        run("ip", "link", "del", bridge, check=False)
