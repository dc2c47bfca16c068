/* Stands in for a renderer's HIP runtime (libamdhip64, 6 and later) on the CPU: devices, memory, and code objects
   can be queried, but kernels have no effect. So tests can run a program up to its first kernel launch. For tests only,
   see ../README.md. */
#include "standin.h"

enum { SUCCESS = 0, OUT_OF_MEMORY = 2, NO_DEVICE = 100, INVALID_DEVICE = 101, INVALID_IMAGE = 200, NO_BINARY = 209 };

EXPORT int rocenv_standin = 1;
ON_LOAD(LIBRARY("amdhip64"), "load.hip")

static unsigned long long number_of(const char *name, unsigned long long otherwise) {
    const char *text = variable(name);
    return text && *text ? amount_of(text) : otherwise;
}

static const char *target(void) {
    const char *text = variable("ROCENV_STANDIN_TARGET");
    return text && *text ? text : "gfx1201";
}

/* "gfx1030" -> 10 and 3; the last two digits are the minor version and the stepping. */
static int major_of(const char *gfx) { return strlen(gfx) > 5 ? (int)strtoul(gfx + 3, NULL, 10) / 100 : 9; }
static int minor_of(const char *gfx) { return strlen(gfx) > 5 ? (int)strtoul(gfx + 3, NULL, 10) / 10 % 10 : 0; }

static size_t total_bytes(void) { return (size_t)number_of("ROCENV_STANDIN_MEMORY", 16ull << 30); }

/* ---------------------------------------------------------------- identity */

EXPORT int hipInit(unsigned flags) {
    FAIL("init");
    (void)flags;
    return SUCCESS;
}

static int version(int *answer) {
    FAIL("version");
    *answer = (int)number_of("ROCENV_STANDIN_RUNTIME", STANDIN_HIP_VERSION);
    return SUCCESS;
}
EXPORT int hipDriverGetVersion(int *answer) { return version(answer); }
EXPORT int hipRuntimeGetVersion(int *answer) { return version(answer); }

EXPORT int hipGetDeviceCount(int *count) {
    FAIL("count");
    *count = (int)number_of("ROCENV_STANDIN_DEVICES", 1);
    return *count ? SUCCESS : NO_DEVICE;
}

EXPORT int hipGetDevice(int *device) {
    *device = 0;
    return SUCCESS;
}
EXPORT int hipDeviceGet(int *device, int number) {
    *device = number;
    return SUCCESS;
}

EXPORT int hipDeviceGetName(char *name, int size, int device) {
    FAIL("props");
    (void)device;
    const char *text = variable("ROCENV_STANDIN_NAME");
    snprintf(name, (size_t)size, "%s", text ? text : "Stand-in GPU");
    return SUCCESS;
}

EXPORT int hipDeviceComputeCapability(int *major, int *minor, int device) {
    (void)device;
    *major = major_of(target());
    *minor = minor_of(target());
    return SUCCESS;
}

/* The numbers are from hipDeviceAttribute_t in HIP 6.4. */
EXPORT int hipDeviceGetAttribute(int *value, int which, int device) {
    (void)device;
    switch (which) {
        case 23: *value = major_of(target()); break;
        case 61: *value = minor_of(target()); break;
        case 3: *value = 1; break; /* can map host memory */
        case 16: *value = 0; break; /* integrated */
        case 26: case 27: case 28: case 56: *value = 1024; break; /* threads per block */
        case 29: case 30: case 31: *value = 65535; break; /* blocks per grid */
        case 57: *value = 2048; break; /* threads per multiprocessor */
        case 63: *value = 32; break; /* multiprocessors */
        case 81: *value = 256; break; /* texture alignment */
        case 87: *value = 32; break; /* lanes */
        case 39: case 43: case 44: *value = 16384; break; /* texture sizes */
        case 49: case 50: case 51: *value = 2048; break;
        default: *value = 0;
    }
    return SUCCESS;
}

