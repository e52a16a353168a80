#include "lib/io/tokenizer.h"

#include <string.h>

#include "lib/base/file.h"
#include "lib/base/hash.h"
#include "lib/io/tok_int.h"

infq_status infq_tok_new(infq_tokenizer **out, infq_err *err)
{
    infq_tokenizer *t;
    infq_status st;
    void *p;

    INFQ_TRY(infq_mem_new(1, sizeof(*t), "tokenizer", &p, err));
    t = p;
    memset(t, 0, sizeof(*t));
    infq_tok_trie_init(&t->raw);
    infq_tok_trie_init(&t->normalized);
    infq_tok_alphabet_init(&t->alphabet);
    infq_tok_bpe_init(&t->bpe, &t->vocab);
    t->template_ids[0] = -1;
    t->n_template = 1;
    t->bos = t->eos = -1;
    st = infq_arena_new(0, &t->arena, err);
    if (st) {
        infq_tokenizer_free(t);
        return st;
    }
    *out = t;
    return INFQ_E_OK;
}

void infq_tokenizer_free(infq_tokenizer *t)
{
    if (!t)
        return;
    for (size_t i = 0; i < t->n_regexes; i++)
        infq_tok_re_free(t->regexes[i]);
    infq_tok_trie_deinit(&t->normalized);
    infq_tok_trie_deinit(&t->raw);
    infq_tok_bpe_deinit(&t->bpe);
    infq_map_free(t->vocab.added);
    infq_map_free(t->vocab.map);
    infq_arena_free(t->arena);
    infq_mem_free(t);
}

infq_status infq_tok_vocab_alloc(infq_tokenizer *t, int64_t n, size_t n_tokens, infq_err *err)
{
    infq_tok_vocab *v = &t->vocab;
    void *p;

    INFQ_TRY(infq_arena_calloc(t->arena, (size_t)n, sizeof(*v->text), "vocabulary", &p, err));
    v->text = p;
    INFQ_TRY(infq_arena_calloc(t->arena, (size_t)n, 1, "vocabulary", &p, err));
    v->flags = p;
    INFQ_TRY(infq_arena_calloc(t->arena, (size_t)n, 1, "vocabulary", &p, err));
    t->added_flags = p;
    INFQ_TRY(infq_map_new(n_tokens, &v->map, err));
    INFQ_TRY(infq_map_new(64, &v->added, err));
    v->n = n;
    return INFQ_E_OK;
}

infq_status infq_tok_strdup(infq_tokenizer *t, const char *s, size_t n, infq_tok_str *out,
                            infq_err *err)
{
    void *p;

    INFQ_TRY(infq_arena_alloc(t->arena, n + 1, 1, "tokenizer text", &p, err));
    memcpy(p, s, n);
    ((char *)p)[n] = '\0';
    *out = (infq_tok_str){ p, n };
    return INFQ_E_OK;
}

// cJSON ends strings at a zero byte; a token with one inside would be cut without a word.
static bool has_zero_escape(const char *s, size_t n)
{
    static const char zero[] = "\\u0000";
    const char *at = s, *end = s + n;

    while ((at = memmem(at, (size_t)(end - at), zero, 6)) != NULL) {
        size_t slashes = 0;

        while (at - slashes > s && at[-1 - (ptrdiff_t)slashes] == '\\')
            slashes++;
        if (slashes % 2 == 0)
            return true;
        at += 6;
    }
    return false;
}

static infq_status parse_root(infq_tokenizer *t, const cJSON *root, infq_err *err)
{
    const char *version;
    const cJSON *post = infq_json_get(root, "post_processor");

    if (!cJSON_IsObject(root))
        return infq_err_set(err, INFQ_E_FORMAT, "the text is not an object");
    INFQ_TRY(infq_json_str(root, "version", "1.0", &version, err));
    if (strcmp(version, "1.0") != 0)
        return infq_err_set(err, INFQ_E_UNSUPPORTED, "version %.20s is not supported, only 1.0 is",
                            version);
    INFQ_TRY(infq_tok_parse_steps(t, root, err));
    INFQ_TRY(infq_tok_parse_model(t, root, err));
    if (post)
        INFQ_TRY(infq_tok_parse_template(t, post, err));
    if (t->template_ids[0] >= 0)
        t->bos = t->template_ids[0];
    if (t->template_ids[t->n_template - 1] >= 0)
        t->eos = t->template_ids[t->n_template - 1];
    return INFQ_E_OK;
}

infq_status infq_tokenizer_parse(const char *json, size_t n, infq_tokenizer **out, infq_err *err)
{
    infq_tokenizer *t = NULL;
    cJSON *root = NULL;
    infq_status st;

    INFQ_TRY(infq_json_parse(json, n, "tokenizer.json", &root, err));
    st = infq_tok_new(&t, err);
    if (!st && has_zero_escape(json, n))
        st = infq_err_set(err, INFQ_E_UNSUPPORTED,
                          "a text with a zero byte (\\u0000) is not supported");
    if (!st)
        st = parse_root(t, root, err);
    if (st)
        infq_err_in(err, "tokenizer.json");
    if (!st)
        st = infq_sha256_of(json, n, t->digest, err);
    cJSON_Delete(root);
    if (st) {
        infq_tokenizer_free(t);
        return st;
    }
    *out = t;
    return INFQ_E_OK;
}

