/* Decoder models over the backend table: one forward pass for all architectures of arch.c. */
#ifndef INFQ_MODEL_MODEL_H
#define INFQ_MODEL_MODEL_H

#include "lib/backend/backend.h"
#include "lib/base/rng.h"
#include "lib/format/format.h"
#include "lib/model/config.h"

typedef struct infq_model infq_model;
typedef struct infq_seq infq_seq;      /* one sequence's paged KV cache */

typedef struct {
    int64_t max_context;  /* positions a sequence may have; 0 = the model's max_position_embeddings */
} infq_model_options;
infq_model_options infq_model_options_default(void);

/* Rotary scaling that depends on the length of the text ("dynamic", "longrope") is chosen by max_context, once. Opens
 * configuration, reads every weight through the format reader (borrowing mapped bytes where the device can), and prepares it.
 * The checkpoint must outlive the model. FORMAT names tensors that are missing or have the wrong shape, before any is
 * prepared. */
infq_status infq_model_open(const infq_checkpoint *ck, infq_backend *be, const infq_model_options *o, infq_model **out,
                            infq_err *err);
void infq_model_close(infq_model *m);
const infq_config *infq_model_config(const infq_model *m);
size_t infq_model_weight_bytes(const infq_model *m);     /* read by one decode step, embedding lookup apart */
/* 2 * multiply-adds of the linear layers for n_tokens and of the head for n_logits rows; attention apart. */
double infq_model_flop(const infq_model *m, int64_t n_tokens, int64_t n_logits);

/* Declared numerics: how much less exactly than F32 a forward pass computes, to measure what that does to scores (specs 2.4).
 * All off: every bit as without. With `invariant` set a row's result stays a function of its own sequence, so scores stay
 * independent of batch and threads. */
typedef struct {
    infq_elem activations;  /* NONE, BF16, F16: what each operation but a sum leaves behind is rounded, logits too */
    infq_elem residual;     /* NONE, BF16, F16: the residual stream after the embedding and after each sum */
    infq_elem kv;           /* NONE, BF16, F16, E4M3: keys and values as they go into the cache */
    int32_t k_parts;        /* 2..16: products sum k in so many runs, added in an order drawn from seed (backend.h); 0: one chain */
    double roundoff;        /* eps: each sum into the residual stream times (1 + eps * z), z normal, drawn from seed; BF16: 2^-9. 0: none */
    uint64_t seed;
} infq_numerics;
infq_numerics infq_numerics_default(void);               /* all off */
/* "activations=BF16 residual=BF16 kv=BF16 k_parts=8 seed=3" into out, "f32" when all is off. Part of what scores depend on. */
char *infq_numerics_describe(const infq_numerics *n, char *out, size_t cap);
/* From now on; sequences that hold tokens keep what they were computed with. USAGE for members outside the ranges above. */
infq_status infq_model_set_numerics(infq_model *m, const infq_numerics *n, infq_err *err);
const infq_numerics *infq_model_numerics(const infq_model *m);

infq_status infq_seq_new(infq_model *m, infq_seq **out, infq_err *err);
void infq_seq_free(infq_seq *s);
int64_t infq_seq_len(const infq_seq *s);
/* Forgets positions >= len. */
void infq_seq_truncate(infq_seq *s, int64_t len);
/* A new sequence holding a copy of the first len positions of s (shared prefixes). */
infq_status infq_seq_fork(const infq_seq *s, int64_t len, infq_seq **out, infq_err *err);
/* A sequence for one pass behind the first len positions of base (NULL: behind none), after which it may only be freed: it borrows
 * base's pages and has keys and values of one layer at a time, so it takes 1 / n_layers of the memory. base must stay as it is until
 * that pass is over. The pass may have INFQ_BRIEF_TOKENS tokens of it (USAGE beyond, and for a second pass); it cannot be forked or
 * truncated. */
#define INFQ_BRIEF_TOKENS 512
infq_status infq_seq_brief(infq_model *m, const infq_seq *base, int64_t len, infq_seq **out, infq_err *err);
/* Bytes of cache for one sequence of n positions, as allocated (whole pages). */
size_t infq_model_kv_bytes(const infq_config *c, int64_t n_positions);

/* New tokens of one sequence: they go behind what it holds. */
typedef struct {
    infq_seq *seq;
    const int32_t *tokens;
    int64_t n_tokens;
    int64_t n_last;     /* hidden states are returned for the last n_last tokens (0: none, only fill the cache) */
} infq_segment;

/* What a model is made of: its matrices and vectors, blocks in order, then what lies outside them. Models of one architecture and
 * shape have the same parts. */