/* These offsets were measured with the headers of HIP 6. */
EXPORT int hipGetDevicePropertiesR0600(void *properties, int device) {
    FAIL("props");
    char *at = properties;
    size_t bytes = total_bytes();
    int lanes = 32;
    memset(at, 0, 1472);
    hipDeviceGetName(at, 256, device);
    memcpy(at + 288, &bytes, sizeof bytes);
    memcpy(at + 308, &lanes, sizeof lanes);
    snprintf(at + 1160, 256, "%s", target());
    return SUCCESS;
}

EXPORT int hipDeviceGetPCIBusId(char *text, int size, int device) {
    snprintf(text, (size_t)size, "0000:%02x:00.0", device + 3);
    return SUCCESS;
}

EXPORT const char *hipGetErrorString(int error) { return error == OUT_OF_MEMORY ? "out of memory" : "error"; }
EXPORT const char *hipGetErrorName(int error) {
    return error == OUT_OF_MEMORY ? "hipErrorOutOfMemory" : "hipErrorUnknown";
}

/* ---------------------------------------------------------------- memory */

/* Every block begins with its size, to account for used memory. */
enum { HEAD_BYTES = 256 };
static size_t used_bytes;

EXPORT int hipMemGetInfo(size_t *available, size_t *total) {
    FAIL("meminfo");
    size_t free_bytes = (size_t)number_of("ROCENV_STANDIN_FREE", total_bytes());
    *total = total_bytes();
    *available = free_bytes > used_bytes ? free_bytes - used_bytes : 0;
    return SUCCESS;
}

static int allocate(void **pointer, size_t size) {
    if (size > SIZE_MAX - HEAD_BYTES) return OUT_OF_MEMORY;
    char *block = calloc(1, size + HEAD_BYTES);
    if (!block) return OUT_OF_MEMORY;
    memcpy(block, &size, sizeof size);
    *pointer = block + HEAD_BYTES;
    return SUCCESS;
}

static size_t let_go(void *pointer) {
    size_t size = 0;
    if (!pointer) return 0;
    char *block = (char *)pointer - HEAD_BYTES;
    memcpy(&size, block, sizeof size);
    free(block);
    return size;
}

EXPORT int hipMalloc(void **pointer, size_t size) {
    FAIL("malloc");
    if (fails_as(&failure, "oom") && size >= failure.number) return OUT_OF_MEMORY;
    /* The driver can evict other processes' memory, so only the total limits allocations. */
    int has_room = used_bytes <= total_bytes() && size <= total_bytes() - used_bytes;
    int status = has_room ? allocate(pointer, size) : OUT_OF_MEMORY;
    if (status == SUCCESS) used_bytes += size;
    return status;
}

EXPORT int hipFree(void *pointer) {
    FAIL("free");
    size_t size = let_go(pointer);
    used_bytes -= size < used_bytes ? size : used_bytes;
    return SUCCESS;
}

EXPORT int hipHostMalloc(void **pointer, size_t size, unsigned flags) {
    FAIL("hostmalloc");
    (void)flags;
    return allocate(pointer, size);
}
EXPORT int hipHostFree(void *pointer) {
    let_go(pointer);
    return SUCCESS;
}
EXPORT int hipHostGetDevicePointer(void **device, void *host, unsigned flags) {
    (void)flags;
    *device = host;
    return SUCCESS;
}

static int copied(void *to, const void *from, size_t size) {
    if (to && from) memmove(to, from, size);
    return SUCCESS;
}
EXPORT int hipMemcpy(void *to, const void *from, size_t size) { return copied(to, from, size); }
EXPORT int hipMemcpyHtoD(void *to, const void *from, size_t size) { return copied(to, from, size); }
EXPORT int hipMemcpyDtoH(void *to, const void *from, size_t size) { return copied(to, from, size); }
EXPORT int hipMemcpyDtoD(void *to, const void *from, size_t size) { return copied(to, from, size); }
EXPORT int hipMemcpyHtoDAsync(void *to, const void *from, size_t size) { return copied(to, from, size); }
EXPORT int hipMemcpyDtoHAsync(void *to, const void *from, size_t size) { return copied(to, from, size); }
EXPORT int hipMemcpyDtoDAsync(void *to, const void *from, size_t size) { return copied(to, from, size); }

