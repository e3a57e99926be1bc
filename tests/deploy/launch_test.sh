#!/usr/bin/env bash
# launch_test.sh LAUNCH: deploy/launch.sh under each launcher's environment, with a program that says how it was called.
set -uo pipefail
launch=$1
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cat >"$folder/penstock" <<'SH'
#!/bin/sh
echo "$*" >>"$CALLS"
if [ "$1" = serve ]; then
  until grep -q "^shard" "$CALLS"; do sleep 0.05; done # it is started beside the leader
  exit "${SERVE_CODE:-0}"
fi
[ -z "${SHARD_SECONDS:-}" ] || exec sleep "$SHARD_SECONDS"
SH
cat >"$folder/scontrol" <<'SH'
#!/bin/sh
[ "$1 $2 $3" = "show hostnames n[1-3]" ] && printf 'n1\nn2\nn3\n'
SH
chmod +x "$folder/penstock" "$folder/scontrol"
failed=0

expect() { # expect WHAT CODE CALLS -- VARIABLE=VALUE... -- ARGUMENT...: calls divided by ";", sorted
  local what=$1 code=$2 calls=$3 environment=() got status=0
  shift 4
  while [ "$1" != -- ]; do environment+=("$1"); shift; done
  shift
  : >"$folder/calls"
  env -i PATH="$folder:$PATH" CALLS="$folder/calls" PENSTOCK_PROGRAM="$folder/penstock" "${environment[@]}" \
    timeout 20 sh "$launch" "$@" 2>"$folder/errors" || status=$?
  got=$(sort "$folder/calls" | paste -sd ';')
  if [ "$status" != "$code" ] || [ "$got" != "$calls" ]; then
    printf '%s\n  exit code %s, expected %s\n  %s\nexpected\n  %s\n' "$what" "$status" "$code" "$got" "$calls" >&2
    cat "$folder/errors" >&2
    failed=1
  fi
}

expect "Slurm, another node" 0 "shard --listen n2:7000 --data-address n2 --shard-token-file t" \
  -- SLURM_JOB_NODELIST='n[1-3]' SLURM_NODEID=1 PENSTOCK_SHARD_OPTIONS='--shard-token-file t' -- 2 --model m
expect "LeaderWorkerSet, a worker" 0 "shard --listen p-0-2.p.ns:9 --data-address 10.0.0.3 --insecure" \
  -- LWS_LEADER_ADDRESS=p-0.p.ns LWS_GROUP_SIZE=3 LWS_WORKER_INDEX=2 PENSTOCK_SHARD_PORT=9 \
  PENSTOCK_DATA_ADDRESS=10.0.0.3 PENSTOCK_SHARD_OPTIONS=--insecure -- 1 --model m
expect "mpirun, rank 1" 0 "shard --listen b:7000 --data-address b" \
  -- PENSTOCK_HOSTS=a,b OMPI_COMM_WORLD_RANK=1 -- 1
expect "PMI, rank 0: the leader, whose exit code counts" 3 \
  "serve --workers a:7000*4,b:7000*4 --model m --pipeline 2;shard --listen a:7000 --data-address a" \
  -- PENSTOCK_HOSTS=a,b PMI_RANK=0 SERVE_CODE=3 SHARD_SECONDS=30 -- 4 --model m --pipeline 2
expect "LeaderWorkerSet, the leader" 0 \
  "serve --workers p-0.p.ns:7000*1,p-0-1.p.ns:7000*1 --model m;shard --listen p-0.p.ns:7000 --data-address p-0.p.ns" \
  -- LWS_LEADER_ADDRESS=p-0.p.ns LWS_GROUP_SIZE=2 LWS_WORKER_INDEX=0 SHARD_SECONDS=30 -- 1 --model m
expect "no hosts" 2 "" -- X=1 -- 1 --model m
expect "no index" 2 "" -- PENSTOCK_HOSTS=a,b -- 1
expect "an index beyond the hosts" 2 "" -- PENSTOCK_HOSTS=a,b OMPI_COMM_WORLD_RANK=2 -- 1
expect "no ranks" 2 "" -- X=1 --
exit $failed
