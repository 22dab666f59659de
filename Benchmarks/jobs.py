"""Jobs: what a command costs a job server on ActorSockets, beside Debian's beanstalkd, whose protocol it speaks."""

import shutil
from pathlib import Path

from harness import measure_load, print_table, ratio_cell, ratios_by_round, rounds_of, spread

SERVERS = {
    "beanstalkd": ["beanstalkd", "-V", "-l", "127.0.0.1", "-p", "0"],
    "jobs-reactor": ["swift-jobs", "--on", "reactor"],
    "jobs-pool": ["swift-jobs", "--on", "pool"],
}
BASELINE = "beanstalkd"
ANNOUNCEMENT = r"^(?:listening on|bind \d+) (.+):(\d+)$"
CONNECTIONS = [16, 64]
SIZE = 64
COST = "server_cpu_us_per_request"


def products(names):
    """What SwiftPM builds for these servers."""
    return {SERVERS[name][0] for name in names if name != BASELINE}


def commands_of(names, binaries):
    commands = {name: [binaries / SERVERS[name][0], *SERVERS[name][1:]] for name in names}
    if BASELINE in commands:
        # Not on the path of every user: Debian has it there, Fedora in /usr/sbin.
        program = shutil.which("beanstalkd") or shutil.which("beanstalkd", path="/usr/bin:/usr/sbin")
        if program:
            commands[BASELINE][0] = Path(program)
        else:
            del commands[BASELINE]
            print("\nbeanstalkd is not installed: it is left out", flush=True)
    return commands


def print_case(connections, summary):
    print(f"\nJobs of {SIZE} bytes, {connections} connections: put, reserve, delete; each command by itself, medians (ratios: CPU, by round)\n")
    rows = [
        [
            name,
            f"{row[COST]['median']:.2f}",
            f"{row[COST]['min']:.2f}..{row[COST]['max']:.2f}",
            ratio_cell(row["ratio"]) if row["ratio"] else "-",
            f"{row['requests_per_second']['median']:.0f}",
            f"{row['p50_us']['median']:.0f}",
            f"{row['p99_us']['median']:.0f}",
        ]
        for name, row in summary.items()
    ]
    print_table(["server", "CPU us/command", "min..max", f"to {BASELINE}", "commands/s", "p50 us", "p99 us"], rows)


def measure(names, binaries, effort):
    """Measures and prints, interleaved; returns what belongs into the results."""
    commands = commands_of(names, binaries)
    measured = {}
    for connections in CONNECTIONS:
        rounds = {name: [] for name in commands}
        for _ in rounds_of(effort, {f"jobs on {connections} connections": rounds}, lambda _: COST):
            for name, command in commands.items():
                options = {"connections": connections, "size": SIZE, **effort.times}
                rounds[name].append(measure_load(binaries, name, command, "jobs", announcement=ANNOUNCEMENT, **options))
        ratios = ratios_by_round(rounds, COST, [BASELINE])
        summary = {
            name: {
                **{key: spread([r[key] for r in results]) for key in [COST, "requests_per_second", "p50_us", "p99_us"]},
                "ratio": ratios[name].get(BASELINE),
            }
            for name, results in rounds.items()
        }
        print_case(connections, summary)
        measured[connections] = {"summary": summary, "rounds": rounds}
    return measured
