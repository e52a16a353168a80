#include "lib/compress/quantize.h"

#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "lib/base/cpu.h"
#include "lib/base/hash.h"
#include "lib/base/par.h"
#include "lib/base/str.h"
#include "lib/compress/quantize_int.h"

double infq_ledger_error(const infq_ledger_row *r)
{
    return r->sq_sum > 0.0 ? sqrt(r->sq_err / r->sq_sum) : r->sq_err > 0.0 ? 1.0 : 0.0;
}

void infq_quantize_result_free(infq_quantize_result *r)
{
    if (!r)
        return;
    infq_verify_report_free(r->verified);
    infq_mem_free(r->shard_sha256);
    infq_mem_free(r->rows);
    infq_mem_free(r);
}

// One batch in flight: its blocks, what they were quantized to, and what that cost.
typedef struct {
    infq_batch b;
    infq_block *blocks;
    infq_ledger_row *rows;   // one a block
    uint8_t *out;
} slot;

// First failure of one thread, by block, so that the one reported does not depend on the number of threads.
typedef struct {
    size_t block;
    infq_err err;
} failure;

typedef struct {
    const infq_plan *p;
    const infq_log *log;
    infq_folder *folder;
    infq_quantize_result *r;
    infq_quantize_resume resume;
    slot slots[2];
    int now;                 // slot that is being filled; the other is being written
    float **scratch;         // one a thread
    failure *failures;       // one a thread
    infq_filemap map;        // source file
    int shard;               // its index, -1: none open
    infq_sha256 *sha;
    uint64_t begin, end;     // bytes of it that the present batch covers
    uint64_t dropped;        // pages before this were given back
    atomic_size_t next;      // job
    infq_status hash_st, write_st;
    infq_err hash_err, write_err;
} driver;

#define JOB_HASH 0
#define JOB_WRITE 1
#define JOBS_FIRST_BLOCK 2

static bool is_live(const driver *d, const infq_block *b)
{
    return d->p->v[b->entry].fate == INFQ_FATE_QUANTIZE && !d->resume.done[b->entry];
}

static infq_weight block_weight(const driver *d, const slot *s, const infq_block *b)
{
    const infq_plan_entry *e = &d->p->v[b->entry];
    infq_weight w = {.codec = e->codec, .n_rows = b->n_rows, .n_cols = e->tensor->shape[1], .outer = 1.0f};

    w.codes = (infq_view){s->out + b->codes, infq_codec_row_bytes(&e->codec, w.n_cols)};
    w.scales = (infq_view){s->out + b->scales, (size_t)infq_weight_scale_cols(&w) * (size_t)infq_elem_bits(e->codec.scale) / 8};
    if (e->codec.zero == INFQ_ZERO_INT)
        w.zeros = (infq_view){s->out + b->zeros, (size_t)infq_weight_scale_cols(&w)};
    return w;
}

// True when no 16-bit float of src is NaN or infinite: all exponent bits set. The inner loop has a fixed length so that it is
// compiled to vector instructions; it reads the stored halves, before they double in size.
#define RUN 256
static bool halves_finite(const uint8_t *src, int64_t n, int16_t exponent)
{
    int16_t top = 0;
    int64_t i = 0;

    for (; i + RUN <= n; i += RUN)
        for (int j = 0; j < RUN; j++) {
            int16_t v;
            memcpy(&v, src + 2 * (i + j), sizeof(v));
            v &= 0x7fff;
            top = v > top ? v : top;
        }
    for (; i < n; i++) {
        int16_t v;
        memcpy(&v, src + 2 * i, sizeof(v));
        v &= 0x7fff;
        top = v > top ? v : top;
    }
    return top < exponent;
}

// Index of the first element that is not finite, -1 if there is none. x: src as floats.
static int64_t nonfinite_at(infq_dtype t, const uint8_t *src, const float *x, int64_t n)
{
    if ((t == INFQ_DTYPE_BF16 && halves_finite(src, n, 0x7f80)) || (t == INFQ_DTYPE_F16 && halves_finite(src, n, 0x7c00)))
        return -1;
    return infq_first_nonfinite(x, n);
}

