"""Random and adversarial byte strings for comparing tokenizers. The same seed gives the same strings."""

import random

# The inputs of llama.cpp's tokenizer vectors, by shape.
FIXED = [
    "", " ", "  ", "   ", "\t", "\n", "\n\n", "\n\n\n", "\t\n", "Hello", " Hello", "Hello world", " Hello World!",
    "    Hello\n    Hello", "3", "33", "333", "3333", "33333", "333333333", " this is \U0001F999.cpp", " discards",
    "F\u00FChrer", "w048 7tuijk dsdfhu", "\u043d\u0435\u0449\u043e \u043d\u0430 \u0411\u044a\u043b\u0433\u0430\u0440\u0441\u043a\u0438",
    "Hello, y'all! How are you \U0001F601 ?\u6211\u60f3\u5728apple\u5de5\u4f5c1314151\u5929\uff5e", "' era", "\n =", " (",
    "\U0001F680 (normal) \U0001F636\u200D\U0001F32B\uFE0F (multiple emojis concatenated) \u2705 \U0001F999\U0001F999", "a    b",
    "\u1780\u17b6\u1793\u17cb\u178f\u17c2\u1796\u17b7\u179f\u17c1\u179f\u17a2\u17b6\u1785", "IT'S don'T we'LL I'\u017F '\u017Fa",
    "a\r\n\r\nb\rc\n\r\nd", " ...", "...  \n", "\u00a0\u00a0x\u3000\u3000y", "e\u0301\u0323 \u1e69 \u0073\u0323\u0307 \uAC01 \u1100\u1161\u11A8",
    "\u180e\u200b\u200c\u200d\u2060\ufeff", "\u0130\u0131 \ufb01 \u2460\u00bd\u00b2 \u212b \u1e9e", "x" * 300 + " " + "\u00e9" * 300,
]

SPACES = " \t\n\r\x0b\x0c\x85\u00a0\u1680\u180e\u2000\u2009\u200a\u2028\u2029\u202f\u205f\u3000\u200b\ufeff"
MARKS = [chr(c) for r in ((0x300, 0x36F), (0x483, 0x489), (0x591, 0x5C7), (0x610, 0x61A), (0x64B, 0x65F), (0x93C, 0x94D),
                          (0xE31, 0xE4E), (0x1AB0, 0x1ACE), (0x1DC0, 0x1DFF), (0x20D0, 0x20F0), (0x3099, 0x309A),
                          (0xFE00, 0xFE2F), (0x11938, 0x11943), (0x1E8D0, 0x1E8D6)) for c in range(r[0], r[1] + 1)]
BLOCKS = [(0x20, 0x7E), (0x20, 0x7E), (0xA0, 0xFF), (0x100, 0x24F), (0x370, 0x3FF), (0x400, 0x52F), (0x590, 0x6FF),
          (0x900, 0x97F), (0xE00, 0xE7F), (0x1100, 0x11FF), (0x1E00, 0x1FFF), (0x2000, 0x206F), (0x2150, 0x218F),
          (0x2460, 0x24FF), (0x3040, 0x30FF), (0x3130, 0x318F), (0x3200, 0x33FF), (0x4E00, 0x9FFF), (0xA640, 0xA7FF),
          (0xAC00, 0xD7A3), (0xF900, 0xFAFF), (0xFB00, 0xFDFF), (0xFE70, 0xFEFF), (0xFF00, 0xFFEF), (0x10000, 0x10FFF),
          (0x11000, 0x11FFF), (0x16100, 0x16DFF), (0x1D400, 0x1D7FF), (0x1E000, 0x1E5FF), (0x1F100, 0x1F1FF),
          (0x1F300, 0x1FAFF), (0x20000, 0x323AF), (0xE0000, 0xE01EF), (0x10FF00, 0x10FFFF)]
WORDS = ("the of and to in that is was he for it with as his on be at by I this had not are but from or have an they "
         "which one you were her all she there would their we him been has when who will more no if out so said what up "
         "its about into than them can only other new some could time these two may then do first any my now such like "
         "our over man me even most made after also did many before must through years where much your way well down "
         "should because each just those people how too little state good very make world still own see men work long "
         "Newton's I'll they've DON'T it's can't internationalization xyzzy foo_bar camelCase HTTPServer2 x86_64 3.14159 "
         "1,000,000 2024-01-01 e.g. U.S.A. https://example.org/a?b=c&d=%20 user@host <div> </div> {\"key\":[1,2]} "
         "def f(x): return x**2 #include <vector> // comment /* c */ a+b=c -> => != && || ;; ::").split(" ")


