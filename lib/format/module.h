/* Tensor names turned into modules: layer, role, fused group. Methods never see names, readers never roles. */
#ifndef INFQ_FORMAT_MODULE_H
#define INFQ_FORMAT_MODULE_H

#include "lib/io/checkpoint.h"
#include "lib/tensor/weight.h"

typedef enum {
    INFQ_ROLE_Q, INFQ_ROLE_K, INFQ_ROLE_V, INFQ_ROLE_QKV, INFQ_ROLE_O,
    INFQ_ROLE_GATE, INFQ_ROLE_UP, INFQ_ROLE_GATE_UP, INFQ_ROLE_DOWN, INFQ_ROLE_FC,
    INFQ_ROLE_EMBED, INFQ_ROLE_HEAD, INFQ_ROLE_ROUTER, INFQ_ROLE_OTHER
} infq_role;
const char *infq_role_name(infq_role r);

/* One linear matrix (or embedding). */
typedef struct {
    const char *name;   /* "model.layers.3.self_attn.q_proj", without ".weight" */
    infq_role role;
    int layer;          /* -1 outside the blocks */
    int expert;         /* -1 */
    int fused;          /* modules with equal ids are fused by engines (q,k,v; gate,up; w1,w3); -1 alone */
    int64_t n_rows, n_cols;
    bool conv1d;        /* stored [in, out] (GPT-2) */
    bool target;        /* a linear layer of a block that quantization takes by default */
    size_t tensor;      /* index in the checkpoint of the (first) tensor */
} infq_module;

typedef struct infq_modules infq_modules;
/* Names decide: every 2-D "X.weight" (and every "X.weight_packed") is a module; norms and 1-D tensors are none. Works
 * without config.json. A module is a default target when its role is not EMBED, HEAD or ROUTER, it has elements, it is no
 * part of a next-token (mtp) or vision branch, and its name ends in a known linear name or it sits in a numbered block
 * and is called like a projection. A file in which no module is a target by this rule (a lone matrix) offers all its
 * matrices of other roles. conv1d: GPT-2's four matrices, by config.json's model_type, else by the shape of c_attn. */
infq_status infq_modules_find(const infq_checkpoint *ck, infq_modules **out, infq_err *err);
void infq_modules_free(infq_modules *m);
size_t infq_modules_count(const infq_modules *m);
const infq_module *infq_modules_get(const infq_modules *m, size_t i); /* checkpoint order; one array */
const infq_module *infq_modules_by_name(const infq_modules *m, const char *name);
/* Role by name alone ("model.embed_tokens" is EMBED). */
infq_role infq_role_of(const char *module);
/* config.json (NULL: false) says that the output head is the embedding: tie_word_embeddings, of text_config where it is only
 * there; left out, the default of the class: true for gemma*, gpt2 and smollm3. */
bool infq_config_ties_head(const cJSON *config);

#endif
