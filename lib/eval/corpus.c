#include "lib/eval/corpus.h"

#include <stdio.h>
#include <string.h>

#include <zlib.h>

#include "lib/base/arena.h"
#include "lib/base/file.h"
#include "lib/base/json.h"
#include "lib/base/str.h"
#include "lib/base/text.h"

#define MAX_TEXT ((size_t)4 << 30)

struct infq_corpus {
    infq_buf raw;             /* the file */
    infq_arena *arena;
    infq_corpus_doc *docs;
    size_t n, cap;
};

static infq_status inflate_all(const uint8_t *data, size_t n_data, size_t max_bytes, infq_buf *out, infq_err *err)
{
    z_stream z;
    uint8_t part[65536];
    size_t given = 0;
    int rc;

    memset(&z, 0, sizeof(z));
    if (inflateInit2(&z, 15 + 16) != Z_OK)
        return infq_err_set(err, INFQ_E_NOMEM, "no memory to unpack");
    do {
        if (z.avail_in == 0 && given < n_data) {
            size_t n = n_data - given < (1u << 30) ? n_data - given : (1u << 30);
            z.next_in = (Bytef *)(uintptr_t)(data + given);
            z.avail_in = (uInt)n;
            given += n;
        }
        z.next_out = part;
        z.avail_out = sizeof(part);
        rc = inflate(&z, Z_NO_FLUSH);
        infq_buf_add(out, part, sizeof(part) - z.avail_out);
        // a second member may follow the first
        if (rc == Z_STREAM_END && (z.avail_in > 0 || given < n_data))
            rc = inflateReset(&z);
    } while (rc == Z_OK && out->n <= max_bytes && !out->failed);
    inflateEnd(&z);
    if (out->n > max_bytes)
        return infq_err_set(err, INFQ_E_FORMAT, "more than %zu bytes after unpacking", max_bytes);
    if (rc != Z_STREAM_END && !out->failed)
        return infq_err_set(err, INFQ_E_FORMAT, "broken or truncated gzip data after %zu bytes of text", out->n);
    return infq_buf_status(out, err);
}

infq_status infq_corpus_unpack(const void *data, size_t n, size_t max_bytes, infq_buf *out, infq_err *err)
{
    const uint8_t *b = data;

    if (n >= 2 && b[0] == 0x1f && b[1] == 0x8b)
        return inflate_all(b, n, max_bytes, out, err);
    if (n > max_bytes)
        return infq_err_set(err, INFQ_E_FORMAT, "%zu bytes, at most %zu are read", n, max_bytes);
    infq_buf_add(out, data, n);
    return infq_buf_status(out, err);
}

infq_status infq_corpus_read(const char *path, size_t max_bytes, infq_buf *out, infq_err *err)
{
    infq_filemap m;
    infq_status st;

    INFQ_TRY(infq_filemap_open(path, &m, err));
    st = infq_corpus_unpack(m.data, m.size, max_bytes, out, err);
    infq_filemap_close(&m);
    return st ? infq_err_in(err, "%s", path) : 0;
}

/* Appends s with every occurrence of `from` replaced, left to right. */
static void replace_all(const char *s, size_t n, const char *from, const char *to, infq_buf *out)
{
    size_t n_from = strlen(from), at = 0;

    while (at < n) {
        const char *hit = memmem(s + at, n - at, from, n_from);
        size_t end = hit ? (size_t)(hit - s) : n;
        infq_buf_add(out, s + at, end - at);
        if (!hit)
            break;
        infq_buf_str(out, to);
        at = end + n_from;
    }
}

/* The steps below write to spare and then swap; running out of memory sticks. */
static void begin(const infq_buf *text, infq_buf *spare)
{
    infq_buf_clear(spare);
    spare->failed = text->failed;
}

/* Replaces in place, by way of spare. */
static void replace_in(infq_buf *text, infq_buf *spare, const char *from, const char *to)
{
    infq_buf old = *text;

    begin(text, spare);
    replace_all(text->data, text->n, from, to, spare);
    *text = *spare;
    *spare = old;
}

/* Deletes each shortest [...] that does not cross a newline. */
static void drop_brackets(infq_buf *text, infq_buf *spare)
{
    infq_buf old = *text;
    size_t at = 0;

    begin(text, spare);
    while (at < text->n) {
        const char *s = text->data + at, *open = memchr(s, '[', text->n - at), *end;
        if (!open) {
            infq_buf_add(spare, s, text->n - at);
            break;
        }
        for (end = open + 1; end < text->data + text->n && *end != ']' && *end != '\n'; end++)
            ;
        if (end < text->data + text->n && *end == ']') {
            infq_buf_add(spare, s, (size_t)(open - s));
            end++;
        } else { // no partner on this line: kept
            infq_buf_add(spare, s, (size_t)(end - s));
        }
        at = (size_t)(end - text->data);
    }
    *text = *spare;
    *spare = old;
}

