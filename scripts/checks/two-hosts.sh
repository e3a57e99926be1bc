#!/usr/bin/env bash
# Two network namespaces as two hosts, with delay, loss and a 1 Gbit cap between them: same tokens, predicted speed.
#
# Needs root, and quiet; some minutes.
set -euo pipefail
cd "$(dirname "$0")/../.."
. scripts/lib.sh

build_preset release penstock
fetch_model
if ! command -v iptables >/dev/null; then
  echo "iptables: installing"
  quietly apt-get install -y --no-install-recommends iptables
fi
python3 -B scripts/checks/two_hosts.py build/release/cli/penstock "$MODEL"
