"""Speed of encoding English text on one core, ours and the `tokenizers` library's.

    measure_tokenizers.py TOKENIZER_BENCH FOLDER [TEXT_FILE]

Without TEXT_FILE the text is the English that a Python installation brings along: its docstrings.
"""

import ast
import glob
import os
import statistics
import subprocess
import sys
import time

os.environ["TOKENIZERS_PARALLELISM"] = "false"

from compare_tokenizers import unpack  # noqa: E402
from tokenizer_sources import SOURCES  # noqa: E402

BYTES = 1_000_000
PROMPT = 4096  # bytes per call


def docstrings():
    """Docstrings of the standard library up to BYTES bytes, always in the same order."""
    parts, size = [], 0
    for path in sorted(glob.glob(os.path.join(os.path.dirname(os.__file__), "*.py"))):
        with open(path, encoding="utf-8", errors="replace") as file:
            try:
                tree = ast.parse(file.read())
            except SyntaxError:
                continue
        for node in ast.walk(tree):
            if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)):
                text = ast.get_docstring(node) or ""
                parts.append(text)
                size += len(text) + 1
        if size > BYTES:
            break
    return "\n".join(parts)[:BYTES]


def reference_speed(tokenizer, text):
    prompts = [text[i:i + PROMPT] for i in range(0, len(text), PROMPT)]
    seconds = []
    for _ in range(3):
        begin = time.perf_counter()
        for prompt in prompts:
            tokenizer.encode(prompt)
        seconds.append(time.perf_counter() - begin)
    return len(text.encode("utf-8")) / statistics.median(seconds) / 1e6


def main():
    program, folder = sys.argv[1:3]
    out = os.path.join(folder, "made")
    os.makedirs(out, exist_ok=True)
    text_path = sys.argv[3] if len(sys.argv) > 3 else os.path.join(out, "english.txt")
    if len(sys.argv) <= 3:
        with open(text_path, "w", encoding="utf-8") as file:
            file.write(docstrings())
    with open(text_path, encoding="utf-8") as file:
        text = file.read()
    for name in ("smollm2", "llama3", "mistral-v1"):
        packages, make = SOURCES[name]
        reference, path = make(unpack(packages, folder), out)
        ours = subprocess.run([program, path, text_path], stdout=subprocess.PIPE, check=True, text=True).stdout
        print(f"{name}: {'; '.join(' '.join(line.split()) for line in ours.splitlines())}; "
              f"the library in 4096 B prompts: {reference_speed(reference, text):.2f} MB/s", flush=True)


if __name__ == "__main__":
    main()
