/* What infq quantize and infq prune share: calibration data, plan, work, and when what is printed of them. */
#ifndef INFQ_TOOLS_COMPRESS_RUN_H
#define INFQ_TOOLS_COMPRESS_RUN_H

#include "lib/compress/quantize.h"

typedef struct {
    const char *name;          /* "infq prune" */
    const char *schema;        /* of --json: "infq.prune.v1" */
    bool dry_run, force, no_verify, json, quiet;
    const char *calib;         /* file or "self"; NULL: no data is used */
    int64_t calib_tokens, calib_window;
    uint64_t seed;             /* of "self" */
    /* The plan before the work, the report after it; with --json the members of one object that holds both. */
    void (*plan_text)(const infq_plan *p, infq_buf *to);
    void (*plan_json)(const infq_plan *p, infq_jw *w);
    void (*report_text)(const infq_plan *p, const infq_quantize_result *r, infq_buf *to);
    void (*report_json)(const infq_plan *p, const infq_quantize_result *r, infq_jw *w);
} compress_command;

/* Plans and, without dry_run, carries out. po: calib, verified are set here. *passed: false when verification failed. EXISTS when
 * the output is there and force is not set. */
infq_status compress_run(const compress_command *c, const char *path, infq_plan_options *po, bool *passed, infq_err *err);

/* What a plan needs, and what is to be known before: memory, disk, time, notes; as lines and as members of an object. */
void compress_needs_text(const infq_plan *p, infq_buf *to);
void compress_needs_json(const infq_plan *p, infq_jw *w);

#endif
