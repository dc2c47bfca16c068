/* Stands in for ZLUDA's nvrtc.dll, which calls NVIDIA's own in 3.8.5 and later. For tests only; see ../README.md. */
#include "standin.h"

enum { SUCCESS = 0, INTERNAL_ERROR = 11 };

EXPORT int rocenv_standin = 1;

ON_LOAD(LIBRARY("nvrtc"), "load.nvrtc")

#ifdef STANDIN_WRAPS
static void *original(const char *function) {
    const char *path = variable("ZLUDA_NVRTC_LIB");
    if (!path) path = "nvrtc_cuda.dll";
    void *found = function_of(LoadLibraryA(path), function);
    if (!found) fprintf(stderr, "ZLUDA: cannot load the original nvrtc, %s: error %lu\n", path, GetLastError());
    return found;
}
#endif

EXPORT int nvrtcVersion(int *major, int *minor) {
    FAIL("nvrtc");
#ifdef STANDIN_WRAPS
    /* A copy of this wrapper under the original's name calls itself until the stack overflows, as ZLUDA's does.
       Wine does not preserve the exit code of a stack overflow, so the process ends here. */
    static int depth;
    if (++depth > 1000) {
        nobody_catches();
        RaiseException((DWORD)EXCEPTION_STACK_OVERFLOW, EXCEPTION_NONCONTINUABLE, 0, NULL);
    }
    int (*version)(int *, int *) = (int (*)(int *, int *))original("nvrtcVersion");
    int status = version ? version(major, minor) : INTERNAL_ERROR;
    depth--;
    return status;
#else
    *major = 11, *minor = 8;
    return SUCCESS;
#endif
}

EXPORT int nvrtcGetNumSupportedArchs(void *count) {
    FAIL("nvrtc");
    *(int *)count = 1;
    return SUCCESS;
}
