/* Stands in for ZLUDA's nvcuda.dll: CUDA's driver API, using the fake HIP. For tests only; see ../README.md. */
#include "standin.h"

enum {
    SUCCESS = 0,
    INVALID_VALUE = 1,
    OUT_OF_MEMORY = 2,
    NOT_INITIALIZED = 3,
    NO_DEVICE = 100,
    INVALID_DEVICE = 101,
    INVALID_CONTEXT = 201,
    INVALID_PTX = 218,
    NOT_FOUND = 500,
    ILLEGAL_ADDRESS = 700,
    LAUNCH_FAILED = 719,
    UNKNOWN = 999,
};
enum { HOST_TO_DEVICE = 1, DEVICE_TO_HOST = 2 };
enum { WARP_SIZE = 10, CAPABILITY_MAJOR = 75, CAPABILITY_MINOR = 76 }; /* device attributes */
enum { HIP_OUT_OF_MEMORY = 2, HIP_NO_DEVICE = 100, HIP_INVALID_DEVICE = 101, HIP_ILLEGAL_ADDRESS = 700 };

#ifndef STANDIN_CUDA_VERSION
#define STANDIN_CUDA_VERSION 12020
#endif

typedef uintptr_t device_pointer;

EXPORT int rocenv_standin = 1;

int hipInit(unsigned flags);
int hipGetDeviceCount(int *count);
int hipSetDevice(int device);
int hipDeviceGetName(char *name, int size, int device);
int hipDeviceTotalMem(size_t *bytes, int device);
int hipDeviceSynchronize(void);
int hipMalloc(void **pointer, size_t size);
int hipFree(void *pointer);
int hipMemcpy(void *to, const void *from, size_t size, int kind);
int hipMemGetInfo(size_t *available, size_t *total);
int hipMemset(void *to, int value, size_t size);
int hipModuleLoadData(void **module, const void *image);
int hipModuleGetFunction(void **function, void *module, const char *name);
int hipModuleLaunchKernel(void *function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                          unsigned block_y, unsigned block_z, unsigned shared, void *stream, void **params,
                          void **extra);
int hipModuleUnload(void *module);
void rocenv_standin_target(char *name, size_t size);

ON_LOAD(LIBRARY("nvcuda"), "load.nvcuda")

static int initialized;
static char the_context[] = "context";
static char *current; /* context */

static int cuda(int hip) {
    switch (hip) {
        case 0: return SUCCESS;
        case HIP_OUT_OF_MEMORY: return OUT_OF_MEMORY;
        case HIP_NO_DEVICE: return NO_DEVICE;
        case HIP_INVALID_DEVICE: return INVALID_DEVICE;
        case HIP_ILLEGAL_ADDRESS: return ILLEGAL_ADDRESS;
        case 1: return INVALID_VALUE;
        default: return UNKNOWN;
    }
}

#define NEEDS_CONTEXT                            \
    do {                                         \
        if (!initialized) return NOT_INITIALIZED; \
        if (!current) return INVALID_CONTEXT;    \
    } while (0)

/* ---------------------------------------------------------------- devices */

EXPORT int cuInit(unsigned flags) {
    FAIL("cuinit");
    int status = cuda(hipInit(flags));
    initialized = !status;
    return status;
}

EXPORT int cuDriverGetVersion(int *version) {
    FAIL("cuversion");
    *version = fails_as(&failure, "wrong") ? 9000 : STANDIN_CUDA_VERSION;
    return SUCCESS;
}

EXPORT int cuDeviceGetCount(int *count) {
    FAIL("cucount");
    if (!initialized) return NOT_INITIALIZED;
    if (fails_as(&failure, "wrong")) return *count = 0, SUCCESS;
    return cuda(hipGetDeviceCount(count));
}

static int is_device(int device) {
    int count = 0;
    return !hipGetDeviceCount(&count) && device >= 0 && device < count;
}

EXPORT int cuDeviceGet(int *device, int ordinal) {
    FAIL("cudevice");
    if (!initialized) return NOT_INITIALIZED;
    if (!is_device(ordinal)) return INVALID_DEVICE;
    *device = ordinal;
    return SUCCESS;
}

