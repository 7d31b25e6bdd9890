#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Processor time per forwarded packet: DPDK's l3fwd beside `junctor bench engine`, in turn. See run.sh."""

import argparse, glob, json, os, re, signal, socket, statistics, subprocess, sys, time

PARSER = argparse.ArgumentParser(description=__doc__)
PARSER.add_argument("--bin", required=True, help="where l3fwd is")
PARSER.add_argument("--junctor", required=True)
PARSER.add_argument("--data", required=True, help="the exported tables and addresses")
PARSER.add_argument("--conf", required=True, help="the folder of example configurations")
PARSER.add_argument("--rounds", type=int, default=5)
PARSER.add_argument("--cpu", default="0")
PARSER.add_argument("--eal", default="")
PARSER.add_argument("--full", type=int, default=16384, help="packets with different destinations for the full table")
ARGS = PARSER.parse_args()
SECONDS = 0.5


def write(name, text):
    path = os.path.join(ARGS.data, name)
    with open(path, "w", encoding="ascii") as file:
        file.write(text)
    return path


class L3fwd:
    """One l3fwd, stopped except while it is measured."""

    def __init__(self, name, addresses, packets, lookup, rules, macswap=False):
        self.name, self.figures = name, []
        self.prefix = f"junctor-{os.getpid()}-{name.replace(' ', '-').replace(',', '')}"
        env = dict(os.environ, REPLAY_ADDRESSES=addresses, REPLAY_PACKETS=str(packets))
        if macswap:
            env["REPLAY_MACSWAP"] = "1"
        command = [f"{ARGS.bin}/l3fwd", "-l", ARGS.cpu, "--no-pci", f"--file-prefix={self.prefix}", "--log-level=error"]
        command += ARGS.eal.split() + ["--", "-p", "1", "--config", f"(0,0,{ARGS.cpu})", "-P", f"--lookup={lookup}",
                                       f"--rule_ipv4={rules}", f"--rule_ipv6={ARGS.data}/l3fwd6"]
        self.process = subprocess.Popen(command, env=env, stdout=subprocess.DEVNULL)
        try:
            self.wait_for_packets()
        except BaseException:
            self.stop()
            raise
        self.process.send_signal(signal.SIGSTOP)

    def wait_for_packets(self):
        deadline, last = time.monotonic() + 120, 0
        while True:
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"{self.name} does not start")
            try:
                self.control = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
                self.control.settimeout(10)
                self.control.connect(f"/var/run/dpdk/{self.prefix}/dpdk_telemetry.v2")
                self.control.recv(4096)
                count = self.packets()
                if count > last:
                    break
                last = count
            except OSError:
                pass
            time.sleep(0.2)

    def packets(self):
        self.control.send(b"/ethdev/stats,0")
        answer = json.loads(self.control.recv(1 << 16)).get("/ethdev/stats") or {}
        return answer.get("opackets", 0)

    def snapshot(self):
        # The busiest thread forwards; its time is brought up to date at each of its ticks.
        spent = max(int(open(f"{task}/schedstat", encoding="ascii").read().split()[0])
                    for task in glob.glob(f"/proc/{self.process.pid}/task/*"))
        return self.packets(), spent

    def measure(self):
        self.process.send_signal(signal.SIGCONT)
        time.sleep(0.1)
        (packets, spent), _ = self.snapshot(), time.sleep(SECONDS)
        packets2, spent2 = self.snapshot()
        self.process.send_signal(signal.SIGSTOP)
        self.figures.append((spent2 - spent) / (packets2 - packets))

    def stop(self):
        self.process.kill()
        self.process.wait(30)
        for left in glob.glob(f"/var/run/dpdk/{self.prefix}/*"):
            os.unlink(left)


class Ours:
    """A benchmark of `junctor bench`, started for each measurement."""

    def __init__(self, name, *what):
        self.name, self.what, self.figures, self.wires = name, what, [], []

    def measure(self):
        run = subprocess.run([ARGS.junctor, "bench", self.what[0], "--json", "--runs", "3", "--run-ms", "200", *self.what[1:]],
                             capture_output=True, text=True, check=False)
        if run.returncode:
            sys.exit(f"{' '.join(self.what)}: {run.stderr}")
        results = {result["name"]: result["value"] for result in json.loads(run.stdout.splitlines()[-1])["results"]}
        self.take(results)

    def take(self, results):
        self.figures.append(results["engine.ns_per_packet"])

    def stop(self):
        pass


class OurBridge(Ours):
    """The bridge, whose benchmark has a bare wire of its own: the frames of so many stations come from as much memory."""

    def __init__(self, stations, suffix):
        super().__init__(f"ours, bridge of two ports with {stations} stations", "bridge")
        self.suffix = suffix

    def take(self, results):
        self.figures.append(results["bridge.ns_per_packet" + self.suffix])
        self.wires.append(results["bridge.wire_ns_per_packet" + self.suffix])


CHAIN = """// bench: eth0 ether=02:00:00:00:00:01 src=192.0.2.0/24 dst={dst} flows={flows} length=60
FromDevice(eth0) -> Strip(14) -> CheckIPHeader -> rt :: StaticIPLookup({routes})
rt[0] -> DecIPTTL -> EtherEncap(0x0800, 02:00:00:00:00:01, 02:00:00:00:00:02) -> ToDevice(eth0);
"""


WIRE = """// bench: eth0 ether=02:00:00:00:00:01 src=192.0.2.0/24 dst={dst} flows={flows} length=60
// bench: eth1 ether=02:00:00:00:00:02 src=198.51.100.0/24 dst={dst} flows={flows} length=60
FromDevice(eth0) -> ToDevice(eth1);
FromDevice(eth1) -> ToDevice(eth0);
"""


