#!/bin/sh
# Writes the list of kernel families, one X(name) for each DP_KERNEL_FAMILY(name, ...) that the given
# files end in, in alphabetical order: what families.h includes.
set -eu
echo '#define DP_KERNEL_FAMILIES(X) \'
sed -n 's/^DP_KERNEL_FAMILY(\([a-z0-9_]*\),.*/  X(\1) \\/p' "$@" | LC_ALL=C sort
echo '  /* that is all */'
