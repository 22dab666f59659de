#!/usr/bin/env python3
"""Counts what an echo, a datagram, a handshake or a line needs: its system calls, allocations, instructions, cache lines.

Unlike processor time, these hardly depend on what else the machine does, so they can have thresholds: --check compares
them with those in thresholds.json. The README beside this file says how to read them. Needs Python 3.9, Swift, cc,
strace, valgrind, objcopy and openssl.
"""

import argparse
import json
import os
import re
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import tls
from harness import BUILD_TIMEOUT, HERE, Failure, build, print_table, run_load, running_server, trace

THRESHOLDS = HERE / "thresholds.json"
# A case with a count above its threshold is counted again, so often.
RUNS_ABOVE_THRESHOLD = 3
# How far today's instructions may grow: other versions of a compiler or a library are not to be mistakes.
ROOM_FOR_INSTRUCTIONS = 1.05

# The caches that cachegrind simulates: size, ways, bytes of a line. The last level has the size of a second-level cache.
FIRST_LEVEL = "32768,8,64"
LAST_LEVEL = "1048576,16,64"

ECHO = {"connections": 128, "size": 64}
# So many that the memory of all connections is larger than the last-level cache.
MANY_ECHOES = {"connections": 1024, "size": 64}
DATAGRAMS = {"sockets": 8, "in-flight": 16, "size": 64}
HANDSHAKES = {"connections": 32, "session": "new"}
LINES = {"size": 80}
MESSAGES = {"size": 100}

# Without a tool that slows it down, a server answers more in the same time; and what the connections allocate as they
# are made, which is not always the same, is less beside that.
MORE_FOR_ALLOCATIONS = 5


@dataclass(frozen=True)
class Case:
    server: list
    mode: str  # of the load generator
    options: dict
    requests: int
    encrypted: bool = False
    counters: tuple = ("system_calls", "allocations", "instructions")
    # Allocations are counted while strace slows the server down, as system calls are. A server that is faster than the load generator
    # would find only few datagrams at a time, and what a batch needs would be divided by fewer.
    is_slowed: bool = False


def framing_server(mode, form, place="reactor"):
    return ["swift-framing", "--on", place, "--mode", mode, "--form", form]


def datagram_server(mode):
    return ["swift-udp-echo", "--on", "reactor", "--mode", mode]


CASES = {
    "echo in plain C": Case(["raw-c-echo"], "echo", ECHO, 20000),
    "echo on the reactor": Case(["swift-echo", "--on", "reactor"], "echo", ECHO, 20000),
    "echo of many connections": Case(
        ["swift-echo", "--on", "reactor"], "echo", MANY_ECHOES, 20000, counters=("cache_lines",)
    ),
    "echo on the pool": Case(["swift-echo", "--on", "pool"], "echo", ECHO, 20000),
    "answer on the reactor": Case(["swift-echo", "--on", "reactor", "--answers"], "echo", ECHO, 20000),
    "answer in isolation": Case(["swift-echo", "--on", "isolated"], "echo", ECHO, 20000),
    "datagrams in batches": Case(datagram_server("batch"), "udp", DATAGRAMS, 20000, is_slowed=True),
    "datagrams in a loop": Case(datagram_server("single"), "udp", DATAGRAMS, 20000),
    "TLS echo": Case(["swift-tls-echo", "--on", "reactor"], "tls-echo", ECHO, 10000, encrypted=True),
    "TLS handshake": Case(["swift-tls-echo", "--on", "reactor"], "tls-handshakes", HANDSHAKES, 400, encrypted=True),
    "line as a string": Case(framing_server("lines", "string"), "lines", LINES, 50000),
    "line on the pool": Case(framing_server("lines", "string", place="pool"), "lines", LINES, 50000),
    "line by a parser": Case(framing_server("lines", "parsed"), "lines", LINES, 50000),
    "line in a batch": Case(framing_server("lines", "string-batch"), "lines", LINES, 50000),
    "line as an array": Case(framing_server("lines", "array"), "lines", LINES, 50000),
    "message": Case(framing_server("messages", "array"), "messages", MESSAGES, 50000),
}


# --- Counting --------------------------------------------------------------------------------------


@dataclass
class Tools:
    """What counting needs beside the servers."""

    binaries: Path
    directory: Path  # for everything that is made on the way
    certificate: list
    profiles: Path
    stripped: dict = field(default_factory=dict)

    def command(self, case):
        program, *arguments = case.server
        return [self.binaries / program, *arguments, *(self.certificate if case.encrypted else [])]

    def load(self, case, host, port, requests):
        return run_load(self.binaries, case.mode, host, port, **case.options, requests=requests)

    def without_debug_information(self, program):
        """A copy that valgrind can read: it gives up on the debug information of Swift."""
        if program not in self.stripped:
            copy = self.directory / program.name
            subprocess.run(["objcopy", "--strip-debug", program, copy], check=True, timeout=BUILD_TIMEOUT)
            self.stripped[program] = copy
        return self.stripped[program]


