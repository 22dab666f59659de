#!/usr/bin/env python3
"""Compares the TCP of the simulation with Linux's: the same program, with the same delays, rates, queues and losses.

Usage: realism.py FOLDER [--only TEXT] [--runs NUMBER] [--simulated]

FOLDER has the programs `realism` and `wire`, which `make realism` builds. For Linux, `wire` joins two network namespaces by tun
devices, so it needs root. The simulation runs each case with many seeds, in virtual time.

Each row has the medians of both, and the simulation's divided by Linux's. Linux's numbers are measured, so they differ from run to
run, and a machine that is busy makes them larger. No test depends on them.
"""

import argparse
import os
import statistics
import subprocess
import sys
from pathlib import Path

# Delays in milliseconds for one direction, rates in bits per second, queues in bytes, losses in thousandths.
CASES = [
    ("10 MB, 20 ms, 8 Mbit/s, queue 64 kB", dict(BULK=10_000_000, DELAY=10, RATE=8_000_000, QUEUE=64_000), 3),
    ("40 MB, 20 ms, 100 Mbit/s, queue 250 kB", dict(BULK=40_000_000, DELAY=10, RATE=100_000_000, QUEUE=250_000), 5),
    ("40 MB, 100 ms, 100 Mbit/s, queue 1 MB", dict(BULK=40_000_000, DELAY=50, RATE=100_000_000, QUEUE=1_000_000), 5),
    ("10 MB, 40 ms, no limit", dict(BULK=10_000_000, DELAY=20), 5),
    ("10 MB, 100 ms, no limit", dict(BULK=10_000_000, DELAY=50), 5),
    ("10 MB at 1 MB/s, 40 ms", dict(BULK=10_000_000, DELAY=20, PACE=1_000_000), 1),
    ("4 MB, 20 ms, 1 % loss", dict(BULK=4_000_000, DELAY=10, LOSS=10), 15),
    ("1 MB, 20 ms, 5 % loss", dict(BULK=1_000_000, DELAY=10, LOSS=50), 25),
    ("200 kB, 100 ms, 56 kbit/s", dict(BULK=200_000, DELAY=50, RATE=56_000), 1),
    ("400 echoes, 20 ms", dict(ECHOES=400, GAP=10, DELAY=10), 1),
    ("400 echoes, 20 ms, 2 % loss", dict(ECHOES=400, GAP=10, DELAY=10, LOSS=20), 9),
    ("500 connects, 20 ms, 30 % loss", dict(CONNECTS=500, DELAY=10, LOSS=300), 3),
    ("an outage of 3 s", dict(ECHOES=30, GAP=100, DELAY=10, CUT_FROM=1_000, CUT_UNTIL=4_000), 3),
    ("an outage of 10 s", dict(ECHOES=30, GAP=100, DELAY=10, CUT_FROM=1_000, CUT_UNTIL=11_000), 3),
]
# How often the simulation repeats a case with losses.
SIMULATED_SEEDS = 51


def numbers(output, results):
    for line in output.splitlines():
        name, number = line.split()
        results.setdefault(name, []).append(float(number))


def variables(case, seeds=1):
    return os.environ | {f"REALISM_{name}": str(value) for name, value in (case | dict(SEEDS=seeds)).items()}


def simulated(folder, case):
    results = {}
    seeds = SIMULATED_SEEDS if case.get("LOSS") else 1
    output = subprocess.run([folder / "realism", "simulate"], env=variables(case, seeds), check=True, capture_output=True, text=True)
    numbers(output.stdout, results)
    return results


def measured(folder, case, runs):
    results = {}
    for seed in range(1, runs + 1):
        wire = [case.get("DELAY", 0), case.get("RATE", 0), case.get("QUEUE", 0), case.get("LOSS", 0) / 1_000]
        wire += [case.get("CUT_FROM", 0), case.get("CUT_UNTIL", 0), seed]
        output = subprocess.run([folder / "wire", *map(str, wire), folder / "realism"], env=variables(case), check=True,
                                capture_output=True, text=True)
        numbers(output.stdout, results)
    return results


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", default="")
    parser.add_argument("--runs", type=int)
    parser.add_argument("--simulated", action="store_true", help="without Linux")
    arguments = parser.parse_args()
    print("| case | number | Linux | simulation | ratio |\n|---|---|---|---|---|", flush=True)
    for name, case, runs in CASES:
        if arguments.only not in name:
            continue
        simulation = simulated(arguments.folder, case)
        linux = {} if arguments.simulated else measured(arguments.folder, case, arguments.runs or runs)
        for number, values in simulation.items():
            ours, theirs = statistics.median(values), statistics.median(linux.get(number, [0]))
            unit = "" if number == "packets" else " s"
            digits = 0 if number == "packets" else 3
            ratio = f"{ours / theirs:.2f}" if theirs else "–"
            print(f"| {name} | {number} | {theirs:.{digits}f}{unit} | {ours:.{digits}f}{unit} | {ratio} |", flush=True)


if __name__ == "__main__":
    sys.exit(main())
