#include <string.h>

#include <utf8proc.h>

#include "lib/io/tok_int.h"

static utf8proc_option_t form_options(infq_tok_norm_kind kind)
{
    switch (kind) {
    case INFQ_TOK_NFD:
        return UTF8PROC_STABLE | UTF8PROC_DECOMPOSE;
    case INFQ_TOK_NFKD:
        return UTF8PROC_STABLE | UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT;
    case INFQ_TOK_NFKC:
        return UTF8PROC_STABLE | UTF8PROC_COMPOSE | UTF8PROC_COMPAT;
    default:
        return UTF8PROC_STABLE | UTF8PROC_COMPOSE;
    }
}

static uint8_t combining_class(utf8proc_int32_t cp)
{
    return cp < 0x300 ? 0 : (uint8_t)utf8proc_get_property(cp)->combining_class;
}

// Stable sort of marks by combining class: insertion while short, counting when long, so that no
// text is quadratic.
static infq_status order_marks(utf8proc_int32_t *cp, size_t n, infq_err *err)
{
    size_t first[257] = { 0 };
    utf8proc_int32_t *copy;
    void *p;

    if (n <= 16) {
        for (size_t i = 1; i < n; i++)
            for (size_t k = i; k > 0 && combining_class(cp[k - 1]) > combining_class(cp[k]); k--) {
                utf8proc_int32_t t = cp[k];
                cp[k] = cp[k - 1];
                cp[k - 1] = t;
            }
        return INFQ_E_OK;
    }
    INFQ_TRY(infq_mem_new(n, sizeof(*copy), "normalization", &p, err));
    copy = p;
    memcpy(copy, cp, n * sizeof(*copy));
    for (size_t i = 0; i < n; i++)
        first[combining_class(copy[i]) + 1]++;
    for (size_t i = 1; i < 257; i++)
        first[i] += first[i - 1];
    for (size_t i = 0; i < n; i++)
        cp[first[combining_class(copy[i])]++] = copy[i];
    infq_mem_free(copy);
    return INFQ_E_OK;
}

static infq_status canonical_order(utf8proc_int32_t *cp, size_t n, infq_err *err)
{
    for (size_t i = 0; i < n;) {
        size_t end = i;

        while (end < n && combining_class(cp[end]))
            end++;
        if (end > i + 1)
            INFQ_TRY(order_marks(cp + i, end - i, err));
        i = end + 1;
    }
    return INFQ_E_OK;
}

// One part of the text that no composition leaves; cp: room for n + 32 code points at first, grown
// when needed.
static infq_status form_part(infq_tok_norm_kind kind, const char *s, size_t n, infq_ids *cp,
                             infq_buf *out, infq_err *err)
{
    utf8proc_option_t options = form_options(kind);
    int last_boundclass = 0;
    utf8proc_ssize_t kept;

    infq_ids_clear(cp);
    for (size_t i = 0, len; i < n; i += len) {
        utf8proc_int32_t part[32];
        utf8proc_ssize_t k =
            utf8proc_decompose_char((utf8proc_int32_t)infq_tok_next(s + i, n - i, &len), part, 32,
                                    options, &last_boundclass);
        if (k < 0 || k > 32)
            return infq_err_set(err, INFQ_E_BUG, "normalizer: %s",
                                k < 0 ? utf8proc_errmsg(k) : "long decomposition");
        infq_ids_append(cp, part, (size_t)k);
    }
    INFQ_TRY(infq_ids_status(cp, err));
    INFQ_TRY(canonical_order(cp->data, cp->n, err));
    kept = utf8proc_normalize_utf32(cp->data, (utf8proc_ssize_t)cp->n, options);
    for (utf8proc_ssize_t i = 0; i < kept; i++) {
        char text[4];
        infq_buf_add(out, text, infq_utf8_put((uint32_t)cp->data[i], text));
    }
    return INFQ_E_OK;
}

/* ASCII stays as it is in every form; only an ASCII character right before others can compose with
 * what follows. So the text is cut behind every ASCII character that another one follows. */
