#include "lib/eval/reference.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "lib/base/cursor.h"
#include "lib/base/file.h"
#include "lib/base/hash.h"
#include "lib/base/par.h"
#include "lib/eval/reference_int.h"
#include "lib/eval/window_int.h"

#define MAGIC "INFQREF1"
#define CHUNK_ROWS 32
#define STORED 14 /* numbers of a position in item files (reference.h) */
#define MAX_HEADER ((size_t)1 << 16)
#define HASH_BYTES 64

infq_reference_options infq_reference_options_default(void)
{
    return (infq_reference_options){.top = 128, .samples = 16, .seed = 1};
}

static size_t id_bytes(int64_t vocab)
{
    return vocab <= 65536 ? 2 : 4;
}

/* nll, rest, rest_plogp in F64; lp in F32; ids. */
static size_t row_bytes(int64_t vocab, int64_t top, int64_t samples)
{
    return 24 + (size_t)(top + samples) * (4 + id_bytes(vocab));
}

static uint64_t seed_of(uint64_t seed, int64_t position)
{
    return seed + 0x9e3779b97f4a7c15u * (uint64_t)(position + 1);
}

static void store_f64(uint8_t *to, double v)
{
    uint64_t u;

    memcpy(&u, &v, sizeof(u));
    infq_store_u64le(to, u);
}

static double load_f64(const uint8_t *from)
{
    uint64_t u = infq_load_u64le(from);
    double v;

    memcpy(&v, &u, sizeof(v));
    return v;
}

static void pack_row(const infq_reference_row *r, int64_t vocab, int64_t n, uint8_t *to)
{
    store_f64(to, r->nll);
    store_f64(to + 8, r->rest);
    store_f64(to + 16, r->rest_plogp);
    to += 24;
    for (int64_t i = 0; i < n; i++, to += 4) {
        uint32_t u;
        memcpy(&u, &r->lp[i], sizeof(u));
        infq_store_u32le(to, u);
    }
    for (int64_t i = 0; i < n; i++, to += id_bytes(vocab)) {
        if (id_bytes(vocab) == 2)
            infq_store_u16le(to, (uint16_t)r->ids[i]);
        else
            infq_store_u32le(to, (uint32_t)r->ids[i]);
    }
}

static void unpack_row(const uint8_t *from, int64_t vocab, int64_t n, infq_reference_row *r)
{
    r->nll = load_f64(from);
    r->rest = load_f64(from + 8);
    r->rest_plogp = load_f64(from + 16);
    from += 24;
    for (int64_t i = 0; i < n; i++, from += 4) {
        uint32_t u = infq_load_u32le(from);
        memcpy(&r->lp[i], &u, sizeof(u));
    }
    for (int64_t i = 0; i < n; i++, from += id_bytes(vocab))
        r->ids[i] = id_bytes(vocab) == 2 ? infq_load_u16le(from) : (int32_t)infq_load_u32le(from);
}

// ---- writing ----------------------------------------------------------------------------------------------------------

typedef struct {
    const infq_reference_options *o;
    const infq_windows *w;
    infq_window_run run;
    infq_outfile *file;
    infq_sha256 *hash;
    float *logits;          /* [CHUNK_ROWS][vocab] */
    uint8_t *bytes;         /* [CHUNK_ROWS] rows as stored */
    infq_reference_row *rows; /* one a thread */
    void *row_mem;
    int64_t first;          /* position of the chunk's first row */
} writer;

static infq_status put(writer *w, const void *p, size_t n, infq_err *err)
{
    INFQ_TRY(infq_sha256_add(w->hash, p, n, err));
    return infq_outfile_write(w->file, p, n, err);
}

