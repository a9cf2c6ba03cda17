// The names that ggml-cuda uses of hipBLAS, for compiles that link nothing.
#pragma once
#include <hip/hip_runtime_api.h>

typedef void * hipblasHandle_t;
typedef enum { HIPBLAS_OP_N, HIPBLAS_OP_T } hipblasOperation_t;
typedef enum { HIPBLAS_R_16F, HIPBLAS_R_32F, HIPBLAS_R_16B } hipblasDatatype_t;
typedef enum { HIPBLAS_GEMM_DEFAULT } hipblasGemmAlgo_t;
typedef enum { HIPBLAS_SIDE_RIGHT } hipblasSideMode_t;
typedef enum { HIPBLAS_FILL_MODE_UPPER } hipblasFillMode_t;
typedef enum { HIPBLAS_DIAG_NON_UNIT } hipblasDiagType_t;
typedef enum {
    HIPBLAS_STATUS_SUCCESS,
    HIPBLAS_STATUS_NOT_INITIALIZED,
    HIPBLAS_STATUS_ALLOC_FAILED,
    HIPBLAS_STATUS_INVALID_VALUE,
    HIPBLAS_STATUS_ARCH_MISMATCH,
    HIPBLAS_STATUS_MAPPING_ERROR,
    HIPBLAS_STATUS_EXECUTION_FAILED,
    HIPBLAS_STATUS_INTERNAL_ERROR,
    HIPBLAS_STATUS_NOT_SUPPORTED,
} hipblasStatus_t;

template <class... A> hipblasStatus_t hipblasCreate(A...);
template <class... A> hipblasStatus_t hipblasDestroy(A...);
template <class... A> hipblasStatus_t hipblasSetStream(A...);
template <class... A> hipblasStatus_t hipblasGemmEx(A...);
template <class... A> hipblasStatus_t hipblasGemmBatchedEx(A...);
template <class... A> hipblasStatus_t hipblasGemmStridedBatchedEx(A...);
template <class... A> hipblasStatus_t hipblasSgemm(A...);
template <class... A> hipblasStatus_t hipblasSgemmBatched(A...);
template <class... A> hipblasStatus_t hipblasSgemmStridedBatched(A...);
template <class... A> hipblasStatus_t hipblasStrsmBatched(A...);
