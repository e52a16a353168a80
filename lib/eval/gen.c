/* Streams of documents and sets of items from the kinds of gen_kinds.c. */
#include "lib/eval/gen.h"

#include <string.h>

#include "lib/base/file.h"
#include "lib/base/json.h"
#include "lib/base/str.h"
#include "lib/eval/gen_int.h"

/* One combination in HELD_OUT belongs to the task sets. */
enum { HELD_OUT = 8, TRIES_PER_ITEM = 400 };

int infq_gen_n_kinds(void)
{
    return gen_n_kinds;
}

const char *infq_gen_kind_name(int kind)
{
    return gen_kinds[kind].name;
}

const char *infq_gen_kind_about(int kind)
{
    return gen_kinds[kind].about;
}

/* FNV-1a, 64 bits, then a final mix, so that the low bits depend on all bytes. */
static uint64_t hash_more(uint64_t h, const char *s, size_t n)
{
    for (size_t i = 0; i < n; i++)
        h = (h ^ (unsigned char)s[i]) * UINT64_C(0x100000001b3);
    return h;
}

static bool is_held_out(const gen_kind *kind, const gen_item *it)
{
    const infq_buf *key = it->key.n ? &it->key : &it->context;
    uint64_t h = hash_more(UINT64_C(0xcbf29ce484222325), kind->name, strlen(kind->name));

    h = hash_more(h, key->data, key->n);
    h ^= h >> 29;
    h *= UINT64_C(0x9e3779b97f4a7c15);
    return (h >> 32) % HELD_OUT == 0;
}

static void item_init(gen_item *it, infq_rng *rng)
{
    memset(it, 0, sizeof *it);
    it->rng = rng;
    infq_buf_init(&it->context);
    infq_buf_init(&it->tail);
    infq_buf_init(&it->key);
}

static void item_deinit(gen_item *it)
{
    infq_buf_deinit(&it->context);
    infq_buf_deinit(&it->tail);
    infq_buf_deinit(&it->key);
}

/* A new question in the storage of the last one. */
static infq_status item_make(const gen_kind *kind, gen_item *it, infq_err *err)
{
    infq_buf_clear(&it->context);
    infq_buf_clear(&it->tail);
    infq_buf_clear(&it->key);
    it->n_choices = 0;
    kind->make(it);
    INFQ_TRY(infq_buf_status(&it->context, err));
    INFQ_TRY(infq_buf_status(&it->tail, err));
    return infq_buf_status(&it->key, err);
}

static const gen_kind *pick_kind(infq_rng *rng)
{
    int total = 0;
    int at;

    for (int i = 0; i < gen_n_kinds; i++)
        total += gen_kinds[i].weight;
    at = (int)infq_rng_below(rng, (uint64_t)total);
    for (int i = 0; i < gen_n_kinds; i++) {
        at -= gen_kinds[i].weight;
        if (at < 0)
            return &gen_kinds[i];
    }
    return &gen_kinds[0];
}

infq_status infq_gen_text(uint64_t seed, size_t n_bytes, bool marks, infq_buf *out, infq_err *err)
{
    infq_status st = INFQ_E_OK;
    infq_rng rng = infq_rng_seed(seed);
    size_t start = out->n;
    gen_item it;

    item_init(&it, &rng);
    while (out->n - start < n_bytes) {
        const gen_kind *kind = pick_kind(&rng);

        st = item_make(kind, &it, err);
        if (st)
            goto done;
        if (is_held_out(kind, &it))
            continue;
        infq_buf_add(out, it.context.data, it.context.n);
        if (marks)
            infq_buf_char(out, '\t');
        infq_buf_str(out, it.choice[0]);
        infq_buf_add(out, it.tail.data, it.tail.n);
        infq_buf_char(out, '\n');
        st = infq_buf_status(out, err);
        if (st)
            goto done;
    }
done:
    item_deinit(&it);
    return st;
}

