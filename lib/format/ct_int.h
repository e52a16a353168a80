/* compressed-tensors: the parsed quantization_config. Between compressed_tensors.c and ct_config.c only. */
#ifndef INFQ_FORMAT_CT_INT_H
#define INFQ_FORMAT_CT_INT_H

#include "lib/base/str.h"
#include "lib/format/format.h"

typedef enum { INFQ_CT_PACK, INFQ_CT_INT, INFQ_CT_FLOAT, INFQ_CT_NAIVE, INFQ_CT_NVFP4, INFQ_CT_MXFP4 } infq_ct_kind;
typedef enum { INFQ_CT_TENSOR, INFQ_CT_CHANNEL, INFQ_CT_GROUP, INFQ_CT_BLOCK, INFQ_CT_TENSOR_GROUP } infq_ct_strategy;

/* An exact module name, a class name ("Linear"), or a regular expression. */
typedef struct {
    char *text;
    infq_pattern *re;  /* NULL unless "re:" */
} infq_ct_target;

typedef struct {
    infq_ct_target *targets;
    size_t n_targets;
    infq_ct_kind kind;
    int bits;
    bool is_float, symmetric, act_order;
    infq_ct_strategy strategy;
    int32_t group_size, block_rows, block_cols;
    infq_act act;
} infq_ct_group;

typedef struct {
    infq_ct_group *groups;
    size_t n_groups;
    infq_ct_target *ignore;
    size_t n_ignore;
} infq_ct_config;

/* FORMAT and UNSUPPORTED name the member. */
infq_status infq_ct_config_parse(const cJSON *q, infq_ct_config **out, infq_err *err);
void infq_ct_config_free(infq_ct_config *c);
/* The group that says how `module` is stored; NULL when it is ignored or not targeted. */
const infq_ct_group *infq_ct_config_match(const infq_ct_config *c, const char *module);

#endif
