"""Datagrams: what one costs an echo server on ActorSockets, beside plain C, SwiftNIO and, where it is installed, Go."""

import shutil
import tempfile

from harness import (
    build_go,
    measure_load,
    print_system_calls,
    print_table,
    ratio_cell,
    ratios_by_round,
    rounds_of,
    run_load,
    running_server,
    spread,
    trace,
)

SERVERS = {
    "c-single": ["raw-c-udp", "--single"],
    "c-batch": ["raw-c-udp", "--batch"],
    "nio": ["nio-udp-echo"],
    "go": ["go-udp-echo"],
    "reactor-single": ["swift-udp-echo", "--on", "reactor", "--mode", "single"],
    "reactor-isolated": ["swift-udp-echo", "--on", "reactor", "--mode", "isolated"],
    "reactor-batch": ["swift-udp-echo", "--on", "reactor", "--mode", "batch"],
    "reactor-scoped": ["swift-udp-echo", "--on", "reactor", "--mode", "scoped"],
    "pool-single": ["swift-udp-echo", "--on", "pool", "--mode", "single"],
    "pool-batch": ["swift-udp-echo", "--on", "pool", "--mode", "batch"],
    "stream-c": ["raw-c-udp", "--stream"],
    "stream-c-offload": ["raw-c-udp", "--stream-offload"],
    "stream-reactor": ["swift-udp-echo", "--on", "reactor", "--mode", "stream"],
    "stream-reactor-offload": ["swift-udp-echo", "--on", "reactor", "--mode", "stream-offload"],
    "stream-reactor-scoped": ["swift-udp-echo", "--on", "reactor", "--mode", "stream-scoped"],
    "stream-pool-offload": ["swift-udp-echo", "--on", "pool", "--mode", "stream-offload"],
}
# What each is compared with: a ratio of processor times.
BASELINES = ["c-single", "c-batch", "nio"]
STREAM_BASELINES = ["stream-c", "stream-c-offload"]

SOCKETS = 8
IN_FLIGHT = 16
SIZES = [64, 1200]
STREAM = {"sockets": 2, "in-flight": 32, "size": 1200}
DIRECTIONS = {"up": "received", "down": "sent"}
STRACE_SECONDS = 0.5


def products(names):
    """What SwiftPM builds for these servers."""
    return {SERVERS[name][0] for name in names if name != "go"}


LOAD = {"sockets": SOCKETS, "in-flight": IN_FLIGHT}


def measure_rounds(commands, binaries, effort, what, mode, options):
    """Interleaved, so that whatever else the machine does hits all of them alike."""
    results = {name: [] for name in commands}
    for number, _ in rounds_of(effort, {what: results}, lambda _: "server_cpu_us_per_request"):
        for name, command in commands.items():
            result = measure_load(binaries, name, command, mode, **options, **effort.times)
            results[name].append(result)
            print(
                f"  round {number}: {what} {name:16} {result['server_cpu_us_per_request']:6.3f} us CPU,"
                f" {result['requests_per_second']:8.0f} datagrams/s, {result['lost']} lost",
                flush=True,
            )
    return results


def trace_echo(name, command, binaries):
    """All system calls of the server, with those of its threads that wait."""
    with running_server(name, command) as (server, host, port):
        times = {"warmup": 0, "seconds": STRACE_SECONDS}
        return trace(server, lambda: run_load(binaries, "udp", host, port, **LOAD, size=SIZES[0], **times))


def summarize(results, baselines):
    """Medians and spreads over the rounds, and the median of each round's ratios to the baselines."""
    keys = ["server_cpu_us_per_request", "server_cpu_share", "requests_per_second", "p50_us", "p99_us", "p99.9_us"]
    ratios = ratios_by_round(results, "server_cpu_us_per_request", baselines)
    summary = {}
    for name, rounds in results.items():
        row = {key: spread([r[key] for r in rounds]) for key in keys}
        row["lost"] = sum(r["total_lost"] for r in rounds)
        row["cpu_ratios"] = ratios[name]
        summary[name] = row
    return summary


def print_summary(summary, title, baselines):
    bases = [base for base in baselines if base in summary]
    header = ["server", "CPU us/datagram", "min..max", *[f"to {base}" for base in bases]]
    header += ["busy", "datagrams/s", "p50 us", "p99 us", "lost"]
    rows = []
    for name, row in summary.items():
        cpu = row["server_cpu_us_per_request"]
        rows.append(
            [
                name,
                f"{cpu['median']:.3f}",
                f"{cpu['min']:.3f}..{cpu['max']:.3f}",
                *[ratio_cell(row["cpu_ratios"][base]) for base in bases],
                f"{row['server_cpu_share']['median']:.0%}",
                f"{row['requests_per_second']['median']:.0f}",
                f"{row['p50_us']['median']:.0f}",
                f"{row['p99_us']['median']:.0f}",
                str(row["lost"]),
            ]
        )
    print(f"\n{title}, medians (ratios: CPU, by round)\n")
    print_table(header, rows)


def measure_echo(commands, binaries, effort, size):
    rounds = measure_rounds(commands, binaries, effort, f"{size:4} bytes", "udp", LOAD | {"size": size})
    summary = summarize(rounds, BASELINES)
    print_summary(
        summary, f"{size:,}-byte datagrams, {SOCKETS} sockets with {IN_FLIGHT} in flight each", BASELINES
    )
    return {"summary": summary, "rounds": rounds}


def measure_stream(commands, binaries, effort, direction):
    options = STREAM | {"direction": direction}
    rounds = measure_rounds(commands, binaries, effort, direction, "udp-stream", options)
    summary = summarize(rounds, STREAM_BASELINES)
    title = f"{STREAM['size']:,}-byte datagrams that the server {DIRECTIONS[direction]}, in bursts of {STREAM['in-flight']}"
    print_summary(summary, title, STREAM_BASELINES)
    return {"summary": summary, "rounds": rounds}


def measure(names, binaries, effort):
    """Measures and prints; returns what belongs into the results."""
    with tempfile.TemporaryDirectory() as directory:
        commands = {name: [binaries / SERVERS[name][0], *SERVERS[name][1:]] for name in names if name != "go"}
        if "go" in names:
            program = build_go("go-udp-echo", directory)
            if program:
                commands["go"] = [program]
            else:
                print("\ngo is not installed: its UDP server is left out", flush=True)
        streams = {name: command for name, command in commands.items() if name.startswith("stream-")}
        echoes = {name: command for name, command in commands.items() if name not in streams}
        result = {}
        for size in SIZES[:1] if effort.is_quick else SIZES:
            if echoes:
                result[f"{size} bytes"] = measure_echo(echoes, binaries, effort, size)
        for direction in [] if effort.is_quick else DIRECTIONS:
            if streams:
                result[f"stream {direction}"] = measure_stream(streams, binaries, effort, direction)

        traces = None
        if effort.is_quick or not echoes:
            pass
        elif shutil.which("strace"):
            traces = {name: trace_echo(name, command, binaries) for name, command in echoes.items()}
            print("\nSystem calls per datagram that was echoed (strace; not timed)\n")
            print_system_calls(traces)
        else:
            print("\nSystem calls per datagram: not counted, strace is not installed")
    return {**result, "system_calls": traces}
