/* The registry, and the operations without weights at every level of the machine, against the
 * reference backend. */
#include "tests/testlib.h"

#include <sys/stat.h>

#include "lib/backend/backend.h"
#include "lib/base/cpu.h"
#include "lib/base/par.h"

static infq_backend *cpu, *ref;

static float *random_floats(int64_t n, uint64_t s, float scale)
{
    float *x = infq_mem_alloc((size_t)n * sizeof(float));

    for (int64_t i = 0; i < n; i++) {
        double v = 0.0;
        for (int k = 0; k < 4; k++) {
            s = s * 6364136223846793005u + 1442695040888963407u;
            v += (double)(s >> 33) / 2147483648.0 - 0.5;
        }
        x[i] = (float)(v * 1.7 * (double)scale);
    }
    return x;
}

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

#define LEVELS(level)                                                                              \
    for (int level = 0; level <= (int)infq_cpu_level_max() && set_level(level); level++)

static bool set_level(int level)
{
    infq_err err;

    ck_ok(infq_cpu_level_set((infq_cpu_level)level, &err), err);
    return true;
}

/* |got - want| <= rel |want| + abs, element by element. */
static void check_close(const float *got, const float *want, int64_t n, double rel, double abs,
                        const char *what, int level)
{
    for (int64_t i = 0; i < n; i++)
        if (!(fabs((double)got[i] - want[i]) <= rel * fabs((double)want[i]) + abs))
            ck_abort_msg("%s, level %d, element %lld: %.9g, reference %.9g", what, level,
                         (long long)i, (double)got[i], (double)want[i]);
}

START_TEST(backend_open_knows_its_names)
{
    infq_backend *b = NULL;
    infq_err err;

    ck_ok(infq_backend_open("auto", &b, &err), err);
    ck_assert_str_eq(b->ops.name, "cpu");
    infq_backend_close(b);
    ck_ok(infq_backend_open("ref", &b, &err), err);
    ck_assert_str_eq(b->ops.name, "ref");
    infq_backend_close(b);
    ck_assert_int_eq(infq_backend_open("tpu", &b, &err), INFQ_E_USAGE);
    ck_assert_ptr_nonnull(strstr(err.msg, "tpu"));
}
END_TEST

START_TEST(backend_open_says_why_there_is_no_cuda)
{
    infq_backend *b = NULL;
    infq_err err;
    char path[400];
    const char *dir = test_tmpdir();

    setenv("INFQ_BACKEND_DIR", dir, 1);
    ck_assert_int_eq(infq_backend_open("cuda", &b, &err), INFQ_E_DEVICE);
    ck_assert_msg(strstr(err.msg, "not built here") && strstr(err.msg, "libinfq_cuda.so"), "%s",
                  err.msg);
    // A file that is no shared object: the loader's reason.
    snprintf(path, sizeof(path), "%s/libinfq_cuda.so", dir);
    ck_ok(infq_file_write_atomic(path, "no", 2, false, &err), err);
    ck_assert_int_eq(infq_backend_open("cuda", &b, &err), INFQ_E_DEVICE);
    ck_assert_msg(strstr(err.msg, "cuda: ") && !strstr(err.msg, "not built here"), "%s", err.msg);
    ck_assert_ptr_null(b);
}
END_TEST

START_TEST(backend_tables_are_complete_and_support_every_codec)
{
    const infq_codec c = {
        .elem = INFQ_ELEM_U4, .group_rows = 1, .group_cols = 64, .scale = INFQ_ELEM_BF16
    };
    const infq_codec none = { .elem = INFQ_ELEM_NONE };
    infq_backend *both[] = { cpu, ref };

    for (int i = 0; i < 2; i++) {
        infq_backend *b = both[i];
        ck_assert_uint_eq(b->ops.abi_version, INFQ_BACKEND_ABI);
        ck_assert(b->ops.rmsnorm && b->ops.layernorm && b->ops.rope && b->ops.attention &&
                  b->ops.kv_store && b->ops.glu && b->ops.add);
        ck_assert(b->ops.supports(b->state, INFQ_OP_MATMUL, &c, 10, 64));
        ck_assert(!b->ops.supports(b->state, INFQ_OP_MATMUL, &none, 10, 64));
        ck_assert(b->ops.supports(b->state, INFQ_OP_ATTENTION, NULL, 0, 0));
    }
}
END_TEST

START_TEST(backend_buffers_keep_what_is_uploaded)
{
    char text[16] = { 0 };
    void *p;
    infq_err err;

    ck_ok(cpu->ops.alloc(cpu->state, 16, &p, &err), err);
    ck_ok(cpu->ops.upload(cpu->state, p, "fifteen letters", 16, &err), err);
    ck_ok(cpu->ops.download(cpu->state, text, p, 16, &err), err);
    ck_assert_str_eq(text, "fifteen letters");
    cpu->ops.free(cpu->state, p);
}
END_TEST