static infq_status put_header(writer *w, const infq_tokenizer *tok, infq_err *err)
{
    const infq_reference_options *o = w->o;
    char ids[65];
    uint8_t head[16] = MAGIC;
    infq_buf json;
    infq_jw j = infq_jw_over(&json, 0);
    infq_status st;

    INFQ_TRY(infq_windows_digest(w->w, ids, err));
    infq_buf_init(&json);
    infq_jw_obj(&j);
    infq_jw_key_str(&j, "schema", INFQ_REFERENCE_SCHEMA);
    infq_jw_key_str(&j, "model", o->model);
    infq_jw_key_str(&j, "model_digest", o->model_digest);
    infq_jw_key_str(&j, "tokenizer", infq_tokenizer_digest(tok));
    infq_jw_key_str(&j, "text", o->text);
    infq_jw_key_str(&j, "ids_digest", ids);
    infq_jw_key_str(&j, "settings", o->settings);
    infq_jw_key_i64(&j, "window", w->w->window);
    infq_jw_key_i64(&j, "windows", w->w->n_windows);
    infq_jw_key_i64(&j, "vocab", w->run.vocab);
    infq_jw_key_i64(&j, "top", o->top);
    infq_jw_key_i64(&j, "samples", o->samples);
    infq_jw_key_i64(&j, "seed", (int64_t)o->seed);
    infq_jw_end_obj(&j);
    while (json.n % 8)
        infq_buf_char(&json, ' ');
    infq_store_u64le(head + 8, json.n);
    st = infq_buf_status(&json, err);
    if (!st)
        st = put(w, head, sizeof(head), err);
    for (int64_t i = 0; i < w->w->n_windows * w->w->window && !st; i++) {
        uint8_t word[4];
        infq_store_u32le(word, (uint32_t)w->w->ids.data[i]);
        infq_buf_add(&json, word, sizeof(word));
    }
    if (!st)
        st = infq_buf_status(&json, err);
    if (!st)
        st = put(w, json.data, json.n, err);
    infq_buf_deinit(&json);
    return st;
}

static void write_part(void *ctx, int64_t begin, int64_t end, int thread)
{
    writer *w = ctx;
    const infq_reference_options *o = w->o;
    int64_t V = w->run.vocab, per = w->run.per;
    infq_reference_row *r = &w->rows[thread];

    for (int64_t i = begin; i < end; i++) {
        int64_t at = w->first + i;
        infq_reference_row_make(w->logits + i * V, V, infq_windows_target(w->w, at / per, at % per), o->top, o->samples,
                                seed_of(o->seed, at), r);
        pack_row(r, V, o->top + o->samples, w->bytes + (size_t)i * row_bytes(V, o->top, o->samples));
    }
}

static infq_status put_group(writer *w, int64_t first, int64_t n, infq_err *err)
{
    infq_forward_options f = {.invariant = true};
    int64_t per = w->run.per, n_rows = n * per, V = w->run.vocab;
    size_t each = row_bytes(V, w->o->top, w->o->samples);

    INFQ_TRY(infq_window_run_group(&w->run, w->w, first, n, &f, err));
    for (int64_t row = 0; row < n_rows; row += CHUNK_ROWS) {
        int64_t count = n_rows - row < CHUNK_ROWS ? n_rows - row : CHUNK_ROWS;
        w->first = first * per + row;
        INFQ_TRY(infq_model_logits(w->run.m, w->run.hidden + row * w->run.width, count, true, w->logits, err));
        if (infq_first_nonfinite(w->logits, count * V) >= 0)
            return infq_err_set(err, INFQ_E_NUMERIC, "the model's logits are not finite (window %lld)", (long long)(w->first / per));
        infq_par_for(count, 1, write_part, w);
        INFQ_TRY(put(w, w->bytes, (size_t)count * each, err));
    }
    return 0;
}

/* One row of top + samples entries for each thread. */
static infq_status rows_new(int64_t n, infq_reference_row **rows, void **mem, infq_err *err)
{
    int threads = infq_par_threads();
    float *lp;

    INFQ_TRY(infq_mem_new((size_t)threads, sizeof(**rows), "rows", (void **)rows, err));
    if (infq_mem_new((size_t)threads * (size_t)n, 8, "rows", mem, err)) {
        infq_mem_free(*rows);
        *rows = NULL;
        return err->code;
    }
    lp = *mem;
    for (int i = 0; i < threads; i++)
        (*rows)[i] = (infq_reference_row){.lp = lp + i * n, .ids = (int32_t *)(void *)(lp + threads * n) + i * n};
    return 0;
}

