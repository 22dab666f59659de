#!/usr/bin/env python3
"""Runs the tests against mutations of the sources, which the tests must find.

Usage: mutations.py [--only TEXT] [--from NUMBER] [--no-baseline] [--list]

`mutations.toml` lists the mutations. Each replaces one place in a copy of the project, in `.build/mutations`, with code that
asks whether this mutation is on. So the copy is built once, in a debug build. The environment variable ACTORSOCKETS_MUTATION
has the number of the mutation that is on.

First the suites run without a mutation, and must pass. Then each mutation runs with the suites that it names, until the first
failure. It is an error if

- a place is not found exactly once, because the source has changed,
- all suites pass, although a mutation is on, and the mutation has no `equivalent` that says why no test can find it,
- a mutation with `equivalent` is found.

A run that takes longer than LIMIT seconds counts as a failure of the tests: a mutation may make a test wait for ever.
"""

import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import tomllib
from pathlib import Path

TOOLS = Path(__file__).resolve().parent
ROOT = TOOLS.parent.parent
COPY = ROOT / ".build/mutations"
SWITCH = "MUTATED"
VARIABLE = "ACTORSOCKETS_MUTATION"
LIMIT = 240

SWIFT = """internal import CLinux

/// Whether this mutation is on.
@inline(never)
package func mutation(_ number: Int32) -> Bool { clinux_mutation(number) != 0 }
"""
HEADER = "int clinux_mutation(int number);\n"
C = """
#include <stdlib.h>
static int mutation;
__attribute__((constructor)) static void read_mutation(void) {
  const char *text = getenv("%s");
  mutation = text ? atoi(text) : 0;
}
int clinux_mutation(int number) { return mutation == number; }
""" % VARIABLE


class Sources:
    """The files of the copy, as they are to be."""

    def __init__(self):
        listed = subprocess.run(
            ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "Package.swift", "Sources", "Tests", "Docs"],
            cwd=ROOT, capture_output=True, check=True).stdout.decode()
        self.files = {name: (ROOT / name).read_bytes() for name in listed.split("\0") if name and (ROOT / name).is_file()}

    def text(self, name):
        return self.files[name].decode()

    def replace(self, name, old, new):
        """Returns a sentence if the text is not there exactly once."""
        if name not in self.files:
            return f"there is no file {name}"
        count = self.text(name).count(old)
        if count != 1:
            return f"{name} has this text {count} times: {old.strip()!r}"
        self.files[name] = self.text(name).replace(old, new).encode()

    def write(self):
        """Writes what differs, so that only that is compiled."""
        for name, content in self.files.items():
            path = COPY / name
            if not path.exists() or path.read_bytes() != content:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(content)
        for folder in ("Sources", "Tests", "Docs"):
            for path in sorted((COPY / folder).rglob("*"), reverse=True):
                if path.is_file() and str(path.relative_to(COPY)) not in self.files:
                    path.unlink()


def mutate(sources, listed):
    """Puts all mutations into the sources, and returns what is wrong with the list."""
    mutations, wrong = listed["mutation"], []
    for support in listed.get("support", []):
        wrong.append(sources.replace("Sources/" + support["file"], support["right"], support["wrong"]))
    names = set()
    for number, mutation in enumerate(mutations, 1):
        file = mutation["file"]
        if mutation["what"] in names:
            wrong.append(f"two mutations are called {mutation['what']!r}")
        names.add(mutation["what"])
        switch = f"mutation({number})" if file.endswith(".swift") else f"clinux_mutation({number})"
        if SWITCH not in mutation["wrong"]:
            wrong.append(f"{mutation['what']!r} has no {SWITCH}")
        error = sources.replace("Sources/" + file, mutation["right"], mutation["wrong"].replace(SWITCH, switch))
        wrong.append(error and f"{mutation['what']}: {error}")
    for file in {"Sources/" + mutation["file"] for mutation in mutations}:
        text = sources.text(file) if file in sources.files else ""
        if file.endswith(".swift") and "/SocketSystem/" not in file \
                and not re.search(r"^(?:\w+ )?import SocketSystem$", text, re.M):
            sources.files[file] = ("internal import SocketSystem\n\n" + text).encode()
    sources.files["Sources/SocketSystem/Mutation.swift"] = SWIFT.encode()
    # Only the copy of sockcat needs more than the public interface: the switch.
    sources.replace("Package.swift", "packageAccess: false, ", "")
    header, code = "Sources/CLinux/include/CLinux.h", "Sources/CLinux/CLinux.c"
    text = sources.text(header)
    end = text.rindex("#endif")
    sources.files[header] = (text[:end] + HEADER + text[end:]).encode()
    sources.files[code] = (sources.text(code) + C).encode()
    return [error for error in wrong if error]


