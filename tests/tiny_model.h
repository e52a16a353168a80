/* A small model folder for the tests of plan, quantize and verify: 2 layers, hidden 128, FFN 256, 64 tokens, BF16. */
#ifndef INFQ_TESTS_TINY_MODEL_H
#define INFQ_TESTS_TINY_MODEL_H

#include <unistd.h>

#include "lib/base/cursor.h"
#include "lib/base/rng.h"
#include "lib/base/str.h"
#include "lib/io/checkpoint.h"
#include "lib/io/folder.h"
#include "tests/testlib.h"

typedef struct {
    infq_dtype dtype;
    int64_t ffn;             /* columns of down_proj */
    uint64_t shard_bytes;    /* 0: one file */
    bool bare, tied, head_equal;
    const char *bad_tensor;  /* gets bad_value at [3, 5] */
    float bad_value;
    const char *zero_tensor; /* all zeros */
    const char *extra;       /* one more [128, 128] matrix */
} tiny_options;

#define TINY_DEFAULT ((tiny_options){.dtype = INFQ_DTYPE_BF16, .ffn = 256})

typedef struct {
    char name[80];
    int n_dims;
    int64_t shape[2];
} tiny_tensor;

static inline size_t tiny_list(const tiny_options *o, tiny_tensor v[64])
{
    static const char *const parts[] = {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj",
                                        "mlp.gate_proj",    "mlp.up_proj",      "mlp.down_proj"};
    const int64_t shapes[][2] = {{128, 128}, {64, 128}, {64, 128}, {128, 128}, {o->ffn, 128}, {o->ffn, 128}, {128, o->ffn}};
    size_t n = 0;

    v[n++] = (tiny_tensor){"model.embed_tokens.weight", 2, {64, 128}};
    for (int l = 0; l < 2; l++) {
        for (int i = 0; i < 7; i++) {
            v[n] = (tiny_tensor){.n_dims = 2, .shape = {shapes[i][0], shapes[i][1]}};
            snprintf(v[n++].name, sizeof(v[0].name), "model.layers.%d.%s.weight", l, parts[i]);
        }
        v[n] = (tiny_tensor){.n_dims = 1, .shape = {128, 0}};
        snprintf(v[n++].name, sizeof(v[0].name), "model.layers.%d.input_layernorm.weight", l);
    }
    v[n++] = (tiny_tensor){"model.norm.weight", 1, {128, 0}};
    if (!o->tied || o->head_equal)
        v[n++] = (tiny_tensor){"lm_head.weight", 2, {64, 128}};
    if (o->extra) {
        v[n] = (tiny_tensor){.n_dims = 2, .shape = {128, 128}};
        snprintf(v[n++].name, sizeof(v[0].name), "%s.weight", o->extra);
    }
    return n;
}

static inline void tiny_fill(const tiny_options *o, const tiny_tensor *t, size_t i, uint8_t *bytes)
{
    infq_rng rng = infq_rng_seed(100 + (o->head_equal && strcmp(t->name, "lm_head.weight") == 0 ? 0 : i));
    int64_t n = t->shape[0] * (t->n_dims == 2 ? t->shape[1] : 1);
    float *x = calloc((size_t)n, sizeof(*x));
    infq_err err;

    for (int64_t k = 0; k < n; k++)
        x[k] = 0.05f * (float)infq_rng_normal(&rng);
    if (o->zero_tensor && strcmp(t->name, o->zero_tensor) == 0)
        memset(x, 0, (size_t)n * sizeof(*x));
    if (o->bad_tensor && strcmp(t->name, o->bad_tensor) == 0)
        x[3 * t->shape[1] + 5] = o->bad_value;
    ck_ok(infq_dtype_from_f32(o->dtype, x, n, bytes, &err), err);
    free(x);
}

/* Writes the model to path (a folder, or a file when o->bare). */
static inline void tiny_write(const char *path, tiny_options o)
{
    infq_folder_options fo = {.path = path, .bare = o.bare, .shard_bytes = o.shard_bytes, .fingerprint = "tiny"};
    const char *config = o.tied ? "{\n  \"model_type\": \"llama\",\n  \"zeta\": [1, 2.50],\n  \"tie_word_embeddings\": true\n}\n"
                                : "{\n  \"model_type\": \"llama\",\n  \"zeta\": [1, 2.50]\n}\n";
    tiny_tensor v[64];
    size_t n = tiny_list(&o, v);
    infq_folder *f;
    infq_err err;

    ck_ok(infq_folder_begin(&fo, &f, &err), err);
    for (size_t i = 0; i < n; i++)
        ck_ok(infq_folder_declare(f, v[i].name, o.dtype, v[i].n_dims, v[i].shape, &err), err);
    ck_ok(infq_folder_seal(f, &err), err);
    for (size_t i = 0; i < n; i++) {
        size_t bytes = (size_t)(v[i].shape[0] * (v[i].n_dims == 2 ? v[i].shape[1] : 1)) * (size_t)infq_dtype_bits(o.dtype) / 8;
        uint8_t *data = malloc(bytes);
        tiny_fill(&o, &v[i], i, data);
        ck_ok(infq_folder_write(f, v[i].name, 0, data, bytes, &err), err);
        free(data);
    }
    for (size_t s = 0; s < infq_folder_shard_count(f); s++)
        ck_ok(infq_folder_shard_done(f, s, &err), err);
    if (!o.bare) {
        ck_ok(infq_folder_put(f, "config.json", config, strlen(config), &err), err);
        ck_ok(infq_folder_put(f, "tokenizer.json", "{\"odd\":\t1}", 10, &err), err);
    }
    ck_ok(infq_folder_commit(f, &err), err);
}

/* Declares char var[700] = "<dir>/<name>". */
#define TINY_PATH(var, dir, name)                                                                                     \
    char var[700];                                                                                                    \
    snprintf(var, sizeof(var), "%.400s/%.250s", dir, name)

static inline infq_buf tiny_read(const char *path)
{
    infq_buf b;
    infq_err err;

    infq_buf_init(&b);
    ck_ok(infq_file_read(path, (size_t)1 << 30, &b, &err), err);
    return b;
}

/* The file of this name holds the same bytes in both folders. */
static inline void tiny_same_file(const char *dir_a, const char *dir_b, const char *name)
{
    TINY_PATH(a, dir_a, name);
    TINY_PATH(b, dir_b, name);
    infq_buf x = tiny_read(a), y = tiny_read(b);

    ck_assert_msg(x.n == y.n && memcmp(x.data, y.data, x.n) == 0, "%s (%zu bytes) and %s (%zu bytes) differ", a, x.n, b, y.n);
    infq_buf_deinit(&x);
    infq_buf_deinit(&y);
}

#endif
