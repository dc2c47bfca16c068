/* Stands in for the HIP runtime (libamdhip64) on the CPU. For tests only; see ../README.md. */
#include "standin.h"

enum {
    SUCCESS = 0,
    INVALID_VALUE = 1,
    OUT_OF_MEMORY = 2,
    NOT_INITIALIZED = 3,
    INVALID_CONFIGURATION = 9,
    INVALID_DEVICE_POINTER = 17,
    NO_DEVICE = 100,
    INVALID_DEVICE = 101,
    INVALID_IMAGE = 200,
    NO_BINARY_FOR_GPU = 209,
    NOT_FOUND = 500,
    ILLEGAL_ADDRESS = 700,
};
enum { HOST_TO_DEVICE = 1, DEVICE_TO_HOST = 2 };

EXPORT int rocenv_standin = 1;

static int initialized;
static int current;
static char code_object[] = "module";
static char sgemm_function[] = "function";

ON_LOAD(LIBRARY("amdhip64"), "load.hip")

static int installed(void) {
    const char *count = variable("ROCENV_STANDIN_DEVICES");
    return count ? atoi(count) : 1;
}

/* Return the installed device that corresponds to the visible device `device`, or -1. */
static int visible(int device) {
    const char *at = CHOSEN_DEVICES;
    for (; at && device > 0; device--) {
        at = strchr(at, ',');
        if (!at) return -1;
        at++;
    }
    int number = at ? (*at >= '0' && *at <= '9' ? atoi(at) : -1) : device;
    return number < installed() ? number : -1;
}

static int device_count(void) {
    int count = 0;
    while (visible(count) >= 0) count++;
    return count;
}

/* Return an installed device's entry in a list; the last entry also applies to any further devices. */
static void listed(const char *name, const char *otherwise, int device, char *out, size_t size) {
    const char *at = variable(name);
    if (!at) at = otherwise;
    int number = visible(device);
    for (const char *comma; number > 0 && (comma = strchr(at, ',')); number--) at = comma + 1;
    snprintf(out, size, "%.*s", (int)strcspn(at, ","), at);
}

static void target_of(int device, char *name, size_t size) {
    listed("ROCENV_STANDIN_TARGET", "gfx1100", device, name, size);
}

/* The target of the current device; the other fake libraries use this. */
EXPORT void rocenv_standin_target(char *name, size_t size) { target_of(current, name, size); }

/* ---------------------------------------------------------------- memory on the "device" */

#include "memory.h"

/* Whether the device may access `size` bytes at an address; the other fake libraries also use this. */
EXPORT int rocenv_standin_device_memory(const void *pointer, size_t size) {
    struct block *block = block_at(pointer);
    if (!block || size > block->size || (const char *)pointer + size > block->start + block->size) return 0;
    present_pages((char *)pointer, size);
    return 1;
}

/* A group's mode, or else that of its `.large` or `.after` group if that applies. */
static struct failure failure_for(const char *group, size_t size) {
    char name[64];
    const char *large = variable("ROCENV_STANDIN_LARGE");
    struct failure found = failure_of(group);
    if (!*found.mode && large && size >= amount_of(large)) {
        snprintf(name, sizeof name, "%s.large", group);
        found = failure_of(name);
    }
    if (!*found.mode && ran_out) {
        snprintf(name, sizeof name, "%s.after", group);
        found = failure_of(name);
    }
    return found;
}

/* An allocation's mode: from `malloc`, `malloc.N`, or, if it does not fit, `malloc.over`. */
static struct failure failure_of_malloc(size_t size, int is_there) {
    static unsigned calls;
    char name[64];
    struct failure found = failure_for("malloc", size);
    snprintf(name, sizeof name, "malloc.%u", ++calls);
    if (!*found.mode) found = failure_of(name);
    if (!*found.mode && !is_there) found = failure_of("malloc.over");
    return found;
}

EXPORT int hipMalloc(void **pointer, size_t size) {
    struct memory *memory = memory_of(current);
    FAIL_AS(failure_of_malloc(size, has_room(memory, size)));
    int refused = fails_as(&failure, "oom") && size >= failure.number;
    *pointer = refused ? NULL : take(memory, size);
    if (*pointer) return SUCCESS;
    ran_out = 1;
    return OUT_OF_MEMORY;
}

