/* Products and embedding of the CPU backend at every level of the machine, against the reference
 * backend. */
#include "tests/testlib.h"

#include "lib/backend/backend.h"
#include "lib/base/cpu.h"
#include "lib/base/par.h"
#include "lib/base/rng.h"

static uint64_t rng_word(uint64_t *s)
{
    *s = *s * 6364136223846793005u + 1442695040888963407u;
    return *s >> 33;
}

/* About normal, from the sum of 4 uniform values. */
static float rng_float(uint64_t *s)
{
    double v = 0.0;

    for (int i = 0; i < 4; i++)
        v += (double)rng_word(s) / 2147483648.0 - 0.5;
    return (float)(v * 1.7);
}

static float *random_floats(int64_t n, uint64_t seed)
{
    float *x = infq_mem_alloc((size_t)n * sizeof(float));

    for (int64_t i = 0; i < n; i++)
        x[i] = rng_float(&seed);
    return x;
}

/* A weight of random codes, scales and zeros; all memory is its own. */
typedef struct {
    infq_weight w;
    void *codes, *scales, *zeros;
} random_weight;

static void random_weight_free(random_weight *r)
{
    infq_mem_free(r->codes);
    infq_mem_free(r->scales);
    infq_mem_free(r->zeros);
}

static infq_dtype dtype_of(infq_elem e)
{
    switch (e) {
    case INFQ_ELEM_F32:
        return INFQ_DTYPE_F32;
    case INFQ_ELEM_F16:
        return INFQ_DTYPE_F16;
    case INFQ_ELEM_BF16:
        return INFQ_DTYPE_BF16;
    default:
        return INFQ_DTYPE_F8_E4M3;
    }
}

static void fill_codes(random_weight *r, uint64_t seed)
{
    infq_elem e = r->w.codec.elem;
    size_t n_bytes = r->w.codes.row_bytes * (size_t)r->w.n_rows;
    uint8_t *p = r->codes;
    infq_err err;

    if (e == INFQ_ELEM_F32 || e == INFQ_ELEM_F16 || e == INFQ_ELEM_BF16) {
        int64_t n = r->w.n_rows * r->w.n_cols;
        float *x = random_floats(n, seed);
        ck_ok(infq_dtype_from_f32(dtype_of(e), x, n, p, &err), err);
        infq_mem_free(x);
        return;
    }
    for (size_t i = 0; i < n_bytes; i++) {
        p[i] = (uint8_t)rng_word(&seed);
        if (e == INFQ_ELEM_E4M3 && (p[i] & 0x7f) == 0x7f)
            p[i] = 0x38; // not NaN
    }
    // ggml blocks begin with an F16 scale: keep it finite and small.
    for (size_t i = 0; (e == INFQ_ELEM_Q8_0 || e == INFQ_ELEM_Q4_0) && i < n_bytes;
         i += e == INFQ_ELEM_Q8_0 ? 34 : 18)
        p[i + 1] = (uint8_t)(p[i + 1] & 0x83) | 0x20;
    for (size_t i = 0; e == INFQ_ELEM_Q4_1 && i < n_bytes; i += 20) {
        p[i + 1] = (uint8_t)(p[i + 1] & 0x83) | 0x20;
        p[i + 3] = (uint8_t)(p[i + 3] & 0x83) | 0x20;
    }
}