EXPORT int cuDeviceGetName(char *name, int size, int device) {
    FAIL("cuname");
    if (!initialized) return NOT_INITIALIZED;
    char plain[256];
    int status = cuda(hipDeviceGetName(plain, sizeof plain, device));
    if (!status) snprintf(name, (size_t)size, "%s%s", plain, fails_as(&failure, "wrong") ? "" : " [ZLUDA]");
    return status;
}

EXPORT int cuDeviceGetAttribute(int *value, int attribute, int device) {
    FAIL("cuattribute");
    if (!initialized) return NOT_INITIALIZED;
    if (!is_device(device)) return INVALID_DEVICE;
    switch (attribute) {
        case WARP_SIZE: *value = 32; return SUCCESS;
        case CAPABILITY_MAJOR:
        case CAPABILITY_MINOR: *value = 8; return SUCCESS;
        default: *value = 0; return SUCCESS;
    }
}

EXPORT int cuDeviceTotalMem_v2(size_t *bytes, int device) {
    FAIL("cutotal");
    return initialized ? cuda(hipDeviceTotalMem(bytes, device)) : NOT_INITIALIZED;
}

/* ---------------------------------------------------------------- contexts */

static int make_current(void **context, int device) {
    if (!initialized) return NOT_INITIALIZED;
    int status = cuda(hipSetDevice(device));
    if (!status) *context = the_context;
    return status;
}

EXPORT int cuCtxCreate_v2(void **context, unsigned flags, int device) {
    FAIL("cucontext");
    (void)flags;
    int status = make_current(context, device);
    if (!status) current = the_context;
    return status;
}

EXPORT int cuDevicePrimaryCtxRetain(void **context, int device) {
    FAIL("cucontext");
    return make_current(context, device);
}

EXPORT int cuDevicePrimaryCtxRelease_v2(int device) {
    FAIL("cudestroy");
    current = NULL;
    return is_device(device) ? SUCCESS : INVALID_DEVICE;
}

EXPORT int cuCtxSetCurrent(void *context) {
    FAIL("cucurrent");
    if (!initialized) return NOT_INITIALIZED;
    if (context && context != the_context) return INVALID_CONTEXT;
    current = context;
    return SUCCESS;
}

EXPORT int cuCtxGetCurrent(void **context) {
    FAIL("cucurrent");
    *context = current;
    return initialized ? SUCCESS : NOT_INITIALIZED;
}

EXPORT int cuCtxDestroy_v2(void *context) {
    FAIL("cudestroy");
    if (context != the_context) return INVALID_CONTEXT;
    current = NULL;
    return SUCCESS;
}

EXPORT int cuCtxSynchronize(void) {
    FAIL("cusync");
    NEEDS_CONTEXT;
    return cuda(hipDeviceSynchronize());
}

/* ---------------------------------------------------------------- memory */

EXPORT int cuMemAlloc_v2(device_pointer *pointer, size_t size) {
    FAIL("cumalloc");
    NEEDS_CONTEXT;
    if (fails_as(&failure, "oom") && size >= failure.number) return OUT_OF_MEMORY;
    return cuda(hipMalloc((void **)pointer, size));
}

EXPORT int cuMemFree_v2(device_pointer pointer) {
    FAIL("cufree");
    NEEDS_CONTEXT;
    return hipFree((void *)pointer) ? INVALID_VALUE : SUCCESS;
}

EXPORT int cuMemcpyHtoD_v2(device_pointer to, const void *from, size_t size) {
    FAIL("cuupload");
    NEEDS_CONTEXT;
    if (leaves_unwritten(&failure)) return SUCCESS;
    int status = cuda(hipMemcpy((void *)to, from, size, HOST_TO_DEVICE));
    if (!status) spoil_bytes(&failure, (char *)to, size);
    return status;
}

EXPORT int cuMemcpyDtoH_v2(void *to, device_pointer from, size_t size) {
    FAIL("cudownload");
    NEEDS_CONTEXT;
    if (leaves_unwritten(&failure)) return SUCCESS;
    int status = cuda(hipMemcpy(to, (void *)from, size, DEVICE_TO_HOST));
    if (!status) spoil_bytes(&failure, to, size);
    return status;
}

EXPORT int cuMemsetD8_v2(device_pointer to, unsigned char value, size_t size) {
    FAIL("cumemset");
    NEEDS_CONTEXT;
    return cuda(hipMemset((void *)to, value, size));
}

