"""Framing: what a line and a message with its length in front cost a server on ActorSockets, beside plain C, SwiftNIO's
decoders and, where it is installed, Go."""

import tempfile

from harness import build_go, print_table, ratio_cell, ratios_by_round, rounds_of, run_load, running_server, spread

SERVERS = {
    "framing-c": ["raw-c-framing"],
    "framing-nio": ["nio-framing", "--form", "buffer"],
    "framing-nio-string": ["nio-framing", "--form", "string"],
    "framing-go": ["go-framing"],
    "framing-reactor-string": ["swift-framing", "--on", "reactor", "--form", "string"],
    "framing-reactor": ["swift-framing", "--on", "reactor", "--form", "array"],
    "framing-reactor-string-batch": ["swift-framing", "--on", "reactor", "--form", "string-batch"],
    "framing-reactor-batch": ["swift-framing", "--on", "reactor", "--form", "array-batch"],
    "framing-reactor-scoped": ["swift-framing", "--on", "reactor", "--form", "scoped"],
    "framing-pool-string": ["swift-framing", "--on", "pool", "--form", "string"],
    "framing-pool": ["swift-framing", "--on", "pool", "--form", "array"],
    "framing-pool-batch": ["swift-framing", "--on", "pool", "--form", "array-batch"],
}
# What each is compared with: a ratio of processor times.
BASELINES = ["framing-c", "framing-nio-string", "framing-nio", "framing-go"]

# Bytes of a frame: a line with its newline, a message without its length. And how many bytes the whole frame has.
SIZES = {"lines": (80, 80), "messages": (100, 104)}
TITLES = {
    "lines": "Lines of 80 bytes",
    "messages": "Messages of 100 bytes behind a length of 4",
}
# In all rounds together.
BYTES = 4_000_000_000
QUICK_BYTES = 200_000_000
COST = "server_cpu_ns_per_frame"


def is_for(name, mode):
    """No message is a string."""
    return mode == "lines" or "-string" not in name


def products(names):
    """What SwiftPM builds for these servers."""
    return {SERVERS[name][0] for name in names if name != "framing-go"}


def command_of(name, mode, binaries, go_program):
    if name == "framing-go":
        return [go_program, "-mode", mode]
    program, *arguments = SERVERS[name]
    return [binaries / program, *arguments, "--mode", mode]


def measure_mode(mode, commands, binaries, effort, total):
    """Interleaved, so that whatever else the machine does hits all of them alike."""
    size, whole = SIZES[mode]
    results = {name: [] for name in commands}
    for number, _ in rounds_of(effort, {mode: results}, lambda _: COST):
        for name, command in commands.items():
            requests = total // effort.rounds // whole
            with running_server(name, command) as (server, host, port):
                result = run_load(binaries, mode, host, port, size=size, requests=requests, pid=server.pid)
            results[name].append(result)
            print(
                f"  round {number}: {mode:8} {name:22} {result[COST]:7.1f} ns CPU,"
                f" server {result['server_cpu_share']:4.0%}, load {result['load_cpu_share']:4.0%}",
                flush=True,
            )
    return results


def summarize(results):
    """Medians and spreads over the rounds, and the median of each round's ratios to the baselines."""
    ratios = ratios_by_round(results, COST, BASELINES)
    summary = {}
    for name, rounds in results.items():
        row = {key: spread([r[key] for r in rounds]) for key in [COST, "server_cpu_share", "load_cpu_share"]}
        # Nanoseconds for so many bytes.
        row["megabytes_per_cpu_second"] = rounds[0]["bytes"] / rounds[0]["requests"] / row[COST]["median"] * 1e3
        row["cpu_ratios"] = ratios[name]
        summary[name] = row
    return summary


def print_summary(mode, summary):
    bases = [base for base in BASELINES if base in summary]
    header = ["server", "CPU ns each", "min..max", *[f"to {base.removeprefix('framing-')}" for base in bases]]
    header += ["MB/CPU s", "busy", "load busy"]
    rows = []
    for name, row in summary.items():
        cost = row[COST]
        rows.append(
            [
                name,
                f"{cost['median']:.1f}",
                f"{cost['min']:.1f}..{cost['max']:.1f}",
                *[ratio_cell(row["cpu_ratios"][base]) for base in bases],
                f"{row['megabytes_per_cpu_second']:.0f}",
                f"{row['server_cpu_share']['median']:.0%}",
                f"{row['load_cpu_share']['median']:.0%}",
            ]
        )
    print(f"\n{TITLES[mode]}, one connection; medians (ratios: CPU, by round)\n")
    print_table(header, rows)


def measure(names, binaries, effort):
    """Measures and prints; returns what belongs into the results."""
    with tempfile.TemporaryDirectory() as directory:
        go_program = build_go("go-framing", directory) if "framing-go" in names else None
        if "framing-go" in names and not go_program:
            print("\ngo is not installed: its server of lines is left out", flush=True)
            names = [name for name in names if name != "framing-go"]
        result = {}
        for mode in SIZES:
            commands = {name: command_of(name, mode, binaries, go_program) for name in names if is_for(name, mode)}
            total = QUICK_BYTES if effort.is_quick else BYTES
            rounds_of_mode = measure_mode(mode, commands, binaries, effort, total)
            summary = summarize(rounds_of_mode)
            print_summary(mode, summary)
            result[mode] = {"summary": summary, "rounds": rounds_of_mode}
    return result