static random_weight random_weight_new(infq_codec c, int64_t n_rows, int64_t n_cols, uint64_t seed)
{
    random_weight r = { .w = { .codec = c,
                               .n_rows = n_rows,
                               .n_cols = n_cols,
                               .outer = c.outer ? 0.37f : 1.0f,
                               .act_scale = 0.01f } };
    int64_t sr = infq_weight_scale_rows(&r.w), sc = infq_weight_scale_cols(&r.w), n = sr * sc;
    infq_err err;

    r.w.codes.row_bytes = infq_codec_row_bytes(&c, n_cols);
    r.codes = infq_mem_alloc(r.w.codes.row_bytes * (size_t)n_rows);
    r.w.codes.data = r.codes;
    fill_codes(&r, seed);
    if (c.scale != INFQ_ELEM_NONE) {
        float *s = random_floats(n, seed + 1);
        for (int64_t i = 0; i < n; i++)
            s[i] = 0.02f + fabsf(s[i]) * 0.05f;
        r.w.scales.row_bytes = (size_t)sc * (size_t)infq_elem_bits(c.scale) / 8;
        r.scales = infq_mem_alloc(r.w.scales.row_bytes * (size_t)sr);
        ck_ok(infq_dtype_from_f32(dtype_of(c.scale), s, n, r.scales, &err), err);
        r.w.scales.data = r.scales;
        infq_mem_free(s);
    }
    if (c.zero != INFQ_ZERO_NONE) {
        size_t each = c.zero == INFQ_ZERO_INT ? 1 : 4;
        r.w.zeros.row_bytes = (size_t)sc * each;
        r.zeros = infq_mem_alloc((size_t)n * each);
        for (int64_t i = 0; i < n; i++) {
            uint8_t z = (uint8_t)(rng_word(&seed) % (c.elem == INFQ_ELEM_U4 ? 16 : 256));
            if (each == 1)
                ((uint8_t *)r.zeros)[i] = z;
            else
                ((float *)r.zeros)[i] = (float)z + 0.25f;
        }
        r.w.zeros.data = r.zeros;
    }
    ck_ok(infq_weight_check(&r.w, &err), err);
    return r;
}

#define B INFQ_ELEM_BF16
#define H INFQ_ELEM_F16
#define S INFQ_ELEM_F32
static const infq_codec codecs[] = {
    { .elem = INFQ_ELEM_F32 },
    { .elem = INFQ_ELEM_BF16 },
    { .elem = INFQ_ELEM_F16 },
    { .elem = INFQ_ELEM_U4, .group_rows = 1, .group_cols = 32, .scale = B },
    { .elem = INFQ_ELEM_U4, .group_rows = 1, .group_cols = 64, .scale = B },
    { .elem = INFQ_ELEM_U4, .group_rows = 1, .group_cols = 64, .scale = H },
    { .elem = INFQ_ELEM_U4, .group_rows = 1, .group_cols = 128, .scale = S },
    { .elem = INFQ_ELEM_U4, .group_rows = 1, .group_cols = 0, .scale = B },
    { .elem = INFQ_ELEM_U4, .group_rows = 1, .group_cols = 64, .scale = B, .zero = INFQ_ZERO_INT },
    { .elem = INFQ_ELEM_U4, .group_rows = 1, .group_cols = 32, .scale = H, .zero = INFQ_ZERO_INT },
    { .elem = INFQ_ELEM_U4, .group_rows = 1, .group_cols = 0, .scale = S, .zero = INFQ_ZERO_INT },
    { .elem = INFQ_ELEM_U4,
      .group_rows = 1,
      .group_cols = 128,
      .scale = H,
      .zero = INFQ_ZERO_FLOAT },
    { .elem = INFQ_ELEM_U4, .group_rows = 1, .group_cols = 16, .scale = B },
    { .elem = INFQ_ELEM_U4, .group_rows = 1, .group_cols = 48, .scale = B },
    { .elem = INFQ_ELEM_U4, .group_rows = 1, .group_cols = 64, .scale = B, .outer = true },
    { .elem = INFQ_ELEM_U8, .group_rows = 1, .group_cols = 64, .scale = B },
    { .elem = INFQ_ELEM_U8, .group_rows = 1, .group_cols = 32, .scale = H },
    { .elem = INFQ_ELEM_U8, .group_rows = 1, .group_cols = 0, .scale = B },
    { .elem = INFQ_ELEM_U8, .group_rows = 1, .group_cols = 0, .scale = S, .zero = INFQ_ZERO_INT },
    { .elem = INFQ_ELEM_U8, .group_rows = 1, .group_cols = 128, .scale = S, .zero = INFQ_ZERO_INT },
    { .elem = INFQ_ELEM_I8, .group_rows = 1, .group_cols = 0, .scale = B },
    { .elem = INFQ_ELEM_I8,
      .group_rows = 1,
      .group_cols = 0,
      .scale = S,
      .act = INFQ_ACT_I8_TOKEN },
    { .elem = INFQ_ELEM_I8,
      .group_rows = 0,
      .group_cols = 0,
      .scale = B,
      .act = INFQ_ACT_I8_TOKEN },
    { .elem = INFQ_ELEM_I8,
      .group_rows = 1,
      .group_cols = 64,
      .scale = S,
      .act = INFQ_ACT_I8_TOKEN },
    { .elem = INFQ_ELEM_E4M3,
      .group_rows = 1,
      .group_cols = 0,
      .scale = B,
      .act = INFQ_ACT_E4M3_TOKEN },
    { .elem = INFQ_ELEM_E4M3,
      .group_rows = 128,
      .group_cols = 128,
      .scale = S,
      .act = INFQ_ACT_E4M3_GROUP128 },
    { .elem = INFQ_ELEM_E4M3,
      .group_rows = 0,
      .group_cols = 0,
      .scale = S,
      .act = INFQ_ACT_E4M3_TENSOR },
    { .elem = INFQ_ELEM_E4M3, .group_rows = 128, .group_cols = 128, .scale = B },
    { .elem = INFQ_ELEM_U3, .group_rows = 1, .group_cols = 32, .scale = B },
    { .elem = INFQ_ELEM_Q8_0 },
    { .elem = INFQ_ELEM_Q4_0 },
    { .elem = INFQ_ELEM_Q4_1 },
};
#undef B
#undef H
#undef S
#define N_CODECS ((int)(sizeof(codecs) / sizeof(codecs[0])))