/* One line of JSON; the true choice goes to a random place. */
static void item_write(gen_item *it, infq_buf *out)
{
    int gold = (int)infq_rng_below(it->rng, (uint64_t)it->n_choices);
    infq_jw w = infq_jw_over(out, 0);

    infq_jw_obj(&w);
    infq_jw_key(&w, "context");
    infq_jw_strn(&w, it->context.data, it->context.n);
    infq_jw_key(&w, "choices");
    infq_jw_arr(&w);
    for (int i = 0; i < it->n_choices; i++)
        infq_jw_str(&w, it->choice[i == gold ? 0 : i == 0 ? gold : i]);
    infq_jw_end_arr(&w);
    infq_jw_key(&w, "gold");
    infq_jw_i64(&w, gold);
    infq_jw_end_obj(&w);
    infq_buf_char(out, '\n');
}

infq_status infq_gen_items(int kind, uint64_t seed, int n_items, infq_buf *out, infq_err *err)
{
    infq_status st;
    infq_map *seen = NULL;
    char **context = NULL;
    void *p;
    int n = 0;
    infq_rng rng;
    gen_item it;

    if (kind < 0 || kind >= gen_n_kinds || n_items < 1)
        return infq_err_set(err, INFQ_E_USAGE, "no task set %d of %d items", kind, n_items);
    rng = infq_rng_seed(seed ^ hash_more(UINT64_C(0xcbf29ce484222325), gen_kinds[kind].name,
                                         strlen(gen_kinds[kind].name)));
    item_init(&it, &rng);
    st = infq_mem_new((size_t)n_items, sizeof *context, "contexts of a task set", &p, err);
    if (st)
        goto done;
    context = p;
    st = infq_map_new((size_t)n_items, &seen, err);
    if (st)
        goto done;
    for (int64_t tries = (int64_t)n_items * TRIES_PER_ITEM; n < n_items && tries > 0; tries--) {
        st = item_make(&gen_kinds[kind], &it, err);
        if (st)
            goto done;
        if (!is_held_out(&gen_kinds[kind], &it) ||
            infq_map_get(seen, it.context.data, it.context.n) >= 0)
            continue;
        context[n] = infq_mem_strndup(it.context.data, it.context.n);
        n++;
        if (!context[n - 1] || infq_map_put(seen, context[n - 1], it.context.n, n) == -2) {
            st = infq_err_set(err, INFQ_E_NOMEM, "context of a task item needs %zu bytes",
                              it.context.n);
            goto done;
        }
        item_write(&it, out);
    }
    st = infq_buf_status(out, err);
    if (!st && n < n_items)
        st =
            infq_err_set(err, INFQ_E_USAGE, "task set %s has only %d different items, %d asked for",
                         gen_kinds[kind].name, n, n_items);
done:
    infq_map_free(seen);
    for (int i = 0; i < n; i++)
        infq_mem_free(context[i]);
    infq_mem_free(context);
    item_deinit(&it);
    return st;
}

infq_status infq_gen_tasks(const char *dir, uint64_t seed, int n_items, infq_err *err)
{
    infq_status st;
    infq_buf *text = NULL;
    infq_buf path;
    void *p;

    infq_buf_init(&path);
    st = infq_mem_new((size_t)gen_n_kinds, sizeof *text, "task sets", &p, err);
    if (st)
        return st;
    text = p;
    for (int k = 0; k < gen_n_kinds; k++)
        infq_buf_init(&text[k]);
    // all sets exist before the first file is touched
    for (int k = 0; k < gen_n_kinds && !st; k++)
        st = infq_gen_items(k, seed, n_items, &text[k], err);
    for (int k = 0; k < gen_n_kinds && !st; k++) {
        infq_buf_clear(&path);
        infq_buf_fmt(&path, "%s/%s.jsonl", dir, gen_kinds[k].name);
        st = infq_buf_status(&path, err);
        if (!st)
            st = infq_file_write_atomic(path.data, text[k].data, text[k].n, true, err);
    }
    for (int k = 0; k < gen_n_kinds; k++)
        infq_buf_deinit(&text[k]);
    infq_mem_free(text);
    infq_buf_deinit(&path);
    return st;
}
