#!/bin/sh
# Usage: kernel_symbols.sh NM LIBRARY
# The kernels of an instruction set must not define anything the linker may merge with another
# file's copy (weak symbols: inline functions, templates): it might keep the one with instructions
# that the CPU lacks.
set -eu
nm=$1
library=$2
symbols=$("$nm" -A -C "$library" | grep -E 'kernels_avx[0-9a-z]*\.cc')
[ -n "$symbols" ] || { echo "no kernel objects in $library"; exit 1; }
shared=$(echo "$symbols" | grep -E ' [VWu] ' | grep -v 'DW.ref.' || true)  # DW.ref: data of the unwinder
if [ -n "$shared" ]; then
  echo "symbols that the linker may merge:"
  echo "$shared"
  exit 1
fi