void infq_clean_hellaswag(const char *s, size_t n, infq_buf *out)
{
    infq_buf a, b;
    size_t from = infq_lstrip(s, n), to = infq_rstrip(s, n);

    infq_buf_init(&a);
    infq_buf_init(&b);
    infq_buf_add(&a, s + from, to > from ? to - from : 0);
    replace_in(&a, &b, " [title]", ". ");
    drop_brackets(&a, &b);
    replace_in(&a, &b, "  ", " ");
    infq_buf_add(out, a.data, a.n);
    out->failed |= a.failed || b.failed;
    infq_buf_deinit(&a);
    infq_buf_deinit(&b);
}

/* Trims white space between each open mark and the next close mark. */
static void trim_inside(infq_buf *text, infq_buf *spare, char open, char close)
{
    infq_buf old = *text;
    size_t at = 0;

    begin(text, spare);
    while (at < text->n) {
        const char *s = text->data + at, *end_of_text = text->data + text->n;
        const char *a = memchr(s, open, text->n - at);
        const char *z = a ? memchr(a + 1, close, (size_t)(end_of_text - a - 1)) : NULL;
        size_t from, to;
        if (!z) {
            infq_buf_add(spare, s, text->n - at);
            break;
        }
        from = infq_lstrip(a + 1, (size_t)(z - a - 1));
        to = infq_rstrip(a + 1, (size_t)(z - a - 1));
        infq_buf_add(spare, s, (size_t)(a - s) + 1);
        infq_buf_add(spare, a + 1 + from, to > from ? to - from : 0);
        infq_buf_char(spare, close);
        at = (size_t)(z - text->data) + 1;
    }
    *text = *spare;
    *spare = old;
}

/* "/' 5/" becomes the text "/'[0-9]/": an oddity of the reference that its counts contain. */
static void odd_contraction(infq_buf *text, infq_buf *spare)
{
    infq_buf old = *text;
    size_t i = 0;

    begin(text, spare);
    while (i < text->n) {
        const char *s = text->data + i;
        if (text->n - i >= 5 && s[0] == '/' && s[1] == '\'' && s[2] == ' ' && s[3] >= '0' && s[3] <= '9' && s[4] == '/') {
            infq_buf_str(spare, "/'[0-9]/");
            i += 5;
        } else {
            infq_buf_char(spare, text->data[i++]);
        }
    }
    *text = *spare;
    *spare = old;
}

infq_status infq_detokenize_wikitext(const char *s, size_t n, infq_buf *out, infq_err *err)
{
    static const char *const first[][2] = {{" @-@ ", "-"}, {" @,@ ", ","}, {" @.@ ", "."}, {" : ", ": "}, {" ; ", "; "},
                                           {" . ", ". "}, {" ! ", "! "}, {" ? ", "? "}, {" , ", ", "}};
    static const char marks[][2] = {{'(', ')'}, {'[', ']'}, {'{', '}'}, {'"', '"'}, {'\'', '\''}};
    static const char *const last[][2] = {{"= = = =", "===="}, {"= = =", "==="}, {"= =", "=="}, {" \xc2\xb0 ", "\xc2\xb0"},
                                          {" \n", "\n"}, {"\n ", "\n"}, {" N ", " 1 "}, {" 's", "'s"}};
    infq_buf a, b;
    infq_status st;

    infq_buf_init(&a);
    infq_buf_init(&b);
    infq_buf_add(&a, s, n);
    replace_in(&a, &b, "s '", "s'");
    odd_contraction(&a, &b);
    for (size_t i = 0; i < sizeof(first) / sizeof(first[0]); i++)
        replace_in(&a, &b, first[i][0], first[i][1]);
    for (size_t i = 0; i < sizeof(marks) / sizeof(marks[0]); i++)
        trim_inside(&a, &b, marks[i][0], marks[i][1]);
    for (size_t i = 0; i < sizeof(last) / sizeof(last[0]); i++)
        replace_in(&a, &b, last[i][0], last[i][1]);
    st = infq_buf_status(&a, err);
    if (!st)
        st = infq_buf_status(&b, err);
    if (!st) {
        infq_buf_add(out, a.data, a.n);
        st = infq_buf_status(out, err);
    }
    infq_buf_deinit(&a);
    infq_buf_deinit(&b);
    return st;
}