static infq_status quantize_block(const driver *d, const infq_block *b, float *x, infq_err *err)
{
    const slot *s = &d->slots[d->now];
    const infq_plan_entry *e = &d->p->v[b->entry];
    int64_t cols = e->tensor->shape[1], n = b->n_rows * cols, bad;
    size_t row_bytes = (size_t)(e->tensor->n_bytes / (uint64_t)e->tensor->shape[0]);
    const uint8_t *src = d->map.data + e->tensor->offset + (size_t)b->row0 * row_bytes;
    infq_weight w = block_weight(d, s, b);
    infq_method_args args = {.spec = {.codec = e->codec, .n_cols = cols}, .sparsity = infq_plan_entry_sparsity(d->p, e)};
    infq_quant_out out = {.codes = (uint8_t *)w.codes.data, .scales = (uint8_t *)w.scales.data,
                          .zeros = (uint8_t *)w.zeros.data};

    if (infq_convert_to_f32(e->tensor->dtype, src, n, x, err))
        return infq_err_in(err, "%s", e->tensor->name);
    bad = nonfinite_at(e->tensor->dtype, src, x, n);
    if (bad >= 0)
        return infq_err_set(err, INFQ_E_NUMERIC, "%s: element [%lld, %lld] is %s", e->tensor->name,
                            (long long)(b->row0 + bad / cols), (long long)(bad % cols),
                            isnan(x[bad]) ? "not a number" : "infinite");
    if (d->p->o.method->rows(&args, x, b->n_rows, &out, err))
        return infq_err_in(err, "%s, rows from %lld", e->tensor->name, (long long)b->row0);
    s->rows[b - s->blocks] = (infq_ledger_row){out.sq_err, out.sq_sum, out.n_zero_groups, out.n_clipped, out.n_zeros};
    return INFQ_E_OK;
}

static infq_status hash_bytes(driver *d, infq_err *err)
{
    return infq_sha256_add(d->sha, d->map.data + d->begin, (size_t)(d->end - d->begin), err);
}

// Codes of the batch before, and the tensors of this one that are copied as they are.
static infq_status write_job(driver *d, infq_err *err)
{
    const slot *old = &d->slots[!d->now], *cur = &d->slots[d->now];
    const infq_plan *p = d->p;

    for (size_t i = 0; i < old->b.n_blocks; i++) {
        const infq_block *b = &old->blocks[i];
        const infq_plan_entry *e = &p->v[b->entry];
        infq_weight w;
        if (!is_live(d, b))
            continue;
        w = block_weight(d, old, b);
        INFQ_TRY(p->o.format->write(&w, b->row0, e->tensor->shape[0], e->module->name, d->folder, err));
        if (b->row0 + b->n_rows == e->tensor->shape[0])
            INFQ_TRY(infq_resume_entry_written(&d->resume, p, b->entry, d->r->rows, d->folder, err));
    }
    for (size_t i = 0; i < cur->b.n_blocks; i++) {
        const infq_block *b = &cur->blocks[i];
        const infq_plan_entry *e = &p->v[b->entry];
        if (e->fate != INFQ_FATE_COPY || d->resume.done[b->entry])
            continue;
        if (b->n_rows)
            INFQ_TRY(infq_folder_write(d->folder, e->tensor->name, (uint64_t)b->row0,
                                       d->map.data + e->tensor->offset + b->row0, (size_t)b->n_rows, err));
        if ((uint64_t)(b->row0 + b->n_rows) == e->tensor->n_bytes)
            INFQ_TRY(infq_resume_entry_written(&d->resume, p, b->entry, d->r->rows, d->folder, err));
    }
    return INFQ_E_OK;
}

