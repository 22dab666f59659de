#!/usr/bin/env python3
"""How long quiet connections wait beside a fire hose, which is one connection that streams as fast as it can: their p99 without
the hose, with it, and the ratio of the two.

Each round measures every server both ways, one right after the other, so other load on the machine affects both alike. The
ratio is the median of the rounds' ratios. --check fails if one of our servers is above --limit with it, and above --plain-limit
with its ratio to the server in plain C beside the hose: on some machines the kernel alone makes the quiet connections of every
server wait for longer than --limit. Needs Python 3.9 and Swift.
"""

import argparse
import signal
import statistics
import sys

from harness import Failure, build, measure_load, print_table, spread

SERVERS = {
    "raw-c": ["raw-c-echo"],
    "swift-reactor": ["swift-echo", "--on", "reactor"],
    "swift-pool": ["swift-echo", "--on", "pool"],
}
PLAIN = "raw-c"
OURS = ["swift-reactor", "swift-pool"]
QUIET = {"quiet": 1000, "size": 64}
HOSES = 1


def measure_round(binaries, command, name, times):
    """The quiet connections' p99 in microseconds: by themselves, and beside the hose."""
    alone = measure_load(binaries, name, command, "hose", **QUIET, **times)
    beside = measure_load(binaries, name, command, "hose", connections=HOSES, **QUIET, **times)
    return alone["p99_us"], beside["p99_us"]


def measure(arguments):
    binaries = build({"load", *(command[0] for command in SERVERS.values())})
    times = {"warmup": 0.2, "seconds": arguments.seconds}
    rounds = {name: [] for name in SERVERS}
    for _ in range(arguments.rounds):
        for name, (program, *options) in SERVERS.items():
            rounds[name].append(measure_round(binaries, [binaries / program, *options], name, times))
    return rounds


def ratio(pairs):
    return statistics.median(beside / alone for alone, beside in pairs)


def ratio_to_plain(rounds, name):
    """The p99 beside the hose, of what the plain server has in the same round."""
    return statistics.median(ours[1] / plain[1] for ours, plain in zip(rounds[name], rounds[PLAIN]))


def is_slow(rounds, name, limits):
    return ratio(rounds[name]) > limits.limit and ratio_to_plain(rounds, name) > limits.plain_limit


def print_rounds(rounds):
    def cell(values):
        values = spread(values)
        return f"{values['median']:.0f} ({values['min']:.0f} to {values['max']:.0f})"

    rows = [
        [name, cell([alone for alone, _ in pairs]), cell([beside for _, beside in pairs]), f"{ratio(pairs):.1f}",
         f"{ratio_to_plain(rounds, name):.2f}"]
        for name, pairs in rounds.items()
    ]
    print(f"\nOne fire hose beside {QUIET['quiet']:,} quiet connections: p99 of these in microseconds, median (range)\n")
    print_table(["server", "alone", "beside the hose", "ratio", "of plain C's"], rows)


def main():
    parser = argparse.ArgumentParser(description="Measures quiet connections with and without a fire hose beside them.")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=1.0, help="of each measurement")
    parser.add_argument("--limit", type=float, default=5.0, help="the largest ratio that --check accepts")
    parser.add_argument("--plain-limit", type=float, default=1.5, help="the largest part of plain C's that --check accepts in any case")
    parser.add_argument("--check", action="store_true", help="fail if one of our servers is above both limits")
    arguments = parser.parse_args()
    # SIGTERM becomes an exception, so that the child processes are ended on the way out.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        rounds = measure(arguments)
    except Failure as failure:
        print(f"quiet.py: {failure}", file=sys.stderr)
        return 1
    print_rounds(rounds)
    slow = [name for name in OURS if is_slow(rounds, name, arguments)] if arguments.check else []
    for name in slow:
        print(f"quiet.py: {name} is above both limits: {arguments.limit}, and {arguments.plain_limit} of plain C's", file=sys.stderr)
    return 1 if slow else 0


if __name__ == "__main__":
    sys.exit(main())
