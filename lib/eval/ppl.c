#include "lib/eval/ppl.h"

#include <math.h>
#include <string.h>

#include "lib/eval/stats.h"

#define PASS_TOKENS 2048 /* windows share a forward pass up to this many tokens */
#define MAX_GROUP 64

static const char *const names[] = {"gptq", "llamacpp", "rolling"};

const char *infq_ppl_name(infq_ppl_convention c)
{
    return names[c];
}

bool infq_ppl_find(const char *name, infq_ppl_convention *out)
{
    for (int i = 0; i < 3; i++) {
        if (strcmp(name, names[i]) == 0) {
            *out = (infq_ppl_convention)i;
            return true;
        }
    }
    return false;
}

int64_t infq_ppl_default_window(infq_ppl_convention c, int64_t max_positions)
{
    int64_t w = c == INFQ_PPL_GPTQ ? 2048 : c == INFQ_PPL_LLAMACPP ? 512 : max_positions;

    return w < max_positions ? w : max_positions;
}

int64_t infq_rolling_windows(int64_t n, int64_t length, int64_t context_len, infq_window *out, int64_t cap)
{
    int64_t count = 0, done = 0;

    while (done < n) {
        int64_t room = done == 0 ? length : length - context_len + 1;
        int64_t take = n - done < room ? n - done : room;
        infq_window w = {-1, done, done + take};
        if (done > 0) // filled up with earlier tokens to full length
            w.feed_from = w.end - length - 1 > 0 ? w.end - length - 1 : 0;
        if (count < cap)
            out[count] = w;
        count++;
        done += take;
    }
    return count;
}

/* A window ready to run: input tokens (borrowed) and the targets behind its last n_last rows. */
typedef struct {
    const int32_t *input, *targets;
    int64_t n_input, n_targets, doc;
    char digest[17];
} ready;

typedef struct {
    infq_model *m;
    const infq_log *log;
    const infq_window_store *store;
    ready group[MAX_GROUP];
    int64_t n_group, group_tokens, group_targets;
    infq_ppl_result *out;
    int64_t cap;
    uint64_t total;           /* windows expected */
} runner;

static infq_status keep_window(runner *r, infq_ppl_window w, infq_err *err)
{
    if (r->out->n_windows == r->cap) {
        size_t cap = r->cap ? 2 * (size_t)r->cap : 256, n_bytes;
        void *p;
        if (!infq_mul_size(cap, sizeof(w), &n_bytes) || !(p = infq_mem_realloc(r->out->windows, n_bytes)))
            return infq_err_set(err, INFQ_E_NOMEM, "%zu windows do not fit in memory", cap);
        r->out->windows = p;
        r->cap = (int64_t)cap;
    }
    r->out->windows[r->out->n_windows++] = w;
    return 0;
}

/* nll [n_targets] of a window that is next in order. */
static infq_status sum_window(runner *r, const ready *next, const double *nll, infq_err *err)
{
    infq_ppl_window w = {next->doc, next->n_targets, 0, 0};

    for (int64_t t = 0; t < w.n; t++) {
        w.nll += nll[t];
        w.nll2 += nll[t] * nll[t];
    }
    return keep_window(r, w, err);
}

static infq_status sum_windows(runner *r, double *nll, infq_err *err)
{
    for (int64_t g = 0; g < r->n_group; nll += r->group[g++].n_targets) {
        const ready *w = &r->group[g];
        INFQ_TRY(infq_window_store_add(r->store, r->out->n_windows, w->digest, nll, w->n_targets, 1, err));
        INFQ_TRY(sum_window(r, w, nll, err));
    }
    infq_progress(r->log, "perplexity", (uint64_t)r->out->n_windows, r->total);
    return 0;
}