static int filled(void *to, int value, size_t size) {
    if (to) memset(to, value, size);
    return SUCCESS;
}
EXPORT int hipMemset(void *to, int value, size_t size) { return filled(to, value, size); }
EXPORT int hipMemsetD8(void *to, unsigned char value, size_t size) { return filled(to, value, size); }
EXPORT int hipMemsetD8Async(void *to, unsigned char value, size_t size) { return filled(to, value, size); }

/* ---------------------------------------------------------------- code */

static char handle[64]; /* for all opaque objects */

static int handed(void **out) {
    if (out) *out = handle; /* hipCtxPopCurrent accepts NULL */
    return SUCCESS;
}

/* A code object must be an ELF file for a GPU, or a bundle that contains the target. */
static int loaded_from(void **module, const char *image) {
    FAIL("module");
    if (!memcmp(image, "\177ELF", 4)) {
        uint16_t machine;
        memcpy(&machine, image + 18, sizeof machine);
        return machine == ELF_AMDGPU ? handed(module) : INVALID_IMAGE;
    }
    if (memcmp(image, "__CLANG_OFFLOAD_BUNDLE__", 24)) return INVALID_IMAGE;
    uint64_t count, length;
    memcpy(&count, image + 24, sizeof count);
    const char *at = image + 32;
    for (uint64_t i = 0; i < count && i < 64; i++) {
        memcpy(&length, at + 16, sizeof length);
        size_t own = strlen(target());
        if (length < 4096 && length >= own && !memcmp(at + 24 + length - own, target(), own)) {
            fprintf(stderr, "rocenv stand-in: loaded the code for %s\n", target());
            return handed(module);
        }
        at += 24 + (length < 4096 ? length : 0);
    }
    return NO_BINARY;
}
EXPORT int hipModuleLoadData(void **module, const void *image) { return loaded_from(module, image); }
EXPORT int hipModuleLoadDataEx(void **module, const void *image) { return loaded_from(module, image); }

EXPORT int hipModuleGetFunction(void **function, void *module, const char *name) {
    FAIL("function");
    (void)module;
    (void)name;
    return handed(function);
}

static char global[1 << 16];
EXPORT int hipModuleGetGlobal(void **pointer, size_t *size, void *module, const char *name) {
    (void)module;
    (void)name;
    *pointer = global;
    *size = sizeof global;
    return SUCCESS;
}

EXPORT int hipFuncGetAttribute(int *value, int which, const void *function) {
    (void)which;
    (void)function;
    *value = 256;
    return SUCCESS;
}
EXPORT int hipModuleOccupancyMaxPotentialBlockSize(int *grid, int *block) {
    *grid = 32;
    *block = 256;
    return SUCCESS;
}

EXPORT int hipModuleLaunchKernel(void) {
    FAIL("kernel");
    return SUCCESS;
}
EXPORT int hipStreamSynchronize(void) {
    FAIL("sync");
    return SUCCESS;
}

/* ---------------------------------------------------------------- functions that only return a handle or success */

#define HANDS_OUT(name) \
    EXPORT int name(void **out) { return handed(out); }
HANDS_OUT(hipCtxCreate)
HANDS_OUT(hipCtxGetCurrent)
HANDS_OUT(hipCtxPopCurrent)
HANDS_OUT(hipDevicePrimaryCtxRetain)
HANDS_OUT(hipEventCreateWithFlags)
HANDS_OUT(hipStreamCreate)
HANDS_OUT(hipStreamCreateWithFlags)
HANDS_OUT(hipStreamCreateWithPriority)
HANDS_OUT(hipTexObjectCreate)
HANDS_OUT(hipArrayCreate)
HANDS_OUT(hipArray3DCreate)
HANDS_OUT(hipModuleGetTexRef)