// Every thread takes the next job until none is left; the two long ones come first.
static void work(void *ctx, int64_t begin, int64_t end, int thread)
{
    driver *d = ctx;
    slot *s = &d->slots[d->now];

    (void)begin;
    (void)end;
    for (;;) {
        size_t job = atomic_fetch_add(&d->next, 1), i = job - JOBS_FIRST_BLOCK;
        failure *f = &d->failures[thread];
        infq_err err;
        if (job == JOB_HASH) {
            d->hash_st = d->end > d->begin ? hash_bytes(d, &d->hash_err) : INFQ_E_OK;
        } else if (job == JOB_WRITE) {
            d->write_st = write_job(d, &d->write_err);
        } else if (i >= s->b.n_blocks) {
            return;
        } else if (is_live(d, &s->blocks[i]) && quantize_block(d, &s->blocks[i], d->scratch[thread], &err) && i < f->block) {
            f->block = i;
            f->err = err;
        }
    }
}

static infq_status first_failure(const driver *d, infq_err *err)
{
    const failure *f = NULL;

    for (int t = 0; t < d->p->threads; t++)
        if (d->failures[t].block != SIZE_MAX && (!f || d->failures[t].block < f->block))
            f = &d->failures[t];
    if (f)
        *err = f->err;
    else if (d->hash_st)
        *err = d->hash_err;
    else if (d->write_st)
        *err = d->write_err;
    else
        return INFQ_E_OK;
    return err->code;
}

static infq_status run_jobs(driver *d, infq_err *err)
{
    atomic_store(&d->next, 0);
    d->hash_st = d->write_st = INFQ_E_OK;
    for (int t = 0; t < d->p->threads; t++)
        d->failures[t].block = SIZE_MAX;
    infq_par_for(d->p->threads, 1, work, d);
    return first_failure(d, err);
}

// Sums of a tensor's blocks, in order of rows.
static void add_rows(driver *d, const slot *s)
{
    for (size_t i = 0; i < s->b.n_blocks; i++) {
        infq_ledger_row *r = &d->r->rows[s->blocks[i].entry];
        if (!is_live(d, &s->blocks[i]))
            continue;
        r->sq_err += s->rows[i].sq_err;
        r->sq_sum += s->rows[i].sq_sum;
        r->zero_groups += s->rows[i].zero_groups;
        r->clipped += s->rows[i].clipped;
        r->zeros += s->rows[i].zeros;
    }
}

static infq_status close_source(driver *d, infq_err *err)
{
    infq_status st = INFQ_E_OK;

    if (d->shard < 0)
        return INFQ_E_OK;
    if (d->map.size > d->end)
        st = infq_sha256_add(d->sha, d->map.data + d->end, (size_t)(d->map.size - d->end), err);
    if (!st)
        st = infq_sha256_end(d->sha, d->r->shard_sha256[d->shard], err);
    infq_sha256_free(d->sha);
    d->sha = NULL;
    infq_filemap_close(&d->map);
    d->shard = -1;
    return st;
}

// Opens a source file and hashes what comes before its first tensor.
static infq_status open_source(driver *d, int shard, uint64_t first, infq_err *err)
{
    const size_t step = (size_t)1 << 20;
    char *path = NULL;
    infq_status st;

    INFQ_TRY(infq_plan_shard_path(d->p, (size_t)shard, &path, err));
    st = infq_filemap_open(path, &d->map, err);
    if (!st && d->map.size != infq_checkpoint_shard_bytes(d->p->ck, (size_t)shard)) {
        infq_filemap_close(&d->map);
        st = infq_err_set(err, INFQ_E_IO, "%s: changed while it was read", path);
    }
    infq_mem_free(path);
    if (st)
        return st;
    d->shard = shard;
    INFQ_TRY(infq_sha256_new(&d->sha, err));
    for (uint64_t at = 0; at < first; at += step) {
        size_t n = first - at < step ? (size_t)(first - at) : step;
        INFQ_TRY(infq_sha256_add(d->sha, d->map.data + at, n, err));
        infq_filemap_drop(&d->map, (size_t)at, n);
    }
    d->begin = d->end = d->dropped = first;
    return INFQ_E_OK;
}

// Gives back source pages behind the batch; a page that the next one shares stays.
static void drop_behind(driver *d)
{
    infq_filemap_drop(&d->map, (size_t)d->dropped, (size_t)(d->end - d->dropped));
    d->dropped = d->end / 4096 * 4096;
}

