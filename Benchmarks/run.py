#!/usr/bin/env python3
"""Measures ActorSockets against an echo server in plain C, on this machine, over loopback.

Three things: the processor time of an echo, its system calls, and the memory of an idle connection; of datagrams
(udp.py) the first two; of TLS (tls.py) those of handshakes, echoes, bulk and idle connections; lines and messages
(framing.py); deadlines (timers.py). With --sharing another one: how several reactors share the connections of one port.
The README beside this file says how to read them. Needs Python 3.9, Swift and, for the system calls, strace.
"""

import argparse
import json
import re
import shutil
import signal
import statistics
import sys
from pathlib import Path

import framing
import timers
import tls
import udp
from harness import (
    HERE,
    Failure,
    build,
    cores,
    describe_environment,
    print_environment,
    print_system_calls,
    print_table,
    run_load,
    running_server,
    spread,
    trace,
)

RESULTS = HERE / "Results" / "latest.json"

SERVERS = {
    "raw-c": ["raw-c-echo"],
    "swift-reactor": ["swift-echo", "--on", "reactor"],
    "swift-pool": ["swift-echo", "--on", "pool"],
}
BASELINE = "raw-c"
# Two reactors: one listener that hands out connections in turns, or a listener each, at one port (SO_REUSEPORT).
SHARING_SERVERS = {
    "one reactor": ["swift-echo", "--on", "reactor"],
    "in turns": ["swift-echo", "--on", "reactor", "--reactors", "2"],
    "shared port": ["swift-echo", "--on", "reactor", "--reactors", "2", "--shared-port"],
}

REQUEST_SIZE = 64
CONNECTIONS = 128
WARMUP_SECONDS = 0.5
MEASURED_SECONDS = 1.0
STRACE_SECONDS = 2.0
IDLE_CONNECTIONS = 5000
IDLE_HOLD_SECONDS = 1.0


# --- Measurements ----------------------------------------------------------------------------------


def server_of(name, binaries, *more_arguments):
    """A fresh server of that name."""
    program, *arguments = {**SERVERS, **SHARING_SERVERS}[name]
    return running_server(name, [binaries / program, *arguments, *more_arguments])


def load(binaries, mode, host, port, warmup=WARMUP_SECONDS, seconds=MEASURED_SECONDS, **options):
    """Requests on all connections at once."""
    return run_load(
        binaries,
        mode,
        host,
        port,
        connections=CONNECTIONS,
        size=REQUEST_SIZE,
        warmup=warmup,
        seconds=seconds,
        **options,
    )


def measure_echo(names, binaries, rounds):
    """Interleaved, so that whatever else the machine does hits all of them alike."""
    results = {name: [] for name in names}
    for number in range(rounds):
        for name in names:
            with server_of(name, binaries) as (server, host, port):
                result = load(binaries, "echo", host, port, pid=server.pid)
            results[name].append(result)
            print(
                f"  round {number + 1}: {name:14} {result['server_cpu_us_per_request']:6.2f} us CPU,"
                f" {result['requests_per_second']:8.0f} requests/s",
                flush=True,
            )
    return results


def trace_echo(name, binaries):
    """All system calls of the server from before the first connection to after the last one."""
    with server_of(name, binaries) as (server, host, port):
        traced = trace(server, lambda: load(binaries, "echo", host, port, warmup=0, seconds=STRACE_SECONDS))
        return {"connections": CONNECTIONS, **traced}


def measure_idle(names, binaries):
    results = {}
    for name in names:
        with server_of(name, binaries) as (server, host, port):
            results[name] = run_load(
                binaries,
                "idle",
                host,
                port,
                connections=IDLE_CONNECTIONS,
                hold=IDLE_HOLD_SECONDS,
                pid=server.pid,
            )
    return results


