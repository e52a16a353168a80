#include <string.h>

#include "lib/io/tok_int.h"

/* Ids decide the size of tables: one far above the number of tokens is refused before anything is
 * allocated. */
static infq_status id_of(const cJSON *v, const char *where, const char *name, int64_t *id,
                         infq_err *err)
{
    if (!cJSON_IsNumber(v) || !(v->valuedouble >= 0 && v->valuedouble < INFQ_TOK_PSEUDO) ||
        v->valuedouble != (double)(int64_t)v->valuedouble)
        return infq_err_set(err, INFQ_E_FORMAT, "%s: token \"%.40s\" has no valid id", where, name);
    *id = (int64_t)v->valuedouble;
    return INFQ_E_OK;
}

static infq_status content_of(const cJSON *token, const char **out, infq_err *err)
{
    if (infq_json_str(token, "content", NULL, out, err) || !*out)
        return infq_err_set(err, INFQ_E_FORMAT, "added_tokens: an entry has no content");
    return INFQ_E_OK;
}

// Largest id, number of tokens and bytes of their texts.
static infq_status measure(const cJSON *vocab, const cJSON *added, int64_t *n_ids, size_t *n_bytes,
                           infq_err *err)
{
    const cJSON *v;
    const char *name;
    int64_t id = -1, largest = -1, count = 0;

    *n_bytes = 0;
    cJSON_ArrayForEach(v, vocab) {
        INFQ_TRY(id_of(v, "model BPE: vocab", v->string, &id, err));
        largest = id > largest ? id : largest;
        *n_bytes += strlen(v->string);
        count++;
    }
    cJSON_ArrayForEach(v, added) {
        INFQ_TRY(content_of(v, &name, err));
        INFQ_TRY(id_of(infq_json_get(v, "id"), "added_tokens", name, &id, err));
        largest = id > largest ? id : largest;
        *n_bytes += strlen(name);
        count++;
    }
    if (largest > 4 * count + 65536)
        return infq_err_set(err, INFQ_E_FORMAT,
                            "vocabulary: the largest id is %lld, with %lld tokens",
                            (long long)largest, (long long)count);
    *n_ids = largest + 1;
    return INFQ_E_OK;
}

static infq_status map_put(infq_map *m, const char *p, size_t n, int64_t id, infq_err *err)
{
    if (infq_map_put(m, p, n, id) == -2)
        return infq_err_set(err, INFQ_E_NOMEM, "vocabulary");
    return INFQ_E_OK;
}

// Copies name to *at and gives it the id.
static infq_status place(infq_tok_vocab *v, char **at, const char *name, int64_t id, infq_err *err)
{
    size_t n = strlen(name);

    if (v->flags[id] & INFQ_TOK_PRESENT)
        return infq_err_set(err, INFQ_E_FORMAT,
                            "vocabulary: id %lld belongs to \"%.40s\" and to \"%.40s\"",
                            (long long)id, v->text[id].p, name);
    memcpy(*at, name, n + 1);
    v->text[id] = (infq_tok_str){ *at, n };
    v->flags[id] = INFQ_TOK_PRESENT;
    *at += n + 1;
    return INFQ_E_OK;
}

static infq_status load_vocab(infq_tokenizer *t, const cJSON *vocab, char **at, infq_err *err)
{
    infq_tok_vocab *v = &t->vocab;
    const cJSON *item;

    cJSON_ArrayForEach(item, vocab) {
        int64_t id = (int64_t)item->valuedouble;
        size_t len = 0;

        INFQ_TRY(place(v, at, item->string, id, err));
        INFQ_TRY(map_put(v->map, v->text[id].p, v->text[id].n, id, err));
        if (v->text[id].n) {
            uint32_t cp = infq_tok_next(v->text[id].p, v->text[id].n, &len);
            if (len == v->text[id].n)
                INFQ_TRY(infq_tok_bpe_char_set(&t->bpe, cp, (int32_t)id, err));
        }
    }
    return INFQ_E_OK;
}

