/* Small random models that the engine runs: made from a config.json text, changed by a test, written as an F32 folder. */
#ifndef INFQ_TESTS_ENGINE_MODEL_H
#define INFQ_TESTS_ENGINE_MODEL_H

#include "lib/base/rng.h"
#include "lib/io/folder.h"
#include "tests/testlib.h"

typedef struct {
    char name[96];      /* empty: not written */
    float *data;        /* [n]; infq_mem_free */
    int n_dims;
    int64_t shape[2], n;
} tiny_tensor;

typedef struct {
    cJSON *json;        /* config.json as it will be written */
    tiny_tensor t[96];
    int n;
} tiny_model;

/* Adds a [rows, cols] matrix ([rows] vector when cols is 0) of normal values. */
static inline tiny_tensor *tiny_add(tiny_model *m, const char *name, int64_t rows, int64_t cols, infq_rng *rng, double mean,
                                    double sd)
{
    tiny_tensor *t = &m->t[m->n++];

    ck_assert_int_le(m->n, 96);
    snprintf(t->name, sizeof(t->name), "%s", name);
    t->n_dims = cols ? 2 : 1;
    t->shape[0] = rows;
    t->shape[1] = cols;
    t->n = rows * (cols ? cols : 1);
    t->data = infq_mem_alloc((size_t)t->n * sizeof(float));
    ck_assert_ptr_nonnull(t->data);
    for (int64_t i = 0; i < t->n; i++)
        t->data[i] = (float)(mean + sd * infq_rng_normal(rng));
    return t;
}

static inline int64_t tiny_number(const tiny_model *m, const char *key, int64_t dflt)
{
    infq_err err;
    int64_t v;

    ck_ok(infq_json_i64(m->json, key, dflt, &v, &err), err);
    return v;
}

static inline void tiny_llama_layer(tiny_model *m, int layer, infq_rng *rng)
{
    int64_t h = tiny_number(m, "hidden_size", 0), heads = tiny_number(m, "num_attention_heads", 1),
            kv = tiny_number(m, "num_key_value_heads", heads), d = tiny_number(m, "head_dim", h / heads),
            f = tiny_number(m, "intermediate_size", 0);
    bool qwen3 = strcmp(infq_json_get(m->json, "model_type")->valuestring, "qwen3") == 0;
    bool bias = cJSON_IsTrue(infq_json_get(m->json, "attention_bias"));
    const struct {
        const char *part;
        int64_t rows, cols;
    } parts[] = { { "self_attn.q_proj", heads * d, h }, { "self_attn.k_proj", kv * d, h }, { "self_attn.v_proj", kv * d, h },
                  { "self_attn.o_proj", h, heads * d }, { "mlp.gate_proj", f, h }, { "mlp.up_proj", f, h }, { "mlp.down_proj", h, f } };
    char name[128];

    for (int i = 0; i < 7; i++) {
        snprintf(name, sizeof(name), "model.layers.%d.%s.weight", layer, parts[i].part);
        tiny_add(m, name, parts[i].rows, parts[i].cols, rng, 0, 1 / sqrt((double)parts[i].cols));
        if (bias && i < 4) {
            snprintf(name, sizeof(name), "model.layers.%d.%s.bias", layer, parts[i].part);
            tiny_add(m, name, parts[i].rows, 0, rng, 0, 0.3);
        }
    }
    for (int i = 0; i < 2; i++) {
        snprintf(name, sizeof(name), "model.layers.%d.%s_layernorm.weight", layer, i ? "post_attention" : "input");
        tiny_add(m, name, h, 0, rng, 1, 0.2);
        snprintf(name, sizeof(name), "model.layers.%d.self_attn.%c_norm.weight", layer, i ? 'k' : 'q');
        if (qwen3)
            tiny_add(m, name, d, 0, rng, 1, 0.2);
    }
}

