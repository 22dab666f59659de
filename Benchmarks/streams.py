"""Streams: what echoes, bulk and connections cost a TCP server on ActorSockets, beside plain C, SwiftNIO, FlyingSocks
and, where it is installed, Go."""

import shutil
import tempfile
from dataclasses import dataclass, field

from harness import (
    Failure,
    WrongBytes,
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
    "raw-c": ["raw-c-echo"],
    "swift-reactor": ["swift-echo", "--on", "reactor"],
    "swift-pool": ["swift-echo", "--on", "pool"],
    "swift-answer": ["swift-echo", "--on", "reactor", "--answers"],
    "swift-buffered": ["swift-echo", "--on", "reactor", "--buffered"],
    "swift-isolated": ["swift-echo", "--on", "isolated"],
    "swift-nested": ["swift-echo", "--on", "reactor", "--nested"],
    "nio-handler": ["nio-echo", "--as", "handler"],
    "nio-async": ["nio-echo", "--as", "async"],
    "flying": ["flying-echo"],
    "go": ["go-echo"],
}
# Servers that are only in these cases.
ANSWERS = {"echo-128", "echo-1024"}
CASES_OF = {
    "swift-answer": ANSWERS, "swift-isolated": ANSWERS, "swift-buffered": ANSWERS | {"pipelined"}, "swift-nested": {"idle"},
}  # fmt: skip
# What each is compared with: a ratio of processor times.
BASELINES = ["raw-c", "nio-handler", "nio-async", "flying", "go"]
# A server of others that cannot do something has a row that says so; one of ours, or the yardstick, must not fail.
PEERS = {"nio-handler", "nio-async", "flying", "go"}
PEER_LIMIT = 20  # seconds that a peer may take beyond what is measured

STRACE_SECONDS = 0.5


@dataclass(frozen=True)
class Case:
    title: str
    load_mode: str
    options: dict
    server_mode: str = "echo"
    unit: str = "request"  # what the processor time is divided by, as the load generator names it
    # In Go every connection has a buffer that somebody has to choose; the others choose by themselves.
    go_buffer: int = 4096
    is_quick: bool = False  # part of a quick run
    only: frozenset = frozenset()  # the servers that can do it; empty for all
    columns: dict = field(default_factory=dict)  # beside the usual ones: title, key and form of the value

    @property
    def cost(self):
        return f"server_cpu_us_per_{self.unit}"


RATE = {"requests/s": ("requests_per_second", "{:.0f}")}
LATENCIES = {
    "p50 us": ("p50_us", "{:.0f}"),
    "p99 us": ("p99_us", "{:.0f}"),
    "p99.9 us": ("p99.9_us", "{:.0f}"),
}
MEGABYTES = {"MB/s": ("megabytes_per_second", "{:.0f}")}
REQUESTS = {**RATE, **LATENCIES}
SMALL = {"size": 64}
LARGE = {"size": 65536}


def echo_case(connections, is_quick=False):
    title = f"64-byte echo, {connections:,} connection{'s' if connections > 1 else ''}"
    return Case(title, "echo", {"connections": connections, **SMALL}, is_quick=is_quick, columns=REQUESTS)


