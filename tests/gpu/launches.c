/* Preloaded beside a CUDA program that uses the shared CUDA runtime: counts every kernel launch.
 *
 * KEYELAB_LAUNCH_LOG=FILE     at exit, one line a kernel: most threads a block, launches, name
 * KEYELAB_LAUNCH_LIMIT=N      a launch of more than N threads a block is refused with
 *                             cudaErrorInvalidConfiguration and written to FILE at once
 *
 *   cc -shared -fPIC -O2 launches.c -o liblaunches.so -ldl
 *   LD_PRELOAD=./liblaunches.so KEYELAB_LAUNCH_LOG=launches.txt test-backend-ops ...
 *
 * Up to CUDA 12 the launch stub calls cudaLaunchKernel with the host function; from CUDA 13 on it
 * asks __cudaGetKernel for a handle first and calls __cudaLaunchKernel with that.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct { unsigned x, y, z; } dim3;
typedef int cudaError_t;

enum { SLOTS = 1 << 16, INVALID_CONFIGURATION = 9 };

typedef struct {
    const void * key;     /* host function or kernel handle */
    const char * name;    /* mangled */
    unsigned     threads; /* most a block */
    unsigned long launches;
} Entry;

static Entry entries[SLOTS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static Entry * entry(const void * key) {
    size_t slot = ((size_t) key >> 4) % SLOTS;
    for (size_t tried = 0; tried < SLOTS; tried++, slot = (slot + 1) % SLOTS) {
        if (!entries[slot].key) entries[slot].key = key;
        if (entries[slot].key == key) return &entries[slot];
    }
    fputs("launches: more kernels than slots\n", stderr);
    abort();
}

static void * real(const char * symbol) {
    void * found = dlsym(RTLD_NEXT, symbol);
    if (!found) {
        fprintf(stderr, "launches: the runtime has no %s\n", symbol);
        abort();
    }
    return found;
}

static void write_line(const char * mark, const Entry * e, unsigned threads) {
    const char * path = getenv("KEYELAB_LAUNCH_LOG");
    FILE * log = path ? fopen(path, "a") : stderr;
    if (!log) return;
    fprintf(log, "%s%u %lu %s\n", mark, threads, e->launches, e->name ? e->name : "?");
    if (path) fclose(log);
}

static int refused(const void * key, dim3 block) {
    const char * limit = getenv("KEYELAB_LAUNCH_LIMIT");
    unsigned threads = block.x * block.y * block.z;
    pthread_mutex_lock(&lock);
    Entry * e = entry(key);
    e->launches++;
    if (threads > e->threads) e->threads = threads;
    int above = limit && threads > (unsigned) atoi(limit);
    if (above) write_line("refused ", e, threads);
    pthread_mutex_unlock(&lock);
    return above;
}

void __cudaRegisterFunction(void ** fat, const char * host, char * device, const char * name, int limit,
                            void * tid, void * bid, void * block, void * grid, int * warp) {
    pthread_mutex_lock(&lock);
    entry(host)->name = strdup(name);
    pthread_mutex_unlock(&lock);
    ((void (*)(void **, const char *, char *, const char *, int, void *, void *, void *, void *, int *))
         real("__cudaRegisterFunction"))(fat, host, device, name, limit, tid, bid, block, grid, warp);
}

cudaError_t __cudaGetKernel(void ** kernel, const void * host) {
    cudaError_t status = ((cudaError_t (*)(void **, const void *)) real("__cudaGetKernel"))(kernel, host);
    pthread_mutex_lock(&lock);
    if (!status) entry(*kernel)->name = entry(host)->name;
    pthread_mutex_unlock(&lock);
    return status;
}

#define LAUNCH(SYMBOL)                                                                              \
    cudaError_t SYMBOL(const void * f, dim3 grid, dim3 block, void ** args, size_t shared, void * s) { \
        if (refused(f, block)) return INVALID_CONFIGURATION;                                        \
        return ((cudaError_t (*)(const void *, dim3, dim3, void **, size_t, void *)) real(#SYMBOL))( \
            f, grid, block, args, shared, s);                                                       \
    }

LAUNCH(__cudaLaunchKernel)
LAUNCH(cudaLaunchKernel)
LAUNCH(cudaLaunchCooperativeKernel)

typedef struct { dim3 grid, block; } Config; /* cudaLaunchConfig_t begins with these */

cudaError_t cudaLaunchKernelExC(const Config * config, const void * f, void ** args) {
    if (refused(f, config->block)) return INVALID_CONFIGURATION;
    return ((cudaError_t (*)(const Config *, const void *, void **)) real("cudaLaunchKernelExC"))(config, f, args);
}

__attribute__((destructor)) static void report(void) {
    if (!getenv("KEYELAB_LAUNCH_LOG")) return;
    for (size_t slot = 0; slot < SLOTS; slot++) {
        if (entries[slot].launches) write_line("", &entries[slot], entries[slot].threads);
    }
}
