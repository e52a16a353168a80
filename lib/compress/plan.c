#include "lib/compress/plan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/par.h"
#include "lib/base/str.h"
#include "lib/compress/plan_int.h"
#include "lib/compress/verify.h"

#define DEFAULT_CHUNK ((size_t)8 << 20)
#define BLOCK_ELEMS ((int64_t)128 << 10)
#define COPY_PIECE ((int64_t)1 << 20)

infq_plan_options infq_plan_options_default(void)
{
    return (infq_plan_options){.scheme = infq_scheme_find("W4A16"), .format = infq_format_find("compressed-tensors"),
                               .method = infq_method_find("search"), .tp = 1, .damping = 0.01};
}

infq_plan_options infq_plan_options_prune(void)
{
    infq_plan_options o = infq_plan_options_default();

    o.scheme = &infq_scheme_dense;
    o.format = infq_format_find("dense");
    o.method = infq_prune_method_find("wanda");
    return o;
}

const char *infq_fate_name(const infq_plan_entry *e)
{
    static const char *const names[] = {"quantize", "copy", "tie"};

    return e->fate == INFQ_FATE_QUANTIZE && e->codec.scale == INFQ_ELEM_NONE ? "prune" : names[e->fate];
}

void infq_plan_scheme_name(const infq_plan *p, char *out, size_t cap)
{
    const infq_codec *c = &p->o.scheme->codec;
    bool grouped = c->elem == INFQ_ELEM_U4 || c->elem == INFQ_ELEM_U8;
    char sparsity[32];

    infq_sparsity_name(&p->o.sparsity, sparsity, sizeof(sparsity));
    if (c->elem == INFQ_ELEM_NONE)
        snprintf(out, cap, "SPARSE-%s", sparsity);
    else if (grouped && p->group_size)
        snprintf(out, cap, "%s-G%lld", p->o.scheme->name, (long long)p->group_size);
    else
        snprintf(out, cap, "%s%s", p->o.scheme->name, grouped ? "-CHANNEL" : "");
    if (c->elem != INFQ_ELEM_NONE && p->o.sparsity.fraction > 0.0)
        snprintf(out + strlen(out), cap - strlen(out), "-SPARSE-%s", sparsity);
    for (char *q = out; *q; q++)
        if (*q == '_')
            *q = '-';
}

void infq_plan_free(infq_plan *p)
{
    if (!p)
        return;
    infq_findings_deinit(&p->findings);
    infq_mem_free(p->rule_hits);
    infq_mem_free(p->include_hits);
    infq_mem_free(p->ignore_hits);
    infq_mem_free(p->sparsity_text);
    infq_mem_free(p->config_text);
    infq_mem_free(p->out);
    infq_mem_free(p->v);
    infq_modules_free(p->modules);
    infq_mem_free(p);
}

static size_t align64(size_t n)
{
    return (n + 63) / 64 * 64;
}

// Rows of one block: whole scale rows and whole words of packed zero points; the matrix where all its weights are compared.
static int64_t block_rows(const infq_plan *p, const infq_plan_entry *e)
{
    int64_t align = e->codec.group_rows > 1 ? e->codec.group_rows : 8, cols = e->tensor->shape[1];
    int64_t n = BLOCK_ELEMS / cols / align * align;

    if (p->o.sparsity.whole)
        return e->tensor->shape[0];
    return n < align ? align : n;
}

static size_t block_out(const infq_plan_entry *e, infq_block *b, size_t at)
{
    const infq_codec *c = &e->codec;
    infq_weight w = {.codec = *c, .n_rows = b->n_rows, .n_cols = e->tensor->shape[1]};
    size_t cells = (size_t)infq_weight_scale_rows(&w) * (size_t)infq_weight_scale_cols(&w);

    b->codes = at;
    at += align64((size_t)b->n_rows * infq_codec_row_bytes(c, w.n_cols));
    b->scales = at;
    at += align64(cells * (size_t)infq_elem_bits(c->scale) / 8);
    b->zeros = at;
    if (c->zero == INFQ_ZERO_INT)
        at += align64(cells);
    return at;
}