def measure_sharing(binaries, rounds):
    """Processor time of a connection (open, echo, close) and of an echo, and how many connections each reactor gets."""
    results = {name: {"churn": [], "echo": [], "shares": []} for name in SHARING_SERVERS}
    for number in range(rounds):
        for name, result in results.items():
            for mode in ["churn", "echo"]:
                with server_of(name, binaries) as (server, host, port):
                    measured = load(binaries, mode, host, port, pid=server.pid)
                result[mode].append(measured["server_cpu_us_per_request"])
            with server_of(name, binaries, "--report") as (server, host, port):
                load(binaries, "echo", host, port, warmup=0, seconds=0.1)
                text = Path(server.log).read_text(errors="replace")
            accepted = re.findall(r"^accepted (.+)$", text, re.MULTILINE)
            counts = [accepted.count(reactor) for reactor in set(accepted)]
            result["shares"].append(sorted(counts))
            print(
                f"  round {number + 1}: {name:12} {result['churn'][-1]:6.2f} us CPU a connection,"
                f" {result['echo'][-1]:5.2f} us an echo, connections {counts}",
                flush=True,
            )
    return results


# --- Reports ---------------------------------------------------------------------------------------


def summarize_echo(results):
    """Medians and spreads over the rounds; ratios to the baseline both ways, for drift shows between them."""
    keys = ["server_cpu_us_per_request", "server_cpu_share", "requests_per_second", "p50_us", "p99_us", "p99.9_us"]
    cpu = {name: [r["server_cpu_us_per_request"] for r in rounds] for name, rounds in results.items()}
    summary = {}
    for name, rounds in results.items():
        row = {key: spread([r[key] for r in rounds]) for key in keys}
        if BASELINE in results:
            row["cpu_ratio_of_medians"] = statistics.median(cpu[name]) / statistics.median(cpu[BASELINE])
            row["cpu_median_of_round_ratios"] = statistics.median(
                mine / base for mine, base in zip(cpu[name], cpu[BASELINE])
            )
        summary[name] = row
    return summary


def print_echo(summary):
    def ratio(row, key):
        return f"{row[key]:.2f}" if key in row else "-"

    header = ["server", "CPU us/request", "min..max", "ratio", "by round", "busy", "requests/s"]
    header += ["p50 us", "p99 us", "p99.9 us"]
    rows = []
    for name, row in summary.items():
        cpu = row["server_cpu_us_per_request"]
        rows.append(
            [
                name,
                f"{cpu['median']:.2f}",
                f"{cpu['min']:.2f}..{cpu['max']:.2f}",
                ratio(row, "cpu_ratio_of_medians"),
                ratio(row, "cpu_median_of_round_ratios"),
                f"{row['server_cpu_share']['median']:.0%}",
                f"{row['requests_per_second']['median']:.0f}",
                f"{row['p50_us']['median']:.0f}",
                f"{row['p99_us']['median']:.0f}",
                f"{row['p99.9_us']['median']:.0f}",
            ]
        )
    print(f"\n{REQUEST_SIZE}-byte echo, {CONNECTIONS} connections, medians (ratio: CPU to {BASELINE}'s)\n")
    print_table(header, rows)


def print_idle(results):
    print(f"\nMemory of an idle connection ({IDLE_CONNECTIONS} open, each waiting in a read; kernel not included)\n")
    rows = [
        [
            name,
            f"{result['bytes_per_connection']:.0f}",
            f"{result['private_bytes_before'] / 1e6:.1f}",
            f"{result['private_bytes_after'] / 1e6:.1f}",
        ]
        for name, result in results.items()
    ]
    print_table(["server", "bytes/connection", "MB before", "MB after"], rows)


def print_sharing(results):
    print(f"\n{CONNECTIONS} connections, all reactors on one core, medians\n")
    rows = [
        [
            name,
            f"{statistics.median(result['churn']):.2f}",
            f"{statistics.median(result['echo']):.2f}",
            f"{min(map(min, result['shares']))}..{max(map(max, result['shares']))}",
        ]
        for name, result in results.items()
    ]
    print_table(["reactors", "CPU us/connection", "CPU us/echo", "connections of a reactor"], rows)


