/* Stands in for hipRTC: "compiles" to an ELF header for an AMD GPU and the name of the target. Test equipment. */
#include "standin.h"

enum { SUCCESS = 0, INVALID_INPUT = 3, INVALID_PROGRAM = 4, INVALID_OPTION = 5, COMPILATION = 6 };

EXPORT __attribute__((weak)) int rocenv_standin = 1;

#define HEADER 64 /* of an ELF64 file */

struct program {
    int mentions_kernel;
    char log[256];
    char code[HEADER + 256];
    size_t code_size;
};

__attribute__((constructor)) static void loaded(void) { announce("libhiprtc", "load.hiprtc"); }

EXPORT int hiprtcCreateProgram(void **program, const char *source, const char *name, int headers, const char **texts,
                               const char **names) {
    (void)name, (void)headers, (void)texts, (void)names;
    if (!source) return INVALID_INPUT;
    struct program *made = calloc(1, sizeof *made);
    made->mentions_kernel = strstr(source, "sgemm") != NULL;
    *program = made;
    return SUCCESS;
}

static void write_code(struct program *program, const char *target, int machine) {
    /* ELF64, little-endian, version 1, OS/ABI "AMD HSA" */
    static const unsigned char identity[9] = {0x7f, 'E', 'L', 'F', 2, 1, 1, 64, 3};
    char *code = program->code;
    uint16_t fields[2] = {3 /* ET_DYN */, (uint16_t)machine};
    uint32_t version = 1;
    uint16_t header_size = HEADER;
    memcpy(code, identity, sizeof identity);
    memcpy(code + 16, fields, sizeof fields);
    memcpy(code + 20, &version, sizeof version);
    memcpy(code + 52, &header_size, sizeof header_size);
    char *text = code + HEADER;
    text += sprintf(text, "%s%s", STANDIN_TRIPLE, target) + 1;
    text += sprintf(text, "%s", STANDIN_MARKER) + 1;
    program->code_size = (size_t)(text - code);
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
        snprintf(program->log, sizeof program->log, "sgemm.hip:1:1: error: the stand-in was told to fail\n");
        return status;
    }
    write_code(program, target, fails_as(&failure, "wrong") ? 62 /* x86-64 */ : 224);
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
