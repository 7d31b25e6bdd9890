#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Our bridge beside Linux's, on the same pairs of virtual Ethernet, in turn.

    sudo benches/peers/bridge.py --junctor target/release/junctor

A generator (a Junctor of its own, by AF_XDP, on the first core) sends 60-byte frames into one port as fast as it can; the bridge has
them learnt and sends them out of the other. What the far end receives in a second counts. Ours runs on the second core; Linux's runs
wherever the frames arrive, which is the generator's. All of it lives in a network namespace that is made for it and removed.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

NAME = f"jxbridge{os.getpid()}"
SETTLE, MEASURE = 0.5, 2.0
GENERATOR = """
InfiniteSource(DATA \\<{to} {source} 88b5 {rest}>, LIMIT -1) -> ToDevice(g0, METHOD AF_XDP);
"""
OURS = """
b :: Bridge(PORTS 2);
FromDevice(p0, METHOD {method}, PROMISC true) -> b -> ToDevice(p0, METHOD {method});
FromDevice(p1, METHOD {method}, PROMISC true) -> [1] b [1] -> ToDevice(p1, METHOD {method});
"""


def inside(*words, **more):
    return subprocess.run(["ip", "netns", "exec", NAME, *words], check=True, text=True, **more)


def ip(*words):
    return inside("ip", *words, stdout=subprocess.PIPE).stdout


def make():
    subprocess.run(["ip", "netns", "add", NAME], check=True)
    for ours, port in (("g0", "p0"), ("s0", "p1")):
        ip("link", "add", ours, "type", "veth", "peer", "name", port)
    for device in ("g0", "s0", "p0", "p1"):
        inside("sysctl", "-qw", f"net.ipv6.conf.{device}.disable_ipv6=1")
        ip("link", "set", device, "up", "promisc", "on")


def address(device):
    return json.loads(ip("-j", "link", "show", device))[0]["address"]


def received():
    return json.loads(ip("-j", "-s", "link", "show", "s0"))[0]["stats64"]["rx"]["packets"]


def introduce():
    """The far end sends a frame, so that the bridge knows where it is."""
    program = (
        "import socket,sys; s=socket.socket(socket.AF_PACKET,socket.SOCK_RAW); s.bind(('s0',0));"
        "s.send(bytes.fromhex(sys.argv[1]))"
    )
    frame = "ffffffffffff" + address("s0").replace(":", "") + "88b5" + "00" * 46
    inside(sys.executable, "-c", program, frame)


def start(junctor, text, core):
    conf = tempfile.NamedTemporaryFile("w", suffix=".click")
    conf.write(text)
    conf.flush()
    words = ["ip", "netns", "exec", NAME, "taskset", "-c", str(core), junctor, "run", "-j", "1", conf.name]
    program = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    program.conf = conf
    return program


def stop(program):
    program.terminate()
    _, errors = program.communicate(timeout=20)
    if program.returncode not in (0, -15):
        sys.exit(f"junctor ended with {program.returncode}: {errors}")


def rate(junctor, generator):
    time.sleep(SETTLE)
    introduce()
    source = start(junctor, generator, 0)
    time.sleep(SETTLE)
    before, at = received(), time.monotonic()
    time.sleep(MEASURE)
    after, passed = received(), time.monotonic() - at
    stop(source)
    return (after - before) / passed / 1e6


def linux(junctor, generator):
    ip("link", "add", "br0", "type", "bridge")
    for port in ("p0", "p1"):
        ip("link", "set", port, "master", "br0")
    ip("link", "set", "br0", "up")
    try:
        return rate(junctor, generator)
    finally:
        ip("link", "del", "br0")


def ours(junctor, generator, method):
    bridge = start(junctor, OURS.format(method=method), 1)
    try:
        return rate(junctor, generator)
    finally:
        stop(bridge)


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--junctor", default="target/release/junctor")
    options.add_argument("--rounds", type=int, default=5)
    options = options.parse_args()
    junctor = os.path.abspath(options.junctor)
    make()
    try:
        bare = {"to": address("s0").replace(":", " "), "source": address("g0").replace(":", " "), "rest": "00 " * 46}
        generator = GENERATOR.format(**bare)
        kinds = {
            "Linux bridge": lambda: linux(junctor, generator),
            "Junctor, AF_XDP": lambda: ours(junctor, generator, "AF_XDP"),
            "Junctor, AF_PACKET": lambda: ours(junctor, generator, "AF_PACKET"),
        }
        found = {kind: [] for kind in kinds}
        for _ in range(options.rounds):
            for kind, measure in kinds.items():
                found[kind].append(measure())
        for kind, rates in found.items():
            print(f"{kind:20} {statistics.median(rates):.3f} Mpps ({min(rates):.3f} to {max(rates):.3f}, {len(rates)} rounds)")
    finally:
        subprocess.run(["ip", "netns", "del", NAME], check=False)


if __name__ == "__main__":
    main()
