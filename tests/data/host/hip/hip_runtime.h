// A stand-in for the HIP runtime, for tests: a kernel's threads are threads of the CPU. The
// environment variable CARD says what the pretended card does:
//   prints    a launch over the bound is announced and goes on, with the threads below the bound
//   refuses   a launch over the bound is an error
//   hangs     a launch of 1,024 threads does not end
//   crashes   a launch of 1,024 threads kills the process
//   busy      no memory can be had
//   none      there is no card
#pragma once
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#define __HIP_DEVICE_COMPILE__ 1
#define __global__
#define __shared__ static
#define __launch_bounds__(n)
#if defined(BOUND)
constexpr unsigned bound = BOUND;
#elif defined(RAISED)
constexpr unsigned bound = RAISED;
#else
constexpr unsigned bound = 256;
#endif

struct dim3 {
    unsigned x;
    dim3(unsigned n = 0) : x(n) {}
};
inline thread_local dim3 threadIdx, blockIdx, blockDim;
inline pthread_barrier_t all_threads;
inline void __syncthreads() { pthread_barrier_wait(&all_threads); }
inline uint32_t __float_as_uint(float value) {
    uint32_t bits;
    std::memcpy(&bits, &value, sizeof bits);
    return bits;
}
#define __builtin_amdgcn_sdot4 sdot4
inline int sdot4(int a, int b, int sum, bool) {
    for (int byte = 0; byte < 4; byte++) {
        sum += (int8_t) (a >> 8 * byte) * (int8_t) (b >> 8 * byte);
    }
    return sum;
}

inline std::string pretended() {
    const char * said = std::getenv("CARD");
    return said ? said : "prints";
}

enum hipError_t { hipSuccess, hipErrorNoDevice, hipErrorOutOfMemory, hipErrorLaunchFailure };
inline const char * hipGetErrorName(hipError_t code) {
    const char * names[] = {"hipSuccess", "hipErrorNoDevice", "hipErrorOutOfMemory",
                            "hipErrorLaunchFailure"};
    return names[code];
}
enum hipMemcpyKind { hipMemcpyHostToDevice, hipMemcpyDeviceToHost };
struct hipDeviceProp_t {
    const char *name, *gcnArchName;
    int maxThreadsPerBlock, warpSize, multiProcessorCount, pciDomainID, pciBusID, pciDeviceID;
    size_t sharedMemPerBlock, totalGlobalMem;
};
struct hipFuncAttributes {
    int maxThreadsPerBlock;
};

inline hipError_t hipGetDeviceCount(int * count) {
    *count = 1;
    return pretended() == "none" ? hipErrorNoDevice : hipSuccess;
}
inline hipError_t hipGetDeviceProperties(hipDeviceProp_t * card, int) {
    *card = {"pretended card", "gfx928:sramecc+:xnack-", 1024, 64, 2, 0, 9, 0, 65536, 1 << 30};
    return hipSuccess;
}
inline hipError_t hipFuncGetAttributes(hipFuncAttributes * kernel, const void *) {
    kernel->maxThreadsPerBlock = bound;
    return hipSuccess;
}
inline hipError_t hipMalloc(void ** pointer, size_t size) {
    *pointer = std::malloc(size);
    return pretended() == "busy" ? hipErrorOutOfMemory : hipSuccess;
}
inline hipError_t hipMemcpy(void * to, const void * from, size_t size, hipMemcpyKind) {
    std::memcpy(to, from, size);
    return hipSuccess;
}
inline hipError_t hipGetLastError() { return hipSuccess; }
inline hipError_t hipDeviceSynchronize() { return hipSuccess; }

inline hipError_t hipLaunchKernel(const void * kernel, dim3 blocks, dim3 threads, void ** arguments,
                                  size_t, int) {
    if (threads.x == 1024 && pretended() == "hangs") {
        pause();
    }
    if (threads.x == 1024 && pretended() == "crashes") {
        std::abort();
    }
    if (threads.x > bound && pretended() == "refuses") {
        return hipErrorLaunchFailure;
    }
    if (threads.x > bound) {
        std::fprintf(stderr, "Launch params (%u, 1, 1) are larger than launch bounds (%u) for kernel "
                     "work, please recompile", threads.x, bound);
    }
    using Kernel = void (*)(const uint32_t *, const uint32_t *, uint32_t *);
    const auto a = *(uint32_t **) arguments[0], b = *(uint32_t **) arguments[1];
    const auto out = *(uint32_t **) arguments[2];
    const unsigned present = std::min(threads.x, bound);
    for (unsigned block = 0; block < blocks.x; block++) {
        pthread_barrier_init(&all_threads, nullptr, present);
        std::vector<std::thread> running;
        for (unsigned thread = 0; thread < present; thread++) {
            running.emplace_back([=] {
                threadIdx = thread;
                blockIdx = block;
                blockDim = threads;
                ((Kernel) kernel)(a, b, out);
            });
        }
        for (auto & one : running) {
            one.join();
        }
        pthread_barrier_destroy(&all_threads);
    }
    return hipSuccess;
}
