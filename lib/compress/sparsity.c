#include "lib/compress/sparsity.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "lib/compress/method_int.h"

infq_status infq_sparsity_pattern(const char *text, infq_sparsity *s, infq_err *err)
{
    int n = 0, m = 0, end = 0;

    if (sscanf(text, "%9d:%9d%n", &n, &m, &end) != 2 || text[end] || n < 1 || m < 2)
        return infq_err_set(err, INFQ_E_USAGE, "pattern %.40s: N:M is wanted, as 2:4", text);
    if (n >= m)
        return infq_err_set(err, INFQ_E_USAGE, "pattern %.40s: N values of M stay, so N must be smaller than M", text);
    if (m > INFQ_PRUNE_MAX_M)
        return infq_err_set(err, INFQ_E_USAGE, "pattern %.40s: M is %d at most", text, INFQ_PRUNE_MAX_M);
    *s = (infq_sparsity){ .fraction = 1.0 - (double)n / m, .n = n, .m = m };
    return INFQ_E_OK;
}

infq_status infq_sparsity_make(double fraction, const char *pattern, infq_sparsity *s, infq_err *err)
{
    *s = (infq_sparsity){ 0 };
    if (pattern)
        INFQ_TRY(infq_sparsity_pattern(pattern, s, err));
    if (isnan(fraction))
        return INFQ_E_OK;
    if (!(fraction > 0.0 && fraction < 1.0))
        return infq_err_set(err, INFQ_E_USAGE, "sparsity %g: a share of zeros between 0 and 1 is wanted", fraction);
    if (pattern && fabs(fraction - s->fraction) > 1e-9)
        return infq_err_set(err, INFQ_E_USAGE, "sparsity %g does not go with pattern %.40s, which makes %g of the weights zero", fraction, pattern,
                            s->fraction);
    if (!pattern)
        s->fraction = fraction;
    return INFQ_E_OK;
}

char *infq_sparsity_name(const infq_sparsity *s, char *out, size_t cap)
{
    if (s->m)
        snprintf(out, cap, "%d-%d", (int)s->n, (int)s->m);
    else
        snprintf(out, cap, "%.6g", 100.0 * s->fraction);
    return out;
}

char *infq_sparsity_describe(const infq_sparsity *s, char *out, size_t cap)
{
    if (s->m)
        snprintf(out, cap, "%d:%d", (int)s->n, (int)s->m);
    else
        snprintf(out, cap, "%.6g %% zeros in each %s", 100.0 * s->fraction, s->whole ? "matrix" : "row");
    return out;
}

const char *infq_sparsity_check_row(const infq_sparsity *s, bool updated, const float *row, const float *src, int64_t n_cols,
                                    int64_t *bad_col, int64_t *zeros)
{
    int64_t n = 0, group = 0;
    const char *what = NULL;

    for (int64_t c = 0; c < n_cols; c++) {
        if (s->m && c % s->m == 0)
            group = 0;
        n += row[c] == 0.0f;
        group += row[c] != 0.0f;
        if (!what && s->m && group > s->n) {
            what = "breaks the pattern";
            *bad_col = c;
        }
        if (!what && src && !updated && row[c] != 0.0f && row[c] != src[c]) {
            what = "was kept but differs from the source";
            *bad_col = c;
        }
    }
    *zeros += n;
    if (!what && !s->whole && n < infq_prune_count(s, n_cols)) {
        what = "has too few zeros in its row";
        *bad_col = 0;
    }
    return what;
}

infq_status infq_prune_store(const infq_method_args *a, const float *x, float *t, int64_t n_rows, infq_quant_out *out, infq_err *err)
{
    infq_dtype dtype = infq_dtype_of_elem(a->spec.codec.elem);
    int64_t n = n_rows * a->spec.n_cols;

    INFQ_TRY(infq_convert_from_f32(dtype, t, n, out->codes, err));
    INFQ_TRY(infq_convert_to_f32(dtype, out->codes, n, t, err));
    for (int64_t i = 0; i < n; i++) {
        double d = (double)x[i] - (double)t[i];
        out->sq_err += d * d;
        out->sq_sum += (double)x[i] * (double)x[i];
        out->n_zeros += t[i] == 0.0f;
    }
    return INFQ_E_OK;
}
