/* Between report.c (what is gathered) and report_read_*.c (one file a family of schemas). */
#ifndef INFQ_REPORT_REPORT_INT_H
#define INFQ_REPORT_REPORT_INT_H

#include "lib/base/arena.h"
#include "lib/report/report.h"

struct infq_report_store {
    infq_arena *arena;
    cJSON **docs;       /* owned; strings of the report point into them */
    int n_docs;
    const char *items;  /* folder that a document names */
};

/* One more zeroed entry at the end of a list of the report, grown in the arena. */
infq_status infq_report_grow(infq_report *r, void *list, int *n, size_t size, void **entry, infq_err *err);
/* Figures start as NAN. */
infq_status infq_report_model_get(infq_report *r, const char *name, const char *path, infq_report_model **out, infq_err *err);
/* Takes the text out of b and empties it. */
infq_status infq_report_check_add(infq_report *r, const char *group, const char *name, infq_report_verdict v, bool decides, infq_buf *text,
                                  infq_err *err);
infq_status infq_report_setting(infq_report *r, const char *key, const char *value, infq_err *err);
/* Text kept as long as the report. */
infq_status infq_report_text(infq_report *r, const infq_buf *b, const char **out, infq_err *err);

/* A number or NAN; a count or 0; a text or NULL. Absent and null are no error, other types are FORMAT naming the key. */
infq_status infq_report_num(const cJSON *o, const char *key, double *out, infq_err *err);
infq_status infq_report_int(const cJSON *o, const char *key, int64_t *out, infq_err *err);
infq_status infq_report_str(const cJSON *o, const char *key, const char **out, infq_err *err);
infq_status infq_report_interval(const cJSON *o, const char *key, double *lo, double *hi, infq_err *err);

/* Readers by schema. */
infq_status infq_report_read_eval(infq_report *r, const cJSON *doc, infq_err *err);
infq_status infq_report_read_gate(infq_report *r, const cJSON *doc, infq_err *err);
infq_status infq_report_read_bench(infq_report *r, const cJSON *doc, infq_err *err);
infq_status infq_report_read_run(infq_report *r, const cJSON *doc, infq_err *err);
infq_status infq_report_read_verify(infq_report *r, const cJSON *doc, infq_err *err);

/* report_flips.c */
infq_status infq_report_find_flips(infq_report *r, const infq_report_options *o, infq_err *err);

#endif
