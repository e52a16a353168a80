#include "lib/model/config.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "lib/model/arch_int.h"

static infq_status find_arch(const cJSON *j, infq_config *c, infq_err *err)
{
    const char *type, *cls = NULL;
    const cJSON *list = infq_json_get(j, "architectures");
    char known[160] = "";
    size_t n = 0;

    INFQ_TRY(infq_json_str(j, "model_type", NULL, &type, err));
    if (list && cJSON_IsArray(list) && cJSON_IsString(cJSON_GetArrayItem(list, 0)))
        cls = cJSON_GetArrayItem(list, 0)->valuestring;
    c->arch = infq_arch_find(type, cls);
    if (c->arch) {
        snprintf(c->model_type, sizeof(c->model_type), "%s", c->arch->model_type);
        return INFQ_E_OK;
    }
    if (!type && !cls)
        return infq_err_set(err, INFQ_E_FORMAT, "neither model_type nor architectures is given");
    for (size_t i = 0; i < infq_arch_count() && n < sizeof(known); i++)
        n += (size_t)snprintf(known + n, sizeof(known) - n, "%s%s", i ? ", " : "", infq_arch_get(i)->model_type);
    return infq_err_set(err, INFQ_E_UNSUPPORTED, "architecture %s is not known to the engine (it runs %s)",
                        type ? type : cls, known);
}

// A dimension: a whole number from 1 to 2^31 - 1. key NULL gives the default.
static infq_status dimension(const cJSON *j, const char *key, int64_t dflt, int64_t *out, infq_err *err)
{
    int64_t v = dflt;

    if (key)
        INFQ_TRY(infq_json_i64(j, key, dflt, &v, err));
    if (v < 1 || v > INT32_MAX)
        return infq_err_set(err, INFQ_E_FORMAT, "%s is %lld, a number from 1 to 2147483647 is wanted",
                            key ? key : "a dimension", (long long)v);
    *out = v;
    return INFQ_E_OK;
}

static infq_status read_sizes(const cJSON *j, infq_config *c, infq_err *err)
{
    const infq_arch *a = c->arch;
    const infq_arch_keys *k = a->keys;
    bool derived = !a->head_dim && (!k->head_dim || !infq_json_get(j, k->head_dim));
    int64_t kv_dflt;

    INFQ_TRY(dimension(j, k->hidden, a->hidden, &c->hidden, err));
    INFQ_TRY(dimension(j, k->n_layers, a->n_layers, &c->n_layers, err));
    INFQ_TRY(dimension(j, k->n_heads, a->n_heads, &c->n_heads, err));
    // An absent key means the class default, a null one as many as there are query heads.
    kv_dflt = a->n_kv_heads && k->n_kv_heads && !cJSON_GetObjectItemCaseSensitive(j, k->n_kv_heads) ? a->n_kv_heads
                                                                                                   : c->n_heads;
    INFQ_TRY(dimension(j, k->n_kv_heads, kv_dflt, &c->n_kv_heads, err));
    INFQ_TRY(dimension(j, k->ffn, a->ffn ? a->ffn : 4 * c->hidden, &c->ffn, err));
    INFQ_TRY(dimension(j, "vocab_size", a->vocab, &c->vocab, err));
    INFQ_TRY(dimension(j, k->max_positions, a->max_positions, &c->max_positions, err));
    if (c->n_layers > INFQ_MAX_LAYERS)
        return infq_err_set(err, INFQ_E_UNSUPPORTED, "%s is %lld, at most %d are supported", k->n_layers,
                            (long long)c->n_layers, INFQ_MAX_LAYERS);
    if (derived && c->hidden % c->n_heads)
        return infq_err_set(err, INFQ_E_FORMAT, "%s %lld is no multiple of %s %lld and no head size is given", k->hidden,
                            (long long)c->hidden, k->n_heads, (long long)c->n_heads);
    INFQ_TRY(dimension(j, k->head_dim, derived ? c->hidden / c->n_heads : a->head_dim, &c->head_dim, err));
    if (c->n_heads % c->n_kv_heads)
        return infq_err_set(err, INFQ_E_FORMAT, "%lld attention heads cannot share %lld key/value heads",
                            (long long)c->n_heads, (long long)c->n_kv_heads);
    if (c->n_heads > INT32_MAX / c->head_dim)
        return infq_err_set(err, INFQ_E_FORMAT, "%lld heads of %lld are too wide", (long long)c->n_heads,
                            (long long)c->head_dim);
    return INFQ_E_OK;
}

