#!/bin/sh
# Writes an empty table in place of each that the loops of an instruction set would fill, for a build
# that leaves the set out. isa/isa.c never chooses such a table. With them, everything else is compiled
# and linked the same as in a build that has the loops.
# usage: write_empty_tables.sh ISA HEADER... (the headers with DP_ISA_TABLE in them)
set -eu
isa=$1
shift
echo '/* Written by write_empty_tables.sh. */'
for header in "$@"; do
  echo "$header" | sed 's|.*/src/|#include "|; s|$|"|'
done
sed -n 's/^DP_ISA_TABLE(\([a-z0-9_]*\), \([a-z0-9_]*\)).*/const \1 \2_'"$isa"';/p' "$@"
