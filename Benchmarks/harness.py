"""What all benchmarks need: servers and the load generator on cores of their own, system calls counted, tables."""

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
import tempfile
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent

START_TIMEOUT = 15  # seconds until a server has to be listening
LOAD_TIMEOUT = 60  # seconds a load generator may run beyond its own measure
BUILD_TIMEOUT = 1800
# Exit statuses of the load generator.
WRONG_BYTES = 3
STOOD_STILL = 4
ATTEMPTS = 3  # of a measurement, if the machine stands still
PR_SET_PDEATHSIG = 1

LIBC = ctypes.CDLL(None)


class Failure(Exception):
    """Something the figures cannot survive: a wrong byte, a dead server, a failed build."""


class WrongBytes(Failure):
    """What came back was not what had been sent. No server is forgiven that."""


class StoodStill(Failure):
    """Nothing came back in the measured time, though all did before and after it: somebody else had the cores."""


@dataclass(frozen=True)
class Effort:
    """How long everything is measured."""

    rounds: int  # at least; up to three times as many for a case whose yardstick is not steady
    warmup: float  # seconds that are not measured
    seconds: float  # seconds that are
    is_quick: bool = False  # some cases are left out

    @property
    def times(self):
        """The load generator's options."""
        return {"warmup": self.warmup, "seconds": self.seconds}

    @property
    def most_rounds(self):
        return self.rounds if self.is_quick else 3 * self.rounds


STEADY = 0.25


def is_steady(costs):
    """Whether what a case cost in its rounds ranges over at most a quarter of the median, without the highest and lowest fifth."""
    rest = sorted(costs)[len(costs) // 5 : len(costs) - len(costs) // 5]
    return rest[-1] - rest[0] <= STEADY * statistics.median(costs)


def rounds_of(effort, results, cost_of):
    """The number of each round, and the cases that it measures.

    `results` has the results of each case by server, the yardstick first, and is filled meanwhile. `cost_of` gives the cost that counts.
    """

    def is_settled(case):
        """Whether further rounds are of no use. A yardstick that failed, or that is not among the servers, has no costs."""
        yardstick = next(iter(results[case].values()), [])
        costs = [result[cost_of(case)] for result in yardstick if "failure" not in result]
        return not costs or is_steady(costs)

    for number in range(1, effort.most_rounds + 1):
        due = [case for case in results if number <= effort.rounds or not is_settled(case)]
        if not due:
            break
        yield number, due
    unsteady = [case for case in results if not is_settled(case)]
    if unsteady and not effort.is_quick:
        print(f"\nNot to be published, because the yardstick's rounds differ by more than a quarter: {', '.join(unsteady)}")


FULL = Effort(rounds=5, warmup=0.2, seconds=1.0)
QUICK = Effort(rounds=2, warmup=0.05, seconds=0.2, is_quick=True)


# --- Processes -------------------------------------------------------------------------------------


def cores():
    """The core of the load generator and that of the server; None and None with fewer than two."""
    allowed = sorted(os.sched_getaffinity(0))
    return (allowed[0], allowed[1]) if len(allowed) > 1 else (None, None)


def cores_but_the_load_generators():
    return os.sched_getaffinity(0) - {cores()[0]}


def child_setup(core):
    """What a child does before it becomes the program: own core (or cores), many descriptors, no outliving us."""

    def setup():
        LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
        if core is not None:
            os.sched_setaffinity(0, core if isinstance(core, set) else {core})
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


LISTENING = r"^listening on (.+):(\d+)$"


@contextmanager
def running_server(name, command, core=None, announcement=LISTENING):
    """A fresh server on its core, or on those given. Gives its process, host and port; ends it afterwards.

    Raises if the server died in between. What it prints from then on is in the file `process.log`.
    """
    with tempfile.NamedTemporaryFile() as log:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            preexec_fn=child_setup(core or cores()[1]),
        )
        process.log = log.name
        try:
            match = wait_for_line(process, log, announcement, name)
            try:
                yield process, match[1].strip("[]"), match[2]
            finally:
                # Also when the load failed: this is why.
                if process.poll() is not None:
                    text = Path(log.name).read_text(errors="replace")
                    raise Failure(f"{name} died with status {process.returncode}:\n{text}")
        finally:
            stop(process)


def run_load(binaries, mode, host, port, limit=LOAD_TIMEOUT, **options):
    """Runs the load generator on its core, no longer than what it measures and the limit; returns the result."""
    command = [str(binaries / "load"), mode, host, port]
    for option, value in options.items():
        command += [f"--{option}", str(value)]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=child_setup(cores()[0])
    )
    try:
        out, err = process.communicate(timeout=limit + options.get("seconds", 0))
    except subprocess.TimeoutExpired as error:
        raise Failure(f"the load generator did not end: {' '.join(command)}") from error
    finally:
        stop(process)
    if process.returncode != 0:
        kinds = {WRONG_BYTES: WrongBytes, STOOD_STILL: StoodStill}
        raise kinds.get(process.returncode, Failure)(f"the load generator failed ({process.returncode}):\n{err}{out}")
    return json.loads(out)