static infq_status write_all(writer *w, const infq_tokenizer *tok, infq_err *err)
{
    const infq_reference_options *o = w->o;
    int64_t V = w->run.vocab, n_windows = w->w->n_windows;
    char hex[HASH_BYTES + 1];

    INFQ_TRY(infq_mem_new((size_t)(CHUNK_ROWS * V), sizeof(float), "logits", (void **)&w->logits, err));
    INFQ_TRY(infq_mem_new(CHUNK_ROWS, row_bytes(V, o->top, o->samples), "rows", (void **)&w->bytes, err));
    INFQ_TRY(rows_new(o->top + o->samples, &w->rows, &w->row_mem, err));
    INFQ_TRY(infq_sha256_new(&w->hash, err));
    INFQ_TRY(put_header(w, tok, err));
    for (int64_t i = 0; i < n_windows; i += w->run.group) {
        int64_t n = n_windows - i < w->run.group ? n_windows - i : w->run.group;
        if (infq_interrupted)
            return infq_err_set(err, INFQ_E_INTERRUPTED, "interrupted after %lld windows", (long long)i);
        INFQ_TRY(put_group(w, i, n, err));
        infq_progress(o->log, "reference", (uint64_t)(i + n), (uint64_t)n_windows);
    }
    INFQ_TRY(infq_sha256_end(w->hash, hex, err));
    return infq_outfile_write(w->file, hex, HASH_BYTES, err);
}

static infq_status check_options(const infq_reference_options *o, int64_t vocab, infq_err *err)
{
    if (o->top < INFQ_KLD_TOP || o->top > INFQ_REFERENCE_TOP_MAX || o->top >= vocab)
        return infq_err_set(err, INFQ_E_USAGE, "--top %lld: %d to %lld tokens of a vocabulary of %lld can be kept", (long long)o->top,
                            INFQ_KLD_TOP, (long long)(vocab - 1 < INFQ_REFERENCE_TOP_MAX ? vocab - 1 : INFQ_REFERENCE_TOP_MAX), (long long)vocab);
    if (o->samples < 1 || o->samples > INFQ_REFERENCE_SAMPLES_MAX)
        return infq_err_set(err, INFQ_E_USAGE, "--samples %lld: 1 to %d are possible", (long long)o->samples, INFQ_REFERENCE_SAMPLES_MAX);
    return 0;
}

infq_status infq_reference_write(const char *path, infq_model *m, const infq_tokenizer *tok, const char *text, size_t n,
                                 const infq_reference_options *o, infq_err *err)
{
    const infq_config *c = infq_model_config(m);
    infq_windows windows;
    writer w = {.o = o, .w = &windows};
    infq_buf part;
    infq_status st;

    INFQ_TRY(check_options(o, c->vocab, err));
    if (!o->replace && infq_path_exists(path))
        return infq_err_set(err, INFQ_E_EXISTS, "%s is there already", path);
    INFQ_TRY(infq_windows_cut(tok, text, n, o->window, o->max_tokens, c->max_positions, &windows, err));
    infq_buf_init(&part);
    infq_buf_fmt(&part, "%s.partial", path);
    st = infq_buf_status(&part, err);
    if (!st)
        st = infq_window_run_init(&w.run, m, &windows, 0, err);
    if (!st && unlink(part.data) && errno != ENOENT) // what a killed run left
        st = infq_err_set(err, INFQ_E_IO, "%s: %s", part.data, strerror(errno));
    if (!st)
        st = infq_outfile_create(part.data, &w.file, err);
    if (!st) {
        st = write_all(&w, tok, err);
        if (st)
            infq_outfile_free(w.file);
        else
            st = infq_outfile_finish(w.file, err);
    }
    if (!st) {
        st = infq_file_rename(part.data, path, o->replace, err);
        if (st)
            unlink(part.data);
    }
    infq_sha256_free(w.hash);
    infq_mem_free(w.logits);
    infq_mem_free(w.bytes);
    infq_mem_free(w.rows);
    infq_mem_free(w.row_mem);
    infq_window_run_free(&w.run);
    infq_windows_free(&windows);
    infq_buf_deinit(&part);
    return st;
}

