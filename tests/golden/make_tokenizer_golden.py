"""Makes tests/data/tokenizers: small tokenizers trained here, and what the `tokenizers` library does with them.

    make_tokenizer_golden.py [tests/data/tokenizers]

NAME.json            a tokenizer
NAME.cases.json      strings (as text, or as hexadecimal bytes where they are not UTF-8), their ids and texts
NAME.inputs.json     texts and pairs of texts, the ids and types of a one-shot model's input
pre_tokenizers.json  pre-tokenizers and the pieces they cut texts into
normalizers.json     normalizers and the texts they make
decoders.json        decoders and the texts they make of tokens
"""

import collections
import json
import math
import os
import random
import sys

from tokenizers import (AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors,
                        trainers)

from tokenizer_charsmap import charsmap
from tokenizer_sources import GPT4O, LLAMA3, QWEN2, split_steps, template
from tokenizer_strings import FIXED, SPACES, WORDS, make_strings

CASES = 160
INPUTS = 60
LONGEST = 240  # bytes of a case
CORPUS = [" ".join(WORDS)] * 3 + FIXED[:-1] + [
    "The old pipe carries water down to a row of turbines; every turbine turns at its own speed, but all of them "
    "share the water that the river gives.",
    "In the morning the keeper walks along the pipe, counts the rivets, writes 17 or 18 or 1984 into his book, and "
    "goes home again. He doesn't hurry; there's no need.",
    "def flow(pipe, turbines=4):\n    for turbine in range(turbines):\n        pipe.open(turbine)  # one by one\n"
    "    return [t.speed() for t in pipe]\n",
    "Das Wasser flie\u00dft durch die R\u00f6hre. L'eau coule \u00e0 travers le tuyau. \u0412\u043e\u0434\u0430 \u0442\u0435\u0447\u0451\u0442 \u043f\u043e "
    "\u0442\u0440\u0443\u0431\u0435. \u6c34\u304c\u6d41\u308c\u308b\u3002\u6c34\u5728\u7ba1\u9053\u91cc\u6d41\u52a8\u3002 \u0645\u0627\u0621",
]


def byte_level(pattern, specials, vocab=700):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = split_steps(pattern) if pattern else pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=vocab, special_tokens=specials, show_progress=False,
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    tokenizer.train_from_iterator(CORPUS, trainer)
    return tokenizer


def gpt2():
    return byte_level(None, ["<|endoftext|>"])


def smollm2():
    tokenizer = byte_level(None, ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<repo_name>"])
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True),
                                                       pre_tokenizers.ByteLevel(add_prefix_space=False)])
    return tokenizer


def llama3():
    names = ["<|begin_of_text|>", "<|end_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"]
    tokenizer = byte_level(LLAMA3, [])
    tokenizer.add_special_tokens([AddedToken(name, special=True, normalized=False) for name in names])
    document = json.loads(tokenizer.to_str())
    document["model"]["ignore_merges"] = True
    # A word that no merges lead to.
    document["model"]["vocab"]["\u0120pipeturbine"] = len(document["model"]["vocab"])
    tokenizer = Tokenizer.from_str(json.dumps(document))
    bos = (names[0], tokenizer.token_to_id(names[0]))
    tokenizer.post_processor = processors.Sequence([
        processors.ByteLevel(trim_offsets=False),
        processors.TemplateProcessing(single=f"{names[0]} $A", pair=f"{names[0]} $A {names[0]}:1 $B:1", special_tokens=[bos])])
    return tokenizer


def qwen2():
    """With every flag that an added token can have."""
    tokenizer = byte_level(QWEN2, [])
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.add_special_tokens([AddedToken(name, special=True, normalized=False)
                                  for name in ("<|endoftext|>", "<|im_start|>", "<|im_end|>")])
    tokenizer.add_tokens([
        AddedToken("<tool_call>", normalized=False), AddedToken("</tool_call>", normalized=False),
        AddedToken("<mask>", lstrip=True, normalized=False), AddedToken("<fill>", rstrip=True, normalized=False),
        AddedToken("<both>", lstrip=True, rstrip=True, special=True, normalized=False),
        AddedToken("turbine", single_word=True, normalized=False), AddedToken("caf\u0065\u0301", normalized=True),
        AddedToken("<|im", normalized=False), AddedToken("  ", normalized=False)])
    return tokenizer