CASES = {
    "echo-1": echo_case(1),
    "echo-16": echo_case(16),
    "echo-128": echo_case(128, is_quick=True),
    "echo-1024": echo_case(1024),
    "echo-8192": echo_case(8192),
    "echo-64k": Case(
        "64 KiB echo, 16 connections",
        "echo", {"connections": 16, **LARGE}, go_buffer=65536, is_quick=True, columns=REQUESTS,
    ),
    "pipelined": Case(
        "64-byte echo, 128 connections with 16 requests in flight each",
        "echo", {"connections": 128, "in-flight": 16, **SMALL}, columns=REQUESTS,
    ),
    "one-way": Case(
        "One-way stream to the server, which reads and discards; 8 connections, writes of 64 KiB, 1,000 MB/s",
        # The same rate for all, and less than they can do: at its limit a server finds the more the slower it is.
        "bulk", {"connections": 8, "direction": "up", "rate": 1000},
        server_mode="sink", unit="mib", go_buffer=65536, is_quick=True,
        columns={**MEGABYTES, "MB/CPU s": ("megabytes_per_cpu_second", "{:.0f}")},
    ),
    "tenth": Case(
        "A tenth of the load: 1,000 connections send 10,000 requests of 64 bytes a second together (latencies)",
        "hose", {"quiet": 1000, "rate": 10000, **SMALL}, columns=LATENCIES,
    ),
    "churn": Case(
        "Accept, echo of 64 bytes, close; 128 at a time",
        "churn", {"connections": 128, **SMALL}, is_quick=True, columns=REQUESTS,
    ),
    "fanout": Case(
        "One message of 64 bytes to 9,000 connections, and the next when all have it (latencies: the last to get it)",
        "fanout", {"connections": 9000, **SMALL}, server_mode="fanout", unit="delivery",
        only=frozenset({"raw-c", "swift-reactor", "swift-pool", "nio-handler", "go"}),
        columns={"deliveries/s": ("deliveries_per_second", "{:.0f}"), **LATENCIES},
    ),
    "hose": Case(
        "A fire hose: 8 connections stream and are echoed, 1,000 send 64 bytes now and then (latencies: these)",
        "hose", {"connections": 8, "quiet": 1000, **SMALL}, unit="mib", go_buffer=65536,
        columns={
            **MEGABYTES, **LATENCIES, "longest us": ("max_us", "{:.0f}"), "least share": ("smallest_share", "{:.2f}"),
        },
    ),
}  # fmt: skip
IDLE = Case("idle connections", "idle", {"connections": 10000, "hold": 0.5})
# What is measured otherwise, and once.
ONCE = ["idle", "system-calls"]


def products(names):
    """What SwiftPM builds for these servers."""
    return {SERVERS[name][0] for name in names if name != "go"}


# --- Measurements ----------------------------------------------------------------------------------


class Servers:
    """The programs: how they are started, and which of them failed in what."""

    def __init__(self, names, binaries, directory):
        self.binaries = binaries
        self.commands = {name: [binaries / SERVERS[name][0], *SERVERS[name][1:]] for name in names if name != "go"}
        if "go" in names:
            program = build_go("go-echo", directory)
            if program:
                self.commands["go"] = [program]
            else:
                print("\ngo is not installed: its server is left out", flush=True)

    def names(self, key):
        """The servers of a case."""
        only = CASES[key].only if key in CASES else None
        return [name for name in self.commands if key in CASES_OF.get(name, {key}) and (not only or name in only)]

    def command(self, name, case):
        more = ["--mode", case.server_mode] + (["--buffer", str(case.go_buffer)] if name == "go" else [])
        return [*self.commands[name], *more]

    def measure(self, name, case, **options):
        """What the load generator measured. A peer that failed is a result, too, unless it gave wrong bytes."""
        limit = {"limit": PEER_LIMIT} if name in PEERS else {}
        command = self.command(name, case)
        try:
            return measure_load(self.binaries, name, command, case.load_mode, **case.options, **limit, **options)
        except WrongBytes:
            raise
        except Failure as failure:
            if name not in PEERS:
                raise
            return {"failure": str(failure)}


def add_megabytes(result):
    if "bytes_per_second" in result:
        result["megabytes_per_second"] = result["bytes_per_second"] / 1e6
        result["megabytes_per_cpu_second"] = result["megabytes_per_second"] / result["server_cpu_share"]


def measure_cases(cases, servers, effort):
    """Interleaved, so that whatever else the machine does hits all of them alike. Who failed is not asked again."""
    results = {case: {name: [] for name in servers.names(case)} for case in cases}
    for number, due in rounds_of(effort, results, lambda key: cases[key].cost):
        for key in due:
            case = cases[key]
            for name, measured in results[key].items():
                if measured and "failure" in measured[-1]:
                    continue
                result = servers.measure(name, case, **effort.times)
                measured.append(result)
                if "failure" in result:
                    print(f"  round {number}: {key:10} {name:14} did not finish: {result['failure']}", flush=True)
                    continue
                add_megabytes(result)
                print(
                    f"  round {number}: {key:10} {name:14} {result[case.cost]:8.2f} us CPU,"
                    f" server {result['server_cpu_share']:4.0%}, load {result['load_cpu_share']:4.0%}",
                    flush=True,
                )
    return results


