#!/usr/bin/env bash
# Usage: neon_kernels.sh SOURCE-FOLDER KERNEL_CHECK COMPILER EMULATOR
# Builds the kernels for 64-bit ARM, runs them under the emulator, and compares the results of NEON
# and of plain C++ there, and of all instruction sets here, with those of plain C++ here
# (KERNEL_CHECK), bit by bit. Compiles the rest
# of the CPU backend for it, too, as far as headers that are the same on all processors go.
set -euo pipefail
source=$1 check=$2 compiler=$3 emulator=$4
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$source"
flags=(-std=c++20 -ffp-contract=off -Wall -Wextra -Werror -I.)

mkdir "$folder/headers"
for library in absl nlohmann; do ln -s "/usr/include/$library" "$folder/headers/$library"; done
for file in shard/base/*.cc shard/comm/*.cc shard/checkpoint/half_conversion_portable.cc shard/backend/cpu/*.cc; do
  case $file in *_x86.cc | *_avx*.cc) continue ;; esac
  echo "$file"
done | xargs -P "$(nproc)" -n 1 "$compiler" "${flags[@]}" -isystem "$folder/headers" -fsyntax-only

for file in shard/backend/cpu/kernels_scalar.cc shard/backend/cpu/kernels_neon.cc tests/kernels/kernel_check.cc; do
  echo "$file"
done | (cd "$folder" && xargs -P "$(nproc)" -I {} "$compiler" "${flags[@]}" -I "$source" -O2 -fno-math-errno -c "$source/{}")
"$compiler" -static "$folder"/*.o -o "$folder/check"

"$check" scalar >"$folder/here"
alike() { # ISA WHERE COMMAND...
  "${@:3}" "$1" >"$folder/there"
  diff "$folder/here" "$folder/there" || { echo "the results of $1 on $2 differ"; exit 1; }
}
for isa in $("$check"); do alike "$isa" "this processor" "$check"; done
for isa in $("$emulator" "$folder/check"); do alike "$isa" ARM "$emulator" "$folder/check"; done
echo "$(wc -l <"$folder/here") kernels give the same bits"
