"""Reading the project's sources: which files there are, and C++ text without comments and literals."""

import os
import re

SKIPPED_FOLDERS = {".git", "build", "models", ".venv", "__pycache__", ".cache"}
CPP_ENDINGS = (".h", ".cc", ".cu", ".cuh")

_TOKEN = re.compile(
    r"""//(?:\\\n|[^\n])*              # line comment
      | /\*.*?\*/                      # block comment
      | R"(?P<tag>[^()\\\s]{0,16})\(.*?\)(?P=tag)"   # raw string
      | "(?:\\.|[^"\\\n])*"            # string
      | (?<![0-9A-Fa-f])'(?:\\.|[^'\\\n])+'          # character (not a digit separator)
    """,
    re.VERBOSE | re.DOTALL,
)


def files(root, endings=None):
    """Paths relative to `root`, sorted, of files whose names end so (all files when None)."""
    found = []
    for folder, subfolders, names in os.walk(root):
        subfolders[:] = sorted(s for s in subfolders if s not in SKIPPED_FOLDERS)
        for name in names:
            if endings is None or name.endswith(endings):
                found.append(os.path.relpath(os.path.join(folder, name), root))
    return sorted(found)


def read(root, path):
    with open(os.path.join(root, path), encoding="utf-8", errors="replace") as file:
        return file.read()


def _blank(match):
    """The same number of lines; a literal leaves an empty one, so that expressions stay in shape."""
    text = match.group(0)
    lines = "\n" * text.count("\n")
    if text.startswith(("//", "/*")):
        return lines or " "
    return '""' + lines if text.endswith('"') else "0" + lines


def without_comments(text):
    """C++ text with comments and literals blanked; line numbers are kept."""
    return _TOKEN.sub(_blank, text)


def without_preprocessor(text):
    """Blanks preprocessor lines, continuation lines included; line numbers are kept."""
    return re.sub(
        r"^[ \t]*#(?:\\\n|[^\n])*", lambda m: "\n" * m.group(0).count("\n"), text, flags=re.M
    )


def includes(text):
    """(line, path) of each #include, <> and "" alike. Comments must still be there or blanked."""
    for number, line in enumerate(text.split("\n"), 1):
        match = re.match(r'\s*#\s*include\s*[<"]([^>"]+)[>"]', line)
        if match:
            yield number, match.group(1)