/* Runs the windows gathered so far as one batch. */
static infq_status flush(runner *r, infq_err *err)
{
    infq_segment segs[MAX_GROUP];
    infq_seq *seqs[MAX_GROUP] = {NULL};
    infq_forward_options f = {.invariant = true};
    infq_row_target *targets = NULL;
    double *lp = NULL;
    float *hidden = NULL;
    size_t n = (size_t)r->group_targets, width = (size_t)infq_model_config(r->m)->hidden, n_hidden;
    int64_t at = 0;
    infq_status st = 0;

    if (r->n_group == 0)
        return 0;
    if (infq_interrupted)
        return infq_err_set(err, INFQ_E_INTERRUPTED, "interrupted after %lld windows", (long long)r->out->n_windows);
    if (!infq_mul_size(n, width, &n_hidden))
        return infq_err_set(err, INFQ_E_NOMEM, "hidden states of %zu tokens do not fit in memory", n);
    st = infq_mem_new(n_hidden, sizeof(float), "hidden states", (void **)&hidden, err);
    if (!st)
        st = infq_mem_new(n, sizeof(*targets), "targets", (void **)&targets, err);
    if (!st)
        st = infq_mem_new(n, sizeof(*lp), "log-probabilities", (void **)&lp, err);
    for (int64_t g = 0; g < r->n_group && !st; g++) {
        const ready *w = &r->group[g];
        st = infq_seq_new(r->m, &seqs[g], err);
        segs[g] = (infq_segment){seqs[g], w->input, w->n_input, w->n_targets};
        for (int64_t t = 0; t < w->n_targets && !st; t++, at++)
            targets[at] = (infq_row_target){at, w->targets[t]};
    }
    if (!st)
        st = infq_model_forward(r->m, segs, r->n_group, &f, hidden, err);
    if (!st)
        st = infq_score_rows(r->m, hidden, r->group_targets, targets, r->group_targets, lp, NULL, NULL, err);
    for (int64_t t = 0; t < r->group_targets && !st; t++)
        lp[t] = -lp[t];
    if (!st)
        st = sum_windows(r, lp, err);
    for (int64_t g = 0; g < r->n_group; g++)
        infq_seq_free(seqs[g]);
    infq_mem_free(lp);
    infq_mem_free(targets);
    infq_mem_free(hidden);
    r->n_group = r->group_tokens = r->group_targets = 0;
    return st;
}

/* The input must stay until the next flush. Windows that are stored are the first ones, so none waits in the group before them. */
static infq_status push(runner *r, ready w, infq_err *err)
{
    const double *stored = NULL;

    if (r->store) {
        INFQ_TRY(infq_window_digest(w.input, w.n_input + 1, w.digest, err)); // the last target stands behind the input
        INFQ_TRY(infq_window_store_find(r->store, r->out->n_windows + r->n_group, w.digest, w.n_targets, 1, &stored, err));
    }
    if (stored)
        return sum_window(r, &w, stored, err);
    if (r->n_group == MAX_GROUP || (r->n_group > 0 && r->group_tokens + w.n_input > PASS_TOKENS))
        INFQ_TRY(flush(r, err));
    r->group[r->n_group++] = w;
    r->group_tokens += w.n_input;
    r->group_targets += w.n_targets;
    return 0;
}

/* gptq and llamacpp: windows side by side. */
static infq_status run_blocks(runner *r, const infq_tokenizer *tok, const infq_ppl_options *o, infq_ids *ids, int64_t doc,
                              infq_err *err)
{
    int64_t length = r->out->window, n = (int64_t)ids->n / length;
    bool llama = o->convention == INFQ_PPL_LLAMACPP;
    bool put_bos = llama && (o->bos == INFQ_BOS_ALWAYS || (o->bos == INFQ_BOS_MODEL && infq_tokenizer_add_bos(tok)));

    if (n < (llama ? 2 : 1))
        return infq_err_set(err, INFQ_E_UNSUPPORTED, "the text has %zu tokens, %s of %lld are the least; try a smaller --window",
                            ids->n, llama ? "two windows" : "one window", (long long)length);
    r->total = (uint64_t)n;
    for (int64_t w = 0; w < n; w++) {
        int32_t *start = ids->data + w * length;
        int64_t first = llama ? length / 2 + 1 : 1; // index of the first target
        if (put_bos)
            start[0] = infq_tokenizer_bos(tok);
        INFQ_TRY(push(r, (ready){start, start + first, length - 1, length - first, doc, ""}, err));
    }
    return flush(r, err);
}

