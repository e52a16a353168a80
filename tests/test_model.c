#include "lib/model/model.h"

#include "lib/base/cpu.h"
#include "lib/base/par.h"
#include "tests/testlib.h"
#include "lib/compress/convert.h"
#include "tests/tiny_model.h"

static const infq_log quiet;

// ---- an opened model ------------------------------------------------------------------------------------------------

typedef struct {
    infq_checkpoint *ck;
    infq_backend *be;
    infq_model *m;
} opened;

// Every backend of this machine: the reference, and the CPU at each level it has.
static const struct {
    const char *name;
    infq_cpu_level level;
} backends[] = { { "ref", INFQ_CPU_SCALAR },  { "cpu", INFQ_CPU_SCALAR }, { "cpu", INFQ_CPU_AVX2 },
                 { "cpu", INFQ_CPU_AVX512 }, { "cpu", INFQ_CPU_VNNI } };
#define N_BACKENDS ((int)(sizeof(backends) / sizeof(backends[0])))

// False when the machine lacks the level.
static bool set_backend(int b)
{
    infq_err err;

    if (backends[b].level > infq_cpu_level_max()) {
        printf("SKIP this machine has no %s\n", infq_cpu_level_name(backends[b].level));
        fflush(stdout);
        return false;
    }
    ck_ok(infq_cpu_level_set(backends[b].level, &err), err);
    return true;
}

static opened open_with(const char *dir, const char *backend, int64_t max_context)
{
    opened o = { 0 };
    infq_model_options mo = infq_model_options_default();
    infq_err err;

    mo.max_context = max_context;
    ck_ok(infq_checkpoint_open(dir, &quiet, &o.ck, &err), err);
    ck_ok(infq_backend_open(backend, &o.be, &err), err);
    ck_ok(infq_model_open(o.ck, o.be, &mo, &o.m, &err), err);
    return o;
}

static void close_all(opened *o)
{
    infq_model_close(o->m);
    infq_backend_close(o->be);
    infq_checkpoint_close(o->ck);
}

static infq_seq *new_seq(opened *o)
{
    infq_seq *s = NULL;
    infq_err err;

    ck_ok(infq_seq_new(o->m, &s, &err), err);
    return s;
}

static void run(opened *o, infq_seq *s, const int32_t *tokens, int64_t n, int64_t n_last, bool invariant, float *hidden)
{
    infq_segment g = { s, tokens, n, n_last };
    infq_forward_options fo = { .invariant = invariant };
    infq_err err;

    ck_ok(infq_model_forward(o->m, &g, 1, &fo, hidden, &err), err);
}

// Logits of all positions of a text, [n][vocab]; infq_mem_free.
static float *logits_of(opened *o, const int32_t *tokens, int64_t n, bool invariant)
{
    const infq_config *c = infq_model_config(o->m);
    float *h = infq_mem_alloc((size_t)(n * c->hidden) * sizeof(float));
    float *z = infq_mem_alloc((size_t)(n * c->vocab) * sizeof(float));
    infq_seq *s = new_seq(o);
    infq_err err;

    run(o, s, tokens, n, n, invariant, h);
    ck_ok(infq_model_logits(o->m, h, n, invariant, z, &err), err);
    infq_seq_free(s);
    infq_mem_free(h);
    return z;
}

static double largest_difference(const float *a, const float *b, int64_t n)
{
    double d = 0.0;

    for (int64_t i = 0; i < n; i++) {
        double e = fabs((double)a[i] - (double)b[i]);
        if (!(e <= d))
            d = e;
    }
    return d;
}

// ---- golden models --------------------------------------------------------------------------------------------------

static const char *const golden[] = {
    "llama-gqa", "llama-tied-llama3", "llama-2-minimal", "llama-v5-params", "llama-bias", "llama-headdim",
    "llama-linear", "llama-yarn", "llama-f16-sharded", "llama-mixed-dtypes", "mistral-window", "qwen2", "qwen2-window",
    "qwen3", "gpt2", "gpt2-bare", "smollm3" };
#define N_GOLDEN ((int)(sizeof(golden) / sizeof(golden[0])))

typedef struct {
    opened o;
    cJSON *json;
    infq_filemap map;
    infq_st *st;
} golden_case;

static golden_case golden_open(int which)
{
    golden_case g = { 0 };
    char rel[128];
    infq_err err;

    snprintf(rel, sizeof(rel), "goldens/models/%s", golden[which / N_BACKENDS]);
    g.o = open_with(test_shared_path(rel), backends[which % N_BACKENDS].name, 0);
    snprintf(rel, sizeof(rel), "goldens/models/%s/expect/forward.json", golden[which / N_BACKENDS]);
    g.json = test_json(test_shared_path(rel));
    snprintf(rel, sizeof(rel), "goldens/models/%s/expect/forward.safetensors", golden[which / N_BACKENDS]);
    ck_ok(infq_filemap_open(test_shared_path(rel), &g.map, &err), err);
    ck_ok(infq_st_parse(g.map.data, g.map.size, &g.st, &err), err);
    return g;
}

static void golden_close(golden_case *g)
{
    infq_st_free(g->st);
    infq_filemap_close(&g->map);
    cJSON_Delete(g->json);
    close_all(&g->o);
}

// F32 tensor copied to aligned memory; infq_mem_free.
static float *golden_tensor(const golden_case *g, const char *prefix, const char *name, int64_t want)
{
    char full[64];
    const infq_st_tensor *t;
    float *x;

    snprintf(full, sizeof(full), "%s.%s", prefix, name);
    t = infq_st_find(g->st, full);
    ck_assert_msg(t && t->dtype == INFQ_DTYPE_F32 && t->n_elems == want, "%s is not as expected", full);
    x = infq_mem_alloc((size_t)t->n_bytes);
    memcpy(x, (const uint8_t *)g->map.data + t->offset, (size_t)t->n_bytes);
    return x;
}

static int64_t ids_of(const cJSON *list, int32_t *out, int64_t cap)
{
    int64_t n = 0;
    const cJSON *e;

    cJSON_ArrayForEach(e, list) {
        ck_assert_int_lt(n, cap);
        out[n++] = e->valueint;
    }
    return n;
}