bool infq_plan_batch(const infq_plan *p, infq_batch_pos *pos, infq_block *blocks, infq_batch *out)
{
    infq_batch b = {0};

    while (pos->entry < p->n && b.src_bytes < p->chunk_bytes && b.n_blocks < INFQ_BATCH_BLOCKS) {
        const infq_plan_entry *e = &p->v[pos->entry];
        bool quantize = e->fate == INFQ_FATE_QUANTIZE;
        int64_t total = quantize ? e->tensor->shape[0] : (int64_t)e->tensor->n_bytes;
        int64_t step = quantize ? block_rows(p, e) : COPY_PIECE;
        infq_block k = {.entry = pos->entry, .row0 = pos->row};

        if (b.n_blocks && e->tensor->shard != b.shard)
            break;
        b.shard = e->tensor->shard;
        k.n_rows = total - pos->row < step ? total - pos->row : step;
        b.src_bytes += quantize ? (size_t)k.n_rows * (size_t)(e->tensor->n_bytes / (uint64_t)total) : (size_t)k.n_rows;
        if (quantize)
            b.out_bytes = block_out(e, &k, b.out_bytes);
        if (blocks)
            blocks[b.n_blocks] = k;
        b.n_blocks++;
        pos->row += k.n_rows;
        if (pos->row >= total) {
            pos->entry++;
            pos->row = 0;
        }
    }
    *out = b;
    return b.n_blocks > 0;
}

// Largest batch and block under the present chunk size.
static void measure(infq_plan *p)
{
    infq_batch_pos pos = {0};
    infq_batch b;

    p->batch_out_bytes = p->batch_src_bytes = p->batch_blocks = p->scratch_bytes = p->quant_bytes = 0;
    while (infq_plan_batch(p, &pos, NULL, &b)) {
        p->batch_out_bytes = b.out_bytes > p->batch_out_bytes ? b.out_bytes : p->batch_out_bytes;
        p->batch_src_bytes = b.src_bytes > p->batch_src_bytes ? b.src_bytes : p->batch_src_bytes;
        p->batch_blocks = b.n_blocks > p->batch_blocks ? b.n_blocks : p->batch_blocks;
    }
    for (size_t i = 0; i < p->n; i++)
        if (p->v[i].fate == INFQ_FATE_QUANTIZE) {
            int64_t rows = block_rows(p, &p->v[i]), all = p->v[i].tensor->shape[0];
            infq_quant_spec spec = {.codec = p->v[i].codec, .range = INFQ_RANGE_SEARCH, .n_cols = p->v[i].tensor->shape[1]};
            size_t n = (size_t)(rows < all ? rows : all) * (size_t)spec.n_cols * sizeof(float);
            // The quantizer's own scratch stands beside ours for the time of a block.
            size_t own = spec.codec.scale != INFQ_ELEM_NONE ? infq_quant_scratch_bytes(&spec, rows < all ? rows : all) : 0;
            if (p->o.sparsity.fraction > 0.0)
                own += 2 * n + infq_prune_scratch_bytes(&p->o.sparsity, rows < all ? rows : all, spec.n_cols);
            p->quant_bytes = own > p->quant_bytes ? own : p->quant_bytes;
            p->scratch_bytes = n > p->scratch_bytes ? n : p->scratch_bytes;
        }
}

// What the driver holds at once: two output buffers, blocks, scratch of each thread, mapped source pages.
static uint64_t working_bytes(const infq_plan *p)
{
    return 2 * (uint64_t)p->batch_out_bytes + 2 * p->batch_blocks * sizeof(infq_block) * 4 +
           (uint64_t)p->threads * (p->scratch_bytes + p->quant_bytes) + p->batch_src_bytes;
}

static uint64_t verifying_bytes(const infq_plan *p)
{
    uint64_t most = 0;
    int64_t cols = 0;

    for (size_t i = 0; i < p->n; i++) {
        const infq_ck_tensor *t = p->v[i].tensor;
        if (p->v[i].fate != INFQ_FATE_QUANTIZE)
            continue;
        most = t->n_bytes > most ? t->n_bytes : most;
        cols = t->shape[1] > cols ? t->shape[1] : cols;
    }
    return infq_verify_bytes(p->n, most, cols, p->threads);
}

