#include <stdio.h>
#include <string.h>

#include "lib/base/str.h"
#include "lib/compress/plan_int.h"

// Names of quantized files that carry no configuration, by the suffix that gives them away.
static const char *const quantized_suffixes[] = {".weight_packed", ".weight_scale", ".weight_scale_inv", ".qweight", ".absmax"};

static const char *verb(const infq_plan *p)
{
    return infq_plan_is_dense(p) ? "prune" : "quantize";
}

static infq_status refuse_quantized(const infq_plan *p, infq_err *err)
{
    infq_reader *r;
    char name[64];

    INFQ_TRY(infq_reader_open(p->ck, &r, err));
    snprintf(name, sizeof(name), "%s", infq_reader_format(r));
    infq_reader_close(r);
    if (strcmp(name, "dense"))
        return infq_err_set(err, INFQ_E_UNSUPPORTED, "%s: is already quantized (%s); %s the original model instead",
                            infq_checkpoint_path(p->ck), name, verb(p));
    for (size_t i = 0; i < p->n; i++)
        for (size_t s = 0; s < sizeof(quantized_suffixes) / sizeof(quantized_suffixes[0]); s++)
            if (infq_str_ends(p->v[i].tensor->name, quantized_suffixes[s]))
                return infq_err_set(err, INFQ_E_UNSUPPORTED, "%s: %s shows that the model is already quantized",
                                    infq_checkpoint_path(p->ck), p->v[i].tensor->name);
    return INFQ_E_OK;
}

typedef struct {
    infq_pattern **v;
    size_t n;
} pattern_set;

static void patterns_deinit(pattern_set *s)
{
    for (size_t i = 0; s->v && i < s->n; i++)
        infq_pattern_free(s->v[i]);
    infq_mem_free(s->v);
}

static infq_status patterns_init(const char *const *text, size_t n, const char *option, pattern_set *s, infq_err *err)
{
    s->v = infq_mem_calloc(n + 1, sizeof(*s->v));
    s->n = n;
    if (!s->v)
        return infq_err_set(err, INFQ_E_NOMEM, "%s", option);
    for (size_t i = 0; i < n; i++)
        if (infq_pattern_new(text[i], &s->v[i], err))
            return infq_err_in(err, "%s %s", option, text[i]);
    return INFQ_E_OK;
}

// Index of the first pattern that matches, -1; counts for every pattern.
static int64_t match(const pattern_set *s, const char *name, int64_t *hits)
{
    int64_t first = -1;

    for (size_t i = 0; i < s->n; i++)
        if (infq_pattern_match(s->v[i], name)) {
            hits[i]++;
            first = first < 0 ? (int64_t)i : first;
        }
    return first;
}

static bool is_experts_3d(const infq_ck_tensor *t)
{
    return t->n_dims == 3 && strstr(t->name, "experts") && infq_elem_of_dtype(t->dtype) != INFQ_ELEM_NONE;
}

static const char *left_out(const infq_module *m)
{
    return m->role == INFQ_ROLE_EMBED    ? "embedding"
           : m->role == INFQ_ROLE_HEAD   ? "output head"
           : m->role == INFQ_ROLE_ROUTER ? "router"
                                         : "not a linear layer of a block";
}

static infq_status decide(infq_plan *p, infq_plan_entry *e, const pattern_set *ignore, const pattern_set *include, infq_err *err)
{
    const infq_module *m = e->module;
    const infq_ck_tensor *t = e->tensor;
    int64_t ignored, included;

    if (!m) {
        ignored = is_experts_3d(t) ? match(ignore, t->name, p->ignore_hits) : -1;
        if (ignored >= 0)
            e->reason = "ignored";
        else if (is_experts_3d(t))
            return infq_err_set(err, INFQ_E_UNSUPPORTED,
                                "%s holds all experts in one 3-D tensor, which is not supported: save one matrix an expert, "
                                "or keep it as it is with --ignore",
                                t->name);
        return INFQ_E_OK;
    }
    ignored = match(ignore, m->name, p->ignore_hits);
    included = m->role != INFQ_ROLE_ROUTER && m->n_rows && m->n_cols ? match(include, m->name, p->include_hits) : -1;
    e->reason = ignored >= 0 ? "ignored" : left_out(m);
    if (ignored >= 0 || (!m->target && included < 0))
        return INFQ_E_OK;
    if (infq_elem_of_dtype(t->dtype) == INFQ_ELEM_NONE)
        return infq_err_set(err, INFQ_E_UNSUPPORTED, "%s: dtype %s holds no float weights; keep it with --ignore %s", t->name,
                            infq_dtype_name(t->dtype), m->name);
    if (m->conv1d)
        return infq_err_set(err, INFQ_E_UNSUPPORTED,
                            "%s is a Conv1D matrix, stored [in, out] (GPT-2): %s has no layout for it, so infq does not %s this "
                            "architecture",
                            t->name, p->o.format->name, verb(p));
    e->fate = INFQ_FATE_QUANTIZE;
    e->reason = NULL;
    return INFQ_E_OK;
}

