#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""What the MLRsearch package of PyPI says, for crates/tester/tests/mlrsearch.rs.

    python3 -m venv V && V/bin/pip install MLRsearch==1.2.1
    V/bin/python benches/peers/mlrsearch.py > crates/tester/tests/data/mlrsearch.txt

Prints one case a line, fields apart by '|':

    classify|loss ratio,exceed ratio,final trial s,duration sum s|duration s,sent,lost;...|verdict|quantile of the loss ratio
    search|device|least load,greatest load|loss ratio,exceed ratio,width,initial trial s,final trial s,duration sum s;...|
        lower bound,upper bound,conditional throughput;...|trials

The devices are computed by the same few lines as in the test.
"""
import sys

from MLRsearch import (AbstractMeasurer, Config, MeasurementResult, MultipleLossRatioSearch, SearchGoal)
from MLRsearch.discrete_load import DiscreteLoad
from MLRsearch.discrete_result import DiscreteResult
from MLRsearch.discrete_width import DiscreteWidth
from MLRsearch.load_rounding import LoadRounding
from MLRsearch.target_spec import TargetSpec
from MLRsearch.target_stat import TargetStat

MASK = (1 << 64) - 1


def chance(index):
    """Splitmix64 of the trial's number, 0 to 1."""
    z = ((index + 1) * 0x9E3779B97F4A7C15) & MASK
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
    return ((z ^ (z >> 31)) >> 11) / (1 << 53)


class Chooser:
    """Chooses alike with every version of Python."""

    def __init__(self):
        self.drawn = 0

    def below(self, end):
        self.drawn += 1
        return int(chance(self.drawn) * end)

    def choice(self, values):
        return values[self.below(len(values))]


class Device(AbstractMeasurer):
    """KIND CAPACITY A B: see `received`."""

    def __init__(self, words):
        kind, *numbers = words.split()
        self.kind, self.numbers, self.trials = kind, [float(n) for n in numbers], 0

    def received(self, load, duration, sent):
        capacity, a, b = self.numbers
        most = int(capacity * duration + 1e-6)
        if self.kind == "sharp":
            return min(sent, most)
        if self.kind == "buffer":  # holds A frames
            return min(sent, most + int(a))
        if self.kind == "leak":  # loses a share A at any load
            return min(sent - int(sent * a), most)
        if self.kind == "soft":  # loses more and more above its capacity
            return sent - int(sent * ((load - capacity) / load) ** 2) if load > capacity else sent
        if self.kind == "noisy":  # in a share A of the trials loses a share B
            bad = chance(self.trials) < a
            return min(sent - (int(sent * b) if bad else 0), most)
        raise ValueError(self.kind)

    def measure(self, intended_duration, intended_load):
        sent = int(intended_load * intended_duration)
        received = self.received(intended_load, intended_duration, sent)
        self.trials += 1
        return MeasurementResult(
            intended_duration=intended_duration,
            intended_load=intended_load,
            offered_count=sent,
            forwarding_count=received,
        )


def classify(chooser):
    loss = chooser.choice([0.0, 0.005, 0.25])
    exceed = chooser.choice([0.0, 0.005, 0.1, 0.25, 0.5, 0.75])
    final = chooser.choice([1.0, 2.0, 60.0])
    total = final * chooser.choice([1, 2, 3, 21])
    trials = []
    for _ in range(chooser.below(30)):
        sent = chooser.choice([1000, 4096])
        lost = chooser.choice([0, 0, 0, 1, sent // 200, sent // 100, sent // 2, sent])
        trials.append((chooser.choice([0.125, 0.5, 1.0, 2.0, 60.0]), sent, lost))
    rounding = LoadRounding(min_load=1.0, max_load=10.0, float_goals=[0.005])
    target = TargetSpec(
        loss_ratio=loss, exceed_ratio=exceed, discrete_width=DiscreteWidth(rounding, int_width=1),
        trial_duration=final, duration_sum=total, expansion_coefficient=2, fail_fast=False, preceding=None)
    stat = TargetStat(target)
    load = DiscreteLoad(rounding, int_load=rounding.max_int_load)
    for duration, sent, lost in trials:
        result = MeasurementResult(
            intended_duration=duration, intended_load=float(load), offered_count=sent, loss_count=lost)
        stat.add(DiscreteResult.with_load(result=result, load=load))
    best, worst = stat.estimates()
    verdict = "undecided" if best != worst else "lower" if best else "upper"
    shown = ";".join(f"{d},{s},{l}" for d, s, l in trials)
    print(f"classify|{loss},{exceed},{final},{total}|{shown}|{verdict}|{stat.pessimistic_loss_ratio!r}")


def search(device, least, greatest, goals):
    parsed = []
    for goal in goals:
        loss, exceed, width, initial, final, total = goal
        parsed.append(SearchGoal(
            loss_ratio=loss, exceed_ratio=exceed, relative_width=width, initial_trial_duration=initial,
            final_trial_duration=final, duration_sum=total, preceding_targets=2, expansion_coefficient=2,
            fail_fast=False))
    config = Config()
    config.goals, config.search_duration_max, config.warmup_duration = parsed, 1e6, None
    config.max_load, config.min_load = greatest, least
    measurer = Device(device)
    results = MultipleLossRatioSearch(config=config).search(measurer=measurer, debug=lambda _: None)
    shown = []
    for goal in parsed:
        result = results[goal]
        lower, upper = result.relevant_lower_bound, result.relevant_upper_bound
        throughput = result.conditional_throughput
        numbers = [lower, upper, throughput]
        shown.append(",".join("-" if n is None else repr(float(n)) for n in numbers))
    written = ";".join(",".join(repr(float(n)) for n in goal) for goal in goals)
    print(f"search|{device}|{least!r},{greatest!r}|{written}|{';'.join(shown)}|{measurer.trials}")


def main():
    chooser = Chooser()
    for _ in range(400):
        classify(chooser)
    ndr, pdr = (0.0, 0.5, 0.005, 1.0, 1.0, 21.0), (0.005, 0.5, 0.005, 1.0, 1.0, 21.0)
    strict = (0.0, 0.0, 0.005, 1.0, 60.0, 60.0)
    fine, coarse = (0.0, 0.5, 0.001, 0.5, 1.0, 8.0), (0.02, 0.1, 0.03, 1.0, 2.0, 10.0)
    line = 14880952.0
    devices = [
        "sharp 1e6 0 0", "sharp 123456 0 0", "sharp 14000000 0 0", "sharp 14880952 0 0", "sharp 2e7 0 0", "sharp 3000 0 0",
        "sharp 100 0 0", "buffer 1e6 20000 0", "buffer 7e6 200000 0", "leak 5e6 0.002 0", "leak 5e6 0.05 0",
        "soft 4e6 0 0", "soft 800000 0 0", "noisy 6e6 0.05 0.3", "noisy 2e6 0.1 0.01", "noisy 9e6 0.02 0.0001",
    ]
    for device in devices:
        search(device, 1500.0, line, [ndr, pdr])
    for device in devices:
        if not device.startswith("noisy"):
            search(device, 1500.0, line, [strict])
            search(device, 1500.0, line, [coarse, strict, fine, pdr])


if __name__ == "__main__":
    sys.exit(main())
