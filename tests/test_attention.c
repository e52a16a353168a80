/* Attention over the paged cache at every level of the machine: against the reference, and bitwise
 * row by row. */
#include "tests/testlib.h"

#include "lib/backend/backend.h"
#include "lib/base/cpu.h"
#include "lib/base/par.h"

static infq_backend *cpu, *ref;

static void open_backends(void)
{
    infq_err err;

    ck_ok(infq_backend_open("cpu", &cpu, &err), err);
    ck_ok(infq_backend_open("ref", &ref, &err), err);
    infq_par_threads_set(
        1); // waiting threads cost more than these products; tests of threads ask for them
}

static void close_backends(void)
{
    infq_backend_close(cpu);
    infq_backend_close(ref);
    ck_assert_uint_eq(infq_mem_stats_get().n_live, 0);
}

static float next_float(uint64_t *s)
{
    double v = 0.0;

    for (int k = 0; k < 4; k++) {
        *s = *s * 6364136223846793005u + 1442695040888963407u;
        v += (double)(*s >> 33) / 2147483648.0 - 0.5;
    }
    return (float)(v * 1.7);
}

#define MAX_PAGES 16
typedef struct {
    float *k[MAX_PAGES], *v[MAX_PAGES], *q, *y, *want;
    int64_t n_all, n_heads, n_kv, D, stride;
} cache;

/* A sequence of n positions; its keys and values go through kv_store in uneven parts. Unused cache
 * is NaN. */
static cache cache_new(int64_t n, int64_t n_heads, int64_t n_kv, int64_t D)
{
    cache c = { .n_all = n, .n_heads = n_heads, .n_kv = n_kv, .D = D, .stride = n_heads * D + 4 };
    int64_t page = n_kv * INFQ_KV_PAGE * D, n_pages = (n + INFQ_KV_PAGE - 1) / INFQ_KV_PAGE,
            xs = n_kv * D + 2;
    float *x = infq_mem_alloc((size_t)(n * xs) * sizeof(float));
    uint64_t s = 1;
    infq_err err;

    for (int64_t p = 0; p < n_pages; p++) {
        c.k[p] = infq_mem_alloc((size_t)page * sizeof(float));
        c.v[p] = infq_mem_alloc((size_t)page * sizeof(float));
        for (int64_t i = 0; i < page; i++)
            c.k[p][i] = c.v[p][i] = NAN;
    }
    for (int kv = 0; kv < 2; kv++) {
        for (int64_t i = 0; i < n * xs; i++)
            x[i] = next_float(&s);
        for (int64_t at = 0; at < n;) {
            int64_t m = at + 37 < n ? 37 : n - at;
            infq_kv_store_args a = { .x = x + at * xs,
                                     .pages = kv ? c.v : c.k,
                                     .n_tokens = m,
                                     .pos0 = at,
                                     .n_kv_heads = n_kv,
                                     .head_dim = D,
                                     .x_stride = xs,
                                     .turned = !kv };
            ck_ok(cpu->ops.kv_store(cpu->state, &a, &err), err);
            at += m;
        }
        // Position by position, straight from the definition.
        for (int64_t j = 0; j < n; j++)
            for (int64_t h = 0; h < n_kv; h++)
                for (int64_t d = 0; d < D; d++) {
                    float there = kv ? c.v[j / 64][(h * 64 + j % 64) * D + d] : c.k[j / 64][(h * D + d) * 64 + j % 64];
                    if (there != x[j * xs + h * D + d])
                        ck_abort_msg("position %lld, head %lld is not where it belongs", (long long)j, (long long)h);
                }
    }
    infq_mem_free(x);
    c.q = infq_mem_alloc((size_t)(n * c.stride) * sizeof(float));
    c.y = infq_mem_calloc((size_t)(n * c.stride), sizeof(float));
    c.want = infq_mem_calloc((size_t)(n * c.stride), sizeof(float));
    for (int64_t i = 0; i < n * c.stride; i++)
        c.q[i] = 2.0f * next_float(&s);
    return c;
}

static void cache_free(cache *c)
{
    for (int p = 0; p < MAX_PAGES; p++) {
        infq_mem_free(c->k[p]);
        infq_mem_free(c->v[p]);
    }
    infq_mem_free(c->q);
    infq_mem_free(c->y);
    infq_mem_free(c->want);
}

