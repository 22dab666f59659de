#!/usr/bin/env python3
"""Measures ActorSockets against an echo server in plain C, on this machine, over loopback.

Three things: the processor time of an echo, its system calls, and the memory of an idle connection. With --sharing
another one: how several reactors share the connections of one port.
The README beside this file says how to read them. Needs Python 3.9, Swift and, for the system calls, strace.
"""

import argparse
import ctypes
import datetime
import json
import os
import platform
import re
import resource
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path

HERE = Path(__file__).resolve().parent
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

START_TIMEOUT = 15  # seconds until a server has to be listening
LOAD_TIMEOUT = 60  # seconds a load generator may run beyond its own measure
BUILD_TIMEOUT = 1800
PR_SET_PDEATHSIG = 1

LIBC = ctypes.CDLL(None)


class Failure(Exception):
    """Something the figures cannot survive: a wrong byte, a dead server, a failed build."""


# --- Processes -------------------------------------------------------------------------------------


def cores():
    """The core of the load generator and that of the server; None and None with fewer than two."""
    allowed = sorted(os.sched_getaffinity(0))
    return (allowed[0], allowed[1]) if len(allowed) > 1 else (None, None)


def child_setup(core):
    """What a child does before it becomes the program: own core, many descriptors, no outliving us."""

    def setup():
        LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
        if core is not None:
            os.sched_setaffinity(0, {core})
        _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))

    return setup


def stop(process, with_signal=signal.SIGTERM):
    """Ends a child of ours, and only that."""
    if process.poll() is not None:
        return
    process.send_signal(with_signal)
    try:
        process.wait(timeout=5)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def wait_for_line(process, log, pattern, what):
    """Waits until the child has printed a line that matches, and returns the match."""
    deadline = time.monotonic() + START_TIMEOUT
    while True:
        ended = process.poll() is not None
        text = Path(log.name).read_text(errors="replace")
        match = re.search(pattern, text, re.MULTILINE)
        if match:
            return match
        if ended or time.monotonic() > deadline:
            raise Failure(f"{what} did not start:\n{text}")
        time.sleep(0.01)


@contextmanager
def running_server(name, binaries, *more_arguments):
    """A fresh server on its core. Gives its process, host and port; ends it afterwards.

    Raises if the server died in between. What it prints from then on is in the file `process.log`.
    """
    program, *arguments = {**SERVERS, **SHARING_SERVERS}[name]
    with tempfile.NamedTemporaryFile() as log:
        process = subprocess.Popen(
            [binaries / program, *arguments, *more_arguments],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            preexec_fn=child_setup(cores()[1]),
        )
        process.log = log.name
        try:
            match = wait_for_line(process, log, r"^listening on (.+):(\d+)$", name)
            try:
                yield process, match[1].strip("[]"), match[2]
            finally:
                # Also when the load failed: this is why.
                if process.poll() is not None:
                    text = Path(log.name).read_text(errors="replace")
                    raise Failure(f"{name} died with status {process.returncode}:\n{text}")
        finally:
            stop(process)


def run_load(binaries, mode, host, port, **options):
    """Runs the load generator on its core and returns what it measured."""
    command = [str(binaries / "load"), mode, host, port]
    for option, value in options.items():
        command += [f"--{option}", str(value)]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=child_setup(cores()[0])
    )
    try:
        out, err = process.communicate(timeout=LOAD_TIMEOUT + options.get("seconds", 0))
    except subprocess.TimeoutExpired as error:
        raise Failure(f"the load generator did not end: {' '.join(command)}") from error
    finally:
        stop(process)
    if process.returncode != 0:
        raise Failure(f"the load generator failed ({process.returncode}):\n{err}{out}")
    return json.loads(out)


# --- Measurements ----------------------------------------------------------------------------------


def build(only):
    """Builds for release and returns the directory of the programs."""
    # As servers are shipped: with the Swift runtime in the program.
    command = ["swift", "build", "-c", "release", "--static-swift-stdlib"]
    products = {"load"} | {SERVERS[name][0] for name in only}
    for product in sorted(products) if len(only) < len(SERVERS) else [None]:
        step = command + (["--product", product] if product else [])
        print("$", " ".join(step), flush=True)
        if subprocess.run(step, cwd=HERE, timeout=BUILD_TIMEOUT).returncode != 0:
            raise Failure("the build failed")
    shown = subprocess.run(
        command + ["--show-bin-path"], cwd=HERE, check=True, capture_output=True, text=True, timeout=BUILD_TIMEOUT
    )
    return Path(shown.stdout.strip())


def measure_echo(names, binaries, rounds):
    """Interleaved, so that whatever else the machine does hits all of them alike."""
    results = {name: [] for name in names}
    for number in range(rounds):
        for name in names:
            with running_server(name, binaries) as (server, host, port):
                result = run_load(
                    binaries,
                    "echo",
                    host,
                    port,
                    connections=CONNECTIONS,
                    size=REQUEST_SIZE,
                    warmup=WARMUP_SECONDS,
                    seconds=MEASURED_SECONDS,
                    pid=server.pid,
                )
            results[name].append(result)
            print(
                f"  round {number + 1}: {name:14} {result['server_cpu_us_per_request']:6.2f} us CPU,"
                f" {result['requests_per_second']:8.0f} requests/s",
                flush=True,
            )
    return results


def parse_strace_summary(text):
    """Calls and errors by name from the table that `strace -c` prints."""
    calls = {}
    for line in text.splitlines():
        fields = line.split()
        # % time, seconds, usecs/call, calls, [errors,] name
        if len(fields) in (5, 6) and fields[3].isdigit() and fields[-1] != "total":
            errors = int(fields[4]) if len(fields) == 6 else 0
            calls[fields[-1]] = {"calls": int(fields[3]), "errors": errors}
    return calls