infq_status infq_tokenizer_open(const char *folder, infq_tokenizer **out, infq_err *err)
{
    char *json = NULL, *model = NULL;
    infq_tokenizer *t = NULL;
    infq_filemap map;
    infq_status st = infq_path_join(folder, "tokenizer.json", &json, err);
    bool is_json;

    if (!st)
        st = infq_path_join(folder, "tokenizer.model", &model, err);
    if (st)
        goto done;
    is_json = infq_path_exists(json);
    if (!is_json && !infq_path_exists(model)) {
        st = infq_err_set(err, INFQ_E_NOT_FOUND,
                          "%s: neither tokenizer.json nor tokenizer.model is there", folder);
        goto done;
    }
    st = infq_filemap_open(is_json ? json : model, &map, err);
    if (st)
        goto done;
    st = is_json ? infq_tokenizer_parse((const char *)map.data, map.size, &t, err)
                 : infq_tokenizer_parse_sentencepiece(map.data, map.size, &t, err);
    infq_filemap_close(&map);
    if (!st)
        st = infq_tok_config_apply(t, folder, err);
    if (st) {
        infq_err_in(err, "%s", folder);
        goto done;
    }
    *out = t;
    t = NULL;
done:
    infq_tokenizer_free(t);
    infq_mem_free(model);
    infq_mem_free(json);
    return st;
}

typedef struct {
    const infq_tokenizer *t;
    infq_tok_work *w;
    unsigned flags;
    infq_ids *ids;
    infq_err *err;
} pass;

// White space right before s[n], in bytes.
static size_t blanks_before(const char *s, size_t n)
{
    size_t at = n, len;

    while (at > 0) {
        size_t from = at - 1;

        while (from > 0 && ((unsigned char)s[from] & 0xc0) == 0x80)
            from--;
        if (!infq_tok_is_space(infq_tok_next(s + from, at - from, &len)))
            break;
        at = from;
    }
    return n - at;
}

static size_t blanks_after(const char *s, size_t n)
{
    size_t at = 0, len;

    while (at < n && infq_tok_is_space(infq_tok_next(s + at, n - at, &len)))
        at += len;
    return at;
}

static bool word_around(const char *s, size_t n, size_t start, size_t end)
{
    size_t from = start, len;

    if (end < n && infq_tok_is_word(infq_tok_next(s + end, n - end, &len)))
        return true;
    if (start == 0)
        return false;
    do
        from--;
    while (from > 0 && ((unsigned char)s[from] & 0xc0) == 0x80);
    return infq_tok_is_word(infq_tok_next(s + from, start - from, &len));
}

/* Cuts out the added tokens: level 0 in raw text, level 1 in normalized text; the pieces between go
 * to the next level. The rules on neighbours follow the tokenizers library, where blanks swallowed
 * by one token may hold the next. */
static infq_status segment(pass *p, int level, const char *s, size_t n, bool at_start)
{
    const infq_tokenizer *t = p->t;
    const infq_tok_trie *trie = level ? &t->normalized : &t->raw;
    size_t done = 0, from = 0, start, end;
    int32_t id;

    if (level == 2)
        return infq_tok_pretokenize(t, p->w, s, n, at_start, p->ids, p->err);
    if (level == 1) {
        infq_tok_str norm;
        INFQ_TRY(infq_tok_normalize(t, p->w, s, n, &norm, p->err));
        s = norm.p;
        n = norm.n;
    }
    while (infq_tok_trie_find(trie, s, n, from, &start, &end, &id)) {
        uint8_t flags = t->added_flags[id];

        from = end;
        if (p->flags & INFQ_TOK_PLAIN && t->vocab.flags[id] & INFQ_TOK_IS_SPECIAL)
            continue;
        if (flags & INFQ_TOK_SINGLE_WORD && word_around(s, n, start, end))
            continue;
        if (flags & INFQ_TOK_LSTRIP && start > done) {
            size_t blanks = blanks_before(s + done, start - done);
            start -= blanks;
        }
        if (flags & INFQ_TOK_RSTRIP)
            end += blanks_after(s + end, n - end);
        if (done < start)
            INFQ_TRY(segment(p, level + 1, s + done, start - done, at_start && done == 0));
        infq_ids_push(p->ids, id);
        done = end;
    }
    return done < n ? segment(p, level + 1, s + done, n - done, at_start && done == 0) : INFQ_E_OK;
}

