#include "lib/format/module.h"

#include <stdio.h>
#include <string.h>

#include "lib/base/cursor.h"
#include "lib/base/str.h"

static const char *const role_names[] = {
    [INFQ_ROLE_Q] = "q",         [INFQ_ROLE_K] = "k",       [INFQ_ROLE_V] = "v",
    [INFQ_ROLE_QKV] = "qkv",     [INFQ_ROLE_O] = "o",       [INFQ_ROLE_GATE] = "gate",
    [INFQ_ROLE_UP] = "up",       [INFQ_ROLE_GATE_UP] = "gate_up", [INFQ_ROLE_DOWN] = "down",
    [INFQ_ROLE_FC] = "fc",       [INFQ_ROLE_EMBED] = "embed", [INFQ_ROLE_HEAD] = "head",
    [INFQ_ROLE_ROUTER] = "router", [INFQ_ROLE_OTHER] = "other",
};

const char *infq_role_name(infq_role r)
{
    return role_names[r];
}

// Last component of a module name, and the one before it when that matters ("" matches any).
static const struct {
    const char *last, *parent;
    infq_role role;
} role_table[] = {
    {"q_proj", "", INFQ_ROLE_Q},
    {"to_q", "", INFQ_ROLE_Q},
    {"wq", "", INFQ_ROLE_Q},
    {"k_proj", "", INFQ_ROLE_K},
    {"to_k", "", INFQ_ROLE_K},
    {"wk", "", INFQ_ROLE_K},
    {"v_proj", "", INFQ_ROLE_V},
    {"to_v", "", INFQ_ROLE_V},
    {"wv", "", INFQ_ROLE_V},
    {"qkv_proj", "", INFQ_ROLE_QKV},
    {"c_attn", "", INFQ_ROLE_QKV},
    {"query_key_value", "", INFQ_ROLE_QKV},
    {"o_proj", "", INFQ_ROLE_O},
    {"out_proj", "", INFQ_ROLE_O},
    {"wo", "", INFQ_ROLE_O},
    {"c_proj", "attn", INFQ_ROLE_O},
    {"dense", "attention", INFQ_ROLE_O},
    {"dense", "self_attention", INFQ_ROLE_O},
    {"gate_proj", "", INFQ_ROLE_GATE},
    {"w1", "", INFQ_ROLE_GATE},
    {"up_proj", "", INFQ_ROLE_UP},
    {"w3", "", INFQ_ROLE_UP},
    {"gate_up_proj", "", INFQ_ROLE_GATE_UP},
    {"down_proj", "", INFQ_ROLE_DOWN},
    {"w2", "", INFQ_ROLE_DOWN},
    {"fc2", "", INFQ_ROLE_DOWN},
    {"c_proj", "mlp", INFQ_ROLE_DOWN},
    {"dense_4h_to_h", "", INFQ_ROLE_DOWN},
    {"fc1", "", INFQ_ROLE_FC},
    {"c_fc", "", INFQ_ROLE_FC},
    {"dense_h_to_4h", "", INFQ_ROLE_FC},
    {"embed_tokens", "", INFQ_ROLE_EMBED},
    {"wte", "", INFQ_ROLE_EMBED},
    {"wpe", "", INFQ_ROLE_EMBED},
    {"tok_embeddings", "", INFQ_ROLE_EMBED},
    {"word_embeddings", "", INFQ_ROLE_EMBED},
    {"embed_positions", "", INFQ_ROLE_EMBED},
    {"position_embeddings", "", INFQ_ROLE_EMBED},
    {"embed_in", "", INFQ_ROLE_EMBED},
    {"relative_attention_bias", "", INFQ_ROLE_EMBED},
    {"lm_head", "", INFQ_ROLE_HEAD},
    {"embed_out", "", INFQ_ROLE_HEAD},
    {"gate", "mlp", INFQ_ROLE_ROUTER},
    {"gate", "block_sparse_moe", INFQ_ROLE_ROUTER},
    {"gate", "feed_forward", INFQ_ROLE_ROUTER},
    {"gate", "moe", INFQ_ROLE_ROUTER},
    {"gate", "ffn", INFQ_ROLE_ROUTER},
    {"router", "", INFQ_ROLE_ROUTER},
    {"proj", "router", INFQ_ROLE_ROUTER},
    {"layer", "router", INFQ_ROLE_ROUTER},
    {"classifier", "router", INFQ_ROLE_ROUTER},
    {"shared_expert_gate", "", INFQ_ROLE_ROUTER},
};

