#!/usr/bin/env bash
# The recorded timeline is sound and agrees with the metrics; the load generator's report renders in a browser.
#
#   reports.sh [FOLDER]   keeps trace.json, report.html and report.png there
set -euo pipefail
cd "$(dirname "$0")/../.."
. scripts/lib.sh

folder=${1:-build/reports}
mkdir -p "$folder"
folder=$(realpath "$folder") # the browser wants a whole path
build_preset release penstock
fetch_model
if ! command -v chromium >/dev/null; then
  echo "chromium: installing"
  quietly apt-get install -y --no-install-recommends chromium
fi
exec python3 -B scripts/checks/reports.py build/release/cli/penstock "$MODEL" "$folder" "$(command -v chromium)"
