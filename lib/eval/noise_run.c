#include "lib/eval/noise_run.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "lib/base/file.h"
#include "lib/base/par.h"
#include "lib/base/rng.h"

/* Items nearer to a tie than 6 tau (specs 2.4, rule 6), or than twice the largest change of the pilot, are scored in every run: changes have heavier tails
 * than a normal distribution, and 6 tau alone missed a change of 8 tau. */
#define NEAR_TAU 6.0
#define NEAR_LARGEST 2.0

static const char *const source_names[] = {"orders", "roundoff", "repeat"};

const char *infq_noise_source_name(infq_noise_source s)
{
    return source_names[s];
}

bool infq_noise_source_find(const char *name, infq_noise_source *out)
{
    for (int i = 0; i < 3; i++) {
        if (strcmp(name, source_names[i]) == 0) {
            *out = (infq_noise_source)i;
            return true;
        }
    }
    return false;
}

infq_noise_options infq_noise_options_default(void)
{
    return (infq_noise_options){.source = INFQ_NOISE_ORDERS, .n_runs = 10, .seed = 1, .activations = INFQ_ELEM_BF16, .kv = INFQ_ELEM_BF16,
                                .roundoff = 0x1p-9, .pilot = 200, .checked = 100, .score = infq_score_options_default()};
}

infq_numerics infq_noise_numerics(const infq_noise_options *o, int j)
{
    infq_numerics n = infq_numerics_default();
    infq_rng rng;

    if (o->source == INFQ_NOISE_ROUNDOFF) {
        n.roundoff = o->roundoff;
        n.seed = o->seed + (uint64_t)j;
        return n;
    }
    n.activations = n.residual = o->activations;
    n.kv = o->kv;
    if (o->source == INFQ_NOISE_REPEAT)
        return n;
    n.seed = o->seed + (uint64_t)j;
    rng = infq_rng_seed(n.seed);
    n.k_parts = 2 + (int32_t)infq_rng_below(&rng, INFQ_K_PARTS_MAX - 1);
    return n;
}

void infq_noise_label(const infq_noise_options *o, int j, char *out, size_t cap)
{
    infq_numerics n = infq_noise_numerics(o, j);
    char text[128];

    infq_numerics_describe(&n, text, sizeof(text));
    if (o->source == INFQ_NOISE_REPEAT)
        snprintf(out, cap, "%s batch=%d", text, j + 1);
    else
        snprintf(out, cap, "%s", text);
}

void infq_noise_runs_free(infq_noise_runs *r)
{
    for (int j = 0; r->items && j < r->n_runs; j++)
        infq_items_free(r->items[j]);
    infq_mem_free(r->items);
    memset(r, 0, sizeof(*r));
}

typedef struct {
    infq_model *m;
    const infq_tokenizer *tok;
    const infq_task *task;
    const infq_noise_options *o;
    const infq_item_key *key;
    infq_noise_runs *r;
    int64_t n, n_docs;       /* in use, of the task */
    uint8_t *skip;           /* [n_docs] */
    int64_t *order;          /* [n_docs] room for those that are not skipped */
} runner;

static infq_status run_key(const runner *x, int j, bool carried, infq_item_key *out, infq_err *err)
{
    char label[128];

    *out = *x->key;
    infq_noise_label(x->o, j, label, sizeof(label));
    if (snprintf(out->settings, sizeof(out->settings), "%s" INFQ_SETTINGS_RUN "%s%s", x->key->settings, label, carried ? " carried" : "") >=
        (int)sizeof(out->settings))
        return infq_err_set(err, INFQ_E_UNSUPPORTED, "the settings of a run are longer than %zu bytes", sizeof(out->settings) - 1);
    return 0;
}

static infq_status run_path(const runner *x, int j, char *out, size_t cap, infq_err *err)
{
    char name[128];

    snprintf(name, sizeof(name), "%s", infq_task_name(x->task));
    for (char *c = name; *c; c++)
        *c = *c == '/' ? '_' : *c;
    if (snprintf(out, cap, "%s/run-%d.%s.jsonl", x->o->folder, j + 1, name) >= (int)cap)
        return infq_err_set(err, INFQ_E_IO, "%.40s...: the path is too long", x->o->folder);
    return 0;
}