// Branches that engines load apart from the language model; left as they are.
static const char *const apart[] = {"mtp", "visual", "vision_tower", "vision_model", "vision_embed_tokens",
                                    "multi_modal_projector", "mm_projector", "audio_tower"};

// The component of name that ends at end: its start; *n its length.
static const char *component_before(const char *name, const char *end, size_t *n)
{
    const char *p = end;

    while (p > name && p[-1] != '.')
        p--;
    *n = (size_t)(end - p);
    return p;
}

static bool same(const char *p, size_t n, const char *word)
{
    return strlen(word) == n && memcmp(p, word, n) == 0;
}

infq_role infq_role_of(const char *module)
{
    size_t n, m = 0;
    const char *last = component_before(module, module + strlen(module), &n);
    const char *parent = last > module ? component_before(module, last - 1, &m) : last;

    for (size_t i = 0; i < sizeof(role_table) / sizeof(role_table[0]); i++)
        if (same(last, n, role_table[i].last) && (!*role_table[i].parent || same(parent, m, role_table[i].parent)))
            return role_table[i].role;
    return INFQ_ROLE_OTHER;
}

bool infq_config_ties_head(const cJSON *config)
{
    const cJSON *text = infq_json_get(config, "text_config"), *tie = infq_json_get(config, "tie_word_embeddings");
    const cJSON *type = infq_json_get(text ? text : config, "model_type");
    const char *name = cJSON_IsString(type) ? type->valuestring : "";

    if (!tie)
        tie = infq_json_get(text, "tie_word_embeddings");
    if (cJSON_IsBool(tie))
        return cJSON_IsTrue(tie);
    return infq_str_starts(name, "gemma") || strcmp(name, "gpt2") == 0 || strcmp(name, "smollm3") == 0;
}

// Number of the component that follows one of the given words, -1 if there is none.
static int number_after(const char *name, const char *const *words)
{
    for (const char *p = name; p;) {
        const char *dot = strchr(p, '.');
        if (!dot)
            return -1;
        for (const char *const *w = words; *w; w++)
            if (same(p, (size_t)(dot - p), *w) && dot[1] >= '0' && dot[1] <= '9') {
                int64_t v = 0;
                const char *q = dot + 1;
                while (*q >= '0' && *q <= '9' && v < 1000000)
                    v = 10 * v + (*q++ - '0');
                if ((*q == '.' || !*q) && v < 1000000)
                    return (int)v;
            }
        p = dot + 1;
    }
    return -1;
}

static bool stands_apart(const char *name)
{
    for (const char *p = name; p;) {
        const char *dot = strchr(p, '.');
        size_t n = dot ? (size_t)(dot - p) : strlen(p);
        for (size_t i = 0; i < sizeof(apart) / sizeof(apart[0]); i++)
            if (same(p, n, apart[i]))
                return true;
        p = dot ? dot + 1 : NULL;
    }
    return false;
}

struct infq_modules {
    infq_arena *arena;
    infq_module *v;
    size_t n;
    infq_map *by_name;
};

void infq_modules_free(infq_modules *m)
{
    if (!m)
        return;
    infq_map_free(m->by_name);
    infq_arena_free(m->arena);
    infq_mem_free(m);
}

size_t infq_modules_count(const infq_modules *m)
{
    return m->n;
}

const infq_module *infq_modules_get(const infq_modules *m, size_t i)
{
    return &m->v[i];
}

const infq_module *infq_modules_by_name(const infq_modules *m, const char *name)
{
    int64_t i = infq_map_get(m->by_name, name, strlen(name));

    return i < 0 ? NULL : &m->v[i];
}