def pattern(suites):
    """A pattern for the tests of these files and folders."""
    names = set()
    for suite in suites:
        path = ROOT / "Tests" / suite
        files = sorted(path.rglob("*.swift")) if path.is_dir() else [path]
        for file in files:
            for name in re.findall(r"(?:struct|class|actor) (\w+Tests)\b", file.read_text()):
                names.add(f"{suite.split('/')[0]}[.](Peers/)?{name}/")
    if not names:
        sys.exit(f"mutations: no suite is in {' '.join(suites)}")
    return "^(" + "|".join(sorted(names)) + ")"


def run(number, suites, limit, ends_early):
    """Runs suites with a mutation; returns whether they failed, and what failed first."""
    environment = dict(os.environ, ACTORSOCKETS_PATIENCE=os.environ.get("ACTORSOCKETS_PATIENCE", "3"),
                       ACTORSOCKETS_ROUNDS=os.environ.get("ACTORSOCKETS_ROUNDS", "1000"),
                       NO_COLOR="1")  # Otherwise the marks that are looked for below are colored, also in a pipe.
    environment[VARIABLE] = str(number)
    program = COPY / ".build/debug/ActorSocketsPackageTests.xctest"
    process = subprocess.Popen(
        [program, "--testing-library", "swift-testing", "--no-parallel", "--filter", pattern(suites)],
        cwd=COPY, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        text=True, errors="replace", start_new_session=True)
    found = []

    def end(why):
        found.append(why)
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass

    timer = threading.Timer(limit, end, [f"the suites took longer than {limit} s"])
    timer.start()
    count = None
    for line in process.stdout:
        if match := re.search(r"Test run with (\d+) test", line):
            count = int(match[1])
        if re.search(r"✘ Test .* recorded an issue|Fatal error|Assertion failed", line):
            if ends_early:
                end(line.strip())
                break
            found.append(line.strip())
    process.stdout.close()
    status = process.wait()
    timer.cancel()
    if not found and status == 0 and not count:
        sys.exit(f"mutations: no test ran in {' '.join(suites)}")
    if not found and status != 0:
        found.append(f"the tests ended with status {status}")
    return found


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", default="", help="only the mutations whose description or file contains this text")
    parser.add_argument("--from", type=int, default=1, dest="first", help="only the mutations from this number on")
    parser.add_argument("--no-baseline", action="store_true", help="do not run the suites without a mutation first")
    parser.add_argument("--list", action="store_true", help="only check that each place is found")
    arguments = parser.parse_args()
    with open(TOOLS / "mutations.toml", "rb") as file:
        listed = tomllib.load(file)
    sources = Sources()
    if wrong := mutate(sources, listed):
        sys.exit("\n".join("mutations: " + sentence for sentence in wrong))
    chosen = [(number, mutation) for number, mutation in enumerate(listed["mutation"], 1)
              if number >= arguments.first and (arguments.only in mutation["what"] or arguments.only in mutation["file"])]
    if arguments.list:
        for number, mutation in chosen:
            print(f"{number:4} {mutation['file']}: {mutation['what']}")
        return
    sources.write()
    subprocess.run(["swift", "build", "--build-tests", "--quiet"], cwd=COPY, check=True)
    if not arguments.no_baseline:
        suites = sorted({suite for _, mutation in chosen for suite in mutation["suites"]})
        if failed := run(0, suites, 3600, ends_early=False):
            sys.exit("mutations: the suites fail without a mutation:\n" + "\n".join(failed[:20]))
    survived = []
    for number, mutation in chosen:
        found = run(number, mutation["suites"], LIMIT, ends_early=True)
        equivalent = mutation.get("equivalent")
        if bool(found) == bool(equivalent):
            survived.append(mutation["what"])
        verdict = "found" if found else "not found" if not equivalent else "equivalent"
        print(f"{number:4} {verdict:10} {mutation['what']}: {found[0][:160] if found else equivalent or ''}", flush=True)
    print(f"mutations: {len(chosen) - len(survived)} passed, {len(survived)} failed")
    if survived:
        sys.exit("mutations: no test finds, or one finds what is called equivalent:\n" + "\n".join(survived))


if __name__ == "__main__":
    shutil.which("swift") or sys.exit("mutations: there is no swift in PATH")
    main()