/* Rows and columns: tiny and odd ones, tails of every vector width, widths of SmolLM2. */
static const int64_t shapes[][2] = { { 1, 1 },    { 5, 3 },    { 7, 40 },   { 64, 64 },
                                     { 33, 63 },  { 50, 97 },  { 40, 192 }, { 131, 288 },
                                     { 70, 576 }, { 20, 1536 } };
#define N_SHAPES ((int)(sizeof(shapes) / sizeof(shapes[0])))

static bool shape_fits(const infq_codec *c, int64_t n_cols)
{
    return n_cols % infq_elem_block(c->elem) == 0;
}

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

static void product(infq_backend *b, const infq_weight *w, const float *x, const float *bias,
                    int64_t T, bool invariant, float *y)
{
    infq_pweight *p;
    infq_err err;

    ck_ok(b->ops.weight_prepare(b->state, w, &p, &err), err);
    infq_matmul_args a = {
        .w = p, .x = x, .bias = bias, .y = y, .n_tokens = T, .invariant = invariant
    };
    ck_ok(b->ops.matmul(b->state, &a, 1, &err), err);
    b->ops.weight_free(b->state, p);
}

/* What a product may differ by, relative to |x| |w|: sums of K products in F32 in any order, about
 * sqrt(K) roundings of 2^-24 on average, taken 8 times; and activations of 16 bits, an error of
 * 2^-16 of the largest of 32 values in each of K places, which adds like noise: less than 2^-16
 * |max| sqrt(K) |w| / sqrt(K), taken twice and more. */
static void check_close(const infq_weight *w, const float *want, const float *got, const float *x,
                        const float *bias, int64_t T, const char *what)
{
    int64_t N = w->n_rows, K = w->n_cols;
    float *row = infq_mem_alloc((size_t)K * sizeof(float));
    double err2 = 0.0, ref2 = 0.0;

    for (int64_t n = 0; n < N; n++) {
        double w2 = 0.0;
        infq_weight_decode_row(w, n, row);
        for (int64_t k = 0; k < K; k++)
            w2 += (double)row[k] * row[k];
        for (int64_t t = 0; t < T; t++) {
            double x2 = 0.0, d = (double)got[t * N + n] - want[t * N + n], bound;
            for (int64_t k = 0; k < K; k++)
                x2 += (double)x[t * K + k] * x[t * K + k];
            bound = sqrt(x2 * w2) * (4e-5 + 8.0 * sqrt((double)K) * 6e-8) +
                    (bias ? fabs(bias[n]) * 1e-6 : 0.0) + 1e-12;
            // Asserts write to a pipe: only the failing one is worth it here.
            if (!(fabs(d) <= bound))
                ck_abort_msg("%s: [%lld x %lld] row %lld of x, row %lld of w: %.9g, reference %.9g "
                             "(bound %.3g)",
                             what, (long long)N, (long long)K, (long long)t, (long long)n,
                             (double)got[t * N + n], (double)want[t * N + n], bound);
            err2 += d * d;
            ref2 += (double)want[t * N + n] * want[t * N + n];
        }
    }
    // The stated error of every path: normalised mean square error of 1e-8 at most (few numbers
    // scatter).
    if (N * T >= 64)
        ck_assert_msg(err2 <= 1e-8 * ref2, "%s: [%lld x %lld], %lld rows: normalised error %.3g",
                      what, (long long)N, (long long)K, (long long)T, err2 / ref2);
    infq_mem_free(row);
}

