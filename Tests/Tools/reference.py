#!/usr/bin/env python3
"""Checks the pages of the reference that docs.sh has built. A page that breaks a rule is an error.

    reference.py SITE-FOLDER

- There is one landing page, and topics lead from it to each page.
- Each public symbol is described.
- The landing page, and each type with more than ten members, has topics that a person has chosen. DocC itself would sort the members by
  their kind and name.
"""
import json
import pathlib
import sys

MEMBERS_WITHOUT_TOPICS = 10


def pages(site):
    found = {}
    for file in (site / "data" / "documentation").rglob("*.json"):
        page = json.loads(file.read_text())
        found[page["identifier"]["url"]] = page
    return found


def name(url):
    return url.partition("/documentation/")[2]


def members(page):
    """What the topics of a page lead to, and whether a person has chosen the topic."""
    return [(url, not section.get("generated")) for section in page.get("topicSections", []) for url in section["identifiers"]]


def is_type(page):
    return page["metadata"].get("symbolKind") in ("class", "enum", "module", "protocol", "struct")


def reachable(pages, root):
    seen = {root}
    waiting = [root]
    while waiting:
        page = pages[waiting.pop()]
        for section in page.get("topicSections", []) + page.get("defaultImplementationsSections", []):
            for url in section["identifiers"]:
                if url in pages and url not in seen:
                    seen.add(url)
                    waiting.append(url)
    return seen


def faults(pages):
    roots = [url for url, page in pages.items() if page["metadata"].get("symbolKind") == "module"]
    if len(roots) != 1:
        yield f"there should be one landing page: {', '.join(map(name, roots)) or 'there is no page'}"
        return
    for url in sorted(pages.keys() - reachable(pages, roots[0])):
        yield f"{name(url)}: no topic leads to it from the landing page"
    for url, page in sorted(pages.items()):
        if page["metadata"].get("symbolKind") and url != roots[0] and not page.get("abstract"):
            yield f"{name(url)}: it has no description"
        if not is_type(page) or (url != roots[0] and len(members(page)) <= MEMBERS_WITHOUT_TOPICS):
            continue
        for member, is_chosen in members(page):
            # DocC collects default implementations, which cannot be sorted by hand.
            is_collection = pages.get(member, {}).get("metadata", {}).get("role") == "collectionGroup"
            if not is_chosen and not is_collection:
                yield f"{name(member)}: it is in no topic of its page, which has more than {MEMBERS_WITHOUT_TOPICS} members"


def main():
    found = pages(pathlib.Path(sys.argv[1]))
    messages = list(faults(found))
    print(*(f"error: {message}" for message in messages), sep="\n", end="\n" if messages else "")
    if messages:
        sys.exit(1)
    print(f"the reference: {len(found)} pages, each with a description and reached by topics")


main()