static infq_status added_flags(const cJSON *o, uint8_t *flags, bool *normalized, bool *special,
                               infq_err *err)
{
    bool single, left, right;

    if (infq_json_bool(o, "single_word", false, &single, err) ||
        infq_json_bool(o, "lstrip", false, &left, err) ||
        infq_json_bool(o, "rstrip", false, &right, err) ||
        infq_json_bool(o, "special", false, special, err) ||
        infq_json_bool(o, "normalized", !*special, normalized, err))
        return infq_err_in(err, "added_tokens");
    *flags = (uint8_t)((single ? INFQ_TOK_SINGLE_WORD : 0) | (left ? INFQ_TOK_LSTRIP : 0) |
                       (right ? INFQ_TOK_RSTRIP : 0));
    return INFQ_E_OK;
}

// The tokens looked for in normalized text are normalized themselves, and come back so when
// decoding (as in the library).
static infq_status add_to_trie(infq_tokenizer *t, infq_tok_work *w, int32_t id, bool normalized,
                               infq_err *err)
{
    infq_tok_str s = t->vocab.text[id];

    if (!normalized)
        return infq_tok_trie_add(&t->raw, s.p, s.n, id, err);
    INFQ_TRY(infq_tok_normalize(t, w, s.p, s.n, &s, err));
    if (t->n_norm)
        INFQ_TRY(infq_tok_strdup(t, s.p, s.n, &t->vocab.text[id], err));
    return infq_tok_trie_add(&t->normalized, s.p, s.n, id, err);
}

static infq_status load_added(infq_tokenizer *t, infq_tok_work *w, const cJSON *added, char **at,
                              infq_err *err)
{
    infq_tok_vocab *v = &t->vocab;
    int64_t last = -1;
    const cJSON *item;

    cJSON_ArrayForEach(item, added) {
        int64_t id = (int64_t)infq_json_get(item, "id")->valuedouble, known;
        bool normalized, special;
        const char *name;

        INFQ_TRY(content_of(item, &name, err));
        known = infq_map_get(v->map, name, strlen(name));
        if (known >= 0 && known != id)
            return infq_err_set(err, INFQ_E_FORMAT,
                                "added_tokens: \"%.40s\" has id %lld, but %lld in the vocabulary",
                                name, (long long)id, (long long)known);
        if (infq_map_get(v->added, name, strlen(name)) >= 0)
            return infq_err_set(err, INFQ_E_FORMAT, "added_tokens: \"%.40s\" appears twice", name);
        if (known < 0) {
            if (id <= last)
                return infq_err_set(err, INFQ_E_FORMAT,
                                    "added_tokens: id %lld of \"%.40s\" is out of order",
                                    (long long)id, name);
            last = id;
            INFQ_TRY(place(v, at, name, id, err));
        }
        INFQ_TRY(map_put(v->added, v->text[id].p, v->text[id].n, id, err));
        INFQ_TRY(added_flags(item, &t->added_flags[id], &normalized, &special, err));
        v->flags[id] |= INFQ_TOK_IS_ADDED | (special ? INFQ_TOK_IS_SPECIAL : 0);
        INFQ_TRY(add_to_trie(t, w, (int32_t)id, normalized, err));
    }
    return INFQ_E_OK;
}

// Left and right part of a merge: "a b", or ["a", "b"].
static infq_status merge_parts(const cJSON *m, size_t index, infq_tok_str *a, infq_tok_str *b,
                               infq_err *err)
{
    if (cJSON_IsString(m)) {
        const char *blank = strchr(m->valuestring, ' ');
        if (blank && !strchr(blank + 1, ' ')) {
            *a = (infq_tok_str){ m->valuestring, (size_t)(blank - m->valuestring) };
            *b = (infq_tok_str){ blank + 1, strlen(blank + 1) };
            return INFQ_E_OK;
        }
    }
    if (cJSON_IsArray(m) && cJSON_IsString(m->child) && cJSON_IsString(m->child->next) &&
        !m->child->next->next) {
        *a = (infq_tok_str){ m->child->valuestring, strlen(m->child->valuestring) };
        *b = (infq_tok_str){ m->child->next->valuestring, strlen(m->child->next->valuestring) };
        return INFQ_E_OK;
    }
    return infq_err_set(err, INFQ_E_FORMAT,
                        "model BPE: merge %zu is neither \"a b\" nor [\"a\", \"b\"]", index);
}

