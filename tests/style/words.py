#!/usr/bin/env python3
"""Nothing that holds on one machine only is committed: words.py ROOT.

Looks in every text file for absolute paths of somebody's machine, registry hosts (the machine's own
configuration names those), names of writing tools and forgotten work marks.
"""

import re
import sys

import source

# Spelled in pieces, so that this file does not find itself.
PATTERNS = {
    "a path of one machine": r"(?<![\w.$}>)/-])/(?:wo" r"rk|ro" r"ot|ho" r"me|Us" r"ers)/[\w.]",
    "a registry host": r"py" r"pi\.org|python" r"hosted|deb\.de" r"bian\.org|archive\.ubu" r"ntu",
    "a writing tool": r"(?i)\b(?:cla" r"ude|chat" r"gpt|cop" r"ilot)\b",
    "a forgotten mark": r"\b(?:FIX" r"ME|X" r"XX|HA" r"CK|TO" r"DO)\b",
}
SKIPPED = ("tests/data/",)  # model vocabularies and generated text contain all kinds of words
NOT_TEXT = (".png", ".gguf", ".safetensors", ".bin", ".gz", ".f16", ".f32")


def check(root):
    problems = []
    for path in source.files(root):
        if path.startswith(SKIPPED) or path.endswith(NOT_TEXT):
            continue
        for number, line in enumerate(source.read(root, path).split("\n"), 1):
            for what, pattern in PATTERNS.items():
                match = re.search(pattern, line)
                if match:
                    problems.append(f"{path}:{number}: {what}: {match.group(0)}")
    return problems


def main():
    problems = check(sys.argv[1])
    for problem in problems:
        print(problem)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