START_TEST(backend_open_and_product_survive_every_failed_allocation)
{
    float x[64] = { 1.0f }, codes[64 * 3] = { 1.0f }, y[64 * 3];
    infq_weight w = { .codec = { .elem = INFQ_ELEM_F32 },
                      .n_rows = 3,
                      .n_cols = 64,
                      .codes = { codes, 256 },
                      .outer = 1.0f };
    bool done = false;

    for (size_t n = 1; !done; n++) {
        infq_backend *b = NULL;
        infq_pweight *p = NULL;
        infq_err err;
        infq_status st;
        infq_mem_fail_at(n);
        st = infq_backend_open("cpu", &b, &err);
        if (!st)
            st = b->ops.weight_prepare(b->state, &w, &p, &err);
        if (!st) {
            infq_matmul_args a = { .w = p, .x = x, .y = y, .n_tokens = 1, .invariant = true };
            st = b->ops.matmul(b->state, &a, 1, &err);
        }
        infq_mem_fail_at(0);
        ck_assert_msg(st == 0 || st == INFQ_E_NOMEM, "status %d", (int)st);
        done = st == 0;
        if (b && p)
            b->ops.weight_free(b->state, p);
        infq_backend_close(b);
        ck_assert_msg(done || n < 20, "allocation %zu still fails", n);
    }
    ck_assert_float_eq(y[0], 1.0f);
}
END_TEST

/* Norms: sums of n squares in F32 lanes, a few roundings an element: 2e-6 relative with room; layer
 * norm subtracts a mean first, which leaves an absolute error of some 2^-23 of the largest |x| *
 * gain / sd. */
START_TEST(norms_equal_the_reference)
{
    const int64_t cols[] = { 1, 7, 16, 33, 64, 100, 576 };

    LEVELS(level)
    for (int i = 0; i < 7; i++) {
        int64_t n = cols[i], R = 5, stride = n + 3;
        float *x = random_floats(R * stride, 1, 3.0f), *g = random_floats(n, 2, 1.0f),
              *b = random_floats(n, 3, 1.0f);
        float *y = random_floats(R * stride, 4, 1.0f),
              *want = infq_mem_alloc((size_t)(R * stride) * sizeof(float));
        infq_norm_args a = { .x = x,
                             .gain = g,
                             .y = y,
                             .n_rows = R,
                             .n_cols = n,
                             .x_stride = stride,
                             .y_stride = stride,
                             .eps = 1e-5f };
        infq_norm_args r = a;
        infq_err err;
        r.y = want;
        memcpy(want, y, (size_t)(R * stride) * sizeof(float));
        ck_ok(ref->ops.rmsnorm(ref->state, &r, &err), err);
        ck_ok(cpu->ops.rmsnorm(cpu->state, &a, &err), err);
        check_close(y, want, R * stride, 2e-6, 0.0, "rmsnorm", level);
        for (int bias = 0; bias < 2 && n > 1; bias++) {
            a.bias = r.bias = bias ? b : NULL;
            ck_ok(ref->ops.layernorm(ref->state, &r, &err), err);
            ck_ok(cpu->ops.layernorm(cpu->state, &a, &err), err);
            check_close(y, want, R * stride, 2e-6, 2e-5, "layernorm", level);
        }
        // In place.
        a.y = x;
        a.bias = NULL;
        ck_ok(ref->ops.rmsnorm(ref->state,
                               &(infq_norm_args){ .x = x,
                                                  .gain = g,
                                                  .y = want,
                                                  .n_rows = R,
                                                  .n_cols = n,
                                                  .x_stride = stride,
                                                  .y_stride = stride,
                                                  .eps = 1e-5f },
                               &err),
              err);
        ck_ok(cpu->ops.rmsnorm(cpu->state, &a, &err), err);
        for (int64_t t = 0; t < R; t++)
            check_close(x + t * stride, want + t * stride, n, 2e-6, 0.0, "rmsnorm in place", level);
        infq_mem_free(x);
        infq_mem_free(g);
        infq_mem_free(b);
        infq_mem_free(y);
        infq_mem_free(want);
    }
}
END_TEST

START_TEST(rope_equals_the_reference_and_leaves_the_rest)
{
    const int64_t dims[][2] = { { 64, 64 }, { 64, 16 }, { 10, 6 }, { 40, 40 }, { 128, 64 } };
    int32_t positions[9];

    LEVELS(level)
    for (int i = 0; i < 5; i++) {
        int64_t D = dims[i][0], rot = dims[i][1], H = 3, T = 9, stride = H * D + 5;
        float *x = random_floats(T * stride, 1, 1.0f),
              *want = infq_mem_alloc((size_t)(T * stride) * sizeof(float));
        float *cs = random_floats(20 * rot, 2, 0.5f);
        infq_err err;
        for (int t = 0; t < 9; t++)
            positions[t] = (t * 7) % 20;
        memcpy(want, x, (size_t)(T * stride) * sizeof(float));
        infq_rope_args a = { .x = x,
                             .n_tokens = T,
                             .n_heads = H,
                             .head_dim = D,
                             .stride = stride,
                             .n_rot = rot,
                             .positions = positions,
                             .cos_sin = cs };
        infq_rope_args r = a;
        r.x = want;
        ck_ok(ref->ops.rope(ref->state, &r, &err), err);
        ck_ok(cpu->ops.rope(cpu->state, &a, &err), err);
        // Two products and a sum of values below 3, each rounded.
        check_close(x, want, T * stride, 1e-6, 1e-6, "rope", level);
        infq_mem_free(x);
        infq_mem_free(want);
        infq_mem_free(cs);
    }
}
END_TEST

