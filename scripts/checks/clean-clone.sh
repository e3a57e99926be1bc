#!/usr/bin/env bash
# scripts/test.sh passes in a clean clone of HEAD with a cold compiler cache, within 45 minutes.
set -euo pipefail
cd "$(dirname "$0")/../.."
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
git clone -q . "$folder/penstock"
begin=$SECONDS
result=ok
CCACHE_DIR="$folder/ccache" "$folder/penstock/scripts/test.sh" || result=short
minutes=$(awk -v s=$((SECONDS - begin)) 'BEGIN {printf "%.1f", s / 60}')
awk -v m="$minutes" 'BEGIN {exit !(m > 45)}' && result=short
echo "clean-clone: $minutes min (goal all tests pass within 45 min): $result"
[ "$result" = ok ]