EXPORT int hipFree(void *pointer) {
    struct block *block = block_at(pointer);
    FAIL_AS(failure_for("free", block ? block->size : 0));
    if (!block || block->start != pointer) return INVALID_DEVICE_POINTER;
    if (!fails_as(&failure, "leak")) give_back(block);
    return SUCCESS;
}

EXPORT int hipMemcpy(void *to, const void *from, size_t size, int kind) {
    const void *device = kind == HOST_TO_DEVICE ? to : from;
    struct block *block = block_at(device);
    FAIL_AS(failure_for(kind == HOST_TO_DEVICE ? "upload" : "download", block ? block->size : 0));
    if (kind != HOST_TO_DEVICE && kind != DEVICE_TO_HOST) return INVALID_VALUE;
    if (!rocenv_standin_device_memory(device, size)) return INVALID_VALUE;
    if (leaves_unwritten(&failure)) return SUCCESS;
    copy_bytes(to, from, size, block->fill);
    spoil_bytes(&failure, to, size);
    return SUCCESS;
}

EXPORT int hipMemset(void *to, int value, size_t size) {
    struct block *block = block_at(to);
    FAIL_AS(failure_for("memset", block ? block->size : 0));
    if (!block || size > block->size || (char *)to + size > block->start + block->size) return INVALID_VALUE;
    if (leaves_unwritten(&failure)) return SUCCESS;
    fill_block(block, to, size, (unsigned char)(fails_as(&failure, "wrong") ? ~value : value));
    return SUCCESS;
}

EXPORT int hipMemGetInfo(size_t *available, size_t *total) {
    FAIL_AS(failure_for("meminfo", 0));
    say(memory_of(current), available, total);
    if (fails_as(&failure, "wrong")) *available = 3 * *total;
    return SUCCESS;
}

/* ---------------------------------------------------------------- devices */

EXPORT int hipInit(unsigned flags) {
    FAIL("init");
    (void)flags;
    if (device_count() < 1) return NO_DEVICE;
    initialized = 1;
    return SUCCESS;
}

EXPORT int hipRuntimeGetVersion(int *version) {
    FAIL("version");
    *version = fails_as(&failure, "wrong") ? 40300000 : STANDIN_HIP_VERSION;
    return SUCCESS;
}

EXPORT int hipGetDeviceCount(int *count) {
    FAIL("count");
    *count = device_count();
    if (fails_as(&failure, "wrong")) *count = 0;
    return *count || fails_as(&failure, "wrong") ? SUCCESS : NO_DEVICE;
}

EXPORT int hipSetDevice(int device) {
    FAIL("set");
    if (device < 0 || device >= device_count()) return INVALID_DEVICE;
    current = device;
    return SUCCESS;
}

static int fill_properties(char *properties, int device, size_t size, size_t memory, size_t wave, size_t arch) {
    FAIL("props");
    if (!initialized) return NOT_INITIALIZED;
    if (device < 0 || device >= device_count()) return INVALID_DEVICE;
    memset(properties, 0xA5, size); /* exposes reads from wrong offsets */
    listed("ROCENV_STANDIN_NAME", "Stand-in GPU", device, properties, 256);
    size_t bytes, available;
    say(memory_of(device), &available, &bytes);
    memcpy(properties + memory, &bytes, sizeof bytes);
    int lanes = 32;
    memcpy(properties + wave, &lanes, sizeof lanes);
    target_of(device, properties + arch, 256);
    if (fails_as(&failure, "wrong")) strcpy(properties + arch, "gfx803");
    return SUCCESS;
}

/* These offsets were measured with the headers of 5.7.1 and 6.x. */
#if STANDIN_HIP_VERSION >= 60000000
EXPORT int hipGetDevicePropertiesR0600(void *properties, int device) {
    return fill_properties(properties, device, 1472, 288, 308, 1160);
}
#endif
EXPORT int hipGetDeviceProperties(void *properties, int device) {
    return fill_properties(properties, device, 792, 256, 276, 396);
}

EXPORT int hipDeviceGetName(char *name, int size, int device) {
    FAIL("props");
    if (device < 0 || device >= device_count()) return INVALID_DEVICE;
    listed("ROCENV_STANDIN_NAME", "Stand-in GPU", device, name, (size_t)size);
    return SUCCESS;
}