def gpt4o():
    return byte_level(GPT4O, ["<|endoftext|>"], vocab=600)


def spm_model(**options):
    """SentencePiece-style: characters, merges, byte tokens for the rest."""
    trained = Tokenizer(models.BPE())
    trained.pre_tokenizer = pre_tokenizers.Metaspace("\u2581", prepend_scheme="always")
    corpus = ["".join(c for c in text if c < "\u0460") for text in CORPUS]  # what is beyond stays unknown
    trained.train_from_iterator(corpus, trainers.BpeTrainer(vocab_size=500, show_progress=False))
    model = json.loads(trained.to_str())["model"]
    names = ["<unk>", "<s>", "</s>"] + [f"<0x{byte:02X}>" for byte in range(256)]
    tokens = sorted(model["vocab"], key=model["vocab"].get)
    vocab = {token: i for i, token in enumerate(names + tokens)}
    merges = [tuple(merge) for merge in model["merges"]]
    tokenizer = Tokenizer(models.BPE(vocab, merges, unk_token="<unk>", fuse_unk=True, **options))
    tokenizer.add_special_tokens([AddedToken(name, special=True, normalized=False) for name in names[:3]])
    tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A", pair="<s> $A <s>:1 $B:1",
                                                             special_tokens=[("<s>", 1)])
    tokenizer.decoder = decoders.Sequence([decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse(),
                                           decoders.Strip(" ", 1, 0)])
    return tokenizer


def spm_legacy():
    tokenizer = spm_model(byte_fallback=True)
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("\u2581"), normalizers.Replace(" ", "\u2581")])
    return tokenizer


def spm_first():
    tokenizer = spm_model(byte_fallback=True)
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace("\u2581", prepend_scheme="first", split=False)
    tokenizer.add_special_tokens([AddedToken(name, special=True, normalized=False) for name in ("<|im_start|>", "<|im_end|>")])
    return tokenizer


def spm_unknown():
    """Without byte tokens in use: unknown characters, fused; the Metaspace decoder; a suffix."""
    tokenizer = spm_model()
    tokenizer.normalizer = normalizers.NFKC()
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace("\u2581", prepend_scheme="always", split=True)
    tokenizer.decoder = decoders.Metaspace("\u2581", prepend_scheme="always")
    tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A </s>", pair="<s> $A </s> $B:1 </s>:1",
                                                             special_tokens=[("<s>", 1), ("</s>", 2)])
    return tokenizer


RULES = {"\ufb01": "fi", "e\u0301": "\u00e9", "\uff21": "A", "\t": " ", "\n": " ", "\r": " ", "\r\n": "\n", "\u3000": " ",
         "\u200b": "", "\u00bd": "1/2", "\u0958": "\u0915\u093c", "\U0001D7D8": "0", "\u212b": "\u00c5", "\u2126": "\u03a9"}