// ---- reading ----------------------------------------------------------------------------------------------------------

struct infq_reference {
    infq_filemap map;
    infq_reference_info info;
    infq_windows w;
    const uint8_t *rows;
};

static infq_status text_member(const cJSON *j, const char *key, char *to, size_t cap, infq_err *err)
{
    const char *s;

    INFQ_TRY(infq_json_str(j, key, "", &s, err));
    snprintf(to, cap, "%s", s);
    return 0;
}

static infq_status read_info(const char *json, size_t n, const char *path, infq_reference_info *i, infq_err *err)
{
    cJSON *j = NULL;
    const char *schema;
    int64_t seed = 0;
    infq_status st = infq_json_parse(json, n, path, &j, err);

    if (st)
        return st;
    st = infq_json_str(j, "schema", "", &schema, err);
    if (!st && strcmp(schema, INFQ_REFERENCE_SCHEMA) != 0)
        st = infq_err_set(err, INFQ_E_UNSUPPORTED, "schema %.40s, " INFQ_REFERENCE_SCHEMA " is known", schema);
    st = st ? st : text_member(j, "model", i->model, sizeof(i->model), err);
    st = st ? st : text_member(j, "model_digest", i->model_digest, sizeof(i->model_digest), err);
    st = st ? st : text_member(j, "tokenizer", i->tokenizer, sizeof(i->tokenizer), err);
    st = st ? st : text_member(j, "text", i->text, sizeof(i->text), err);
    st = st ? st : text_member(j, "ids_digest", i->ids_digest, sizeof(i->ids_digest), err);
    st = st ? st : text_member(j, "settings", i->settings, sizeof(i->settings), err);
    st = st ? st : infq_json_i64(j, "window", 0, &i->window, err);
    st = st ? st : infq_json_i64(j, "windows", 0, &i->n_windows, err);
    st = st ? st : infq_json_i64(j, "vocab", 0, &i->vocab, err);
    st = st ? st : infq_json_i64(j, "top", 0, &i->top, err);
    st = st ? st : infq_json_i64(j, "samples", 0, &i->samples, err);
    st = st ? st : infq_json_i64(j, "seed", 0, &seed, err);
    i->seed = (uint64_t)seed;
    cJSON_Delete(j);
    return st;
}

/* Counts that the file's size can hold, before anything is multiplied or allocated with them. */
static infq_status check_info(const infq_reference_info *i, size_t left, infq_err *err)
{
    size_t rows, bytes, ids;

    if (i->window < 4 || i->n_windows < 1 || i->vocab < 2 || i->vocab > INT32_MAX || i->top < INFQ_KLD_TOP || i->top > INFQ_REFERENCE_TOP_MAX ||
        i->top >= i->vocab || i->samples < 1 || i->samples > INFQ_REFERENCE_SAMPLES_MAX)
        return infq_err_set(err, INFQ_E_FORMAT, "the header's counts are out of range");
    if (!infq_mul_size((size_t)i->n_windows, (size_t)(i->window - 1), &rows) ||
        !infq_mul_size(rows, row_bytes(i->vocab, i->top, i->samples), &bytes) ||
        !infq_mul_size((size_t)i->n_windows, (size_t)i->window * 4, &ids) || !infq_add_size(bytes, ids, &bytes) || bytes != left)
        return infq_err_set(err, INFQ_E_FORMAT, "%zu bytes behind the header, which asks for %lld windows of %lld tokens", left,
                            (long long)i->n_windows, (long long)i->window);
    return 0;
}

