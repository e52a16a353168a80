#include <stdio.h>
#include <string.h>

#include "lib/base/str.h"
#include "lib/compress/quantize_int.h"

static infq_status ledger_path(const infq_folder *f, size_t shard, char **out, infq_err *err)
{
    char name[64];

    snprintf(name, sizeof(name), "infq.ledger-%05zu", shard + 1);
    return infq_path_join(infq_folder_partial_path(f), name, out, err);
}

// Name of tensor t of an entry; false past the last.
static bool entry_tensor(const infq_plan_entry *e, int t, char *out, size_t cap)
{
    if (e->fate == INFQ_FATE_COPY && t == 0)
        snprintf(out, cap, "%s", e->tensor->name);
    else if (e->fate == INFQ_FATE_QUANTIZE && t < e->layout.n)
        snprintf(out, cap, "%s.%s", e->module->name, e->layout.t[t].suffix);
    else
        return false;
    return true;
}

// Rows of one finished shard's ledger; known[i] counts the shards that tell of entry i. A broken file tells nothing.
static void ledger_read(const char *path, const infq_plan *p, infq_ledger_row *rows, int *known)
{
    infq_buf text;
    infq_err err;
    char *at, *end;

    infq_buf_init(&text);
    if (!infq_file_read(path, (size_t)1 << 30, &text, &err))
        for (at = text.data; *at; at = end + 1) {
            infq_ledger_row r;
            unsigned long long entry;
            long long groups, clipped, zeros;
            end = strchr(at, '\n');
            if (!end)
                break;
            if (sscanf(at, "%llu %la %la %lld %lld %lld", &entry, &r.sq_err, &r.sq_sum, &groups, &clipped, &zeros) == 6 && entry < p->n) {
                r.zero_groups = groups;
                r.clipped = clipped;
                r.zeros = zeros;
                rows[entry] = r;
                known[entry]++;
            }
        }
    infq_buf_deinit(&text);
}

void infq_resume_deinit(infq_quantize_resume *s)
{
    infq_mem_free(s->done);
    infq_mem_free(s->left);
    infq_mem_free(s->finished);
    *s = (infq_quantize_resume){0};
}

static infq_status read_ledgers(const infq_quantize_resume *s, const infq_plan *p, const infq_folder *f, infq_ledger_row *rows,
                                int *known, infq_err *err)
{
    for (size_t i = 0; i < s->n_shards; i++) {
        char *path;
        if (!s->finished[i])
            continue;
        INFQ_TRY(ledger_path(f, i, &path, err));
        ledger_read(path, p, rows, known);
        infq_mem_free(path);
    }
    return INFQ_E_OK;
}

infq_status infq_resume_load(infq_quantize_resume *s, const infq_plan *p, const infq_folder *f, infq_ledger_row *rows,
                             infq_err *err)
{
    int *known = infq_mem_calloc(p->n, sizeof(*known));
    infq_status st = INFQ_E_OK;
    char name[600];

    s->n_shards = infq_folder_shard_count(f);
    s->done = infq_mem_calloc(p->n, sizeof(*s->done));
    s->left = infq_mem_calloc(s->n_shards + 1, sizeof(*s->left));
    s->finished = infq_mem_calloc(s->n_shards + 1, sizeof(*s->finished));
    if (!known || !s->done || !s->left || !s->finished)
        st = infq_err_set(err, INFQ_E_NOMEM, "ledger");
    for (size_t i = 0; !st && i < p->n; i++) {
        s->done[i] = true;
        for (int t = 0; !st && entry_tensor(&p->v[i], t, name, sizeof(name)); t++) {
            size_t shard;
            bool done;
            st = infq_folder_where(f, name, &shard, &done, err);
            if (st)
                break;
            s->finished[shard] = done;
            s->left[shard] += !done;
            s->done[i] &= done;
        }
    }
    if (!st)
        st = read_ledgers(s, p, f, rows, known, err);
    for (size_t i = 0; !st && i < p->n; i++) {
        s->done[i] &= known[i] > 0;
        if (!s->done[i])
            rows[i] = (infq_ledger_row){0};
        s->n_done += s->done[i];
    }
    infq_mem_free(known);
    return st;
}

static infq_status ledger_write(const infq_plan *p, size_t shard, const infq_ledger_row *rows, const infq_folder *f,
                                infq_err *err)
{
    infq_buf text;
    infq_status st = INFQ_E_OK;
    char name[600], *path;

    infq_buf_init(&text);
    for (size_t i = 0; !st && i < p->n; i++) {
        bool here = false;
        for (int t = 0; !st && !here && entry_tensor(&p->v[i], t, name, sizeof(name)); t++) {
            size_t where;
            bool done;
            st = infq_folder_where(f, name, &where, &done, err);
            here = !st && where == shard;
        }
        if (here)
            infq_buf_fmt(&text, "%zu %a %a %lld %lld %lld\n", i, rows[i].sq_err, rows[i].sq_sum, (long long)rows[i].zero_groups,
                         (long long)rows[i].clipped, (long long)rows[i].zeros);
    }
    if (!st)
        st = infq_buf_status(&text, err);
    if (!st && !(st = ledger_path(f, shard, &path, err))) {
        st = infq_file_write_atomic(path, text.data, text.n, true, err);
        infq_mem_free(path);
    }
    infq_buf_deinit(&text);
    return st;
}

infq_status infq_resume_entry_written(infq_quantize_resume *s, const infq_plan *p, size_t entry, const infq_ledger_row *rows,
                                      infq_folder *f, infq_err *err)
{
    char name[600];

    for (int t = 0; entry_tensor(&p->v[entry], t, name, sizeof(name)); t++) {
        size_t shard;
        bool done;
        INFQ_TRY(infq_folder_where(f, name, &shard, &done, err));
        if (s->finished[shard] || --s->left[shard] > 0)
            continue;
        INFQ_TRY(ledger_write(p, shard, rows, f, err));
        INFQ_TRY(infq_folder_shard_done(f, shard, err));
    }
    return INFQ_E_OK;
}
