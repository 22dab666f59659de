"""Several reactors: what they cost and carry, and how they share the connections of one port."""

import re
import statistics
from pathlib import Path

from harness import cores_but_the_load_generators, measure_load, print_table, run_load, running_server, spread

CONNECTIONS = 128
REQUEST_SIZE = 64
LOAD = {"connections": CONNECTIONS, "size": REQUEST_SIZE}
COUNTS = [1, 2, 4]
PRODUCTS = {"swift-echo"}

# Two reactors: one listener that hands out connections in turns, or a listener each, at one port (SO_REUSEPORT).
SHARING = {
    "one reactor": [],
    "in turns": ["--reactors", "2"],
    "shared port": ["--reactors", "2", "--shared-port"],
}


def command(binaries, *arguments):
    return [binaries / "swift-echo", "--on", "reactor", *arguments]


def measure(binaries, effort):
    """Echoes on one to four reactors, which have all cores but the load generator's."""
    cores = cores_but_the_load_generators()
    results = {count: [] for count in COUNTS}
    for number in range(effort.rounds):
        for count, rounds in results.items():
            server = command(binaries, "--reactors", str(count))
            rounds.append(measure_load(binaries, f"{count} reactors", server, "echo", cores, **LOAD, **effort.times))
            print(
                f"  round {number + 1}: {count} reactors {rounds[-1]['server_cpu_us_per_request']:6.2f} us CPU,"
                f" {rounds[-1]['requests_per_second']:8.0f} requests/s",
                flush=True,
            )
    keys = ["server_cpu_us_per_request", "server_cpu_share", "requests_per_second", "load_cpu_share", "p99_us"]
    summary = {count: {key: spread([r[key] for r in rounds]) for key in keys} for count, rounds in results.items()}
    print_reactors(summary, len(cores))
    return {"cores": len(cores), "summary": summary, "rounds": results}


def print_reactors(summary, core_count):
    on = "one core" if core_count < 2 else f"{core_count} cores"
    print(f"\n{REQUEST_SIZE}-byte echo, {CONNECTIONS} connections, handlers on the reactors, all on {on}, medians\n")
    rows = [
        [
            str(count),
            f"{row['server_cpu_us_per_request']['median']:.2f}",
            f"{row['server_cpu_us_per_request']['min']:.2f}..{row['server_cpu_us_per_request']['max']:.2f}",
            f"{row['requests_per_second']['median']:.0f}",
            f"{row['p99_us']['median']:.0f}",
            f"{row['server_cpu_share']['median']:.0%}",
            f"{row['load_cpu_share']['median']:.0%}",
        ]
        for count, row in summary.items()
    ]
    print_table(["reactors", "CPU us/request", "min..max", "requests/s", "p99 us", "busy", "load busy"], rows)


# --- Sharing ---------------------------------------------------------------------------------------


def measure_sharing(binaries, effort):
    """Processor time of a connection (open, echo, close) and of an echo, and how many connections each reactor gets."""
    results = {name: {"churn": [], "echo": [], "shares": []} for name in SHARING}
    for number in range(effort.rounds):
        for name, result in results.items():
            server = command(binaries, *SHARING[name])
            for mode in ["churn", "echo"]:
                measured = measure_load(binaries, name, server, mode, **LOAD, **effort.times)
                result[mode].append(measured["server_cpu_us_per_request"])
            with running_server(name, [*server, "--report"]) as (reporting, host, port):
                run_load(binaries, "echo", host, port, **LOAD, warmup=0, seconds=0.1)
                text = Path(reporting.log).read_text(errors="replace")
            accepted = re.findall(r"^accepted (.+)$", text, re.MULTILINE)
            counts = [accepted.count(reactor) for reactor in set(accepted)]
            result["shares"].append(sorted(counts))
            print(
                f"  round {number + 1}: {name:12} {result['churn'][-1]:6.2f} us CPU a connection,"
                f" {result['echo'][-1]:5.2f} us an echo, connections {counts}",
                flush=True,
            )
    print_sharing(results)


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
