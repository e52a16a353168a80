/* Zeros of every kind of matrix: reads all weights. */
#include <string.h>

#include "lib/base/arena.h"
#include "lib/base/mem.h"
#include "lib/base/par.h"
#include "lib/report/inspect.h"

#define PART 16 /* rows counted at a time */

typedef struct {
    int64_t zeros;
    bool two_of_four;
} part;

typedef struct {
    const infq_weight *w;
    float *rows;   // n_cols a thread
    part *parts;
} zeros_job;

static void count_part(void *ctx, int64_t begin, int64_t end, int thread)
{
    const zeros_job *j = ctx;
    int64_t n = j->w->n_cols;
    float *x = j->rows + thread * n;

    for (int64_t p = begin; p < end; p++) {
        part sum = { 0, n % 4 == 0 };
        for (int64_t r = p * PART; r < (p + 1) * PART && r < j->w->n_rows; r++) {
            int kept = 0;
            infq_weight_decode_row(j->w, r, x);
            for (int64_t c = 0; c < n; c++) {
                kept = c % 4 ? kept : 0;
                kept += x[c] != 0.0f;
                sum.two_of_four = sum.two_of_four && kept <= 2;
                sum.zeros += x[c] == 0.0f;
            }
        }
        j->parts[p] = sum;
    }
}

static infq_status count_matrix(const infq_weight *w, infq_arena *a, infq_zeros_row *row, infq_err *err)
{
    int64_t n = (w->n_rows + PART - 1) / PART;
    zeros_job j = { .w = w };
    void *mem;

    INFQ_TRY(infq_arena_alloc(a, (size_t)(w->n_cols * infq_par_threads()), sizeof(float), "rows being counted", &mem, err));
    j.rows = mem;
    INFQ_TRY(infq_arena_alloc(a, (size_t)n, sizeof(part), "sums", &mem, err));
    j.parts = mem;
    infq_par_for(n, 1, count_part, &j);
    row->two_of_four = row->n_matrices ? row->two_of_four : true;
    for (int64_t p = 0; p < n; p++) {
        row->zeros += j.parts[p].zeros;
        row->two_of_four = row->two_of_four && j.parts[p].two_of_four;
    }
    row->n_matrices++;
    row->weights += w->n_rows * w->n_cols;
    return INFQ_E_OK;
}

infq_status infq_inspect_zeros(const infq_checkpoint *ck, infq_inspect *out, infq_err *err)
{
    infq_reader *reader = NULL;
    infq_modules *modules = NULL;
    infq_arena *a = NULL;
    infq_status st = infq_reader_open(ck, &reader, err);

    memset(out->zeros, 0, sizeof(out->zeros));
    if (!st)
        st = infq_modules_find(ck, &modules, err);
    if (!st)
        st = infq_arena_new(65536, &a, err);
    for (size_t i = 0; !st && i < infq_modules_count(modules); i++) {
        const infq_module *m = infq_modules_get(modules, i);
        const infq_ck_tensor *t = infq_checkpoint_get(ck, m->tensor);
        infq_mark mark = infq_arena_mark(a);
        infq_weight w;
        if (m->n_rows == 0 || m->n_cols == 0)
            continue;
        st = infq_reader_read(reader, m->name, a, &w, err);
        if (!st)
            st = count_matrix(&w, a, &out->zeros[m->role], err);
        infq_checkpoint_drop(ck, t, 0, t->n_bytes);
        infq_arena_release(a, mark);
    }
    out->zeros_counted = !st;
    infq_arena_free(a);
    infq_modules_free(modules);
    infq_reader_close(reader);
    return st;
}

static infq_zeros_row total(const infq_inspect *in)
{
    infq_zeros_row t = { 0 };

    for (int r = 0; r <= INFQ_ROLE_OTHER; r++) {
        t.n_matrices += in->zeros[r].n_matrices;
        t.weights += in->zeros[r].weights;
        t.zeros += in->zeros[r].zeros;
    }
    return t;
}

static double share(const infq_zeros_row *r)
{
    return r->weights ? (double)r->zeros / (double)r->weights : 0.0;
}

void infq_inspect_zeros_text(const infq_inspect *in, infq_buf *to)
{
    infq_zeros_row all = total(in);

    infq_buf_fmt(to, "zeros: %.4f %% of the weights of %lld matrices\n", 100.0 * share(&all), (long long)all.n_matrices);
    for (int r = 0; r <= INFQ_ROLE_OTHER; r++) {
        const infq_zeros_row *z = &in->zeros[r];
        if (z->n_matrices)
            infq_buf_fmt(to, "  %-8s %6lld matrices  %8.4f %%%s\n", infq_role_name((infq_role)r), (long long)z->n_matrices, 100.0 * share(z),
                         z->two_of_four ? "  2:4" : "");
    }
}

void infq_inspect_zeros_json(const infq_inspect *in, infq_jw *w)
{
    infq_jw_key(w, "zeros");
    infq_jw_arr(w);
    for (int r = 0; r <= INFQ_ROLE_OTHER; r++) {
        const infq_zeros_row *z = &in->zeros[r];
        if (!z->n_matrices)
            continue;
        infq_jw_obj(w);
        infq_jw_key_str(w, "role", infq_role_name((infq_role)r));
        infq_jw_key_i64(w, "matrices", z->n_matrices);
        infq_jw_key_i64(w, "weights", z->weights);
        infq_jw_key_i64(w, "zeros", z->zeros);
        infq_jw_key_f64(w, "sparsity", share(z));
        infq_jw_key_bool(w, "two_of_four", z->two_of_four);
        infq_jw_end_obj(w);
    }
    infq_jw_end_arr(w);
}
