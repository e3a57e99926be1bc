"""Finds C++ functions and their lengths with a brace parser; no compiler is needed.

A function is counted from the first line of its signature to its closing brace. What is nested in it
(blocks, lambdas, local classes) belongs to it. Namespaces and classes are looked into.
"""

import re
from collections import namedtuple

from source import without_comments, without_preprocessor

Function = namedtuple("Function", "name line lines")

_SCOPE = re.compile(r"\b(namespace|class|struct|union|extern\s*\"\")\b|\bextern\s*\"\"")
_LABEL = re.compile(r"^\s*(?:public|private|protected)\s*:(?!:)")


def functions(text):
    """The functions of a C++ source text, in order."""
    return _Parser(without_preprocessor(without_comments(text))).run()


def _strip_template(header):
    """Removes leading template<...> clauses (their defaults contain '=')."""
    header = header.strip()
    while re.match(r"template\s*<", header):
        depth, end = 0, header.index("<")
        for end in range(header.index("<"), len(header)):
            depth += {"<": 1, ">": -1}.get(header[end], 0)
            if depth == 0:
                break
        header = header[end + 1 :].strip()
    return header


def _outside_parentheses(header):
    """The header with everything inside () and [] removed, the brackets kept."""
    kept, depth = [], 0
    for char in header:
        if char in ")]":
            depth -= 1
        if depth == 0:
            kept.append(char)
        if char in "([":
            depth += 1
    return "".join(kept)


def _kind(header):
    """What a '{' behind `header` opens: 'function', 'scope' or 'value'."""
    flat = _outside_parentheses(_strip_template(header))
    flat = re.sub(r"\boperator\s*(?:\(\)|\[\]|[^\s\w(]+)", "operator_", flat)
    flat = re.sub(r"\[\[\]\]|\[\]", lambda m: " " if m.group(0) == "[[]]" else "[]", flat)
    if re.search(r"\benum\b", flat):
        return "value"
    if "=" in flat:  # an initializer; a named lambda counts as a function
        return "function" if re.search(r"=\s*\[\]\s*(\(\)|$)", flat) else "value"
    if "()" not in flat:
        return "scope" if _SCOPE.search(flat) else "value"
    behind = flat[flat.index("()") + 2 :]
    if _SCOPE.search(flat) and not re.match(r"[^()]*\b[\w~]+\s*\(\)", _SCOPE.sub("", flat)):
        return "scope"
    if re.search(r"^\s*(class|struct|union)\b", flat) and not behind.strip():
        return "function"  # elaborated return type
    if re.search(r"^\s*(class|struct|union)\s+[A-Z_]+\(\)", flat):
        return "scope"  # an attribute macro before the class name
    in_list = re.search(r"(?<!:):(?!:)", behind)
    if in_list and re.search(r"[\w>]\s*$", behind):
        return "value"  # a member's initializer: Foo() : a_{1}
    return "function"


class _Parser:
    def __init__(self, text):
        self._text = text
        self._at = 0
        self._line = 1
        self._found = []

    def run(self):
        while self._at < len(self._text):
            self._scope()
            self._at += 1  # a stray closing brace
        return self._found

    def _next(self):
        char = self._text[self._at]
        self._at += 1
        if char == "\n":
            self._line += 1
        return char

    def _scope(self):
        """Reads declarations up to the brace that closes the scope."""
        header, begin, depth = "", None, 0
        while self._at < len(self._text):
            char = self._next()
            if begin is None and not char.isspace() and char not in ";}":
                begin = self._line
            depth += {"(": 1, ")": -1}.get(char, 0)
            if char == "}":
                return
            if char == "{":
                kind = "value" if depth > 0 else _kind(header)
                if kind == "scope":
                    self._scope()
                else:
                    self._skip()
                if kind == "function":
                    self._add(header, begin)
                if kind == "value":
                    header += "{}" if depth == 0 else ""
                    continue
                header, begin = "", None
            elif char == ";" and depth == 0:
                header, begin = "", None
            else:
                header += char
                if _LABEL.match(header):
                    header, begin = "", None

    def _skip(self):
        """Reads up to the brace that closes the one just read."""
        depth = 1
        while depth > 0 and self._at < len(self._text):
            depth += {"{": 1, "}": -1}.get(self._next(), 0)

    def _add(self, header, begin):
        signature = " ".join(_strip_template(header).split())
        match = re.search(r"[\w:~]*(?:operator\s*\S+?)?\s*(?=\()", signature)
        name = match.group(0).strip() if match else signature[:40]
        if name.startswith("TEST"):
            name = signature
        self._found.append(Function(name, begin, self._line - begin + 1))