/* Scores the documents that x->skip leaves, under run j's numerics, behind what `items` holds. */
static infq_status score(const runner *x, int j, infq_items *items, infq_item_log *log, infq_err *err)
{
    infq_score_options so = x->o->score;
    infq_numerics n = infq_noise_numerics(x->o, j);
    int64_t n_left = 0;

    for (int64_t i = 0; i < x->n_docs; i++)
        if (!x->skip[i])
            x->order[n_left++] = i;
    if (n_left == 0)
        return 0;
    so.order = x->order;
    so.n_order = n_left;
    so.log = x->o->log;
    if (x->o->source == INFQ_NOISE_REPEAT)
        so.batch = j + 1;
    INFQ_TRY(infq_model_set_numerics(x->m, &n, err));
    return infq_score_task(x->m, x->tok, x->task, &so, items, log, err);
}

static void skip_none(runner *x)
{
    for (int64_t i = 0; i < x->n_docs; i++)
        x->skip[i] = i >= x->n;
}

/* Run j with every item, going on with its file. */
static infq_status full_run(runner *x, int j, infq_err *err)
{
    infq_item_key key;
    infq_item_log *log = NULL;
    char path[4096];
    infq_err other;
    infq_status st, closed;

    skip_none(x);
    INFQ_TRY(run_key(x, j, false, &key, err));
    INFQ_TRY(infq_items_new(&key, &x->r->items[j], err));
    if (x->o->folder) {
        INFQ_TRY(run_path(x, j, path, sizeof(path), err));
        INFQ_TRY(infq_item_log_open(path, x->r->items[j], &log, err));
    }
    st = score(x, j, x->r->items[j], log, err);
    closed = infq_item_log_close(log, &other);
    if (!st && closed)
        *err = other;
    return st ? st : closed;
}

/* Divisor of a continuation's log-likelihood under a metric; 0: not a metric of picks by log-likelihood. */
static double length_of(const infq_item *it, const char *metric, int64_t k)
{
    if (strcmp(metric, "acc") == 0)
        return 1;
    if (strcmp(metric, "acc_norm") == 0)
        return (double)it->chars[k];
    return strcmp(metric, "acc_bytes") == 0 ? (double)it->bytes[k] : 0;
}

static double value_of(const infq_item *it, const char *metric, int64_t k)
{
    return it->ll[k] / length_of(it, metric, k);
}

/* The two best continuations; false when the item is no choice among at least two with lengths. */
static bool best_two(const infq_item *it, const char *metric, int64_t *a, int64_t *b)
{
    *a = *b = -1;
    if (it->kind != INFQ_ITEM_CHOICE || it->n < 2)
        return false;
    for (int64_t k = 0; k < it->n; k++) {
        if (!(length_of(it, metric, k) > 0))
            return false;
        if (*a < 0 || value_of(it, metric, k) > value_of(it, metric, *a)) {
            *b = *a;
            *a = k;
        } else if (*b < 0 || value_of(it, metric, k) > value_of(it, metric, *b)) {
            *b = k;
        }
    }
    return true;
}

static double lead(const infq_item *it, const char *metric, int64_t a, int64_t b)
{
    return value_of(it, metric, a) - value_of(it, metric, b);
}

/* Standard deviation of the change of the lead over the pilot, and how near to a tie that makes an item; false when the short cut does not apply. */
static bool change_of_lead(const infq_items *one, const infq_items *two, const char *metric, double *tau, double *near)
{
    double sum = 0, sum2 = 0, largest = 0, n = (double)infq_items_count(two);

    for (int64_t i = 0; i < infq_items_count(two); i++) {
        int64_t a, b;
        double d;
        if (!best_two(infq_items_get(one, i), metric, &a, &b))
            return false;
        d = lead(infq_items_get(two, i), metric, a, b) - lead(infq_items_get(one, i), metric, a, b);
        sum += d;
        sum2 += d * d;
        largest = fmax(largest, fabs(d));
    }
    if (n < 2)
        return false;
    *tau = sqrt(fmax(0, (sum2 - sum * sum / n) / (n - 1)));
    *near = fmax(NEAR_TAU * *tau, NEAR_LARGEST * largest);
    return true;
}

