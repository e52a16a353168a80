#include "lib/compress/engine.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void infq_findings_deinit(infq_findings *f)
{
    infq_mem_free(f->v);
    *f = (infq_findings){0};
}

infq_status infq_findings_add(infq_findings *f, bool fail, infq_err *err, const char *fmt, ...)
{
    va_list ap;

    if (f->n == f->cap) {
        size_t cap = f->cap ? 2 * f->cap : 16, bytes;
        infq_finding *v;
        if (!infq_mul_size(cap, sizeof(*v), &bytes) || !(v = infq_mem_realloc(f->v, bytes)))
            return infq_err_set(err, INFQ_E_NOMEM, "list of findings");
        f->v = v;
        f->cap = cap;
    }
    f->v[f->n].fail = fail;
    va_start(ap, fmt);
    vsnprintf(f->v[f->n].text, sizeof(f->v[f->n].text), fmt, ap);
    va_end(ap);
    f->n++;
    f->n_fail += fail;
    return INFQ_E_OK;
}

typedef enum { OUT_SPLIT, IN_SPLIT, GROUP_SPLIT, BLOCK_SPLIT, ACT_SPLIT, OUT_64, IN_128, ASYM_8, N_RULES } rule;

static const struct {
    bool fail;
    const char *text;
} rules[N_RULES] = {
    [OUT_SPLIT] = {true, "outputs do not divide by the number of devices"},
    [IN_SPLIT] = {true, "inputs do not divide by the number of devices"},
    [GROUP_SPLIT] = {true, "inputs a device are no multiple of the group size"},
    [BLOCK_SPLIT] = {true, "outputs a device are no multiple of the 128 block"},
    [ACT_SPLIT] = {true, "inputs a device are no multiple of the 128 columns that share an activation scale"},
    [OUT_64] = {true, "outputs a device are no multiple of 64, the packed kernels' least tile"},
    [IN_128] = {false, "inputs a device are no multiple of 128: the Marlin kernel does not take it, slower ones may"},
    [ASYM_8] = {true, "asymmetric 8-bit weights have no kernel"},
};

// One row a rule and role: the first module that breaks it, and how many do.
typedef struct {
    const infq_module *first;
    int64_t n, n_out, n_in;
} breach;

typedef struct {
    int64_t tp, kv_heads;
    breach b[N_RULES][INFQ_ROLE_OTHER + 1];
} check;

static void hit(check *k, rule r, const infq_module *m, int64_t n_out, int64_t n_in)
{
    breach *b = &k->b[r][m->role];

    if (!b->n++) {
        b->first = m;
        b->n_out = n_out;
        b->n_in = n_in;
    }
}

static void check_module(check *k, const infq_module *m, const infq_codec *c)
{
    bool column = m->role == INFQ_ROLE_Q || m->role == INFQ_ROLE_K || m->role == INFQ_ROLE_V || m->role == INFQ_ROLE_QKV ||
                  m->role == INFQ_ROLE_GATE || m->role == INFQ_ROLE_UP || m->role == INFQ_ROLE_GATE_UP ||
                  m->role == INFQ_ROLE_FC || m->role == INFQ_ROLE_HEAD;
    bool row = m->role == INFQ_ROLE_O || m->role == INFQ_ROLE_DOWN;
    int64_t n_out = m->n_rows, n_in = m->n_cols, parts = k->tp;
    bool packed = c->elem == INFQ_ELEM_U4 || c->elem == INFQ_ELEM_U8;

    // Engines give each device a copy of a KV head when there are fewer heads than devices.
    if ((m->role == INFQ_ROLE_K || m->role == INFQ_ROLE_V) && k->kv_heads > 0 && k->kv_heads < parts && parts % k->kv_heads == 0)
        parts = k->kv_heads;
    if (column && n_out % parts)
        hit(k, OUT_SPLIT, m, n_out, n_in);
    if (row && n_in % parts)
        hit(k, IN_SPLIT, m, n_out, n_in);
    n_out = column ? n_out / parts : n_out;
    n_in = row ? n_in / parts : n_in;
    if (c->group_rows == 1 && c->group_cols && n_in % c->group_cols)
        hit(k, GROUP_SPLIT, m, n_out, n_in);
    // Members of a fused group begin inside one matrix of blocks, on one device too.
    if (c->group_rows > 1 && column && (parts > 1 || m->fused >= 0) && n_out % c->group_rows)
        hit(k, BLOCK_SPLIT, m, n_out, n_in);
    if (c->act == INFQ_ACT_E4M3_GROUP128 && row && parts > 1 && n_in % 128)
        hit(k, ACT_SPLIT, m, n_out, n_in);
    if (packed && n_out % 64)
        hit(k, OUT_64, m, n_out, n_in);
    if (packed && n_in % 128)
        hit(k, IN_128, m, n_out, n_in);
    if (c->elem == INFQ_ELEM_U8 && c->zero != INFQ_ZERO_NONE)
        hit(k, ASYM_8, m, n_out, n_in);
}

