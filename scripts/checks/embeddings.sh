#!/usr/bin/env bash
# Embeddings of the real encoder against the reference implementation's.
#
# Usage: scripts/check.sh embeddings [FOLDER]; FOLDER holds all-MiniLM-L6-v2 (models/all-MiniLM-L6-v2).
set -euo pipefail
cd "$(dirname "$0")/../.."
. scripts/lib.sh

folder=${1:-models/all-MiniLM-L6-v2}
[ -f "$folder/model.safetensors" ] || { echo "embeddings: $folder has no model.safetensors" >&2; exit 2; }
build_preset release check_embeddings
exec build/release/tests/tools/check_embeddings "$folder" tests/data/reference/all-MiniLM-L6-v2.json