// Where a batch ends in its source file.
static uint64_t batch_end(const infq_plan *p, const slot *s)
{
    const infq_block *b = &s->blocks[s->b.n_blocks - 1];
    const infq_plan_entry *e = &p->v[b->entry];
    uint64_t unit = e->fate == INFQ_FATE_QUANTIZE ? e->tensor->n_bytes / (uint64_t)e->tensor->shape[0] : 1;

    return e->tensor->offset + (uint64_t)(b->row0 + b->n_rows) * unit;
}

static infq_status stream(driver *d, infq_err *err)
{
    const infq_plan *p = d->p;
    infq_batch_pos pos = {0};
    uint64_t done = 0;
    bool more = true;

    while (more) {
        slot *s = &d->slots[d->now];
        size_t first = pos.entry;
        more = infq_plan_batch(p, &pos, s->blocks, &s->b);
        if (infq_interrupted)
            return infq_err_set(err, INFQ_E_INTERRUPTED, "interrupted; run the same command again to go on");
        if (more && s->b.shard != d->shard) {
            INFQ_TRY(close_source(d, err));
            INFQ_TRY(open_source(d, s->b.shard, p->v[first].tensor->offset, err));
        }
        d->begin = d->end;
        d->end = more ? batch_end(p, s) : d->end;
        if (more)
            infq_filemap_ahead(&d->map, (size_t)d->end, p->chunk_bytes);
        memset(s->rows, 0, s->b.n_blocks * sizeof(*s->rows));
        INFQ_TRY(run_jobs(d, err));
        add_rows(d, s);
        if (more)
            drop_behind(d);
        done += s->b.src_bytes;
        infq_progress(d->log, infq_plan_is_dense(p) ? "pruning" : "quantizing", done, p->bytes_in);
        d->now = !d->now;
    }
    return close_source(d, err);
}

static void driver_deinit(driver *d)
{
    for (int t = 0; d->scratch && t < d->p->threads; t++)
        infq_mem_free(d->scratch[t]);
    infq_mem_free(d->scratch);
    infq_mem_free(d->failures);
    for (int i = 0; i < 2; i++) {
        infq_mem_free(d->slots[i].blocks);
        infq_mem_free(d->slots[i].rows);
        infq_mem_free(d->slots[i].out);
    }
    infq_sha256_free(d->sha);
    if (d->shard >= 0)
        infq_filemap_close(&d->map);
}

static infq_status driver_init(driver *d, infq_err *err)
{
    const infq_plan *p = d->p;
    size_t threads = (size_t)p->threads;
    void *mem;

    d->scratch = infq_mem_calloc(threads, sizeof(*d->scratch));
    INFQ_TRY(infq_mem_new(threads, sizeof(*d->failures), "threads", &mem, err));
    d->failures = mem;
    if (!d->scratch)
        return infq_err_set(err, INFQ_E_NOMEM, "threads");
    for (size_t t = 0; t < threads; t++) {
        INFQ_TRY(infq_mem_new(1, p->scratch_bytes, "rows being quantized", &mem, err));
        d->scratch[t] = mem;
    }
    for (int i = 0; i < 2; i++) {
        INFQ_TRY(infq_mem_new(INFQ_BATCH_BLOCKS, sizeof(infq_block), "blocks", &mem, err));
        d->slots[i].blocks = mem;
        INFQ_TRY(infq_mem_new(INFQ_BATCH_BLOCKS, sizeof(infq_ledger_row), "blocks", &mem, err));
        d->slots[i].rows = mem;
        INFQ_TRY(infq_mem_new(1, p->batch_out_bytes, "quantized rows", &mem, err));
        d->slots[i].out = mem;
    }
    return INFQ_E_OK;
}

// Source files without tensors are hashed whole.
static infq_status hash_rest(const infq_plan *p, infq_quantize_result *r, infq_err *err)
{
    for (size_t i = 0; i < infq_checkpoint_shard_count(p->ck); i++) {
        char *path;
        infq_status st;
        if (r->shard_sha256[i][0])
            continue;
        INFQ_TRY(infq_plan_shard_path(p, i, &path, err));
        st = infq_sha256_file(path, r->shard_sha256[i], err);
        infq_mem_free(path);
        if (st)
            return st;
    }
    return INFQ_E_OK;
}

