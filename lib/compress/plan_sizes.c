#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "lib/base/hash.h"
#include "lib/base/str.h"
#include "lib/compress/plan_int.h"

#define DEFAULT_SHARD ((uint64_t)5000000000)

static bool is_float_dtype(infq_dtype t)
{
    return infq_elem_of_dtype(t) != INFQ_ELEM_NONE;
}

static uint64_t layout_bytes(const infq_layout_tensor *t)
{
    uint64_t n = (uint64_t)infq_dtype_bits(t->dtype) / 8;

    for (int d = 0; d < t->n_dims; d++)
        n *= (uint64_t)t->shape[d];
    return n;
}

static infq_status layouts(infq_plan *p, infq_err *err)
{
    for (size_t i = 0; i < p->n; i++) {
        infq_plan_entry *e = &p->v[i];
        if (is_float_dtype(e->tensor->dtype) && e->fate != INFQ_FATE_TIE)
            p->weights += e->tensor->n_elems;
        p->bytes_in += e->tensor->n_bytes;
        p->n_copied += e->fate == INFQ_FATE_COPY;
        p->n_tied += e->fate == INFQ_FATE_TIE;
        if (e->fate == INFQ_FATE_COPY)
            e->bytes_out = e->tensor->n_bytes;
        if (e->fate != INFQ_FATE_QUANTIZE)
            continue;
        if (p->o.format->layout(&e->codec, e->tensor->shape[0], e->tensor->shape[1], &e->layout, err))
            return infq_err_in(err, "%s", e->tensor->name);
        for (int t = 0; t < e->layout.n; t++)
            e->bytes_out += layout_bytes(&e->layout.t[t]);
        p->weights_quantized += e->tensor->n_elems;
        p->bytes_quantized_out += e->bytes_out;
    }
    return INFQ_E_OK;
}

static infq_status add_side_bytes(infq_plan *p, infq_err *err)
{
    struct stat sb;
    char *path;

    if (infq_checkpoint_is_bare(p->ck))
        return INFQ_E_OK;
    for (size_t i = 0; i < infq_checkpoint_side_count(p->ck); i++) {
        INFQ_TRY(infq_path_join(infq_checkpoint_path(p->ck), infq_checkpoint_side_name(p->ck, i), &path, err));
        if (stat(path, &sb) == 0)
            p->bytes_side += (uint64_t)sb.st_size;
        infq_mem_free(path);
    }
    return INFQ_E_OK;
}

static infq_status rules(infq_plan *p, infq_err *err)
{
    size_t n = infq_modules_count(p->modules);
    infq_codec *codecs = infq_mem_calloc(n + 1, sizeof(*codecs));
    infq_status st;

    if (!codecs)
        return infq_err_set(err, INFQ_E_NOMEM, "plan");
    for (size_t i = 0; i < n; i++)
        if (!infq_plan_is_dense(p))
            codecs[i] = p->v[infq_modules_get(p->modules, i)->tensor].codec;
    st = infq_engine_check(p->o.engine, p->o.tp, p->modules, codecs, infq_checkpoint_config(p->ck), &p->findings, err);
    infq_mem_free(codecs);
    for (size_t i = 0; !st && i < p->findings.n; i++)
        if (p->findings.v[i].fail)
            st = infq_err_set(err, INFQ_E_UNSUPPORTED, "%s would not load it: %s", p->o.engine, p->findings.v[i].text);
    return st;
}

// Engines look up q, k and v together: where one is ignored, absent members are ignored by name too.
static size_t absent_members(const infq_plan *p, const infq_module *m, char names[2][512])
{
    static const char *const members[] = {"k_proj", "v_proj"};
    size_t n = 0, base;

    if (!infq_str_ends(m->name, ".q_proj"))
        return 0;
    base = strlen(m->name) - strlen("q_proj");
    for (size_t i = 0; i < 2; i++) {
        snprintf(names[n], 512, "%.*s%s", (int)base, m->name, members[i]);
        n += !infq_modules_by_name(p->modules, names[n]);
    }
    return n;
}

