/* Many-row products by oneDNN. The BLAS-like calls of its C interface are the same in versions 2.x
 * and 3.x; they pick the kernel by processor (AVX2, AVX-512, VNNI, AMX, NEON) and keep generated
 * code themselves. Each call runs on one thread: the caller gives every thread blocks of its own,
 * so results do not depend on the number of threads. */
#include <oneapi/dnnl/dnnl.h>

#include "kernels/cpu/cpu_int.h"
#include "lib/base/par.h"

bool infq_dnnl_f32(int64_t n_m, int64_t n_n, int64_t n_k, const float *x, const float *w, float *y,
                   int64_t ldy)
{
    int n_threads = infq_par_threads();
    dnnl_status_t st;

    // A region of one thread is not one to oneDNN: it would start its own.
    infq_par_threads_set(1);
    st = dnnl_sgemm('N', 'T', n_m, n_n, n_k, 1.0f, x, n_k, w, n_k, 0.0f, y, ldy);
    infq_par_threads_set(n_threads);
    return st == dnnl_success;
}

bool infq_dnnl_f32_tn(int64_t n_m, int64_t n_n, int64_t n_k, const float *a, int64_t lda, const float *b, int64_t ldb,
                      float *y, int64_t ldy)
{
    int n_threads = infq_par_threads();
    dnnl_status_t st;

    infq_par_threads_set(1);
    st = dnnl_sgemm('T', 'N', n_m, n_n, n_k, 1.0f, a, lda, b, ldb, 0.0f, y, ldy);
    infq_par_threads_set(n_threads);
    return st == dnnl_success;
}

bool infq_dnnl_i8(int64_t n_m, int64_t n_n, int64_t n_k, const int8_t *x, const int8_t *w,
                  int64_t ldw, int32_t *y)
{
    int n_threads = infq_par_threads();
    const int32_t zero = 0;
    dnnl_status_t st;

    infq_par_threads_set(1);
    st = dnnl_gemm_s8s8s32('N', 'T', 'F', n_m, n_n, n_k, 1.0f, x, n_k, 0, w, ldw, 0, 0.0f, y, n_n,
                           &zero);
    infq_par_threads_set(n_threads);
    return st == dnnl_success;
}