/* Gates: e^x within 1 ulp, then 3 roundings; SiLU below -88.7, where e^-x overflows, is 0 instead
 * of -2.6e-37 at most. GELU's tails are products of x and a number near 0 that comes from one near
 * 1: absolute error 1e-6 there. */
START_TEST(gates_equal_the_reference_over_the_whole_range)
{
    const infq_fn fns[] = { INFQ_FN_SILU, INFQ_FN_GELU, INFQ_FN_GELU_TANH, INFQ_FN_RELU };

    LEVELS(level)
    for (int f = 0; f < 4; f++) {
        int64_t R = 3, n = 2001;
        float *x = infq_mem_alloc((size_t)(R * n) * sizeof(float)),
              *u = random_floats(R * n, 5, 1.0f);
        float *y = infq_mem_calloc((size_t)(R * n), sizeof(float)),
              *want = infq_mem_calloc((size_t)(R * n), sizeof(float));
        infq_err err;
        for (int64_t i = 0; i < R * n; i++) // -20..20, then -200..200
            x[i] = (float)((double)(i % n - n / 2) * (i < n ? 0.02 : i < 2 * n ? 0.2 : 0.0031));
        infq_glu_args a = { .gate = x,
                            .up = u,
                            .y = y,
                            .n_rows = R,
                            .n_cols = n,
                            .gate_stride = n,
                            .up_stride = n,
                            .y_stride = n,
                            .fn = fns[f] };
        infq_glu_args r = a;
        r.y = want;
        ck_ok(ref->ops.glu(ref->state, &r, &err), err);
        ck_ok(cpu->ops.glu(cpu->state, &a, &err), err);
        check_close(y, want, R * n, 2e-6, f == 0 ? 2e-36 : 1e-6, "glu", level);
        a.up = r.up = NULL;
        ck_ok(ref->ops.glu(ref->state, &r, &err), err);
        ck_ok(cpu->ops.glu(cpu->state, &a, &err), err);
        check_close(y, want, R * n, 2e-6, f == 0 ? 2e-36 : 1e-6, "act", level);
        infq_mem_free(x);
        infq_mem_free(u);
        infq_mem_free(y);
        infq_mem_free(want);
    }
}
END_TEST

START_TEST(add_adds_every_element_once)
{
    LEVELS(level)
    for (int64_t n = 1; n < 70000; n = n * 3 + 1) {
        float *x = random_floats(n, 1, 1.0f), *y = random_floats(n, 2, 1.0f);
        float *want = infq_mem_alloc((size_t)n * sizeof(float));
        infq_err err;
        for (int64_t i = 0; i < n; i++)
            want[i] = y[i] + x[i];
        infq_add_args a = { .x = x, .y = y, .n = n };
        ck_ok(cpu->ops.add(cpu->state, &a, &err), err);
        ck_assert_msg(memcmp(y, want, (size_t)n * sizeof(float)) == 0, "level %d, %lld elements",
                      level, (long long)n);
        infq_mem_free(x);
        infq_mem_free(y);
        infq_mem_free(want);
    }
}
END_TEST

int main(void)
{
    Suite *s = suite_create("backend");
    TCase *reg = tcase_create("registry"), *ops = tcase_create("operations");

    tcase_add_checked_fixture(reg, open_backends, close_backends);
    tcase_add_test(reg, backend_open_knows_its_names);
    tcase_add_test(reg, backend_open_says_why_there_is_no_cuda);
    tcase_add_test(reg, backend_tables_are_complete_and_support_every_codec);
    tcase_add_test(reg, backend_buffers_keep_what_is_uploaded);
    tcase_add_test(reg, backend_open_and_product_survive_every_failed_allocation);
    tcase_add_checked_fixture(ops, open_backends, close_backends);
    tcase_set_timeout(ops, 60);
    tcase_add_test(ops, norms_equal_the_reference);
    tcase_add_test(ops, rope_equals_the_reference_and_leaves_the_rest);
    tcase_add_test(ops, gates_equal_the_reference_over_the_whole_range);
    tcase_add_test(ops, add_adds_every_element_once);
    suite_add_tcase(s, reg);
    suite_add_tcase(s, ops);
    return test_main(s);
}
