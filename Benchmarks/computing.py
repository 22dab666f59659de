#!/usr/bin/env python3
"""How long light connections wait beside handlers that compute: with handlers on the workers (`.pool`), and with handlers that have
no preference, which Swift's pool runs by itself.

One connection, or four, send requests that take 5 or 50 ms of a processor each, one after the other. The others send a small request
now and then; their p50 and p99 are what counts. Each round measures both servers, one right after the other. The ratio is the median
of the rounds' ratios. --check fails if one is above --limit. Needs Python 3.9 and Swift.
"""

import argparse
import json
import signal
import statistics
import subprocess
import sys

from harness import Failure, build, child_setup, cores, print_table, run_load, running_server, spread, stop

POOL, SWIFT = "pool", "swift"
LIGHT = {"quiet": 32, "size": 64}
HEAVY = {"size": 4096}
CPUS = {1: lambda: cores()[1], 2: lambda: set(cores())}
PERCENTILES = ["p50_us", "p99_us"]


def measure_server(binaries, place, case, seconds):
    """The percentiles of the light connections."""
    processors, connections, milliseconds = case
    name = f"swift-echo on {place}"
    command = [binaries / "swift-echo", "--on", place, "--computes", str(milliseconds)]
    with running_server(name, command, CPUS[processors]()) as (_, host, port):
        heavy = [str(binaries / "load"), "echo", host, port, "--connections", str(connections)]
        heavy += ["--seconds", str(seconds + 2)]
        heavy += [str(part) for option, value in HEAVY.items() for part in (f"--{option}", value)]
        beside = subprocess.Popen(heavy, stdout=subprocess.DEVNULL, preexec_fn=child_setup(cores()[0]))
        try:
            return run_load(binaries, "hose", host, port, **LIGHT, warmup=0.5, seconds=seconds)
        finally:
            stop(beside)


def measure(arguments):
    binaries = build({"load", "swift-echo"})
    cases = [(processors, heavy, time) for processors in CPUS for heavy in (1, 4) for time in (5, 50)]
    results = {case: {POOL: [], SWIFT: []} for case in cases}
    for number in range(arguments.rounds):
        for case, rounds in results.items():
            # Whoever comes first has no advantage in all rounds.
            for place in [POOL, SWIFT] if number % 2 == 0 else [SWIFT, POOL]:
                rounds[place].append(measure_server(binaries, place, case, arguments.seconds))
    return results


def ratios(rounds, percentile):
    return [pool[percentile] / swift[percentile] for pool, swift in zip(rounds[POOL], rounds[SWIFT])]


def print_results(results):
    def cell(values, digits=1):
        values = spread(values)
        return f"{values['median']:.{digits}f} ({values['min']:.{digits}f} to {values['max']:.{digits}f})"

    rows = []
    for (processors, heavy, milliseconds), rounds in results.items():
        for percentile in PERCENTILES:
            row = [str(processors), str(heavy), f"{milliseconds} ms", percentile[:3]]
            row += [cell([result[percentile] / 1000 for result in rounds[place]]) for place in (POOL, SWIFT)]
            rows.append([*row, cell(ratios(rounds, percentile), 2)])
    print("\nLight connections beside others whose handlers compute, in milliseconds, median (range)\n")
    print_table(["processors", "others", "computing", "", "pool", "no preference", "ratio"], rows)


def main():
    parser = argparse.ArgumentParser(description="Measures light connections beside handlers that compute.")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=4.0, help="of each measurement")
    parser.add_argument("--limit", type=float, default=1.1, help="the largest ratio that --check accepts")
    parser.add_argument("--check", action="store_true", help="fail if a ratio is above the limit")
    parser.add_argument("--json", type=argparse.FileType("w"), help="also write the results here")
    arguments = parser.parse_args()
    # SIGTERM becomes an exception, so that the child processes are ended on the way out.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        results = measure(arguments)
    except Failure as failure:
        print(f"computing.py: {failure}", file=sys.stderr)
        return 1
    print_results(results)
    if arguments.json:
        json.dump({f"{key[0]} processors, {key[1]} compute {key[2]} ms": rounds for key, rounds in results.items()}, arguments.json, indent=2)
    slow = [
        f"{case}: {percentile[:3]}"
        for case, rounds in results.items()
        for percentile in PERCENTILES
        if statistics.median(ratios(rounds, percentile)) > arguments.limit
    ]
    for what in slow if arguments.check else []:
        print(f"computing.py: {what} is above {arguments.limit}", file=sys.stderr)
    return 1 if slow and arguments.check else 0


if __name__ == "__main__":
    sys.exit(main())
