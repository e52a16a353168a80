/* Declared numerics of the engine (rounded activations and caches, orders of sums, round-off), the parts of a model, starts in the middle. */
#include "tests/testlib.h"

#include "lib/base/cpu.h"
#include "lib/base/par.h"
#include "lib/model/model.h"
#include "tests/tiny_model.h"

static const infq_log quiet;

static const char llama[] = "{\"model_type\":\"llama\",\"hidden_size\":48,\"intermediate_size\":80,\"num_hidden_layers\":3,"
                            "\"num_attention_heads\":6,\"num_key_value_heads\":2,\"vocab_size\":300,\"max_position_embeddings\":1024,"
                            "\"rms_norm_eps\":1e-5,\"hidden_act\":\"silu\",\"rope_theta\":10000.0,\"tie_word_embeddings\":false}";
static const char gpt2[] = "{\"model_type\":\"gpt2\",\"n_embd\":48,\"n_layer\":2,\"n_head\":4,\"vocab_size\":300,\"n_positions\":1024,"
                           "\"activation_function\":\"gelu_new\",\"layer_norm_epsilon\":1e-5,\"tie_word_embeddings\":true}";
static const char *const configs[] = { llama, gpt2 };

typedef struct {
    infq_checkpoint *ck;
    infq_backend *be;
    infq_model *m;
} opened;

static opened open_one(const char *config, const char *backend, infq_backend *be, uint64_t seed)
{
    static tiny_model t;
    const char *dir = test_tmpdir();
    infq_model_options mo = infq_model_options_default();
    opened o = { .be = be };
    infq_err err;

    tiny_make(&t, config, seed);
    tiny_save(&t, dir, TINY_F32);
    tiny_free(&t);
    ck_ok(infq_checkpoint_open(dir, &quiet, &o.ck, &err), err);
    if (!be)
        ck_ok(infq_backend_open(backend, &o.be, &err), err);
    ck_ok(infq_model_open(o.ck, o.be, &mo, &o.m, &err), err);
    return o;
}

static void close_one(opened *o, bool backend)
{
    infq_model_close(o->m);
    if (backend)
        infq_backend_close(o->be);
    infq_checkpoint_close(o->ck);
}

static int32_t *tokens(int64_t n, uint64_t seed)
{
    int32_t *ids = infq_mem_alloc((size_t)n * sizeof(*ids));
    infq_rng rng = infq_rng_seed(seed);

    for (int64_t i = 0; i < n; i++)
        ids[i] = (int32_t)infq_rng_below(&rng, 300);
    return ids;
}

/* Hidden rows [n][hidden] of a text; infq_mem_free. */
static float *hidden_of(infq_model *m, const int32_t *ids, int64_t n, const infq_forward_options *fo)
{
    float *h = infq_mem_alloc((size_t)(n * infq_model_config(m)->hidden) * sizeof(float));
    infq_segment g = { .tokens = ids, .n_tokens = n, .n_last = n };
    infq_err err;

    ck_ok(infq_seq_new(m, &g.seq, &err), err);
    ck_ok(infq_model_forward(m, &g, 1, fo, h, &err), err);
    infq_seq_free(g.seq);
    return h;
}

static bool same(const float *a, const float *b, int64_t n)
{
    return memcmp(a, b, (size_t)n * sizeof(float)) == 0;
}

static double rms_difference(const float *a, const float *b, int64_t n)
{
    double s = 0;

    for (int64_t i = 0; i < n; i++)
        s += ((double)a[i] - b[i]) * ((double)a[i] - b[i]);
    return sqrt(s / (double)n);
}

static const infq_forward_options plain = { .invariant = true };
static const infq_numerics server = { .activations = INFQ_ELEM_BF16, .residual = INFQ_ELEM_BF16, .kv = INFQ_ELEM_BF16, .k_parts = 4, .seed = 5 };

// ---- rounding ---------------------------------------------------------------------------------------------------------

