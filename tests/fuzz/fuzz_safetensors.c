/* Any bytes: infq_st_parse accepts or refuses them, and what it accepts lies inside them. */
#include <string.h>

#include "lib/io/safetensors.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    infq_st *st = NULL;
    infq_err err;

    if (infq_st_parse(data, size, &st, &err)) {
        INFQ_BUG_ON(err.code != INFQ_E_NOMEM && !*infq_st_reject_name(&err) && strlen(err.msg) < sizeof(err.msg) - 1);
        return 0;
    }
    for (size_t i = 0; i < infq_st_count(st); i++) {
        const infq_st_tensor *t = infq_st_get(st, i);
        INFQ_BUG_ON(t->offset > size || t->n_bytes > size - t->offset);
        INFQ_BUG_ON(infq_st_find(st, t->name) != t);
    }
    for (size_t i = 0; i < infq_st_meta_count(st); i++) {
        const char *key, *value;
        infq_st_meta_get(st, i, &key, &value);
        INFQ_BUG_ON(strlen(key) + strlen(value) > size);
    }
    infq_st_free(st);
    return 0;
}