static bool metric_differs(const infq_item *a, const infq_item *b, const char *metric)
{
    double x = 0, y = 0;

    return !infq_item_metric_get(a, metric, &x) || !infq_item_metric_get(b, metric, &y) || x != y;
}

/* Marks the near items to be scored (skip 0) and all others as carried (skip 1); their number. */
static int64_t mark_near(runner *x)
{
    const char *metric = x->key->metric;
    int64_t near = 0;

    for (int64_t i = 0; i < x->n_docs; i++) {
        int64_t a, b;
        bool far = i >= x->n || (best_two(infq_items_get(x->r->items[0], i), metric, &a, &b) &&
                                 lead(infq_items_get(x->r->items[0], i), metric, a, b) >= x->r->near);
        x->skip[i] = far;
        near += !far;
    }
    return near;
}

/* All items of run j: those of `fresh`, in order, where scored is 0 in `carried`, run 1's elsewhere. */
static infq_status merge(runner *x, int j, const infq_items *fresh, const uint8_t *carried, infq_err *err)
{
    infq_item_key key;
    int64_t at = 0;

    INFQ_TRY(run_key(x, j, true, &key, err));
    INFQ_TRY(infq_items_new(&key, &x->r->items[j], err));
    for (int64_t i = 0; i < x->n; i++)
        INFQ_TRY(infq_items_add_copy(x->r->items[j], carried[i] ? infq_items_get(x->r->items[0], i) : infq_items_get(fresh, at++), err));
    return 0;
}

/* Writes a merged run; what an interrupted writing left is gone on with. */
static infq_status keep(const runner *x, int j, infq_err *err)
{
    infq_items *there = NULL;
    infq_item_log *log = NULL;
    char path[4096];
    infq_err other;
    infq_status st, closed;

    if (!x->o->folder)
        return 0;
    INFQ_TRY(run_path(x, j, path, sizeof(path), err));
    INFQ_TRY(infq_items_new(infq_items_key(x->r->items[j]), &there, err));
    st = infq_item_log_open(path, there, &log, err);
    for (int64_t i = st ? x->n : infq_items_count(there); i < x->n && !st; i++)
        st = infq_item_log_add(log, infq_items_get(x->r->items[j], i), err);
    closed = infq_item_log_close(log, &other);
    if (!st && closed)
        *err = other;
    infq_items_free(there);
    return st ? st : closed;
}

/* Takes run j from its file when that is whole. */
static infq_status take_up(runner *x, int j, bool *done, infq_err *err)
{
    infq_item_key key;
    infq_items *there = NULL;
    infq_item_log *log = NULL;
    char path[4096];
    infq_status st;

    *done = false;
    if (!x->o->folder)
        return 0;
    INFQ_TRY(run_path(x, j, path, sizeof(path), err));
    if (!infq_path_exists(path))
        return 0;
    INFQ_TRY(run_key(x, j, true, &key, err));
    INFQ_TRY(infq_items_new(&key, &there, err));
    st = infq_item_log_open(path, there, &log, err);
    if (!st)
        st = infq_item_log_close(log, err);
    if (!st && infq_items_count(there) == x->n) {
        x->r->items[j] = there;
        there = NULL;
        *done = true;
    }
    infq_items_free(there);
    return st;
}

/* Scores what x->skip leaves into a set of its own, which goes behind `to`. */
static infq_status score_more(const runner *x, int j, infq_items *to, infq_err *err)
{
    infq_items *more = NULL;
    infq_status st;

    INFQ_TRY(infq_items_new(x->key, &more, err));
    st = score(x, j, more, NULL, err);
    for (int64_t i = 0; !st && i < infq_items_count(more); i++)
        st = infq_items_add_copy(to, infq_items_get(more, i), err);
    infq_items_free(more);
    return st;
}

