#!/bin/sh
# Test one build's kernels on the first CUDA GPU and count its launches.
#   sh tests/gpu/measure.sh BIN_DIR TREE OUT_DIR [operations of test-backend-ops, all]
# OUT_DIR gets suite.log (every case against the CPU), launches.txt (most threads a block of every
# kernel in it) and graph.log and graph-launches.txt (a Keye-like graph's operations, with every
# launch above 256 threads refused).
set -eu
bin=$1 tree=$2 out=$3 ops=${4:-}
here=$(dirname "$0")
mkdir -p "$out"
cc -shared -fPIC -O2 "$here/launches.c" -o "$out/launches.so" -ldl
python3 "$here/graph_ops.py" "$tree" >"$out/graph_ops.txt"
count() { LD_PRELOAD=$out/launches.so KEYELAB_LAUNCH_LOG=$1 KEYELAB_LAUNCH_LIMIT=$2; export LD_PRELOAD KEYELAB_LAUNCH_LOG KEYELAB_LAUNCH_LIMIT; }
rm -f "$out/launches.txt" "$out/graph-launches.txt"
(count "$out/launches.txt" 1024; exec "$bin/test-backend-ops" test -b CUDA0 -j 8 ${ops:+-o "$ops"}) \
    >"$out/suite.log" 2>&1 || echo "the suite ended with status $?"
(count "$out/graph-launches.txt" 256; exec "$bin/test-backend-ops" test -b CUDA0 --test-file "$out/graph_ops.txt") \
    >"$out/graph.log" 2>&1 || echo "the graph ended with status $?"
