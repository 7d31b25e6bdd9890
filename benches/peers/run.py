#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Measures contestants in turn, so that what else happens on the machine meets all alike. See run.sh."""

import argparse, datetime, json, os, platform, statistics, subprocess, sys

PARSER = argparse.ArgumentParser(description=__doc__)
PARSER.add_argument("--bin", required=True, help="where lookup (DPDK) is")
PARSER.add_argument("--ours", required=True, help="our contestant")
PARSER.add_argument("--data", required=True, help="the exported tables and addresses")
PARSER.add_argument("--rounds", type=int, default=9)
PARSER.add_argument("--cpu", default="0", help="the processor that all contestants take their turns on")
PARSER.add_argument("--eal", default="", help="options of DPDK's environment")
PARSER.add_argument("--families", default="46")
PARSER.add_argument("--without", default="", help="leave out tables whose name contains this")
PARSER.add_argument("--json", action="store_true")
PARSER.add_argument("--updates", type=int, default=20_000)
ARGS = PARSER.parse_args()

BATCHES = [32, 256]
PASSES = {"4": 12, "6": 6}


class Contestant:
    """A process that measures what it is told to, and waits in between."""

    def __init__(self, name, command):
        self.name = name
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.figures = {}

    def ready(self):
        words = self.answer().split()
        if words[:1] != ["ready"]:
            self.process.kill()
            raise RuntimeError(f"{self.name} did not start: {' '.join(words) or 'see above'}")
        self.routes, (self.build_ms, self.memory_mb, self.lookup_mb) = int(words[1]), map(float, words[2:5])
        # Loading takes rte_lpm a minute, so all load at once on all processors; from now on they take turns on one.
        os.sched_setaffinity(self.process.pid, {int(ARGS.cpu)})

    def answer(self):
        while line := self.process.stdout.readline():
            if line.startswith(("ready", "look", "update")):
                return line
        return ""

    def ask(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        words = self.answer().split()
        if not words:
            raise RuntimeError(f"{self.name} died at `{line}`")
        return words[1:]

    def close(self):
        self.process.stdin.close()
        self.process.wait(30)


def start(family):
    eal = ARGS.eal.split() + ["--no-shconf", "--no-telemetry", "--no-pci", "--lcores", f"0@(0-{os.cpu_count() - 1})", "--log-level=error",
                              "--force-max-simd-bitwidth=512"]
    contestants = []
    wanted = [("ours", [ARGS.ours, f"fib{family}", ARGS.data])]
    for table, name in [(f"fib{family}", "rte_fib AVX-512"), (f"fib{family}-scalar", "rte_fib scalar"),
                        (f"lpm{family}", "rte_lpm bulk")]:
        prefix = f"--file-prefix=junctor-{os.getpid()}-{table}"
        wanted.append((name.replace("_fib ", "_fib6 " if family == "6" else "_fib ").replace("_lpm ", "_lpm6 " if family == "6" else "_lpm "),
                       [f"{ARGS.bin}/lookup", table, ARGS.data, prefix] + eal))
    for name, command in wanted:
        if ARGS.without and ARGS.without in name:
            continue
        contestants.append(Contestant(name, command))
    return contestants


def ready(contestants):
    there = []
    for contestant in contestants:
        try:
            contestant.ready()
            there.append(contestant)
        except RuntimeError as why:
            print(f"left out: {why}", file=sys.stderr)
    return there


def measure(family, contestants):
    cells = [(load, batch) for load in ["rand", "pfx", "zipf"] for batch in BATCHES]
    sums = {}
    for _ in range(ARGS.rounds):
        for load, batch in cells:
            for contestant in contestants:
                mlps, checksum = contestant.ask(f"look {load} {PASSES[family]} {batch}")
                contestant.figures.setdefault((load, batch), []).append(float(mlps))
                sums.setdefault((load, batch), {})[contestant.name] = checksum
    for cell, by_name in sums.items():
        if len(set(by_name.values())) > 1:
            sys.exit(f"contestants disagree about IPv{family} {cell}: {by_name}")
    for contestant in contestants:
        count = min(ARGS.updates, 2_000) if "lpm" in contestant.name else ARGS.updates
        contestant.update_ns = float(contestant.ask(f"update {count}")[0])
        contestant.close()
    return contestants, cells


def spread(values):
    values = sorted(values)
    return f"{values[len(values) // 4]:.0f}-{values[-1 - len(values) // 4]:.0f}"


def table(family, contestants, cells):
    print(f"\n### IPv{family}: {contestants[0].routes:,} routes, million lookups/s of one core, median of {ARGS.rounds} "
          "interleaved rounds (middle half)\n")
    heads = [f"{load}, by {batch}" for load, batch in cells]
    print("| table | " + " | ".join(heads) + " | lookup MB | with RIB, MB | load, ms | update, µs |")
    print("|---" * (len(heads) + 5) + "|")
    for contestant in contestants:
        shown = [f"{statistics.median(contestant.figures[cell]):.0f} ({spread(contestant.figures[cell])})" for cell in cells]
        print(f"| {contestant.name} | " + " | ".join(shown) +
              f" | {contestant.lookup_mb:.1f} | {contestant.memory_mb:.1f} | {contestant.build_ms:.0f} | {contestant.update_ns / 1e3:.2f} |")
    ours = contestants[0]
    for other in contestants[1:]:
        ratios = [statistics.median(a / b for a, b in zip(ours.figures[cell], other.figures[cell])) for cell in cells]
        print(f"| ours / {other.name} | " + " | ".join(f"**{ratio:.2f}**" for ratio in ratios) +
              f" | {ours.lookup_mb / other.lookup_mb:.3f} | {ours.memory_mb / other.memory_mb:.3f} | {ours.build_ms / other.build_ms:.3f} | {ours.update_ns / other.update_ns:.3f} |")


def machine():
    with open("/proc/cpuinfo", encoding="utf-8") as info:
        model = next((line.split(":")[1].strip() for line in info if line.startswith("model name")), "unknown")
    load = os.getloadavg()[0]
    return {"cpu": model, "cores": os.cpu_count(), "kernel": platform.release(), "load": load,
            "date": datetime.date.today().isoformat()}


def main():
    about = machine()
    print(f"{about['date']}, {about['cpu']}, {about['cores']} processors, Linux {about['kernel']}, load {about['load']:.1f} at the start")
    print(f"DPDK options: {ARGS.eal}")
    results = {}
    started = {family: start(family) for family in ARGS.families}
    started = {family: ready(contestants) for family, contestants in started.items()}
    for family, contestants in started.items():
        if not contestants or contestants[0].name != "ours":
            sys.exit(f"IPv{family}: our table is not among the contestants")
        contestants, cells = measure(family, contestants)
        table(family, contestants, cells)
        results[family] = {c.name: {"memory_mb": c.memory_mb, "lookup_mb": c.lookup_mb, "build_ms": c.build_ms, "update_ns": c.update_ns,
                                    **{f"{load}.{batch}": c.figures[(load, batch)] for load, batch in cells}}
                           for c in contestants}
    if ARGS.json:
        print(json.dumps({"machine": about, "results": results}))
    print(f"\nload {os.getloadavg()[0]:.1f} at the end")


main()