static infq_status meta_to_folder(void *ctx, const char *key, const char *value, infq_err *err)
{
    return infq_folder_meta(ctx, key, value, err);
}

static infq_status declare(const infq_plan *p, infq_folder *f, infq_err *err)
{
    char name[600];

    for (size_t i = 0; i < p->n; i++) {
        const infq_plan_entry *e = &p->v[i];
        if (e->fate == INFQ_FATE_COPY)
            INFQ_TRY(infq_folder_declare(f, e->tensor->name, e->tensor->dtype, e->tensor->n_dims, e->tensor->shape, err));
        for (int t = 0; e->fate == INFQ_FATE_QUANTIZE && t < e->layout.n; t++) {
            const infq_layout_tensor *lt = &e->layout.t[t];
            snprintf(name, sizeof(name), "%s.%s", e->module->name, lt->suffix);
            INFQ_TRY(infq_folder_declare(f, name, lt->dtype, lt->n_dims, lt->shape, err));
        }
    }
    INFQ_TRY(infq_plan_meta(p, meta_to_folder, f, err));
    INFQ_TRY(infq_folder_seal(f, err));
    // The plan promised these bytes; anything else is a bug of ours.
    INFQ_BUG_ON(infq_folder_total_bytes(f) != p->bytes_out);
    return INFQ_E_OK;
}

static infq_status pass(const infq_plan *p, infq_folder *f, const infq_log *log, infq_quantize_result *r, infq_err *err)
{
    driver d = {.p = p, .log = log, .folder = f, .r = r, .shard = -1};
    infq_status st = infq_resume_load(&d.resume, p, f, r->rows, err);

    if (!st) {
        r->n_resumed = d.resume.n_done;
        if (p->o.calib)
            st = infq_calibrate(p, log, f, &d.resume, r, err);
        if (!st)
            st = driver_init(&d, err);
    }
    if (!st)
        st = stream(&d, err);
    driver_deinit(&d);
    infq_resume_deinit(&d.resume);
    for (size_t i = 0; i < p->n; i++) {
        r->zero_groups += r->rows[i].zero_groups;
        r->clipped += r->rows[i].clipped;
        r->zeros += r->rows[i].zeros;
    }
    return st ? st : hash_rest(p, r, err);
}

static infq_status side_files(const infq_plan *p, infq_folder *f, infq_err *err)
{
    const infq_buf *config = infq_checkpoint_config_text(p->ck);
    infq_buf text;
    infq_status st = INFQ_E_OK;

    for (size_t i = 0; !st && i < infq_checkpoint_side_count(p->ck); i++) {
        const char *name = infq_checkpoint_side_name(p->ck, i);
        char *path;
        if (strcmp(name, "infq.json") == 0)
            continue;
        INFQ_TRY(infq_path_join(infq_checkpoint_path(p->ck), name, &path, err));
        st = infq_folder_copy(f, path, name, err);
        infq_mem_free(path);
    }
    if (st)
        return st;
    // A folder without config.json still needs the place where engines look for the quantization.
    infq_buf_init(&text);
    if (infq_plan_is_dense(p)) {
        if (config && config->n)
            st = infq_folder_put(f, "config.json", config->data, config->n, err);
        infq_buf_deinit(&text);
        return st;
    }
    if (config && config->n)
        st = infq_config_insert(config->data, config->n, p->config_text, &text, err);
    else
        st = infq_config_insert("{}", 2, p->config_text, &text, err);
    if (st)
        infq_err_in(err, "config.json");
    else
        st = infq_folder_put(f, "config.json", text.data, text.n, err);
    infq_buf_deinit(&text);
    return st;
}

// The pruned matrices of the plan with their zeros.
static infq_status pruned_of(const infq_plan *p, const infq_quantize_result *r, infq_pruned *out, infq_err *err)
{
    infq_pruned d = {.s = p->o.sparsity, .updated = infq_plan_updates(p), .v = infq_mem_calloc(p->n, sizeof(*d.v))};

    if (!d.v)
        return infq_err_set(err, INFQ_E_NOMEM, "ledger");
    for (size_t i = 0; i < p->n; i++)
        if (infq_plan_entry_sparsity(p, &p->v[i]))
            d.v[d.n++] = (infq_pruned_row){p->v[i].tensor->name, r->rows[i].zeros};
    infq_pruned_sort(&d);
    *out = d;
    return INFQ_E_OK;
}