static infq_status check_hits(const infq_plan *p, infq_err *err)
{
    // A tied head is stored in the embedding: a pattern that names it is right although no such tensor exists.
    bool tied = infq_config_ties_head(infq_checkpoint_config(p->ck));

    for (size_t i = 0; i < p->o.n_ignore; i++)
        if (!p->ignore_hits[i] && !(tied && strcmp(p->o.ignore[i], "lm_head") == 0))
            return infq_err_set(err, INFQ_E_USAGE, "--ignore %s matches no module of %s", p->o.ignore[i],
                                infq_checkpoint_path(p->ck));
    for (size_t i = 0; i < p->o.n_include; i++)
        if (!p->include_hits[i])
            return infq_err_set(err, INFQ_E_USAGE, "--include %s matches no matrix of %s that can be quantized%s",
                                p->o.include[i], infq_checkpoint_path(p->ck),
                                tied ? " (the head is tied to the embedding and not stored)" : "");
    return INFQ_E_OK;
}

// A head that the configuration calls tied must equal the embedding, and is then stored once.
static infq_status tie_head(infq_plan *p, infq_err *err)
{
    infq_plan_entry *head = NULL, *embed = NULL;
    const size_t step = (size_t)1 << 20;
    bool tied = infq_config_ties_head(infq_checkpoint_config(p->ck));

    for (size_t i = 0; i < p->n; i++) {
        infq_plan_entry *e = &p->v[i];
        if (!e->module || e->module->layer >= 0)
            continue;
        if (e->module->role == INFQ_ROLE_HEAD)
            head = e;
        else if (infq_str_ends(e->module->name, "embed_tokens") || infq_str_ends(e->module->name, "wte"))
            embed = e;
    }
    if (tied && embed && embed->fate == INFQ_FATE_QUANTIZE)
        return infq_err_set(err, INFQ_E_UNSUPPORTED,
                            "%s is also the output head (tie_word_embeddings), engines do not load it quantized",
                            embed->tensor->name);
    if (!tied || !head || !embed)
        return INFQ_E_OK;
    if (head->tensor->n_bytes != embed->tensor->n_bytes || head->tensor->dtype != embed->tensor->dtype ||
        head->fate == INFQ_FATE_QUANTIZE)
        goto differ;
    for (uint64_t at = 0; at < head->tensor->n_bytes; at += step) {
        uint64_t n = head->tensor->n_bytes - at < step ? head->tensor->n_bytes - at : step;
        const uint8_t *a = infq_checkpoint_data(p->ck, head->tensor), *b = infq_checkpoint_data(p->ck, embed->tensor);
        if (memcmp(a + at, b + at, (size_t)n))
            goto differ;
        infq_checkpoint_drop(p->ck, head->tensor, at, at + n);
        infq_checkpoint_drop(p->ck, embed->tensor, at, at + n);
    }
    head->fate = INFQ_FATE_TIE;
    head->reason = "equal to the embedding it is tied to";
    return INFQ_E_OK;
differ:
    return infq_err_set(err, INFQ_E_FORMAT, "%s differs from %s, but config.json says tie_word_embeddings: true",
                        head->tensor->name, embed->tensor->name);
}

static int64_t rows_not_divided(const infq_plan *p, int64_t group, const infq_plan_entry **first, const infq_plan_entry **second)
{
    int64_t n = 0;

    *first = *second = NULL;
    for (size_t i = 0; i < p->n; i++) {
        const infq_plan_entry *e = &p->v[i];
        if (e->fate != INFQ_FATE_QUANTIZE || e->rule || e->tensor->shape[1] % group == 0)
            continue;
        if (!*first)
            *first = e;
        // One of another width says more than the same layer of the next block.
        else if (!*second && e->tensor->shape[1] != (*first)->tensor->shape[1])
            *second = e;
        n++;
    }
    return n;
}

static infq_status refuse_group(const infq_plan *p, int64_t works, infq_err *err)
{
    const infq_plan_entry *first, *second;
    int64_t n = rows_not_divided(p, p->group_size, &first, &second);
    char ways[64] = "", other[100] = "";

    if (works)
        snprintf(ways, sizeof(ways), "--group-size %lld, ", (long long)works);
    if (second)
        snprintf(other, sizeof(other), " and %.50s (%lld)", second->module->name, (long long)second->tensor->shape[1]);
    return infq_err_set(err, INFQ_E_USAGE,
                        "group size %lld does not divide the rows of %.50s (%lld)%s, %lld matrices in all: "
                        "try %s--group-size channel, --ignore or --allow-fallback",
                        (long long)p->group_size, first->module->name, (long long)first->tensor->shape[1], other, (long long)n,
                        ways);
}