def bert():
    """WordPiece: characters, words that come twice, and the ends of words that come often."""
    normalizer = normalizers.BertNormalizer()
    pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    words = [word for text in CORPUS for word, _ in pre_tokenizer.pre_tokenize_str(normalizer.normalize_str(text))]
    counts = collections.Counter()
    for word in words:
        counts.update([word] * (len(word) > 1))
        counts.update("##" + word[-length:] for length in (2, 3, 4) if length < len(word))
    characters = sorted({c for word in words for c in word if c < "\u0530"})
    names = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    tokens = names + characters + ["##" + c for c in characters] + sorted(
        token for token, count in counts.items() if count > 1)
    tokenizer = Tokenizer(models.WordPiece({token: i for i, token in enumerate(tokens)}, unk_token="[UNK]",
                                           max_input_chars_per_word=40))
    tokenizer.normalizer = normalizer
    tokenizer.pre_tokenizer = pre_tokenizer
    tokenizer.decoder = decoders.WordPiece()
    tokenizer.add_special_tokens([AddedToken(name, special=True, normalized=False) for name in names])
    tokenizer.post_processor = template(tokenizer, "[CLS]:0 $A:0 [SEP]:0", "[CLS]:0 $A:0 [SEP]:0 $B:1 [SEP]:1")
    return tokenizer


def roberta():
    tokenizer = byte_level(None, ["<s>", "<pad>", "</s>", "<unk>"], vocab=600)
    tokenizer.add_special_tokens([AddedToken("<mask>", lstrip=True, special=True, normalized=False)])
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    tokenizer.post_processor = processors.RobertaProcessing(("</s>", tokenizer.token_to_id("</s>")),
                                                            ("<s>", tokenizer.token_to_id("<s>")))
    return tokenizer


def unigram():
    """XLM-RoBERTa's parts around the tokens of a BPE model, by their rank; some rules of normalization."""
    tokens = json.loads(spm_model().to_str())["model"]["vocab"]
    pieces = [(token, round(-1.37 * math.log(2 + rank), 6)) for rank, token in enumerate(list(tokens)[259:])]
    names = ["<s>", "<pad>", "</s>", "<unk>"]
    tokenizer = Tokenizer(models.Unigram([(name, 0.0) for name in names] + pieces, unk_id=3))
    tokenizer.normalizer = normalizers.Sequence([normalizers.Precompiled(charsmap(RULES)),
                                                 normalizers.Replace(Regex(" {2,}"), " ")])
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(),
                                                       pre_tokenizers.Metaspace("\u2581", prepend_scheme="always")])
    tokenizer.decoder = decoders.Metaspace("\u2581", prepend_scheme="always")
    tokenizer.add_special_tokens([AddedToken(name, special=True, normalized=False) for name in names])
    tokenizer.post_processor = template(tokenizer, "<s> $A </s>", "<s> $A </s> </s> $B </s>")
    return tokenizer


TOKENIZERS = {"gpt2": gpt2, "smollm2": smollm2, "llama3": llama3, "qwen2": qwen2, "gpt4o": gpt4o,
              "spm-legacy": spm_legacy, "spm-first": spm_first, "spm-unknown": spm_unknown,
              "bert": bert, "roberta": roberta, "unigram": unigram}
ONE_SHOT = ["bert", "roberta", "unigram", "llama3", "gpt2"]


def cases(tokenizer, seed):
    added = [token.content for token in tokenizer.get_added_tokens_decoder().values()]
    tokens = [tokenizer.decode([i], skip_special_tokens=False) for i in range(tokenizer.get_vocab_size())]
    strings = [data for data in make_strings(CASES * 2, seed, added, tokens) if len(data) <= LONGEST][:CASES]
    for i, data in enumerate(strings):
        text = data.decode("utf-8", "replace")
        add, parse = i % 3 != 1, i % 4 != 3
        tokenizer.encode_special_tokens = not parse
        ids = tokenizer.encode(text, add_special_tokens=add).ids
        tokenizer.encode_special_tokens = False
        case = {"text": text} if text.encode("utf-8") == data else {"bytes": data.hex()}
        case |= {} if add else {"add_special_tokens": False}
        case |= {} if parse else {"parse_special_tokens": False}
        yield case | {"ids": ids, "decoded": tokenizer.decode(ids, skip_special_tokens=False),
                      "decoded_plain": tokenizer.decode(ids, skip_special_tokens=True)}