static bool by_rule(const infq_module *m)
{
    const char *dot = strrchr(m->name, '.'), *last = dot ? dot + 1 : m->name;

    if (m->role == INFQ_ROLE_EMBED || m->role == INFQ_ROLE_HEAD || m->role == INFQ_ROLE_ROUTER || m->n_rows == 0 ||
        m->n_cols == 0 || stands_apart(m->name))
        return false;
    return m->role != INFQ_ROLE_OTHER || (m->layer >= 0 && strstr(last, "proj"));
}

// Dimensions of a packed matrix: weight_shape for 32-bit words, twice the bytes for 4-bit floats.
static infq_status packed_dims(const infq_checkpoint *ck, const infq_ck_tensor *t, const char *module, infq_module *m,
                               infq_err *err)
{
    char name[512];
    const infq_ck_tensor *shape;
    const uint8_t *p;
    uint64_t rows, cols;

    if (t->dtype == INFQ_DTYPE_U8) {
        m->n_rows = t->shape[0];
        m->n_cols = 2 * t->shape[1];
        return INFQ_E_OK;
    }
    snprintf(name, sizeof(name), "%s.weight_shape", module);
    shape = infq_checkpoint_find(ck, name);
    if (!shape || shape->dtype != INFQ_DTYPE_I64 || shape->n_elems != 2)
        return infq_err_set(err, INFQ_E_FORMAT, "%s: needs weight_shape, two I64", module);
    p = infq_checkpoint_data(ck, shape);
    rows = infq_load_u64le(p);
    cols = infq_load_u64le(p + 8);
    if (rows != (uint64_t)t->shape[0] || cols > (uint64_t)1 << 40 || cols < (uint64_t)t->shape[1])
        return infq_err_set(err, INFQ_E_FORMAT, "%s: weight_shape does not fit weight_packed", module);
    m->n_rows = (int64_t)rows;
    m->n_cols = (int64_t)cols;
    return INFQ_E_OK;
}

// Length of the module name when t is a module's matrix, 0 otherwise.
static size_t module_length(const infq_ck_tensor *t, bool *packed)
{
    size_t n = strlen(t->name);

    *packed = infq_str_ends(t->name, ".weight_packed");
    if (t->n_dims != 2)
        return 0;
    if (*packed)
        return n - strlen(".weight_packed");
    if (infq_str_ends(t->name, ".weight"))
        return n - strlen(".weight");
    return 0;
}

static const char *const layer_words[] = {"layers", "layer", "h", "blocks", "block", NULL};
static const char *const expert_words[] = {"experts", NULL};

static infq_status describe(const infq_checkpoint *ck, infq_modules *ms, size_t i, size_t n_name, bool packed,
                            infq_err *err)
{
    const infq_ck_tensor *t = infq_checkpoint_get(ck, i);
    infq_module *m = &ms->v[ms->n];
    void *p;
    char *name;

    INFQ_TRY(infq_arena_alloc(ms->arena, n_name + 1, 1, "module name", &p, err));
    name = p;
    memcpy(name, t->name, n_name);
    name[n_name] = '\0';
    *m = (infq_module){.name = name, .role = infq_role_of(name), .layer = number_after(name, layer_words),
                       .expert = number_after(name, expert_words), .fused = -1, .n_rows = t->shape[0],
                       .n_cols = t->shape[1], .tensor = i};
    // A head called "output" is a head outside the blocks only.
    if (m->role == INFQ_ROLE_OTHER && m->layer < 0 && strcmp(name, "output") == 0)
        m->role = INFQ_ROLE_HEAD;
    if (packed)
        INFQ_TRY(packed_dims(ck, t, name, m, err));
    if (infq_map_put(ms->by_name, name, n_name, (int64_t)ms->n) == -2)
        return infq_err_set(err, INFQ_E_NOMEM, "module table");
    ms->n++;
    return INFQ_E_OK;
}

