// One kernel, one launch: what the compiler and the card make of it. `probe THREADS` prints JSON
// objects, one a line. Built several times, each time with one thing changed:
//   -DBOUND=N                            the kernel has an explicit bound
//   --gpu-max-threads-per-block=1024     it has none, the compiler's default is raised
//   -DSDOT4, -DDOT2                      it computes one of the two dot products
// The kernel needs few registers: a launch over its bound fits the card and does not stall it.
#include <hip/hip_runtime.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#ifdef BOUND
#define BOUNDS __launch_bounds__(BOUND)
#else
#define BOUNDS
#endif

constexpr unsigned MOST_THREADS = 1024;
// 0, 1, -1, 2, -2, 0.5, -0.5 and 3 as half precision: sums of two products are exact in float
constexpr uint16_t HALF_BITS[] = {0x0000, 0x3c00, 0xbc00, 0x4000, 0xc000, 0x3800, 0xb800, 0x4200};
constexpr float HALF_VALUES[] = {0.0f, 1.0f, -1.0f, 2.0f, -2.0f, 0.5f, -0.5f, 3.0f};

static __global__ void BOUNDS work(const uint32_t * a, const uint32_t * b, uint32_t * out) {
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
#if defined(SDOT4) && defined(__HIP_DEVICE_COMPILE__)
    out[i] = __builtin_amdgcn_sdot4((int) a[i], (int) b[i], (int) i, false);
#elif defined(DOT2) && defined(__HIP_DEVICE_COMPILE__)
    float sum = (float) i;
    asm volatile("v_dot2_f32_f16 %0, %1, %2, %0" : "+v"(sum) : "v"(a[i]), "v"(b[i]));
    out[i] = __float_as_uint(sum);
#else
    // each thread hands its value to the opposite one: all waves have to be there
    __shared__ uint32_t held[MOST_THREADS];
    held[threadIdx.x] = a[i];
    __syncthreads();
    out[i] = held[blockDim.x - 1 - threadIdx.x] ^ b[i];
#endif
}

static uint32_t random_bits() {
    static uint32_t state = 1;
    state = state * 1664525u + 1013904223u;
    return state >> 8;
}

static uint32_t input() {
#ifdef DOT2
    return HALF_BITS[random_bits() % 8] | (uint32_t) HALF_BITS[random_bits() % 8] << 16;
#else
    return random_bits() << 16 | (random_bits() & 0xffff);
#endif
}

[[maybe_unused]] static float half_value(uint32_t bits) {
    for (int n = 0; n < 8; n++) {
        if (HALF_BITS[n] == (uint16_t) bits) {
            return HALF_VALUES[n];
        }
    }
    return 0.0f;
}

static uint32_t expected(const std::vector<uint32_t> & a, const std::vector<uint32_t> & b,
                         unsigned i, [[maybe_unused]] unsigned threads) {
#if defined(SDOT4)
    int sum = (int) i;
    for (int byte = 0; byte < 4; byte++) {
        sum += (int8_t) (a[i] >> 8 * byte) * (int8_t) (b[i] >> 8 * byte);
    }
    return (uint32_t) sum;
#elif defined(DOT2)
    const float sum = (float) i + half_value(a[i]) * half_value(b[i]) +
                      half_value(a[i] >> 16) * half_value(b[i] >> 16);
    uint32_t bits;
    std::memcpy(&bits, &sum, sizeof bits);
    return bits;
#else
    const unsigned first = i - i % threads;
    return a[first + threads - 1 - i % threads] ^ b[i];
#endif
}

static void require(hipError_t code, const char * call) {
    if (code != hipSuccess) {
        std::printf("\n{\"error\": \"%s: %s\"}\n", call, hipGetErrorName(code));
        std::exit(3);
    }
}

static uint32_t * on_card(const std::vector<uint32_t> & values) {
    void * pointer = nullptr;
    const size_t size = values.size() * sizeof(uint32_t);
    require(hipMalloc(&pointer, size), "hipMalloc");
    require(hipMemcpy(pointer, values.data(), size, hipMemcpyHostToDevice), "hipMemcpy");
    return (uint32_t *) pointer;
}

int main(int argc, char ** argv) {
    std::setvbuf(stdout, nullptr, _IOLBF, 1 << 12); // a killed process leaves whole lines
    const unsigned threads = argc == 2 ? (unsigned) std::atoi(argv[1]) : 0;
    if (threads == 0 || threads > MOST_THREADS) {
        std::fprintf(stderr, "usage: probe THREADS (1 to %u)\n", MOST_THREADS);
        return 2;
    }
    int count = 0;
    require(hipGetDeviceCount(&count), "hipGetDeviceCount");
    hipDeviceProp_t card;
    require(hipGetDeviceProperties(&card, 0), "hipGetDeviceProperties");
    std::printf("{\"devices\": %d, \"name\": \"%s\", \"arch\": \"%s\", \"max_block_threads\": %d, "
                "\"wavefront_lanes\": %d, \"shared_block_bytes\": %zu, \"multiprocessors\": %d, "
                "\"memory_bytes\": %zu, \"pci_address\": \"%04x:%02x:%02x.0\"}\n",
                count, card.name, card.gcnArchName, card.maxThreadsPerBlock, card.warpSize,
                (size_t) card.sharedMemPerBlock, card.multiProcessorCount,
                (size_t) card.totalGlobalMem, card.pciDomainID, card.pciBusID, card.pciDeviceID);
    hipFuncAttributes kernel;
    require(hipFuncGetAttributes(&kernel, (const void *) work), "hipFuncGetAttributes");
    std::printf("{\"kernel_bound_threads\": %d}\n", kernel.maxThreadsPerBlock);

    const unsigned blocks = card.multiProcessorCount > 0 ? (unsigned) card.multiProcessorCount : 1;
    std::vector<uint32_t> a(blocks * threads), b(a.size()), out(a.size());
    for (unsigned i = 0; i < a.size(); i++) {
        a[i] = input();
        b[i] = input();
    }
    for (unsigned i = 0; i < a.size(); i++) {
        out[i] = ~expected(a, b, i, threads); // a slot that is not written stays wrong
    }
    uint32_t * a_card = on_card(a);
    uint32_t * b_card = on_card(b);
    uint32_t * out_card = on_card(out);
    void * arguments[] = {&a_card, &b_card, &out_card};
    std::printf("{\"launch_threads\": %u}\n", threads);
    hipError_t code = hipLaunchKernel((const void *) work, dim3(blocks), dim3(threads), arguments, 0, 0);
    code = code == hipSuccess ? hipGetLastError() : code;
    code = code == hipSuccess ? hipDeviceSynchronize() : code;
    if (code == hipSuccess) {
        code = hipMemcpy(out.data(), out_card, out.size() * sizeof(uint32_t), hipMemcpyDeviceToHost);
    }
    unsigned right = 0;
    for (unsigned i = 0; i < out.size(); i++) {
        right += out[i] == expected(a, b, i, threads);
    }
    // the runtime may have printed a line without an end
    std::printf("\n{\"status\": \"%s\", \"right\": %u, \"slots\": %zu}\n", hipGetErrorName(code), right,
                out.size());
    return code == hipSuccess && right == out.size() ? 0 : 1;
}
