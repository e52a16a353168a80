/* config.json as transformers 4 and 5 write it, read into one struct by the rows of arch.c. */
#ifndef INFQ_MODEL_CONFIG_H
#define INFQ_MODEL_CONFIG_H

#include "lib/backend/backend.h"
#include "lib/io/checkpoint.h"

#define INFQ_MAX_LAYERS 512

typedef enum { INFQ_ROPE_NONE, INFQ_ROPE_DEFAULT, INFQ_ROPE_LINEAR, INFQ_ROPE_DYNAMIC, INFQ_ROPE_YARN, INFQ_ROPE_LONGROPE,
               INFQ_ROPE_LLAMA3 } infq_rope_type;

typedef struct {
    infq_rope_type type;
    double base, factor, partial;          /* partial_rotary_factor */
    double low_freq_factor, high_freq_factor;
    double beta_fast, beta_slow, attention_factor /* < 0: not given */, mscale, mscale_all_dim;
    bool truncate;
    int64_t original_max_positions;
    double short_factor[256], long_factor[256];
    int n_factors;
} infq_rope_config;

typedef struct infq_arch infq_arch; /* a row of arch.c */

typedef struct {
    const infq_arch *arch;
    char model_type[64];
    int64_t n_layers, hidden, n_heads, n_kv_heads, head_dim, ffn, vocab, max_positions;
    infq_fn act;
    double norm_eps;
    bool tied, qkv_bias, o_bias, mlp_bias, qk_norm;
    int64_t window[INFQ_MAX_LAYERS];       /* 0: full */
    infq_rope_config rope;
    int32_t bos, eos[8];
    int n_eos;
} infq_config;

/* Finds the arch row of model_type (or architectures[0]) and reads the configuration. UNSUPPORTED by name for unknown
 * architectures and rope types; FORMAT when numbers contradict each other or the tensors (cases B27, B36, B40). */
infq_status infq_config_read(const infq_checkpoint *ck, infq_config *out, infq_err *err);
/* cos/sin table of backend.h's rope op for positions 0..n_positions-1; cos_sin: [n_positions][n_rot]. Returns n_rot. */
int64_t infq_rope_n_rot(const infq_config *c);
void infq_rope_table(const infq_config *c, int64_t n_positions, float *cos_sin);
/* Parameters by shapes (tied counted once). */
int64_t infq_config_params(const infq_config *c);

#endif