# --- Main ------------------------------------------------------------------------------------------


def parse_arguments():
    parser = argparse.ArgumentParser(description="Measures ActorSockets against an echo server in plain C.")
    parser.add_argument("--quick", action="store_true", help="3 rounds instead of 15")
    parser.add_argument(
        "--sharing", action="store_true", help="only: connections handed out in turns, beside a listener for each reactor"
    )
    parser.add_argument("--udp", action="store_true", help="only: datagrams, beside plain C and SwiftNIO")
    parser.add_argument("--tls", action="store_true", help="only: TLS, beside OpenSSL in plain C and SwiftNIO")
    parser.add_argument("--framing", action="store_true", help="only: lines and messages, beside C, SwiftNIO and Go")
    parser.add_argument("--timers", action="store_true", help="only: deadlines, beside SwiftNIO and Go")
    names = [*SERVERS, *udp.SERVERS, *tls.SERVERS, *framing.SERVERS, *timers.PROGRAMS]
    parser.add_argument(
        "--only",
        action="append",
        choices=names,
        metavar="SERVER",
        help=f"one of {', '.join(names)}; may be repeated",
    )
    return parser.parse_args()


def measure_tcp(names, binaries, rounds):
    echo = measure_echo(names, binaries, rounds)
    summary = summarize_echo(echo)
    print_echo(summary)

    traces = None
    if shutil.which("strace"):
        traces = {name: trace_echo(name, binaries) for name in names}
        print("\nSystem calls per echo (strace; not timed; opening and closing the connections included)\n")
        print_system_calls(traces)
    else:
        print("\nSystem calls per echo: not counted, strace is not installed")

    idle = measure_idle(names, binaries)
    print_idle(idle)
    return {"echo": {"summary": summary, "rounds": echo}, "system_calls": traces, "idle": idle}


def measure(arguments):
    wanted = arguments.only or [*SERVERS, *udp.SERVERS, *tls.SERVERS, *framing.SERVERS, *timers.PROGRAMS]
    everything = not (arguments.udp or arguments.tls or arguments.framing or arguments.timers)
    names = [name for name in SERVERS if name in wanted and everything]
    udp_names = [name for name in udp.SERVERS if name in wanted and (arguments.udp or everything)]
    tls_names = [name for name in tls.SERVERS if name in wanted and (arguments.tls or everything)]
    framing_names = [name for name in framing.SERVERS if name in wanted and (arguments.framing or everything)]
    timer_names = [name for name in timers.PROGRAMS if name in wanted and (arguments.timers or everything)]
    environment = describe_environment()
    print_environment(environment)
    products = {SERVERS[name][0] for name in names} | udp.products(udp_names) | tls.products(tls_names)
    products |= framing.products(framing_names) | timers.products(timer_names)
    binaries = build(None if everything and not arguments.only else {"load", *products})

    rounds = 3 if arguments.quick else 15
    print(f"\n{rounds} rounds, server on core {cores()[1]}, load on core {cores()[0]}", flush=True)
    if arguments.sharing:
        print_sharing(measure_sharing(binaries, rounds))
        return
    result = dict(environment)
    if names:
        result.update(measure_tcp(names, binaries, rounds))
    if udp_names:
        result["udp"] = udp.measure(udp_names, binaries, rounds)
    if tls_names:
        result["tls"] = tls.measure(tls_names, binaries, rounds)
    if framing_names:
        result["framing"] = framing.measure(framing_names, binaries, rounds, arguments.quick)
    if timer_names:
        result["timers"] = timers.measure(timer_names, binaries, rounds, arguments.quick)
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps(result, indent=2) + "\n")
    print(f"\nwritten to {RESULTS.relative_to(HERE)}")


def main():
    # As an exception, so that the children are ended on the way out.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        measure(parse_arguments())
    except Failure as failure:
        print(f"run.py: {failure}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
