/* Stands in for libtorch_hip and does the work of the fake torch on "cuda" in a ROCm build. It loads HIP and rocBLAS by
   name. For tests only; see ../README.md. */
#include "standin.h"

int hipInit(unsigned flags);
int hipGetDeviceCount(int *count);
int hipMalloc(void **pointer, size_t size);
int hipFree(void *pointer);
int hipMemcpy(void *to, const void *from, size_t size, int kind);
int hipDeviceSynchronize(void);
int rocblas_create_handle(void **handle);
int rocblas_sgemm(void *handle, int operation_a, int operation_b, int m, int n, int k, const float *alpha,
                  const float *a, int lda, const float *b, int ldb, const float *beta, float *c, int ldc);

enum { HOST_TO_DEVICE = 1, DEVICE_TO_HOST = 2, OPERATION_NONE = 111 };

EXPORT int rocenv_standin = 1;

ON_LOAD(LIBRARY("torch_hip"), "load.torch_hip")

static char error[256];

/* The last error. */
EXPORT const char *standin_error(void) { return error; }

static int checked(const char *what, int status) {
    if (status) snprintf(error, sizeof error, "HIP error: %d when calling `%s`", status, what);
    return status != 0;
}

EXPORT int standin_device_count(int *count) {
    *count = 0;
    return checked("hipInit", hipInit(0)) || checked("hipGetDeviceCount", hipGetDeviceCount(count));
}

EXPORT int standin_device_name(int device, char *name, int size) {
    snprintf(name, (size_t)size, "Stand-in GPU %d", device);
    return 0;
}

EXPORT int standin_upload(void **to, const void *from, size_t size) {
    if (checked("hipMalloc", hipMalloc(to, size ? size : 1))) return 1;
    return checked("hipMemcpy", hipMemcpy(*to, from, size, HOST_TO_DEVICE));
}

EXPORT int standin_download(void *to, void *from, size_t size) {
    if (checked("hipDeviceSynchronize", hipDeviceSynchronize())) return 1;
    return checked("hipMemcpy", hipMemcpy(to, from, size, DEVICE_TO_HOST));
}

EXPORT int standin_free(void *pointer) { return checked("hipFree", hipFree(pointer)); }

/* C = A * B, float32, all row-major: rocBLAS computes the transposed product in column-major order. */
EXPORT int standin_matmul(void *a, void *b, void **c, int m, int n, int k) {
    static void *handle;
    const float one = 1, zero = 0;
    if (!handle && checked("rocblas_create_handle", rocblas_create_handle(&handle))) return 1;
    if (checked("hipMalloc", hipMalloc(c, sizeof(float) * (size_t)m * (size_t)n))) return 1;
    return checked("rocblas_sgemm", rocblas_sgemm(handle, OPERATION_NONE, OPERATION_NONE, n, m, k, &one, b, n, a, k,
                                                  &zero, *c, n));
}

EXPORT int standin_use_cublaslt(void) { return 0; }
EXPORT int standin_use_cudnn(void) { return 0; }