static void name_of(char *out, size_t cap, const infq_codec *c, infq_cpu_level level)
{
    char d[96];

    snprintf(out, cap, "%s, act %d, %s", infq_codec_describe(c, d, sizeof(d)), (int)c->act,
             infq_cpu_level_name(level));
}

static void check_codec_at(infq_cpu_level level, int i)
{
    const int64_t tokens[] = { 1, 2, 8, 9, 23 };
    char what[160];
    infq_err err;

    ck_ok(infq_cpu_level_set(level, &err), err);
    name_of(what, sizeof(what), &codecs[i], level);
    for (int s = 0; s < N_SHAPES; s++) {
        int64_t N = shapes[s][0], K = shapes[s][1];
        if (!shape_fits(&codecs[i], K))
            continue;
        random_weight r = random_weight_new(codecs[i], N, K, (uint64_t)(i * 100 + s));
        float *x = random_floats(23 * K, 7), *bias = random_floats(N, 8);
        float *want = infq_mem_alloc((size_t)(23 * N) * sizeof(float)),
              *got = infq_mem_alloc((size_t)(23 * N) * sizeof(float));
        for (int t = 0; t < 5; t++)
            for (int inv = 0; inv < 2; inv++) {
                const float *b = (t + inv) % 2 ? bias : NULL;
                product(ref, &r.w, x, b, tokens[t], inv, want);
                product(cpu, &r.w, x, b, tokens[t], inv, got);
                check_close(&r.w, want, got, x, b, tokens[t], what);
            }
        infq_mem_free(x);
        infq_mem_free(bias);
        infq_mem_free(want);
        infq_mem_free(got);
        random_weight_free(&r);
    }
}

START_TEST(matmul_equals_the_reference_for_every_codec_level_and_shape)
{
    for (int level = 0; level <= (int)infq_cpu_level_max(); level++)
        check_codec_at((infq_cpu_level)level, _i);
}
END_TEST

START_TEST(matmul_rows_do_not_depend_on_the_batch_when_invariant)
{
    // Each row of a batch of T must have the bits of the same row computed alone, at any place, on
    // 1 and 2 threads.
    const int64_t sizes[][2] = { { 7, 40 }, { 33, 63 }, { 40, 192 }, { 50, 576 }, { 24, 1536 } };
    const int pick[] = { 0, 1, 2, 4, 8, 17, 21, 24, 25, 29 };
    const infq_codec *c = &codecs[pick[_i]];
    infq_err err;

    for (int level = 0; level <= (int)infq_cpu_level_max(); level++)
        for (int s = 0; s < 5; s++) {
            int64_t N = sizes[s][0], K = sizes[s][1], most = 130, step = s < 2 ? 1 : 7;
            if (!shape_fits(c, K))
                continue;
            random_weight r = random_weight_new(*c, N, K, (uint64_t)s);
            float *x = random_floats(most * K, 3),
                  *alone = infq_mem_alloc((size_t)(most * N) * sizeof(float));
            float *y = infq_mem_alloc((size_t)(most * N) * sizeof(float));
            ck_ok(infq_cpu_level_set((infq_cpu_level)level, &err), err);
            for (int64_t t = 0; t < most; t++)
                product(cpu, &r.w, x + t * K, NULL, 1, true, alone + t * N);
            for (int64_t T = 1; T <= most; T += T < 20 ? 1 : step) {
                int64_t from = most - T;
                infq_par_threads_set(T % 2 ? 2 : 1);
                product(cpu, &r.w, x + from * K, NULL, T, true, y);
                ck_assert_msg(memcmp(y, alone + from * N, (size_t)(T * N) * sizeof(float)) == 0,
                              "codec %d, level %d, [%lld x %lld], %lld rows differ from rows alone",
                              pick[_i], level, (long long)N, (long long)K, (long long)T);
            }
            infq_mem_free(x);
            infq_mem_free(alone);
            infq_mem_free(y);
            random_weight_free(&r);
        }
}
END_TEST