static infq_status run_rolling(runner *r, infq_ids *ids, int64_t doc, infq_err *err)
{
    int64_t n = (int64_t)ids->n - 1; // ids[0] is the prefix token
    infq_window w[256];
    int64_t count;
    infq_window *all = w, *heap = NULL;
    infq_status st = 0;

    count = infq_rolling_windows(n, r->out->window, 1, w, 256);
    if (count > 256) {
        INFQ_TRY(infq_mem_new((size_t)count, sizeof(*w), "windows", (void **)&heap, err));
        infq_rolling_windows(n, r->out->window, 1, heap, count);
        all = heap;
    }
    for (int64_t i = 0; i < count && !st; i++) {
        // with the prefix at ids[0], text token k is ids[k + 1]
        const int32_t *from = ids->data + all[i].feed_from + 1, *targets = ids->data + all[i].begin + 1;
        st = push(r, (ready){from, targets, ids->data + all[i].end - from, all[i].end - all[i].begin, doc, ""}, err);
    }
    if (!st)
        st = flush(r, err); // ids go away with this document
    infq_mem_free(heap);
    return st;
}

static infq_status run_doc(runner *r, const infq_tokenizer *tok, const infq_ppl_options *o, const infq_corpus_doc *d, int64_t doc,
                           infq_err *err)
{
    infq_ids ids;
    infq_status st = 0;
    bool rolling = o->convention == INFQ_PPL_ROLLING;
    int32_t prefix = infq_tokenizer_prefix(tok);

    infq_ids_init(&ids);
    if (rolling && prefix < 0)
        st = infq_err_set(err, INFQ_E_UNSUPPORTED, "rolling perplexity needs a BOS or EOS token, the tokenizer has neither");
    if (rolling)
        infq_ids_push(&ids, prefix);
    // The reference encodes the text with its own BOS too, so that a tokenizer which adds one shows two; --bos never leaves one.
    if (!st && rolling)
        st = infq_tokenizer_encode(tok, d->text, d->n, o->bos == INFQ_BOS_NEVER ? 0 : INFQ_TOK_SPECIAL, &ids, err);
    else if (!st)
        st = infq_encode_text(tok, o->bos, d->text, d->n, &ids, err);
    if (!st)
        st = infq_ids_status(&ids, err);
    if (o->max_tokens > 0 && (int64_t)ids.n > o->max_tokens + rolling)
        ids.n = (size_t)(o->max_tokens + rolling);
    if (!st)
        st = rolling ? run_rolling(r, &ids, doc, err) : run_blocks(r, tok, o, &ids, doc, err);
    infq_ids_deinit(&ids);
    return st;
}

/* Means and errors from the windows. */
static infq_status finish(infq_ppl_result *r, const infq_corpus *c, infq_err *err)
{
    double *x = NULL, *bytes, total = 0, total2 = 0;
    int64_t n = r->n_windows, n_docs = (int64_t)infq_corpus_count(c);
    size_t room = (size_t)(n > n_docs ? n : n_docs);

    INFQ_TRY(infq_mem_new(2 * room, sizeof(*x), "window means", (void **)&x, err));
    bytes = x + room;
    for (int64_t i = 0; i < n; i++) {
        r->n_tokens += r->windows[i].n;
        total += r->windows[i].nll;
        total2 += r->windows[i].nll2;
    }
    if (r->convention == INFQ_PPL_GPTQ) {
        infq_moments m;
        for (int64_t i = 0; i < n; i++)
            x[i] = r->windows[i].nll / (double)r->windows[i].n;
        m = infq_moments_of(x, n);
        r->mean_nll = m.mean;
        r->se = m.se;
    } else {
        r->mean_nll = total / (double)r->n_tokens;
        r->se = sqrt((total2 / (double)r->n_tokens - r->mean_nll * r->mean_nll) / (double)(r->n_tokens - 1));
    }
    if (r->convention == INFQ_PPL_ROLLING) {
        for (int64_t d = 0; d < n_docs; d++) {
            x[d] = 0;
            bytes[d] = (double)infq_corpus_get(c, (size_t)d)->bytes;
            r->words += infq_corpus_get(c, (size_t)d)->words;
            r->bytes += infq_corpus_get(c, (size_t)d)->bytes;
        }
        for (int64_t i = 0; i < n; i++)
            x[r->windows[i].doc] += r->windows[i].nll;
        r->word_ppl = exp(total / (double)r->words);
        r->byte_ppl = exp(total / (double)r->bytes);
        r->bits_per_byte = total / (double)r->bytes / M_LN2;
        r->se = infq_ratio_of(x, bytes, n_docs).se;
    }
    r->ppl = exp(r->mean_nll);
    infq_mem_free(x);
    return 0;
}