def measure_idle(servers):
    return {name: servers.measure(name, IDLE) for name in servers.names("idle")}


def trace_echoes(servers):
    """All system calls of each server from before the first connection to after the last one."""
    case = CASES["echo-128"]
    times = {"warmup": 0, "seconds": STRACE_SECONDS}
    traces = {}
    for name in servers.names("system-calls"):
        with running_server(name, servers.command(name, case)) as (server, host, port):
            traces[name] = trace(
                server, lambda: run_load(servers.binaries, case.load_mode, host, port, **case.options, **times)
            )
    return traces


# --- Reports ---------------------------------------------------------------------------------------


def summarize(case, results):
    """Medians and spreads over the rounds, and the median of each round's ratios to the baselines."""
    finished = {name: rounds for name, rounds in results.items() if "failure" not in rounds[-1]}
    ratios = ratios_by_round(finished, case.cost, BASELINES)
    keys = [case.cost, "server_cpu_share", *[key for key, _ in case.columns.values()]]
    summary = {}
    for name, rounds in results.items():
        if name not in finished:
            summary[name] = {"failure": rounds[-1]["failure"]}
            continue
        row = {key: spread([r[key] for r in rounds]) for key in keys}
        row["cpu_ratios"] = ratios[name]
        summary[name] = row
    return summary


def print_case(case, summary):
    bases = [base for base in BASELINES if base in summary]
    unit = {"request": "each", "mib": "MiB", "delivery": "delivery"}[case.unit]
    header = ["server", f"CPU us/{unit}", "min..max", *[f"to {base}" for base in bases], "busy", *case.columns]
    rows = []
    for name, row in summary.items():
        if "failure" in row:
            rows.append([name, "did not finish", *["-"] * (len(header) - 2)])
            continue
        cost, ratios = row[case.cost], row["cpu_ratios"]
        rows.append(
            [
                name,
                f"{cost['median']:.2f}",
                f"{cost['min']:.2f}..{cost['max']:.2f}",
                *[ratio_cell(ratios[base]) if base in ratios else "-" for base in bases],
                f"{row['server_cpu_share']['median']:.0%}",
                *[form.format(row[key]["median"]) for key, form in case.columns.values()],
            ]
        )
    print(f"\n{case.title}; medians (ratios: CPU, by round)\n")
    print_table(header, rows)


def print_idle(results):
    connections = IDLE.options["connections"]
    print(f"\nMemory of an idle connection ({connections:,} open, each waiting in a read; kernel not included)\n")
    rows = []
    for name, result in results.items():
        if "failure" in result:
            rows.append([name, "did not finish", "-", "-"])
            continue
        before, after = result["private_bytes_before"] / 1e6, result["private_bytes_after"] / 1e6
        rows.append([name, f"{result['bytes_per_connection']:.0f}", f"{before:.1f}", f"{after:.1f}"])
    print_table(["server", "bytes/connection", "MB before", "MB after"], rows)


def measure(names, binaries, effort, cases=None):
    """Measures and prints these cases, or all; returns what belongs into the results."""
    wanted = cases or [key for key in [*CASES, *ONCE] if not effort.is_quick or (key in CASES and CASES[key].is_quick)]
    cases = {key: case for key, case in CASES.items() if key in wanted}
    measured = {}
    with tempfile.TemporaryDirectory() as directory:
        servers = Servers(names, binaries, directory)
        results = measure_cases(cases, servers, effort)
        summaries = {key: summarize(case, results[key]) for key, case in cases.items()}
        for key, case in cases.items():
            print_case(case, summaries[key])
        measured["cases"] = {
            key: {"title": case.title, "cost": case.cost, "summary": summaries[key], "rounds": results[key]}
            for key, case in cases.items()
        }
        if "idle" in wanted:
            measured["idle"] = measure_idle(servers)
            print_idle(measured["idle"])
        if "system-calls" in wanted and shutil.which("strace"):
            measured["system_calls"] = trace_echoes(servers)
            print("\nSystem calls per echo (strace; not timed; opening and closing the connections included)\n")
            print_system_calls(measured["system_calls"])
        elif "system-calls" in wanted:
            print("\nSystem calls per echo: not counted, strace is not installed")
    return measured
