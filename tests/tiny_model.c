#include "tests/tiny_model.h"

#include "lib/format/module.h"
#include "lib/io/folder.h"

tiny_tensor *tiny_add(tiny_model *m, const char *name, int64_t rows, int64_t cols, infq_rng *rng, double mean, double sd)
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

static int64_t number(const tiny_model *m, const char *key, int64_t dflt)
{
    infq_err err;
    int64_t v;

    ck_ok(infq_json_i64(m->json, key, dflt, &v, &err), err);
    return v;
}

static bool is_type(const tiny_model *m, const char *type)
{
    return strcmp(infq_json_get(m->json, "model_type")->valuestring, type) == 0;
}

static void llama_layer(tiny_model *m, int layer, infq_rng *rng)
{
    int64_t h = number(m, "hidden_size", 0), heads = number(m, "num_attention_heads", 1),
            kv = number(m, "num_key_value_heads", heads), d = number(m, "head_dim", h / heads),
            f = number(m, "intermediate_size", 0);
    bool bias = cJSON_IsTrue(infq_json_get(m->json, "attention_bias"));
    const struct {
        const char *part;
        int64_t rows, cols;
    } parts[] = { { "self_attn.q_proj", heads * d, h }, { "self_attn.k_proj", kv * d, h }, { "self_attn.v_proj", kv * d, h },
                  { "self_attn.o_proj", h, heads * d }, { "mlp.gate_proj", f, h },         { "mlp.up_proj", f, h },
                  { "mlp.down_proj", h, f } };
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
        if (is_type(m, "qwen3"))
            tiny_add(m, name, d, 0, rng, 1, 0.2);
    }
}