START_TEST(matmul_bits_do_not_depend_on_threads)
{
    const int64_t tokens[] = { 1, 3, 8, 40 };
    const int64_t N = 700, K = 288;
    infq_err err;

    for (int level = 0; level <= (int)infq_cpu_level_max(); level++)
        for (int t = 0; t < 4; t++) {
            random_weight r = random_weight_new(codecs[_i], N, K, 5);
            float *x = random_floats(40 * K, 3),
                  *a = infq_mem_alloc((size_t)(40 * N) * sizeof(float));
            float *b = infq_mem_alloc((size_t)(40 * N) * sizeof(float));
            ck_ok(infq_cpu_level_set((infq_cpu_level)level, &err), err);
            infq_par_threads_set(1);
            product(cpu, &r.w, x, NULL, tokens[t], false, a);
            for (int threads = 2; threads <= 3; threads++) {
                infq_par_threads_set(threads);
                product(cpu, &r.w, x, NULL, tokens[t], false, b);
                ck_assert_msg(memcmp(a, b, (size_t)(tokens[t] * N) * sizeof(float)) == 0,
                              "codec %d, level %d, %lld rows: %d threads differ from one", _i,
                              level, (long long)tokens[t], threads);
            }
            infq_mem_free(x);
            infq_mem_free(a);
            infq_mem_free(b);
            random_weight_free(&r);
        }
}
END_TEST

// Products of a list, called by the leader of a team.
typedef struct {
    const infq_matmul_args *a;
    int64_t n;
    infq_status st;
    infq_err err;
} list_call;

static void run_list(void *ctx)
{
    list_call *c = ctx;

    c->st = cpu->ops.matmul(cpu->state, c->a, c->n, &c->err);
}

START_TEST(products_of_a_list_equal_single_ones)
{
    // q, k, v of one input; another codec of the same input; the same codec of another input.
    const int64_t rows[] = { 96, 33, 40, 50, 17, 20 }, K = 288, T = 3;
    const infq_codec other = { .elem = INFQ_ELEM_BF16 };

    infq_par_threads_set(3);
    for (int invariant = 0; invariant < 2; invariant++) {
        random_weight r[6];
        infq_pweight *p[6];
        infq_matmul_args a[6];
        float *x[2] = { random_floats(T * K, 3), random_floats(T * K, 4) }, *y[6], *want;
        list_call call = { .a = a, .n = 6 };
        infq_err err;

        for (int i = 0; i < 6; i++) {
            r[i] = random_weight_new(i == 3 ? other : codecs[_i], rows[i], K, (uint64_t)i + 1);
            y[i] = infq_mem_alloc((size_t)(T * rows[i]) * sizeof(float));
            ck_ok(cpu->ops.weight_prepare(cpu->state, &r[i].w, &p[i], &err), err);
            a[i] = (infq_matmul_args){ .w = p[i], .x = x[i == 5], .y = y[i], .n_tokens = T, .invariant = invariant };
        }
        infq_par_team(run_list, &call);
        ck_ok(call.st, call.err);
        for (int i = 0; i < 6; i++) {
            want = infq_mem_alloc((size_t)(T * rows[i]) * sizeof(float));
            product(cpu, &r[i].w, x[i == 5], NULL, T, invariant, want);
            ck_assert_msg(memcmp(want, y[i], (size_t)(T * rows[i]) * sizeof(float)) == 0,
                          "codec %d, product %d of the list differs", _i, i);
            infq_mem_free(want);
            infq_mem_free(y[i]);
            cpu->ops.weight_free(cpu->state, p[i]);
            random_weight_free(&r[i]);
        }
        infq_mem_free(x[0]);
        infq_mem_free(x[1]);
    }
}
END_TEST

