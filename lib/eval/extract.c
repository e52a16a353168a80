#include "lib/eval/extract.h"

#include <string.h>

#include "lib/base/regex.h"
#include "lib/base/str.h"
#include "lib/base/text.h"

#define MAX_GROUPS 16
#define MAX_IGNORE 16

struct infq_extract {
    infq_regex *regex; // NULL: the whole text
    bool last;
};

infq_status infq_extract_new(const char *pattern, bool last, infq_extract **out, infq_err *err)
{
    infq_extract *x;
    void *p;
    infq_status st = INFQ_E_OK;

    INFQ_TRY(infq_mem_new(1, sizeof(*x), "extraction", &p, err));
    x = p;
    *x = (infq_extract){ NULL, last };
    if (pattern)
        st = infq_regex_new(pattern, 0, &x->regex, err);
    if (!st && pattern && infq_regex_groups(x->regex) >= MAX_GROUPS)
        st = infq_err_set(err, INFQ_E_UNSUPPORTED, "an extraction of more than %d groups", MAX_GROUPS - 1);
    if (st)
        infq_extract_free(x);
    else
        *out = x;
    return st;
}

void infq_extract_free(infq_extract *x)
{
    if (!x)
        return;
    infq_regex_free(x->regex);
    infq_mem_free(x);
}

// Valid UTF-8 with the same characters; broken parts become U+FFFD.
static infq_status repaired(const char *text, size_t n, infq_buf *to, infq_err *err)
{
    size_t len;
    char u[4];

    infq_buf_clear(to);
    if (infq_utf8_check(text, n) == n) {
        infq_buf_add(to, text, n);
    } else {
        for (size_t at = 0; at < n; at += len) {
            uint32_t cp = infq_utf8_next(text + at, n - at, &len);
            infq_buf_add(to, u, infq_utf8_put(cp, u));
        }
    }
    return infq_buf_status(to, err);
}

static void put_trimmed(const char *s, size_t n, infq_buf *out)
{
    size_t from;

    n = infq_rstrip(s, n);
    from = infq_lstrip(s, n);
    infq_buf_clear(out);
    infq_buf_add(out, s + from, n - from);
}

// The match to use: spans of the first or last one.
static infq_status choose(infq_extract *x, const char *s, size_t n, infq_span *best, int n_groups, bool *any, infq_err *err)
{
    infq_span m[MAX_GROUPS];
    bool found;

    *any = false;
    for (size_t at = 0; ; at = infq_regex_next(&m[0], s, n)) {
        INFQ_TRY(infq_regex_find(x->regex, s, n, at, m, n_groups, &found, err));
        if (!found)
            return INFQ_E_OK;
        memcpy(best, m, sizeof(m[0]) * (size_t)n_groups);
        *any = true;
        if (!x->last)
            return INFQ_E_OK;
    }
}

infq_status infq_extract_apply(infq_extract *x, const char *text, size_t n, infq_buf *out, bool *found, infq_err *err)
{
    infq_span m[MAX_GROUPS];
    int n_groups = x->regex ? infq_regex_groups(x->regex) + 1 : 0, use = 0;
    infq_buf s;
    infq_status st;

    infq_buf_init(&s);
    st = repaired(text, n, &s, err);
    *found = true;
    if (!st && !x->regex)
        put_trimmed(s.data, s.n, out);
    if (!st && x->regex)
        st = choose(x, s.data, s.n, m, n_groups, found, err);
    if (st || !x->regex)
        goto done;
    for (use = n_groups > 1 ? 1 : 0; *found && n_groups > 1 && use < n_groups && m[use].end == m[use].begin; use++)
        ;
    *found = *found && use < n_groups;
    if (*found)
        put_trimmed(s.data + m[use].begin, m[use].end - m[use].begin, out);
    else
        put_trimmed(INFQ_EXTRACT_INVALID, strlen(INFQ_EXTRACT_INVALID), out);
done:
    infq_buf_deinit(&s);
    return st ? st : infq_buf_status(out, err);
}

struct infq_match {
    infq_regex *ignore[MAX_IGNORE];
    int n_ignore;
    infq_match_rule rule;
};

infq_status infq_match_new(const infq_match_rule *rule, infq_match **out, infq_err *err)
{
    infq_match *m;
    void *p;
    infq_status st = INFQ_E_OK;

    if (rule->n_ignore > MAX_IGNORE)
        return infq_err_set(err, INFQ_E_UNSUPPORTED, "more than %d ignored expressions", MAX_IGNORE);
    INFQ_TRY(infq_mem_new(1, sizeof(*m), "match rule", &p, err));
    m = p;
    memset(m, 0, sizeof(*m));
    m->rule = *rule;
    for (int i = 0; i < rule->n_ignore && !st; i++, m->n_ignore = i)
        st = infq_regex_new(rule->ignore[i], 0, &m->ignore[i], err);
    if (st)
        infq_match_free(m);
    else
        *out = m;
    return st;
}

void infq_match_free(infq_match *m)
{
    if (!m)
        return;
    for (int i = 0; i < MAX_IGNORE; i++)
        infq_regex_free(m->ignore[i]);
    infq_mem_free(m);
}