static infq_status read_act(const cJSON *j, infq_config *c, infq_err *err)
{
    static const struct {
        const char *name;
        infq_fn fn;
    } known[] = { { "silu", INFQ_FN_SILU },          { "swish", INFQ_FN_SILU },
                  { "gelu", INFQ_FN_GELU },          { "gelu_new", INFQ_FN_GELU_TANH },
                  { "gelu_pytorch_tanh", INFQ_FN_GELU_TANH }, { "relu", INFQ_FN_RELU } };
    const char *name;

    INFQ_TRY(infq_json_str(j, c->arch->keys->act, c->arch->act, &name, err));
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
        if (strcmp(known[i].name, name) == 0) {
            c->act = known[i].fn;
            return INFQ_E_OK;
        }
    return infq_err_set(err, INFQ_E_UNSUPPORTED, "%s %s is not supported", c->arch->keys->act, name);
}

static infq_status read_flags(const cJSON *j, infq_config *c, infq_err *err)
{
    unsigned f = c->arch->flags;
    bool attn = false, mlp = false, scaled = true;

    INFQ_TRY(infq_json_f64(j, c->arch->keys->norm_eps, c->arch->norm_eps, &c->norm_eps, err));
    if (!(c->norm_eps >= 0.0 && c->norm_eps < 1.0))
        return infq_err_set(err, INFQ_E_FORMAT, "%s is %g", c->arch->keys->norm_eps, c->norm_eps);
    INFQ_TRY(infq_json_bool(j, "tie_word_embeddings", c->arch->tied, &c->tied, err));
    if (f & INFQ_ARCH_KEY_ATTN_BIAS)
        INFQ_TRY(infq_json_bool(j, "attention_bias", false, &attn, err));
    if (f & INFQ_ARCH_KEY_MLP_BIAS)
        INFQ_TRY(infq_json_bool(j, "mlp_bias", false, &mlp, err));
    c->qkv_bias = attn || (f & INFQ_ARCH_QKV_BIAS);
    c->o_bias = attn || (f & INFQ_ARCH_O_BIAS);
    c->mlp_bias = mlp || (f & INFQ_ARCH_MLP_BIAS);
    c->qk_norm = (f & INFQ_ARCH_QK_NORM) != 0;
    if (f & INFQ_ARCH_GPT2_SCALE) {
        INFQ_TRY(infq_json_bool(j, "scale_attn_weights", true, &scaled, err));
        INFQ_TRY(infq_json_bool(j, "scale_attn_by_inverse_layer_idx", false, &c->attn_scale_by_layer, err));
    }
    c->attn_scale = scaled ? 1.0 / sqrt((double)c->head_dim) : 1.0;
    return INFQ_E_OK;
}

static infq_status read_nope(const cJSON *j, infq_config *c, infq_err *err)
{
    const cJSON *list = infq_json_get(j, "no_rope_layers");
    int64_t every = 4;

    if (!(c->arch->flags & INFQ_ARCH_NOPE_LAYERS))
        return INFQ_E_OK;
    INFQ_TRY(dimension(j, "no_rope_layer_interval", 4, &every, err));
    if (list && (!cJSON_IsArray(list) || cJSON_GetArraySize(list) < c->n_layers))
        return infq_err_set(err, INFQ_E_FORMAT, "no_rope_layers is no list of %lld numbers", (long long)c->n_layers);
    for (int64_t i = 0; i < c->n_layers; i++) {
        const cJSON *e = list ? cJSON_GetArrayItem(list, (int)i) : NULL;
        c->no_rope[i] = list ? cJSON_IsNumber(e) && e->valuedouble == 0.0 : (i + 1) % every == 0;
    }
    return INFQ_E_OK;
}