def inputs(tokenizer, seed):
    """Pairs of every proportion, cut to lengths that touch none, one or both."""
    rng = random.Random(seed)
    for i in range(INPUTS):
        text, pair = (" ".join(rng.choice(WORDS) for _ in range(rng.choice([0, 1, 4, 12]))) for _ in range(2))
        limit = rng.choice([0, 5, 8, 13, 20])
        tokenizer.no_truncation()
        if limit:
            tokenizer.enable_truncation(limit, strategy="longest_first")
        encoding = tokenizer.encode(text, pair if i % 3 else None)
        yield {"text": text} | ({"pair": pair} if i % 3 else {}) | {"max_tokens": limit, "ids": encoding.ids,
                                                                    "types": encoding.type_ids}
    tokenizer.no_truncation()


def state(component):
    return json.loads(component.__getstate__())


TEXTS = ["Hello world", " two  spaces ", "the-final--countdown", "-", "--a-", "a1b22c\u0663\u2460x", "It's  $5, OK?!\n\nYes\r\n",
         "\u00e9e\u0301 \ufb01ne \uff21\u212b \u0130I\u0307", "x\u3000y\u00a0z\u180e!", "\u2581a \u2581\u2581b", "don't we'LL I'\u017F",
         "\u4f60\u597d\uff0c\u4e16\u754c! 123456", "_a_\u200db \u203fc", "\tTab\x0b\x0c\x85 ", SPACES]


def pre_tokenizer_cases():
    split = pre_tokenizers.Split
    behaviors = ["removed", "isolated", "merged_with_previous", "merged_with_next", "contiguous"]
    steps = [split("-", behavior, invert=invert) for behavior in behaviors for invert in (False, True)]
    steps += [split(Regex(r"\s+"), behavior) for behavior in behaviors]
    steps += [split(Regex(pattern), "isolated") for pattern in (
        r"\w+", r"\h", r"[^\w\s]+", r"\p{N}{1,2}+", r"\p{L}{2}?", r"x*", r"(?i:'S|'LL)", r"[\p{L}\p{M}]++|.", r"(?m:.)",
        r"a{,2}b|l{2}", r"\u0065|\x{6F}", r"(?<=l)o", r"(?>l+)o", r"^.", r"o$", r"[[:digit:]]+", LLAMA3, QWEN2, GPT4O)]
    steps += [pre_tokenizers.Digits(individual_digits=flag) for flag in (False, True)]
    steps += [pre_tokenizers.Metaspace("\u2581", prepend_scheme=scheme, split=flag)
              for scheme in ("first", "never", "always") for flag in (False, True)]
    steps += [pre_tokenizers.Whitespace(), pre_tokenizers.WhitespaceSplit(), pre_tokenizers.BertPreTokenizer(),
              pre_tokenizers.CharDelimiterSplit("l")]
    steps += [pre_tokenizers.Punctuation(behavior) for behavior in behaviors]
    steps += [pre_tokenizers.ByteLevel(add_prefix_space=prefix, use_regex=regex)
              for prefix in (False, True) for regex in (False, True)]
    steps += [pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace("\u2581", prepend_scheme="first")]),
              pre_tokenizers.Sequence([pre_tokenizers.Digits(True), pre_tokenizers.Punctuation("isolated"),
                                       pre_tokenizers.ByteLevel(add_prefix_space=True)])]
    return [{"pre_tokenizer": state(step), "cases": [{"text": text, "pieces": [p for p, _ in step.pre_tokenize_str(text)]}
                                                     for text in TEXTS]} for step in steps]