START_TEST(rounding_gives_the_nearest_value_of_its_type)
{
    static const struct {
        infq_elem e;
        infq_dtype t;
    } to[] = { { INFQ_ELEM_BF16, INFQ_DTYPE_BF16 }, { INFQ_ELEM_F16, INFQ_DTYPE_F16 }, { INFQ_ELEM_E4M3, INFQ_DTYPE_F8_E4M3 } };
    enum { N = 4096 };
    static float x[N], want[N];
    static uint8_t codes[4 * N];
    infq_backend *be;
    infq_rng rng = infq_rng_seed(1);
    infq_err err;

    ck_ok(infq_backend_open("cpu", &be, &err), err);
    for (int k = 0; k < 3; k++) {
        infq_round_args a = { .x = x, .n_rows = 1, .n_cols = N, .stride = N, .to = to[k].e };
        for (int i = 0; i < N; i++)
            x[i] = (float)(infq_rng_normal(&rng) * exp(4 * infq_rng_normal(&rng)));
        x[0] = 0.0f, x[1] = 1.00390625f, x[2] = 1.01171875f, x[3] = -3e-41f; // ties, a denormal
        ck_ok(infq_dtype_from_f32(to[k].t, x, N, codes, &err), err);
        ck_ok(infq_dtype_to_f32(to[k].t, codes, N, want, &err), err);
        ck_ok(be->ops.round(be->state, &a, &err), err);
        for (int i = 0; i < N; i++)
            ck_assert_msg(x[i] == want[i], "%s: element %d became %g, should be %g", infq_elem_name(to[k].e), i, (double)x[i], (double)want[i]);
    }
    x[0] = NAN, x[1] = -INFINITY;
    ck_ok(be->ops.round(be->state, &(infq_round_args){ .x = x, .n_rows = 1, .n_cols = 2, .stride = 2, .to = INFQ_ELEM_BF16 }, &err), err);
    ck_assert(isnan(x[0]) && x[1] == -INFINITY);
    infq_backend_close(be);
}
END_TEST

START_TEST(rounding_has_the_same_bits_on_every_level)
{
    enum { ROWS = 9, COLS = 83, STRIDE = 96 };
    static float x[ROWS * STRIDE], want[ROWS * STRIDE], got[ROWS * STRIDE];
    infq_round_args a = { .n_rows = ROWS, .n_cols = COLS, .stride = STRIDE, .to = _i % 2 ? INFQ_ELEM_BF16 : INFQ_ELEM_NONE, .eps = 0.002f, .seed = 9 };
    infq_backend *cpu, *ref;
    infq_rng rng = infq_rng_seed(2);
    infq_err err;

    for (int i = 0; i < ROWS * STRIDE; i++)
        x[i] = (float)infq_rng_normal(&rng);
    ck_ok(infq_backend_open("cpu", &cpu, &err), err);
    ck_ok(infq_backend_open("ref", &ref, &err), err);
    memcpy(want, x, sizeof(x));
    a.x = want;
    ck_ok(ref->ops.round(ref->state, &a, &err), err);
    for (int r = 0; r < ROWS; r++)
        for (int c = COLS; c < STRIDE; c++)
            ck_assert_msg(want[r * STRIDE + c] == x[r * STRIDE + c], "column %d, outside the row, was touched", c);
    for (int level = 0; level <= (int)infq_cpu_level_max(); level++) {
        ck_ok(infq_cpu_level_set((infq_cpu_level)level, &err), err);
        memcpy(got, x, sizeof(x));
        a.x = got;
        ck_ok(cpu->ops.round(cpu->state, &a, &err), err);
        ck_assert_msg(same(got, want, ROWS * STRIDE), "level %d differs from the reference", level);
    }
    infq_backend_close(cpu);
    infq_backend_close(ref);
}
END_TEST