static bool same_scheme(const infq_codec *a, const infq_codec *b)
{
    return a->elem == b->elem && a->group_rows == b->group_rows && a->group_cols == b->group_cols && a->zero == b->zero;
}

static infq_status check_fused(bool fail, const infq_modules *ms, const infq_codec *codecs, infq_findings *out, infq_err *err)
{
    int64_t n = 0;
    const infq_module *first = NULL, *other = NULL;

    for (size_t i = 0; i < infq_modules_count(ms); i++) {
        const infq_module *m = infq_modules_get(ms, i);
        if (m->fused < 0 || same_scheme(&codecs[i], &codecs[m->fused]))
            continue;
        if (!n++) {
            first = m;
            other = infq_modules_get(ms, (size_t)m->fused);
        }
    }
    if (!n)
        return INFQ_E_OK;
    return infq_findings_add(out, fail, err, "%s and %s have different schemes, but engines fuse them (%lld such)", other->name,
                             first->name, (long long)n);
}

// Activation scales of 128 columns each: loaders reshape rows to [columns / 128, 128].
static infq_status check_act_groups(bool fail, const infq_modules *ms, const infq_codec *codecs, infq_findings *out, infq_err *err)
{
    const infq_module *first = NULL;
    int64_t n = 0;

    for (size_t i = 0; i < infq_modules_count(ms); i++) {
        const infq_module *m = infq_modules_get(ms, i);
        if (codecs[i].act == INFQ_ACT_E4M3_GROUP128 && m->n_cols % 128 && !n++)
            first = m;
    }
    if (!n)
        return INFQ_E_OK;
    return infq_findings_add(out, fail, err,
                             "%s: rows of %lld are no multiple of the 128 columns that share an activation scale, so "
                             "compressed-tensors and vLLM do not run them (%lld such)",
                             first->name, (long long)first->n_cols, (long long)n);
}

infq_status infq_engine_check(const char *engine, int64_t tp, const infq_modules *ms, const infq_codec *codecs,
                              const cJSON *config, infq_findings *out, infq_err *err)
{
    const cJSON *text = config ? infq_json_get(config, "text_config") : NULL;
    check k = {.tp = tp < 1 ? 1 : tp};

    if (engine && strcmp(engine, "vllm"))
        return infq_err_set(err, INFQ_E_USAGE, "--for %s: its loader rules are not known, only those of vllm", engine);
    INFQ_TRY(check_fused(engine != NULL, ms, codecs, out, err));
    INFQ_TRY(check_act_groups(engine != NULL, ms, codecs, out, err));
    if (!engine)
        return INFQ_E_OK;
    text = text ? text : config;
    if (text && cJSON_IsNumber(infq_json_get(text, "num_key_value_heads")))
        INFQ_TRY(infq_json_i64(text, "num_key_value_heads", 0, &k.kv_heads, err));
    for (size_t i = 0; i < infq_modules_count(ms); i++)
        if (codecs[i].elem != INFQ_ELEM_NONE)
            check_module(&k, infq_modules_get(ms, i), &codecs[i]);
    if (k.kv_heads > 0 && k.kv_heads < k.tp)
        INFQ_TRY(infq_findings_add(out, k.tp % k.kv_heads != 0, err,
                                   "%lld KV heads on %lld devices: k_proj and v_proj are copied to %lld devices each%s",
                                   (long long)k.kv_heads, (long long)k.tp, (long long)(k.tp / k.kv_heads),
                                   k.tp % k.kv_heads ? ", which does not come out even" : ""));
    for (int r = 0; r < N_RULES; r++)
        for (int role = 0; role <= INFQ_ROLE_OTHER; role++) {
            const breach *b = &k.b[r][role];
            if (b->n)
                INFQ_TRY(infq_findings_add(out, rules[r].fail, err, "%s [%lld, %lld] a device with tp %lld: %s (%lld such)",
                                           b->first->name, (long long)b->n_out, (long long)b->n_in, (long long)k.tp,
                                           rules[r].text, (long long)b->n));
        }
    return INFQ_E_OK;
}