// The user's own symbols are whole pieces; what lies between is merged.
static infq_status sentencepiece(pass *p, const char *s, size_t n)
{
    const infq_tokenizer *t = p->t;
    infq_buf *text = infq_tok_work_buf(p->w, 0);
    size_t done = 0, start, end;
    int32_t id;

    infq_buf_clear(text);
    INFQ_TRY(infq_tok_sp_normalize(t, s, n, text, p->err));
    while (infq_tok_trie_find(&t->raw, text->data, text->n, done, &start, &end, &id)) {
        if (start > done)
            INFQ_TRY(infq_tok_bpe_encode(&t->bpe, p->w, text->data + done, start - done, p->ids,
                                         p->err));
        infq_ids_push(p->ids, id);
        done = end;
    }
    if (done == text->n)
        return INFQ_E_OK;
    return infq_tok_bpe_encode(&t->bpe, p->w, text->data + done, text->n - done, p->ids, p->err);
}

static infq_status encode_text(pass *p, const char *s, size_t n)
{
    size_t k = 0, end = p->t->n_template;
    infq_status st;

    while (p->t->template_ids[k] >= 0)
        k++;
    if (p->flags & INFQ_TOK_SPECIAL)
        infq_ids_append(p->ids, p->t->template_ids, k);
    st = p->t->sp ? sentencepiece(p, s, n) : n ? segment(p, 0, s, n, true) : INFQ_E_OK;
    if (st)
        return st;
    if (p->flags & INFQ_TOK_SPECIAL)
        infq_ids_append(p->ids, p->t->template_ids + k + 1, end - k - 1);
    return infq_ids_status(p->ids, p->err);
}

// Copies the text with every maximal broken part as U+FFFD.
static infq_status repair(const char *text, size_t n, infq_buf *to, infq_err *err)
{
    for (size_t i = 0, len; i < n; i += len) {
        size_t good = infq_utf8_check(text + i, n - i);

        infq_buf_add(to, text + i, good);
        i += good;
        if (i == n)
            break;
        infq_utf8_next(text + i, n - i, &len);
        infq_buf_str(to, "\xef\xbf\xbd");
    }
    return infq_buf_status(to, err);
}

infq_status infq_tok_encode_counted(const infq_tokenizer *t, const char *text, size_t n,
                                    unsigned flags, infq_ids *ids, uint64_t *n_steps, infq_err *err)
{
    infq_tok_work *w = NULL;
    size_t n_before = ids->n;
    infq_buf repaired;
    infq_status st = INFQ_E_OK;

    infq_buf_init(&repaired);
    if (infq_utf8_check(text, n) < n) {
        st = repair(text, n, &repaired, err);
        text = repaired.data;
        n = repaired.n;
    }
    if (!st)
        st = infq_tok_work_new(n, &w, err);
    if (!st) {
        pass p = { t, w, flags, ids, err };
        st = encode_text(&p, text, n);
        *n_steps = infq_tok_work_steps(w);
    }
    if (st)
        ids->n = n_before;
    infq_tok_work_free(w);
    infq_buf_deinit(&repaired);
    return st;
}

infq_status infq_tokenizer_encode(const infq_tokenizer *t, const char *text, size_t n,
                                  unsigned flags, infq_ids *ids, infq_err *err)
{
    uint64_t n_steps;

    return infq_tok_encode_counted(t, text, n, flags, ids, &n_steps, err);
}

infq_status infq_tokenizer_decode(const infq_tokenizer *t, const int32_t *ids, size_t n,
                                  bool skip_special, infq_buf *text, infq_err *err)
{
    for (size_t i = 0; i < n; i++)
        if (ids[i] < 0 || ids[i] >= t->vocab.n || !(t->vocab.flags[ids[i]] & INFQ_TOK_PRESENT))
            return infq_err_set(err, INFQ_E_FORMAT,
                                "token id %d is not in the tokenizer's vocabulary", (int)ids[i]);
    return t->sp ? infq_tok_sp_decode(t, ids, n, text, err)
                 : infq_tok_decode(t, ids, n, skip_special, text, err);
}

int64_t infq_tokenizer_size(const infq_tokenizer *t)
{
    return t->vocab.n;
}

int32_t infq_tokenizer_id(const infq_tokenizer *t, const char *token)
{
    size_t n = strlen(token);
    int64_t id = infq_map_get(t->vocab.added, token, n);

    return (int32_t)(id >= 0 ? id : infq_map_get(t->vocab.map, token, n));
}

int32_t infq_tokenizer_bos(const infq_tokenizer *t)
{
    return t->bos;
}

int32_t infq_tokenizer_eos(const infq_tokenizer *t)
{
    return t->eos;
}

bool infq_tokenizer_add_bos(const infq_tokenizer *t)
{
    return t->bos >= 0 && t->template_ids[0] == t->bos;
}

int32_t infq_tokenizer_prefix(const infq_tokenizer *t)
{
    return t->bos >= 0 ? t->bos : t->eos;
}

const char *infq_tokenizer_digest(const infq_tokenizer *t)
{
    return t->digest;
}