#define MAX_TOKENS 128

START_TEST(golden_logits_of_every_position)
{
    golden_case g;
    const cJSON *seq;
    int64_t V;

    TEST_NEEDS_SHARED();
    if (!set_backend(_i % N_BACKENDS))
        return;
    g = golden_open(_i);
    V = infq_model_config(g.o.m)->vocab;
    cJSON_ArrayForEach(seq, cJSON_GetObjectItem(g.json, "sequences")) {
        int32_t ids[MAX_TOKENS], at[MAX_TOKENS];
        int64_t n = ids_of(seq, ids, MAX_TOKENS);
        int64_t n_at = ids_of(cJSON_GetObjectItem(cJSON_GetObjectItem(g.json, "logit_positions"), seq->string), at, MAX_TOKENS);
        float *want = golden_tensor(&g, "logits", seq->string, n_at * V), *z = logits_of(&g.o, ids, n, false);

        for (int64_t i = 0; i < n_at; i++) {
            double d = largest_difference(z + at[i] * V, want + i * V, V);
            ck_assert_msg(d <= 3e-4, "%s on %s, %s position %d: off by %g", golden[_i / N_BACKENDS],
                          backends[_i % N_BACKENDS].name, seq->string, at[i], d);
        }
        infq_mem_free(z);
        infq_mem_free(want);
    }
    golden_close(&g);
}
END_TEST

// Every folder is run, or is of an architecture that the engine refuses by name.
START_TEST(golden_folders_are_all_run_or_refused_by_name)
{
    cJSON *index;
    const cJSON *e;
    int n_run = 0;

    TEST_NEEDS_SHARED();
    index = test_json(test_shared_path("goldens/models/index.json"));
    cJSON_ArrayForEach(e, index) {
        const char *name = infq_json_get(e, "name")->valuestring, *type = infq_json_get(e, "model_type")->valuestring;
        infq_checkpoint *ck = NULL;
        infq_config c;
        infq_err err = { 0 };
        char rel[128];
        bool run = false;

        for (int i = 0; i < N_GOLDEN; i++)
            run |= strcmp(golden[i], name) == 0;
        n_run += run;
        if (run)
            continue;
        snprintf(rel, sizeof(rel), "goldens/models/%s", name);
        ck_ok(infq_checkpoint_open(test_shared_path(rel), &quiet, &ck, &err), err);
        ck_assert_msg(infq_config_read(ck, &c, &err) == INFQ_E_UNSUPPORTED && strstr(err.msg, type), "%s is not tested: %s", name,
                      err.msg);
        infq_checkpoint_close(ck);
    }
    ck_assert_int_eq(n_run, N_GOLDEN);
    cJSON_Delete(index);
}
END_TEST

typedef struct {
    float *x;       /* [stages][n][hidden] */
    int64_t n;
    int calls;
} stages;

static void keep_stage(void *ctx, int which, const float *x, int64_t n_tokens, int64_t hidden)
{
    stages *s = ctx;

    ck_assert_int_eq(n_tokens, s->n);
    memcpy(s->x + which * n_tokens * hidden, x, (size_t)(n_tokens * hidden) * sizeof(float));
    s->calls++;
}

// Mean and L2 norm of one stage over all positions, within the bounds of the goldens' README.
static void check_stage_stats(const float *x, int64_t n, const cJSON *want, const char *what)
{
    double sum = 0.0, squares = 0.0, mean = infq_json_get(want, "mean")->valuedouble, l2 = infq_json_get(want, "l2")->valuedouble;

    for (int64_t i = 0; i < n; i++) {
        sum += x[i];
        squares += (double)x[i] * x[i];
    }
    ck_assert_msg(fabs(sum / (double)n - mean) <= 1e-4, "%s: mean %.9g, not %.9g", what, sum / (double)n, mean);
    ck_assert_msg(fabs(sqrt(squares) - l2) <= 1e-5 * l2, "%s: norm %.9g, not %.9g", what, sqrt(squares), l2);
}

START_TEST(golden_hidden_states_of_every_stage)
{
    golden_case g;
    const cJSON *seq;
    int64_t n_stages, H;

    TEST_NEEDS_SHARED();
    if (!set_backend(_i % N_BACKENDS))
        return;
    g = golden_open(_i);
    n_stages = infq_model_config(g.o.m)->n_layers + 2;
    H = infq_model_config(g.o.m)->hidden;
    cJSON_ArrayForEach(seq, cJSON_GetObjectItem(g.json, "sequences")) {
        const cJSON *stats = infq_json_get(infq_json_get(g.json, "stage_stats"), seq->string);
        bool whole = strcmp(seq->string, "t7") == 0, last = strcmp(seq->string, "tlong") == 0;
        int32_t ids[MAX_TOKENS];
        int64_t n = ids_of(seq, ids, MAX_TOKENS);
        stages s = { infq_mem_calloc((size_t)(n_stages * n * H), sizeof(float)), n, 0 };
        infq_seq *of = new_seq(&g.o);
        infq_segment seg = { of, ids, n, 0 };
        infq_forward_options fo = { .on_stage = keep_stage, .ctx = &s };
        float *want = whole ? golden_tensor(&g, "hidden", seq->string, n_stages * n * H)
                      : last ? golden_tensor(&g, "hidden_last", seq->string, n_stages * H) : NULL;
        infq_err err;

        ck_ok(infq_model_forward(g.o.m, &seg, 1, &fo, NULL, &err), err);
        ck_assert_int_eq(s.calls, n_stages);
        for (int64_t i = 0; i < n_stages; i++) {
            const float *x = s.x + i * n * H;
            char what[100];
            double d = whole ? largest_difference(x, want + i * n * H, n * H)
                       : last ? largest_difference(x + (n - 1) * H, want + i * H, H) : 0.0;
            snprintf(what, sizeof(what), "%s on %s, %s, stage %d", golden[_i / N_BACKENDS], backends[_i % N_BACKENDS].name,
                     seq->string, (int)i);
            ck_assert_msg(d <= 3e-4, "%s: off by %g", what, d);
            check_stage_stats(x, n * H, cJSON_GetArrayItem(stats, (int)i), what);
        }
        infq_mem_free(want);
        infq_mem_free(s.x);
        infq_seq_free(of);
    }
    golden_close(&g);
}
END_TEST

