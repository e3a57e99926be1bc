"""A slow road between two hosts (network namespaces): relay.py NAMESPACE-A ADDRESS-A NAMESPACE-B ADDRESS-B DELAY-MS.

For kernels without netem. Each host gets a TUN device `road` with its address; what is sent into one comes out of the
other a fixed time later, in order. Prints "ready" and runs until it is killed.
"""

import collections
import ctypes
import fcntl
import os
import select
import struct
import subprocess
import sys
import time

TUNSETIFF, IFF_TUN, IFF_NO_PI = 0x400454CA, 0x0001, 0x1000
CLONE_NEWNET = 0x40000000
MTU = 9000


def open_end(namespace, address):
    """A descriptor of packets of a TUN device in that namespace."""
    libc = ctypes.CDLL(None, use_errno=True)
    home = os.open("/proc/self/ns/net", os.O_RDONLY)
    there = os.open(f"/run/netns/{namespace}", os.O_RDONLY)
    if libc.setns(there, CLONE_NEWNET) != 0:
        raise OSError(ctypes.get_errno(), f"cannot enter {namespace}")
    try:
        end = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
        fcntl.ioctl(end, TUNSETIFF, struct.pack("16sH22x", b"road", IFF_TUN | IFF_NO_PI))
        subprocess.run(["ip", "addr", "add", f"{address}/24", "dev", "road"], check=True)
        subprocess.run(["ip", "link", "set", "road", "mtu", str(MTU), "up"], check=True)
    finally:
        libc.setns(home, CLONE_NEWNET)
    return end


def main():
    delay = float(sys.argv[5]) / 1e3
    ends = [open_end(*sys.argv[1:3]), open_end(*sys.argv[3:5])]
    waiting = [collections.deque(), collections.deque()]  # by where they go: (when, packet)
    print("ready", flush=True)
    while True:
        now = time.monotonic()
        for end, queue in zip(ends, waiting):
            while queue and queue[0][0] <= now:
                os.write(end, queue.popleft()[1])
        due = [queue[0][0] for queue in waiting if queue]
        timeout = max(0.0, min(due) - time.monotonic()) if due else None
        readable, _, _ = select.select(ends, [], [], timeout)
        for end in readable:
            to = waiting[1 - ends.index(end)]
            try:
                while True:
                    to.append((time.monotonic() + delay, os.read(end, MTU + 100)))
            except BlockingIOError:
                pass


if __name__ == "__main__":
    main()
