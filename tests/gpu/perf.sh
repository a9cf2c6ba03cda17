#!/bin/sh
# Time a Keye-like graph's operations in several builds, turn by turn, on the first CUDA GPU.
#   sh tests/gpu/perf.sh OUT_DIR GRAPH_OPS BIN_DIR...      (OUT_DIR gets <name of BIN_DIR>.<round>.log)
# Nothing else may run on the machine meanwhile.
set -eu
out=$1 graph=$2
shift 2
mkdir -p "$out"
for round in 1 2 3; do
    for bin in "$@"; do
        "$bin/test-backend-ops" perf -b CUDA0 --test-file "$graph" >"$out/$(basename "$bin").$round.log" 2>&1
    done
done
