#!/bin/sh
# Build a llama.cpp tree's kernels for a CUDA GPU and copy programs and libraries away.
#   sh tests/gpu/build.sh TREE BUILD_DIR BIN_DIR [compute capability without the dot, 90]
# A second tree in the same place compiles only what changed.
set -eu
tree=$1 build=$2 bin=$3 arch=${4:-90}
cmake -S "$tree" -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_BUILD_RPATH_USE_ORIGIN=ON \
    -DGGML_CUDA=ON -DGGML_CUDA_FORCE_MMQ=ON -DCMAKE_CUDA_ARCHITECTURES="$arch" -DLLAMA_BUILD_TESTS=ON \
    -DLLAMA_BUILD_SERVER=OFF -DLLAMA_BUILD_EXAMPLES=OFF -DLLAMA_BUILD_APP=OFF -DLLAMA_BUILD_UI=OFF \
    -DLLAMA_OPENSSL=OFF >"$build.cmake.log"
ninja -C "$build" test-backend-ops llama-completion >"$build.ninja.log"
rm -rf "$bin"
cp -a "$build/bin" "$bin"