START_TEST(golden_greedy_tokens_with_the_cache)
{
    golden_case g;
    const cJSON *path;

    TEST_NEEDS_SHARED();
    if (!set_backend(_i % N_BACKENDS))
        return;
    g = golden_open(_i);
    cJSON_ArrayForEach(path, cJSON_GetObjectItem(g.json, "greedy")) {
        const infq_config *c = infq_model_config(g.o.m);
        int32_t ids[MAX_TOKENS], want[MAX_TOKENS];
        const cJSON *prompt = cJSON_GetObjectItem(cJSON_GetObjectItem(g.json, "sequences"),
                                                  cJSON_GetObjectItem(path, "prompt")->valuestring);
        int64_t n = ids_of(prompt, ids, MAX_TOKENS), n_want = ids_of(cJSON_GetObjectItem(path, "tokens"), want, MAX_TOKENS);
        float *h = infq_mem_alloc((size_t)c->hidden * sizeof(float)), *z = infq_mem_alloc((size_t)c->vocab * sizeof(float));
        infq_seq *s = new_seq(&g.o);
        infq_err err;

        run(&g.o, s, ids, n, 1, false, h);
        for (int64_t i = 0; i < n_want; i++) {
            int32_t id;
            ck_ok(infq_model_logits(g.o.m, h, 1, false, z, &err), err);
            id = infq_argmax(z, c->vocab);
            ck_assert_msg(id == want[i], "%s on %s: token %d is %d, not %d", golden[_i / N_BACKENDS],
                          backends[_i % N_BACKENDS].name, (int)i, id, want[i]);
            ck_assert_double_eq_tol(infq_logprob(z, c->vocab, id),
                                    cJSON_GetArrayItem(cJSON_GetObjectItem(path, "logprobs"), (int)i)->valuedouble, 3e-4);
            run(&g.o, s, &id, 1, 1, false, h);
        }
        infq_seq_free(s);
        infq_mem_free(h);
        infq_mem_free(z);
    }
    golden_close(&g);
}
END_TEST

START_TEST(golden_log_likelihoods_of_continuations)
{
    golden_case g;
    const cJSON *item;

    TEST_NEEDS_SHARED();
    if (!set_backend(_i % N_BACKENDS))
        return;
    g = golden_open(_i);
    cJSON_ArrayForEach(item, cJSON_GetObjectItem(g.json, "loglik")) {
        int64_t V = infq_model_config(g.o.m)->vocab;
        int32_t ids[MAX_TOKENS];
        int64_t n = ids_of(cJSON_GetObjectItem(item, "context"), ids, MAX_TOKENS);
        int64_t m = ids_of(cJSON_GetObjectItem(item, "continuation"), ids + n, MAX_TOKENS - n);
        float *z = logits_of(&g.o, ids, n + m, true);
        bool greedy = true;
        double sum = 0.0;

        for (int64_t i = 0; i < m; i++) {
            const float *row = z + (n + i - 1) * V;
            double lp = infq_logprob(row, V, ids[n + i]);
            ck_assert_double_eq_tol(lp, cJSON_GetArrayItem(cJSON_GetObjectItem(item, "token_logprobs"), (int)i)->valuedouble,
                                    3e-4);
            sum += lp;
            greedy = greedy && infq_argmax(row, V) == ids[n + i];
        }
        ck_assert_double_eq_tol(sum, cJSON_GetObjectItem(item, "sum")->valuedouble, 2e-3);
        ck_assert_int_eq(greedy, cJSON_IsTrue(cJSON_GetObjectItem(item, "is_greedy")));
        infq_mem_free(z);
    }
    golden_close(&g);
}
END_TEST

// ---- compressed golden folders --------------------------------------------------------------------------------------

static const char *const quantized[] = { "ct-w4a16-g128", "ct-w4a16-asym-g128", "ct-w4a16-g32", "ct-w8a16-channel",
                                         "ct-qwen3-w4a16-asym-g32", "ct-w4a16-g32-kvfp8", "ct-nvfp4a16", "ct-mxfp4a16" };
#define N_QUANTIZED ((int)(sizeof(quantized) / sizeof(quantized[0])))

// The folder stored densely in BF16: the goldens' logits are those of weights that were rounded so.
static const char *dequantized(const char *folder)
{
    static char path[600];
    infq_convert_options co = { .out_path = path, .dequantize = true };
    infq_convert_report r;
    infq_checkpoint *ck = NULL;
    infq_err err;

    snprintf(path, sizeof(path), "%s/dense", test_tmpdir());
    ck_ok(infq_checkpoint_open(folder, &quiet, &ck, &err), err);
    ck_ok(infq_convert_run(ck, &co, &quiet, &r, &err), err);
    infq_checkpoint_close(ck);
    return path;
}

// Prompt and expected logits of a compressed golden folder; want: infq_mem_free.
static int64_t quantized_golden(const char *name, int32_t ids[16], float **want, int64_t *n_logits)
{
    char rel[128];
    infq_filemap map;
    infq_st *st = NULL;
    const infq_st_tensor *t;
    infq_err err;
    int64_t n;

    snprintf(rel, sizeof(rel), "goldens/quantized/%s/decoded.safetensors", name);
    ck_ok(infq_filemap_open(test_shared_path(rel), &map, &err), err);
    ck_ok(infq_st_parse(map.data, map.size, &st, &err), err);
    t = infq_st_find(st, "prompt_ids");
    ck_assert(t && t->dtype == INFQ_DTYPE_I32 && t->n_elems <= 16);
    n = t->n_elems;
    memcpy(ids, (const uint8_t *)map.data + t->offset, (size_t)t->n_bytes);
    t = infq_st_find(st, "logits");
    ck_assert(t && t->dtype == INFQ_DTYPE_F32 && t->shape[0] == n);
    *n_logits = t->n_elems;
    *want = infq_mem_alloc((size_t)t->n_bytes);
    memcpy(*want, (const uint8_t *)map.data + t->offset, (size_t)t->n_bytes);
    infq_st_free(st);
    infq_filemap_close(&map);
    return n;
}

