/* The record of a pruning: in the receipt, and back for verification. */
#include <stdlib.h>
#include <string.h>

#include "lib/base/json.h"
#include "lib/base/mem.h"
#include "lib/compress/sparsity.h"

void infq_sparsity_json(const infq_sparsity *s, bool updated, infq_jw *to)
{
    char text[32];

    infq_jw_obj(to);
    infq_jw_key_f64(to, "fraction", s->fraction);
    infq_jw_key(to, "pattern");
    if (s->m)
        infq_jw_str(to, infq_sparsity_describe(s, text, sizeof(text)));
    else
        infq_jw_null(to);
    infq_jw_key_str(to, "compare", s->m ? "group" : s->whole ? "layer" : "row");
    infq_jw_key_bool(to, "updated", updated);
    infq_jw_end_obj(to);
}

infq_status infq_sparsity_read(const cJSON *v, infq_sparsity *s, bool *updated, infq_err *err)
{
    const cJSON *fraction = infq_json_get(v, "fraction"), *pattern = infq_json_get(v, "pattern"), *compare = infq_json_get(v, "compare");

    if (cJSON_IsString(pattern)) {
        if (infq_sparsity_pattern(pattern->valuestring, s, err))
            return infq_err_set(err, INFQ_E_FORMAT, "sparsity: pattern %.40s is no N:M", pattern->valuestring);
    } else if (cJSON_IsNumber(fraction) && fraction->valuedouble > 0.0 && fraction->valuedouble < 1.0 && cJSON_IsString(compare)) {
        *s = (infq_sparsity){ .fraction = fraction->valuedouble, .whole = strcmp(compare->valuestring, "layer") == 0 };
    } else {
        return infq_err_set(err, INFQ_E_FORMAT, "sparsity: neither a pattern nor a fraction between 0 and 1 with what is compared");
    }
    *updated = cJSON_IsTrue(infq_json_get(v, "updated"));
    return INFQ_E_OK;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const infq_pruned_row *)a)->tensor, ((const infq_pruned_row *)b)->tensor);
}

void infq_pruned_sort(infq_pruned *p)
{
    if (p->n)
        qsort(p->v, p->n, sizeof(*p->v), by_name);
}

const infq_pruned_row *infq_pruned_find(const infq_pruned *p, const char *tensor)
{
    infq_pruned_row key = { tensor, 0 };

    return p->n ? bsearch(&key, p->v, p->n, sizeof(*p->v), by_name) : NULL;
}

infq_status infq_pruned_read(const cJSON *tree, infq_pruned *out, infq_err *err)
{
    const cJSON *matrices = infq_json_get(tree, "matrices"), *ledger = matrices ? matrices : infq_json_get(tree, "ledger"), *e;
    const cJSON *sparsity = infq_json_get(matrices ? tree : infq_json_get(tree, "recipe"), "sparsity");
    infq_pruned p = { .n = 0 };

    *out = p;
    if (!sparsity)
        return INFQ_E_OK;
    INFQ_TRY(infq_sparsity_read(sparsity, &p.s, &p.updated, err));
    p.v = infq_mem_calloc((size_t)cJSON_GetArraySize(ledger) + 1, sizeof(*p.v));
    if (!p.v)
        return infq_err_set(err, INFQ_E_NOMEM, "ledger");
    cJSON_ArrayForEach(e, ledger) {
        const cJSON *name = infq_json_get(e, "tensor"), *zeros = infq_json_get(e, "zeros");
        if (matrices && cJSON_IsString(e))
            p.v[p.n++] = (infq_pruned_row){ e->valuestring, -1 };
        else if (cJSON_IsString(name) && cJSON_IsNumber(zeros))
            p.v[p.n++] = (infq_pruned_row){ name->valuestring, (int64_t)zeros->valuedouble };
    }
    infq_pruned_sort(&p);
    *out = p;
    return INFQ_E_OK;
}
