#include <string.h>

#include "lib/io/tok_int.h"

/* Texts of a row of tokens: one block and the end of each. */
typedef struct {
    infq_buf text;
    size_t *ends;
    size_t n, cap;
    bool failed;
} row;

static void row_init(row *r)
{
    memset(r, 0, sizeof(*r));
    infq_buf_init(&r->text);
}

static void row_deinit(row *r)
{
    infq_buf_deinit(&r->text);
    infq_mem_free(r->ends);
}

static void row_clear(row *r)
{
    infq_buf_clear(&r->text);
    r->n = 0;
}

// Ends the token whose text was added to r->text.
static void row_end(row *r)
{
    if (r->n == r->cap) {
        size_t cap = r->cap ? 2 * r->cap : 64, n_bytes;
        size_t *grown = infq_mul_size(cap, sizeof(*grown), &n_bytes)
                            ? infq_mem_realloc(r->ends, n_bytes)
                            : NULL;
        if (!grown) {
            r->failed = true;
            return;
        }
        r->ends = grown;
        r->cap = cap;
    }
    r->ends[r->n++] = r->text.n;
}

static infq_tok_str row_get(const row *r, size_t i)
{
    size_t start = i ? r->ends[i - 1] : 0;
    infq_tok_str s = { r->text.data + start, r->ends[i] - start };

    return s;
}

// Each maximal broken part becomes U+FFFD.
static void add_lossy(infq_buf *to, const char *s, size_t n)
{
    while (n) {
        size_t good = infq_utf8_check(s, n), len;

        infq_buf_add(to, s, good);
        s += good;
        n -= good;
        if (!n)
            break;
        infq_utf8_next(s, n, &len);
        infq_buf_str(to, "\xef\xbf\xbd");
        s += len;
        n -= len;
    }
}

// A token of alphabet characters only is bytes; any other (an added token, say) stands for itself.
static void add_mapped(const infq_tok_alphabet *a, infq_tok_str s, infq_buf *to)
{
    size_t was = to->n;

    for (size_t i = 0, len; i < s.n; i += len) {
        uint32_t cp = infq_tok_next(s.p + i, s.n - i, &len);

        if (cp >= sizeof(a->byte_of) / sizeof(*a->byte_of) || a->byte_of[cp] < 0) {
            if (!to->failed)
                to->n = was;
            infq_buf_add(to, s.p, s.n);
            return;
        }
        infq_buf_char(to, (char)a->byte_of[cp]);
    }
}

static void byte_level(const infq_tok_alphabet *a, const row *in, row *out)
{
    infq_buf bytes;

    infq_buf_init(&bytes);
    for (size_t i = 0; i < in->n; i++)
        add_mapped(a, row_get(in, i), &bytes);
    out->failed |= bytes.failed;
    add_lossy(&out->text, bytes.data, bytes.n);
    row_end(out);
    infq_buf_deinit(&bytes);
}

static infq_status replace(const infq_tok_dec *d, infq_tok_match *m, const row *in, row *out,
                           infq_err *err)
{
    for (size_t i = 0; i < in->n; i++) {
        infq_tok_str s = row_get(in, i);
        infq_tok_walk walk = infq_tok_walk_over(&d->find, m, s.p, s.n);
        size_t at = 0, start, end;
        bool found;

        for (;;) {
            INFQ_TRY(infq_tok_walk_next(&walk, &found, &start, &end, err));
            if (!found)
                break;
            infq_buf_add(&out->text, s.p + at, start - at);
            infq_buf_add(&out->text, d->content.p, d->content.n);
            at = end;
        }
        infq_buf_add(&out->text, s.p + at, s.n - at);
        row_end(out);
    }
    return INFQ_E_OK;
}