static float *logits_of_folder(const char *folder, const char *backend, const int32_t *ids, int64_t n)
{
    opened o = open_with(folder, backend, 0);
    float *z = logits_of(&o, ids, n, true);

    close_all(&o);
    return z;
}

START_TEST(golden_logits_of_weight_only_compressed_folders)
{
    const char *name = quantized[_i / N_BACKENDS], *backend = backends[_i % N_BACKENDS].name, *folder;
    char rel[128];
    int32_t ids[16];
    int64_t n, n_logits;
    float *dense, *stored, *plain, *want;
    double d;

    TEST_NEEDS_SHARED();
    if (!set_backend(_i % N_BACKENDS))
        return;
    snprintf(rel, sizeof(rel), "goldens/quantized/%s", name);
    folder = test_shared_path(rel);
    n = quantized_golden(name, ids, &want, &n_logits);
    dense = logits_of_folder(dequantized(folder), backend, ids, n);
    stored = logits_of_folder(folder, backend, ids, n);
    plain = logits_of_folder(folder, "ref", ids, n);
    d = largest_difference(dense, want, n_logits);
    ck_assert_msg(d <= 2e-3, "%s dense on %s: off by %g", name, backend, d);
    // Run as stored, the products (q - z) s are not rounded to BF16: equal to the plain reference of the same numbers.
    d = largest_difference(stored, plain, n_logits);
    ck_assert_msg(d <= 3e-4, "%s as stored on %s: off by %g", name, backend, d);
    // And near the goldens: 2^-9 relative in each weight moves these logits by at most 0.0171.
    d = largest_difference(stored, want, n_logits);
    ck_assert_msg(d <= 0.03, "%s as stored on %s: off the golden by %g", name, backend, d);
    infq_mem_free(dense);
    infq_mem_free(stored);
    infq_mem_free(plain);
    infq_mem_free(want);
}
END_TEST

static const char *const quantized_act[] = { "ct-w8a8-int8", "ct-fp8-dynamic", "ct-fp8-static", "ct-fp8-block" };
#define N_QUANTIZED_ACT ((int)(sizeof(quantized_act) / sizeof(quantized_act[0])))

START_TEST(folders_with_quantized_activations_run_as_the_reference_does)
{
    const char *name = quantized_act[_i / N_BACKENDS], *backend = backends[_i % N_BACKENDS].name, *folder;
    char rel[128];
    int32_t ids[16];
    int64_t n, n_logits;
    float *z, *plain, *want;
    double d, e;

    TEST_NEEDS_SHARED();
    if (!set_backend(_i % N_BACKENDS))
        return;
    snprintf(rel, sizeof(rel), "goldens/quantized/%s", name);
    folder = test_shared_path(rel);
    n = quantized_golden(name, ids, &want, &n_logits);
    z = logits_of_folder(folder, backend, ids, n);
    plain = logits_of_folder(folder, "ref", ids, n);
    d = largest_difference(z, plain, n_logits);
    e = largest_difference(z, want, n_logits);
    // The goldens' logits are without activation quantization, which moves these by 0.10 (int8) to 0.39 (FP8). Backends differ
    // by 3e-6, as long as no activation lies so near the middle of two codes that their sums round it to different ones.
    ck_assert_msg(e >= 0.05 && e <= 0.5, "%s on %s: activation quantization moves logits by %g", name, backend, e);
    ck_assert_msg(d <= e / 10.0, "%s on %s: off the reference by %g", name, backend, d);
    infq_mem_free(z);
    infq_mem_free(plain);
    infq_mem_free(want);
}
END_TEST

// ---- properties, on models made here --------------------------------------------------------------------------------

#define TINY_LLAMA                                                                                                         \
    "{\"model_type\":\"llama\",\"hidden_size\":64,\"num_hidden_layers\":3,\"num_attention_heads\":4,"                      \
    "\"num_key_value_heads\":2,\"intermediate_size\":96,\"vocab_size\":300,\"max_position_embeddings\":1024,"              \
    "\"attention_bias\":true,\"tie_word_embeddings\":false}"
#define TINY_QWEN3                                                                                                         \
    "{\"model_type\":\"qwen3\",\"hidden_size\":48,\"num_hidden_layers\":2,\"num_attention_heads\":4,"                      \
    "\"num_key_value_heads\":1,\"head_dim\":16,\"intermediate_size\":80,\"vocab_size\":300,"                               \
    "\"max_position_embeddings\":1024,\"tie_word_embeddings\":true,\"use_sliding_window\":true,\"sliding_window\":100,"    \
    "\"max_window_layers\":1}"
#define TINY_GPT2                                                                                                          \
    "{\"model_type\":\"gpt2\",\"n_embd\":48,\"n_layer\":2,\"n_head\":4,\"vocab_size\":300,\"n_positions\":1024}"
static const char *const tiny[] = { TINY_LLAMA, TINY_QWEN3, TINY_GPT2 };
#define N_TINY ((int)(sizeof(tiny) / sizeof(tiny[0])))

#define LONG 700

static opened open_tiny(int which, const char *backend)
{
    static tiny_model m;
    const char *dir = test_tmpdir();

    tiny_make(&m, tiny[which], 7 + (uint64_t)which);
    tiny_save(&m, dir, TINY_F32);
    tiny_free(&m);
    return open_with(dir, backend, 0);
}

static void fill_tokens(int32_t *ids, int64_t n, uint64_t seed)
{
    infq_rng rng = infq_rng_seed(seed);

    for (int64_t i = 0; i < n; i++)
        ids[i] = (int32_t)infq_rng_below(&rng, 300);
}

