/* Stands in for rocBLAS on the CPU; column-major, linked against the fake HIP. For tests only. */
#include "standin.h"

enum { SUCCESS = 0, INVALID_HANDLE = 1, NOT_IMPLEMENTED = 2, INVALID_POINTER = 3, INTERNAL_ERROR = 6 };
enum { OPERATION_NONE = 111, F16 = 150, F32 = 151 };

EXPORT int rocenv_standin = 1;

#ifndef STANDIN_ROCBLAS_VERSION
#define STANDIN_ROCBLAS_VERSION "3.1.0"
#endif

int rocenv_standin_device_memory(const void *pointer, size_t size);
int hipGetDeviceCount(int *count);

static char the_handle[] = "handle";
#ifdef _WIN32
#include "rocblas_windows.h"
#endif

ON_LOAD(LIBRARY("rocblas"), "load.rocblas")

EXPORT int rocblas_get_version_string(char *text, size_t size) {
    FAIL("blasversion");
    snprintf(text, size, "%s.", fails_as(&failure, "wrong") ? "1.0.0" : STANDIN_ROCBLAS_VERSION);
    return SUCCESS;
}

EXPORT int rocblas_create_handle(void **handle) {
    FAIL("handle");
    int count = 0;
    if (hipGetDeviceCount(&count) || count < 1) return INTERNAL_ERROR;
#ifdef _WIN32
    if (is_called_by(STANDIN_CRASHES_WITH)) {
        nobody_catches();
        touch_nothing();
    }
    if (!has_kernels()) return INTERNAL_ERROR;
#endif
    *handle = the_handle;
    return SUCCESS;
}

EXPORT int rocblas_destroy_handle(void *handle) { return handle == the_handle ? SUCCESS : INVALID_HANDLE; }

/* ---------------------------------------------------------------- float16 */

static float float_bits(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static float from_half(uint16_t half) {
    uint32_t sign = (uint32_t)(half & 0x8000) << 16, exponent = half >> 10 & 31, fraction = half & 0x3ff;
    if (exponent == 31) return float_bits(sign | 0x7f800000 | fraction << 13);
    if (exponent) return float_bits(sign | (exponent + 112) << 23 | fraction << 13);
    float tiny = (float)fraction * 0x1p-24f;
    return sign ? -tiny : tiny;
}

/* Round to nearest, ties to even. */
static uint16_t to_half(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    uint16_t sign = (uint16_t)(bits >> 16 & 0x8000);
    bits &= 0x7fffffff;
    if (bits > 0x7f800000) return sign | 0x7e00;
    if (bits >= 0x477ff000) return sign | 0x7c00;
    if (bits < 0x38800000) { /* subnormal: count steps of 2^-24; adding a large float rounds to them */
        float steps = float_bits(bits) * 0x1p24f + 0x1p23f;
        memcpy(&bits, &steps, sizeof bits);
        return sign | (uint16_t)(bits & 0x7fffff);
    }
    bits += 0xfff + (bits >> 13 & 1);
    return sign | (uint16_t)((bits - 0x38000000) >> 13);
}

/* ---------------------------------------------------------------- matrix multiplication */

struct operand {
    void *data;
    int type;
    size_t leading;
};

static float load(const struct operand *from, size_t row, size_t column) {
    size_t at = column * from->leading + row;
    return from->type == F16 ? from_half(((uint16_t *)from->data)[at]) : ((float *)from->data)[at];
}

static void store(const struct operand *to, size_t row, size_t column, float value) {
    size_t at = column * to->leading + row;
    if (to->type == F16)
        ((uint16_t *)to->data)[at] = to_half(value);
    else
        ((float *)to->data)[at] = value;
}

static int on_device(const struct operand *operand, size_t columns) {
    size_t item = operand->type == F16 ? sizeof(uint16_t) : sizeof(float);
    return rocenv_standin_device_memory(operand->data, operand->leading * columns * item);
}

static int multiply(const struct failure *failure, int m, int n, int k, float alpha, struct operand a,
                    struct operand b, float beta, struct operand c) {
    if (!on_device(&a, k) || !on_device(&b, n) || !on_device(&c, n)) return INVALID_POINTER;
    if (leaves_unwritten(failure)) return SUCCESS;
    for (int j = 0; j < n; j++)
        for (int i = 0; i < m; i++) {
            float sum = 0;
            for (int l = 0; l < k; l++) sum += load(&a, i, l) * load(&b, l, j);
            sum *= alpha;
            if (beta != 0) sum += beta * load(&c, i, j); /* do not read C if beta is 0, because C may contain NaN */
            store(&c, i, j, spoiled(failure, (size_t)j * m + i, (size_t)m * n, sum));
        }
    return SUCCESS;
}

EXPORT int rocblas_sgemm(void *handle, int operation_a, int operation_b, int m, int n, int k, const float *alpha,
                         const float *a, int lda, const float *b, int ldb, const float *beta, float *c, int ldc) {
    FAIL("sgemm");
    if (handle != the_handle) return INVALID_HANDLE;
    if (operation_a != OPERATION_NONE || operation_b != OPERATION_NONE) return NOT_IMPLEMENTED;
    struct operand left = {(void *)a, F32, lda}, right = {(void *)b, F32, ldb}, result = {c, F32, ldc};
    return multiply(&failure, m, n, k, *alpha, left, right, *beta, result);
}

EXPORT int rocblas_gemm_ex(void *handle, int operation_a, int operation_b, int m, int n, int k, const void *alpha,
                           const void *a, int a_type, int lda, const void *b, int b_type, int ldb, const void *beta,
                           const void *c, int c_type, int ldc, void *d, int d_type, int ldd, int compute_type,
                           int algorithm, int solution, unsigned flags) {
    FAIL("gemm_ex");
    if (handle != the_handle) return INVALID_HANDLE;
    if (operation_a != OPERATION_NONE || operation_b != OPERATION_NONE || compute_type != F32 || algorithm ||
        solution || flags || c != d || ldc != ldd || c_type != d_type)
        return NOT_IMPLEMENTED;
    struct operand left = {(void *)a, a_type, lda}, right = {(void *)b, b_type, ldb}, result = {d, d_type, ldd};
    return multiply(&failure, m, n, k, *(const float *)alpha, left, right, *(const float *)beta, result);
}

EXPORT const char *rocblas_status_to_string(int status) {
    switch (status) {
        case INVALID_POINTER: return "rocblas_status_invalid_pointer";
        case INTERNAL_ERROR: return "rocblas_status_internal_error";
        default: return "rocblas_status_other";
    }
}