static infq_status read_ids(infq_reference *r, const uint8_t *at, infq_err *err)
{
    char hex[65];

    infq_ids_init(&r->w.ids);
    r->w.window = r->info.window;
    r->w.n_windows = r->info.n_windows;
    for (int64_t i = 0; i < r->w.window * r->w.n_windows; i++) {
        uint32_t id = infq_load_u32le(at + 4 * i);
        if (id >= (uint64_t)r->info.vocab)
            return infq_err_set(err, INFQ_E_FORMAT, "token id %u is outside the vocabulary", (unsigned)id);
        infq_ids_push(&r->w.ids, (int32_t)id);
    }
    INFQ_TRY(infq_ids_status(&r->w.ids, err));
    INFQ_TRY(infq_windows_digest(&r->w, hex, err));
    if (strcmp(hex, r->info.ids_digest) != 0)
        return infq_err_set(err, INFQ_E_FORMAT, "the token ids are not those that the header was written for");
    return 0;
}

static infq_status read_file(infq_reference *r, const char *path, infq_err *err)
{
    const uint8_t *p = r->map.data;
    size_t size = r->map.size, head;
    char hex[65];

    if (size < 16 + HASH_BYTES || memcmp(p, MAGIC, 8) != 0)
        return infq_err_set(err, INFQ_E_FORMAT, "not a reference file (infeval reference writes them)");
    if (infq_load_u64le(p + 8) > MAX_HEADER || infq_load_u64le(p + 8) > size - 16 - HASH_BYTES)
        return infq_err_set(err, INFQ_E_FORMAT, "the header's length is out of range");
    head = (size_t)infq_load_u64le(p + 8);
    INFQ_TRY(infq_sha256_of(p, size - HASH_BYTES, hex, err));
    if (memcmp(hex, p + size - HASH_BYTES, HASH_BYTES) != 0)
        return infq_err_set(err, INFQ_E_FORMAT, "the contents do not have the hash they were written with");
    INFQ_TRY(read_info((const char *)p + 16, head, path, &r->info, err));
    INFQ_TRY(check_info(&r->info, size - 16 - HASH_BYTES - head, err));
    INFQ_TRY(read_ids(r, p + 16 + head, err));
    r->rows = p + 16 + head + (size_t)(r->w.window * r->w.n_windows) * 4;
    return 0;
}

infq_status infq_reference_open(const char *path, infq_reference **out, infq_err *err)
{
    infq_reference *r = NULL;
    infq_status st;

    INFQ_TRY(infq_mem_new(1, sizeof(*r), "a reference", (void **)&r, err));
    memset(r, 0, sizeof(*r));
    st = infq_filemap_open(path, &r->map, err);
    if (!st) {
        st = read_file(r, path, err);
        if (st)
            infq_err_in(err, "%s", path);
    }
    if (st) {
        infq_reference_close(r);
        return st;
    }
    *out = r;
    return 0;
}

void infq_reference_close(infq_reference *r)
{
    if (!r)
        return;
    infq_windows_free(&r->w);
    infq_filemap_close(&r->map);
    infq_mem_free(r);
}

const infq_reference_info *infq_reference_info_get(const infq_reference *r)
{
    return &r->info;
}

// ---- measuring --------------------------------------------------------------------------------------------------------

typedef struct {
    const infq_reference *ref;
    infq_window_run run;
    float *logits, *scratch;  /* [CHUNK_ROWS][vocab of the model], [threads][vocab] */
    infq_reference_row *stored;
    void *row_mem;
    infq_kld_row *rows;
    infq_reference_rest *rest;
    const infq_window_store *store;
    double *packed;           /* [positions of a window][STORED] */
    int64_t first;
} comparison;