def full_router(prefixes):
    """The whole router with packets to anywhere, and the file of its routes: 252 next hops at each of its two interfaces."""
    with open(f"{ARGS.conf}/ip-router-noqueue.click", encoding="utf-8") as file:
        text = file.read()
    text = re.sub(r"dst=\S+ flows=\d+", f"dst=0.0.0.0/0 flows={ARGS.full // 2}", text)
    # Half of the packets leave by where they came: nobody is to be told of a better way.
    text = re.sub(r"PaintTee\(\d\)", "PaintTee(9)", text)
    hops = [f"18.26.{net}.{host} {port}" for host in range(2, 254) for net, port in [(4, 1), (7, 2)]]
    routes = "".join(f"{prefix} {hops[at * 2654435761 % 2**32 % len(hops)]}\n" for at, prefix in enumerate(prefixes))
    return write("router-full.click", text), write("router-full.routes", routes + "0.0.0.0/0 18.26.4.2 1\n")


def contestants():
    import array
    hosts = os.path.join(ARGS.data, "v4.one")
    with open(hosts, "wb") as file:
        array.array("I", [(198 << 24 | 18 << 16) + 1 + at % 250 for at in range(65535)]).tofile(file)
    write("l3fwd6", "R2001:db8::/32 0\n")
    one = write("l3fwd4.one", "R198.18.0.0/24 0\n")
    with open(os.path.join(ARGS.data, "routes4.txt"), encoding="ascii") as file:
        prefixes = [line.split()[0] for line in file]
    full = write("l3fwd4.full", "".join(f"R{prefix} 0\n" for prefix in prefixes + ["0.0.0.0/0"]))
    rand = os.path.join(ARGS.data, "v4.rand")
    chain_one = write("chain-one.click", CHAIN.format(dst="198.18.0.0/24", flows=1024, routes="198.18.0.0/24 0"))
    chain_full = write("chain-full.click", CHAIN.format(
        dst="0.0.0.0/0", flows=ARGS.full, routes=", ".join(f"{prefix} 0" for prefix in prefixes + ["0.0.0.0/0"])))
    wire_one = write("wire-one.click", WIRE.format(dst="198.18.0.0/24", flows=1024))
    wire_full = write("wire-full.click", WIRE.format(dst="0.0.0.0/0", flows=ARGS.full // 2))
    router, routes = full_router(prefixes)
    return {
        "1 route, 1,024 packets": [
            lambda: Ours("ours, bare wire: source and sink", "engine", wire_one),
            lambda: Ours("ours, CheckIPHeader - lookup - DecIPTTL - EtherEncap", "engine", chain_one),
            lambda: Ours("ours, whole IP router without queues", "engine", f"{ARGS.conf}/ip-router-noqueue.click"),
            lambda: L3fwd("l3fwd lpm", hosts, 1024, "lpm", one),
            lambda: L3fwd("l3fwd fib", hosts, 1024, "fib", one),
            lambda: L3fwd("mac swap on the same driver", hosts, 1024, "lpm", one, True),
            lambda: OurBridge("10,000", ""),
            lambda: OurBridge("65,536", ".64k"),
        ],
        f"full table, {ARGS.full:,} packets to random destinations": [
            lambda: Ours("ours, bare wire: source and sink", "engine", wire_full),
            lambda: Ours("ours, CheckIPHeader - lookup - DecIPTTL - EtherEncap", "engine", chain_full),
            lambda: Ours("ours, whole IP router without queues", "engine", "-w", f"rt.load {routes}", router),
            lambda: L3fwd("l3fwd fib", rand, ARGS.full, "fib", full),
            lambda: L3fwd("mac swap on the same driver", rand, ARGS.full, "lpm", one, True),
        ],
    }


def main():
    # Whoever ends this program means the programs that it has started, too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    print(f"\n### Forwarding: processor time per packet in ns, median of {ARGS.rounds} interleaved rounds (least to most)\n")
    print("l3fwd checks no headers and keeps no counts per element; its packets go round in DPDK's ring driver. What is over "
          "l3fwd is a median of ratios within a round, to the first l3fwd of the table.\n")
    for title, makers in contestants().items():
        running = []
        try:
            for maker in makers:
                try:
                    running.append(maker())
                except RuntimeError as why:
                    print(f"left out: {why}", file=sys.stderr)
            for _ in range(ARGS.rounds):
                for contestant in running:
                    contestant.measure()
        finally:
            for contestant in running:
                contestant.stop()
        if not any(isinstance(one, L3fwd) for one in running):
            sys.exit("no l3fwd runs, so there is nothing to compare with; see above why (huge pages: --eal=--no-huge, or give the kernel some)")
        print(f"| {title} | ns | over l3fwd | less a bare wire, over l3fwd |\n|---|---|---|---|")
        theirs = next(one.figures for one in running if isinstance(one, L3fwd))

        def over(figures):
            return statistics.median(ours / l3fwd for ours, l3fwd in zip(figures, theirs))

        for contestant in running:
            figures = contestant.figures
            line = f"| {contestant.name} | {statistics.median(figures):.1f} ({min(figures):.1f} to {max(figures):.1f}) | {over(figures):.2f} |"
            if isinstance(contestant, Ours):
                wires = contestant.wires or running[0].figures
                line += f" {over([whole - wire for whole, wire in zip(figures, wires)]):.2f}"
            print(line + " |")
        print()


main()