EXPORT int cuMemGetInfo_v2(size_t *available, size_t *total) {
    FAIL("cumeminfo");
    NEEDS_CONTEXT;
    return cuda(hipMemGetInfo(available, total));
}

/* ---------------------------------------------------------------- modules and kernels */

EXPORT int cuModuleLoadData(void **module, const void *image) {
    FAIL("cumodule");
    NEEDS_CONTEXT;
    if (!strstr(image, ".entry sgemm")) return INVALID_PTX;
    char target[256], code[STANDIN_CODE_BYTES];
    rocenv_standin_target(target, sizeof target);
    target[strcspn(target, ":")] = 0;
    write_code(code, target, ELF_AMDGPU);
    return cuda(hipModuleLoadData(module, code));
}

EXPORT int cuModuleGetFunction(void **function, void *module, const char *name) {
    FAIL("cufunction");
    NEEDS_CONTEXT;
    return hipModuleGetFunction(function, module, name) ? NOT_FOUND : SUCCESS;
}

EXPORT int cuLaunchKernel(void *function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                          unsigned block_y, unsigned block_z, unsigned shared, void *stream, void **params,
                          void **extra) {
    NEEDS_CONTEXT;
    if (!params) return INVALID_VALUE;
    float *c = *(float **)params[2];
    int n = *(int *)params[3];
    FAIL(n <= 32 ? "culaunch" : "cugemm");
    if (leaves_unwritten(&failure)) return SUCCESS;
    int status = cuda(hipModuleLaunchKernel(function, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared,
                                            stream, params, extra));
    size_t count = (size_t)n * n;
    for (size_t i = 0; !status && i < count; i++) c[i] = spoiled(&failure, i, count, c[i]);
    return status;
}

EXPORT int cuModuleUnload(void *module) {
    FAIL("cuunload");
    NEEDS_CONTEXT;
    return hipModuleUnload(module) ? INVALID_VALUE : SUCCESS;
}

/* ---------------------------------------------------------------- names, and functions that only ZLUDA has */

EXPORT int cuGetErrorName(int error, const char **name) {
    switch (error) {
        case SUCCESS: *name = "CUDA_SUCCESS"; return SUCCESS;
        case INVALID_VALUE: *name = "CUDA_ERROR_INVALID_VALUE"; return SUCCESS;
        case OUT_OF_MEMORY: *name = "CUDA_ERROR_OUT_OF_MEMORY"; return SUCCESS;
        case NOT_INITIALIZED: *name = "CUDA_ERROR_NOT_INITIALIZED"; return SUCCESS;
        case NO_DEVICE: *name = "CUDA_ERROR_NO_DEVICE"; return SUCCESS;
        case INVALID_DEVICE: *name = "CUDA_ERROR_INVALID_DEVICE"; return SUCCESS;
        case INVALID_CONTEXT: *name = "CUDA_ERROR_INVALID_CONTEXT"; return SUCCESS;
        case INVALID_PTX: *name = "CUDA_ERROR_INVALID_PTX"; return SUCCESS;
        case NOT_FOUND: *name = "CUDA_ERROR_NOT_FOUND"; return SUCCESS;
        case ILLEGAL_ADDRESS: *name = "CUDA_ERROR_ILLEGAL_ADDRESS"; return SUCCESS;
        case LAUNCH_FAILED: *name = "CUDA_ERROR_LAUNCH_FAILED"; return SUCCESS;
        case UNKNOWN: *name = "CUDA_ERROR_UNKNOWN"; return SUCCESS;
        default: *name = NULL; return INVALID_VALUE;
    }
}

EXPORT int cuGetErrorString(int error, const char **text) { return cuGetErrorName(error, text); }

#ifdef STANDIN_IS_LSHQQYTIGER
struct hip_object {
    int status;
    unsigned long long value;
};

EXPORT struct hip_object zluda_get_hip_object(void *object, int kind) {
    (void)kind;
    struct hip_object found = {SUCCESS, (uintptr_t)object};
    return found;
}
#endif

#ifdef STANDIN_NIGHTLY /* 0 or 1; earlier builds do not have it */
EXPORT int zluda_get_nightly_flag(void) { return STANDIN_NIGHTLY; }
#endif
