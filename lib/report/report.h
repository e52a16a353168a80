/* What was measured and decided about models, gathered from the JSON that the tools print, and written for people and for machines.
 *
 * infq_report_add reads documents by their schema (docs/format/reports.md lists them); figures of one model from several documents come
 * together by its path or name. Renderers are rows of a table: Markdown, one HTML page, JUnit XML, JSON. Scores and gaps are fractions here and
 * points (hundredths) in print; a figure that nobody measured is NAN and left out. */
#ifndef INFQ_REPORT_REPORT_H
#define INFQ_REPORT_REPORT_H

#include "lib/base/json.h"
#include "lib/report/flips.h"

typedef enum {
    INFQ_REPORT_NONE,      /* nothing was decided */
    INFQ_REPORT_PASS,
    INFQ_REPORT_FAIL,
    INFQ_REPORT_UNDECIDED,
    INFQ_REPORT_REFUSED    /* the sides are not comparable, or a step could not be done */
} infq_report_verdict;
const char *infq_report_verdict_name(infq_report_verdict v); /* "", "pass", ... */
infq_report_verdict infq_report_verdict_of(const char *name); /* "met" and "not met" too; NONE if unknown or NULL */

/* All strings are borrowed from the report. */
typedef struct {
    const char *name, *path;
    double bytes, bits;                /* of all tensors; bits per weight */
    double score;                      /* mean over the tasks of the metric that decides */
    double gap, lo, hi;                /* of the score against the first model */
    double kld, kld_se, ln_ratio;      /* first text with a distance from the first model */
    double decode, prefill, ttft_p90;  /* tokens a second, ms */
    bool front;                        /* no other model is at most as large and at least as good */
    infq_report_verdict verdict;
} infq_report_model;

typedef struct {
    const char *task, *metric, *reason;
    int64_t n, lost, won;
    double first, second, gap, lo, hi;
    double noise;                      /* limit of the original's own run-to-run differences */
    infq_report_verdict verdict;
} infq_report_task;

/* A guard, a verification, a target of a bench: something with an answer of its own. */
typedef struct {
    const char *group, *name, *text;   /* text: one sentence */
    infq_report_verdict verdict;
    bool decides;                      /* its verdict is part of the report's; a guard's is in the gate's already */
} infq_report_check;

typedef struct {
    const char *first, *second, *sentence; /* names; the outcome in plain words */
    const char *first_items, *second_items; /* as the document names the sides: names, or paths of items */
    infq_report_task *tasks;
    int n_tasks;
    int64_t n, lost, won;
    double gap, lo, hi, margin, confidence, noise;
    const char **more;                 /* further sentences: reasons, what would decide */
    int n_more;
    infq_report_verdict verdict;
    bool alone;                        /* the question of the report: its verdict is the report's */
    bool beside;                       /* neighbours in size, not against the first model */
    infq_flip *flips;
    int64_t n_flips, n_changed;        /* kept of all that changed */
} infq_report_comparison;

typedef struct {
    const char *file, *convention;
    int64_t window, tokens;
    int n_models;
    const char **names;
    double *ppl, *nll_se, *ln_ratio, *ln_ratio_se;
} infq_report_ppl;

#define INFQ_REPORT_BINS 64
typedef struct {
    const char *text, *model;
    int64_t n;
    double mean, se, median, p99, max, same_top, ln_ratio, ln_ratio_se;
    int n_bins;
    double edge[INFQ_REPORT_BINS];     /* lower edges, rising; the first may be 0 */
    int64_t count[INFQ_REPORT_BINS];
} infq_report_kld;

typedef struct {
    const char *key, *value;
} infq_report_pair;

typedef struct {
    const char *title;
    infq_report_verdict verdict;
    const char *sentence;              /* NULL when nothing was decided */
    infq_report_model *models;
    infq_report_comparison *comparisons;
    infq_report_ppl *ppl;
    infq_report_kld *kld;
    infq_report_check *checks;
    infq_report_pair *settings;
    int n_models, n_comparisons, n_ppl, n_kld, n_checks, n_settings;
    struct infq_report_store *store;   /* owner of everything above */
} infq_report;

infq_status infq_report_new(const char *title, infq_report **out, infq_err *err);
void infq_report_free(infq_report *r);
/* Takes the document (also on failure). what names it in messages. UNSUPPORTED names an unknown schema. */
infq_status infq_report_add(infq_report *r, cJSON *doc, const char *what, infq_err *err);
infq_status infq_report_add_file(infq_report *r, const char *path, infq_err *err);
typedef struct {
    const char *items;                 /* folder of infeval --items (NULL: the one that the documents name) */
    int64_t max_flips;                 /* kept of each comparison, worst first; 100 */
} infq_report_options;
infq_report_options infq_report_options_default(void);
/* After the last document: items that changed (of comparisons that bring none, from item files if they are there; MISMATCH when those do not belong to
 * the document), front, verdict and sentence of the whole. */
infq_status infq_report_finish(infq_report *r, const infq_report_options *o, infq_err *err);

typedef struct {
    const char *name, *suffix;         /* "html", ".html" */
    infq_status (*write)(const infq_report *r, infq_buf *to, infq_err *err);
} infq_report_format;
const infq_report_format *infq_report_format_find(const char *name);      /* by name; NULL if unknown */
const infq_report_format *infq_report_format_of_path(const char *path);   /* by suffix; NULL if unknown */

infq_status infq_report_markdown(const infq_report *r, infq_buf *to, infq_err *err);
infq_status infq_report_html(const infq_report *r, infq_buf *to, infq_err *err);
infq_status infq_report_junit(const infq_report *r, infq_buf *to, infq_err *err);
infq_status infq_report_json(const infq_report *r, infq_buf *to, infq_err *err);

/* on[i]: no j has cost[j] <= cost[i] and worth[j] >= worth[i] with one of them strict. Entries with a NAN are never on it and rule nobody out. */
void infq_front(const double *cost, const double *worth, int n, bool *on);

#endif
