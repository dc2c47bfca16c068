/* Linux support for the fakes. For tests only; see ../README.md. */
#ifndef ROCENV_STANDIN_LINUX_H
#define ROCENV_STANDIN_LINUX_H

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))
#define SHARED __attribute__((weak)) /* hipRTC may be part of HIP, which defines the same function */
#define LIBRARY(name) "lib" name
#define ON_LOAD(library, group) \
    __attribute__((constructor)) static void loaded(void) { announce(library, group); }
/* Ignore HIP_VISIBLE_DEVICES, which plan tests set for machines that have more GPUs than the fake. */
#define CHOSEN_DEVICES NULL

static inline const char *variable(const char *name) { return getenv(name); }
static inline void nobody_catches(void) {}
static inline void give_up(void) { abort(); }
static inline void wait_for_ever(void) {
    for (;;) pause();
}

/* Reserve address space; the kernel provides each page when it is first written. */
static inline char *reserve_pages(size_t size) {
    void *start = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (start == MAP_FAILED) return NULL;
    madvise(start, size, MADV_NOHUGEPAGE);
    return start;
}
static inline void release_pages(char *start, size_t size) { munmap(start, size); }
static inline void forget_pages(char *start, size_t size) { madvise(start, size, MADV_DONTNEED); }
static inline void present_pages(char *start, size_t size) { (void)start, (void)size; }

#endif
