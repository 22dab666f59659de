"""TLS: what handshakes, echoes, bulk and idle connections cost a server on ActorSockets, beside plain C with the same
OpenSSL and SwiftNIO with its own."""

import shutil
import subprocess
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from harness import (
    BUILD_TIMEOUT,
    Failure,
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
    "tls-c": ["raw-c-tls-echo"],
    "tls-c-bio": ["raw-c-tls-echo", "--own-bio", "on"],
    "tls-c-plain": ["raw-c-tls-echo", "--read-buffer", "0"],
    "tls-nio": ["nio-tls-echo"],
    "tls-reactor": ["swift-tls-echo", "--on", "reactor"],
    "tls-pool": ["swift-tls-echo", "--on", "pool"],
}
# What each is compared with: a ratio of processor times.
BASELINES = ["tls-c", "tls-c-bio", "tls-nio"]


@dataclass(frozen=True)
class Case:
    title: str
    server_mode: str
    load_mode: str
    options: dict
    unit: str  # what the processor time is divided by, as the load generator names it
    rate: str  # the column of how much of it a second of processor time is enough for
    scale: float = 1.0
    is_quick: bool = False  # part of a quick run

    @property
    def cost(self):
        return f"server_cpu_us_per_{self.unit}"

    def per_cpu_second(self, cost):
        return 1e6 / cost * self.scale


MEBIBYTE_IN_MEGABYTES = 1.048576
# The same for all servers, and less than any of them can do: at its limit a server wakes the client, or the client it, for
# every few records, and what that costs depends on which of the two is ahead.
BULK = {"connections": 8, "rate": 1000}

CASES = {
    "full handshake": Case(
        "Full handshakes: TLS 1.3, ECDSA P-256, X25519; connect, handshake, close; 32 at a time",
        "echo", "tls-handshakes", {"connections": 32, "session": "new"}, "request", "handshakes/CPU s", is_quick=True,
    ),
    "resumed handshake": Case(
        "Resumed handshakes: with the ticket of the connection before, and X25519; 32 at a time",
        "echo", "tls-handshakes", {"connections": 32, "session": "resumed"}, "request", "handshakes/CPU s",
    ),
    "echo": Case(
        "64-byte echo, 128 connections",
        "echo", "tls-echo", {"connections": 128, "size": 64}, "request", "echoes/CPU s", is_quick=True,
    ),
    "receiving": Case(
        "Bulk to the server, which reads and discards; 8 connections, 1,000 MB/s",
        "sink", "tls-bulk", {**BULK, "direction": "up"}, "mib", "MB/CPU s", MEBIBYTE_IN_MEGABYTES,
    ),
    "sending": Case(
        "Bulk from the server, in writes of 16 KiB; 8 connections, 1,000 MB/s",
        "source", "tls-bulk", {**BULK, "direction": "down"}, "mib", "MB/CPU s", MEBIBYTE_IN_MEGABYTES,
    ),
}  # fmt: skip

STRACE_SECONDS = 0.5
IDLE_CONNECTIONS = [1000, 5000]
IDLE_HOLD_SECONDS = 1.0


def products(names):
    """What SwiftPM builds for these servers."""
    return {SERVERS[name][0] for name in names}


