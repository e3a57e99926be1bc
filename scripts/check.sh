#!/usr/bin/env bash
# scripts/check.sh            lists the checks
# scripts/check.sh NAME ...   runs one (scripts/checks/NAME.sh) on a built tree; what follows NAME is for it
#
# A check prints its figures and, last, "NAME: <figure> (goal <goal>): ok" or "short"; it exits with 0
# only on ok.
set -euo pipefail
cd "$(dirname "$0")/.."
if [ $# -eq 0 ]; then
  for check in scripts/checks/*.sh; do
    printf '%-12s %s\n' "$(basename "$check" .sh)" "$(sed -n '2s/^# //p' "$check")"
  done
  exit 0
fi
check=scripts/checks/$1.sh
[ -f "$check" ] || { echo "check.sh: no check '$1'; without a name I list them" >&2; exit 2; }
shift
exec bash "$check" "$@"
