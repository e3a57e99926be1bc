#!/usr/bin/env python3
"""Files and functions stay small: sizes.py ROOT prints what is too large and fails if anything is.

Limits: a file 500 lines, a function 60 lines (C++ and Python), the median C++ function outside tests
under 10 lines.
"""

import ast
import statistics
import sys

import source
from functions import functions

FILE_LINES = 500
FUNCTION_LINES = 60
MEDIAN_LINES = 10
CODE_ENDINGS = source.CPP_ENDINGS + (".py", ".sh", ".proto", ".cmake", "CMakeLists.txt")


def _python_functions(text):
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield node.name, node.lineno, node.end_lineno - node.lineno + 1


def measured(root, path):
    """(name, line, lines) of the functions of one file."""
    if path.endswith(source.CPP_ENDINGS):
        return functions(source.read(root, path))
    if path.endswith(".py"):
        return _python_functions(source.read(root, path))
    return []


def check(root):
    """Problems as text, and the C++ function lengths outside tests."""
    problems, lengths = [], []
    for path in source.files(root, CODE_ENDINGS):
        lines = source.read(root, path).count("\n")
        if lines > FILE_LINES:
            problems.append(f"{path}: {lines} lines; at most {FILE_LINES}")
        for name, line, count in measured(root, path):
            if count > FUNCTION_LINES:
                problems.append(f"{path}:{line}: {name}: {count} lines; at most {FUNCTION_LINES}")
            if path.endswith(source.CPP_ENDINGS) and not path.startswith("tests/"):
                lengths.append(count)
    if lengths and statistics.median(lengths) >= MEDIAN_LINES:
        problems.append(
            f"the median function has {statistics.median(lengths):g} lines; under {MEDIAN_LINES}"
        )
    return problems, lengths


def main():
    problems, lengths = check(sys.argv[1])
    if lengths:
        print(
            f"{len(lengths)} functions, median {statistics.median(lengths):g} lines, "
            f"longest {max(lengths)}"
        )
    for problem in problems:
        print(problem)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
