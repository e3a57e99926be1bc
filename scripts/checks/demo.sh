#!/usr/bin/env bash
# The demo's answer equals the reference's; its first token comes within 3 s of the server's start.
set -euo pipefail
cd "$(dirname "$0")/../.."
exec scripts/demo.sh