def measure_load(binaries, name, command, mode, core=None, announcement=LISTENING, **options):
    """What the load generator measures of a fresh server; again if the machine stood still meanwhile."""
    for attempt in range(1, ATTEMPTS + 1):
        try:
            with running_server(name, command, core, announcement) as (server, host, port):
                return run_load(binaries, mode, host, port, pid=server.pid, **options)
        except StoodStill:
            if attempt == ATTEMPTS:
                raise
            print(f"  {name}: nothing came back for {options['seconds']} s, once more", flush=True)


def build(products=None):
    """Builds these products, or everything, for release and returns the directory of the programs."""
    # As servers are shipped: with the Swift runtime in the program.
    command = ["swift", "build", "-c", "release", "--static-swift-stdlib"]
    for product in sorted(products) if products else [None]:
        step = command + (["--product", product] if product else [])
        print("$", " ".join(step), flush=True)
        if subprocess.run(step, cwd=HERE, timeout=BUILD_TIMEOUT).returncode != 0:
            raise Failure("the build failed")
    shown = subprocess.run(
        command + ["--show-bin-path"], cwd=HERE, check=True, capture_output=True, text=True, timeout=BUILD_TIMEOUT
    )
    return Path(shown.stdout.strip())


def build_go(name, directory):
    """Builds a program in Go into that directory; None without Go."""
    if not shutil.which("go"):
        return None
    program = Path(directory) / name
    command = ["go", "build", "-o", program, "main.go"]
    if subprocess.run(command, cwd=HERE / "Sources" / name, timeout=BUILD_TIMEOUT).returncode != 0:
        raise Failure(f"the build of {name} failed")
    return program


# --- System calls ----------------------------------------------------------------------------------


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


def trace(server, load):
    """All system calls of a running server while `load` runs, with what that returned."""
    with tempfile.TemporaryDirectory() as directory:
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
                result = load()
            finally:
                stop(tracer, signal.SIGINT)  # it detaches, and prints its summary
        calls = parse_strace_summary(summary.read_text())
    if not calls:
        raise Failure("strace saw no system call")
    requests = result["total_requests"]
    return {
        "requests": requests,
        "calls_per_request": sum(call["calls"] for call in calls.values()) / requests,
        "calls": calls,
    }


# --- Reports ---------------------------------------------------------------------------------------


def spread(values):
    return {"median": statistics.median(values), "min": min(values), "max": max(values)}


def ratios_by_round(results, cost, baselines):
    """For each server, the spread of each round's ratios of costs to each baseline that is among the servers."""
    costs = {name: [r[cost] for r in rounds] for name, rounds in results.items()}
    return {
        name: {
            base: spread([mine / its for mine, its in zip(costs[name], costs[base])])
            for base in baselines
            if base in costs
        }
        for name in costs
    }


def ratio_cell(ratio):
    """The median of the rounds, and what they range over."""
    return f"{ratio['median']:.2f} ({ratio['min']:.2f}..{ratio['max']:.2f})"


def print_table(header, rows):
    """The first column to the left, the others to the right."""
    widths = [max(len(row[i]) for row in [header, *rows]) for i in range(len(header))]
    for row in [header, ["-" * width for width in widths], *rows]:
        cells = [row[0].ljust(widths[0])] + [cell.rjust(width) for cell, width in zip(row[1:], widths[1:])]
        print("  " + "  ".join(cells))


def print_system_calls(traces):
    rows = []
    for name, trace in traces.items():
        by_count = sorted(trace["calls"].items(), key=lambda item: -item[1]["calls"])
        top = [f"{call} {counts['calls'] / trace['requests']:.3f}" for call, counts in by_count[:6]]
        rows.append([name, f"{trace['calls_per_request']:.3f}", str(trace["requests"]), "  " + ", ".join(top)])
    print_table(["server", "calls/echo", "echoes", "most frequent"], rows)


def first_line(command):
    try:
        done = subprocess.run(command, cwd=HERE, capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.splitlines()[0].strip() if done.returncode == 0 and done.stdout else None


def processor():
    match = re.search(r"^model name\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    return match[1] if match else platform.machine()


PACKAGES = ["swift-nio", "swift-nio-ssl", "swift-nio-extras", "FlyingFox"]


def package_version(name):
    """The version of a package that the manifest asks for."""
    match = re.search(rf'/{name}\.git", exact: "([^"]+)"', (HERE / "Package.swift").read_text())
    return match[1] if match else None


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
            "openssl": first_line(["openssl", "version"]),
            "go": first_line(["go", "version"]),
            **{name: package_version(name) for name in PACKAGES},
            "strace": first_line(["strace", "--version"]),
            "python": platform.python_version(),
            "commit": first_line(["git", "rev-parse", "HEAD"]),
        },
    }


def print_environment(environment):
    machine, versions = environment["machine"], environment["versions"]
    print(f"{machine['processor']}, {machine['cores']} cores, Linux {machine['kernel']}, {versions['swift']}")
    peers = ", ".join(f"{name} {versions[name]}" for name in PACKAGES)
    print(f"{peers}, {versions['go'] or 'no Go'}, {versions['openssl']}")
    if environment["pinned"]["server"] is None:
        print("one core only: nothing is pinned, and the figures mean little")