// "layer_types" overrides the rule; *found tells whether it is there.
static infq_status read_layer_types(const cJSON *j, int64_t window, infq_config *c, bool *found, infq_err *err)
{
    const cJSON *list = infq_json_get(j, "layer_types");

    *found = list != NULL;
    if (list && (!cJSON_IsArray(list) || cJSON_GetArraySize(list) < c->n_layers))
        return infq_err_set(err, INFQ_E_FORMAT, "layer_types is no list of %lld names", (long long)c->n_layers);
    for (int64_t i = 0; list && i < c->n_layers; i++) {
        const cJSON *e = cJSON_GetArrayItem(list, (int)i);
        const char *name = cJSON_IsString(e) ? e->valuestring : "(no text)";

        if (strcmp(name, "sliding_attention") == 0)
            c->window[i] = window;
        else if (strcmp(name, "full_attention") != 0)
            return infq_err_set(err, INFQ_E_UNSUPPORTED, "layer_types has %s in layer %lld", name, (long long)i);
    }
    return INFQ_E_OK;
}

static infq_status read_window(const cJSON *j, infq_config *c, infq_err *err)
{
    infq_window_rule rule = c->arch->window;
    bool absent = !cJSON_GetObjectItemCaseSensitive(j, "sliding_window"), on = true, found = false;
    int64_t window, from;

    if (rule == INFQ_WINDOW_NONE)
        return INFQ_E_OK;
    if (rule != INFQ_WINDOW_ALL)
        INFQ_TRY(infq_json_bool(j, "use_sliding_window", false, &on, err));
    INFQ_TRY(infq_json_i64(j, "sliding_window", absent && on && rule != INFQ_WINDOW_NOPE ? 4096 : 0, &window, err));
    INFQ_TRY(infq_json_i64(j, "max_window_layers", 28, &from, err));
    if (window < 0)
        return infq_err_set(err, INFQ_E_FORMAT, "sliding_window is %lld", (long long)window);
    if (!on || window == 0)
        return INFQ_E_OK;
    if (rule != INFQ_WINDOW_ALL)
        INFQ_TRY(read_layer_types(j, window, c, &found, err));
    for (int64_t i = 0; !found && i < c->n_layers; i++)
        if (rule == INFQ_WINDOW_ALL || (rule == INFQ_WINDOW_UPPER && i >= from) ||
            (rule == INFQ_WINDOW_NOPE && c->no_rope[i]))
            c->window[i] = window;
    return INFQ_E_OK;
}

static infq_status rope_kind(const char *name, infq_rope_type *out, infq_err *err)
{
    static const struct {
        const char *name;
        infq_rope_type type;
    } known[] = { { "default", INFQ_ROPE_DEFAULT }, { "linear", INFQ_ROPE_LINEAR },     { "dynamic", INFQ_ROPE_DYNAMIC },
                  { "yarn", INFQ_ROPE_YARN },       { "longrope", INFQ_ROPE_LONGROPE }, { "su", INFQ_ROPE_LONGROPE },
                  { "llama3", INFQ_ROPE_LLAMA3 } };

    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
        if (strcmp(known[i].name, name) == 0) {
            *out = known[i].type;
            return INFQ_E_OK;
        }
    return infq_err_set(err, INFQ_E_UNSUPPORTED, "rope type %s is not supported", name);
}

static infq_status rope_factors(const cJSON *p, const char *key, int64_t n, double *out, infq_err *err)
{
    const cJSON *list = infq_json_get(p, key);

    if (!list || !cJSON_IsArray(list) || cJSON_GetArraySize(list) != n)
        return infq_err_set(err, INFQ_E_FORMAT, "%s is no list of %lld numbers", key, (long long)n);
    for (int64_t i = 0; i < n; i++) {
        const cJSON *e = cJSON_GetArrayItem(list, (int)i);
        if (!cJSON_IsNumber(e) || !(e->valuedouble > 0.0))
            return infq_err_set(err, INFQ_E_FORMAT, "%s has an entry that is no positive number", key);
        out[i] = e->valuedouble;
    }
    return INFQ_E_OK;
}