static void strip(const infq_tok_dec *d, const row *in, row *out)
{
    size_t k = d->content.n;

    for (size_t i = 0; i < in->n; i++) {
        infq_tok_str s = row_get(in, i);

        for (int64_t c = 0; c < d->start && s.n >= k && memcmp(s.p, d->content.p, k) == 0; c++) {
            s.p += k;
            s.n -= k;
        }
        for (int64_t c = 0; c < d->stop && s.n >= k && memcmp(s.p + s.n - k, d->content.p, k) == 0;
             c++)
            s.n -= k;
        infq_buf_add(&out->text, s.p, s.n);
        row_end(out);
    }
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

// "<0xHH>" to its byte, -1 for any other text.
static int fallback_byte(infq_tok_str s)
{
    int high, low;

    if (s.n != 6 || memcmp(s.p, "<0x", 3) != 0 || s.p[5] != '>')
        return -1;
    high = hex_digit(s.p[3]);
    low = hex_digit(s.p[4]);
    return high < 0 || low < 0 ? -1 : high * 16 + low;
}

static void flush_bytes(infq_buf *bytes, row *out)
{
    if (!bytes->n)
        return;
    if (infq_utf8_check(bytes->data, bytes->n) == bytes->n) {
        infq_buf_add(&out->text, bytes->data, bytes->n);
        row_end(out);
    } else {
        for (size_t i = 0; i < bytes->n; i++) {
            infq_buf_str(&out->text, "\xef\xbf\xbd");
            row_end(out);
        }
    }
    infq_buf_clear(bytes);
}

static void byte_fallback(const row *in, row *out)
{
    infq_buf bytes;

    infq_buf_init(&bytes);
    for (size_t i = 0; i < in->n; i++) {
        infq_tok_str s = row_get(in, i);
        int b = fallback_byte(s);

        if (b >= 0) {
            infq_buf_char(&bytes, (char)b);
            out->failed |= bytes.failed;
            continue;
        }
        flush_bytes(&bytes, out);
        infq_buf_add(&out->text, s.p, s.n);
        row_end(out);
    }
    flush_bytes(&bytes, out);
    infq_buf_deinit(&bytes);
}

// The marker becomes a blank; in the first token it goes, unless no blank was put in front when
// encoding.
static void metaspace(const infq_tok_dec *d, const row *in, row *out)
{
    size_t k = d->content.n;

    for (size_t i = 0; i < in->n; i++) {
        infq_tok_str s = row_get(in, i);

        for (size_t at = 0, len; at < s.n; at += len) {
            infq_tok_next(s.p + at, s.n - at, &len);
            if (len != k || memcmp(s.p + at, d->content.p, k) != 0)
                infq_buf_add(&out->text, s.p + at, len);
            else if (i > 0 || d->scheme == INFQ_TOK_NEVER)
                infq_buf_char(&out->text, ' ');
        }
        row_end(out);
    }
}

static infq_status apply(const infq_tokenizer *t, const infq_tok_dec *d, infq_tok_match *m,
                         const row *in, row *out, infq_err *err)
{
    switch (d->kind) {
    case INFQ_TOK_DEC_BYTE_LEVEL:
        byte_level(&t->alphabet, in, out);
        break;
    case INFQ_TOK_DEC_REPLACE:
        return replace(d, m, in, out, err);
    case INFQ_TOK_DEC_FUSE:
        infq_buf_add(&out->text, in->text.data, in->text.n);
        row_end(out);
        break;
    case INFQ_TOK_DEC_STRIP:
        strip(d, in, out);
        break;
    case INFQ_TOK_DEC_BYTE_FALLBACK:
        byte_fallback(in, out);
        break;
    case INFQ_TOK_DEC_METASPACE:
        metaspace(d, in, out);
        break;
    }
    return INFQ_E_OK;
}

static infq_status run(const infq_tokenizer *t, row *a, row *b, infq_buf *text, infq_err *err)
{
    infq_tok_match *m = NULL;
    infq_status st = infq_tok_match_new(&m, err);

    for (size_t i = 0; i < t->n_dec && !st; i++) {
        row swap = *a;

        row_clear(b);
        st = apply(t, &t->dec[i], m, a, b, err);
        *a = *b;
        *b = swap;
        if (!st && (a->failed || a->text.failed))
            st = infq_err_set(err, INFQ_E_NOMEM, "decoding of tokens");
    }
    if (!st) {
        infq_buf_add(text, a->text.data, a->text.n);
        st = infq_buf_status(text, err);
    }
    infq_tok_match_free(m);
    return st;
}

infq_status infq_tok_decode(const infq_tokenizer *t, const int32_t *ids, size_t n,
                            bool skip_special, infq_buf *text, infq_err *err)
{
    row a, b;
    infq_status st;

    row_init(&a);
    row_init(&b);
    for (size_t i = 0; i < n; i++) {
        const infq_tok_str *s = &t->vocab.text[ids[i]];

        if (skip_special && t->vocab.flags[ids[i]] & INFQ_TOK_IS_SPECIAL)
            continue;
        if (!t->has_decoder && a.n) // without a decoder the library puts blanks between tokens
            infq_buf_char(&a.text, ' ');
        infq_buf_add(&a.text, s->p, s->n);
        row_end(&a);
    }
    if (a.failed || a.text.failed)
        st = infq_err_set(err, INFQ_E_NOMEM, "decoding of %zu tokens", n);
    else
        st = run(t, &a, &b, text, err);
    row_deinit(&a);
    row_deinit(&b);
    return st;
}