static infq_status form(infq_tok_norm_kind kind, const char *s, size_t n, infq_buf *out,
                        infq_err *err)
{
    infq_ids cp;
    infq_status st = INFQ_E_OK;
    size_t i = 0;

    infq_ids_init(&cp);
    while (i < n && !st) {
        size_t plain = i, end;

        while (plain < n && !((unsigned char)s[plain] & 0x80))
            plain++;
        if (plain < n && plain > i)
            plain--;
        infq_buf_add(out, s + i, plain - i);
        end = plain;
        if (end < n && !((unsigned char)s[end] & 0x80))
            end++;
        while (end < n && ((unsigned char)s[end] & 0x80))
            end++;
        if (end > plain)
            st = form_part(kind, s + plain, end - plain, &cp, out, err);
        i = end;
    }
    infq_ids_deinit(&cp);
    return st;
}

static void lowercase(const char *s, size_t n, infq_buf *out)
{
    for (size_t i = 0, len; i < n; i += len) {
        uint32_t cp = infq_tok_next(s + i, n - i, &len);
        char text[4];

        if (cp == 0x130) // the only character whose lower case is two
            infq_buf_str(out, "i\xcc\x87");
        else if (cp < 0x80)
            infq_buf_char(out, (char)(cp >= 'A' && cp <= 'Z' ? cp + 32 : cp));
        else
            infq_buf_add(out, text,
                         infq_utf8_put((uint32_t)utf8proc_tolower((utf8proc_int32_t)cp), text));
    }
}

static void strip(const infq_tok_norm *f, const char *s, size_t n, infq_buf *out)
{
    size_t start = 0, end = n, len;

    if (f->left)
        while (start < n && infq_tok_is_space(infq_tok_next(s + start, n - start, &len)))
            start += len;
    while (f->right && end > start) {
        size_t at = end - 1;

        while (at > start && ((unsigned char)s[at] & 0xc0) == 0x80)
            at--;
        if (!infq_tok_is_space(infq_tok_next(s + at, end - at, &len)))
            break;
        end = at;
    }
    infq_buf_add(out, s + start, end - start);
}

static void strip_accents(const char *s, size_t n, infq_buf *out)
{
    for (size_t i = 0, len; i < n; i += len)
        if (!infq_tok_is_mark(infq_tok_next(s + i, n - i, &len)))
            infq_buf_add(out, s + i, len);
}

static infq_status replace(const infq_tok_norm *f, infq_tok_match *m, const char *s, size_t n,
                           infq_buf *out, infq_err *err)
{
    infq_tok_walk walk = infq_tok_walk_over(&f->find, m, s, n);
    size_t at = 0, start, end;
    bool found;

    for (;;) {
        INFQ_TRY(infq_tok_walk_next(&walk, &found, &start, &end, err));
        if (!found)
            break;
        infq_buf_add(out, s + at, start - at);
        infq_buf_add(out, f->content.p, f->content.n);
        at = end;
    }
    infq_buf_add(out, s + at, n - at);
    return INFQ_E_OK;
}

static infq_status apply(const infq_tokenizer *t, const infq_tok_norm *f, infq_tok_match *m,
                         const char *s, size_t n, infq_buf *out, infq_err *err)
{
    switch (f->kind) {
    case INFQ_TOK_NFC:
    case INFQ_TOK_NFD:
    case INFQ_TOK_NFKC:
    case INFQ_TOK_NFKD:
        return form(f->kind, s, n, out, err);
    case INFQ_TOK_LOWERCASE:
        lowercase(s, n, out);
        break;
    case INFQ_TOK_STRIP:
        strip(f, s, n, out);
        break;
    case INFQ_TOK_STRIP_ACCENTS:
        strip_accents(s, n, out);
        break;
    case INFQ_TOK_PREPEND:
        infq_buf_add(out, f->content.p, f->content.n);
        infq_buf_add(out, s, n);
        break;
    case INFQ_TOK_REPLACE:
        return replace(f, m, s, n, out, err);
    case INFQ_TOK_BYTE_LEVEL:
        infq_tok_alphabet_map(&t->alphabet, s, n, out);
        break;
    }
    return INFQ_E_OK;
}

infq_status infq_tok_normalize(const infq_tokenizer *t, infq_tok_work *w, const char *s, size_t n,
                               infq_tok_str *out, infq_err *err)
{
    out->p = s;
    out->n = n;
    for (size_t i = 0; i < t->n_norm && out->n > 0; i++) {
        infq_buf *to = infq_tok_work_buf(w, i % 2);

        infq_buf_clear(to);
        INFQ_TRY(apply(t, &t->norm[i], infq_tok_work_match(w), out->p, out->n, to, err));
        INFQ_TRY(infq_buf_status(to, err));
        out->p = to->data;
        out->n = to->n;
    }
    return INFQ_E_OK;
}
