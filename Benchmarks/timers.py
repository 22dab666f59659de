"""Timers: what a deadline costs that never expires, on ActorSockets, SwiftNIO and, where it is installed, Go."""

import json
import subprocess
import tempfile

from harness import LOAD_TIMEOUT, Failure, build_go, child_setup, cores, print_table, spread

# They serve nobody, but are chosen as servers are.
SERVERS = {"timers-swift": "swift-timers", "timers-nio": "nio-timers", "timers-go": "go-timers"}
OPERATIONS = 1_000_000
QUICK_OPERATIONS = 200_000
MOST_ROUNDS = 3
KEYS = ["in_turn_ns", "at_once_ns"]


def products(names):
    """What SwiftPM builds for these programs."""
    return {SERVERS[name] for name in names if name != "timers-go"}


def run(program, operations):
    """On the servers' core."""
    option = "-operations" if program.name == "go-timers" else "--operations"
    command = [program, option, str(operations)]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=LOAD_TIMEOUT, preexec_fn=child_setup(cores()[1])
        )
    except subprocess.TimeoutExpired as error:
        raise Failure(f"{program.name} did not end") from error
    if done.returncode != 0:
        raise Failure(f"{program.name} failed ({done.returncode}):\n{done.stderr}")
    return json.loads(done.stdout)


def print_summary(summary, operations):
    def cell(figure):
        return f"{figure['median']:.0f} ({figure['min']:.0f}..{figure['max']:.0f})"

    print(f"\nA deadline armed and cancelled, {operations} of them; CPU ns each, medians (min..max)\n")
    rows = [[name, *[cell(row[key]) for key in KEYS]] for name, row in summary.items()]
    print_table(["program", "one at a time", "all at once"], rows)


def measure(names, binaries, effort):
    """Measures and prints; returns what belongs into the results."""
    operations = QUICK_OPERATIONS if effort.is_quick else OPERATIONS
    with tempfile.TemporaryDirectory() as directory:
        programs = {name: binaries / SERVERS[name] for name in names if name != "timers-go"}
        if "timers-go" in names:
            go_program = build_go("go-timers", directory)
            if go_program:
                programs["timers-go"] = go_program
            else:
                print("\ngo is not installed: its timers are left out", flush=True)
        results = {name: [] for name in programs}
        for _ in range(min(effort.rounds, MOST_ROUNDS)):
            for name, program in programs.items():
                results[name].append(run(program, operations))
    summary = {name: {key: spread([r[key] for r in rows]) for key in KEYS} for name, rows in results.items()}
    print_summary(summary, operations)
    return {"operations": operations, "summary": summary, "rounds": results}