START_TEST(round_off_is_centred_of_the_size_asked_for_and_seeded)
{
    enum { N = 200000 };
    float *x = infq_mem_alloc(N * sizeof(float)), *y = infq_mem_alloc(N * sizeof(float));
    infq_round_args a = { .n_rows = N / 100, .n_cols = 100, .stride = 100, .eps = 0.0009765625f, .seed = 3 };
    infq_backend *be;
    infq_rng rng = infq_rng_seed(4);
    double mean = 0, var = 0, m4 = 0;
    infq_err err;

    ck_ok(infq_backend_open("cpu", &be, &err), err);
    for (int i = 0; i < N; i++)
        x[i] = 1.0f + (float)infq_rng_f64(&rng);
    memcpy(y, x, N * sizeof(float));
    a.x = y;
    ck_ok(be->ops.round(be->state, &a, &err), err);
    for (int i = 0; i < N; i++) {
        double z = ((double)y[i] / x[i] - 1) / (double)a.eps;
        mean += z / N;
        var += z * z / N;
        m4 += z * z * z * z / N;
    }
    ck_assert_msg(fabs(mean) < 4 / sqrt(N), "mean %g", mean);                 // four standard errors
    ck_assert_msg(fabs(var - 1) < 4 * sqrt(2.0 / N), "variance %g", var);
    ck_assert_msg(fabs(m4 - 2.85) < 0.1, "fourth moment %g, that of eight bytes is 2.85", m4);
    memcpy(x, y, N * sizeof(float));
    a.seed = 4;
    ck_ok(be->ops.round(be->state, &a, &err), err);
    ck_assert(!same(x, y, N));
    infq_backend_close(be);
    infq_mem_free(x);
    infq_mem_free(y);
}
END_TEST

// ---- orders of sums -----------------------------------------------------------------------------------------------------

START_TEST(an_order_of_sums_is_a_permutation_drawn_from_the_seed)
{
    int32_t a[INFQ_K_PARTS_MAX], b[INFQ_K_PARTS_MAX];
    int different = 0;

    for (int32_t n = 1; n <= INFQ_K_PARTS_MAX; n++) {
        unsigned seen = 0;
        infq_k_order(7, n, a);
        infq_k_order(8, n, b);
        for (int32_t i = 0; i < n; i++)
            seen |= 1u << a[i];
        ck_assert_uint_eq(seen, (1u << n) - 1);
        different += memcmp(a, b, (size_t)n * sizeof(*a)) != 0;
    }
    ck_assert_int_ge(different, 12);
}
END_TEST

START_TEST(products_summed_in_another_order_differ_by_rounding_only)
{
    enum { N = 50, K = 600, T = 70 };
    static float w[N * K], x[T * K], bias[N], one[T * N], parts[T * N], alone[N], ref_parts[T * N];
    infq_weight weight = { .codec = { .elem = INFQ_ELEM_F32 }, .n_rows = N, .n_cols = K, .codes = { w, K * sizeof(float) }, .outer = 1 };
    infq_backend *be, *ref;
    infq_pweight *p, *q;
    infq_rng rng = infq_rng_seed(5);
    infq_matmul_args a = { .x = x, .bias = bias, .n_tokens = T, .invariant = true };
    infq_err err;

    for (int i = 0; i < N * K; i++)
        w[i] = (float)infq_rng_normal(&rng);
    for (int i = 0; i < T * K; i++)
        x[i] = (float)infq_rng_normal(&rng);
    for (int i = 0; i < N; i++)
        bias[i] = (float)infq_rng_normal(&rng);
    ck_ok(infq_backend_open("cpu", &be, &err), err);
    ck_ok(infq_backend_open("ref", &ref, &err), err);
    ck_ok(be->ops.weight_prepare(be->state, &weight, &p, &err), err);
    ck_ok(ref->ops.weight_prepare(ref->state, &weight, &q, &err), err);
    for (int level = 0; level <= (int)infq_cpu_level_max(); level++) {
        ck_ok(infq_cpu_level_set((infq_cpu_level)level, &err), err);
        a.w = p, a.y = one, a.k_parts = 0, a.n_tokens = T, a.x = x;
        ck_ok(be->ops.matmul(be->state, &a, 1, &err), err);
        a.y = parts, a.k_parts = 7, a.k_seed = 3;
        ck_ok(be->ops.matmul(be->state, &a, 1, &err), err);
        ck_assert_msg(!same(one, parts, T * N), "level %d: no bit differs", level);
        ck_assert_double_le(rms_difference(one, parts, T * N), 8 * 0x1p-24 * K); // |x| |w| is about K, each sum rounds sqrt(K) times
        a.w = q, a.y = ref_parts;
        ck_ok(ref->ops.matmul(ref->state, &a, 1, &err), err);
        ck_assert_double_le(rms_difference(ref_parts, parts, T * N), 8 * 0x1p-24 * K);
        for (int t = 0; t < T; t += 9) { // any order keeps a row to itself
            a.w = p, a.x = x + t * K, a.y = alone, a.n_tokens = 1;
            ck_ok(be->ops.matmul(be->state, &a, 1, &err), err);
            ck_assert_msg(same(alone, parts + t * N, N), "level %d: row %d depends on the batch", level, t);
        }
        a.k_parts = 1, a.x = x, a.n_tokens = T, a.y = parts;
        ck_ok(be->ops.matmul(be->state, &a, 1, &err), err);
        ck_assert_msg(same(one, parts, T * N), "level %d: one part is another chain", level);
    }
    be->ops.weight_free(be->state, p);
    ref->ops.weight_free(ref->state, q);
    infq_backend_close(be);
    infq_backend_close(ref);
}
END_TEST

