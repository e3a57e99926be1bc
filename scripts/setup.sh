#!/usr/bin/env bash
# Installs what a bare Debian 12 or Ubuntu 24.04 lacks to build Penstock; does nothing where all is
# there already, so that it also works offline.
#
#   scripts/setup.sh [build|test]...    build: compilers and libraries; test (default): all of it
set -euo pipefail

BUILD=(g++ cmake ninja-build ccache git pkg-config python3 python3-venv python3-pip
  libgloo-dev libgrpc++-dev protobuf-compiler protobuf-compiler-grpc libprotobuf-dev libabsl-dev
  prometheus-cpp-dev libcurl4-openssl-dev libpcre2-dev libutf8proc-dev libyaml-cpp-dev nlohmann-json3-dev
  libcli11-dev libspdlog-dev libzip-dev libssl-dev libgtest-dev libgmock-dev)
# clang-format 14: another version formats differently. The fuzzers' library is not in the package clang.
# The ARM compiler and qemu run the NEON kernels; valgrind counts instructions.
TEST=(clang clang-format-14 libclang-rt-dev g++-aarch64-linux-gnu qemu-user valgrind)

wanted=("${BUILD[@]}")
for set in "${@:-test}"; do
  case "$set" in
    build) ;;
    test) wanted+=("${TEST[@]}") ;;
    *) echo "setup.sh: '$set' is neither build nor test" >&2; exit 2 ;;
  esac
done

# A tool that is there by other means than its package will do.
have() {
  case "$1" in
    g++ | cmake | ccache | git | python3 | clang | clang-format-14 | valgrind) command -v "$1" >/dev/null ;;
    ninja-build) command -v ninja >/dev/null ;;
    libclang-rt-dev) compgen -G '/usr/lib/llvm-*/lib/clang/*/lib/linux/libclang_rt.fuzzer-*.a' >/dev/null ;;
    python3-venv) python3 -c 'import venv, ensurepip' 2>/dev/null ;;
    python3-pip) python3 -m pip --version >/dev/null 2>&1 ;;
    *) dpkg-query -W -f='${db:Status-Status}' "$1" 2>/dev/null | grep -qx installed ;;
  esac
}

# Packages that carry the compiler's version in their names.
full_name() {
  case "$1" in
    libclang-rt-dev) (. /etc/os-release && [ "$ID" = ubuntu ] && echo libclang-rt-18-dev || echo libclang-rt-14-dev) ;;
    *) echo "$1" ;;
  esac
}

missing=()
for package in "${wanted[@]}"; do
  have "$package" || missing+=("$(full_name "$package")")
done
if [ ${#missing[@]} -eq 0 ]; then
  echo "setup: everything is installed"
  exit 0
fi

echo "setup: installing ${missing[*]}"
command -v apt-get >/dev/null || {
  echo "setup.sh: needs apt-get (Debian 12 or Ubuntu 24.04) to install: ${missing[*]}" >&2
  exit 1
}
root=()
if [ "$(id -u)" -ne 0 ]; then
  command -v sudo >/dev/null || { echo "setup.sh: run it as root, or install sudo" >&2; exit 1; }
  root=(sudo)
fi
log=$(mktemp)
trap 'rm -f "$log"' EXIT
apt() {
  "${root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -y -q -o Acquire::Retries=3 \
    -o DPkg::Lock::Timeout=300 "$@" >"$log" 2>&1
}
for attempt in 1 2 3; do
  if apt update && apt install --no-install-recommends "${missing[@]}"; then
    echo "setup: done"
    exit 0
  fi
  echo "setup: attempt $attempt failed" >&2
  sleep $((attempt * 5))
done
tail -30 "$log" >&2
exit 1
