/* Stands in for torch_cuda.dll and does the work of the fake torch on "cuda". It loads cuBLAS by name, so it gets the
   library that was loaded before; the same applies to nvcuda.dll, which it loads on first use, like the CUDA runtime.
   For tests only; see ../README.md. */
#include "standin.h"

typedef uintptr_t device_pointer;

EXPORT int rocenv_standin = 1;

int cublasCreate_v2(void **handle);
int cublasSetMathMode(void *handle, int mode);
int cublasSgemm_v2(void *handle, int operation_a, int operation_b, int m, int n, int k, const float *alpha,
                   const float *a, int lda, const float *b, int ldb, const float *beta, float *c, int ldc);
const char *cublasGetStatusName(int status);
int cublasLtCreate(void *handle);
int cudnnCreate(void *handle);

ON_LOAD(LIBRARY("torch_cuda"), "load.torch_cuda")

static char error[256];

/* The last error. */
EXPORT const char *standin_error(void) { return error; }

static int failed(const char *what, int status, const char *name) {
    snprintf(error, sizeof error, "CUDA error: %s when calling `%s` (%d)", name, what, status);
    return 1;
}

/* ---------------------------------------------------------------- the driver */

static int (*get_count)(int *), (*get_name)(char *, int, int), (*get_current)(void **), (*retain)(void **, int);
static int (*set_current)(void *), (*allocate)(device_pointer *, size_t), (*release)(device_pointer);
static int (*upload)(device_pointer, const void *, size_t), (*download)(void *, device_pointer, size_t);
static int (*synchronize)(void), (*name_of)(int, const char **);

static int driver_failed(const char *what, int status) {
    const char *name = NULL;
    if (name_of) name_of(status, &name);
    return failed(what, status, name ? name : "unknown error");
}

static int bind(void) {
    HMODULE driver = LoadLibraryA("nvcuda.dll");
    int (*initialize)(unsigned) = (int (*)(unsigned))function_of(driver, "cuInit");
    if (!initialize) return failed("LoadLibrary(\"nvcuda.dll\")", (int)GetLastError(), "this machine has no driver");
    const struct {
        const char *name;
        void *into;
    } functions[] = {
        {"cuDeviceGetCount", &get_count}, {"cuDeviceGetName", &get_name},  {"cuDevicePrimaryCtxRetain", &retain},
        {"cuCtxGetCurrent", &get_current}, {"cuCtxSetCurrent", &set_current}, {"cuMemAlloc_v2", &allocate},
        {"cuMemFree_v2", &release},       {"cuMemcpyHtoD_v2", &upload},    {"cuMemcpyDtoH_v2", &download},
        {"cuCtxSynchronize", &synchronize}, {"cuGetErrorName", &name_of},
    };
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
        void *found = function_of(driver, functions[i].name);
        if (!found) return failed(functions[i].name, -1, "missing in nvcuda.dll");
        memcpy(functions[i].into, &found, sizeof found);
    }
    int status = initialize(0);
    return status ? driver_failed("cuInit", status) : 0;
}

/* Return 0 if there is a driver with a current context. */
static int ready(void) {
    static int state = -1;
    if (state < 0) state = bind();
    return state;
}

static int have_context(void) {
    void *context = NULL;
    if (ready()) return 1;
    int status = get_current(&context);
    if (!status && !context) status = retain(&context, 0);
    if (!status) status = set_current(context);
    return status ? driver_failed("cuDevicePrimaryCtxRetain", status) : 0;
}

/* ---------------------------------------------------------------- functions for the package; 0 = success */

EXPORT int standin_device_count(int *count) {
    *count = 0;
    if (ready()) return 1;
    int status = get_count(count);
    return status ? driver_failed("cuDeviceGetCount", status) : 0;
}

EXPORT int standin_device_name(int device, char *name, int size) {
    if (ready()) return 1;
    int status = get_name(name, size, device);
    return status ? driver_failed("cuDeviceGetName", status) : 0;
}

EXPORT int standin_upload(device_pointer *to, const void *from, size_t size) {
    if (have_context()) return 1;
    int status = allocate(to, size ? size : 1);
    if (status) return driver_failed("cuMemAlloc", status);
    status = upload(*to, from, size);
    return status ? driver_failed("cuMemcpyHtoD", status) : 0;
}

EXPORT int standin_download(void *to, device_pointer from, size_t size) {
    if (have_context()) return 1;
    int status = synchronize();
    if (status) return driver_failed("cuCtxSynchronize", status);
    status = download(to, from, size);
    return status ? driver_failed("cuMemcpyDtoH", status) : 0;
}

EXPORT int standin_free(device_pointer pointer) {
    if (have_context()) return 1;
    int status = release(pointer);
    return status ? driver_failed("cuMemFree", status) : 0;
}

/* C = A * B, float32, all row-major: cuBLAS computes the transposed product in column-major order. */
EXPORT int standin_matmul(device_pointer a, device_pointer b, device_pointer *c, int m, int n, int k) {
    static void *handle;
    const float one = 1, zero = 0;
    if (have_context()) return 1;
    int status = handle ? 0 : cublasCreate_v2(&handle);
    if (status) return failed("cublasCreate(handle)", status, cublasGetStatusName(status));
    status = cublasSetMathMode(handle, 0);
    if (status) return failed("cublasSetMathMode(handle, math_mode)", status, cublasGetStatusName(status));
    status = allocate(c, sizeof(float) * (size_t)m * n);
    if (status) return driver_failed("cuMemAlloc", status);
    status = cublasSgemm_v2(handle, 0, 0, n, m, k, &one, (float *)b, n, (float *)a, k, &zero, (float *)*c, n);
    return status ? failed("cublasSgemm(handle, ...)", status, cublasGetStatusName(status)) : 0;
}

/* Whether the library that torch uses by default is available. */
EXPORT int standin_use_cublaslt(void) {
    int status = cublasLtCreate(NULL);
    return status ? failed("cublasLtCreate(handle)", status, "CUBLAS_STATUS_NOT_INITIALIZED") : 0;
}

EXPORT int standin_use_cudnn(void) {
    int status = cudnnCreate(NULL);
    return status ? failed("cudnnCreate(handle)", status, "CUDNN_STATUS_NOT_INITIALIZED") : 0;
}
