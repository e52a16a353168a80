/* Few-shot examples: the texts in front of an item. */
#include <stdio.h>
#include <string.h>

#include "lib/eval/task_int.h"

void infq_examples_free(task_examples *x)
{
    infq_arena_free(x->arena);
    infq_mem_free(x->texts);
    infq_buf_deinit(&x->fixed);
}

/* Context, delimiter, right answer, separator. */
static infq_status add_example(task_examples *x, const row_text *row, const char *separator, infq_err *err)
{
    int64_t g = row->gold;
    char *text;
    size_t n;

    if (x->n == x->cap) {
        size_t cap = x->cap ? 2 * (size_t)x->cap : 64;
        void *p = infq_mem_realloc(x->texts, cap * sizeof(*x->texts));
        if (!p)
            return infq_err_set(err, INFQ_E_NOMEM, "no memory for examples");
        x->texts = p;
        x->cap = (int64_t)cap;
    }
    n = strlen(row->contexts[g]) + strlen(row->delimiters[g]) + strlen(row->choices[g]) + strlen(separator) + 1;
    INFQ_TRY(infq_arena_alloc(x->arena, n, 1, "an example", (void **)&text, err));
    snprintf(text, n, "%s%s%s%s", row->contexts[g], row->delimiters[g], row->choices[g], separator);
    x->texts[x->n++] = text;
    return 0;
}

/* Examples of a split: at most `most` (0: all) rows. */
static infq_status read_examples(task_examples *x, row_source *s, int64_t most, const char *separator, infq_err *err)
{
    infq_arena *a = NULL;
    infq_status st = infq_arena_new((size_t)1 << 16, &a, err);
    bool end = false;

    while (!st && !end && (most == 0 || x->n < most)) {
        infq_mark mark = infq_arena_mark(a);
        const char *json;
        char where[32];
        row_text row;
        st = infq_source_next(s, a, &row, &json, where, &end, err);
        if (!st && !end)
            st = add_example(x, &row, separator, err);
        infq_arena_release(a, mark);
    }
    infq_arena_free(a);
    return st;
}

/* The part of a file of fixed examples between the manifest's marks. */
static infq_status fixed_text(task_examples *x, const infq_task_file *f, const char *path, const char *separator, infq_err *err)
{
    infq_buf b;
    const char *from, *to;
    infq_status st;

    infq_buf_init(&b);
    st = infq_source_read(path, f->sha256, &b, err);
    from = b.data;
    to = b.data + b.n;
    if (!st && f->begin) {
        from = strstr(b.data, f->begin);
        from = from ? from + strlen(f->begin) : NULL;
    }
    if (!st && from && f->end)
        to = strstr(from, f->end);
    if (!st && (!from || !to))
        st = infq_err_set(err, INFQ_E_FORMAT, "%s: the marks of the examples are not in it", path);
    if (!st) {
        infq_buf_add(&x->fixed, from, (size_t)(to - from));
        infq_buf_str(&x->fixed, separator);
        st = infq_buf_status(&x->fixed, err);
    }
    infq_buf_deinit(&b);
    return st;
}

typedef struct {
    task_examples *x;
    const infq_manifest *m;
    const infq_task_options *o;
} example_job;

static infq_status load_text(void *ctx, const infq_task_file *f, const char *path, infq_err *err)
{
    example_job *j = ctx;

    return fixed_text(j->x, f, path, j->m->fewshot.separator, err);
}

static infq_status load_examples(void *ctx, const infq_task_file *f, const char *path, infq_err *err)
{
    example_job *j = ctx;
    int64_t want = j->x->shots + j->x->same_split;
    row_source s;
    infq_status st;

    INFQ_TRY(infq_source_open(&s, j->m, f, path, true, j->o, err));
    st = read_examples(j->x, &s, j->x->random ? 0 : want, j->m->fewshot.separator, err);
    if (!st && j->x->n < want)
        st = infq_err_set(err, INFQ_E_FORMAT, "%s: %lld rows, %lld examples are wanted", path, (long long)j->x->n, (long long)want);
    infq_source_close(&s);
    return st;
}

infq_status infq_examples_new(task_examples *x, infq_err *err)
{
    memset(x, 0, sizeof(*x));
    infq_buf_init(&x->fixed);
    return infq_arena_new((size_t)1 << 16, &x->arena, err);
}

infq_status infq_examples_open(task_examples *x, const infq_manifest *m, const infq_data_dirs *dirs, const infq_task_options *o,
                               int64_t shots, infq_err *err)
{
    example_job job = {x, m, o};
    infq_status st;

    if (shots > 0 && !m->fewshot.split)
        return infq_err_set(err, INFQ_E_USAGE, "%s has no rows to take examples from", m->name);
    if (shots > TASK_MAX_SHOTS)
        return infq_err_set(err, INFQ_E_USAGE, "at most %d examples", TASK_MAX_SHOTS);
    INFQ_TRY(infq_examples_new(x, err));
    x->shots = shots;
    x->random = m->fewshot.order == 1 || o->fewshot_seed >= 0;
    x->same_split = m->fewshot.split && strcmp(m->fewshot.split, m->split) == 0;
    infq_pyrandom_seed(&x->draw, (uint32_t)(o->fewshot_seed >= 0 ? o->fewshot_seed : m->fewshot.seed));
    st = m->fewshot.text ? infq_with_split(m, m->fewshot.text, dirs, load_text, &job, err) : 0;
    if (!st && shots > 0)
        st = infq_with_split(m, m->fewshot.split, dirs, load_examples, &job, err);
    if (st)
        infq_examples_free(x);
    return st;
}

infq_status infq_examples_put(task_examples *x, int64_t doc, infq_buf *out, infq_err *err)
{
    int64_t at[TASK_MAX_SHOTS + 1], n = x->shots + x->same_split, put = 0;

    infq_buf_add(out, x->fixed.data, x->fixed.n);
    if (x->random && x->shots > 0)
        INFQ_TRY(infq_pyrandom_sample(&x->draw, x->n, n, at, err));
    for (int64_t i = 0; i < n && put < x->shots; i++) {
        int64_t k = x->random ? at[i] : i;
        if (x->same_split && k == doc)
            continue;
        infq_buf_str(out, x->texts[k]);
        put++;
    }
    return infq_buf_status(out, err);
}
