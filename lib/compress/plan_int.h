/* Steps of infq_plan_make, spread over plan.c, plan_fates.c and plan_sizes.c. */
#ifndef INFQ_COMPRESS_PLAN_INT_H
#define INFQ_COMPRESS_PLAN_INT_H

#include "lib/compress/plan.h"

/* Decides the fate and codec of every entry; patterns, group size, refusals by name. */
infq_status infq_plan_fates(infq_plan *p, infq_err *err);
/* Rules by pattern, after the default targets are known: sets rule and fate of what they match. USAGE names a rule that decides nothing. */
infq_status infq_plan_apply_rules(infq_plan *p, infq_err *err);
/* Columns of a group of entry e, which has a rule with a scheme; 0: whole rows. USAGE when the rule's size does not divide the row. */
infq_status infq_plan_rule_group(const infq_plan *p, const infq_plan_entry *e, int64_t *group, infq_err *err);
/* Before the fates: sparsity, method and scheme go together (USAGE). After them: the pattern divides every row, element types keep their
 * values, the source is not pruned already. Nothing to do where nothing is pruned. */
infq_status infq_plan_sparsity(const infq_plan *p, infq_err *err);
infq_status infq_plan_prunable(const infq_plan *p, infq_err *err);
/* Fills sparsity_text of a bare output. */
infq_status infq_plan_sparsity_text(infq_plan *p, infq_err *err);
/* Scales of this scheme belong to groups of columns whose size can be chosen. */
bool infq_plan_grouped(const infq_scheme *s);
/* Layouts, bytes, configuration text, engine rules, name of the output, fingerprint, time. */
infq_status infq_plan_sizes(infq_plan *p, infq_err *err);
/* Metadata pairs of every output file: the source's, then ours. */
typedef infq_status (*infq_plan_meta_fn)(void *ctx, const char *key, const char *value, infq_err *err);
infq_status infq_plan_meta(const infq_plan *p, infq_plan_meta_fn fn, void *ctx, infq_err *err);
/* Path of a source file (infq_mem_free). */
infq_status infq_plan_shard_path(const infq_plan *p, size_t i, char **out, infq_err *err);
/* Chunk size, scratch and peak memory; NOMEM above the limit. */
infq_status infq_plan_memory(infq_plan *p, infq_err *err);
/* What calibration holds at its highest, in addition to what the process held before. */
infq_status infq_calibrate_bytes(const infq_plan *p, uint64_t *bytes, infq_err *err);
/* Needed and free bytes; NOSPACE. */
infq_status infq_plan_disk(infq_plan *p, infq_err *err);

#endif
