/* Stands in for hipRTC: "compiles" to an ELF header for an AMD GPU with the target's name. For tests only. */
#include "standin.h"

enum { SUCCESS = 0, INVALID_INPUT = 3, INVALID_PROGRAM = 4, INVALID_OPTION = 5, COMPILATION = 6 };

EXPORT SHARED int rocenv_standin = 1;

struct program {
    int mentions_kernel;
    char log[256];
    char code[STANDIN_CODE_BYTES];
    size_t code_size;
};

ON_LOAD(LIBRARY("hiprtc"), "load.hiprtc")

EXPORT int hiprtcCreateProgram(void **program, const char *source, const char *name, int headers, const char **texts,
                               const char **names) {
    (void)name, (void)headers, (void)texts, (void)names;
    if (!source) return INVALID_INPUT;
    struct program *made = calloc(1, sizeof *made);
    made->mentions_kernel = strstr(source, "sgemm") != NULL;
    *program = made;
    return SUCCESS;
}

EXPORT int hiprtcCompileProgram(void *handle, int count, const char **options) {
    static const char wanted[] = "--offload-arch=";
    struct program *program = handle;
    const char *target = NULL;
    for (int i = 0; i < count; i++)
        if (!strncmp(options[i], wanted, strlen(wanted))) target = options[i] + strlen(wanted);
    struct failure failure = failure_of("compile");
    int status = fail(&failure);
    if (!program || !program->mentions_kernel) return INVALID_PROGRAM;
    if (!target || strlen(target) > 100) return INVALID_OPTION;
    if (status) {
        snprintf(program->log, sizeof program->log, "sgemm.hip:1:1: error: the stand-in was set to fail\n");
        return status;
    }
    int machine = fails_as(&failure, "wrong") ? ELF_X86_64 : ELF_AMDGPU;
    program->code_size = write_code(program->code, target, machine);
    return SUCCESS;
}

EXPORT int hiprtcGetProgramLogSize(void *program, size_t *size) {
    const char *log = ((struct program *)program)->log;
    *size = *log ? strlen(log) + 1 : 0;
    return SUCCESS;
}

EXPORT int hiprtcGetProgramLog(void *program, char *log) {
    strcpy(log, ((struct program *)program)->log);
    return SUCCESS;
}

EXPORT int hiprtcGetCodeSize(void *program, size_t *size) {
    *size = ((struct program *)program)->code_size;
    return SUCCESS;
}

EXPORT int hiprtcGetCode(void *program, char *code) {
    memcpy(code, ((struct program *)program)->code, ((struct program *)program)->code_size);
    return SUCCESS;
}

EXPORT int hiprtcDestroyProgram(void **program) {
    free(*program);
    *program = NULL;
    return SUCCESS;
}

EXPORT const char *hiprtcGetErrorString(int result) {
    return result == COMPILATION ? "HIPRTC_ERROR_COMPILATION" : "HIPRTC_ERROR";
}