static infq_status config_text(infq_plan *p, infq_err *err)
{
    size_t n = infq_modules_count(p->modules), n_written = 0;
    infq_written *w = infq_mem_calloc(3 * n + 1, sizeof(*w));
    infq_arena *names = NULL;
    infq_buf text;
    infq_jw jw;
    infq_status st = w ? infq_arena_new((size_t)4 << 10, &names, err) : infq_err_set(err, INFQ_E_NOMEM, "plan");

    infq_buf_init(&text);
    jw = infq_jw_over(&text, 0);
    for (size_t i = 0; !st && i < n; i++) {
        const infq_module *m = infq_modules_get(p->modules, i);
        char absent[2][512], *copy;
        w[n_written++] = (infq_written){m->name, p->v[m->tensor].codec};
        if (p->v[m->tensor].fate == INFQ_FATE_QUANTIZE)
            continue;
        for (size_t k = absent_members(p, m, absent); !st && k > 0; k--) {
            st = infq_arena_strdup(names, absent[k - 1], &copy, err);
            if (!st)
                w[n_written++] = (infq_written){.module = copy};
        }
    }
    if (!st)
        st = p->o.format->config(w, n_written, p->o.scheme, &jw, err);
    if (!st && !(p->config_text = infq_buf_take(&text)))
        st = infq_err_set(err, INFQ_E_NOMEM, "quantization_config");
    infq_buf_deinit(&text);
    infq_arena_free(names);
    infq_mem_free(w);
    return st;
}

infq_status infq_plan_meta(const infq_plan *p, infq_plan_meta_fn fn, void *ctx, infq_err *err)
{
    char by[120], scheme[64];

    for (size_t i = 0; i < infq_checkpoint_meta_count(p->ck); i++) {
        const char *key, *value, *k, *v;
        bool again = false;
        infq_checkpoint_meta_get(p->ck, i, &key, &value);
        for (size_t j = 0; j < i && !again; j++) {
            infq_checkpoint_meta_get(p->ck, j, &k, &v);
            again = strcmp(k, key) == 0;
        }
        if (!again && strcmp(key, "format") && strcmp(key, "quantization_config") && strcmp(key, "infq") && strcmp(key, "infq_pruned"))
            INFQ_TRY(fn(ctx, key, value, err));
    }
    infq_plan_scheme_name(p, scheme, sizeof(scheme));
    snprintf(by, sizeof(by), "%s %s by infq %s", scheme, p->o.method->name, INFQ_VERSION);
    INFQ_TRY(fn(ctx, "infq", by, err));
    if (p->sparsity_text)
        INFQ_TRY(fn(ctx, "infq_pruned", p->sparsity_text, err));
    if (infq_plan_is_dense(p))
        return INFQ_E_OK;
    return infq_checkpoint_is_bare(p->ck) ? fn(ctx, "quantization_config", p->config_text, err) : INFQ_E_OK;
}

static infq_status meta_to_layout(void *ctx, const char *key, const char *value, infq_err *err)
{
    return infq_st_layout_meta(ctx, key, value, err);
}

// Shards are filled as lib/io/folder.h fills them: greedily, in the order of the entries.
typedef struct {
    infq_plan *p;
    infq_st_layout *l;
    uint64_t in_shard, limit;
} packing;

static infq_status close_shard(packing *k, infq_err *err)
{
    INFQ_TRY(infq_plan_meta(k->p, meta_to_layout, k->l, err));
    INFQ_TRY(infq_st_layout_seal(k->l, err));
    k->p->bytes_out += infq_st_layout_file_bytes(k->l);
    return INFQ_E_OK;
}

static infq_status pack(packing *k, const char *name, infq_dtype dtype, int n_dims, const int64_t *shape, uint64_t n_bytes,
                        infq_err *err)
{
    if (k->l && k->in_shard && k->in_shard + n_bytes > k->limit) {
        INFQ_TRY(close_shard(k, err));
        infq_st_layout_free(k->l);
        k->l = NULL;
        k->in_shard = 0;
    }
    if (!k->l)
        INFQ_TRY(infq_st_layout_new(&k->l, err));
    k->in_shard += n_bytes;
    return infq_st_layout_add(k->l, name, dtype, n_dims, shape, err);
}

