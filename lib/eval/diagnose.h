/* Where a compressed model loses: one layer (or matrix) of the original at a time is replaced by its compressed version, and the KL divergence from the original
 * on a text measured ("delta KLD by substitution", specs/algorithms.md 3.1: the ground truth of sensitivity).
 *
 * The original runs once a window and its residual stream before each block is kept; a trial starts at its own block with it, so the blocks before are
 * never run again: half a forward pass on average. Trials share the original's logits. */
#ifndef INFQ_EVAL_DIAGNOSE_H
#define INFQ_EVAL_DIAGNOSE_H

#include "lib/base/json.h"
#include "lib/base/log.h"
#include "lib/io/tokenizer.h"
#include "lib/model/model.h"

typedef struct {
    bool by_module;          /* each matrix or vector by itself; else what changed of a block together */
    int64_t window, max_tokens; /* 0: 256, 1024 */
    double goal;             /* exceptions are suggested until the expected divergence is this share of the present one: 0.5 */
    int64_t max_exceptions;  /* 16 */
    infq_model *eight;       /* the original with all its matrices at 8 bits, and the files it was opened from: the price of exceptions that are */
    const infq_checkpoint *ck_eight; /* stored so; NULL: not told */
    const infq_log *log;
} infq_diagnose_options;
infq_diagnose_options infq_diagnose_options_default(void);

/* An input channel of a matrix that stands out. */
typedef struct {
    int64_t part;            /* infq_model_part */
    int64_t channel;
    double size;             /* root mean square of the input there, as a multiple of the matrix's median channel */
    double share;            /* of the output error that the rounding of weights makes: sum_r dW[r][c]^2 E[x_c^2] over the sum of all channels */
} infq_diagnose_channel;
#define INFQ_DIAGNOSE_CHANNELS 3
#define INFQ_DIAGNOSE_OUTLIER 6.0 /* size from which a channel is called one */

/* What is replaced together. */
typedef struct {
    char name[192];          /* of a block, "model.layers.3", or of a module */
    bool block;
    int64_t layer;           /* -1: in front of the blocks, their number: behind them */
    int64_t n_parts, params; /* that changed */
    double bits_p, bits_q;   /* stored for them in the original, in the compressed model */
    double weight_error;     /* sqrt(sum (w - w^)^2 / sum w^2) */
    double clipped;          /* share of weights beyond the range of their scale by more than half a step (0.55: scales are rounded); NaN when the codec has no
                              * such range */
    double input_clipped;    /* share of inputs beyond a static activation scale; NaN without one */
    double output_error;     /* sum |x' - x|^2 / sum |x - x_in|^2: change of the block's output over what the block adds; NaN outside the blocks */
    double kld, kld_se;      /* mean divergence with only this replaced; error over windows */
    double share;            /* of the sum over all units */
    double same_top;
    int n_channels;
    infq_diagnose_channel channels[INFQ_DIAGNOSE_CHANNELS]; /* outliers by share of the error */
} infq_diagnose_unit;

/* A suggestion: units kept as in the original. Matrices that engines fuse (q, k, v; gate, up) stay together. */
typedef struct {
    int64_t unit[4];
    int n_units;
    double bits;             /* more that they cost, a weight of the whole model */
    double share;            /* of the sum */
    double kld;              /* sum over its units: what keeping them gains */
    double expected;         /* divergence with this one and those before it, if shares added up */
    /* The same at 8 bits instead; NaN without an 8-bit model, or where it costs nothing more than what is there */
    double bits_eight;
    double kld_eight;        /* measured with only these units replaced by theirs at 8 bits: kld - kld_eight is gained */
    double expected_eight;
} infq_diagnose_exception;

typedef struct {
    int64_t window, n_windows;
    double kld, kld_se, same_top; /* everything replaced: the compressed model itself */
    double kld_sum;               /* over units: equal to kld if errors did not meet */
    int64_t params;               /* of the model */
    double bits_p, bits_q;        /* stored, all parts */
    int64_t n_units;
    infq_diagnose_unit *units;    /* in order of the model; unchanged ones are left out */
    int64_t n_exceptions;
    infq_diagnose_exception *exceptions; /* by share a bit, best first */
    double kld_kept, kld_kept_se, same_top_kept; /* measured with all exceptions together; NaN without any */
    double kld_eight, kld_eight_se, same_top_eight; /* with all of them at 8 bits; NaN without an 8-bit model */
} infq_diagnose_result;

/* p, q (and o->eight): models of one architecture and shape, opened from ck_p, ck_q on one device. MISMATCH when they have other parts or nothing differs. */
infq_status infq_diagnose_run(infq_model *p, infq_model *q, const infq_checkpoint *ck_p, const infq_checkpoint *ck_q, const infq_tokenizer *tok,
                              const char *text, size_t n, const infq_diagnose_options *o, infq_diagnose_result *out, infq_err *err);
void infq_diagnose_result_free(infq_diagnose_result *r);

#endif