infq_status infq_ppl_measure(infq_model *m, const infq_tokenizer *tok, const infq_corpus *c, const infq_ppl_options *o,
                             infq_ppl_result *out, infq_err *err)
{
    infq_ppl_result res = {.convention = o->convention, .se = NAN, .word_ppl = NAN, .byte_ppl = NAN, .bits_per_byte = NAN};
    runner r = {.m = m, .log = o->log, .store = o->store, .out = &res};
    int64_t max = infq_model_config(m)->max_positions;
    infq_status st = 0;

    res.window = o->window > 0 ? o->window : infq_ppl_default_window(o->convention, max);
    res.n_docs = (int64_t)infq_corpus_count(c);
    if (res.window > max || res.window < 4)
        return infq_err_set(err, INFQ_E_USAGE, "--window %lld: 4 to %lld positions are possible with this model",
                            (long long)res.window, (long long)max);
    for (int64_t d = 0; d < res.n_docs && !st; d++) {
        if (o->convention == INFQ_PPL_ROLLING)
            r.total = 0;
        st = run_doc(&r, tok, o, infq_corpus_get(c, (size_t)d), d, err);
        if (!st && o->convention == INFQ_PPL_ROLLING)
            infq_progress(o->log, "perplexity", (uint64_t)(d + 1), (uint64_t)res.n_docs);
    }
    if (!st && res.n_windows == 0)
        st = infq_err_set(err, INFQ_E_FORMAT, "the text has no tokens");
    if (!st)
        st = finish(&res, c, err);
    if (st)
        infq_ppl_result_free(&res);
    else
        *out = res;
    return st;
}

void infq_ppl_result_free(infq_ppl_result *r)
{
    infq_mem_free(r->windows);
    r->windows = NULL;
    r->n_windows = 0;
}

infq_status infq_ppl_ratio(const infq_ppl_result *a, const infq_ppl_result *b, double *ln_ratio, double *se, int64_t *n,
                           infq_err *err)
{
    double *num = NULL, *den;
    infq_ratio r;
    bool by_doc = a->convention == INFQ_PPL_ROLLING;
    int64_t groups = 0;

    if (a->convention != b->convention || a->window != b->window || a->n_windows != b->n_windows)
        return infq_err_set(err, INFQ_E_MISMATCH, "perplexities of %s windows of %lld and %s windows of %lld are not comparable",
                            infq_ppl_name(a->convention), (long long)a->window, infq_ppl_name(b->convention), (long long)b->window);
    INFQ_TRY(infq_mem_new(2 * (size_t)a->n_windows, sizeof(*num), "paired windows", (void **)&num, err));
    den = num + a->n_windows;
    for (int64_t i = 0; i < a->n_windows; i++) {
        if (a->windows[i].n != b->windows[i].n) {
            infq_mem_free(num);
            return infq_err_set(err, INFQ_E_MISMATCH, "window %lld has %lld and %lld targets", (long long)i,
                                (long long)a->windows[i].n, (long long)b->windows[i].n);
        }
        if (groups == 0 || !by_doc || a->windows[i].doc != a->windows[i - 1].doc) {
            num[groups] = den[groups] = 0;
            groups++;
        }
        num[groups - 1] += b->windows[i].nll - a->windows[i].nll;
        den[groups - 1] += (double)a->windows[i].n;
    }
    r = infq_ratio_of(num, den, groups);
    *ln_ratio = r.r;
    *se = r.se;
    *n = groups;
    infq_mem_free(num);
    return 0;
}
