/* Starts two kernels the way compiled CUDA code does: by handle (CUDA 13) and by host function. */
#include <stdio.h>

typedef struct { unsigned x, y, z; } dim3;
void __cudaRegisterFunction(void **, const char *, char *, const char *, int, void *, void *, void *, void *, int *);
int  __cudaGetKernel(void **, const void *);
int  __cudaLaunchKernel(const void *, dim3, dim3, void **, unsigned long, void *);
int  cudaLaunchKernelExC(const dim3 *, const void *, void **);

static char wide[128], narrow[128];

int main(void) {
    dim3   one = { 1, 1, 1 };
    dim3   extended[2] = { one, { 64, 1, 1 } };
    void * handle;
    __cudaRegisterFunction(0, wide, wide, "_Z4widePf", -1, 0, 0, 0, 0, 0);
    __cudaRegisterFunction(0, narrow, narrow, "_Z6narrowPf", -1, 0, 0, 0, 0, 0);
    __cudaGetKernel(&handle, wide);
    printf("%d\n", __cudaLaunchKernel(handle, one, (dim3) { 32, 4, 1 }, 0, 0, 0));
    printf("%d\n", __cudaLaunchKernel(handle, one, (dim3) { 1024, 1, 1 }, 0, 0, 0));
    printf("%d\n", cudaLaunchKernelExC(extended, narrow, 0));
    return 0;
}
