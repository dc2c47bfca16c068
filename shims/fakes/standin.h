/* Code shared by the fake libraries: failure injection. For tests only; see ../README.md. */
#ifndef ROCENV_STANDIN_H
#define ROCENV_STANDIN_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef _WIN32
#include "win32.h"
#else
#include "linux.h"
#endif

#ifndef STANDIN_HIP_VERSION
#define STANDIN_HIP_VERSION 50731921
#endif

/* At the end of each code object from the fake hipRTC; the fake HIP does not load others. */
#define STANDIN_MARKER "rocenv-standin-code"
#define STANDIN_TRIPLE "amdgcn-amd-amdhsa--"
/* At the start of each kernel file, before its HIP SDK's series. */
#define STANDIN_LIBRARY "rocenv-standin-kernels"

#define STANDIN_CODE_BYTES (64 + 256) /* size of a code object; an ELF64 header has 64 bytes */
enum { ELF_AMDGPU = 224, ELF_X86_64 = 62 };

/* Write a code object for a target and return its size. */
static inline size_t write_code(char *code, const char *target, int elf_machine) {
    /* ELF64, little-endian, version 1, OS/ABI "AMD HSA" */
    static const unsigned char identity[9] = {0x7f, 'E', 'L', 'F', 2, 1, 1, 64, 3};
    uint16_t fields[2] = {3 /* ET_DYN */, (uint16_t)elf_machine};
    uint32_t version = 1;
    uint16_t header_size = 64;
    memset(code, 0, STANDIN_CODE_BYTES);
    memcpy(code, identity, sizeof identity);
    memcpy(code + 16, fields, sizeof fields);
    memcpy(code + 20, &version, sizeof version);
    memcpy(code + 52, &header_size, sizeof header_size);
    char *text = code + header_size;
    text += sprintf(text, "%s%s", STANDIN_TRIPLE, target) + 1;
    text += sprintf(text, "%s", STANDIN_MARKER) + 1;
    return (size_t)(text - code);
}

struct failure {
    char mode[16]; /* "" to succeed */
    uint64_t number;
};

/* Parse a number, and convert it to bytes if it has a unit: "4096", "0x10", "512MiB", "16GiB". */
static inline uint64_t amount_of(const char *text) {
    char *end;
    uint64_t number = strtoull(text, &end, 0);
    double exact = *end == '.' ? strtod(text, &end) : 0;
    int shift = *end == 'K' ? 10 : *end == 'M' ? 20 : *end == 'G' ? 30 : 0;
    return exact > 0 ? (uint64_t)(exact * (double)((uint64_t)1 << shift)) : number << shift;
}

/* The mode that ROCENV_STANDIN_FAIL sets for a group: "gemm=wrong1,malloc=oom:4096". */
static inline struct failure failure_of(const char *group) {
    struct failure found = {"", 0};
    const char *at = variable("ROCENV_STANDIN_FAIL");
    size_t length = strlen(group);
    while (at && *at) {
        if (!strncmp(at, group, length) && at[length] == '=') {
            at += length + 1;
            size_t mode = strcspn(at, ":,");
            if (mode >= sizeof found.mode) mode = sizeof found.mode - 1;
            memcpy(found.mode, at, mode);
            if (at[mode] == ':') found.number = amount_of(at + mode + 1);
            return found;
        }
        at = strchr(at, ',');
        if (at) at++;
    }
    return found;
}

static inline int fails_as(const struct failure *failure, const char *mode) { return !strcmp(failure->mode, mode); }

static inline void touch_nothing(void) {
    volatile int *volatile nowhere = NULL;
    *nowhere = 0;
}

/* Apply modes that work in any function, and return the status to report, or 0 to continue. */
static inline int fail(const struct failure *failure) {
    static uint64_t calls; /* calls so far of functions that crash on the Nth call */
    if (fails_as(failure, "segv") && ++calls >= failure->number) {
        nobody_catches();
        touch_nothing();
    }
    if (fails_as(failure, "fault")) touch_nothing();
    if (fails_as(failure, "abort")) give_up();
    if (fails_as(failure, "exit")) exit((int)failure->number);
    if (fails_as(failure, "hang")) wait_for_ever();
    return fails_as(failure, "error") ? (int)failure->number : 0;
}

/* Begin a function: set `failure` to its mode. */
#define FAIL_AS(mode_of_it)                           \
    struct failure failure = mode_of_it;              \
    do {                                              \
        int status_ = fail(&failure);                 \
        if (status_) return status_;                  \
    } while (0)

/* Begin a function in a group. */
#define FAIL(group) FAIL_AS(failure_of(group))

static inline int leaves_unwritten(const struct failure *failure) { return fails_as(failure, "unwritten"); }

/* The value to store as result number `index` of `count`. */
static inline float spoiled(const struct failure *failure, size_t index, size_t count, float value) {
    int chosen = index == count / 2 + 1;
    if (fails_as(failure, "zero")) return 0;
    if (fails_as(failure, "wrong") || (chosen && fails_as(failure, "wrong1"))) return value + 0.125f;
    if (chosen && fails_as(failure, "nan")) return value * (float)__builtin_nan("");
    return value;
}

static inline uint16_t spoiled_half(const struct failure *failure, size_t index, size_t count, uint16_t half) {
    int chosen = index == count / 2 + 1;
    if (fails_as(failure, "zero")) return 0;
    if (fails_as(failure, "wrong") || (chosen && fails_as(failure, "wrong1"))) return half ^ 0x0400;
    if (chosen && fails_as(failure, "nan")) return 0x7e00;
    return half;
}

/* Corrupt copied bytes. */
static inline void spoil_bytes(const struct failure *failure, char *bytes, size_t size) {
    if (fails_as(failure, "wrong1")) bytes[size / 2] ^= 1;
    if (fails_as(failure, "wrong"))
        for (size_t i = 0; i < size; i++) bytes[i] ^= 1;
}

/* Announce the library, and return the status set for its group. */
static inline int announce(const char *library, const char *group) {
    fprintf(stderr, "rocenv stand-in: this is %s on the CPU, test equipment, NOT A GPU RUNTIME\n", library);
    struct failure failure = failure_of(group);
    return fail(&failure);
}

#ifdef STANDIN_NEEDS_ABSENT
int rocenv_absent(void); /* from a library that does not exist */
EXPORT int rocenv_needs_absent(void) { return rocenv_absent(); }
#endif

#endif