def count_system_calls(tools, case, requests):
    """All of a server, from before the first connection to after the last one.

    Waits for events count separately: a server may wait each time that a share of time has passed, and how much it does
    in that depends on the machine. The other calls hardly do, so their thresholds can be close.
    """
    with running_server(case.server[0], tools.command(case)) as (server, host, port):
        calls = trace(server, lambda: tools.load(case, host, port, requests))["calls"]
    waits = calls.get("epoll_wait", {"calls": 0})["calls"]
    return {"system_calls": sum(call["calls"] for call in calls.values()) - waits, "waits": waits}


def preloaded(tools, name):
    """A library for LD_PRELOAD, which is built at the first use."""
    library = tools.directory / f"{name}.so"
    if not library.exists():
        command = ["cc", "-O2", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-o", library]
        command += [HERE / "Sources" / name / f"{name}.c"]
        if subprocess.run(command, timeout=BUILD_TIMEOUT).returncode != 0:
            raise Failure(f"the build of {name} failed")
    return library


def valgrind(tools, case, tool, *options):
    """The command that runs a server in valgrind, with a clock that is as slow as the server."""
    program, *arguments = tools.command(case)
    command = ["env", f"LD_PRELOAD={preloaded(tools, 'slow-clock')}", "valgrind", "--quiet", f"--tool={tool}", *options]
    return [*command, tools.without_debug_information(program), *arguments]


def count_allocations(tools, case, requests):
    """Those of the whole life of a server, by the library that is loaded before it."""
    library = preloaded(tools, "allocation-counter")
    counts = tools.directory / "allocations"
    counts.write_bytes(bytes(16))
    command = ["env", f"LD_PRELOAD={library}", f"ALLOCATION_COUNTS={counts}", *tools.command(case)]
    with running_server(case.server[0], command) as (server, host, port):
        if case.is_slowed:
            trace(server, lambda: tools.load(case, host, port, requests))
        else:
            tools.load(case, host, port, requests)
    allocations, allocated = struct.unpack("=QQ", counts.read_bytes())
    if allocations == 0:
        raise Failure(f"{case.server[0]} did not load the allocation counter")
    return {"allocations": allocations, "bytes": allocated}


def count_instructions(tools, case, requests):
    """Those of the whole life of a server, outside of the kernel."""
    name = re.sub(r"\W+", "-", f"{' '.join(case.server)} {case.mode} {requests}")
    profile = tools.profiles / f"callgrind.{name}"
    command = valgrind(tools, case, "callgrind", f"--callgrind-out-file={profile}")
    with running_server(case.server[0], command) as (_, host, port):
        tools.load(case, host, port, requests)
    # Written as the server ends.
    match = re.search(r"^totals: (\d+)$", profile.read_text(errors="replace"), re.MULTILINE)
    if not match:
        raise Failure(f"valgrind wrote no total for {case.server[0]}")
    return {"instructions": int(match[1])}


def count_cache_lines(tools, case, requests):
    """The lines that are read or written and not in the simulated cache, outside of the kernel."""
    profile = tools.profiles / "cachegrind"
    options = ["--cache-sim=yes", f"--cachegrind-out-file={profile}"]
    options += [f"--I1={FIRST_LEVEL}", f"--D1={FIRST_LEVEL}", f"--LL={LAST_LEVEL}"]
    with running_server(case.server[0], valgrind(tools, case, "cachegrind", *options)) as (_, host, port):
        tools.load(case, host, port, requests)
    text = profile.read_text(errors="replace")
    events = re.search(r"^events: (.*)$", text, re.MULTILINE)
    summary = re.search(r"^summary: ?(.*)$", text, re.MULTILINE)
    if not events or not summary:
        raise Failure(f"valgrind wrote no summary for {case.server[0]}")
    counts = dict(zip(events[1].split(), map(int, summary[1].split())))
    return {"cache_lines": counts["DLmr"] + counts["DLmw"]}


COUNTERS = {
    "system_calls": count_system_calls,
    "allocations": count_allocations,
    "instructions": count_instructions,
    "cache_lines": count_cache_lines,
}


def least(counter, tools, case, requests, runs):
    counts = [counter(tools, case, requests) for _ in range(runs)]
    return {what: min(count[what] for count in counts) for what in counts[0]}


def count(tools, case, counters, runs=1):
    """Of one request: what twice as many need more, so that starting and connecting are not in it.

    With several runs, the least of each is taken: what else the machine does can only add to it, for example by splitting
    what one epoll_wait would have returned.
    """
    result = {}
    for counter in counters:
        requests = case.requests * (MORE_FOR_ALLOCATIONS if counter == "allocations" else 1)
        once, twice = (least(COUNTERS[counter], tools, case, requests * times, runs) for times in (1, 2))
        result.update({what: (twice[what] - once[what]) / requests for what in once})
    return result


# --- Reports ---------------------------------------------------------------------------------------


def print_counts(results):
    columns = {"system_calls": ("system calls", ".3f"), "waits": ("waits", ".3f")}
    columns |= {"allocations": ("allocations", ".3f"), "bytes": ("bytes allocated", ".0f")}
    columns |= {"instructions": ("instructions", ".0f"), "cache_lines": ("cache lines", ".1f")}
    rows = [
        [case, *[format(counts[key], form) if key in counts else "-" for key, (_, form) in columns.items()]]
        for case, counts in results.items()
    ]
    print("\nOf one request: an echo, a datagram, a handshake, a line, a message\n")
    print_table(["server", *[title for title, _ in columns.values()]], rows)


def excesses(results, thresholds):
    """A sentence for each count above its threshold."""
    return [
        f"{case}: {counts[what]:.3f} {what.replace('_', ' ')} a request, more than the {most} of {THRESHOLDS.name}"
        for case, counts in results.items()
        for what, most in thresholds.get(case, {}).items()
        if what in counts and counts[what] > most
    ]


def accept_instructions(results, thresholds):
    """Today's instructions, and some room, are the thresholds from now on."""
    for case, limits in thresholds.items():
        if "instructions" in limits and "instructions" in results.get(case, {}):
            limits["instructions"] = round(results[case]["instructions"] * ROOM_FOR_INSTRUCTIONS)
    THRESHOLDS.write_text(json.dumps(thresholds, indent=2) + "\n")


# --- Main ------------------------------------------------------------------------------------------


def parse_arguments():
    parser = argparse.ArgumentParser(description="Counts what one request needs.")
    parser.add_argument(
        "--check", action="store_true", help=f"fail if a count is above its threshold in {THRESHOLDS.name}"
    )
    parser.add_argument(
        "--accept-instructions", action="store_true", help="write thresholds of instructions from what is counted now"
    )
    parser.add_argument("--case", action="append", choices=CASES, help="only this one; may be repeated")
    parser.add_argument("--counter", action="append", choices=COUNTERS, help="only this one; may be repeated")
    parser.add_argument("--profiles", type=Path, help="keep callgrind's files, for callgrind_annotate, in this folder")
    parser.add_argument("--json", type=Path, help="write the counts to this file, too")
    return parser.parse_args()


def check_tools():
    missing = [tool for tool in ["cc", "strace", "valgrind", "objcopy", "openssl"] if not shutil.which(tool)]
    if missing:
        raise Failure(f"these are not installed: {', '.join(missing)}")


def measure(arguments):
    check_tools()
    cases = {name: case for name, case in CASES.items() if not arguments.case or name in arguments.case}
    binaries = build({"load", *(case.server[0] for case in cases.values())})
    results = {}
    thresholds = json.loads(THRESHOLDS.read_text())
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        profiles = arguments.profiles or directory
        os.makedirs(profiles, exist_ok=True)
        tools = Tools(binaries, directory, stack.enter_context(tls.certificate()), profiles)
        for name, case in cases.items():
            print(f"  counting: {name}", flush=True)
            counters = arguments.counter or case.counters
            results[name] = count(tools, case, counters)
            if arguments.check and excesses({name: results[name]}, thresholds):
                results[name] = count(tools, case, counters, runs=RUNS_ABOVE_THRESHOLD)
    print_counts(results)
    if arguments.json:
        arguments.json.write_text(json.dumps(results, indent=2) + "\n")
    if arguments.accept_instructions:
        accept_instructions(results, thresholds)
    return excesses(results, thresholds) if arguments.check else []


def main():
    # As an exception, so that the children are ended on the way out.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        exceeded = measure(parse_arguments())
    except Failure as failure:
        print(f"counters.py: {failure}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    for sentence in exceeded:
        print(f"counters.py: {sentence}", file=sys.stderr)
    return 1 if exceeded else 0


if __name__ == "__main__":
    sys.exit(main())