// ---- models -------------------------------------------------------------------------------------------------------------

START_TEST(numerics_that_are_off_leave_every_bit)
{
    opened o = open_one(configs[_i], "cpu", NULL, 1);
    infq_numerics off = infq_numerics_default();
    int32_t *ids = tokens(90, 2);
    int64_t n = 90 * infq_model_config(o.m)->hidden;
    float *a = hidden_of(o.m, ids, 90, &plain), *b, *c;
    infq_err err;

    ck_ok(infq_model_set_numerics(o.m, &server, &err), err);
    b = hidden_of(o.m, ids, 90, &plain);
    ck_assert(!same(a, b, n));
    off.seed = 77; // a seed alone changes nothing
    ck_ok(infq_model_set_numerics(o.m, &off, &err), err);
    c = hidden_of(o.m, ids, 90, &plain);
    ck_assert(same(a, c, n));
    infq_mem_free(a);
    infq_mem_free(b);
    infq_mem_free(c);
    infq_mem_free(ids);
    close_one(&o, true);
}
END_TEST

static void only_bf16(void *ctx, int stage, const float *x, int64_t n_tokens, int64_t hidden)
{
    (void)ctx;
    for (int64_t i = 0; i < n_tokens * hidden; i++)
        ck_assert_msg(infq_bf16_decode(infq_bf16_encode(x[i])) == x[i], "stage %d: %.9g is no BF16 value", stage, (double)x[i]);
}

static void only_bf16_inputs(void *ctx, int64_t part, const float *x, int64_t n_tokens, int64_t cols)
{
    (void)ctx;
    only_bf16(NULL, (int)part, x, n_tokens, cols);
}

START_TEST(rounded_activations_are_values_of_their_type_at_every_stage)
{
    opened o = open_one(configs[_i], "cpu", NULL, 1);
    infq_forward_options fo = { .invariant = true, .on_stage = only_bf16, .on_input = only_bf16_inputs };
    int32_t *ids = tokens(70, 3);
    float *h, z[300];
    infq_err err;

    ck_ok(infq_model_set_numerics(o.m, &server, &err), err);
    h = hidden_of(o.m, ids, 70, &fo);
    ck_ok(infq_model_logits(o.m, h, 1, true, z, &err), err);
    only_bf16(NULL, 99, z, 1, 300);
    infq_mem_free(h);
    infq_mem_free(ids);
    close_one(&o, true);
}
END_TEST