static void compare_part(void *ctx, int64_t begin, int64_t end, int thread)
{
    comparison *c = ctx;
    const infq_reference_info *f = &c->ref->info;
    infq_reference_row *r = &c->stored[thread];
    int64_t per = c->run.per;

    for (int64_t i = begin; i < end; i++) {
        int64_t at = c->first + i;
        bool good = true;
        unpack_row(c->ref->rows + (size_t)at * row_bytes(f->vocab, f->top, f->samples), f->vocab, f->top + f->samples, r);
        for (int64_t k = 0; k < f->top + f->samples; k++)
            good = good && r->ids[k] >= 0 && r->ids[k] < f->vocab && r->lp[k] <= 0;
        c->rows[at].kld = NAN;
        if (good)
            c->rows[at] = infq_reference_row_compare(r, f->top, f->samples, c->logits + i * c->run.vocab, f->vocab,
                                                     infq_windows_target(&c->ref->w, at / per, at % per), c->scratch + thread * f->vocab, &c->rest[at]);
    }
}

static infq_status compare_group(comparison *c, int64_t first, int64_t n, infq_err *err)
{
    infq_forward_options f = {.invariant = true};
    int64_t per = c->run.per, n_rows = n * per;

    INFQ_TRY(infq_window_run_group(&c->run, &c->ref->w, first, n, &f, err));
    for (int64_t row = 0; row < n_rows; row += CHUNK_ROWS) {
        int64_t count = n_rows - row < CHUNK_ROWS ? n_rows - row : CHUNK_ROWS;
        c->first = first * per + row;
        INFQ_TRY(infq_model_logits(c->run.m, c->run.hidden + row * c->run.width, count, true, c->logits, err));
        infq_par_for(count, 1, compare_part, c);
    }
    for (int64_t i = first * per; i < first * per + n_rows; i++)
        if (!isfinite(c->rows[i].kld) || !isfinite(c->rows[i].upper) || !isfinite(c->rest[i].bb))
            return infq_err_set(err, INFQ_E_NUMERIC, "logits or stored numbers are not finite (window %lld, position %lld)",
                                (long long)(i / per), (long long)(i % per));
    return 0;
}

static void pack_stored(const infq_kld_row *r, const infq_reference_rest *s, double *x)
{
    const double all[STORED] = {r->kld, r->lower, r->upper, r->nll_p, r->nll_q, r->same_top, r->common, s->p, s->surplus, s->a, s->b, s->aa, s->ab,
                                s->bb};

    memcpy(x, all, sizeof(all));
}

static void unpack_stored(const double *x, infq_kld_row *r, infq_reference_rest *s)
{
    *r = (infq_kld_row){.kld = x[0], .lower = x[1], .upper = x[2], .nll_p = x[3], .nll_q = x[4], .same_top = x[5] != 0, .common = x[6]};
    *s = (infq_reference_rest){x[7], x[8], x[9], x[10], x[11], x[12], x[13]};
}

/* Windows that the item file holds; *n: how many. */
static infq_status take_stored(comparison *c, int64_t *n, infq_err *err)
{
    const infq_windows *w = &c->ref->w;
    int64_t per = c->run.per;
    const double *x = NULL;
    char digest[17];

    for (*n = 0; c->store && *n < w->n_windows; ++*n) {
        INFQ_TRY(infq_window_digest(infq_windows_get(w, *n), w->window, digest, err));
        INFQ_TRY(infq_window_store_find(c->store, *n, digest, per, STORED, &x, err));
        if (!x)
            return 0;
        for (int64_t i = *n * per; i < (*n + 1) * per; i++, x += STORED)
            unpack_stored(x, &c->rows[i], &c->rest[i]);
    }
    return 0;
}

static infq_status store_windows(const comparison *c, int64_t first, int64_t n, infq_err *err)
{
    const infq_windows *w = &c->ref->w;
    int64_t per = c->run.per;
    char digest[17];

    for (int64_t k = first; c->store && k < first + n; k++) {
        for (int64_t i = 0; i < per; i++)
            pack_stored(&c->rows[k * per + i], &c->rest[k * per + i], c->packed + i * STORED);
        INFQ_TRY(infq_window_digest(infq_windows_get(w, k), w->window, digest, err));
        INFQ_TRY(infq_window_store_add(c->store, k, digest, c->packed, per, STORED, err));
    }
    return 0;
}

