/* Rows of the architecture table (arch.c). A decoder block is described by slots: one slot a tensor or matrix that the
 * forward pass knows, with a name template a family, a shape that follows from the configuration, and flags. */
#ifndef INFQ_MODEL_ARCH_INT_H
#define INFQ_MODEL_ARCH_INT_H

#include "lib/model/config.h"

typedef enum {
    INFQ_SLOT_EMBED,
    INFQ_SLOT_POSITIONS,
    INFQ_SLOT_FINAL_NORM,
    INFQ_SLOT_HEAD,
    INFQ_SLOT_ATTN_NORM, /* from here on: once a block */
    INFQ_SLOT_Q,
    INFQ_SLOT_K,
    INFQ_SLOT_V,
    INFQ_SLOT_QKV,       /* rows q, k, v in one matrix */
    INFQ_SLOT_Q_NORM,
    INFQ_SLOT_K_NORM,
    INFQ_SLOT_O,
    INFQ_SLOT_MLP_NORM,
    INFQ_SLOT_GATE,      /* a family without it: down(act(up(x))) */
    INFQ_SLOT_UP,
    INFQ_SLOT_DOWN,
    INFQ_SLOT_COUNT
} infq_slot;
#define INFQ_SLOT_BLOCK INFQ_SLOT_ATTN_NORM

/* Names of the configuration's members in a family; NULL: it has no such member. */
typedef struct {
    const char *hidden, *n_layers, *n_heads, *n_kv_heads, *head_dim, *ffn, *max_positions, *act, *norm_eps;
} infq_arch_keys;

#define INFQ_ARCH_LAYERNORM 1u          /* mean subtracted, bias; else RMS */
#define INFQ_ARCH_CONV1D 2u             /* block matrices are stored [in, out] */
#define INFQ_ARCH_QKV_BIAS 4u           /* always */
#define INFQ_ARCH_O_BIAS 8u
#define INFQ_ARCH_MLP_BIAS 16u
#define INFQ_ARCH_KEY_ATTN_BIAS 32u     /* "attention_bias" decides for q, k, v and o */
#define INFQ_ARCH_KEY_MLP_BIAS 64u      /* "mlp_bias" */
#define INFQ_ARCH_QK_NORM 128u          /* RMS norm of each q and k head before the rotation */
#define INFQ_ARCH_NO_ROPE 256u          /* learned positions */
#define INFQ_ARCH_NOPE_LAYERS 512u      /* "no_rope_layers", "no_rope_layer_interval" */
#define INFQ_ARCH_GPT2_SCALE 1024u      /* "scale_attn_weights", "scale_attn_by_inverse_layer_idx" */

typedef enum {
    INFQ_WINDOW_NONE,
    INFQ_WINDOW_ALL,    /* "sliding_window" in every layer; absent means the default, null none */
    INFQ_WINDOW_UPPER,  /* with "use_sliding_window": layers >= "max_window_layers", or as "layer_types" says */
    INFQ_WINDOW_NOPE    /* with "use_sliding_window": the layers without rotation, or as "layer_types" says */
} infq_window_rule;

struct infq_arch {
    const char *model_type, *class_name;
    const infq_arch_keys *keys;
    const char *const *names;           /* [INFQ_SLOT_COUNT] without ".weight"; %d is the layer; NULL: no such tensor */
    const char *prefix;                 /* some files put it in front of all names but the head's; "" */
    unsigned flags;
    infq_window_rule window;
    /* Class defaults. kv 0: as heads; head_dim 0: hidden / heads; ffn 0: 4 hidden. */
    int64_t hidden, n_layers, n_heads, n_kv_heads, head_dim, ffn, vocab, max_positions;
    const char *act;
    double norm_eps, rope_base;
    bool tied;
};

/* Row by model_type, else by class name; either may be NULL. NULL when unknown. */
const infq_arch *infq_arch_find(const char *model_type, const char *class_name);
size_t infq_arch_count(void);
const infq_arch *infq_arch_get(size_t i);

/* Logical shape of a slot: matrices [rows = out, cols = in]; vectors have cols 0. */
typedef struct {
    int64_t rows, cols;
    bool vector;
    bool bias;      /* "<name>.bias" [rows] belongs to it */
    bool conv1d;    /* stored [cols, rows] */
} infq_slot_shape;
/* False when the architecture, or this configuration, has no such tensor (a tied head). */
bool infq_arch_slot(const infq_config *c, infq_slot s, infq_slot_shape *out);
/* "model.layers.3.self_attn.q_proj" into out; the layer is ignored outside the blocks. */
char *infq_arch_name(const infq_config *c, infq_slot s, int64_t layer, char *out, size_t cap);

/* Stored tensors against the configuration: shapes, layers beyond num_hidden_layers, tied heads. */
infq_status infq_arch_check(const infq_checkpoint *ck, const infq_config *c, infq_err *err);

#endif
