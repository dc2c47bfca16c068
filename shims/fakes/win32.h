/* Windows support for the fakes. For tests only; see ../README.md. */
#ifndef ROCENV_STANDIN_WIN32_H
#define ROCENV_STANDIN_WIN32_H

#define WIN32_LEAN_AND_MEAN
#include <windows.h>

#define EXPORT __attribute__((dllexport))
#define SHARED
#ifdef STANDIN_NAME
#define LIBRARY(name) STANDIN_NAME
#else
#define LIBRARY(name) name ".dll"
#endif
#define CHOSEN_DEVICES variable("HIP_VISIBLE_DEVICES")

static HMODULE own_module;

/* A DLL with a simulated load error fails to load, with WinError 1114. */
#define ON_LOAD(library, group)                                                \
    BOOL WINAPI DllMain(HINSTANCE module, DWORD reason, LPVOID reserved) {     \
        (void)reserved;                                                        \
        own_module = module;                                                   \
        return reason != DLL_PROCESS_ATTACH || announce(library, group) == 0; \
    }

/* Do not use getenv, because Python uses a different C library, which has its own copy of the environment. One value
   per name is kept until the process ends. */
static inline const char *variable(const char *name) {
    static struct {
        const char *name;
        char text[1024];
    } kept[24];
    for (int i = 0; i < 24; i++) {
        if (kept[i].name && strcmp(kept[i].name, name)) continue;
        kept[i].name = name;
        DWORD length = GetEnvironmentVariableA(name, kept[i].text, sizeof kept[i].text);
        return length && length < sizeof kept[i].text ? kept[i].text : NULL;
    }
    return NULL;
}

typedef LONG(NTAPI *raise_exception)(EXCEPTION_RECORD *, CONTEXT *, BOOLEAN);

static LONG CALLBACK end_process(EXCEPTION_POINTERS *fault) {
    raise_exception raise = (raise_exception)(void *)GetProcAddress(GetModuleHandleA("ntdll"), "NtRaiseException");
    raise(fault->ExceptionRecord, fault->ContextRecord, FALSE); /* no first-chance handler handled it */
    return EXCEPTION_CONTINUE_SEARCH;
}

/* Make the next fault end the process, like a crash in C++ code. Otherwise Python's ctypes, or Windows in DllMain, would
   catch it and turn it into an error. */
static inline void nobody_catches(void) { AddVectoredExceptionHandler(0, end_process); }

/* Exit with 0xC0000409, like `abort` in Microsoft's C library, which the real DLLs use. */
static inline void give_up(void) {
    fflush(stderr);
    __asm__ volatile("int $0x29" : : "c"(7 /* FAST_FAIL_FATAL_APP_EXIT */));
    __builtin_unreachable();
}

static inline void wait_for_ever(void) { Sleep(INFINITE); }

/* Reserve address space; pages must be committed before use. */
static inline char *reserve_pages(size_t size) { return VirtualAlloc(NULL, size, MEM_RESERVE, PAGE_READWRITE); }
static inline void release_pages(char *start, size_t size) {
    (void)size;
    VirtualFree(start, 0, MEM_RELEASE);
}
static inline void forget_pages(char *start, size_t size) { VirtualFree(start, size, MEM_DECOMMIT); }
static inline void present_pages(char *start, size_t size) { VirtualAlloc(start, size, MEM_COMMIT, PAGE_READWRITE); }

/* Return a function from a loaded DLL, or NULL. */
static inline void *function_of(HMODULE module, const char *name) {
    return module ? (void *)GetProcAddress(module, name) : NULL;
}

#endif