static void gpt2(tiny_model *m, infq_rng *rng)
{
    int64_t h = number(m, "n_embd", 0), layers = number(m, "n_layer", 0);
    const struct {
        const char *part;
        int64_t rows, cols; /* Conv1D: [in, out] */
    } parts[] = { { "attn.c_attn", h, 3 * h }, { "attn.c_proj", h, h }, { "mlp.c_fc", h, 4 * h }, { "mlp.c_proj", 4 * h, h } };
    char name[128];

    tiny_add(m, "transformer.wte.weight", number(m, "vocab_size", 0), h, rng, 0, 0.5);
    tiny_add(m, "transformer.wpe.weight", number(m, "n_positions", 0), h, rng, 0, 0.3);
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

void tiny_make(tiny_model *m, const char *config, uint64_t seed)
{
    infq_rng rng = infq_rng_seed(seed);
    int64_t vocab, h;
    infq_err err;

    memset(m, 0, sizeof(*m));
    ck_ok(infq_json_parse(config, strlen(config), "config", &m->json, &err), err);
    if (is_type(m, "gpt2")) {
        gpt2(m, &rng);
        return;
    }
    vocab = number(m, "vocab_size", 0);
    h = number(m, "hidden_size", 0);
    tiny_add(m, "model.embed_tokens.weight", vocab, h, &rng, 0, 0.6);
    for (int l = 0; l < number(m, "num_hidden_layers", 0); l++)
        llama_layer(m, l, &rng);
    tiny_add(m, "model.norm.weight", h, 0, &rng, 1, 0.2);
    if (!infq_config_ties_head(m->json))
        tiny_add(m, "lm_head.weight", vocab, h, &rng, 0, 0.6);
}

tiny_tensor *tiny_find(tiny_model *m, const char *name)
{
    for (int i = 0; i < m->n; i++)
        if (strcmp(m->t[i].name, name) == 0)
            return &m->t[i];
    ck_abort_msg("the model has no %s", name);
    return NULL;
}

void tiny_free(tiny_model *m)
{
    for (int i = 0; i < m->n; i++)
        infq_mem_free(m->t[i].data);
    cJSON_Delete(m->json);
    memset(m, 0, sizeof(*m));
}

void tiny_put(const char *dir, const char *name, const void *p, size_t n)
{
    TINY_PATH(path, dir, name);
    infq_err err;

    ck_ok(infq_file_write_atomic(path, p, n, true, &err), err);
}

static void save_tensor(const tiny_tensor *t, infq_dtype dtype, infq_folder *f)
{
    size_t n_bytes = (size_t)t->n * (size_t)infq_dtype_bits(dtype) / 8;
    void *bytes = infq_mem_alloc(n_bytes);
    infq_err err;

    ck_assert_ptr_nonnull(bytes);
    ck_ok(infq_dtype_from_f32(dtype, t->data, t->n, bytes, &err), err);
    ck_ok(infq_folder_write(f, t->name, 0, bytes, n_bytes, &err), err);
    infq_mem_free(bytes);
}

void tiny_save(const tiny_model *m, const char *path, tiny_file how)
{
    infq_folder_options fo = { .path = path, .bare = how.bare, .force = true, .shard_bytes = how.shard_bytes,
                               .fingerprint = "tiny" };
    infq_folder *f;
    infq_err err;

    ck_ok(infq_folder_begin(&fo, &f, &err), err);
    for (int i = 0; i < m->n; i++)
        if (m->t[i].name[0])
            ck_ok(infq_folder_declare(f, m->t[i].name, how.dtype, m->t[i].n_dims, m->t[i].shape, &err), err);
    ck_ok(infq_folder_seal(f, &err), err);
    for (int i = 0; i < m->n; i++)
        if (m->t[i].name[0])
            save_tensor(&m->t[i], how.dtype, f);
    for (size_t s = 0; s < infq_folder_shard_count(f); s++)
        ck_ok(infq_folder_shard_done(f, s, &err), err);
    if (!how.bare) {
        char *printed = m->text ? NULL : cJSON_Print(m->json);
        const char *text = m->text ? m->text : printed;
        ck_ok(infq_folder_put(f, "config.json", text, strlen(text), &err), err);
        ck_ok(infq_folder_put(f, "tokenizer.json", "{\"odd\":\t1}", 10, &err), err);
        cJSON_free(printed);
    }
    ck_ok(infq_folder_commit(f, &err), err);
}

void tiny_write(const char *path, tiny_options o)
{
    infq_rng rng = infq_rng_seed(100);
    char config[400];
    tiny_model m;

    snprintf(config, sizeof(config),
             "{\n  \"model_type\": \"%s\",\n  \"zeta\": [1, 2.50],\n  \"hidden_size\": 128,\n  \"num_hidden_layers\": 2,\n"
             "  \"num_attention_heads\": 4,\n  \"num_key_value_heads\": 2,\n  \"intermediate_size\": %lld,\n"
             "  \"vocab_size\": 64%s\n}\n",
             o.model_type ? o.model_type : "llama", (long long)o.ffn, o.tied ? ",\n  \"tie_word_embeddings\": true" : "");
    tiny_make(&m, config, 7);
    m.text = config;
    if (o.head_equal) {
        tiny_tensor *embed = tiny_find(&m, "model.embed_tokens.weight");
        memcpy(tiny_add(&m, "lm_head.weight", embed->shape[0], embed->shape[1], &rng, 0, 1)->data, embed->data,
               (size_t)embed->n * sizeof(float));
    }
    if (o.extra) {
        char name[96];
        snprintf(name, sizeof(name), "%s.weight", o.extra);
        tiny_add(&m, name, 128, 128, &rng, 0, 0.05);
    }
    if (o.zero_tensor) {
        tiny_tensor *t = tiny_find(&m, o.zero_tensor);
        memset(t->data, 0, (size_t)t->n * sizeof(float));
    }
    if (o.bad_tensor) {
        tiny_tensor *t = tiny_find(&m, o.bad_tensor);
        t->data[3 * t->shape[1] + 5] = o.bad_value;
    }
    tiny_save(&m, path, o.file);
    tiny_free(&m);
}

infq_buf tiny_read(const char *path)
{
    infq_buf b;
    infq_err err;

    infq_buf_init(&b);
    ck_ok(infq_file_read(path, (size_t)1 << 30, &b, &err), err);
    return b;
}

void tiny_same_file(const char *dir_a, const char *dir_b, const char *name)
{
    TINY_PATH(a, dir_a, name);
    TINY_PATH(b, dir_b, name);
    infq_buf x = tiny_read(a), y = tiny_read(b);

    ck_assert_msg(x.n == y.n && memcmp(x.data, y.data, x.n) == 0, "%s (%zu bytes) and %s (%zu bytes) differ", a, x.n, b, y.n);
    infq_buf_deinit(&x);
    infq_buf_deinit(&y);
}

void tiny_calib(infq_calib *c)
{
    infq_rng rng = infq_rng_seed(5);
    int32_t ids[6 * 24];
    infq_err err;

    for (int i = 0; i < 6 * 24; i++)
        ids[i] = (int32_t)infq_rng_below(&rng, 64);
    ck_ok(infq_calib_from_ids(ids, 6 * 24, 24, 6, "test", NULL, c, &err), err);
}
