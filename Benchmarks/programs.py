"""Programs: the size of each echo server as it is shipped, and the time and memory that it needs to start."""

import re
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

from harness import BUILD_TIMEOUT, HERE, Failure, build_go, child_setup, cores, print_table, spread, stop

SERVERS = {
    # Not from SwiftPM, which links Swift's runtime into programs in C, too.
    "program-c": ["raw-c-echo"],
    "program-swift": ["swift-echo", "--on", "pool"],
    "program-nio": ["nio-echo", "--as", "handler"],
    "program-flying": ["flying-echo"],
    "program-go": ["go-echo"],
}
C, GO = "program-c", "program-go"
STARTS_IN_A_ROUND = 5
KEYS = {"start_ms": "ms until it listens", "cpu_ms": "CPU ms", "memory_mb": "MB of private memory"}


def products(names):
    """What SwiftPM builds for these programs."""
    return {SERVERS[name][0] for name in names if name not in (C, GO)}


def build_c(directory):
    program = Path(directory) / "raw-c-echo"
    source = HERE / "Sources/raw-c-echo/main.c"
    subprocess.run(["cc", "-O2", source, "-o", program], check=True, timeout=BUILD_TIMEOUT)
    return program


def stripped_size(program, directory):
    """In MB, without symbols."""
    copy = Path(directory) / "stripped"
    subprocess.run(["objcopy", "--strip-all", program, copy], check=True, timeout=BUILD_TIMEOUT)
    return copy.stat().st_size / 1e6


def cpu_ms(pid):
    """In clock ticks of 10 ms for the process as a whole, so the scheduler's own count is read, of each thread."""
    return sum(int(task.joinpath("schedstat").read_text().split()[0]) for task in Path(f"/proc/{pid}/task").iterdir()) / 1e6


def private_mb(pid):
    rollup = Path(f"/proc/{pid}/smaps_rollup").read_text()
    return sum(int(kb) for kb in re.findall(r"^Private_(?:Clean|Dirty):\s+(\d+) kB$", rollup, re.MULTILINE)) * 1024 / 1e6


def start(command):
    """One start, on the servers' core: from the fork to the line that says where it listens."""
    began = time.perf_counter()
    process = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, preexec_fn=child_setup(cores()[1])
    )
    try:
        line = process.stderr.readline()
        ended = time.perf_counter()
        if not line.startswith(b"listening on "):
            raise Failure(f"{command[0].name} did not start: {line.decode(errors='replace')}")
        return {"start_ms": (ended - began) * 1e3, "cpu_ms": cpu_ms(process.pid), "memory_mb": private_mb(process.pid)}
    finally:
        stop(process)
        process.stderr.close()


def print_summary(summary):
    rows = [
        [name, f"{row['size_mb']:.2f}", *[f"{row[key]['median']:.1f} ({row[key]['min']:.1f}..{row[key]['max']:.1f})" for key in KEYS]]
        for name, row in summary.items()
    ]
    print("\nPrograms: an echo server with its runtime, without symbols, and one start of it; medians (min..max)\n")
    print_table(["program", "MB", *KEYS.values()], rows)


def measure(names, binaries, effort):
    """Measures and prints; returns what belongs into the results."""
    for tool in ["objcopy", "cc"]:
        if not shutil.which(tool):
            raise Failure(f"{tool} is not installed: there are no sizes without it")
    with tempfile.TemporaryDirectory() as directory:
        commands = {name: [binaries / SERVERS[name][0], *SERVERS[name][1:]] for name in names if name not in (C, GO)}
        if C in names:
            commands = {C: [build_c(directory)], **commands}
        if GO in names:
            program = build_go("go-echo", directory)
            if program:
                commands[GO] = [Path(program)]
            else:
                print("\ngo is not installed: its program is left out", flush=True)
        sizes = {name: stripped_size(command[0], directory) for name, command in commands.items()}
        starts = {name: [] for name in commands}
        for _ in range(effort.rounds * STARTS_IN_A_ROUND):
            for name, command in commands.items():
                starts[name].append(start(command))
    summary = {
        name: {"size_mb": sizes[name], **{key: spread([one[key] for one in rows]) for key in KEYS}}
        for name, rows in starts.items()
    }
    print_summary(summary)
    return {"summary": summary, "starts": starts}