def any_char(rng):
    while True:
        code = rng.randrange(0x110000)
        if not 0xD800 <= code < 0xE000:
            return chr(code)


def block_char(rng):
    low, high = rng.choice(BLOCKS)
    return chr(rng.randint(low, high))


def sentence(rng):
    return rng.choice(["", " ", "\n"]) + rng.choice([" ", " ", " ", "  ", "\n", ", "]).join(
        rng.choice(WORDS) for _ in range(rng.randint(1, 30)))


def spaced(rng):
    return "".join(rng.choice([rng.choice(SPACES), rng.choice(SPACES) * rng.randint(1, 6), rng.choice(WORDS), "\r\n", "1"])
                   for _ in range(rng.randint(1, 12)))


def marked(rng):
    return "".join(rng.choice([block_char(rng), rng.choice("aeinos ")]) +
                   "".join(rng.choice(MARKS) for _ in range(rng.randint(0, 5))) for _ in range(rng.randint(1, 10)))


def runs(rng):
    unit = "".join(rng.choice([block_char(rng), rng.choice("a0 -=_\n\t.")]) for _ in range(rng.randint(1, 3)))
    return rng.choice(["", "x", " "]) + unit * rng.randint(1, rng.choice([8, 40, 200, 1500])) + rng.choice(["", "y", "\n"])


def digits(rng):
    return "".join(rng.choice(["0123456789"[rng.randrange(10)], rng.choice("\u0664\u0967\u2460\u00bd\uff11\U0001D7D8"),
                               rng.choice([" ", ",", ".", "-", "x"])][: rng.choice([1, 1, 2, 3])])
                   for _ in range(rng.randint(1, 20)))


def emoji(rng):
    return "".join(rng.choice([chr(rng.randint(0x1F300, 0x1FAFF)), "\u200d", "\ufe0f", "\U0001F3FD", "\u2764", " ",
                               chr(rng.randint(0x1F1E6, 0x1F1FF))]) for _ in range(rng.randint(1, 12)))


def special_like(rng, specials):
    parts = []
    for _ in range(rng.randint(1, 6)):
        token = rng.choice(specials)
        cut = rng.randrange(len(token) + 1)
        parts.append(rng.choice([token, token, token[:cut], token[cut:], token.upper(), token.replace("|", " |"),
                                 rng.choice(WORDS), rng.choice(SPACES), " ", "\n", ""]))
    return rng.choice(["", " "]).join(parts)


def token_like(rng, tokens):
    return "".join(rng.choice(tokens) for _ in range(rng.randint(1, 12)))


def broken(rng, text):
    data = bytearray(text.encode("utf-8"))
    for _ in range(rng.randint(1, 4)):
        if not data:
            break
        at = rng.randrange(len(data))
        action = rng.randrange(4)
        if action == 0:
            data[at] = rng.randrange(256)
        elif action == 1:
            del data[at]
        elif action == 2:
            data.insert(at, rng.choice([0x80, 0xBF, 0xC0, 0xC2, 0xE0, 0xED, 0xF0, 0xF4, 0xF5, 0xFF]))
        else:
            del data[at:]
    return bytes(data)


def make_strings(count, seed, specials, tokens):
    """`count` byte strings, some of them not UTF-8. `specials` and `tokens` are texts to imitate."""
    rng = random.Random(seed)
    specials = specials or ["<s>", "</s>", "<|endoftext|>"]
    kinds = [
        sentence, spaced, marked, runs, digits, emoji,
        lambda r: "".join(any_char(r) for _ in range(r.randint(1, 20))),
        lambda r: "".join(block_char(r) for _ in range(r.randint(1, 30))),
        lambda r: special_like(r, specials),
        lambda r: token_like(r, tokens),
        lambda r: "".join(r.choice([sentence, spaced, emoji, digits, marked])(r) for _ in range(3)),
    ]
    strings = [text.encode("utf-8") for text in FIXED]
    while len(strings) < count:
        kind = rng.randrange(len(kinds) + 2)
        if kind < len(kinds):
            strings.append(kinds[kind](rng).encode("utf-8"))
        elif kind == len(kinds):
            strings.append(bytes(rng.randrange(256) for _ in range(rng.randint(1, 40))))
        else:
            strings.append(broken(rng, rng.choice(kinds)(rng)))
    return strings[:count]