def trace_echo(name, binaries):
    """All system calls of the server from before the first connection to after the last one."""
    with running_server(name, binaries) as (server, host, port), tempfile.TemporaryDirectory() as directory:
        summary = Path(directory) / "summary"
        with open(Path(directory) / "log", "w") as log:
            # On the server's core, so that tracing does not slow the load generator.
            tracer = subprocess.Popen(
                ["strace", "-f", "-c", "-o", summary, "-p", str(server.pid)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                preexec_fn=child_setup(cores()[1]),
            )
            try:
                wait_for_line(tracer, log, r"attached", "strace")
                result = run_load(
                    binaries,
                    "echo",
                    host,
                    port,
                    connections=CONNECTIONS,
                    size=REQUEST_SIZE,
                    warmup=0,
                    seconds=STRACE_SECONDS,
                )
            finally:
                stop(tracer, signal.SIGINT)  # it detaches, and prints its summary
        calls = parse_strace_summary(summary.read_text())
    if not calls:
        raise Failure(f"strace saw no system call of {name}")
    requests = result["total_requests"]
    return {
        "requests": requests,
        "connections": CONNECTIONS,
        "calls_per_request": sum(call["calls"] for call in calls.values()) / requests,
        "calls": calls,
    }


def measure_idle(names, binaries):
    results = {}
    for name in names:
        with running_server(name, binaries) as (server, host, port):
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
                with running_server(name, binaries) as (server, host, port):
                    load = run_load(
                        binaries,
                        mode,
                        host,
                        port,
                        connections=CONNECTIONS,
                        size=REQUEST_SIZE,
                        warmup=WARMUP_SECONDS,
                        seconds=MEASURED_SECONDS,
                        pid=server.pid,
                    )
                result[mode].append(load["server_cpu_us_per_request"])
            with running_server(name, binaries, "--report") as (server, host, port):
                run_load(binaries, "echo", host, port, connections=CONNECTIONS, size=REQUEST_SIZE, seconds=0.1)
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


def spread(values):
    return {"median": statistics.median(values), "min": min(values), "max": max(values)}


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


def print_table(header, rows):
    """The first column to the left, the others to the right."""
    widths = [max(len(row[i]) for row in [header, *rows]) for i in range(len(header))]
    for row in [header, ["-" * width for width in widths], *rows]:
        cells = [row[0].ljust(widths[0])] + [cell.rjust(width) for cell, width in zip(row[1:], widths[1:])]
        print("  " + "  ".join(cells))


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


def print_system_calls(traces):
    print("\nSystem calls per echo (strace; not timed; opening and closing the connections included)\n")
    rows = []
    for name, trace in traces.items():
        by_count = sorted(trace["calls"].items(), key=lambda item: -item[1]["calls"])
        top = [f"{call} {counts['calls'] / trace['requests']:.3f}" for call, counts in by_count[:6]]
        rows.append([name, f"{trace['calls_per_request']:.3f}", str(trace["requests"]), "  " + ", ".join(top)])
    print_table(["server", "calls/echo", "echoes", "most frequent"], rows)


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


def first_line(command):
    try:
        done = subprocess.run(command, cwd=HERE, capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.splitlines()[0].strip() if done.returncode == 0 and done.stdout else None


def processor():
    match = re.search(r"^model name\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    return match[1] if match else platform.machine()


def describe_environment():
    load_core, server_core = cores()
    return {
        "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "machine": {
            "processor": processor(),
            "architecture": platform.machine(),
            "cores": os.cpu_count(),
            "kernel": platform.release(),
            "load_average_before": os.getloadavg(),
        },
        "pinned": {"load": load_core, "server": server_core},
        "versions": {
            "swift": first_line(["swift", "--version"]),
            "strace": first_line(["strace", "--version"]),
            "python": platform.python_version(),
            "commit": first_line(["git", "rev-parse", "HEAD"]),
        },
    }


def print_environment(environment):
    machine, versions = environment["machine"], environment["versions"]
    print(f"{machine['processor']}, {machine['cores']} cores, Linux {machine['kernel']}, {versions['swift']}")
    if environment["pinned"]["server"] is None:
        print("one core only: nothing is pinned, and the figures mean little")


# --- Main ------------------------------------------------------------------------------------------


def parse_arguments():
    parser = argparse.ArgumentParser(description="Measures ActorSockets against an echo server in plain C.")
    parser.add_argument("--quick", action="store_true", help="3 rounds instead of 15")
    parser.add_argument(
        "--sharing", action="store_true", help="only: connections handed out in turns, beside a listener for each reactor"
    )
    servers = ", ".join(SERVERS)
    parser.add_argument(
        "--only", action="append", choices=SERVERS, metavar="SERVER", help=f"one of {servers}; may be repeated"
    )
    return parser.parse_args()


def measure(arguments):
    names = [name for name in SERVERS if not arguments.only or name in arguments.only]
    environment = describe_environment()
    print_environment(environment)
    binaries = build(names)

    rounds = 3 if arguments.quick else 15
    print(f"\n{rounds} rounds, server on core {cores()[1]}, load on core {cores()[0]}", flush=True)
    if arguments.sharing:
        print_sharing(measure_sharing(binaries, rounds))
        return
    echo = measure_echo(names, binaries, rounds)
    summary = summarize_echo(echo)
    print_echo(summary)

    traces = None
    if shutil.which("strace"):
        traces = {name: trace_echo(name, binaries) for name in names}
        print_system_calls(traces)
    else:
        print("\nSystem calls per echo: not counted, strace is not installed")

    idle = measure_idle(names, binaries)
    print_idle(idle)

    result = {**environment, "echo": {"summary": summary, "rounds": echo}, "system_calls": traces, "idle": idle}
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