static infq_status merge_id(const infq_tokenizer *t, size_t index, const char *p, size_t n,
                            int32_t *id, infq_err *err)
{
    *id = (int32_t)infq_map_get(t->vocab.map, p, n);
    if (*id < 0)
        return infq_err_set(err, INFQ_E_FORMAT,
                            "model BPE: merge %zu names \"%.*s\", which is not in the vocabulary",
                            index, n > 40 ? 40 : (int)n, p);
    return INFQ_E_OK;
}

static infq_status load_merges(infq_tokenizer *t, const cJSON *merges, infq_buf *joined,
                               infq_err *err)
{
    infq_tok_bpe *b = &t->bpe;
    uint32_t rank = 0;
    const cJSON *m;

    cJSON_ArrayForEach(m, merges) {
        infq_tok_str left = { "", 0 }, right = { "", 0 };
        int32_t l, r, id;

        INFQ_TRY(merge_parts(m, rank, &left, &right, err));
        INFQ_TRY(merge_id(t, rank, left.p, left.n, &l, err));
        INFQ_TRY(merge_id(t, rank, right.p, right.n, &r, err));
        if (b->prefix.n && right.n >= b->prefix.n &&
            memcmp(right.p, b->prefix.p, b->prefix.n) == 0) {
            right.p += b->prefix.n;
            right.n -= b->prefix.n;
        }
        infq_buf_clear(joined);
        infq_buf_add(joined, left.p, left.n);
        infq_buf_add(joined, right.p, right.n);
        INFQ_TRY(infq_buf_status(joined, err));
        INFQ_TRY(merge_id(t, rank, joined->data, joined->n, &id, err));
        INFQ_TRY(infq_tok_bpe_pair_add(b, l, r, rank, id, err));
        INFQ_TRY(infq_tok_bpe_seams_add(b, joined->data, joined->n, err));
        if (b->unk >= 0 && (l == b->unk || r == b->unk))
            b->can_cut = false;
        rank++;
    }
    return INFQ_E_OK;
}

static infq_status part_text(infq_tokenizer *t, const cJSON *model, const char *key,
                             infq_tok_str *out, infq_err *err)
{
    const char *s;

    if (infq_json_str(model, key, "", &s, err))
        return infq_err_in(err, "model BPE");
    return infq_tok_strdup(t, s, strlen(s), out, err);
}

static infq_status load_options(infq_tokenizer *t, const cJSON *model, infq_err *err)
{
    infq_tok_bpe *b = &t->bpe;
    const char *unk;
    double dropout;

    if (infq_json_bool(model, "byte_fallback", false, &b->byte_fallback, err) ||
        infq_json_bool(model, "fuse_unk", false, &b->fuse_unk, err) ||
        infq_json_bool(model, "ignore_merges", false, &b->ignore_merges, err) ||
        infq_json_str(model, "unk_token", NULL, &unk, err) ||
        infq_json_f64(model, "dropout", 0, &dropout, err))
        return infq_err_in(err, "model BPE");
    if (dropout != 0)
        return infq_err_set(err, INFQ_E_UNSUPPORTED, "model BPE: dropout is not supported");
    INFQ_TRY(part_text(t, model, "continuing_subword_prefix", &b->prefix, err));
    INFQ_TRY(part_text(t, model, "end_of_word_suffix", &b->suffix, err));
    b->can_cut = !b->prefix.n && !b->suffix.n;
    if (unk) {
        b->unk = (int32_t)infq_map_get(t->vocab.map, unk, strlen(unk));
        if (b->unk < 0)
            b->unk = (int32_t)infq_map_get(t->vocab.added, unk, strlen(unk));
        if (b->unk < 0)
            return infq_err_set(err, INFQ_E_FORMAT,
                                "model BPE: unk_token \"%.40s\" is not in the vocabulary", unk);
    }
    for (int i = 0; i < 256; i++) {
        static const char hex[] = "0123456789ABCDEF";
        char name[6] = { '<', '0', 'x', hex[i >> 4], hex[i & 15], '>' };
        b->byte_id[i] = (int32_t)infq_map_get(t->vocab.map, name, sizeof(name));
    }
    return INFQ_E_OK;
}