#define SUCCEEDS(name) \
    EXPORT int name(void) { return SUCCESS; }
SUCCEEDS(hipArrayDestroy) SUCCEEDS(hipCtxDestroy) SUCCEEDS(hipCtxDisablePeerAccess)
SUCCEEDS(hipCtxEnablePeerAccess) SUCCEEDS(hipCtxGetApiVersion) SUCCEEDS(hipCtxGetCacheConfig)
SUCCEEDS(hipCtxGetDevice) SUCCEEDS(hipCtxGetFlags) SUCCEEDS(hipCtxGetSharedMemConfig) SUCCEEDS(hipCtxPushCurrent)
SUCCEEDS(hipCtxSetCacheConfig) SUCCEEDS(hipCtxSetCurrent) SUCCEEDS(hipCtxSetSharedMemConfig)
SUCCEEDS(hipCtxSynchronize) SUCCEEDS(hipDestroyExternalMemory) SUCCEEDS(hipDeviceCanAccessPeer)
SUCCEEDS(hipDeviceGetByPCIBusId) SUCCEEDS(hipDeviceGetLimit) SUCCEEDS(hipDeviceGetP2PAttribute)
SUCCEEDS(hipDevicePrimaryCtxGetState) SUCCEEDS(hipDevicePrimaryCtxRelease) SUCCEEDS(hipDevicePrimaryCtxReset)
SUCCEEDS(hipDevicePrimaryCtxSetFlags) SUCCEEDS(hipDeviceSetLimit) SUCCEEDS(hipDeviceSynchronize)
SUCCEEDS(hipDrvMemcpy2DUnaligned) SUCCEEDS(hipDrvMemcpy3D) SUCCEEDS(hipDrvMemcpy3DAsync) SUCCEEDS(hipEventDestroy)
SUCCEEDS(hipEventElapsedTime) SUCCEEDS(hipEventQuery) SUCCEEDS(hipEventRecord) SUCCEEDS(hipEventSynchronize)
SUCCEEDS(hipExternalMemoryGetMappedBuffer) SUCCEEDS(hipFuncSetCacheConfig) SUCCEEDS(hipGetLastError)
SUCCEEDS(hipHostGetFlags) SUCCEEDS(hipHostRegister) SUCCEEDS(hipHostUnregister) SUCCEEDS(hipImportExternalMemory)
SUCCEEDS(hipMallocManaged) SUCCEEDS(hipMemAllocPitch) SUCCEEDS(hipMemGetAddressRange) SUCCEEDS(hipMemcpyParam2D)
SUCCEEDS(hipMemcpyParam2DAsync) SUCCEEDS(hipMemcpyPeer) SUCCEEDS(hipMemsetD16) SUCCEEDS(hipMemsetD16Async)
SUCCEEDS(hipMemsetD32) SUCCEEDS(hipMemsetD32Async) SUCCEEDS(hipModuleLoad) SUCCEEDS(hipModuleUnload)
SUCCEEDS(hipPointerGetAttributes) SUCCEEDS(hipStreamAddCallback) SUCCEEDS(hipStreamDestroy)
SUCCEEDS(hipStreamGetFlags) SUCCEEDS(hipStreamGetPriority) SUCCEEDS(hipStreamQuery) SUCCEEDS(hipStreamWaitEvent)
SUCCEEDS(hipTexObjectDestroy) SUCCEEDS(hipTexRefGetAddress) SUCCEEDS(hipTexRefGetAddressMode)
SUCCEEDS(hipTexRefSetAddress) SUCCEEDS(hipTexRefSetAddress2D) SUCCEEDS(hipTexRefSetAddressMode)
SUCCEEDS(hipTexRefSetArray) SUCCEEDS(hipTexRefSetFilterMode) SUCCEEDS(hipTexRefSetFlags)
SUCCEEDS(hipTexRefSetFormat) SUCCEEDS(hipMalloc3D) SUCCEEDS(hipSetDevice)