static infq_status file_bytes(infq_plan *p, infq_err *err)
{
    uint64_t limit = p->o.shard_bytes ? p->o.shard_bytes : DEFAULT_SHARD;
    packing k = {.p = p, .limit = infq_checkpoint_is_bare(p->ck) ? UINT64_MAX : limit};
    infq_status st = INFQ_E_OK;
    char name[600];

    for (size_t i = 0; !st && i < p->n; i++) {
        const infq_plan_entry *e = &p->v[i];
        if (e->fate == INFQ_FATE_COPY)
            st = pack(&k, e->tensor->name, e->tensor->dtype, e->tensor->n_dims, e->tensor->shape, e->tensor->n_bytes, err);
        for (int t = 0; !st && e->fate == INFQ_FATE_QUANTIZE && t < e->layout.n; t++) {
            const infq_layout_tensor *lt = &e->layout.t[t];
            snprintf(name, sizeof(name), "%s.%s", e->module->name, lt->suffix);
            st = pack(&k, name, lt->dtype, lt->n_dims, lt->shape, layout_bytes(lt), err);
        }
    }
    if (!st && k.l)
        st = close_shard(&k, err);
    infq_st_layout_free(k.l);
    return st;
}

static infq_status name_output(infq_plan *p, infq_err *err)
{
    const char *path = infq_checkpoint_path(p->ck), *base = infq_path_base(path);
    bool bare = infq_checkpoint_is_bare(p->ck);
    char scheme[64], *real = NULL;
    size_t n;
    infq_buf b;

    if (p->o.out && !bare && infq_str_ends(p->o.out, ".safetensors"))
        return infq_err_set(err, INFQ_E_USAGE, "%s: a model folder becomes a folder; give a name without .safetensors", p->o.out);
    if (p->o.out) {
        p->out = infq_mem_strdup(p->o.out);
        return p->out ? INFQ_E_OK : infq_err_set(err, INFQ_E_NOMEM, "name of the output");
    }
    // A name is needed to build on: "." and ".." have none.
    if (base[0] == '.' && (!base[1] || base[1] == '/' || base[1] == '.')) {
        real = realpath(path, NULL);
        path = real ? real : path;
    }
    n = strlen(path);
    while (n > 1 && path[n - 1] == '/')
        n--;
    if (bare && n > 12 && memcmp(path + n - 12, ".safetensors", 12) == 0)
        n -= 12;
    infq_plan_scheme_name(p, scheme, sizeof(scheme));
    infq_buf_init(&b);
    infq_buf_fmt(&b, "%.*s-%s%s", (int)n, path, scheme, bare ? ".safetensors" : "");
    free(real); // realpath's own block
    if (infq_buf_status(&b, err)) {
        infq_buf_deinit(&b);
        return err->code;
    }
    p->out = infq_buf_take(&b);
    infq_buf_deinit(&b);
    return INFQ_E_OK;
}

infq_status infq_plan_shard_path(const infq_plan *p, size_t i, char **out, infq_err *err)
{
    if (!infq_checkpoint_is_bare(p->ck))
        return infq_path_join(infq_checkpoint_path(p->ck), infq_checkpoint_shard_name(p->ck, i), out, err);
    *out = infq_mem_strdup(infq_checkpoint_path(p->ck));
    return *out ? INFQ_E_OK : infq_err_set(err, INFQ_E_NOMEM, "path");
}

// Hash of what decides the bytes: program, recipe, and which files the source is.
static infq_status fingerprint(infq_plan *p, infq_err *err)
{
    infq_buf b;
    infq_status st;
    char scheme[64];

    infq_buf_init(&b);
    infq_plan_scheme_name(p, scheme, sizeof(scheme));
    infq_buf_fmt(&b, "%s|%s|%s|%s|%llu|%s\n", INFQ_VERSION, p->o.format->name, scheme, p->o.method->name,
                 (unsigned long long)p->o.shard_bytes, p->config_text);
    if (p->o.calib)
        infq_buf_fmt(&b, "%s|%lld|%g\n", p->o.calib->digest, (long long)p->o.calib->window, p->o.damping);
    if (p->o.sparsity.whole)
        infq_buf_str(&b, "whole\n");
    st = infq_checkpoint_identity(p->ck, &b, err);
    for (size_t i = 0; i < p->n; i++)
        infq_buf_fmt(&b, "%d", (int)p->v[i].fate);
    if (!st)
        st = infq_buf_status(&b, err);
    if (!st)
        st = infq_sha256_of(b.data, b.n, p->fingerprint, err);
    infq_buf_deinit(&b);
    return st;
}