static infq_status verify(const infq_plan *p, infq_folder *f, const infq_log *log, infq_quantize_result *r, infq_err *err)
{
    infq_verify_options o = infq_verify_options_default();
    int64_t t0 = infq_time_ns();
    infq_pruned pruned = {.n = 0};
    char *path = NULL;
    infq_status st = pruned_of(p, r, &pruned, err);

    o.source = infq_checkpoint_path(p->ck);
    o.engine = p->o.engine;
    o.tp = p->o.tp;
    o.pruned = &pruned;
    if (!st && infq_checkpoint_is_bare(p->ck))
        st = infq_path_join(infq_folder_partial_path(f), infq_path_base(p->out), &path, err);
    if (!st)
        st = infq_verify_run(path ? path : infq_folder_partial_path(f), &o, log, &r->verified, err);
    infq_mem_free(path);
    infq_mem_free(pruned.v);
    r->seconds_verify = (double)(infq_time_ns() - t0) * 1e-9;
    return st ? infq_err_in(err, "verification") : INFQ_E_OK;
}

static infq_status receipt(const infq_plan *p, infq_folder *f, const infq_quantize_result *r, infq_err *err)
{
    infq_buf text;
    infq_status st;

    infq_buf_init(&text);
    st = infq_receipt_write(p, r, &text, err);
    if (!st)
        st = infq_folder_put(f, "infq.json", text.data, text.n, err);
    infq_buf_deinit(&text);
    return st;
}

static infq_status fill(const infq_plan *p, const infq_quantize_options *o, const infq_log *log, infq_folder *f,
                        infq_quantize_result *r, infq_err *err)
{
    bool bare = infq_checkpoint_is_bare(p->ck);
    int64_t t0 = infq_time_ns();

    INFQ_TRY(declare(p, f, err));
    r->bytes_written = infq_folder_total_bytes(f);
    INFQ_TRY(pass(p, f, log, r, err));
    if (!bare)
        INFQ_TRY(side_files(p, f, err));
    r->seconds = (double)(infq_time_ns() - t0) * 1e-9;
    if (o->verify)
        INFQ_TRY(verify(p, f, log, r, err));
    r->published = !o->verify || r->verified->findings.n_fail == 0;
    return r->published && !bare ? receipt(p, f, r, err) : INFQ_E_OK;
}

infq_status infq_quantize_run(const infq_plan *p, const infq_quantize_options *o, const infq_log *log,
                              infq_quantize_result **out, infq_err *err)
{
    infq_folder_options fo = {.path = p->out, .source = infq_checkpoint_path(p->ck), .bare = infq_checkpoint_is_bare(p->ck),
                              .force = o->force, .shard_bytes = p->o.shard_bytes};
    infq_quantize_result *r = infq_mem_calloc(1, sizeof(*r));
    infq_folder *f = NULL;
    infq_status st = INFQ_E_OK;

    if (r) {
        r->rows = infq_mem_calloc(p->n, sizeof(*r->rows));
        r->shard_sha256 = infq_mem_calloc(infq_checkpoint_shard_count(p->ck) + 1, sizeof(*r->shard_sha256));
    }
    if (!r || !r->rows || !r->shard_sha256)
        st = infq_err_set(err, INFQ_E_NOMEM, "ledger");
    memcpy(fo.fingerprint, p->fingerprint, sizeof(fo.fingerprint));
    if (!st)
        st = infq_folder_begin(&fo, &f, err);
    if (!st) {
        st = fill(p, o, log, f, r, err);
        if (!st && r->published)
            st = infq_folder_commit(f, err);
        else
            infq_folder_abort(f, st == INFQ_E_INTERRUPTED);
    }
    if (st) {
        infq_quantize_result_free(r);
        return st;
    }
    *out = r;
    return INFQ_E_OK;
}