START_TEST(each_setting_alone_moves_the_result_a_little)
{
    static const infq_numerics settings[] = {
        { .activations = INFQ_ELEM_BF16 }, { .residual = INFQ_ELEM_F16 }, { .kv = INFQ_ELEM_BF16 }, { .kv = INFQ_ELEM_E4M3 },
        { .k_parts = 8, .seed = 1 }, { .roundoff = 0x1p-9, .seed = 1 } };
    static const double most[] = { 0.1, 0.05, 0.05, 0.3, 1e-4, 0.05 }; // of values of size 1, three layers
    opened o = open_one(configs[_i], "cpu", NULL, 1);
    int32_t *ids = tokens(80, 4);
    int64_t n = 80 * infq_model_config(o.m)->hidden;
    float *a = hidden_of(o.m, ids, 80, &plain);
    infq_err err;

    for (int i = 0; i < 6; i++) {
        float *b;
        double d;
        char text[160];
        ck_ok(infq_model_set_numerics(o.m, &settings[i], &err), err);
        b = hidden_of(o.m, ids, 80, &plain);
        d = rms_difference(a, b, n);
        ck_assert_msg(d > 0 && d < most[i], "%s moves rows by %g", infq_numerics_describe(&settings[i], text, sizeof(text)), d);
        infq_mem_free(b);
    }
    infq_mem_free(a);
    infq_mem_free(ids);
    close_one(&o, true);
}
END_TEST

START_TEST(rows_stay_independent_of_the_batch_under_any_numerics)
{
    static const int64_t len[] = { 1, 70, 430, 64, 30 }; // cut inside the third
    infq_numerics n = server;
    opened o = open_one(configs[_i], "cpu", NULL, 1);
    int64_t H = infq_model_config(o.m)->hidden, total = 595, at = 0;
    int32_t *ids = tokens(total, 6);
    float *all = infq_mem_alloc((size_t)(total * H) * sizeof(float));
    infq_segment g[5];
    infq_err err;

    n.roundoff = 0x1p-9;
    ck_ok(infq_model_set_numerics(o.m, &n, &err), err);
    for (int i = 0; i < 5; at += len[i++]) {
        g[i] = (infq_segment){ .tokens = ids + at, .n_tokens = len[i], .n_last = len[i] };
        ck_ok(infq_seq_new(o.m, &g[i].seq, &err), err);
    }
    ck_ok(infq_model_forward(o.m, g, 5, &plain, all, &err), err);
    at = 0;
    for (int i = 0; i < 5; at += len[i++]) {
        float *one = hidden_of(o.m, ids + at, len[i], &plain);
        ck_assert_msg(same(one, all + at * H, len[i] * H), "sequence %d differs", i);
        infq_mem_free(one);
        infq_seq_free(g[i].seq);
    }
    infq_mem_free(all);
    infq_mem_free(ids);
    close_one(&o, true);
}
END_TEST

START_TEST(settings_out_of_range_are_refused_and_told_in_words)
{
    static const infq_numerics bad[] = { { .activations = INFQ_ELEM_E4M3 }, { .residual = INFQ_ELEM_U4 }, { .kv = INFQ_ELEM_U8 },
                                         { .k_parts = 17 }, { .k_parts = -1 }, { .roundoff = 1 }, { .roundoff = NAN } };
    opened o = open_one(llama, "ref", NULL, 1);
    infq_numerics off = infq_numerics_default();
    char text[160], tight[12];
    infq_err err;

    for (int i = 0; i < 7; i++)
        ck_assert_int_eq(infq_model_set_numerics(o.m, &bad[i], &err), INFQ_E_USAGE);
    ck_assert_str_eq(infq_numerics_describe(infq_model_numerics(o.m), text, sizeof(text)), "f32");
    ck_assert_str_eq(infq_numerics_describe(&off, text, sizeof(text)), "f32");
    ck_assert_str_eq(infq_numerics_describe(&server, text, sizeof(text)), "activations=BF16 residual=BF16 kv=BF16 k_parts=4 seed=5");
    ck_assert_str_eq(infq_numerics_describe(&server, tight, sizeof(tight)), "activations");
    close_one(&o, true);
}
END_TEST

