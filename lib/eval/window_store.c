#include "lib/eval/window_store.h"

#include <math.h>
#include <string.h>

#include "lib/base/cursor.h"
#include "lib/base/hash.h"
#include "lib/eval/item_int.h"

#define MAX_NUMBERS (1 << 26) /* of a window: what no context and no row comes near */

infq_status infq_window_digest(const int32_t *ids, int64_t n, char hex[17], infq_err *err)
{
    infq_sha256 *h = NULL;
    char all[65];
    infq_status st = infq_sha256_new(&h, err);

    for (int64_t i = 0; i < n && !st; i++) {
        uint8_t word[4];
        infq_store_u32le(word, (uint32_t)ids[i]);
        st = infq_sha256_add(h, word, 4, err);
    }
    if (!st)
        st = infq_sha256_end(h, all, err);
    infq_sha256_free(h);
    if (st)
        return st;
    memcpy(hex, all, 16);
    hex[16] = '\0';
    return 0;
}

infq_status infq_window_store_find(const infq_window_store *s, int64_t w, const char *digest, int64_t n_rows, int64_t width, const double **rows,
                                   infq_err *err)
{
    const infq_item *it;

    *rows = NULL;
    if (!s || w >= infq_items_count(s->items))
        return 0;
    it = infq_items_get(s->items, w);
    if (it->kind != INFQ_ITEM_WINDOW || it->doc != w || strcmp(it->request, digest) != 0 || it->n_rows != n_rows || it->width != width)
        return infq_err_set(err, INFQ_E_EXISTS, "window %lld of the item file is not of this text: remove the file or name another", (long long)w);
    *rows = it->rows;
    return 0;
}

infq_status infq_window_store_add(const infq_window_store *s, int64_t w, const char *digest, const double *rows, int64_t n_rows, int64_t width,
                                  infq_err *err)
{
    infq_item it;

    if (!s)
        return 0;
    memset(&it, 0, sizeof(it));
    it.doc = w;
    it.kind = INFQ_ITEM_WINDOW;
    strcpy(it.request, digest);
    it.rows = rows;
    it.n_rows = n_rows;
    it.width = width;
    return infq_item_log_add(s->log, &it, err);
}

void infq_item_window_write(const infq_item *it, infq_jw *w)
{
    infq_jw_key(w, "rows");
    infq_jw_arr(w);
    for (int64_t i = 0; i < it->n_rows; i++) {
        infq_jw_arr(w);
        for (int64_t k = 0; k < it->width; k++)
            infq_jw_f64(w, it->rows[i * it->width + k]);
        infq_jw_end_arr(w);
    }
    infq_jw_end_arr(w);
}

infq_status infq_item_window_read(infq_items *s, const cJSON *o, infq_item *it, infq_err *err)
{
    const cJSON *rows = infq_json_get(o, "rows"), *row, *v;
    int64_t n = cJSON_IsArray(rows) ? cJSON_GetArraySize(rows) : 0, width = n > 0 ? cJSON_GetArraySize(rows->child) : 0;
    double *x;

    if (n < 1 || width < 1 || n > MAX_NUMBERS / width)
        return infq_err_set(err, INFQ_E_FORMAT, "rows is no list of lists of numbers");
    INFQ_TRY(infq_arena_alloc(s->arena, (size_t)(n * width), sizeof(*x), "rows of a window", (void **)&x, err));
    it->rows = x;
    it->n_rows = n;
    it->width = width;
    cJSON_ArrayForEach(row, rows) {
        if (!cJSON_IsArray(row) || cJSON_GetArraySize(row) != width)
            return infq_err_set(err, INFQ_E_FORMAT, "rows are not of one length");
        cJSON_ArrayForEach(v, row) {
            if (!cJSON_IsNumber(v) || !isfinite(v->valuedouble))
                return infq_err_set(err, INFQ_E_NUMERIC, "rows hold something that is no finite number");
            *x++ = v->valuedouble;
        }
    }
    return 0;
}