// Takes every match out of text.
static infq_status without(infq_regex *r, infq_buf *text, infq_buf *spare, infq_err *err)
{
    infq_span m;
    infq_buf old;
    size_t kept = 0;
    bool found;

    infq_buf_clear(spare);
    for (size_t at = 0; ; at = infq_regex_next(&m, text->data, text->n)) {
        INFQ_TRY(infq_regex_find(r, text->data, text->n, at, &m, 1, &found, err));
        if (!found)
            break;
        infq_buf_add(spare, text->data + kept, m.begin - kept);
        kept = m.end;
    }
    infq_buf_add(spare, text->data + kept, text->n - kept);
    old = *text;
    *text = *spare;
    *spare = old;
    return infq_buf_status(text, err);
}

// string.punctuation
static bool is_punctuation(char c)
{
    return (c >= '!' && c <= '/') || (c >= ':' && c <= '@') || (c >= '[' && c <= '`') || (c >= '{' && c <= '~');
}

static void drop_bytes(infq_buf *text, bool punctuation, bool digits)
{
    size_t to = 0;

    for (size_t i = 0; i < text->n; i++) {
        char c = text->data[i];
        if (!(punctuation && is_punctuation(c)) && !(digits && c >= '0' && c <= '9'))
            text->data[to++] = c;
    }
    text->data[to] = '\0';
    text->n = to;
}

static bool is_article(const char *s, size_t n)
{
    return (n == 1 && s[0] == 'a') || (n == 2 && memcmp(s, "an", 2) == 0) || (n == 3 && memcmp(s, "the", 3) == 0);
}

// Words apart by one blank, articles left out (in small letters, so case goes before).
static void only_words(infq_buf *text, infq_buf *spare)
{
    infq_buf old;
    size_t at = 0, len;

    infq_buf_clear(spare);
    for (;;) {
        size_t from;
        at += infq_lstrip(text->data + at, text->n - at);
        if (at == text->n)
            break;
        for (from = at; at < text->n && !infq_is_space(infq_utf8_next(text->data + at, text->n - at, &len)); at += len)
            ;
        if (is_article(text->data + from, at - from))
            continue;
        if (spare->n > 0)
            infq_buf_char(spare, ' ');
        infq_buf_add(spare, text->data + from, at - from);
    }
    old = *text;
    *text = *spare;
    *spare = old;
}

infq_status infq_match_normalize(infq_match *m, const char *text, size_t n, infq_buf *out, infq_err *err)
{
    infq_buf spare;
    infq_status st;

    infq_buf_init(&spare);
    st = repaired(text, n, out, err);
    for (int i = 0; i < m->n_ignore && !st; i++)
        st = without(m->ignore[i], out, &spare, err);
    if (!st && m->rule.ignore_case) {
        infq_buf_clear(&spare);
        infq_lower(out->data, out->n, &spare);
        infq_buf_clear(out);
        infq_buf_add(out, spare.data, spare.n);
        out->failed |= spare.failed;
    }
    if (!st && out->n > 0 && (m->rule.ignore_punctuation || m->rule.ignore_numbers))
        drop_bytes(out, m->rule.ignore_punctuation, m->rule.ignore_numbers);
    if (!st && m->rule.words)
        only_words(out, &spare);
    infq_buf_deinit(&spare);
    return st ? st : infq_buf_status(out, err);
}

infq_status infq_match_equal(infq_match *m, const char *a, size_t n_a, const char *b, size_t n_b, bool *out, infq_err *err)
{
    infq_buf x, y;
    infq_status st;

    infq_buf_init(&x);
    infq_buf_init(&y);
    st = infq_match_normalize(m, a, n_a, &x, err);
    if (!st)
        st = infq_match_normalize(m, b, n_b, &y, err);
    if (!st)
        *out = x.n == y.n && memcmp(x.data, y.data, x.n) == 0;
    infq_buf_deinit(&x);
    infq_buf_deinit(&y);
    return st;
}

size_t infq_cut_at_stop(const char *text, size_t n, const char *const *stops, int n_stops, bool *stopped)
{
    size_t end = n;

    for (int i = 0; i < n_stops; i++) {
        size_t len = strlen(stops[i]);
        size_t reach = n - end < len ? n : end + len - 1; // it may reach behind an earlier end
        const char *hit = len > 0 ? memmem(text, reach, stops[i], len) : NULL;
        if (hit && (size_t)(hit - text) < end)
            end = (size_t)(hit - text);
    }
    *stopped = end < n;
    return end;
}

size_t infq_strip_reasoning(const char *text, size_t n, const char *open, const char *close)
{
    const char *hit = NULL, *next = text, *end = text + n;
    size_t at;

    while ((next = memmem(next, (size_t)(end - next), close, strlen(close))) != NULL) {
        next += strlen(close);
        hit = next;
    }
    if (!hit && open && memmem(text, n, open, strlen(open)))
        return n;
    at = hit ? (size_t)(hit - text) : 0;
    return hit ? at + infq_lstrip(text + at, n - at) : at;
}
