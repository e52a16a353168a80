/* Any bytes: infq_gguf_parse accepts or refuses them, and what it accepts lies inside them. */
#include <string.h>

#include "lib/io/gguf.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    infq_gguf *g = NULL;
    infq_err err;

    if (infq_gguf_parse(data, size, &g, &err))
        return 0;
    for (size_t i = 0; i < infq_gguf_count(g); i++) {
        const infq_gguf_tensor *t = infq_gguf_get(g, i);
        INFQ_BUG_ON(t->offset > size || t->n_bytes > size - t->offset);
        INFQ_BUG_ON(infq_gguf_find(g, t->name) != t);
    }
    for (size_t i = 0; i < infq_gguf_value_count(g); i++) {
        const infq_gguf_value *v = infq_gguf_value_get(g, i);
        uint64_t pos = 0, n, n_strings = 0;
        const char *s;
        double x;
        while (infq_gguf_string(v, &pos, &s, &n)) {
            INFQ_BUG_ON((const uint8_t *)s < data || n > size - (size_t)((const uint8_t *)s - data));
            n_strings++;
        }
        INFQ_BUG_ON(v->kind == INFQ_GGUF_STRING && n_strings != v->n);
        if (v->n)
            INFQ_BUG_ON(infq_gguf_number(v, v->n - 1, &x) == (v->kind == INFQ_GGUF_STRING));
    }
    infq_gguf_free(g);
    return 0;
}
