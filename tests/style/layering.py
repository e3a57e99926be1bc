#!/usr/bin/env python3
"""The arrows drawn in docs/ARCHITECTURE.md are the includes in the code: layering.py ROOT.

Two fenced blocks of that document are read. `arrows`: one line per folder, "folder -> folders it may
include". `places`: one line per rule, "pattern -> the only files where it may occur"; a pattern is
matched against include paths and identifiers.

Fails on an include without an arrow, an arrow that no include needs (where the folder has code), a
folder without a line, a cycle, and a pattern out of its place.
"""

import fnmatch
import os
import re
import sys

import source

DOCUMENT = "docs/ARCHITECTURE.md"
TOP_FOLDERS = ("cli", "server", "scheduler", "shard", "proto")


def block(text, name):
    """The lines of the fenced block ```name, split at '->'; None when there is no such block."""
    match = re.search(rf"^```{name}\n(.*?)^```", text, re.M | re.S)
    if not match:
        return None
    rows = [line.split("->", 1) for line in match.group(1).split("\n") if "->" in line]
    return [(left.strip(), right.split()) for left, right in rows]


def code_files(root):
    for path in source.files(root, source.CPP_ENDINGS):
        if path.split("/")[0] in TOP_FOLDERS:
            yield path


def used_arrows(root):
    """{folder: {included folder: first 'file:line'}}; folders with code but no arrows included."""
    arrows = {}
    for path in code_files(root):
        folder = os.path.dirname(path)
        targets = arrows.setdefault(folder, {})
        for line, included in source.includes(source.read(root, path)):
            target = os.path.dirname(included)
            if included.split("/")[0] == "proto":
                target = "proto"  # generated code, whatever its version
            if included.split("/")[0] in TOP_FOLDERS and target != folder:
                targets.setdefault(target, f"{path}:{line}")
    return arrows


def cycle(arrows):
    """A list of folders that include one another in a circle, or None."""
    done, path = set(), []

    def visit(folder):
        if folder in path:
            return path[path.index(folder) :] + [folder]
        if folder in done:
            return None
        path.append(folder)
        for target in arrows.get(folder, ()):
            found = visit(target)
            if found:
                return found
        path.pop()
        done.add(folder)
        return None

    for folder in arrows:
        found = visit(folder)
        if found:
            return found
    return None


def check_arrows(root, allowed):
    used = used_arrows(root)
    problems = []
    for folder, targets in sorted(used.items()):
        if folder not in allowed:
            problems.append(f"{folder}/ has code but no line in the arrows of {DOCUMENT}")
            continue
        for target, place in sorted(targets.items()):
            if target not in allowed[folder]:
                problems.append(f"{place}: {folder}/ may not include {target}/")
        for target in allowed[folder]:
            if target not in targets:
                problems.append(f"{DOCUMENT}: no include needs the arrow {folder} -> {target}")
    for folder in allowed:
        if not os.path.isdir(os.path.join(root, folder)):
            problems.append(f"{DOCUMENT}: the arrows name {folder}/, which does not exist")
    circle = cycle({folder: list(targets) for folder, targets in used.items()})
    if circle:
        problems.append("folders include one another: " + " -> ".join(circle))
    return problems


def check_places(root, places):
    problems = []
    for path in code_files(root):
        code = source.without_comments(source.read(root, path))
        code = "\n".join(re.sub(r'^\s*#\s*include.*', "", line) for line in code.split("\n"))
        included = [name for _, name in source.includes(source.read(root, path))]
        for pattern, allowed in places:
            if any(fnmatch.fnmatch(path, place) for place in allowed):
                continue
            expression = re.compile(pattern)
            if any(expression.match(name) for name in included) or re.search(
                rf"\b(?:{pattern})\b", code
            ):
                problems.append(f"{path}: {pattern} belongs only in {' '.join(allowed)}")
    return problems


def check(root):
    document = source.read(root, DOCUMENT)
    arrows, places = block(document, "arrows"), block(document, "places")
    if not arrows or not places:
        return [f"{DOCUMENT}: the blocks `arrows` and `places` are missing"]
    return check_arrows(root, dict(arrows)) + check_places(root, places)


def main():
    problems = check(sys.argv[1])
    for problem in problems:
        print(problem)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