START_TEST(int8_products_have_equal_bits_on_every_path_and_level)
{
    // K = 4096 with full-range codes: sums pass 2^24, where anything but exact integers shows.
    const int64_t shape[][2] = { { 33, 63 }, { 64, 576 }, { 12, 4096 } };
    const infq_codec c = {
        .elem = INFQ_ELEM_I8, .group_rows = 1, .scale = INFQ_ELEM_F32, .act = INFQ_ACT_I8_TOKEN
    };
    infq_err err;

    for (int s = 0; s < 3; s++) {
        int64_t N = shape[s][0], K = shape[s][1], T = 30;
        random_weight r = random_weight_new(c, N, K, 9);
        float *x = random_floats(T * K, 4), *few = infq_mem_alloc((size_t)(T * N) * sizeof(float));
        float *many = infq_mem_alloc((size_t)(T * N) * sizeof(float));
        if (s == 2) // rows of equal signs reach the largest sums
            for (int64_t k = 0; k < K; k++) {
                x[k] = 3.0f;
                ((int8_t *)r.codes)[k] = k % 2 ? 127 : 126;
                ((int8_t *)r.codes)[K + k] = -128;
            }
        ck_ok(infq_cpu_level_set(INFQ_CPU_SCALAR, &err), err);
        for (int64_t t = 0; t < T; t++)
            product(cpu, &r.w, x + t * K, NULL, 1, false, few + t * N);
        for (int level = 0; level <= (int)infq_cpu_level_max(); level++)
            for (int inv = 0; inv < 2; inv++) {
                ck_ok(infq_cpu_level_set((infq_cpu_level)level, &err), err);
                product(cpu, &r.w, x, NULL, T, inv, many);
                ck_assert_msg(memcmp(few, many, (size_t)(T * N) * sizeof(float)) == 0,
                              "[%lld x %lld], level %d: many rows differ from single ones",
                              (long long)N, (long long)K, level);
                for (int64_t t = 0; t < T; t += 3) {
                    product(cpu, &r.w, x + t * K, NULL, 3, inv, many);
                    ck_assert_msg(memcmp(few + t * N, many, (size_t)(3 * N) * sizeof(float)) == 0,
                                  "[%lld x %lld], level %d: 3 rows differ from single ones",
                                  (long long)N, (long long)K, level);
                }
            }
        infq_mem_free(x);
        infq_mem_free(few);
        infq_mem_free(many);
        random_weight_free(&r);
    }
}
END_TEST

START_TEST(matmul_keeps_its_error_with_outliers_and_zeros)
{
    // One value of a thousand times the others, a zero group, a zero row: what 16-bit activations
    // could lose.
    const int pick[] = { 4, 8, 15, 18 };
    int64_t N = 64, K = 576;
    infq_err err;

    for (int level = 0; level <= (int)infq_cpu_level_max(); level++) {
        random_weight r = random_weight_new(codecs[pick[_i]], N, K, 2);
        float *x = random_floats(3 * K, 6), *want = infq_mem_alloc((size_t)(3 * N) * sizeof(float));
        float *got = infq_mem_alloc((size_t)(3 * N) * sizeof(float));
        x[5] = 1000.0f;
        memset(x + K, 0, 64 * sizeof(float));
        memset(x + 2 * K, 0, (size_t)K * sizeof(float));
        ck_ok(infq_cpu_level_set((infq_cpu_level)level, &err), err);
        product(ref, &r.w, x, NULL, 3, false, want);
        product(cpu, &r.w, x, NULL, 3, false, got);
        check_close(&r.w, want, got, x, NULL, 3, "outliers");
        for (int64_t n = 0; n < N; n++)
            ck_assert_float_eq(got[2 * N + n], 0.0f);
        infq_mem_free(x);
        infq_mem_free(want);
        infq_mem_free(got);
        random_weight_free(&r);
    }
}
END_TEST

