/* Stands in for NVIDIA's cuBLAS in a torch wheel on a machine without NVIDIA's driver: it can be loaded, but every
   call returns an error. For tests only; see ../README.md. */
#include "standin.h"

enum { NOT_INITIALIZED = 1 };

EXPORT int rocenv_standin = 1;

ON_LOAD(STANDIN_NAME, "load.nvidia")

static int no_driver(const char *function) {
    fprintf(stderr, "NVIDIA's %s: %s: there is no NVIDIA driver\n", STANDIN_NAME, function);
    return NOT_INITIALIZED;
}

EXPORT int cublasCreate_v2(void **handle) {
    (void)handle;
    return no_driver(__func__);
}

EXPORT int cublasDestroy_v2(void *handle) {
    (void)handle;
    return no_driver(__func__);
}

EXPORT int cublasGetVersion_v2(void *handle, int *version) {
    (void)handle, (void)version;
    return no_driver(__func__);
}

EXPORT int cublasSetMathMode(void *handle, int mode) {
    (void)handle, (void)mode;
    return no_driver(__func__);
}

EXPORT int cublasSgemm_v2(void *handle, int operation_a, int operation_b, int m, int n, int k, const float *alpha,
                          const float *a, int lda, const float *b, int ldb, const float *beta, float *c, int ldc) {
    (void)handle, (void)operation_a, (void)operation_b, (void)m, (void)n, (void)k, (void)alpha, (void)a, (void)lda;
    (void)b, (void)ldb, (void)beta, (void)c, (void)ldc;
    return no_driver(__func__);
}

EXPORT int cublasGemmEx(void *handle) {
    (void)handle;
    return no_driver(__func__);
}

EXPORT const char *cublasGetStatusName(int status) {
    return status == NOT_INITIALIZED ? "CUBLAS_STATUS_NOT_INITIALIZED" : "CUBLAS_STATUS_OTHER";
}

EXPORT const char *cublasGetStatusString(int status) { return cublasGetStatusName(status); }