typedef struct {
    char module[192];   /* "model.layers.3.self_attn.q_proj": the name without ".weight", as the files have it */
    int64_t layer;      /* -1: in front of the blocks (embeddings); their number: behind them (final norm, head) */
    int64_t rows, cols; /* logical [out, in]; vectors: cols 0 */
    bool conv1d;        /* stored [in, out] */
} infq_model_part;
int64_t infq_model_part_count(const infq_model *m);
infq_model_part infq_model_part_get(const infq_model *m, int64_t i); /* 0 <= i < count */
/* MISMATCH names the first part that one of them lacks or has in another shape. */
infq_status infq_model_same_parts(const infq_model *a, const infq_model *b, infq_err *err);
/* Exchanges part i of two models of the same parts on one device: weight, bias, activation quantization. Done twice it is
 * undone. Storage stays with who opened it: exchange back before either model is closed. */
void infq_model_swap(infq_model *a, infq_model *b, int64_t i);

/* Where a block's linear layers read: q, k and v share one input, gate and up another. */
typedef enum { INFQ_SITE_ATTN, INFQ_SITE_O, INFQ_SITE_MLP, INFQ_SITE_DOWN, INFQ_SITE_COUNT } infq_site;
/* Site of a role; INFQ_SITE_COUNT for matrices outside the blocks. */
infq_site infq_site_of(infq_role r);
const char *infq_site_name(infq_site s);                       /* "attention", "o", "mlp", "down" */
int64_t infq_site_width(const infq_config *c, infq_site s);    /* columns */

/* Stage hook: called with the residual stream after the embedding (stage 0), after each block (1..n_layers) and after the
 * final norm (n_layers + 1); x: [n_tokens][hidden] of all segments in order. A batch of more than 512 tokens is run in parts:
 * then each stage is called once a part, with the tokens of that part. */
typedef void (*infq_stage_fn)(void *ctx, int stage, const float *x, int64_t n_tokens, int64_t hidden);
/* Input hook: called before each product of a block with part i's input, x: [n_tokens][cols] of all segments in order, before
 * activation quantization; parts of more than 512 tokens as above. */
typedef void (*infq_input_fn)(void *ctx, int64_t part, const float *x, int64_t n_tokens, int64_t cols);
typedef struct {
    bool invariant;     /* evaluation: rows do not depend on the rest of the batch (backend.h) */
    infq_stage_fn on_stage;
    infq_input_fn on_input;
    void *ctx;
    /* Not NULL: start before block first_layer (0..n_layers) with this residual stream, [sum n_tokens][hidden] on the host,
     * instead of the embedding of the tokens. The caches of earlier blocks stay unwritten, so the sequences may only be freed
     * afterwards. */
    const float *x;
    int64_t first_layer;
} infq_forward_options;

/* Runs all segments as one batch. hidden: [sum n_last][hidden size], after the final norm, in order of segments.
 * NUMERIC when an id is outside the vocabulary; UNSUPPORTED when a sequence would exceed max_context. After a failure no
 * sequence has become longer. */
infq_status infq_model_forward(infq_model *m, const infq_segment *segs, int64_t n_segs, const infq_forward_options *o,
                               float *hidden, infq_err *err);
/* Residual stream x [n_tokens][hidden] behind the embedding, for a sequence from position 0. */
infq_status infq_model_embed(infq_model *m, const int32_t *tokens, int64_t n_tokens, float *x, infq_err *err);
/* Block `layer` on rows x [n_tokens][hidden] of one sequence from position 0, in place. scratch: any empty sequence of the
 * model, empty afterwards. Running all blocks in order gives what infq_model_forward gives, without holding more than one
 * layer's state. */
infq_status infq_model_block(infq_model *m, int64_t layer, infq_seq *scratch, float *x, int64_t n_tokens,
                             const infq_forward_options *o, infq_err *err);
/* Replaces a block's matrix by another of the same shape; w's views must outlive the model or the next replacement.
 * NOT_FOUND when the architecture has no matrix of that role. */
infq_status infq_model_set_weight(infq_model *m, int64_t layer, infq_role role, const infq_weight *w, infq_err *err);
/* logits [n_rows][vocab] of hidden rows. */
infq_status infq_model_logits(infq_model *m, const float *hidden, int64_t n_rows, bool invariant, float *logits, infq_err *err);

/* Natural log-probability of ids[r] in row r of logits [n_rows][vocab]: F32 logits, sums in F64. */
double infq_logprob(const float *logits, int64_t vocab, int32_t id);
int32_t infq_argmax(const float *x, int64_t n); /* ties: lowest index */

/* Sampling of the next token from logits, which it overwrites. temperature 0: argmax. Else p = softmax(logits / temperature);
 * the top_k largest stay (ties: lowest index), of them the smallest set of the largest whose sum reaches top_p of theirs
 * (equal ones stay together). */
typedef struct {
    double temperature;
    int64_t top_k;      /* 0: all */
    double top_p;       /* 1: all */
    uint64_t seed;
} infq_sample_options;
infq_sample_options infq_sample_options_default(void);
int32_t infq_sample(const infq_sample_options *o, infq_rng *rng, float *logits, int64_t vocab);

#endif