static infq_status comparison_open(comparison *c, infq_model *m, const infq_tokenizer *tok, infq_err *err)
{
    const infq_reference_info *f = &c->ref->info;
    const infq_config *cfg = infq_model_config(m);

    if (strcmp(infq_tokenizer_digest(tok), f->tokenizer) != 0)
        return infq_err_set(err, INFQ_E_MISMATCH, "the reference was made with another tokenizer");
    if (cfg->vocab < f->vocab)
        return infq_err_set(err, INFQ_E_MISMATCH, "the reference has a vocabulary of %lld, the model of %lld", (long long)f->vocab,
                            (long long)cfg->vocab);
    if (cfg->max_positions < f->window)
        return infq_err_set(err, INFQ_E_MISMATCH, "the reference has windows of %lld tokens, the model's context is %lld", (long long)f->window,
                            (long long)cfg->max_positions);
    INFQ_TRY(infq_window_run_init(&c->run, m, &c->ref->w, 0, err));
    INFQ_TRY(infq_mem_new((size_t)(CHUNK_ROWS * c->run.vocab), sizeof(float), "logits", (void **)&c->logits, err));
    INFQ_TRY(infq_mem_new((size_t)infq_par_threads() * (size_t)f->vocab, sizeof(float), "logits", (void **)&c->scratch, err));
    INFQ_TRY(infq_mem_new((size_t)c->run.per * STORED, sizeof(*c->packed), "positions", (void **)&c->packed, err));
    INFQ_TRY(rows_new(f->top + f->samples, &c->stored, &c->row_mem, err));
    INFQ_TRY(infq_mem_new((size_t)(f->n_windows * c->run.per), sizeof(*c->rest), "positions", (void **)&c->rest, err));
    return infq_mem_new((size_t)(f->n_windows * c->run.per), sizeof(*c->rows), "positions", (void **)&c->rows, err);
}

infq_status infq_reference_measure(const infq_reference *r, infq_model *m, const infq_tokenizer *tok, const infq_window_store *store,
                                   const infq_log *log, infq_kld_result *out, infq_err *err)
{
    comparison c = {.ref = r, .store = store};
    uint8_t *classes = NULL;
    int64_t done = 0;
    infq_status st = comparison_open(&c, m, tok, err);

    if (!st)
        st = infq_windows_classes(&r->w, tok, r->info.vocab, &classes, err);
    if (!st)
        st = take_stored(&c, &done, err);
    for (int64_t i = done; i < r->info.n_windows && !st; i += c.run.group) {
        int64_t n = r->info.n_windows - i < c.run.group ? r->info.n_windows - i : c.run.group;
        if (infq_interrupted)
            st = infq_err_set(err, INFQ_E_INTERRUPTED, "interrupted after %lld windows", (long long)i);
        if (!st)
            st = compare_group(&c, i, n, err);
        if (!st)
            st = store_windows(&c, i, n, err);
        if (!st)
            infq_progress(log, "KL divergence", (uint64_t)(i + n), (uint64_t)r->info.n_windows);
    }
    if (!st)
        infq_reference_finish(c.rows, c.rest, r->info.n_windows * c.run.per, r->info.samples);
    if (!st)
        st = infq_kld_finish(c.rows, classes, r->info.n_windows, c.run.per, out, err);
    infq_mem_free(classes);
    infq_mem_free(c.rows);
    infq_mem_free(c.rest);
    infq_mem_free(c.packed);
    infq_mem_free(c.stored);
    infq_mem_free(c.row_mem);
    infq_mem_free(c.scratch);
    infq_mem_free(c.logits);
    infq_window_run_free(&c.run);
    return st;
}