/* Adds a document; the text is copied into the arena. */
static infq_status add_doc(infq_corpus *c, const char *text, size_t n, int64_t words, int64_t bytes, infq_err *err)
{
    char *copy;

    if (c->n == c->cap) {
        size_t cap = c->cap ? 2 * c->cap : 64, n_bytes;
        void *p;
        if (!infq_mul_size(cap, sizeof(*c->docs), &n_bytes) || !(p = infq_mem_realloc(c->docs, n_bytes)))
            return infq_err_set(err, INFQ_E_NOMEM, "%zu documents do not fit in memory", cap);
        c->docs = p;
        c->cap = cap;
    }
    INFQ_TRY(infq_arena_alloc(c->arena, n + 1, 1, "text", (void **)&copy, err));
    memcpy(copy, text, n);
    copy[n] = '\0';
    c->docs[c->n++] = (infq_corpus_doc){copy, n, words, bytes};
    return 0;
}

static infq_status add_plain(infq_corpus *c, const char *s, size_t n, infq_err *err)
{
    return add_doc(c, s, n, infq_count_words(s, n), (int64_t)n, err);
}

/* Next line of raw at *at, without its newline. */
static bool next_line(const infq_buf *raw, size_t *at, const char **line, size_t *n)
{
    const char *s = raw->data + *at, *end;

    if (*at >= raw->n)
        return false;
    end = memchr(s, '\n', raw->n - *at);
    *n = end ? (size_t)(end - s) : raw->n - *at;
    *line = s;
    *at += *n + (end ? 1 : 0);
    return true;
}

static infq_status read_jsonl(infq_corpus *c, const char *path, bool join, int64_t max_docs, infq_err *err)
{
    infq_buf all;
    infq_status st = 0;
    size_t at = infq_bom_length(c->raw.data, c->raw.n), n;
    const char *line;
    int64_t row = 0, used = 0;

    infq_buf_init(&all);
    while (!st && next_line(&c->raw, &at, &line, &n) && (max_docs == 0 || used < max_docs)) {
        cJSON *o = NULL;
        const char *text;
        char what[64];
        row++;
        if (infq_rstrip(line, n) == 0)
            continue;
        snprintf(what, sizeof(what), "line %lld", (long long)row);
        st = infq_json_parse(line, n, what, &o, err);
        if (!st)
            st = infq_json_str(o, "text", NULL, &text, err);
        if (!st && !text)
            st = infq_err_set(err, INFQ_E_FORMAT, "line %lld has no text", (long long)row);
        if (!st && join) {
            infq_buf_str(&all, used ? "\n\n" : "");
            infq_buf_str(&all, text);
        } else if (!st) {
            st = add_plain(c, text, strlen(text), err);
        }
        used++;
        cJSON_Delete(o);
    }
    if (!st && join && used)
        st = infq_buf_status(&all, err);
    if (!st && join && used)
        st = add_plain(c, all.data, all.n, err);
    infq_buf_deinit(&all);
    return st ? infq_err_in(err, "%s", path) : 0;
}

/* Lines as the published data set holds them: with their newline, blank ones empty; joined by blank lines. */
static infq_status read_wiki_rows(infq_corpus *c, infq_err *err)
{
    infq_buf all;
    infq_status st;
    size_t at = 0, n, rows = 0;
    const char *line;

    infq_buf_init(&all);
    while (next_line(&c->raw, &at, &line, &n)) {
        infq_buf_str(&all, rows++ ? "\n\n" : "");
        if (infq_lstrip(line, n) < n) {
            infq_buf_add(&all, line, n);
            infq_buf_char(&all, '\n');
        }
    }
    st = infq_buf_status(&all, err);
    if (!st)
        st = add_plain(c, all.data, all.n, err);
    infq_buf_deinit(&all);
    return st;
}

static bool is_page_title(const char *s, size_t n)
{
    return n >= 3 && memcmp(s, " = ", 3) == 0 && memcmp(s + n - 3, " = ", 3) == 0 && !(n >= 5 && memcmp(s, " = = ", 5) == 0);
}

static infq_status add_page(infq_corpus *c, const char *s, size_t n, infq_err *err)
{
    infq_buf page;
    infq_status st;

    infq_buf_init(&page);
    st = infq_detokenize_wikitext(s, n, &page, err);
    if (!st)
        st = add_doc(c, page.data, page.n, infq_count_words(s, n), (int64_t)n, err);
    infq_buf_deinit(&page);
    return st;
}

