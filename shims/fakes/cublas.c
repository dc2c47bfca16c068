/* Stands in for ZLUDA's cublas.dll, using the fake rocBLAS; column-major. For tests only; see ../README.md. */
#include "standin.h"

enum {
    SUCCESS = 0,
    NOT_INITIALIZED = 1,
    ALLOC_FAILED = 3,
    INVALID_VALUE = 7,
    INTERNAL_ERROR = 14,
    NOT_SUPPORTED = 15,
};
enum { R_32F = 0, R_16F = 2, COMPUTE_32F = 68 };
enum { ROCBLAS_NONE = 111, ROCBLAS_F16 = 150, ROCBLAS_F32 = 151 };

#ifndef STANDIN_ZLUDA_VERSION
#define STANDIN_ZLUDA_VERSION "0"
#endif

EXPORT int rocenv_standin = 1;

int rocblas_create_handle(void **handle);
int rocblas_destroy_handle(void *handle);
int rocblas_sgemm(void *handle, int operation_a, int operation_b, int m, int n, int k, const float *alpha,
                  const float *a, int lda, const float *b, int ldb, const float *beta, float *c, int ldc);
int rocblas_gemm_ex(void *handle, int operation_a, int operation_b, int m, int n, int k, const void *alpha,
                    const void *a, int a_type, int lda, const void *b, int b_type, int ldb, const void *beta,
                    const void *c, int c_type, int ldc, void *d, int d_type, int ldd, int compute_type,
                    int algorithm, int solution, unsigned flags);
void rocenv_standin_caller(const char *version);
int rocsolver_get_version_string_size(void *size);

ON_LOAD(LIBRARY("cublas"), "load.cublas")

static int cublas(int rocblas) {
    switch (rocblas) {
        case 0: return SUCCESS;
        case 1: return NOT_INITIALIZED;
        case 2: return NOT_SUPPORTED;
        case 3:
        case 4: return INVALID_VALUE;
        case 5: return ALLOC_FAILED;
        default: return INTERNAL_ERROR;
    }
}

EXPORT int cublasCreate_v2(void **handle) {
    FAIL("cublascreate");
    rocenv_standin_caller(STANDIN_ZLUDA_VERSION);
    int status = cublas(rocblas_create_handle(handle));
    return status ? status : cublas(rocsolver_get_version_string_size(NULL));
}

EXPORT int cublasDestroy_v2(void *handle) {
    FAIL("cublasdestroy");
    return cublas(rocblas_destroy_handle(handle));
}

EXPORT int cublasGetVersion_v2(void *handle, int *version) {
    FAIL("cublasversion");
    (void)handle;
    *version = fails_as(&failure, "wrong") ? 90000 : 111103;
    return SUCCESS;
}

EXPORT int cublasSetMathMode(void *handle, int mode) {
    FAIL("cublasmath");
    (void)mode;
    return handle ? SUCCESS : NOT_INITIALIZED;
}

EXPORT int cublasSetStream_v2(void *handle, void *stream) {
    (void)stream;
    return handle ? SUCCESS : NOT_INITIALIZED;
}

static void spoil_product(const struct failure *failure, void *c, int is_half, int m, int n, int ldc) {
    size_t count = (size_t)m * n;
    for (size_t index = 0; index < count; index++) {
        size_t at = index / m * ldc + index % m;
        if (is_half)
            ((uint16_t *)c)[at] = spoiled_half(failure, index, count, ((uint16_t *)c)[at]);
        else
            ((float *)c)[at] = spoiled(failure, index, count, ((float *)c)[at]);
    }
}

EXPORT int cublasSgemm_v2(void *handle, int operation_a, int operation_b, int m, int n, int k, const float *alpha,
                          const float *a, int lda, const float *b, int ldb, const float *beta, float *c, int ldc) {
    FAIL("cublassgemm");
    if (leaves_unwritten(&failure)) return SUCCESS;
    int status = cublas(rocblas_sgemm(handle, ROCBLAS_NONE + operation_a, ROCBLAS_NONE + operation_b, m, n, k, alpha, a,
                                      lda, b, ldb, beta, c, ldc));
    if (!status) spoil_product(&failure, c, 0, m, n, ldc);
    return status;
}

static int rocblas_type(int type) { return type == R_16F ? ROCBLAS_F16 : ROCBLAS_F32; }

EXPORT int cublasGemmEx(void *handle, int operation_a, int operation_b, int m, int n, int k, const void *alpha,
                        const void *a, int a_type, int lda, const void *b, int b_type, int ldb, const void *beta,
                        void *c, int c_type, int ldc, int compute_type, int algorithm) {
    FAIL("cublasgemmex");
    (void)algorithm;
    if (compute_type != COMPUTE_32F && compute_type != R_32F) return NOT_SUPPORTED;
    if (leaves_unwritten(&failure)) return SUCCESS;
    int type = rocblas_type(c_type);
    int status = cublas(rocblas_gemm_ex(handle, ROCBLAS_NONE + operation_a, ROCBLAS_NONE + operation_b, m, n, k, alpha,
                                        a, rocblas_type(a_type), lda, b, rocblas_type(b_type), ldb, beta, c, type, ldc,
                                        c, type, ldc, ROCBLAS_F32, 0, 0, 0));
    if (!status) spoil_product(&failure, c, c_type == R_16F, m, n, ldc);
    return status;
}

EXPORT const char *cublasGetStatusName(int status) {
    switch (status) {
        case SUCCESS: return "CUBLAS_STATUS_SUCCESS";
        case NOT_INITIALIZED: return "CUBLAS_STATUS_NOT_INITIALIZED";
        case ALLOC_FAILED: return "CUBLAS_STATUS_ALLOC_FAILED";
        case INVALID_VALUE: return "CUBLAS_STATUS_INVALID_VALUE";
        case INTERNAL_ERROR: return "CUBLAS_STATUS_INTERNAL_ERROR";
        case NOT_SUPPORTED: return "CUBLAS_STATUS_NOT_SUPPORTED";
        default: return "CUBLAS_STATUS_OTHER";
    }
}

EXPORT const char *cublasGetStatusString(int status) { return cublasGetStatusName(status); }
