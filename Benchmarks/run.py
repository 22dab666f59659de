#!/usr/bin/env python3
"""Measures ActorSockets against servers in plain C and on SwiftNIO, FlyingSocks and Go, on this machine, over loopback.

Streams (streams.py), several reactors (reactors.py), datagrams (udp.py) and TLS (tls.py): the processor time of what a
server does, its system calls, and the memory of idle connections. The README beside this file says how to read the
figures. Needs Python 3.9, Swift and, for the system calls, strace.
"""

import argparse
import json
import signal
import sys
import time

import chart
import reactors
import streams
import tls
import udp
from harness import FULL, HERE, QUICK, Failure, build, cores, describe_environment, print_environment

RESULTS = HERE / "Results" / "latest.json"
CHART = HERE / "Results" / "chart.svg"

SERVERS = [*streams.SERVERS, *udp.SERVERS, *tls.SERVERS]
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
        self.is_everything = not (
            arguments.udp or arguments.tls or arguments.case or arguments.only or arguments.sharing
        )
        parts = {"streams": bool(arguments.case), "udp": arguments.udp, "tls": arguments.tls}
        if not any(parts.values()) and not arguments.sharing:
            parts = dict.fromkeys(parts, True)
        self.stream_cases = [case for case in arguments.case or [] if case != REACTORS]
        with_cases = self.stream_cases or not arguments.case
        self.streams = self.named(streams, arguments) if parts["streams"] and with_cases else []
        self.udp = self.named(udp, arguments) if parts["udp"] else []
        self.tls = self.named(tls, arguments) if parts["tls"] else []
        self.reactors = REACTORS in (arguments.case or []) or (self.is_everything and not self.effort.is_quick)

    @staticmethod
    def named(module, arguments):
        return [name for name in module.SERVERS if not arguments.only or name in arguments.only]

    @property
    def products(self):
        """What has to be built; None for everything."""
        if self.is_everything:
            return None
        products = {"load"} | streams.products(self.streams) | udp.products(self.udp) | tls.products(self.tls)
        return products | (reactors.PRODUCTS if self.reactors or self.sharing else set())


def measure(plan):
    environment = describe_environment()
    print_environment(environment)
    binaries = build(plan.products)
    start = time.monotonic()
    load_core, server_core = cores()
    print(f"\n{plan.effort.rounds} rounds, server on core {server_core}, load on core {load_core}", flush=True)

    result = dict(environment)
    if plan.sharing:
        reactors.measure_sharing(binaries, plan.effort)
        return
    if plan.streams:
        result["streams"] = streams.measure(plan.streams, plan.stream_cases, binaries, plan.effort)
    if plan.reactors:
        result["reactors"] = reactors.measure(binaries, plan.effort)
    if plan.udp:
        result["udp"] = udp.measure(plan.udp, binaries, plan.effort)
    if plan.tls:
        result["tls"] = tls.measure(plan.tls, binaries, plan.effort)
    result["seconds"] = round(time.monotonic() - start, 1)
    report(plan, result)


def report(plan, result):
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps(result, indent=2) + "\n")
    print(f"\nmeasured in {result['seconds'] / 60:.1f} minutes, written to {RESULTS.relative_to(HERE)}", end="")
    if plan.is_everything and not plan.effort.is_quick:
        CHART.write_text(chart.draw(result))
        print(f" and {CHART.relative_to(HERE)}", end="")
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
