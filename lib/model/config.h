/* config.json as transformers 4 and 5 write it, read into one struct by the rows of arch.c. */
#ifndef INFQ_MODEL_CONFIG_H
#define INFQ_MODEL_CONFIG_H

#include "lib/backend/backend.h"
#include "lib/io/checkpoint.h"

#define INFQ_MAX_LAYERS 512
#define INFQ_MAX_ROPE_PAIRS 256

typedef enum { INFQ_ROPE_NONE, INFQ_ROPE_DEFAULT, INFQ_ROPE_LINEAR, INFQ_ROPE_DYNAMIC, INFQ_ROPE_YARN, INFQ_ROPE_LONGROPE,
               INFQ_ROPE_LLAMA3 } infq_rope_type;

typedef struct {
    infq_rope_type type;
    double base, factor, partial;          /* partial_rotary_factor */
    double low_freq_factor, high_freq_factor;
    double beta_fast, beta_slow, attention_factor /* < 0: not given */, mscale, mscale_all_dim;
    bool truncate;
    int64_t original_max_positions;
    double short_factor[INFQ_MAX_ROPE_PAIRS], long_factor[INFQ_MAX_ROPE_PAIRS];
} infq_rope_config;

typedef struct infq_arch infq_arch; /* a row of arch.c */

#define INFQ_MAX_EOS 16

typedef struct {
    const infq_arch *arch;
    const char *prefix;                    /* in front of the row's tensor names in this file ("transformer.", "") */
    char model_type[64];
    int64_t n_layers, hidden, n_heads, n_kv_heads, head_dim, ffn, vocab, max_positions;
    infq_fn act;
    double norm_eps, attn_scale;
    bool tied, qkv_bias, o_bias, mlp_bias, qk_norm;
    bool attn_scale_by_layer;              /* layer i divides attn_scale by i + 1 (GPT-2's option) */
    int64_t window[INFQ_MAX_LAYERS];       /* positions a token sees, itself included; 0: all */
    bool no_rope[INFQ_MAX_LAYERS];         /* layers without rotation (SmolLM3) */
    infq_rope_config rope;
    int32_t bos;                           /* -1: none */
    int32_t eos[INFQ_MAX_EOS];             /* of generation_config.json, else of config.json */
    int n_eos;
} infq_config;

/* Finds the arch row of model_type (or architectures[0]) and reads the configuration, keys that are left out as the
 * architecture's class defaults. NOT_FOUND without config.json; UNSUPPORTED by name for unknown architectures,
 * activations and rope types; FORMAT when numbers contradict each other or the stored tensors (cases B27, B36, B40). */
infq_status infq_config_read(const infq_checkpoint *ck, infq_config *out, infq_err *err);
/* The same from parsed JSON alone: no tensors, no generation_config.json. */
infq_status infq_config_parse(const cJSON *json, infq_config *out, infq_err *err);
bool infq_config_is_eos(const infq_config *c, int32_t id);

/* Rotated elements of a head: 0 without rotary positions. */
int64_t infq_rope_n_rot(const infq_config *c);
/* inv: [n_rot / 2] angles of one position step; returns the factor on cos and sin. `length` is the longest sequence that
 * the same cache will hold: "dynamic" and "longrope" choose their frequencies by it, since rotated keys are kept. */
double infq_rope_freqs(const infq_config *c, int64_t length, double *inv);
/* cos/sin table of backend.h's rope op: positions pos0 .. pos0 + n - 1, cos_sin: [n][n_rot], angles in double. */
void infq_rope_table(const infq_config *c, int64_t length, int64_t pos0, int64_t n, float *cos_sin);
/* Parameters by shapes (tied counted once). */
int64_t infq_config_params(const infq_config *c);

#endif
