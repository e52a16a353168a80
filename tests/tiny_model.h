/* Small random models: made from a config.json text, changed by a test, saved as a folder or a bare file. */
#ifndef INFQ_TESTS_TINY_MODEL_H
#define INFQ_TESTS_TINY_MODEL_H

#include <unistd.h>

#include "lib/base/rng.h"
#include "lib/base/str.h"
#include "lib/compress/calib.h"
#include "lib/io/checkpoint.h"
#include "tests/testlib.h"

typedef struct {
    char name[96];      /* empty: not saved */
    float *data;        /* [n]; infq_mem_free */
    int n_dims;
    int64_t shape[2], n;
} tiny_tensor;

typedef struct {
    cJSON *json;        /* config.json; saved as it then is */
    const char *text;   /* if set, what is saved instead, byte for byte */
    tiny_tensor t[96];
    int n;
} tiny_model;

/* All tensors that the configuration asks for (llama, qwen3 and alike; gpt2), normal values that keep activations near 1. A
 * head of its own unless the configuration ties it. */
void tiny_make(tiny_model *m, const char *config, uint64_t seed);
/* Adds a [rows, cols] matrix ([rows] vector when cols is 0) of normal values. */
tiny_tensor *tiny_add(tiny_model *m, const char *name, int64_t rows, int64_t cols, infq_rng *rng, double mean, double sd);
tiny_tensor *tiny_find(tiny_model *m, const char *name);
void tiny_free(tiny_model *m);

typedef struct {
    infq_dtype dtype;
    uint64_t shard_bytes; /* 0: one file */
    bool bare;
} tiny_file;
/* Writes the model to path, replacing what is there; a folder also gets a tokenizer.json. */
void tiny_save(const tiny_model *m, const char *path, tiny_file how);
#define TINY_F32 ((tiny_file){ .dtype = INFQ_DTYPE_F32 })
/* Puts one more file into a folder. */
void tiny_put(const char *dir, const char *name, const void *p, size_t n);

/* The model of the tests of plan, quantize and verify: 2 layers, hidden 128, 64 tokens; 21 tensors, 14 of them default targets,
 * with a head of its own. */
typedef struct {
    tiny_file file;
    const char *model_type;  /* NULL: llama */
    int64_t ffn;             /* columns of down_proj */
    bool tied, head_equal;   /* tie_word_embeddings is set; a head equal to the embedding is stored */
    const char *bad_tensor;  /* gets bad_value at [3, 5] */
    float bad_value;
    const char *zero_tensor; /* all zeros */
    const char *extra;       /* one more [128, 128] matrix */
} tiny_options;
#define TINY_DEFAULT ((tiny_options){ .file = { .dtype = INFQ_DTYPE_BF16 }, .ffn = 256 })
void tiny_write(const char *path, tiny_options o);
/* Six windows of 24 tokens of its vocabulary (infq_calib_free). */
void tiny_calib(infq_calib *c);

/* Declares char var[700] = "<dir>/<name>". */
#define TINY_PATH(var, dir, name)                                                                                     \
    char var[700];                                                                                                    \
    snprintf(var, sizeof(var), "%.400s/%.250s", dir, name)

/* A whole file; infq_buf_deinit. */
infq_buf tiny_read(const char *path);
/* The file of this name holds the same bytes in both folders. */
void tiny_same_file(const char *dir_a, const char *dir_b, const char *name);

#endif