/* Run 2: the pilot, then the near items behind it and a sample of the others. *ok: the short cut holds; if not nothing is kept. */
static infq_status second_run(runner *x, bool *ok, infq_err *err)
{
    const char *metric = x->key->metric;
    infq_rng rng = infq_rng_seed(x->o->seed);
    uint8_t *carried = NULL;
    infq_items *fresh = NULL;
    int64_t pilot = x->o->pilot < x->n ? x->o->pilot : x->n, far, at = 0, want;
    infq_status st;

    *ok = false;
    for (int64_t i = 0; i < x->n_docs; i++)
        x->skip[i] = i >= pilot;
    INFQ_TRY(infq_items_new(x->key, &fresh, err));
    st = score(x, 1, fresh, NULL, err);
    if (st || !change_of_lead(x->r->items[0], fresh, metric, &x->r->tau, &x->r->near))
        goto done;
    st = infq_mem_new((size_t)x->n_docs, 1, "carried items", (void **)&carried, err);
    if (st)
        goto done;
    far = x->n - mark_near(x);
    memcpy(carried, x->skip, (size_t)x->n_docs);
    for (int64_t i = 0; i < pilot; i++) {
        far -= carried[i];
        carried[i] = 0;
        x->skip[i] = 1; // scored already
    }
    want = x->o->checked; // a sample without repetition of what would be carried over
    for (int64_t i = pilot; i < x->n; i++) {
        if (!carried[i])
            continue;
        if ((int64_t)infq_rng_below(&rng, (uint64_t)far--) < want) {
            carried[i] = x->skip[i] = 0;
            want--;
        }
    }
    st = score_more(x, 1, fresh, err);
    if (!st)
        mark_near(x); // from here on skip says which items later runs leave out
    *ok = true;
    for (int64_t i = 0; i < x->n && !st; i++) {
        bool scored = !carried[i];
        if (scored && x->skip[i]) {
            bool flip = metric_differs(infq_items_get(fresh, at), infq_items_get(x->r->items[0], i), metric);
            x->r->n_checked++;
            x->r->n_check_flips += flip;
            *ok = *ok && !flip;
        }
        at += scored;
    }
    if (!st && *ok)
        st = merge(x, 1, fresh, carried, err);
    if (!st && *ok)
        st = keep(x, 1, err);
done:
    infq_items_free(fresh);
    infq_mem_free(carried);
    return st;
}

/* Runs 3.. with the items that x->skip leaves. */
static infq_status short_run(runner *x, int j, infq_err *err)
{
    infq_items *fresh = NULL;
    bool done;
    infq_status st;

    INFQ_TRY(take_up(x, j, &done, err));
    if (done)
        return 0;
    INFQ_TRY(infq_items_new(x->key, &fresh, err));
    st = score(x, j, fresh, NULL, err);
    if (!st)
        st = merge(x, j, fresh, x->skip, err);
    infq_items_free(fresh);
    return st ? st : keep(x, j, err);
}

static infq_status all_runs(runner *x, infq_err *err)
{
    bool applies = !x->o->every_item && x->o->source != INFQ_NOISE_REPEAT && x->n > x->o->pilot;
    int64_t scored = 0;
    int64_t a, b;

    INFQ_TRY(full_run(x, 0, err));
    x->r->tau = x->r->near = NAN;
    x->r->rescored = 1;
    if (applies && best_two(infq_items_get(x->r->items[0], 0), x->key->metric, &a, &b))
        INFQ_TRY(second_run(x, &x->r->short_cut, err));
    for (int64_t i = 0; x->r->short_cut && i < x->n; i++)
        scored += !x->skip[i];
    if (x->r->short_cut)
        x->r->rescored = (double)scored / (double)x->n;
    for (int j = x->r->short_cut ? 2 : 1; j < x->o->n_runs; j++)
        INFQ_TRY(x->r->short_cut ? short_run(x, j, err) : full_run(x, j, err));
    return 0;
}