/* Queries pos0 .. pos0 + n - 1 into rows of y. */
static void attend(infq_backend *b, const cache *c, int64_t pos0, int64_t n, int64_t window,
                   float softcap, float *y)
{
    infq_attention_args a = { .q = c->q + pos0 * c->stride,
                              .y = y + pos0 * c->stride,
                              .k_pages = (const float *const *)c->k,
                              .v_pages = (const float *const *)c->v,
                              .n_tokens = n,
                              .pos0 = pos0,
                              .n_heads = c->n_heads,
                              .n_kv_heads = c->n_kv,
                              .head_dim = c->D,
                              .q_stride = c->stride,
                              .y_stride = c->stride,
                              .window = window,
                              .scale = 1.0f / sqrtf((float)c->D),
                              .softcap = softcap };
    infq_err err;

    ck_ok(b->ops.attention(b->state, &a, &err), err);
}

/* positions, heads, kv heads, head_dim, window, softcap */
static const struct {
    int64_t n, heads, kv, D, window;
    float softcap;
} cases[] = {
    { 1, 1, 1, 4, 0, 0.0f },     { 5, 2, 1, 6, 0, 0.0f },    { 64, 4, 4, 16, 0, 0.0f },
    { 65, 9, 3, 64, 0, 0.0f },   { 200, 9, 3, 64, 0, 0.0f }, { 130, 4, 2, 80, 0, 30.0f },
    { 300, 4, 2, 32, 70, 0.0f }, { 300, 2, 2, 10, 1, 0.0f }, { 260, 8, 1, 128, 100, 5.0f },
    { 150, 14, 2, 64, 0, 0.0f },
};
#define N_CASES ((int)(sizeof(cases) / sizeof(cases[0])))

START_TEST(attention_equals_the_reference)
{
    // Weights sum to 1 and values are below 4: scores of error 1e-5 (|q.k| < 100, F32) move the
    // mean by 4e-5 at most.
    infq_err err;

    for (int level = 0; level <= (int)infq_cpu_level_max(); level++) {
        cache c = cache_new(cases[_i].n, cases[_i].heads, cases[_i].kv, cases[_i].D);
        int64_t starts[] = { 0, c.n_all - 1, c.n_all / 2 };
        ck_ok(infq_cpu_level_set((infq_cpu_level)level, &err), err);
        for (int s = 0; s < 3; s++) {
            int64_t pos0 = starts[s], n = c.n_all - pos0;
            attend(ref, &c, pos0, n, cases[_i].window, cases[_i].softcap, c.want);
            attend(cpu, &c, pos0, n, cases[_i].window, cases[_i].softcap, c.y);
            for (int64_t i = pos0 * c.stride; i < c.n_all * c.stride; i++)
                if (!(fabsf(c.y[i] - c.want[i]) <= 4e-5f))
                    ck_abort_msg("case %d, level %d, from %lld, element %lld: %.9g, reference %.9g",
                                 _i, level, (long long)pos0, (long long)i, (double)c.y[i],
                                 (double)c.want[i]);
        }
        cache_free(&c);
    }
}
END_TEST

START_TEST(attention_rows_do_not_depend_on_the_batch_or_threads)
{
    infq_err err;

    for (int level = 0; level <= (int)infq_cpu_level_max(); level++) {
        cache c = cache_new(cases[_i].n, cases[_i].heads, cases[_i].kv, cases[_i].D);
        size_t n_bytes = (size_t)(c.n_all * c.stride) * sizeof(float);
        ck_ok(infq_cpu_level_set((infq_cpu_level)level, &err), err);
        infq_par_threads_set(1);
        for (int64_t t = 0; t < c.n_all; t++)
            attend(cpu, &c, t, 1, cases[_i].window, cases[_i].softcap, c.want);
        for (int64_t part = 1; part <= c.n_all; part = part * 2 + 3) {
            memset(c.y, 0, n_bytes);
            infq_par_threads_set(part % 3 == 0 ? 1 : 2);
            for (int64_t t = 0; t < c.n_all; t += part)
                attend(cpu, &c, t, t + part < c.n_all ? part : c.n_all - t, cases[_i].window,
                       cases[_i].softcap, c.y);
            ck_assert_msg(memcmp(c.y, c.want, n_bytes) == 0,
                          "case %d, level %d, %lld rows a call: other bits than one by one", _i,
                          level, (long long)part);
        }
        cache_free(&c);
    }
}
END_TEST

int main(void)
{
    Suite *s = suite_create("attention");
    TCase *t = tcase_create("attention");

    tcase_add_checked_fixture(t, open_backends, close_backends);
    tcase_set_timeout(t, 60);
    tcase_add_loop_test(t, attention_equals_the_reference, 0, N_CASES);
    tcase_add_loop_test(t, attention_rows_do_not_depend_on_the_batch_or_threads, 0, N_CASES);
    suite_add_tcase(s, t);
    return test_main(s);
}