START_TEST(matmul_passes_nan_and_infinity_on)
{
    const int pick[] = { 0, 1, 4, 8, 15, 21, 24 };
    int64_t N = 40, K = 192;
    infq_err err;

    for (int level = 0; level <= (int)infq_cpu_level_max(); level++)
        for (int T = 1; T <= 10; T += 9)
            for (int inv = 0; inv < 2; inv++) {
                random_weight r = random_weight_new(codecs[pick[_i]], N, K, 2);
                float *x = random_floats(T * K, 6),
                      *y = infq_mem_alloc((size_t)(T * N) * sizeof(float));
                ck_ok(infq_cpu_level_set((infq_cpu_level)level, &err), err);
                x[100] = NAN;
                product(cpu, &r.w, x, NULL, T, inv, y);
                for (int64_t n = 0; n < N; n++)
                    ck_assert_msg(isnan(y[n]), "codec %d, level %d: a NaN was lost", pick[_i],
                                  level);
                for (int64_t n = N; n < T * N; n++)
                    ck_assert_msg(isfinite(y[n]), "codec %d, level %d: a NaN spread to another row",
                                  pick[_i], level);
                x[100] = INFINITY;
                product(cpu, &r.w, x, NULL, T, inv, y);
                for (int64_t n = 0; n < N; n++)
                    ck_assert_msg(!isfinite(y[n]), "codec %d, level %d: an infinity was lost",
                                  pick[_i], level);
                infq_mem_free(x);
                infq_mem_free(y);
                random_weight_free(&r);
            }
}
END_TEST

START_TEST(embed_decodes_rows_bit_for_bit)
{
    infq_err err;

    for (int level = 0; level <= (int)infq_cpu_level_max(); level++)
        for (int s = 0; s < N_SHAPES; s++) {
            int64_t N = shapes[s][0], K = shapes[s][1];
            if (!shape_fits(&codecs[_i], K))
                continue;
            random_weight r = random_weight_new(codecs[_i], N, K, 1);
            int32_t ids[50];
            float *y = infq_mem_alloc((size_t)(50 * K) * sizeof(float)),
                  *want = infq_mem_alloc((size_t)K * sizeof(float));
            infq_pweight *p;
            ck_ok(infq_cpu_level_set((infq_cpu_level)level, &err), err);
            ck_ok(cpu->ops.weight_prepare(cpu->state, &r.w, &p, &err), err);
            for (int t = 0; t < 50; t++)
                ids[t] = (int32_t)(t * 7 % N);
            infq_embed_args a = { .w = p, .ids = ids, .y = y, .n_tokens = 50 };
            ck_ok(cpu->ops.embed(cpu->state, &a, &err), err);
            for (int t = 0; t < 50; t++) {
                infq_weight_decode_row(&r.w, ids[t], want);
                ck_assert_msg(memcmp(want, y + t * K, (size_t)K * sizeof(float)) == 0,
                              "codec %d, level %d, %lld columns: row %d differs", _i, level,
                              (long long)K, ids[t]);
            }
            cpu->ops.weight_free(cpu->state, p);
            infq_mem_free(y);
            infq_mem_free(want);
            random_weight_free(&r);
        }
}
END_TEST

START_TEST(weight_bytes_are_what_one_product_reads)
{
    const infq_codec c = {
        .elem = INFQ_ELEM_U4, .group_rows = 1, .group_cols = 64, .scale = INFQ_ELEM_BF16
    };
    random_weight r = random_weight_new(c, 8, 128, 1);
    infq_pweight *p;
    infq_err err;

    ck_ok(cpu->ops.weight_prepare(cpu->state, &r.w, &p, &err), err);
    ck_assert_uint_eq(cpu->ops.weight_bytes(p), 8 * (64 + 2 * 2));
    cpu->ops.weight_free(cpu->state, p);
    random_weight_free(&r);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("matmul");
    TCase *t = tcase_create("products");

    tcase_add_checked_fixture(t, open_backends, close_backends);
    tcase_set_timeout(t, 120);
    tcase_add_loop_test(t, matmul_equals_the_reference_for_every_codec_level_and_shape, 0,
                        N_CODECS);
    tcase_add_loop_test(t, matmul_rows_do_not_depend_on_the_batch_when_invariant, 0, 10);
    tcase_add_loop_test(t, matmul_bits_do_not_depend_on_threads, 0, N_CODECS);
    tcase_add_loop_test(t, products_of_a_list_equal_single_ones, 0, N_CODECS);
    tcase_add_test(t, int8_products_have_equal_bits_on_every_path_and_level);
    tcase_add_loop_test(t, matmul_keeps_its_error_with_outliers_and_zeros, 0, 4);
    tcase_add_loop_test(t, matmul_passes_nan_and_infinity_on, 0, 7);
    tcase_add_loop_test(t, embed_decodes_rows_bit_for_bit, 0, N_CODECS);
    tcase_add_test(t, weight_bytes_are_what_one_product_reads);
    suite_add_tcase(s, t);
    return test_main(s);
}