START_TEST(backends_agree_on_a_model_made_here)
{
    opened a, b;
    int32_t ids[150];
    float *x, *y;

    if (!set_backend(_i % N_BACKENDS))
        return;
    fill_tokens(ids, 150, 3);
    a = open_tiny(_i / N_BACKENDS, "ref");
    b = open_tiny(_i / N_BACKENDS, backends[_i % N_BACKENDS].name);
    x = logits_of(&a, ids, 150, true);
    y = logits_of(&b, ids, 150, false);
    ck_assert_double_le(largest_difference(x, y, 150 * 300), 3e-4); // as the golden models ask
    infq_mem_free(x);
    infq_mem_free(y);
    close_all(&a);
    close_all(&b);
}
END_TEST

// Hidden rows of one text, whole, invariant.
static float *alone(opened *o, const int32_t *ids, int64_t n)
{
    float *h = infq_mem_alloc((size_t)(n * infq_model_config(o->m)->hidden) * sizeof(float));
    infq_seq *s = new_seq(o);

    run(o, s, ids, n, n, true, h);
    infq_seq_free(s);
    return h;
}

START_TEST(sequences_in_one_batch_equal_each_alone_bit_by_bit)
{
    static const int64_t len[] = { 1, 70, 5, 430, 128, 1, 64 }; // 699 tokens: cut inside the fourth
    enum { N = 7 };
    opened o;
    infq_segment g[N];
    infq_forward_options fo = { .invariant = true };
    int32_t ids[LONG];
    int64_t at = 0, H;
    float *all;
    infq_err err;

    if (!set_backend(_i % N_BACKENDS))
        return;
    o = open_tiny(_i / N_BACKENDS, backends[_i % N_BACKENDS].name);
    H = infq_model_config(o.m)->hidden;
    fill_tokens(ids, LONG, 4);
    all = infq_mem_alloc((size_t)(LONG * H) * sizeof(float));
    for (int i = 0; i < N; at += len[i++])
        g[i] = (infq_segment){ new_seq(&o), ids + at, len[i], len[i] };
    ck_ok(infq_model_forward(o.m, g, N, &fo, all, &err), err);
    at = 0;
    for (int i = 0; i < N; at += len[i++]) {
        float *one = alone(&o, ids + at, len[i]);
        ck_assert_msg(memcmp(one, all + at * H, (size_t)(len[i] * H) * sizeof(float)) == 0,
                      "sequence %d of %d tokens differs by %g", i, (int)len[i],
                      largest_difference(one, all + at * H, len[i] * H));
        infq_mem_free(one);
        infq_seq_free(g[i].seq);
    }
    infq_mem_free(all);
    close_all(&o);
}
END_TEST

START_TEST(text_given_in_parts_equals_the_whole_bit_by_bit)
{
    static const int64_t cut[] = { 0, 1, 2, 63, 64, 65, 300, 513, 514, LONG };
    opened o;
    int32_t ids[LONG];
    int64_t H;
    float *whole, *part;
    infq_seq *s;

    if (!set_backend(_i % N_BACKENDS))
        return;
    o = open_tiny(_i / N_BACKENDS, backends[_i % N_BACKENDS].name);
    H = infq_model_config(o.m)->hidden;
    fill_tokens(ids, LONG, 5);
    whole = alone(&o, ids, LONG);
    part = infq_mem_alloc((size_t)(LONG * H) * sizeof(float));
    s = new_seq(&o);
    for (int i = 0; i + 1 < (int)(sizeof(cut) / sizeof(cut[0])); i++) {
        int64_t n = cut[i + 1] - cut[i], last = n < 3 ? n : 3;
        run(&o, s, ids + cut[i], n, last, true, part);
        ck_assert_int_eq(infq_seq_len(s), cut[i + 1]);
        ck_assert_msg(memcmp(part, whole + (cut[i + 1] - last) * H, (size_t)(last * H) * sizeof(float)) == 0,
                      "tokens up to %d differ by %g", (int)cut[i + 1],
                      largest_difference(part, whole + (cut[i + 1] - last) * H, last * H));
    }
    infq_seq_free(s);
    infq_mem_free(part);
    infq_mem_free(whole);
    close_all(&o);
}
END_TEST

START_TEST(forks_and_truncations_equal_the_whole_bit_by_bit)
{
    opened o;
    int32_t ids[200];
    int64_t H;
    float *whole, *part;
    infq_seq *s, *f = NULL;
    infq_err err;

    if (!set_backend(_i % N_BACKENDS))
        return;
    o = open_tiny(_i / N_BACKENDS, backends[_i % N_BACKENDS].name);
    H = infq_model_config(o.m)->hidden;
    fill_tokens(ids, 200, 6);
    whole = alone(&o, ids, 200);
    part = infq_mem_alloc((size_t)(200 * H) * sizeof(float));
    s = new_seq(&o);
    run(&o, s, ids, 130, 0, true, NULL);
    ck_ok(infq_seq_fork(s, 100, &f, &err), err);
    run(&o, s, ids, 40, 0, true, NULL); // the original goes another way: the fork must not notice
    run(&o, f, ids + 100, 100, 100, true, part);
    ck_assert_mem_eq(part, whole + 100 * H, (size_t)(100 * H) * sizeof(float));
    infq_seq_truncate(s, 65);
    ck_assert_int_eq(infq_seq_len(s), 65);
    run(&o, s, ids + 65, 135, 135, true, part);
    ck_assert_mem_eq(part, whole + 65 * H, (size_t)(135 * H) * sizeof(float));
    ck_assert_int_eq(infq_seq_fork(s, 201, &f, &err), INFQ_E_USAGE);
    infq_seq_free(f);
    infq_seq_free(s);
    infq_mem_free(part);
    infq_mem_free(whole);
    close_all(&o);
}
END_TEST

START_TEST(results_do_not_depend_on_the_number_of_threads)
{
    opened o;
    int32_t ids[130];
    float *one, *three;
    int64_t n;

    if (!set_backend(_i % N_BACKENDS))
        return;
    o = open_tiny(_i / N_BACKENDS, backends[_i % N_BACKENDS].name);
    n = 130 * infq_model_config(o.m)->hidden;
    fill_tokens(ids, 130, 8);
    infq_par_threads_set(1);
    one = alone(&o, ids, 130);
    infq_par_threads_set(3);
    three = alone(&o, ids, 130);
    ck_assert_mem_eq(one, three, (size_t)n * sizeof(float));
    infq_mem_free(one);
    infq_mem_free(three);
    close_all(&o);
}
END_TEST

