/* Perplexity and distances of infeval on texts, with their item files. */
#include <stdio.h>
#include <string.h>

#include "lib/base/file.h"
#include "lib/base/hash.h"
#include "tools/cmd_eval.h"

static infq_status open_text(const eval_text *t, infq_corpus **out, infq_err *err)
{
    static const infq_corpus_form wiki[] = { [INFQ_PPL_GPTQ] = INFQ_CORPUS_WIKI_ROWS, [INFQ_PPL_LLAMACPP] = INFQ_CORPUS_WIKI_RAW,
                                             [INFQ_PPL_ROLLING] = INFQ_CORPUS_WIKI_PAGES };

    if (t->form == EVAL_FORM_LINES)
        return infq_corpus_open_lines(t->path, t->lines, t->limit, out, err);
    return infq_corpus_open(t->path, t->form == EVAL_FORM_WIKI ? wiki[t->convention] : INFQ_CORPUS_PLAIN,
                            t->convention != INFQ_PPL_ROLLING, t->limit, out, err);
}

/* What is measured on: each document's length and bytes. */
static infq_status corpus_digest(const infq_corpus *c, char hex[65], infq_err *err)
{
    infq_sha256 *h = NULL;
    infq_status st = infq_sha256_new(&h, err);

    for (size_t i = 0; i < infq_corpus_count(c) && !st; i++) {
        const infq_corpus_doc *d = infq_corpus_get(c, i);
        char length[32];
        int n = snprintf(length, sizeof(length), "%zu:", d->n);
        st = infq_sha256_add(h, length, (size_t)n, err);
        if (!st)
            st = infq_sha256_add(h, d->text, d->n, err);
    }
    if (!st)
        st = infq_sha256_end(h, hex, err);
    infq_sha256_free(h);
    return st;
}

/* Opens the item file of a text; *use stays NULL without --items. how: what the numbers depend on besides model and text. */
static infq_status store_open(const eval_run *r, int m, const eval_model *l, const char *name, const char *metric, const char *digest,
                              const char *how, infq_window_store *s, const infq_window_store **use, infq_err *err)
{
    infq_item_key key;
    char path[4096], file[sizeof(key.task) + 16];
    int n;

    if (!r->o->items)
        return 0;
    memset(&key, 0, sizeof(key));
    snprintf(key.model, sizeof(key.model), "%s", r->names[m]);
    memcpy(key.model_digest, l->digest, sizeof(key.model_digest));
    snprintf(key.tokenizer, sizeof(key.tokenizer), "%s", r->tokenizer[m]);
    snprintf(key.task, sizeof(key.task), "%s", infq_path_base(name));
    snprintf(key.task_digest, sizeof(key.task_digest), "%s", digest);
    snprintf(key.metric, sizeof(key.metric), "%s", metric);
    n = snprintf(key.settings, sizeof(key.settings), "%s %s", r->settings, how);
    if (n >= (int)sizeof(key.settings))
        return infq_err_set(err, INFQ_E_USAGE, "the settings are longer than %zu characters: %.100s", sizeof(key.settings) - 1, key.settings);
    snprintf(file, sizeof(file), "%s.%s", key.task, metric);
    INFQ_TRY(eval_items_path(r, m, file, path, sizeof(path), err));
    INFQ_TRY(infq_items_new(&key, &s->items, err));
    INFQ_TRY(infq_item_log_open(path, s->items, &s->log, err));
    *use = s;
    return 0;
}

/* st: of the measurement, which goes before an error here. */
static infq_status store_close(infq_window_store *s, infq_status st, infq_err *err)
{
    infq_err other;
    infq_status closed = infq_item_log_close(s->log, &other);

    infq_items_free(s->items);
    if (st || !closed)
        return st;
    *err = other;
    return closed;
}

static infq_status text_ppl(const eval_run *r, int m, const eval_model *l, eval_text *t, const infq_log *log, infq_err *err)
{
    infq_ppl_options po = { .convention = t->convention, .window = t->window, .max_tokens = t->tokens, .bos = r->bos, .log = log };
    infq_window_store store = { NULL, NULL };
    char digest[65], how[96];
    infq_corpus *c = NULL;
    infq_status st;

    INFQ_TRY(open_text(t, &c, err));
    snprintf(how, sizeof(how), "ppl=%s window=%lld tokens=%lld", infq_ppl_name(t->convention), (long long)t->window, (long long)t->tokens);
    st = corpus_digest(c, digest, err);
    if (!st)
        st = store_open(r, m, l, t->name, "ppl", digest, how, &store, &po.store, err);
    if (!st)
        st = infq_ppl_measure(l->model, l->tok, c, &po, &t->result[m], err);
    st = store_close(&store, st, err);
    infq_corpus_free(c);
    if (st)
        return infq_err_in(err, "%s", t->name);
    return m == 0 ? 0 : infq_ppl_ratio(&t->result[0], &t->result[m], &t->ln_ratio[m], &t->ln_ratio_se[m], &t->n_pairs, err);
}

static infq_status text_kld(const eval_run *r, int m, const eval_model *base, const eval_model *l, eval_text *t, const infq_log *log,
                            infq_err *err)
{
    infq_kld_options ko = { .window = r->o->window, .max_tokens = r->o->tokens, .log = log };
    infq_window_store store = { NULL, NULL };
    char digest[65], how[96];
    infq_corpus *c = NULL;
    infq_status st;

    INFQ_TRY(infq_corpus_open(t->path, INFQ_CORPUS_PLAIN, true, 0, &c, err));
    snprintf(how, sizeof(how), "kld=%.16s window=%lld tokens=%lld", base->digest, (long long)ko.window, (long long)ko.max_tokens);
    st = corpus_digest(c, digest, err);
    if (!st)
        st = store_open(r, m, l, t->name, "kld", digest, how, &store, &ko.store, err);
    if (!st)
        st = infq_kld_measure(base->model, l->model, l->tok, infq_corpus_get(c, 0)->text, infq_corpus_get(c, 0)->n, &ko,
                              &t->distance[m], err);
    st = store_close(&store, st, err);
    infq_corpus_free(c);
    return st ? infq_err_in(err, "%s", t->path) : 0;
}

static infq_status text_reference(const eval_run *r, int m, const eval_model *l, eval_text *t, const infq_log *log, infq_err *err)
{
    const infq_window_store *use = NULL;
    infq_window_store store = { NULL, NULL };
    char digest[65];
    infq_status st = 0;

    if (r->o->items)
        st = infq_sha256_file(t->path, digest, err);
    if (!st)
        st = store_open(r, m, l, t->name, "kld", digest, "kld=reference", &store, &use, err);
    if (!st)
        st = infq_reference_measure(t->reference, l->model, l->tok, use, log, &t->distance[m], err);
    st = store_close(&store, st, err);
    return st ? infq_err_in(err, "%s", t->path) : 0;
}

infq_status eval_texts_measure(eval_run *r, int m, const eval_model *base, const eval_model *l, const infq_log *log, infq_err *err)
{
    for (int i = 0; i < r->n_texts; i++) {
        if (r->texts[i].ppl)
            INFQ_TRY(text_ppl(r, m, l, &r->texts[i], log, err));
        if (r->texts[i].kld && m > 0)
            INFQ_TRY(text_kld(r, m, base, l, &r->texts[i], log, err));
        if (r->texts[i].reference)
            INFQ_TRY(text_reference(r, m, l, &r->texts[i], log, err));
    }
    return 0;
}