def normalizer_cases():
    n = normalizers
    steps = [n.NFC(), n.NFD(), n.NFKC(), n.NFKD(), n.Lowercase(), n.Strip(), n.Strip(left=True, right=False),
             n.Strip(left=False, right=True), n.Prepend("\u2581"), n.Replace(" ", "\u2581"), n.Replace("l", ""),
             n.Replace(Regex(r" {2,}"), "\u2581"), n.Replace(Regex(r"\p{N}"), "0"),
             n.Sequence([n.NFD(), n.Lowercase(), n.Replace(Regex(r"\p{Mn}"), "")]), n.Sequence([]), n.ByteLevel(),
             n.Nmt(), n.StripAccents(), n.Sequence([n.NFD(), n.StripAccents()]), n.Precompiled(charsmap(RULES))]
    steps += [n.BertNormalizer(clean_text=clean, handle_chinese_chars=chinese, strip_accents=strip, lowercase=lower)
              for clean, chinese in ((True, True), (False, False)) for strip in (None, False, True) for lower in (True, False)]
    marks = "a\u0316\u0301\u0323\u0300b \u1e69 s\u0323\u0307 \uac01\u1100\u1161\u11a8 \u0915\u093c \U00011935\U00011930 \u32ff \u08d3\u0301 \ufdfa"
    return [{"normalizer": state(step), "cases": [{"text": text, "normalized": step.normalize_str(text)}
                                                  for text in TEXTS + [marks, ""]]} for step in steps]


def decoder_cases():
    d = decoders
    steps = [d.ByteLevel(), d.Metaspace("\u2581", prepend_scheme="always"), d.Metaspace("\u2581", prepend_scheme="never"),
             d.Metaspace("\u2581", prepend_scheme="first"),
             d.Sequence([d.Replace("\u2581", " "), d.ByteFallback(), d.Fuse(), d.Strip(" ", 1, 0)]),
             d.Sequence([d.Replace("\u2581", " "), d.ByteFallback(), d.Fuse()]), d.Sequence([d.Strip("\u2581", 1, 0), d.Fuse()]),
             d.Fuse(), d.ByteFallback(), d.WordPiece(), d.WordPiece(prefix="@@", cleanup=False)]
    lists = [["\u2581Hello", "\u2581world", "!"], ["\u2581", "\u2581a\u2581", "b"], ["<0xE4>", "<0xBD>", "<0xA0>", "x"],
             ["\u0120a", "\u00c3", "\u00a9", "<|end|>", "\u010a"], ["a b", "\u0120c"], ["\u2581\u2581\u2581x"], [],
             ["##un", "##able", "it", "@@s", "'", "s", ",", "do not", "n't", "!"]]
    return [{"decoder": state(step), "cases": [{"tokens": tokens, "text": step.decode(tokens)} for tokens in lists]}
            for step in steps]


def write(path, data, **options):
    with open(path, "w", encoding="utf-8") as file:
        json.dump(data, file, ensure_ascii=False, **options)
        file.write("\n")


def write_lines(path, items):
    """One item per line, so that a change shows as a change of its own lines."""
    with open(path, "w", encoding="utf-8") as file:
        file.write("[\n" + ",\n".join(json.dumps(item, ensure_ascii=True) for item in items) + "\n]\n")


def main():
    folder = sys.argv[1] if len(sys.argv) > 1 else os.path.join(os.path.dirname(os.path.abspath(__file__)), "../data/tokenizers")
    os.makedirs(folder, exist_ok=True)
    for seed, (name, make) in enumerate(TOKENIZERS.items()):
        document = json.loads(make().to_str())
        if name == "gpt2":  # the older spelling
            document["model"]["merges"] = [" ".join(merge) for merge in document["model"]["merges"]]
        write(os.path.join(folder, name + ".json"), document, separators=(",", ":"))
        tokenizer = Tokenizer.from_str(json.dumps(document))
        write_lines(os.path.join(folder, name + ".cases.json"), cases(tokenizer, seed + 1))
        if name in ONE_SHOT:
            write_lines(os.path.join(folder, name + ".inputs.json"), inputs(tokenizer, seed + 1))
    write_lines(os.path.join(folder, "pre_tokenizers.json"), pre_tokenizer_cases())
    write_lines(os.path.join(folder, "normalizers.json"), normalizer_cases())
    write_lines(os.path.join(folder, "decoders.json"), decoder_cases())


if __name__ == "__main__":
    main()