@contextmanager
def certificate():
    """The options that give a server a fresh certificate of its own and its key, ECDSA on P-256."""
    if not shutil.which("openssl"):
        raise Failure("openssl is not installed: there is no certificate without it")
    with tempfile.TemporaryDirectory() as directory:
        certificate, key = Path(directory) / "certificate.pem", Path(directory) / "key.pem"
        command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
        command += ["-days", "2", "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]
        command += ["-keyout", str(key), "-out", str(certificate)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=BUILD_TIMEOUT)
        if done.returncode != 0:
            raise Failure(f"no certificate:\n{done.stderr}")
        yield ["--certificate", str(certificate), "--key", str(key)]


def measure_cases(cases, commands, binaries, effort):
    """Interleaved, so that whatever else the machine does hits all of them alike."""
    results = {case: {name: [] for name in commands} for case in cases}
    for number, due in rounds_of(effort, results, lambda title: cases[title].cost):
        for title in due:
            case = cases[title]
            for name, command in commands.items():
                in_mode = [*command, "--mode", case.server_mode]
                result = measure_load(binaries, name, in_mode, case.load_mode, **case.options, **effort.times)
                results[title][name].append(result)
                print(
                    f"  round {number}: {title:18} {name:12} {result[case.cost]:7.2f} us CPU,"
                    f" server {result['server_cpu_share']:4.0%}, load {result['load_cpu_share']:4.0%}",
                    flush=True,
                )
    return results


def measure_idle(commands, binaries):
    results = {}
    for name, command in commands.items():
        results[name] = {}
        for connections in IDLE_CONNECTIONS:
            with running_server(name, command) as (server, host, port):
                results[name][connections] = run_load(
                    binaries, "tls-idle", host, port, connections=connections, hold=IDLE_HOLD_SECONDS, pid=server.pid
                )
    return results


def trace_echo(name, command, binaries):
    """All system calls of the server, those of the handshakes included."""
    case = CASES["echo"]
    with running_server(name, command) as (server, host, port):
        return trace(
            server,
            lambda: run_load(binaries, case.load_mode, host, port, **case.options, warmup=0, seconds=STRACE_SECONDS),
        )


def summarize(case, results):
    """Medians and spreads over the rounds, and the median of each round's ratios to the baselines."""
    ratios = ratios_by_round(results, case.cost, BASELINES)
    summary = {}
    for name, rounds in results.items():
        row = {key: spread([r[key] for r in rounds]) for key in [case.cost, "server_cpu_share", "load_cpu_share"]}
        row["per_cpu_second"] = case.per_cpu_second(row[case.cost]["median"])
        row["cpu_ratios"] = ratios[name]
        summary[name] = row
    return summary


def print_case(case, summary):
    bases = [base for base in BASELINES if base in summary]
    unit = {"request": "each", "mib": "MiB"}[case.unit]
    header = ["server", f"CPU us/{unit}", "min..max", *[f"to {base}" for base in bases], case.rate, "busy", "load busy"]
    rows = []
    for name, row in summary.items():
        cost = row[case.cost]
        rows.append(
            [
                name,
                f"{cost['median']:.2f}",
                f"{cost['min']:.2f}..{cost['max']:.2f}",
                *[ratio_cell(row["cpu_ratios"][base]) for base in bases],
                f"{row['per_cpu_second']:.0f}",
                f"{row['server_cpu_share']['median']:.0%}",
                f"{row['load_cpu_share']['median']:.0%}",
            ]
        )
    print(f"\n{case.title}; medians (ratios: CPU, by round)\n")
    print_table(header, rows)


def print_idle(results):
    print("\nMemory of an idle TLS connection (each waiting in a read; kernel not included), in bytes\n")
    header = ["server", *[f"{connections} open" for connections in IDLE_CONNECTIONS]]
    rows = [
        [name, *[f"{by_count[connections]['bytes_per_connection']:.0f}" for connections in IDLE_CONNECTIONS]]
        for name, by_count in results.items()
    ]
    print_table(header, rows)


def trace_echoes(commands, binaries):
    if not shutil.which("strace"):
        print("\nSystem calls per TLS echo: not counted, strace is not installed")
        return None
    traces = {name: trace_echo(name, command, binaries) for name, command in commands.items()}
    print("\nSystem calls per TLS echo (strace; not timed; the handshakes included)\n")
    print_system_calls(traces)
    return traces


def measure(names, binaries, effort):
    """Measures and prints; returns what belongs into the results."""
    cases = {title: case for title, case in CASES.items() if case.is_quick or not effort.is_quick}
    with certificate() as options:
        commands = {name: [binaries / SERVERS[name][0], *SERVERS[name][1:], *options] for name in names}
        results = measure_cases(cases, commands, binaries, effort)
        summaries = {title: summarize(case, results[title]) for title, case in cases.items()}
        for title, case in cases.items():
            print_case(case, summaries[title])
        measured = {"cases": {title: {"summary": summaries[title], "rounds": results[title]} for title in cases}}
        if not effort.is_quick:
            measured["idle"] = measure_idle(commands, binaries)
            print_idle(measured["idle"])
            measured["system_calls"] = trace_echoes(commands, binaries)
    return measured