// Stage hook that keeps the residual stream before the final norm.
typedef struct {
    int64_t n_layers, at;
    float *x;
} last_stage;

static void keep_last(void *ctx, int stage, const float *x, int64_t n_tokens, int64_t hidden)
{
    last_stage *k = ctx;

    if (stage != k->n_layers)
        return;
    memcpy(k->x + k->at, x, (size_t)(n_tokens * hidden) * sizeof(float));
    k->at += n_tokens * hidden;
}

START_TEST(blocks_in_order_give_the_whole_pass)
{
    enum { N = 700 }; // more than a chunk, so that later tokens see keys of an earlier one
    opened o;
    int32_t *ids = infq_mem_alloc(N * sizeof(*ids));
    infq_forward_options fo = { .invariant = true };
    last_stage keep = { 0 };
    infq_seq *s;
    infq_err err;
    float *x;
    int64_t H, n = N;

    if (!set_backend(_i % N_BACKENDS))
        return;
    o = open_tiny(_i / N_BACKENDS, backends[_i % N_BACKENDS].name);
    H = infq_model_config(o.m)->hidden;
    n = infq_model_config(o.m)->max_positions < N ? infq_model_config(o.m)->max_positions : N;
    fill_tokens(ids, n, 8);
    x = infq_mem_alloc((size_t)(n * H) * sizeof(float));
    keep = (last_stage){ infq_model_config(o.m)->n_layers, 0, infq_mem_alloc((size_t)(n * H) * sizeof(float)) };
    s = new_seq(&o);
    ck_ok(infq_model_embed(o.m, ids, n, x, &err), err);
    for (int64_t l = 0; l < keep.n_layers; l++)
        ck_ok(infq_model_block(o.m, l, s, x, n, &fo, &err), err);
    ck_assert_int_eq(infq_seq_len(s), 0);
    fo.on_stage = keep_last;
    fo.ctx = &keep;
    ck_ok(infq_model_forward(o.m, &(infq_segment){ s, ids, n, 0 }, 1, &fo, NULL, &err), err);
    ck_assert_int_eq(keep.at, n * H);
    ck_assert_mem_eq(keep.x, x, (size_t)(n * H) * sizeof(float));
    infq_seq_free(s);
    infq_mem_free(x);
    infq_mem_free(ids);
    infq_mem_free(keep.x);
    close_all(&o);
}
END_TEST

// One token at a time with the fast path (not invariant) against the prompt at once.
START_TEST(decoding_token_by_token_stays_within_the_bound_of_the_prompt_path)
{
    opened o;
    int32_t ids[80];
    int64_t H;
    float *whole, h[64];
    infq_seq *s;

    if (!set_backend(_i % N_BACKENDS))
        return;
    o = open_tiny(_i / N_BACKENDS, backends[_i % N_BACKENDS].name);
    H = infq_model_config(o.m)->hidden;
    fill_tokens(ids, 80, 9);
    whole = alone(&o, ids, 80);
    s = new_seq(&o);
    for (int i = 0; i < 80; i++) {
        run(&o, s, ids + i, 1, 1, false, h);
        ck_assert_double_le(largest_difference(h, whole + i * H, H), 3e-4);
    }
    infq_seq_free(s);
    infq_mem_free(whole);
    close_all(&o);
}
END_TEST

START_TEST(bad_batches_are_refused_and_leave_the_sequences_as_they_were)
{
    opened o = open_tiny(0, "ref");
    int32_t ids[8] = { 1, 2, 3, 300, 5, 6, 7, -1 };
    infq_seq *s = new_seq(&o), *other = new_seq(&o);
    float h[64];
    infq_forward_options fo = { .invariant = true };
    infq_segment g[2] = { { s, ids, 3, 1 }, { s, ids, 2, 0 } };
    infq_err err = { 0 };

    ck_assert_int_eq(infq_model_forward(o.m, g, 2, &fo, h, &err), INFQ_E_USAGE);
    g[1] = (infq_segment){ other, ids, 4, 1 };
    ck_assert_int_eq(infq_model_forward(o.m, g, 2, &fo, h, &err), INFQ_E_NUMERIC);
    ck_assert_ptr_nonnull(strstr(err.msg, "300"));
    g[0] = (infq_segment){ s, ids + 7, 1, 1 };
    ck_assert_int_eq(infq_model_forward(o.m, g, 1, &fo, h, &err), INFQ_E_NUMERIC);
    g[0] = (infq_segment){ s, ids, 1025, 1 };
    ck_assert_int_eq(infq_model_forward(o.m, g, 1, &fo, h, &err), INFQ_E_UNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(err.msg, "1024"));
    g[0] = (infq_segment){ s, ids, 2, 3 };
    ck_assert_int_eq(infq_model_forward(o.m, g, 1, &fo, h, &err), INFQ_E_USAGE);
    ck_assert_int_eq(infq_seq_len(s), 0);
    ck_assert_int_eq(infq_seq_len(other), 0);
    run(&o, s, ids, 3, 1, true, h); // still usable
    ck_assert_int_eq(infq_seq_len(s), 3);
    infq_seq_free(s);
    infq_seq_free(other);
    close_all(&o);
}
END_TEST

static infq_status open_folder(const char *dir, infq_err *err)
{
    opened o = { 0 };
    infq_model_options mo = infq_model_options_default();
    infq_err ignored;
    infq_status st;

    ck_ok(infq_checkpoint_open(dir, &quiet, &o.ck, &ignored), ignored);
    ck_ok(infq_backend_open("ref", &o.be, &ignored), ignored);
    st = infq_model_open(o.ck, o.be, &mo, &o.m, err);
    close_all(&o);
    return st;
}

