/* The CUDA runtime's launch functions as far as launches.c knows them; every launch succeeds. */
typedef struct { unsigned x, y, z; } dim3;

void __cudaRegisterFunction(void ** f, const char * h, char * d, const char * n, int l, void * t, void * b,
                            void * B, void * g, int * w) {
    (void) f; (void) h; (void) d; (void) n; (void) l; (void) t; (void) b; (void) B; (void) g; (void) w;
}

int __cudaGetKernel(void ** kernel, const void * host) {
    *kernel = (char *) host + 64;
    return 0;
}

#define LAUNCH(SYMBOL)                                                                     \
    int SYMBOL(const void * f, dim3 grid, dim3 block, void ** a, unsigned long n, void * s) { \
        (void) f; (void) grid; (void) block; (void) a; (void) n; (void) s;                 \
        return 0;                                                                          \
    }
LAUNCH(__cudaLaunchKernel)
LAUNCH(cudaLaunchKernel)
LAUNCH(cudaLaunchCooperativeKernel)

int cudaLaunchKernelExC(const dim3 * config, const void * f, void ** a) {
    (void) config; (void) f; (void) a;
    return 0;
}