// ---- parts, starts in the middle ------------------------------------------------------------------------------------------

START_TEST(parts_are_named_in_order_of_the_blocks)
{
    opened o = open_one(llama, "cpu", NULL, 1);
    infq_model_part p = infq_model_part_get(o.m, 1);

    ck_assert_int_eq(infq_model_part_count(o.m), 3 * 9 + 3);
    ck_assert_str_eq(p.module, "model.layers.0.self_attn.q_proj");
    ck_assert(p.layer == 0 && p.rows == 48 && p.cols == 48);
    p = infq_model_part_get(o.m, 3 * 9 + 2);
    ck_assert_str_eq(p.module, "lm_head");
    ck_assert(p.layer == 3 && p.rows == 300 && p.cols == 48);
    close_one(&o, true);
}
END_TEST

START_TEST(a_model_with_all_parts_exchanged_is_the_other_one)
{
    opened a = open_one(configs[_i], "cpu", NULL, 1), b = open_one(configs[_i], "cpu", a.be, 2);
    int32_t *ids = tokens(40, 7);
    int64_t n = 40 * infq_model_config(a.m)->hidden;
    float *x = hidden_of(a.m, ids, 40, &plain), *y = hidden_of(b.m, ids, 40, &plain), *z;
    infq_err err;

    ck_ok(infq_model_same_parts(a.m, b.m, &err), err);
    for (int64_t i = 0; i < infq_model_part_count(a.m); i++)
        infq_model_swap(a.m, b.m, i);
    z = hidden_of(a.m, ids, 40, &plain);
    ck_assert(same(z, y, n));
    infq_mem_free(z);
    for (int64_t i = 0; i < infq_model_part_count(a.m); i++)
        infq_model_swap(a.m, b.m, i);
    z = hidden_of(a.m, ids, 40, &plain);
    ck_assert(same(z, x, n) && !same(x, y, n));
    infq_mem_free(x);
    infq_mem_free(y);
    infq_mem_free(z);
    infq_mem_free(ids);
    close_one(&b, false);
    close_one(&a, true);
}
END_TEST

START_TEST(models_of_other_shapes_have_other_parts)
{
    static const char wide[] = "{\"model_type\":\"llama\",\"hidden_size\":48,\"intermediate_size\":96,\"num_hidden_layers\":3,"
                               "\"num_attention_heads\":6,\"num_key_value_heads\":2,\"vocab_size\":300,\"max_position_embeddings\":1024,"
                               "\"hidden_act\":\"silu\",\"tie_word_embeddings\":false}";
    opened a = open_one(llama, "ref", NULL, 1), b = open_one(wide, "ref", a.be, 2), c = open_one(gpt2, "ref", a.be, 3);
    infq_err err;

    ck_assert_int_eq(infq_model_same_parts(a.m, b.m, &err), INFQ_E_MISMATCH);
    ck_assert_str_eq(err.msg, "model.layers.0.mlp.gate_proj: 80 x 48 in one model, 96 x 48 in the other");
    ck_assert_int_eq(infq_model_same_parts(a.m, c.m, &err), INFQ_E_MISMATCH);
    close_one(&b, false);
    close_one(&c, false);
    close_one(&a, true);
}
END_TEST

typedef struct {
    float *x[8];      /* residual stream before block i */
    int64_t at[8];
    int64_t n_inputs;
} kept;

static void keep_stage(void *ctx, int stage, const float *x, int64_t n_tokens, int64_t hidden)
{
    kept *k = ctx;

    memcpy(k->x[stage] + k->at[stage], x, (size_t)(n_tokens * hidden) * sizeof(float));
    k->at[stage] += n_tokens * hidden;
}

