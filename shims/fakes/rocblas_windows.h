/* rocBLAS handle creation on Windows. Part of rocblas.c. For tests only; see ../README.md. */
#ifndef STANDIN_CRASHES_WITH
#define STANDIN_CRASHES_WITH "" /* the ZLUDA build whose calls cause an access violation */
#endif
#ifndef STANDIN_SERIES
#define STANDIN_SERIES "5.7" /* series of the HIP SDK that it was built for */
#endif

void rocenv_standin_target(char *name, size_t size);

static char caller[32];

/* Record the ZLUDA build that calls this library. */
EXPORT void rocenv_standin_caller(const char *version) { snprintf(caller, sizeof caller, "%s", version); }

static int is_called_by(const char *version) { return *version && !strcmp(caller, version); }

/* The kernel folder, next to this DLL. */
static void library_folder(char *folder, size_t size) {
    const char *elsewhere = variable("ROCBLAS_TENSILE_LIBPATH");
    char own[MAX_PATH];
    GetModuleFileNameA(own_module, own, sizeof own);
    char *end = strrchr(own, '\\');
    if (end) *end = 0;
    if (elsewhere)
        snprintf(folder, size, "%s", elsewhere);
    else
        snprintf(folder, size, "%s\\rocblas\\library", own);
}

/* Whether the kernels for the current device match this rocBLAS; if none exist, exit like the real one. */
static int has_kernels(void) {
    char folder[MAX_PATH], path[MAX_PATH + 64], target[64], made_for[64] = "";
    rocenv_standin_target(target, sizeof target);
    target[strcspn(target, ":")] = 0;
    library_folder(folder, sizeof folder);
    snprintf(path, sizeof path, "%s\\TensileLibrary_lazy_%s.dat", folder, target);
    FILE *file = fopen(path, "rb");
    if (!file) {
        fprintf(stderr,
                "\nrocBLAS error: Cannot read %s\\TensileLibrary.dat: No such file or directory for GPU arch : %s\n",
                folder, target);
        give_up();
    }
    if (fscanf(file, STANDIN_LIBRARY " %63s", made_for) != 1) made_for[0] = 0;
    fclose(file);
    return !strcmp(made_for, STANDIN_SERIES);
}
