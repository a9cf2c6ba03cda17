# As DTK's own: it reads variables that may not be set, and a shell with set -u stops here.
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
export ROCM_PATH=$here
export HIP_PATH=$here
export DTK_HOME=$here
export PATH=$here/bin:$here/llvm/bin:$PATH
export LD_LIBRARY_PATH=$here/lib:/opt/hyhal/lib:$LD_LIBRARY_PATH
export CMAKE_PREFIX_PATH=$here/lib/cmake:$CMAKE_PREFIX_PATH