// Hashing is one stream a file; the rest spreads over the threads. Verification decodes everything once more.
static double estimate(const infq_plan *p)
{
    double hash = (double)p->bytes_in / 1.6e9, compute = (double)p->weights_quantized / p->o.method->elems_per_s;
    double write = (double)p->bytes_out / 1.0e9, verify = (double)p->weights_quantized * 4e-9;
    double spread = (hash + compute + write) / p->threads;

    // Two forward passes and the second moments, at the rate of F32 products.
    if (p->o.calib)
        spread += 4.5 * (double)(p->o.calib->window * p->o.calib->n_windows) * (double)p->weights_quantized / (1.4e11 * p->threads);
    return (spread > hash ? spread : hash) + verify / p->threads;
}

infq_status infq_plan_sizes(infq_plan *p, infq_err *err)
{
    INFQ_TRY(layouts(p, err));
    INFQ_TRY(rules(p, err));
    INFQ_TRY(config_text(p, err));
    INFQ_TRY(infq_plan_sparsity_text(p, err));
    INFQ_TRY(file_bytes(p, err));
    INFQ_TRY(add_side_bytes(p, err));
    INFQ_TRY(name_output(p, err));
    INFQ_TRY(fingerprint(p, err));
    p->bits_per_weight_quantized = 8.0 * (double)p->bytes_quantized_out / (double)p->weights_quantized;
    p->bits_per_weight = 0.0;
    for (size_t i = 0; i < p->n; i++)
        if (p->v[i].fate == INFQ_FATE_QUANTIZE || is_float_dtype(p->v[i].tensor->dtype))
            p->bits_per_weight += 8.0 * (double)p->v[i].bytes_out;
    p->bits_per_weight /= (double)p->weights;
    p->seconds = estimate(p);
    return INFQ_E_OK;
}

// Bytes an interrupted run left behind: they are reused or replaced, so they count as free.
static uint64_t partial_bytes(const infq_plan *p)
{
    uint64_t sum = 0;
    char **names = NULL, *path = NULL;
    size_t n = 0;
    infq_buf dir;
    infq_err err;

    infq_buf_init(&dir);
    infq_buf_fmt(&dir, "%s.partial/model", p->out);
    if (!dir.failed && infq_path_is_dir(dir.data) && !infq_dir_list(dir.data, &names, &n, &err)) {
        for (size_t i = 0; i < n; i++) {
            struct stat sb;
            if (infq_path_join(dir.data, names[i], &path, &err))
                continue;
            // Blocks in use, not the length: shards are laid out in full before they are written.
            if (stat(path, &sb) == 0)
                sum += (uint64_t)sb.st_blocks * 512;
            infq_mem_free(path);
        }
        infq_dir_list_free(names, n);
    }
    infq_buf_deinit(&dir);
    return sum;
}

infq_status infq_plan_disk(infq_plan *p, infq_err *err)
{
    const infq_buf *config = infq_checkpoint_config_text(p->ck);
    // Receipt and index: about 200 bytes a tensor.
    uint64_t small = 65536 + 400 * (uint64_t)p->n + (config ? config->n : 0) + strlen(p->config_text);

    p->disk_needed = p->bytes_out + p->bytes_side + small;
    INFQ_TRY(infq_disk_free(p->out, &p->disk_free, err));
    p->disk_free += partial_bytes(p);
    if (p->disk_needed > p->disk_free)
        return infq_err_set(err, INFQ_E_NOSPACE, "%s: needs %llu bytes of disk space, %llu are free", p->out,
                            (unsigned long long)p->disk_needed, (unsigned long long)p->disk_free);
    return INFQ_E_OK;
}