// Without merges only single characters and added tokens can come out: a vocabulary with more is
// not whole.
static infq_status check_no_merges(const infq_tokenizer *t, infq_err *err)
{
    for (int64_t id = 0; id < t->vocab.n; id++) {
        infq_tok_str s = t->vocab.text[id];

        if (!(t->vocab.flags[id] & INFQ_TOK_PRESENT) || t->vocab.flags[id] & INFQ_TOK_IS_ADDED ||
            id == t->bpe.unk || (s.n == 6 && memcmp(s.p, "<0x", 3) == 0))
            continue;
        if (infq_utf8_count(s.p, s.n) > 1)
            return infq_err_set(err, INFQ_E_FORMAT,
                                "model BPE has no merges, so token \"%.40s\" can never be made",
                                s.p);
    }
    return INFQ_E_OK;
}

static infq_status load_all(infq_tokenizer *t, infq_tok_work *w, const cJSON *root,
                            const cJSON *model, infq_err *err)
{
    const cJSON *vocab = infq_json_get(model, "vocab"), *merges = infq_json_get(model, "merges");
    const cJSON *added = infq_json_get(root, "added_tokens");
    size_t n_bytes = 0, n_added = 0;
    int64_t n_ids = 0;
    void *block;
    char *at;

    if (!cJSON_IsObject(vocab))
        return infq_err_set(err, INFQ_E_FORMAT, "model BPE has no object vocab");
    if (!cJSON_IsArray(merges))
        return infq_err_set(err, INFQ_E_FORMAT, "model BPE has no list merges");
    if (added && !cJSON_IsArray(added))
        return infq_err_set(err, INFQ_E_FORMAT, "added_tokens is not a list");
    INFQ_TRY(measure(vocab, added, &n_ids, &n_bytes, err));
    n_added = added ? (size_t)cJSON_GetArraySize(added) : 0;
    n_bytes += (size_t)cJSON_GetArraySize(vocab) + n_added + 1; // a zero byte behind each
    INFQ_TRY(infq_tok_vocab_alloc(t, n_ids, (size_t)cJSON_GetArraySize(vocab), err));
    INFQ_TRY(infq_arena_alloc(t->arena, n_bytes, 1, "vocabulary", &block, err));
    at = block;
    INFQ_TRY(load_vocab(t, vocab, &at, err));
    INFQ_TRY(load_added(t, w, added, &at, err));
    INFQ_TRY(load_options(t, model, err));
    INFQ_TRY(load_merges(t, merges, infq_tok_work_buf(w, 2), err));
    INFQ_TRY(infq_tok_bpe_check_order(&t->bpe, err));
    return t->bpe.n_pairs || t->bpe.ignore_merges ? INFQ_E_OK : check_no_merges(t, err);
}

infq_status infq_tok_parse_model(infq_tokenizer *t, const cJSON *root, infq_err *err)
{
    const cJSON *model = infq_json_get(root, "model");
    infq_tok_work *w = NULL;
    const char *type;
    infq_status st;

    if (!cJSON_IsObject(model))
        return infq_err_set(err, INFQ_E_FORMAT, "model is not an object");
    if (infq_json_str(model, "type", NULL, &type, err))
        return infq_err_in(err, "model");
    if (!type && !infq_json_get(model, "merges"))
        return infq_err_set(err, INFQ_E_FORMAT, "model has no type");
    if (type && strcmp(type, "BPE") != 0)
        return infq_err_set(err, INFQ_E_UNSUPPORTED, "model %.40s is not supported, only BPE is",
                            type);
    INFQ_TRY(infq_tok_work_new(0, &w, err));
    st = load_all(t, w, root, model, err);
    infq_tok_work_free(w);
    return st;
}
