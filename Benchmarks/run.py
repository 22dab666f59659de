#!/usr/bin/env python3
"""Measures ActorSockets against servers in plain C and on SwiftNIO, FlyingSocks and Go, on this machine, over loopback.

Streams (streams.py), several reactors (reactors.py), datagrams (udp.py) and TLS (tls.py): the processor time of what a
server does, its system calls, and the memory of idle connections; lines and messages (framing.py) and deadlines
(timers.py): their processor time; a job server (jobs.py); programs.py: their sizes and starts. The README beside this file says how to read the
figures. Needs Python 3.9, Swift, cc, objcopy and, for the system calls, strace.
"""

import argparse
import json
import signal
import sys
import time

import chart
import framing
import jobs
import programs
import reactors
import streams
import timers
import tls
import udp
from harness import FULL, HERE, QUICK, Failure, build, cores, describe_environment, print_environment

# In the order in which they are measured. Each says of its servers what SwiftPM has to build, and measures them.
PARTS = {"streams": streams, "udp": udp, "tls": tls, "framing": framing, "timers": timers, "jobs": jobs, "programs": programs}
SERVERS = [name for part in PARTS.values() for name in part.SERVERS]
REACTORS = "reactors"
CASES = [*streams.CASES, *streams.ONCE, REACTORS]


def parse_arguments():
    parser = argparse.ArgumentParser(description="Measures ActorSockets against servers of others.")
    parser.add_argument("--quick", action="store_true", help="a minute: fewer cases and rounds, shorter ones")
    parser.add_argument(
        "--sharing",
        action="store_true",
        help="only: connections handed out in turns, beside a listener for each reactor",
    )
    parser.add_argument("--udp", action="store_true", help="only: datagrams")
    parser.add_argument("--tls", action="store_true", help="only: TLS")
    parser.add_argument("--framing", action="store_true", help="only: lines and messages")
    parser.add_argument("--timers", action="store_true", help="only: deadlines")
    parser.add_argument("--jobs", action="store_true", help="only: a job server")
    parser.add_argument("--programs", action="store_true", help="only: the sizes of the programs, and their starts")
    parser.add_argument(
        "--case",
        action="append",
        choices=CASES,
        metavar="CASE",
        help=f"only: one case of streams, {', '.join(CASES)}; may be repeated",
    )
    parser.add_argument(
        "--only",
        action="append",
        choices=SERVERS,
        metavar="SERVER",
        help=f"only: one of {', '.join(SERVERS)}; may be repeated",
    )
    return parser.parse_args()


class Plan:
    """What of it all the arguments ask for."""

    def __init__(self, arguments):
        self.effort = QUICK if arguments.quick else FULL
        self.sharing = arguments.sharing
        self.cases = [case for case in arguments.case or [] if case != REACTORS]
        chosen = [name for name in PARTS if name != "streams" and getattr(arguments, name)]
        if self.cases:
            chosen.append("streams")
        is_partial = chosen or arguments.case or arguments.sharing
        self.is_everything = not is_partial and not arguments.only
        self.servers = {}  # by part
        for name in chosen if is_partial else PARTS:
            servers = [server for server in PARTS[name].SERVERS if not arguments.only or server in arguments.only]
            if servers:
                self.servers[name] = servers
        self.reactors = REACTORS in (arguments.case or []) or (self.is_everything and not self.effort.is_quick)

    @property
    def products(self):
        """What has to be built; None for everything."""
        if self.is_everything:
            return None
        products = {"load"}.union(*[PARTS[name].products(servers) for name, servers in self.servers.items()])
        return products | (reactors.PRODUCTS if self.reactors or self.sharing else set())


def measure(plan):
    environment = describe_environment()
    print_environment(environment)
    binaries = build(plan.products)
    start = time.monotonic()
    load_core, server_core = cores()
    print(f"\n{plan.effort.rounds} rounds, server on core {server_core}, load on core {load_core}", flush=True)
    if plan.sharing:
        reactors.measure_sharing(binaries, plan.effort)
        return

    result = dict(environment)
    for name, servers in plan.servers.items():
        cases = {"cases": plan.cases} if name == "streams" else {}
        result[name] = PARTS[name].measure(servers, binaries, plan.effort, **cases)
    if plan.reactors:
        result["reactors"] = reactors.measure(binaries, plan.effort)
    result["seconds"] = round(time.monotonic() - start, 1)
    report(plan, result)


def report(plan, result):
    chart.RESULTS.parent.mkdir(exist_ok=True)
    chart.RESULTS.write_text(json.dumps(result, indent=2) + "\n")
    print(f"\nmeasured in {result['seconds'] / 60:.1f} minutes, written to {chart.RESULTS.relative_to(HERE)}", end="")
    if plan.is_everything and not plan.effort.is_quick:
        chart.write(result)
        print(f", {chart.CHART.relative_to(HERE)} and {chart.SUMMARY.relative_to(HERE)}", end="")
    print()


def main():
    # As an exception, so that the children are ended on the way out.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        measure(Plan(parse_arguments()))
    except Failure as failure:
        print(f"run.py: {failure}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