static inline void tiny_gpt2(tiny_model *m, infq_rng *rng)
{
    int64_t h = tiny_number(m, "n_embd", 0), layers = tiny_number(m, "n_layer", 0);
    const struct {
        const char *part;
        int64_t rows, cols; /* Conv1D: [in, out] */
    } parts[] = { { "attn.c_attn", h, 3 * h }, { "attn.c_proj", h, h }, { "mlp.c_fc", h, 4 * h }, { "mlp.c_proj", 4 * h, h } };
    char name[128];

    tiny_add(m, "transformer.wte.weight", tiny_number(m, "vocab_size", 0), h, rng, 0, 0.5);
    tiny_add(m, "transformer.wpe.weight", tiny_number(m, "n_positions", 0), h, rng, 0, 0.3);
    for (int l = 0; l < layers; l++) {
        for (int i = 0; i < 4; i++) {
            snprintf(name, sizeof(name), "transformer.h.%d.%s.weight", l, parts[i].part);
            tiny_add(m, name, parts[i].rows, parts[i].cols, rng, 0, 1 / sqrt((double)parts[i].rows));
            snprintf(name, sizeof(name), "transformer.h.%d.%s.bias", l, parts[i].part);
            tiny_add(m, name, parts[i].cols, 0, rng, 0, 0.2);
        }
        for (int i = 1; i <= 2; i++) {
            snprintf(name, sizeof(name), "transformer.h.%d.ln_%d.weight", l, i);
            tiny_add(m, name, h, 0, rng, 1, 0.2);
            snprintf(name, sizeof(name), "transformer.h.%d.ln_%d.bias", l, i);
            tiny_add(m, name, h, 0, rng, 0, 0.2);
        }
    }
    tiny_add(m, "transformer.ln_f.weight", h, 0, rng, 1, 0.2);
    tiny_add(m, "transformer.ln_f.bias", h, 0, rng, 0, 0.2);
}

/* All tensors that the configuration asks for, normal values that keep activations near 1. */
static inline void tiny_make(tiny_model *m, const char *config, uint64_t seed)
{
    infq_rng rng = infq_rng_seed(seed);
    infq_err err;

    memset(m, 0, sizeof(*m));
    ck_ok(infq_json_parse(config, strlen(config), "config", &m->json, &err), err);
    if (strcmp(infq_json_get(m->json, "model_type")->valuestring, "gpt2") == 0) {
        tiny_gpt2(m, &rng);
        return;
    }
    tiny_add(m, "model.embed_tokens.weight", tiny_number(m, "vocab_size", 0), tiny_number(m, "hidden_size", 0), &rng, 0, 0.6);
    for (int l = 0; l < tiny_number(m, "num_hidden_layers", 0); l++)
        tiny_llama_layer(m, l, &rng);
    tiny_add(m, "model.norm.weight", tiny_number(m, "hidden_size", 0), 0, &rng, 1, 0.2);
    if (!cJSON_IsTrue(infq_json_get(m->json, "tie_word_embeddings")))
        tiny_add(m, "lm_head.weight", tiny_number(m, "vocab_size", 0), tiny_number(m, "hidden_size", 0), &rng, 0, 0.6);
}

static inline tiny_tensor *tiny_find(tiny_model *m, const char *name)
{
    for (int i = 0; i < m->n; i++)
        if (strcmp(m->t[i].name, name) == 0)
            return &m->t[i];
    ck_abort_msg("the model has no %s", name);
    return NULL;
}

/* Puts one more file into the folder. */
static inline void tiny_put(const char *dir, const char *name, const void *p, size_t n)
{
    char path[600];
    infq_err err;

    snprintf(path, sizeof(path), "%s/%s", dir, name);
    ck_ok(infq_file_write_atomic(path, p, n, true, &err), err);
}

/* config.json and model.safetensors into dir, replacing what is there. */
static inline void tiny_write(const tiny_model *m, const char *dir)
{
    infq_st_layout *l = NULL;
    infq_buf file;
    infq_err err;
    char *config = cJSON_Print(m->json);

    ck_ok(infq_st_layout_new(&l, &err), err);
    for (int i = 0; i < m->n; i++)
        if (m->t[i].name[0])
            ck_ok(infq_st_layout_add(l, m->t[i].name, INFQ_DTYPE_F32, m->t[i].n_dims, m->t[i].shape, &err), err);
    ck_ok(infq_st_layout_seal(l, &err), err);
    infq_buf_init(&file);
    infq_buf_add(&file, infq_st_layout_header(l)->data, infq_st_layout_header(l)->n);
    for (size_t k = 0; k < infq_st_layout_count(l); k++) {
        const infq_st_tensor *t = infq_st_layout_get(l, k);
        for (int i = 0; i < m->n; i++)
            if (strcmp(m->t[i].name, t->name) == 0)
                infq_buf_add(&file, m->t[i].data, (size_t)t->n_bytes);
    }
    ck_ok(infq_buf_status(&file, &err), err);
    tiny_put(dir, "model.safetensors", file.data, file.n);
    tiny_put(dir, "config.json", config, strlen(config));
    infq_buf_deinit(&file);
    infq_st_layout_free(l);
    cJSON_free(config);
}

static inline void tiny_free(tiny_model *m)
{
    for (int i = 0; i < m->n; i++)
        infq_mem_free(m->t[i].data);
    cJSON_Delete(m->json);
    memset(m, 0, sizeof(*m));
}

#endif