// Members that only some types have. p: the object that names the type; j: the whole configuration.
static infq_status rope_scaling(const cJSON *p, infq_config *c, infq_err *err)
{
    infq_rope_config *r = &c->rope;
    double dflt = r->type == INFQ_ROPE_LONGROPE ? (double)c->max_positions / (double)r->original_max_positions : -1.0;

    if (r->type == INFQ_ROPE_DEFAULT)
        return INFQ_E_OK;
    INFQ_TRY(infq_json_f64(p, "factor", dflt, &r->factor, err));
    if (!(r->factor > 0.0))
        return infq_err_set(err, INFQ_E_FORMAT, "rope scaling needs a positive factor");
    INFQ_TRY(infq_json_f64(p, "attention_factor", -1.0, &r->attention_factor, err));
    INFQ_TRY(infq_json_f64(p, "beta_fast", 32.0, &r->beta_fast, err));
    INFQ_TRY(infq_json_f64(p, "beta_slow", 1.0, &r->beta_slow, err));
    INFQ_TRY(infq_json_f64(p, "mscale", 0.0, &r->mscale, err));
    INFQ_TRY(infq_json_f64(p, "mscale_all_dim", 0.0, &r->mscale_all_dim, err));
    INFQ_TRY(infq_json_bool(p, "truncate", true, &r->truncate, err));
    INFQ_TRY(infq_json_f64(p, "low_freq_factor", 1.0, &r->low_freq_factor, err));
    INFQ_TRY(infq_json_f64(p, "high_freq_factor", 4.0, &r->high_freq_factor, err));
    if (r->type == INFQ_ROPE_YARN && !(r->beta_fast > 0.0 && r->beta_slow > 0.0))
        return infq_err_set(err, INFQ_E_FORMAT, "beta_fast and beta_slow of rope scaling must be positive");
    if (r->type == INFQ_ROPE_LLAMA3 && !(r->high_freq_factor > r->low_freq_factor))
        return infq_err_set(err, INFQ_E_FORMAT, "high_freq_factor %g is not above low_freq_factor %g",
                            r->high_freq_factor, r->low_freq_factor);
    if (r->type == INFQ_ROPE_LONGROPE) {
        INFQ_TRY(rope_factors(p, "short_factor", infq_rope_n_rot(c) / 2, r->short_factor, err));
        INFQ_TRY(rope_factors(p, "long_factor", infq_rope_n_rot(c) / 2, r->long_factor, err));
    }
    return INFQ_E_OK;
}

// rope_parameters (transformers 5) first, then rope_theta and rope_scaling (4), then the class default.
static infq_status read_rope(const cJSON *j, infq_config *c, infq_err *err)
{
    infq_rope_config *r = &c->rope;
    const cJSON *p = infq_json_get(j, "rope_parameters"), *e;
    const char *name, *key = p ? "rope_parameters" : "rope_scaling";

    if (c->arch->flags & INFQ_ARCH_NO_ROPE)
        return INFQ_E_OK;
    if (!p)
        p = infq_json_get(j, "rope_scaling");
    if (p && !cJSON_IsObject(p))
        return infq_err_set(err, INFQ_E_FORMAT, "%s is neither null nor an object", key);
    cJSON_ArrayForEach(e, p)
        if (cJSON_IsObject(e))
            return infq_err_set(err, INFQ_E_UNSUPPORTED, "%s by layer type (%s) is not supported for %s", key, e->string,
                                c->model_type);
    INFQ_TRY(infq_json_str(p, "type", "default", &name, err));
    INFQ_TRY(infq_json_str(p, "rope_type", name, &name, err));
    INFQ_TRY(rope_kind(name, &r->type, err));
    INFQ_TRY(infq_json_f64(j, "rope_theta", c->arch->rope_base, &r->base, err));
    INFQ_TRY(infq_json_f64(p, "rope_theta", r->base, &r->base, err));
    INFQ_TRY(infq_json_f64(j, "partial_rotary_factor", 1.0, &r->partial, err));
    INFQ_TRY(infq_json_f64(p, "partial_rotary_factor", r->partial, &r->partial, err));
    INFQ_TRY(dimension(p, "original_max_position_embeddings", c->max_positions, &r->original_max_positions, err));
    INFQ_TRY(dimension(j, "original_max_position_embeddings", r->original_max_positions, &r->original_max_positions, err));
    if (!(r->base > 1.0))
        return infq_err_set(err, INFQ_E_FORMAT, "rope_theta is %g", r->base);
    if (!(r->partial > 0.0 && r->partial <= 1.0) || infq_rope_n_rot(c) < 2)
        return infq_err_set(err, INFQ_E_FORMAT, "partial_rotary_factor %g of head size %lld rotates nothing", r->partial,
                            (long long)c->head_dim);
    if (infq_rope_n_rot(c) / 2 > INFQ_MAX_ROPE_PAIRS)
        return infq_err_set(err, INFQ_E_UNSUPPORTED, "head size %lld is above %d", (long long)c->head_dim,
                            2 * INFQ_MAX_ROPE_PAIRS);
    if (rope_scaling(p, c, err))
        return infq_err_in(err, "%s", key);
    return INFQ_E_OK;
}