EXPORT int hipDeviceTotalMem(size_t *bytes, int device) {
    FAIL("props");
    if (device < 0 || device >= device_count()) return INVALID_DEVICE;
    size_t available;
    say(memory_of(device), &available, bytes);
    return SUCCESS;
}

/* Each device has its own PCI address. */
EXPORT int hipDeviceGetPCIBusId(char *text, int size, int device) {
    FAIL("place");
    if (device < 0 || device >= device_count()) return INVALID_DEVICE;
    char otherwise[32];
    snprintf(otherwise, sizeof otherwise, "0000:%02x:00.0", 3 + visible(device));
    listed("ROCENV_STANDIN_ADDRESS", otherwise, device, text, (size_t)size);
    return SUCCESS;
}

EXPORT int hipDeviceSynchronize(void) {
    FAIL("sync");
    return SUCCESS;
}

/* ---------------------------------------------------------------- modules and kernels */

EXPORT int hipModuleLoadData(void **module, const void *image) {
    FAIL("module");
    const char *elf = image, *text = elf + 64;
    if (memcmp(elf, "\177ELF", 4) || strncmp(text, STANDIN_TRIPLE, strlen(STANDIN_TRIPLE))) return INVALID_IMAGE;
    const char *target = text + strlen(STANDIN_TRIPLE);
    if (strcmp(target + strlen(target) + 1, STANDIN_MARKER)) return INVALID_IMAGE;
    char own[256];
    target_of(current, own, sizeof own);
    own[strcspn(own, ":")] = 0;
    if (strcmp(target, own)) return NO_BINARY_FOR_GPU;
    *module = code_object;
    return SUCCESS;
}

EXPORT int hipModuleGetFunction(void **function, void *module, const char *name) {
    FAIL("function");
    if (module != code_object || strcmp(name, "sgemm")) return NOT_FOUND;
    *function = sgemm_function;
    return SUCCESS;
}

EXPORT int hipModuleLaunchKernel(void *function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                                 unsigned block_y, unsigned block_z, unsigned shared, void *stream, void **params,
                                 void **extra) {
    (void)shared, (void)stream, (void)extra;
    if (function != sgemm_function || !params) return INVALID_VALUE;
    const float *a = *(const float **)params[0], *b = *(const float **)params[1];
    float *c = *(float **)params[2];
    int n = *(int *)params[3];
    FAIL(n <= 32 ? "kernel" : "gemm");
    if (block_x != 16 || block_y != 16 || block_z != 1 || n % 16 || grid_x != (unsigned)n / 16 || grid_y != grid_x ||
        grid_z != 1)
        return INVALID_CONFIGURATION;
    size_t count = (size_t)n * n, size = count * sizeof(float);
    if (!rocenv_standin_device_memory(a, size) || !rocenv_standin_device_memory(b, size) ||
        !rocenv_standin_device_memory(c, size))
        return ILLEGAL_ADDRESS;
    if (leaves_unwritten(&failure)) return SUCCESS;
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++) {
            float sum = 0;
            for (int k = 0; k < n; k++) sum += a[(size_t)i * n + k] * b[(size_t)k * n + j];
            size_t index = (size_t)i * n + j;
            c[index] = spoiled(&failure, index, count, sum);
        }
    return SUCCESS;
}

EXPORT int hipModuleUnload(void *module) {
    FAIL("unload");
    return module == code_object ? SUCCESS : INVALID_VALUE;
}

EXPORT const char *hipGetErrorName(int error) {
    switch (error) {
        case SUCCESS: return "hipSuccess";
        case INVALID_VALUE: return "hipErrorInvalidValue";
        case OUT_OF_MEMORY: return "hipErrorOutOfMemory";
        case NOT_INITIALIZED: return "hipErrorNotInitialized";
        case INVALID_CONFIGURATION: return "hipErrorInvalidConfiguration";
        case INVALID_DEVICE_POINTER: return "hipErrorInvalidDevicePointer";
        case NO_DEVICE: return "hipErrorNoDevice";
        case INVALID_DEVICE: return "hipErrorInvalidDevice";
        case INVALID_IMAGE: return "hipErrorInvalidImage";
        case NO_BINARY_FOR_GPU: return "hipErrorNoBinaryForGpu";
        case NOT_FOUND: return "hipErrorNotFound";
        case ILLEGAL_ADDRESS: return "hipErrorIllegalAddress";
        case 719: return "hipErrorLaunchFailure";
        default: return "hipErrorUnknown";
    }
}