static infq_status runner_open(runner *x, int64_t limit, infq_err *err)
{
    x->n_docs = infq_task_count(x->task);
    x->n = limit > 0 && limit < x->n_docs ? limit : x->n_docs;
    INFQ_TRY(infq_mem_new((size_t)x->n_docs, sizeof(*x->order), "list of documents", (void **)&x->order, err));
    if (infq_mem_new((size_t)x->n_docs, 1, "list of documents", (void **)&x->skip, err)) {
        infq_mem_free(x->order);
        return err->code;
    }
    skip_none(x);
    return 0;
}

infq_status infq_noise_run_task(infq_model *m, const infq_tokenizer *tok, const infq_task *task, const infq_noise_options *o,
                                const infq_item_key *key, infq_noise_runs *out, infq_err *err)
{
    infq_numerics before = *infq_model_numerics(m);
    infq_noise_runs r = {.n_runs = o->n_runs};
    runner x = {.m = m, .tok = tok, .task = task, .o = o, .key = key, .r = &r};
    infq_err other;
    infq_status st;

    if (o->n_runs < 2 || o->n_runs > INFQ_NOISE_MAX_RUNS)
        return infq_err_set(err, INFQ_E_USAGE, "noise is measured with 2 to %d runs, not %d", INFQ_NOISE_MAX_RUNS, o->n_runs);
    INFQ_TRY(runner_open(&x, o->limit, err));
    r.n_full = x.n_docs;
    st = infq_mem_new((size_t)o->n_runs, sizeof(*r.items), "runs", (void **)&r.items, err);
    if (!st) {
        memset(r.items, 0, (size_t)o->n_runs * sizeof(*r.items));
        st = all_runs(&x, err);
    }
    infq_mem_free(x.skip);
    infq_mem_free(x.order);
    if (infq_model_set_numerics(m, &before, &other) && !st) {
        *err = other;
        st = other.code;
    }
    if (st) {
        infq_noise_runs_free(&r);
        return infq_err_in(err, "noise");
    }
    *out = r;
    return 0;
}

static bool same_bits(const infq_items *a, const infq_items *b)
{
    for (int64_t i = 0; i < infq_items_count(a); i++) {
        const infq_item *x = infq_items_get(a, i), *y = infq_items_get(b, i);
        if (x->n != y->n || memcmp(x->ll, y->ll, (size_t)x->n * sizeof(*x->ll)) != 0)
            return false;
    }
    return true;
}

infq_status infq_noise_repeats(infq_model *m, const infq_tokenizer *tok, const infq_task *task, const infq_noise_options *o, int64_t n,
                               bool *same, infq_err *err)
{
    infq_numerics before = *infq_model_numerics(m);
    infq_item_key key = {.task = ""};
    infq_noise_options oo = *o;
    runner x = {.m = m, .tok = tok, .task = task, .o = &oo, .key = &key};
    infq_items *a = NULL, *b = NULL;
    int threads = infq_par_threads();
    infq_err other;
    infq_status st;

    INFQ_TRY(runner_open(&x, o->limit > 0 && o->limit < n ? o->limit : n, err));
    st = infq_items_new(&key, &a, err);
    if (!st)
        st = infq_items_new(&key, &b, err);
    if (!st)
        st = score(&x, 0, a, NULL, err);
    oo.score.batch = o->score.batch == 3 ? 2 : 3;
    infq_par_threads_set(threads > 1 ? 1 : 2);
    if (!st)
        st = score(&x, 0, b, NULL, err);
    infq_par_threads_set(threads);
    if (!st)
        *same = same_bits(a, b);
    infq_items_free(a);
    infq_items_free(b);
    infq_mem_free(x.skip);
    infq_mem_free(x.order);
    if (infq_model_set_numerics(m, &before, &other) && !st) {
        *err = other;
        st = other.code;
    }
    return st;
}