static infq_status read_wiki_pages(infq_corpus *c, int64_t max_docs, infq_err *err)
{
    const char *line, *page = NULL, *end = c->raw.data + c->raw.n;
    size_t at = 0, n;

    while (next_line(&c->raw, &at, &line, &n)) {
        if (!is_page_title(line, n))
            continue;
        if (page)
            INFQ_TRY(add_page(c, page, (size_t)(line - 1 - page), err));
        page = line;
        if (max_docs > 0 && (int64_t)c->n >= max_docs)
            return 0;
    }
    return page ? add_page(c, page, (size_t)(end - page), err) : 0;
}

static infq_status read_line_groups(infq_corpus *c, int64_t n_lines, int64_t max_docs, infq_err *err)
{
    infq_buf doc;
    infq_status st = 0;
    size_t at = 0, n;
    const char *line;
    int64_t have = 0;
    bool more;

    infq_buf_init(&doc);
    do {
        more = next_line(&c->raw, &at, &line, &n);
        if (more && infq_lstrip(line, n) < n) {
            infq_buf_str(&doc, have++ ? "\n" : "");
            infq_buf_add(&doc, line, n);
        }
        if (have == n_lines || (!more && have > 0)) {
            st = infq_buf_status(&doc, err);
            if (!st)
                st = add_plain(c, doc.data, doc.n, err);
            infq_buf_clear(&doc);
            have = 0;
        }
    } while (more && !st && (max_docs == 0 || (int64_t)c->n < max_docs));
    infq_buf_deinit(&doc);
    return st;
}

/* A corpus with the file's content in raw. */
static infq_status read_raw(const char *path, infq_corpus **out, infq_err *err)
{
    infq_corpus *c = NULL;
    infq_status st;

    INFQ_TRY(infq_mem_new(1, sizeof(*c), "corpus", (void **)&c, err));
    infq_buf_init(&c->raw);
    st = infq_arena_new((size_t)1 << 20, &c->arena, err);
    if (!st)
        st = infq_corpus_read(path, MAX_TEXT, &c->raw, err);
    if (st)
        infq_corpus_free(c);
    else
        *out = c;
    return st;
}

static infq_status complete(infq_corpus *take_c, const char *path, infq_corpus **out, infq_err *err)
{
    infq_status st = 0;

    if (take_c->n == 0 || (take_c->n == 1 && take_c->docs[0].n == 0))
        st = infq_err_set(err, INFQ_E_FORMAT, "%s: holds no text", path);
    infq_buf_deinit(&take_c->raw);
    infq_buf_init(&take_c->raw);
    if (st)
        infq_corpus_free(take_c);
    else
        *out = take_c;
    return st;
}

infq_status infq_corpus_open(const char *path, infq_corpus_form form, bool join, int64_t max_docs, infq_corpus **out,
                             infq_err *err)
{
    infq_corpus *c;
    infq_status st;
    size_t mark, first;

    INFQ_TRY(read_raw(path, &c, err));
    mark = infq_bom_length(c->raw.data, c->raw.n);
    first = mark + infq_lstrip(c->raw.data + mark, c->raw.n - mark < 4096 ? c->raw.n - mark : 4096);
    if (form == INFQ_CORPUS_WIKI_ROWS)
        st = read_wiki_rows(c, err);
    else if (form == INFQ_CORPUS_WIKI_PAGES)
        st = read_wiki_pages(c, max_docs, err);
    else if (form == INFQ_CORPUS_PLAIN && c->raw.data[first] == '{')
        st = read_jsonl(c, path, join, max_docs, err);
    else
        st = add_plain(c, c->raw.data, c->raw.n, err);
    if (st)
        infq_corpus_free(c);
    return st ? st : complete(c, path, out, err);
}

infq_status infq_corpus_open_lines(const char *path, int64_t n_lines, int64_t max_docs, infq_corpus **out, infq_err *err)
{
    infq_corpus *c;
    infq_status st;

    INFQ_TRY(read_raw(path, &c, err));
    st = read_line_groups(c, n_lines, max_docs, err);
    if (st)
        infq_corpus_free(c);
    return st ? st : complete(c, path, out, err);
}

void infq_corpus_free(infq_corpus *c)
{
    if (!c)
        return;
    infq_buf_deinit(&c->raw);
    infq_arena_free(c->arena);
    infq_mem_free(c->docs);
    infq_mem_free(c);
}

size_t infq_corpus_count(const infq_corpus *c)
{
    return c->n;
}

const infq_corpus_doc *infq_corpus_get(const infq_corpus *c, size_t i)
{
    return &c->docs[i];
}