START_TEST(missing_tensors_and_unknown_biases_are_named)
{
    tiny_model m;
    const char *dir = test_tmpdir();
    infq_rng rng = infq_rng_seed(1);
    infq_err err = { 0 };
    tiny_tensor *t;

    tiny_make(&m, TINY_QWEN3, 1);
    tiny_find(&m, "model.layers.1.mlp.up_proj.weight")->name[0] = '\0';
    tiny_save(&m, dir, TINY_F32);
    ck_assert_int_eq(open_folder(dir, &err), INFQ_E_FORMAT);
    ck_assert_msg(strstr(err.msg, "model.layers.1.mlp.up_proj.weight") != NULL, "%s", err.msg);
    tiny_free(&m);

    tiny_make(&m, TINY_QWEN3, 1);
    t = tiny_add(&m, "model.layers.0.self_attn.o_proj.bias", 48, 0, &rng, 0.0, 0.0);
    tiny_save(&m, dir, TINY_F32);
    ck_assert_msg(open_folder(dir, &err) == 0, "zeros are harmless: %s", err.msg);
    t->data[3] = 0.5f;
    tiny_save(&m, dir, TINY_F32);
    ck_assert_int_eq(open_folder(dir, &err), INFQ_E_FORMAT);
    ck_assert_msg(strstr(err.msg, "model.layers.0.self_attn.o_proj.bias") != NULL, "%s", err.msg);
    tiny_free(&m);
}
END_TEST

// The n-th allocation fails, n = 1, 2, ...: a clean error, nothing left behind.
START_TEST(failed_allocations_are_errors_without_leaks)
{
    tiny_model m;
    const char *dir = test_tmpdir();
    int32_t ids[70];
    float h[64];
    size_t n = 0, live;
    bool failed = true;

    tiny_make(&m, TINY_LLAMA, 1);
    tiny_save(&m, dir, TINY_F32);
    tiny_free(&m);
    fill_tokens(ids, 70, 1);
    while (failed) {
        opened o = { 0 };
        infq_seq *s = NULL, *f = NULL, *b = NULL;
        infq_model_options mo = infq_model_options_default();
        infq_forward_options fo = { .invariant = true };
        infq_err err = { 0 };
        infq_status st;

        ck_ok(infq_checkpoint_open(dir, &quiet, &o.ck, &err), err);
        ck_ok(infq_backend_open("ref", &o.be, &err), err);
        live = infq_mem_stats_get().n_live;
        infq_mem_fail_at(++n);
        st = infq_model_open(o.ck, o.be, &mo, &o.m, &err);
        if (!st)
            st = infq_seq_new(o.m, &s, &err);
        if (!st) {
            infq_segment g = { s, ids, 70, 1 };
            st = infq_model_forward(o.m, &g, 1, &fo, h, &err);
        }
        if (!st)
            st = infq_seq_fork(s, 66, &f, &err);
        if (!st)
            st = infq_seq_brief(o.m, s, 66, &b, &err);
        if (!st) {
            infq_segment g = { b, ids, 70, 1 };
            st = infq_model_forward(o.m, &g, 1, &fo, h, &err);
        }
        infq_mem_fail_at(0);
        failed = st != 0;
        ck_assert_msg(st == 0 || st == INFQ_E_NOMEM, "allocation %zu: status %d: %s", n, (int)st, err.msg);
        infq_seq_free(b);
        infq_seq_free(f);
        infq_seq_free(s);
        infq_model_close(o.m);
        ck_assert_uint_eq(infq_mem_stats_get().n_live, live);
        o.m = NULL;
        close_all(&o);
    }
    ck_assert_uint_gt(n, 20);
}
END_TEST

START_TEST(brief_sequences_equal_the_whole_bit_by_bit)
{
    static const int64_t starts[] = {0, 5, 64, 70};
    opened o;
    int32_t ids[700];
    int64_t H;
    float *whole, *part;
    infq_seq *base, *b[5], *none;
    infq_segment g[5];
    infq_forward_options fo = {.invariant = true};
    infq_err err;

    if (!set_backend(_i % N_BACKENDS))
        return;
    o = open_tiny(_i / N_BACKENDS, backends[_i % N_BACKENDS].name);
    H = infq_model_config(o.m)->hidden;
    fill_tokens(ids, 700, 6);
    whole = alone(&o, ids, 250);
    part = infq_mem_alloc((size_t)(5 * 180 * H) * sizeof(float));
    base = new_seq(&o);
    run(&o, base, ids, 100, 0, true, NULL);
    // 5 * 180 tokens: one of them would lie across two chunks, two begin in the middle of a page.
    for (int i = 0; i < 4; i++) {
        ck_ok(infq_seq_brief(o.m, starts[i] ? base : NULL, starts[i], &b[i], &err), err);
        g[i] = (infq_segment){b[i], ids + starts[i], 180, 180};
    }
    ck_ok(infq_seq_brief(o.m, base, 100, &b[4], &err), err);
    g[4] = (infq_segment){b[4], ids + 100, 150, 150};
    ck_ok(infq_model_forward(o.m, g, 5, &fo, part, &err), err);
    for (int i = 0; i < 5; i++) {
        int64_t at = i < 4 ? starts[i] : 100, n = i < 4 ? 180 : 150;
        ck_assert_msg(memcmp(part + i * 180 * H, whole + at * H, (size_t)(n * H) * sizeof(float)) == 0, "behind %lld", (long long)at);
    }
    ck_assert_int_eq(infq_model_forward(o.m, g, 1, &fo, part, &err), INFQ_E_USAGE); // its one pass is over
    ck_assert_int_eq(infq_seq_fork(b[1], 5, &none, &err), INFQ_E_USAGE);
    ck_assert_int_eq(infq_seq_brief(o.m, b[1], 5, &none, &err), INFQ_E_USAGE);
    ck_assert_int_eq(infq_seq_brief(o.m, base, 101, &none, &err), INFQ_E_USAGE);
    for (int i = 0; i < 5; i++)
        infq_seq_free(b[i]);
    ck_ok(infq_seq_brief(o.m, NULL, 0, &b[0], &err), err);
    g[0] = (infq_segment){b[0], ids, INFQ_BRIEF_TOKENS + 1, 0};
    ck_assert_int_eq(infq_model_forward(o.m, g, 1, &fo, NULL, &err), INFQ_E_USAGE);
    infq_seq_free(b[0]);
    run(&o, base, ids + 100, 150, 150, true, part); // untouched by those that borrowed
    ck_assert_mem_eq(part, whole + 100 * H, (size_t)(150 * H) * sizeof(float));
    infq_seq_free(base);
    infq_mem_free(part);
    infq_mem_free(whole);
    close_all(&o);
}
END_TEST

