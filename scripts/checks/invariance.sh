#!/usr/bin/env bash
# Tokens and logits' bits do not depend on cut, chunk size, steps in flight, company or preemption.
set -euo pipefail
cd "$(dirname "$0")/../.."
. scripts/lib.sh
build_preset release check_invariance
fetch_model
exec build/release/tests/tools/check_invariance "$MODEL"
