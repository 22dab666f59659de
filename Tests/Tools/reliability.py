#!/usr/bin/env python3
"""Writes the table of the parts of Docs/Reliability.md: the lines of each part, and the sums of their figures.

Usage: reliability.py [--check]
With --check it writes nothing, and fails if the table is not the one that it would write.
"""
import pathlib
import re
import sys

PAGE = pathlib.Path(__file__).parents[2] / "Docs" / "Reliability.md"
HEAD = "| part | lines | cases tried | cases passed |\n|---|---|---|---|\n"
ROW = re.compile(r"^\| O?\d+ \|[^|]*\| ([\d,]+|–) \| ([\d,]+|–) \|", re.MULTILINE)


def number(cell):
    return 0 if cell == "–" else int(cell.replace(",", ""))


def line(part):
    title, text = part.split("\n", 1)
    anchor = re.sub(r"[^a-z0-9 -]", "", title.lower()).replace(" ", "-")
    rows = ROW.findall(text)
    tried, passed = (sum(number(row[column]) for row in rows) for column in (0, 1))
    return f"| [{title}](#{anchor}) | {len(rows)} | {tried:,} | {passed:,} |\n" if rows else ""


def main():
    text = PAGE.read_text()
    table = HEAD + "".join(line(part) for part in re.split(r"^## ", text, flags=re.MULTILINE)[1:])
    written, count = re.subn(re.escape(HEAD) + r"(?:\|.*\n)+", lambda _: table, text)
    if count != 1:
        sys.exit(f"reliability.py: {PAGE} has no table of its parts")
    if "--check" not in sys.argv:
        PAGE.write_text(written)
    elif written != text:
        sys.exit("reliability.py: the sums in Docs/Reliability.md are wrong; `make format` writes them")


main()