// -1 for what cannot be an id.
static int32_t token_id(const cJSON *e)
{
    return cJSON_IsNumber(e) && e->valuedouble >= 0.0 && e->valuedouble < 2147483648.0 ? (int32_t)e->valuedouble : -1;
}

// eos_token_id: null, a number or a list. Leaves out as it was when the key is absent or null.
static infq_status read_eos(const cJSON *j, infq_config *c, infq_err *err)
{
    const cJSON *e = infq_json_get(j, "eos_token_id"), *i;
    int n = 0;

    if (!e)
        return INFQ_E_OK;
    if (cJSON_IsNumber(e)) {
        c->eos[0] = token_id(e);
        c->n_eos = 1;
        return INFQ_E_OK;
    }
    if (!cJSON_IsArray(e))
        return infq_err_set(err, INFQ_E_FORMAT, "eos_token_id is neither a number nor a list");
    cJSON_ArrayForEach(i, e) {
        if (!cJSON_IsNumber(i))
            return infq_err_set(err, INFQ_E_FORMAT, "eos_token_id holds something that is no number");
        if (n == INFQ_MAX_EOS)
            return infq_err_set(err, INFQ_E_UNSUPPORTED, "eos_token_id has more than %d entries", INFQ_MAX_EOS);
        c->eos[n++] = token_id(i);
    }
    c->n_eos = n;
    return INFQ_E_OK;
}

infq_status infq_config_parse(const cJSON *j, infq_config *out, infq_err *err)
{
    infq_config c;

    memset(&c, 0, sizeof(c));
    if (!cJSON_IsObject(j))
        return infq_err_set(err, INFQ_E_FORMAT, "no JSON object");
    INFQ_TRY(find_arch(j, &c, err));
    c.prefix = "";
    INFQ_TRY(read_sizes(j, &c, err));
    INFQ_TRY(read_act(j, &c, err));
    INFQ_TRY(read_flags(j, &c, err));
    INFQ_TRY(read_nope(j, &c, err));
    INFQ_TRY(read_window(j, &c, err));
    INFQ_TRY(read_rope(j, &c, err));
    c.bos = token_id(infq_json_get(j, "bos_token_id"));
    INFQ_TRY(read_eos(j, &c, err));
    *out = c;
    return INFQ_E_OK;
}

// The end tokens that generation stops at are those of generation_config.json where there is one.
static infq_status read_generation(const infq_checkpoint *ck, infq_config *c, infq_err *err)
{
    for (size_t i = 0; i < infq_checkpoint_side_count(ck); i++) {
        const char *name = infq_checkpoint_side_name(ck, i);
        char *path = NULL;
        cJSON *j = NULL;
        infq_status st;

        if (strcmp(name, "generation_config.json") != 0)
            continue;
        INFQ_TRY(infq_path_join(infq_checkpoint_path(ck), name, &path, err));
        st = infq_json_load(path, 1 << 20, &j, err);
        if (!st && (st = read_eos(j, c, err)))
            infq_err_in(err, "%s", path);
        cJSON_Delete(j);
        infq_mem_free(path);
        return st;
    }
    return INFQ_E_OK;
}

infq_status infq_config_read(const infq_checkpoint *ck, infq_config *out, infq_err *err)
{
    const cJSON *j = infq_checkpoint_config(ck);
    infq_config c;
    char name[256];

    if (!j)
        return infq_err_set(err, INFQ_E_NOT_FOUND,
                            "%s has no config.json: without it a model can be quantized and inspected, not run",
                            infq_checkpoint_path(ck));
    if (infq_config_parse(j, &c, err))
        return infq_err_in(err, "%s/config.json", infq_checkpoint_path(ck));
    c.prefix = c.arch->prefix;
    snprintf(name, sizeof(name), "%s%s.weight", c.prefix, c.arch->names[INFQ_SLOT_FINAL_NORM]);
    if (!infq_checkpoint_find(ck, name))
        c.prefix = "";
    INFQ_TRY(infq_arch_check(ck, &c, err));
    INFQ_TRY(read_generation(ck, &c, err));
    *out = c;
    return INFQ_E_OK;
}

bool infq_config_is_eos(const infq_config *c, int32_t id)
{
    for (int i = 0; i < c->n_eos; i++)
        if (c->eos[i] == id)
            return true;
    return false;
}