START_TEST(the_cache_grows_by_whole_pages_as_predicted)
{
    opened o = open_tiny(0, "ref");
    const infq_config *c = infq_model_config(o.m);
    // Keys and values of 3 layers, 2 heads of 16, 64 positions, F32.
    size_t page = 2 * 3 * 2 * 16 * 64 * sizeof(float), before;
    int32_t ids[129];
    float h[64];
    infq_seq *first = new_seq(&o), *s;

    ck_assert_uint_eq(infq_model_kv_bytes(c, 0), 0);
    ck_assert_uint_eq(infq_model_kv_bytes(c, 1), page);
    ck_assert_uint_eq(infq_model_kv_bytes(c, 64), page);
    ck_assert_uint_eq(infq_model_kv_bytes(c, 65), 2 * page);
    // What is allocated: working memory and rotary table have their size after a first text.
    fill_tokens(ids, 129, 3);
    run(&o, first, ids, 129, 1, true, h);
    before = infq_mem_stats_get().live_bytes;
    s = new_seq(&o);
    run(&o, s, ids, 64, 1, true, h);
    ck_assert_uint_ge(infq_mem_stats_get().live_bytes - before, page);
    ck_assert_uint_lt(infq_mem_stats_get().live_bytes - before, page + 2048);
    run(&o, s, ids + 64, 64, 1, true, h);
    ck_assert_uint_lt(infq_mem_stats_get().live_bytes - before, 2 * page + 2048);
    run(&o, s, ids + 128, 1, 1, true, h);
    ck_assert_uint_ge(infq_mem_stats_get().live_bytes - before, 3 * page);
    ck_assert_uint_lt(infq_mem_stats_get().live_bytes - before, infq_model_kv_bytes(c, 129) + 2048);
    // Pages of a freed sequence serve the next one.
    infq_seq_free(s);
    before = infq_mem_stats_get().live_bytes;
    s = new_seq(&o);
    run(&o, s, ids, 129, 1, true, h);
    ck_assert_uint_lt(infq_mem_stats_get().live_bytes - before, 2048);
    infq_seq_free(s);
    infq_seq_free(first);
    close_all(&o);
}
END_TEST

START_TEST(work_of_a_token_is_two_operations_a_weight)
{
    opened o = open_tiny(0, "ref");
    const infq_config *c = infq_model_config(o.m);
    int64_t q = c->n_heads * c->head_dim, kv = c->n_kv_heads * c->head_dim;
    int64_t layers = c->n_layers * (2 * q * c->hidden + 2 * kv * c->hidden + 3 * c->ffn * c->hidden);
    int64_t head = c->vocab * c->hidden;

    ck_assert_double_eq(infq_model_flop(o.m, 1, 1), 2.0 * (double)(layers + head));
    ck_assert_double_eq(infq_model_flop(o.m, 100, 1), 2.0 * (double)(100 * layers + head)); // a prompt has one row of logits
    ck_assert_uint_eq(infq_model_weight_bytes(o.m), (size_t)(layers + head) * sizeof(float));
    close_all(&o);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("model");
    TCase *t = tcase_create("golden");

    tcase_set_timeout(t, 120);
    tcase_add_test(t, golden_folders_are_all_run_or_refused_by_name);
    tcase_add_loop_test(t, golden_logits_of_every_position, 0, N_GOLDEN * N_BACKENDS);
    tcase_add_loop_test(t, golden_hidden_states_of_every_stage, 0, N_GOLDEN * N_BACKENDS);
    tcase_add_loop_test(t, golden_greedy_tokens_with_the_cache, 0, N_GOLDEN * N_BACKENDS);
    tcase_add_loop_test(t, golden_log_likelihoods_of_continuations, 0, N_GOLDEN * N_BACKENDS);
    tcase_add_loop_test(t, golden_logits_of_weight_only_compressed_folders, 0, N_QUANTIZED * N_BACKENDS);
    tcase_add_loop_test(t, folders_with_quantized_activations_run_as_the_reference_does, 0, N_QUANTIZED_ACT * N_BACKENDS);
    suite_add_tcase(s, t);
    t = tcase_create("batches");
    tcase_set_timeout(t, 120);
    tcase_add_loop_test(t, backends_agree_on_a_model_made_here, 0, N_TINY * N_BACKENDS);
    tcase_add_loop_test(t, sequences_in_one_batch_equal_each_alone_bit_by_bit, 0, N_TINY * N_BACKENDS);
    tcase_add_loop_test(t, text_given_in_parts_equals_the_whole_bit_by_bit, 0, N_TINY * N_BACKENDS);
    tcase_add_loop_test(t, forks_and_truncations_equal_the_whole_bit_by_bit, 0, N_TINY * N_BACKENDS);
    tcase_add_loop_test(t, brief_sequences_equal_the_whole_bit_by_bit, 0, N_TINY * N_BACKENDS);
    tcase_add_loop_test(t, results_do_not_depend_on_the_number_of_threads, 0, N_TINY * N_BACKENDS);
    tcase_add_loop_test(t, blocks_in_order_give_the_whole_pass, 0, N_TINY * N_BACKENDS);
    tcase_add_loop_test(t, decoding_token_by_token_stays_within_the_bound_of_the_prompt_path, 0, N_TINY * N_BACKENDS);
    suite_add_tcase(s, t);
    t = tcase_create("errors");
    tcase_set_timeout(t, 120);
    tcase_add_test(t, bad_batches_are_refused_and_leave_the_sequences_as_they_were);
    tcase_add_test(t, missing_tensors_and_unknown_biases_are_named);
    tcase_add_test(t, failed_allocations_are_errors_without_leaks);
    tcase_add_test(t, the_cache_grows_by_whole_pages_as_predicted);
    tcase_add_test(t, work_of_a_token_is_two_operations_a_weight);
    suite_add_tcase(s, t);
    return test_main(s);
}
