#!/usr/bin/env python3
"""Follows a page step by step, as a reader would: writes its files, runs its commands, and compares their output.

    follow.py PAGE FOLDER

- A paragraph that is a path, as in `Server/Package.swift`:, is followed by the file's contents.
- The commands of all blocks with `sh` run in one shell.
- A block without a language, after commands, has lines that they print, in this order. Other lines may be between them.
"""
import contextlib
import os
import pathlib
import pty
import re
import select
import signal
import subprocess
import sys
import time

SECONDS = 900  # for one block: the first build is the longest


def steps(page):
    """The blocks of the page that matter: (kind, text), where a kind is a path, "sh" or "output"."""
    kind = ""
    for match in re.finditer(r"^```(\w*)\n(.*?)^```$|^(\S[^\n]*)$", page, re.MULTILINE | re.DOTALL):
        language, text, line = match.groups()
        if line is not None:
            path = re.fullmatch(r"`([\w./-]+)`:", line)
            kind = path.group(1) if path else kind if kind in ("sh", "output") else ""
        elif language == "sh":
            kind = "sh"
            yield kind, text
        elif language == "swift" and kind not in ("", "sh", "output"):
            yield kind, text
            kind = ""
        elif language == "" and kind == "sh":
            kind = "output"
            yield kind, text


def line_from(terminal, end, printed):
    """The next line that the shell prints; None at its end, and after the deadline."""
    line = b""
    while not line.endswith(b"\n"):
        if not select.select([terminal], [], [], max(0, end - time.monotonic()))[0]:
            return None
        try:
            byte = os.read(terminal, 1)
        except OSError:  # EIO: no program has the terminal open any more
            byte = b""
        if not byte:
            return None
        line += byte
    printed.append(line.decode(errors="replace").replace("\r", ""))
    return printed[-1]


def wait_for(lines, terminal, printed):
    end = time.monotonic() + SECONDS
    for expected in lines:
        while True:
            line = line_from(terminal, end, printed)
            if line is None:
                sys.exit(
                    f"follow.py: there is no line with {expected!r} within {SECONDS} seconds, or before the end:\n"
                    + "".join(printed[-20:]))
            if expected in line:
                break


def main():
    page, folder = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    # The programs print to a terminal, as a reader's do: otherwise they would keep their lines until they end. A command that fails ends
    # the shell. The shell has a session of its own, so that the end of this program is also that of the page's programs.
    terminal, theirs = pty.openpty()
    shell = subprocess.Popen(
        ["bash", "-e"], cwd=folder, stdin=subprocess.PIPE, stdout=theirs, stderr=theirs, bufsize=0, start_new_session=True,
        env={**os.environ, "TERM": "dumb"})
    os.close(theirs)
    files = outputs = 0
    printed = []
    try:
        for kind, text in steps(page.read_text()):
            if kind == "sh":
                shell.stdin.write(text.encode())
            elif kind == "output":
                outputs += 1
                wait_for(text.splitlines(), terminal, printed)
            else:
                files += 1
                (folder / kind).parent.mkdir(parents=True, exist_ok=True)
                (folder / kind).write_text(text)
        shell.stdin.close()
        shell.wait(timeout=SECONDS)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(shell.pid, signal.SIGKILL)
    if not files or not outputs:
        sys.exit(f"follow.py: {page} has {files} files and {outputs} outputs")
    print(f"follow.py: {page} works, with {files} files, and what it prints is right")


main()