// Ids of fused groups: same parent, q/k/v or gate/up. Groups of one are none.
static infq_status fuse(infq_modules *ms, infq_err *err)
{
    infq_map *first = NULL;
    infq_status st = infq_map_new(ms->n + 1, &first, err);

    for (size_t i = 0; !st && i < ms->n; i++) {
        infq_module *m = &ms->v[i];
        bool attn = m->role == INFQ_ROLE_Q || m->role == INFQ_ROLE_K || m->role == INFQ_ROLE_V;
        const char *dot = strrchr(m->name, '.');
        size_t n = dot ? (size_t)(dot - m->name) : 0;
        int64_t at;
        void *key;

        if (!attn && m->role != INFQ_ROLE_GATE && m->role != INFQ_ROLE_UP)
            continue;
        st = infq_arena_alloc(ms->arena, n + 2, 1, "fused group", &key, err);
        if (st)
            break;
        memcpy(key, m->name, n);
        ((char *)key)[n] = attn ? 'a' : 'm';
        ((char *)key)[n + 1] = '\0';
        at = infq_map_put(first, key, n + 1, (int64_t)i);
        if (at == -2)
            st = infq_err_set(err, INFQ_E_NOMEM, "fused groups");
        else if (at >= 0) {
            ms->v[at].fused = (int)at;
            m->fused = (int)at;
        }
    }
    infq_map_free(first);
    return st;
}

// GPT-2 stores four matrices transposed; others use the same names for plain linear layers.
static void mark_conv1d(const infq_checkpoint *ck, infq_modules *ms)
{
    const cJSON *config = infq_checkpoint_config(ck);
    const cJSON *type = config ? infq_json_get(config, "model_type") : NULL;
    bool conv = false;

    if (cJSON_IsString(type))
        conv = strcmp(type->valuestring, "gpt2") == 0 || strcmp(type->valuestring, "openai-gpt") == 0;
    else
        for (size_t i = 0; i < ms->n && !conv; i++)
            conv = infq_str_ends(ms->v[i].name, ".c_attn") && ms->v[i].n_cols == 3 * ms->v[i].n_rows;
    for (size_t i = 0; conv && i < ms->n; i++) {
        const char *name = ms->v[i].name;
        ms->v[i].conv1d = infq_str_ends(name, ".c_attn") || infq_str_ends(name, ".c_proj") || infq_str_ends(name, ".c_fc");
    }
}

static void mark_targets(infq_modules *ms)
{
    bool any = false;

    for (size_t i = 0; i < ms->n; i++)
        any |= ms->v[i].target = by_rule(&ms->v[i]);
    for (size_t i = 0; !any && i < ms->n; i++) {
        infq_module *m = &ms->v[i];
        m->target = m->role == INFQ_ROLE_OTHER && m->n_rows > 0 && m->n_cols > 0 && !stands_apart(m->name);
    }
}

infq_status infq_modules_find(const infq_checkpoint *ck, infq_modules **out, infq_err *err)
{
    infq_modules *ms = NULL;
    size_t n = infq_checkpoint_count(ck), n_modules = 0;
    infq_status st;
    bool packed;
    void *p;

    for (size_t i = 0; i < n; i++)
        n_modules += module_length(infq_checkpoint_get(ck, i), &packed) > 0;
    INFQ_TRY(infq_mem_new(1, sizeof(*ms), "modules", &p, err));
    ms = p;
    *ms = (infq_modules){0};
    st = infq_arena_new((size_t)64 << 10, &ms->arena, err);
    if (!st)
        st = infq_arena_calloc(ms->arena, n_modules + 1, sizeof(*ms->v), "modules", &p, err);
    if (!st) {
        ms->v = p;
        st = infq_map_new(n_modules + 1, &ms->by_name, err);
    }
    for (size_t i = 0; !st && i < n; i++) {
        size_t len = module_length(infq_checkpoint_get(ck, i), &packed);
        if (len)
            st = describe(ck, ms, i, len, packed, err);
    }
    if (!st)
        st = fuse(ms, err);
    if (st) {
        infq_modules_free(ms);
        return st;
    }
    mark_conv1d(ck, ms);
    mark_targets(ms);
    *out = ms;
    return INFQ_E_OK;
}
