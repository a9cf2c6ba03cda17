// Three kernels of our own. kernels.s is what clang 19.1.7 made of them (Debian 12, 2026-11-30):
// clang++-19 -x hip --cuda-device-only -nogpuinc -nogpulib --offload-arch=gfx906 -S -O3 kernels.hip
#define __device__ __attribute__((device))
#define __global__ __attribute__((global))
#define __shared__ __attribute__((shared))
#define __launch_bounds__(n) __attribute__((amdgpu_flat_work_group_size(1, n)))

enum weight_type { Q4 = 2, Q5 = 3 };

__device__ static unsigned lane() { return __builtin_amdgcn_workitem_id_x(); }

template <weight_type type, bool small> __launch_bounds__(small ? 64 : 128)
static __global__ void mul_mat_vec_q(const int * a, const int * b, int * out) {
    int sum = 0;
    for (int i = 0; i < type; ++i) {
        sum = __builtin_amdgcn_sdot4(a[lane()*type + i], b[lane()*type + i], sum, false);
    }
    out[lane()] = sum;
}

template <int shift> static __global__ void plain(float * out) {
    __shared__ float slots[256];
    slots[lane() & 255] = out[lane()];
    __builtin_amdgcn_s_barrier();
    out[lane()] = slots[(lane() + shift) & 255];
}

extern "C" __global__ __attribute__((amdgpu_num_vgpr(6))) void spilled(float * out, int n) {
    float kept[5];
#pragma unroll
    for (int i = 0; i < 5; ++i) {
        kept[i] = out[lane() + 64*i];
    }
    for (int k = 0; k < n; ++k) {
#pragma unroll
        for (int i = 0; i < 5; ++i) {
            kept[i] = kept[i]*kept[(i*7 + 3) % 5] + 1.0f;
        }
    }
#pragma unroll
    for (int i = 0; i < 5; ++i) {
        out[lane() + 64*i] = kept[i];
    }
}

template __global__ void mul_mat_vec_q<Q4, false>(const int *, const int *, int *);
template __global__ void mul_mat_vec_q<Q5, true>(const int *, const int *, int *);
template __global__ void plain<-1>(float *);