infq_status infq_plan_memory(infq_plan *p, infq_err *err)
{
    // Heap that grows while running: hash states, folder tables, verification. Measured.
    const uint64_t rest = (uint64_t)1 << 20;
    uint64_t now = infq_mem_rss_now(), calibrate = 0, verify = p->o.verified ? verifying_bytes(p) : 0;

    if (p->o.calib)
        INFQ_TRY(infq_calibrate_bytes(p, &calibrate, err));
    p->chunk_bytes = DEFAULT_CHUNK;
    measure(p);
    while (p->o.mem_limit && now + rest + working_bytes(p) > p->o.mem_limit && p->chunk_bytes > (size_t)64 << 10) {
        p->chunk_bytes /= 2;
        measure(p);
    }
    p->peak_bytes = now + rest + (calibrate > working_bytes(p) ? calibrate : working_bytes(p));
    p->peak_bytes = now + verify > p->peak_bytes ? now + verify : p->peak_bytes;
    if (p->o.mem_limit && p->peak_bytes > p->o.mem_limit)
        return infq_err_set(err, INFQ_E_NOMEM, "needs %llu bytes of memory, --mem-limit allows %llu",
                            (unsigned long long)p->peak_bytes, (unsigned long long)p->o.mem_limit);
    return INFQ_E_OK;
}

static infq_status begin(const infq_checkpoint *ck, const infq_plan_options *o, infq_plan *p, infq_err *err)
{
    void *mem;

    p->ck = ck;
    p->o = *o;
    p->threads = o->threads > 0 ? o->threads : infq_par_threads();
    p->n = infq_checkpoint_count(ck);
    if (p->n == 0)
        return infq_err_set(err, INFQ_E_FORMAT, "%s: holds 0 tensors, so there is nothing to compress", infq_checkpoint_path(ck));
    INFQ_TRY(infq_mem_new(p->n, sizeof(*p->v), "plan", &mem, err));
    p->v = mem;
    memset(p->v, 0, p->n * sizeof(*p->v));
    for (size_t i = 0; i < p->n; i++)
        p->v[i] = (infq_plan_entry){.tensor = infq_checkpoint_get(ck, i), .fate = INFQ_FATE_COPY, .reason = "no matrix"};
    p->ignore_hits = infq_mem_calloc(o->n_ignore + 1, sizeof(int64_t));
    p->include_hits = infq_mem_calloc(o->n_include + 1, sizeof(int64_t));
    p->rule_hits = infq_mem_calloc(o->n_rules + 1, sizeof(int64_t));
    if (!p->ignore_hits || !p->include_hits || !p->rule_hits)
        return infq_err_set(err, INFQ_E_NOMEM, "plan");
    return infq_modules_find(ck, &p->modules, err);
}

infq_status infq_plan_make(const infq_checkpoint *ck, const infq_plan_options *o, infq_plan **out, infq_err *err)
{
    infq_plan *p = infq_mem_calloc(1, sizeof(*p));
    infq_status st;

    if (!p)
        return infq_err_set(err, INFQ_E_NOMEM, "plan");
    st = begin(ck, o, p, err);
    if (!st && (o->method->needs && !o->calib))
        st = infq_err_set(err, INFQ_E_USAGE, "method %s needs calibration data (--calib)", o->method->name);
    if (!st && o->calib && !infq_checkpoint_config(ck))
        st = infq_err_set(err, INFQ_E_UNSUPPORTED, "%s: has no config.json, so it cannot be run on calibration data", infq_checkpoint_path(ck));
    if (!st)
        st = infq_plan_sparsity(p, err);
    if (!st)
        st = infq_plan_fates(p, err);
    if (!st)
        st = infq_plan_prunable(p, err);
    if (!st)
        st = infq_plan_sizes(p, err);
    if (!st)
        st = infq_plan_memory(p, err);
    if (!st)
        st = infq_plan_disk(p, err);
    if (st) {
        infq_plan_free(p);
        return st;
    }
    *out = p;
    return INFQ_E_OK;
}