// Nobody asked for a size: the largest that fits all; else with fallbacks the one that leaves the fewest; else whole rows.
static int64_t default_group(const infq_plan *p, int64_t works)
{
    static const int64_t sizes[] = {128, 64, 32};
    const infq_plan_entry *first, *second;
    int64_t best = 0, fewest = 0;

    if (works || !p->o.allow_fallback)
        return works;
    for (size_t i = 0; i < 3; i++) {
        int64_t n = rows_not_divided(p, sizes[i], &first, &second);
        if (!best || n < fewest) {
            best = sizes[i];
            fewest = n;
        }
    }
    return best;
}

static infq_status choose_group(infq_plan *p, infq_err *err)
{
    static const int64_t sizes[] = {128, 64, 32};
    const infq_plan_entry *first, *second;
    int64_t want = p->o.group_size, works = 0;

    if (!infq_plan_grouped(p->o.scheme))
        return want ? infq_err_set(err, INFQ_E_USAGE, "--group-size does not apply to scheme %s", p->o.scheme->name) : INFQ_E_OK;
    if (want == INFQ_GROUP_CHANNEL)
        return INFQ_E_OK;
    for (size_t i = 0; i < 3 && !works; i++)
        if (rows_not_divided(p, sizes[i], &first, &second) == 0)
            works = sizes[i];
    p->group_size = want ? want : default_group(p, works);
    if (!p->group_size) {
        rows_not_divided(p, 32, &first, &second);
        return infq_findings_add(&p->findings, false, err,
                                 "no group size of 128, 64, 32 divides every row (%.60s: %lld), so whole rows share a scale; "
                                 "--allow-fallback keeps such matrices in 16 bits instead",
                                 first->module->name, (long long)first->tensor->shape[1]);
    }
    if (rows_not_divided(p, p->group_size, &first, &second) == 0)
        return INFQ_E_OK;
    if (!p->o.allow_fallback)
        return refuse_group(p, works, err);
    for (size_t i = 0; i < p->n; i++)
        if (p->v[i].fate == INFQ_FATE_QUANTIZE && !p->v[i].rule && p->v[i].tensor->shape[1] % p->group_size) {
            p->v[i].fate = INFQ_FATE_COPY;
            p->v[i].fallback = true;
            p->v[i].reason = "group size does not divide its rows";
            p->n_fallback++;
        }
    return INFQ_E_OK;
}

// Scales keep the type of the weights, so that loaders need no cast; single floats where that is wider than 16 bits.
static infq_elem scale_elem(infq_dtype t)
{
    return t == INFQ_DTYPE_F32 || t == INFQ_DTYPE_F64 ? INFQ_ELEM_F32 : t == INFQ_DTYPE_F16 ? INFQ_ELEM_F16 : INFQ_ELEM_BF16;
}

static infq_status choose_codec(infq_plan *p, infq_plan_entry *e, infq_err *err)
{
    const infq_scheme *s = e->rule ? e->rule->scheme : p->o.scheme;
    int64_t group = p->group_size;

    if (e->rule)
        INFQ_TRY(infq_plan_rule_group(p, e, &group, err));
    e->codec = s->codec;
    if (s == &infq_scheme_dense)
        e->codec.elem = infq_elem_of_dtype(e->tensor->dtype);
    else
        e->codec.scale = scale_elem(e->tensor->dtype);
    if (infq_plan_grouped(s))
        e->codec.group_cols = (int32_t)group;
    p->n_quantized++;
    return 0;
}

infq_status infq_plan_fates(infq_plan *p, infq_err *err)
{
    pattern_set ignore = {0}, include = {0};
    infq_status st = refuse_quantized(p, err);

    if (st)
        return st;
    for (size_t i = 0; i < infq_modules_count(p->modules); i++) {
        const infq_module *m = infq_modules_get(p->modules, i);
        p->v[m->tensor].module = m;
    }
    st = patterns_init(p->o.ignore, p->o.n_ignore, "--ignore", &ignore, err);
    if (!st)
        st = patterns_init(p->o.include, p->o.n_include, "--include", &include, err);
    for (size_t i = 0; !st && i < p->n; i++)
        st = decide(p, &p->v[i], &ignore, &include, err);
    patterns_deinit(&ignore);
    patterns_deinit(&include);
    if (!st)
        st = check_hits(p, err);
    if (!st)
        st = infq_plan_apply_rules(p, err);
    if (!st)
        st = choose_group(p, err);
    if (!st)
        st = tie_head(p, err);
    for (size_t i = 0; !st && i < p->n; i++)
        if (p->v[i].fate == INFQ_FATE_QUANTIZE)
            st = choose_codec(p, &p->v[i], err);
    if (!st && !p->n_quantized)
        st = infq_err_set(err, INFQ_E_UNSUPPORTED, "%s: no matrix is left to %s", infq_checkpoint_path(p->ck), verb(p));
    return st;
}
