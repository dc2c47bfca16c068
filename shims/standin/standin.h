/* What the three libraries of the stand-in share: how they are told to fail. Test equipment, see ../README.md. */
#ifndef ROCENV_STANDIN_H
#define ROCENV_STANDIN_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

#ifndef STANDIN_HIP_VERSION
#define STANDIN_HIP_VERSION 50731921
#endif

/* Ends a code object that the stand-in's hipRTC made; its HIP loads no other. */
#define STANDIN_MARKER "rocenv-standin-code"
#define STANDIN_TRIPLE "amdgcn-amd-amdhsa--"

struct failure {
    char mode[16]; /* "" = work */
    unsigned long number;
};

/* The mode that ROCENV_STANDIN_FAIL asks of a group, "gemm=wrong1,malloc=oom:4096". */
static inline struct failure failure_of(const char *group) {
    struct failure found = {"", 0};
    const char *at = getenv("ROCENV_STANDIN_FAIL");
    size_t length = strlen(group);
    while (at && *at) {
        if (!strncmp(at, group, length) && at[length] == '=') {
            at += length + 1;
            size_t mode = strcspn(at, ":,");
            if (mode >= sizeof found.mode) mode = sizeof found.mode - 1;
            memcpy(found.mode, at, mode);
            if (at[mode] == ':') found.number = strtoul(at + mode + 1, NULL, 0);
            return found;
        }
        at = strchr(at, ',');
        if (at) at++;
    }
    return found;
}

static inline int fails_as(const struct failure *failure, const char *mode) { return !strcmp(failure->mode, mode); }

/* Do what can be done anywhere, and return the status to answer with, 0 = go on. */
static inline int fail(const struct failure *failure) {
    volatile int *volatile nowhere = NULL;
    if (fails_as(failure, "segv")) *nowhere = 0;
    if (fails_as(failure, "abort")) abort();
    if (fails_as(failure, "exit")) exit((int)failure->number);
    if (fails_as(failure, "hang"))
        for (;;) pause();
    return fails_as(failure, "error") ? (int)failure->number : 0;
}

/* Start a function of a group: from here on `failure` is its mode. */
#define FAIL(group)                                   \
    struct failure failure = failure_of(group);       \
    do {                                              \
        int status_ = fail(&failure);                 \
        if (status_) return status_;                  \
    } while (0)

static inline int leaves_unwritten(const struct failure *failure) { return fails_as(failure, "unwritten"); }

/* What to store as result number `index` of `count`. */
static inline float spoiled(const struct failure *failure, size_t index, size_t count, float value) {
    int chosen = index == count / 2 + 1;
    if (fails_as(failure, "wrong") || (chosen && fails_as(failure, "wrong1"))) return value + 0.125f;
    if (chosen && fails_as(failure, "nan")) return value * (float)__builtin_nan("");
    return value;
}

static inline void announce(const char *library, const char *group) {
    fprintf(stderr, "rocenv stand-in: this is %s on the CPU, test equipment, NOT A GPU RUNTIME\n", library);
    struct failure failure = failure_of(group);
    fail(&failure);
}

#endif
