/* Inside the engine: the opened model, its working buffers, one sequence's pages. */
#ifndef INFQ_MODEL_MODEL_INT_H
#define INFQ_MODEL_MODEL_INT_H

#include "lib/model/arch_int.h"
#include "lib/model/model.h"

/* Tokens that go through the layers together: longer batches are cut, so that working memory is bounded. */
#define INFQ_CHUNK INFQ_BRIEF_TOKENS
/* Rows of logits computed together. */
#define INFQ_LOGIT_ROWS 256

/* One slot of one layer on the device. */
typedef struct {
    infq_pweight *w;     /* matrices */
    float *gain, *bias;  /* vectors; bias of either */
    int64_t rows, cols;
    size_t n_read;       /* bytes that a decode step reads of it */
    int64_t part;        /* its number in the list of parts */
} infq_param;

/* A part of a segment inside one chunk. */
typedef struct {
    infq_seq *seq;
    int64_t row0, n;     /* rows of the chunk */
    int64_t pos0;        /* position of the first */
    int64_t n_hidden;    /* the last n_hidden rows are wanted */
    float *hidden;       /* host: where they go */
} infq_piece;

/* Device buffers of the forward pass, grown before the layers run and kept. */
typedef struct {
    int64_t n_tokens;    /* capacity */
    float *x;            /* [n][hidden] residual stream */
    float *h;            /* [n][hidden] norm outputs, products that are added to x */
    float *qkv;          /* [n][(heads + 2 kv heads) * head_dim] */
    float *att;          /* [n][heads * head_dim] */
    float *gate, *up;    /* [n][ffn] */
    int32_t *ids, *positions;
    int64_t n_rows;      /* capacity of the two below */
    float *rows, *logits; /* [n_rows][hidden], [n_rows][vocab] */
} infq_work;

/* A table of operations over another one's, which rounds what they leave behind. */
typedef struct {
    infq_backend be;         /* its state is this struct */
    infq_backend *inner;
    int64_t hidden;          /* width of the residual stream */
    infq_numerics n;
} infq_rounding;
/* Fills the table; calls through r->be are then rounded as r->n says. */
void infq_rounding_init(infq_rounding *r, infq_backend *inner, int64_t hidden);

/* Pages of one size, those that no sequence holds. */
typedef struct {
    float **free;
    int64_t n_free, n_all;   /* n_all: that exist */
} infq_page_pool;

struct infq_model {
    infq_config c;
    infq_backend *be;        /* what runs: the device's, or `rounding` over it */
    infq_backend *device;
    infq_rounding rounding;
    int64_t max_context;
    infq_arena *arena;       /* what prepared weights may borrow */
    infq_param *params;      /* [n_layers + 1][INFQ_SLOT_COUNT]; the last row: outside the blocks */
    infq_work work;
    infq_piece piece[INFQ_CHUNK];
    int32_t host_ids[INFQ_CHUNK], host_positions[INFQ_CHUNK];
    float *cos_sin;          /* device, [n_cos_sin][n_rot] */
    int64_t n_cos_sin;
    float *host_x;           /* for the hooks, [INFQ_CHUNK][widest input of a product] */
    int32_t *parts;          /* [n_parts] index into params; in arena */
    int64_t n_parts;
    infq_page_pool pages, layer_pages; /* of all layers, of one (brief sequences) */
    float *host_page;        /* K or V of one layer's page on its way; made with the first brief sequence */
    size_t weight_bytes;
    double flop_per_token, flop_per_logits; /* head apart; of one row of logits */
};

/* A page block: for each layer, K then V, each as infq_attention_args has them. A brief sequence's own blocks have one layer, in which all
 * layers follow each other; the first n_borrowed pages are base's. */
struct infq_seq {
    infq_model *m;
    int64_t len, n_pages, cap_pages;
    bool brief, spent;
    const infq_seq *base;    /* of a brief sequence, NULL: none */
    int64_t n_borrowed;
    float **pages;           /* [cap_pages] page blocks; those that are borrowed NULL */
    float **k, **v;          /* [n_layers][cap_pages] pointers into them */
    bool in_batch;
};

infq_param *infq_model_param(const infq_model *m, int64_t layer, infq_slot s); /* layer n_layers: outside the blocks */
/* Device buffer; *p is replaced by one of n * n_each bytes (the old one freed first). */
infq_status infq_model_device(infq_model *m, void **p, int64_t n, size_t n_each, const char *what, infq_err *err);
/* Pages for positions 0..n-1. */
infq_status infq_seq_reserve(infq_seq *s, int64_t n, infq_err *err);
/* Before a layer of a brief sequence: what its first own page has in common with base. */
infq_status infq_seq_enter_layer(const infq_seq *s, int64_t layer, infq_err *err);
void infq_page_pool_end(infq_model *m, infq_page_pool *p);
size_t infq_page_bytes(const infq_config *c);

#endif
