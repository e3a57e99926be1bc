#!/bin/sh
# Starts this host's part of a server that is spread over several hosts; the same command runs on each of
# them, under Slurm (srun), a Kubernetes LeaderWorkerSet, or mpirun and the like:
#
#   launch.sh RANKS-PER-HOST SERVE-OPTION...
#
# On every host a `penstock shard` runs, on the first one also the leader, `penstock serve` with these options. Which
# hosts there are is read from what the launcher sets: SLURM_JOB_NODELIST and SLURM_NODEID;
# LWS_LEADER_ADDRESS, LWS_GROUP_SIZE and LWS_WORKER_INDEX; or, elsewhere, PENSTOCK_HOSTS ("a,b,c") and
# OMPI_COMM_WORLD_RANK, PMI_RANK or PENSTOCK_HOST_INDEX.
#
#   PENSTOCK_PROGRAM        penstock
#   PENSTOCK_SHARD_PORT     7000
#   PENSTOCK_DATA_ADDRESS   address of this host for activations; this host's name in the list
#   PENSTOCK_SHARD_OPTIONS  for every `penstock shard`: --shard-token-file, --shard-tls-..., or --insecure
set -eu

[ $# -ge 1 ] || { echo "usage: launch.sh RANKS-PER-HOST SERVE-OPTION..." >&2; exit 2; }
ranks=$1
shift
program=${PENSTOCK_PROGRAM:-penstock} port=${PENSTOCK_SHARD_PORT:-7000}

if [ -n "${SLURM_JOB_NODELIST:-}" ]; then
  hosts=$(scontrol show hostnames "$SLURM_JOB_NODELIST") index=$SLURM_NODEID
elif [ -n "${LWS_LEADER_ADDRESS:-}" ]; then
  # name-GROUP.service.namespace is the leader, name-GROUP-1.service.namespace the first worker.
  first=${LWS_LEADER_ADDRESS%%.*} rest=${LWS_LEADER_ADDRESS#*.}
  hosts=$LWS_LEADER_ADDRESS index=$LWS_WORKER_INDEX i=1
  while [ "$i" -lt "$LWS_GROUP_SIZE" ]; do hosts="$hosts $first-$i.$rest" i=$((i + 1)); done
elif [ -n "${PENSTOCK_HOSTS:-}" ]; then
  hosts=$(echo "$PENSTOCK_HOSTS" | tr ',' ' ')
  index=${OMPI_COMM_WORLD_RANK:-${PMI_RANK:-${PENSTOCK_HOST_INDEX:?launch.sh: which of the hosts is this?}}}
else
  echo "launch.sh: neither Slurm, a LeaderWorkerSet nor PENSTOCK_HOSTS says which hosts there are" >&2
  exit 2
fi

workers= mine= i=0
for host in $hosts; do
  workers="$workers${workers:+,}$host:$port*$ranks"
  [ "$i" != "$index" ] || mine=$host
  i=$((i + 1))
done
[ -n "$mine" ] || { echo "launch.sh: there is no host $index among: $hosts" >&2; exit 2; }

# A worker that dies is started again; one that is asked to end has ended well.
keep_shard() {
  child=
  trap 'kill "$child" 2>/dev/null || true; exit 0' TERM INT
  while :; do
    # Options are words.
    # shellcheck disable=SC2086
    "$program" shard --listen "$mine:$port" --data-address "${PENSTOCK_DATA_ADDRESS:-$mine}" \
      ${PENSTOCK_SHARD_OPTIONS:-} &
    child=$!
    wait "$child" && exit 0
    echo "launch.sh: the shard has ended, starting it again" >&2
    sleep 1
  done
}

[ "$index" = 0 ] || keep_shard
keep_shard &
shard=$!
"$program" serve --workers "$workers" "$@" &
leader=$!
trap 'kill "$leader" 2>/dev/null || true' TERM INT
status=0
wait "$leader" || status=$?
# A signal ends the wait, not the leader: it drains.
while kill -0 "$leader" 2>/dev/null; do wait "$leader" || status=$?; done
kill "$shard" 2>/dev/null || true
exit $status