static void count_input(void *ctx, int64_t part, const float *x, int64_t n_tokens, int64_t cols)
{
    kept *k = ctx;

    (void)part;
    ck_assert(n_tokens > 0 && cols > 0 && isfinite(x[n_tokens * cols - 1]));
    k->n_inputs++;
}

START_TEST(a_start_in_the_middle_ends_with_the_same_bits)
{
    opened o = open_one(configs[_i], "cpu", NULL, 1);
    int64_t H = infq_model_config(o.m)->hidden, L = infq_model_config(o.m)->n_layers, n = 600; // two parts
    int32_t *ids = tokens(n, 8);
    kept k = { .n_inputs = 0 };
    infq_forward_options fo = { .invariant = true, .on_stage = keep_stage, .on_input = count_input, .ctx = &k };
    float *whole, *h;
    infq_segment g = { .tokens = ids, .n_tokens = n };
    infq_err err;

    for (int i = 0; i < 8; i++)
        k.x[i] = infq_mem_alloc((size_t)(n * H) * sizeof(float));
    whole = hidden_of(o.m, ids, n, &fo);
    ck_assert_int_eq(k.n_inputs, 2 * L * (_i == 0 ? 7 : 4)); // every matrix of a block, once a part of the text
    for (int64_t l = 0; l <= L; l++) {
        infq_forward_options from = { .invariant = true, .x = k.x[l], .first_layer = l };
        h = hidden_of(o.m, ids, n, &from);
        ck_assert_msg(same(h, whole, n * H), "a start before block %lld differs", (long long)l);
        infq_mem_free(h);
    }
    ck_ok(infq_seq_new(o.m, &g.seq, &err), err);
    ck_assert_int_eq(infq_model_forward(o.m, &g, 1, &(infq_forward_options){ .x = k.x[0], .first_layer = L + 1 }, NULL, &err), INFQ_E_USAGE);
    infq_seq_free(g.seq);
    for (int i = 0; i < 8; i++)
        infq_mem_free(k.x[i]);
    infq_mem_free(whole);
    infq_mem_free(ids);
    close_one(&o, true);
}
END_TEST

static void one_thread(void)
{
    infq_par_threads_set(1); // models so small that threads would only wait for each other
}

int main(void)
{
    Suite *s = suite_create("numerics");
    TCase *r = tcase_create("rounding"), *k = tcase_create("sums"), *m = tcase_create("models"), *p = tcase_create("parts");

    tcase_add_test(r, rounding_gives_the_nearest_value_of_its_type);
    tcase_add_loop_test(r, rounding_has_the_same_bits_on_every_level, 0, 2);
    tcase_add_test(r, round_off_is_centred_of_the_size_asked_for_and_seeded);
    tcase_add_test(k, an_order_of_sums_is_a_permutation_drawn_from_the_seed);
    tcase_add_test(k, products_summed_in_another_order_differ_by_rounding_only);
    tcase_add_checked_fixture(m, one_thread, NULL);
    tcase_add_loop_test(m, numerics_that_are_off_leave_every_bit, 0, 2);
    tcase_add_loop_test(m, rounded_activations_are_values_of_their_type_at_every_stage, 0, 2);
    tcase_add_loop_test(m, each_setting_alone_moves_the_result_a_little, 0, 2);
    tcase_add_loop_test(m, rows_stay_independent_of_the_batch_under_any_numerics, 0, 2);
    tcase_add_test(m, settings_out_of_range_are_refused_and_told_in_words);
    tcase_add_checked_fixture(p, one_thread, NULL);
    tcase_add_test(p, parts_are_named_in_order_of_the_blocks);
    tcase_add_loop_test(p, a_model_with_all_parts_exchanged_is_the_other_one, 0, 2);
    tcase_add_test(p, models_of_other_shapes_have_other_parts);
    tcase_add_loop_test(p, a_start_in_the_middle_ends_with_the_same_bits, 0, 2);
    suite_add_tcase(s, r);
    suite_add_tcase(s, k);
    suite_add_tcase(s, m);
    suite_add_tcase(s, p);
    return test_main(s);
}
