/* What an engine asks of a quantized model's shapes and schemes (formats.md 4.1.7, 7, 8). */
#ifndef INFQ_COMPRESS_ENGINE_H
#define INFQ_COMPRESS_ENGINE_H

#include "lib/format/module.h"

typedef struct {
    bool fail;          /* the engine does not load it; otherwise a warning */
    char text[232];     /* one sentence */
} infq_finding;
typedef struct {
    infq_finding *v;
    size_t n, cap, n_fail;
} infq_findings;
void infq_findings_deinit(infq_findings *f);
infq_status infq_findings_add(infq_findings *f, bool fail, infq_err *err, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

/* Checks every module against the rules of an engine ("vllm", or NULL for the rules that hold for all, as warnings: members
 * of one fused group share a scheme; rows are whole groups of 128 where those share an activation scale) split over tp
 * devices. codecs[i] belongs to module i; elem NONE: not quantized. config may be NULL. Findings of one kind on modules of
 * one role are one sentence with their number. USAGE for other engines. */
infq_status infq_engine_check(const char *engine, int64_t tp, const infq_modules *ms, const infq_codec *codecs,
                              const cJSON *config, infq_findings *out, infq_err *err);

#endif
