/* Lexer of chat templates: tags, white space control, literals. Rules: Jinja's lexer with trim_blocks and lstrip_blocks on,
 * newlines read as "\n", one newline at the end of the template dropped. */
#include "lib/io/chat_lex.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/buf.h"
#include "lib/base/str.h"
#include "lib/base/text.h"

#define MAX_BRACKETS 200

typedef struct {
    infq_arena *arena;
    const char *s;
    size_t n, at;
    int line;
    bool line_starts;    /* what came before ended with a newline */
    chat_token *t;
    int64_t n_tokens, cap;
    char open[MAX_BRACKETS];
    int n_open;
    infq_err *err;
} lexer;

static infq_status fail(lexer *l, infq_status code, const char *what)
{
    return infq_err_set(l->err, code, "line %d: %s", l->line, what);
}

static bool here(const lexer *l, const char *what)
{
    size_t n = strlen(what);

    return l->n - l->at >= n && memcmp(l->s + l->at, what, n) == 0;
}

static infq_status add(lexer *l, chat_token t)
{
    t.line = l->line;
    if (l->n_tokens == l->cap) {
        int64_t cap = l->cap ? 2 * l->cap : 256;
        void *p;
        INFQ_TRY(infq_arena_alloc(l->arena, (size_t)cap, sizeof(t), "tokens of a template", &p, l->err));
        if (l->n_tokens > 0)
            memcpy(p, l->t, (size_t)l->n_tokens * sizeof(t));
        l->t = p;
        l->cap = cap;
    }
    l->t[l->n_tokens++] = t;
    return INFQ_E_OK;
}

static infq_status add_kind(lexer *l, chat_token_kind k)
{
    return add(l, (chat_token){ .kind = k });
}

static void advance(lexer *l, size_t to)
{
    for (; l->at < to; l->at++)
        l->line += l->s[l->at] == '\n';
}

static void skip_space(lexer *l)
{
    advance(l, l->at + infq_lstrip(l->s + l->at, l->n - l->at));
}

/* Text in front of a tag, at [from, to): `sign` is the character behind the tag's opening. Blocks and comments lose the
 * blanks of their line in front of them. */
static infq_status add_text(lexer *l, size_t from, size_t to, char sign, bool is_print)
{
    size_t end = to, start;

    if (sign == '-') {
        end = from + infq_rstrip(l->s + from, to - from);
    } else if (sign != '+' && !is_print) {
        for (start = to; start > from && l->s[start - 1] != '\n'; start--)
            ;
        if ((start > from || l->line_starts) && infq_lstrip(l->s + start, to - start) == to - start)
            end = start;
    }
    if (end > from)
        INFQ_TRY(add(l, (chat_token){ .kind = CHAT_T_TEXT, .s = l->s + from, .n = end - from }));
    advance(l, to);
    return INFQ_E_OK;
}

/* Behind a tag that closes with `mark` ("%}"): its sign and what it takes away. */
static void close_tag(lexer *l, const char *mark)
{
    size_t from = l->at;

    if (l->s[l->at] == '-') {
        l->at += 3;
        skip_space(l);
    } else if (l->s[l->at] == '+') {
        l->at += 3;
    } else {
        l->at += 2;
        if (mark[0] != '}' && l->at < l->n && l->s[l->at] == '\n')
            advance(l, l->at + 1);
    }
    l->line_starts = l->at > from && l->s[l->at - 1] == '\n';
}

static bool at_close(const lexer *l, const char *mark, bool plus)
{
    size_t sign = l->at < l->n && (l->s[l->at] == '-' || (plus && l->s[l->at] == '+'));

    return l->n - l->at >= sign + 2 && memcmp(l->s + l->at + sign, mark, 2) == 0;
}

static bool hex_digits(const lexer *l, size_t at, int n, uint32_t *cp)
{
    *cp = 0;
    for (int i = 0; i < n; i++) {
        char c = at + (size_t)i < l->n ? l->s[at + (size_t)i] : '\0';
        int d = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
        if (d < 0)
            return false;
        *cp = *cp * 16 + (uint32_t)d;
    }
    return true;
}

/* One escape as Python's unicode-escape reads it; l->at is behind the backslash and moves behind the escape. */
static infq_status escape(lexer *l, infq_buf *to)
{
    static const char from[] = "\\'\"abfnrtv", out[] = "\\'\"\a\b\f\n\r\t\v";
    char c = l->s[l->at++], u[4];
    const char *hit = c ? strchr(from, c) : NULL;
    uint32_t cp = 0;
    int n;

    if (hit) {
        infq_buf_char(to, out[hit - from]);
        return INFQ_E_OK;
    }
    if (c == '\n') {
        l->line++;
        return INFQ_E_OK;
    }
    if (c == 'N')
        return fail(l, INFQ_E_UNSUPPORTED, "escape \\N in a string");
    if (c >= '0' && c <= '7') {
        l->at--;
        for (n = 0; n < 3 && l->s[l->at] >= '0' && l->s[l->at] <= '7'; n++)
            cp = cp * 8 + (uint32_t)(l->s[l->at++] - '0');
    } else if (c == 'x' || c == 'u' || c == 'U') {
        n = c == 'x' ? 2 : c == 'u' ? 4 : 8;
        if (!hex_digits(l, l->at, n, &cp) || cp > 0x10ffff)
            return fail(l, INFQ_E_FORMAT, "a string has a broken escape");
        if (cp >= 0xd800 && cp < 0xe000)
            return fail(l, INFQ_E_UNSUPPORTED, "half a surrogate pair as an escape");
        l->at += (size_t)n;
    } else { // not an escape: both characters stay
        infq_buf_char(to, '\\');
        l->at--;
        return INFQ_E_OK;
    }
    infq_buf_add(to, u, infq_utf8_put(cp, u));
    return INFQ_E_OK;
}

static infq_status string(lexer *l)
{
    char quote = l->s[l->at++];
    infq_buf b;
    infq_status st = INFQ_E_OK;
    void *p;
    int line = l->line;

    infq_buf_init(&b);
    while (!st && l->at < l->n && l->s[l->at] != quote) {
        char c = l->s[l->at++];
        if (c == '\\' && l->at < l->n) {
            st = escape(l, &b);
            continue;
        }
        l->line += c == '\n';
        infq_buf_char(&b, c);
    }
    if (!st && l->at == l->n)
        st = infq_err_set(l->err, INFQ_E_FORMAT, "line %d: a string does not end", line);
    if (!st)
        st = infq_buf_status(&b, l->err);
    if (!st)
        st = infq_arena_alloc(l->arena, b.n + 1, 1, "string", &p, l->err);
    if (!st) {
        memcpy(p, b.data, b.n + 1);
        l->at++;
        st = add(l, (chat_token){ .kind = CHAT_T_STR, .s = p, .n = b.n });
    }
    infq_buf_deinit(&b);
    return st;
}

// Digits with single underscores between them, without those, into out; the number of characters read.
static size_t digits(const char *s, size_t n, char *out, size_t cap, size_t *n_out)
{
    size_t i = 0;

    while (i < n && ((s[i] >= '0' && s[i] <= '9') || (s[i] == '_' && i > 0 && i + 1 < n && s[i + 1] >= '0' && s[i + 1] <= '9'))) {
        if (s[i] != '_' && *n_out + 1 < cap)
            out[(*n_out)++] = s[i];
        i++;
    }
    return i;
}

static infq_status number(lexer *l)
{
    char text[64];
    size_t k = 0, at = l->at, m;
    bool is_float = false;
    chat_token t = { .kind = CHAT_T_INT };

    at += digits(l->s + at, l->n - at, text, sizeof(text), &k);
    if (l->s[l->at] == '0' && at - l->at == 1 && at < l->n && strchr("xXbBoO", l->s[at]))
        return fail(l, INFQ_E_UNSUPPORTED, "a number that is not decimal");
    if (at + 1 < l->n && l->s[at] == '.' && l->s[at + 1] >= '0' && l->s[at + 1] <= '9') {
        is_float = true;
        text[k++] = '.';
        at++;
        at += digits(l->s + at, l->n - at, text, sizeof(text) - 8, &k);
    }
    if (at < l->n && (l->s[at] == 'e' || l->s[at] == 'E')) {
        m = at + 1 + (at + 1 < l->n && (l->s[at + 1] == '+' || l->s[at + 1] == '-'));
        if (m < l->n && l->s[m] >= '0' && l->s[m] <= '9') {
            is_float = true;
            text[k++] = 'e';
            if (m > at + 1)
                text[k++] = l->s[at + 1];
            at = m + digits(l->s + m, l->n - m, text, sizeof(text), &k);
        }
    }
    if (k >= sizeof(text) - 8)
        return fail(l, INFQ_E_UNSUPPORTED, "a number of more than 50 digits");
    text[k] = '\0';
    errno = 0;
    if (is_float) {
        t.kind = CHAT_T_FLOAT;
        t.f = strtod(text, NULL);
    } else {
        t.i = strtoll(text, NULL, 10);
        if (errno)
            return fail(l, INFQ_E_UNSUPPORTED, "an integer beyond 64 bits");
        if (text[0] == '0' && strspn(text, "0") != k)
            return fail(l, INFQ_E_FORMAT, "an integer begins with 0");
    }
    l->at = at;
    return add(l, t);
}

static infq_status bracket(lexer *l, char c)
{
    static const char opening[] = "([{", closing[] = ")]}";
    const char *o = strchr(opening, c), *z = strchr(closing, c);

    if (o) {
        if (l->n_open == MAX_BRACKETS)
            return fail(l, INFQ_E_UNSUPPORTED, "more than 200 open brackets");
        l->open[l->n_open++] = c;
    } else if (z) {
        if (l->n_open == 0 || l->open[l->n_open - 1] != opening[z - closing])
            return fail(l, INFQ_E_FORMAT, "a bracket is closed that was not opened");
        l->n_open--;
    }
    return INFQ_E_OK;
}

static infq_status operator_or_name(lexer *l)
{
    static const char *const two[] = { "**", "//", "==", "!=", "<=", ">=" };
    const char *s = l->s + l->at;
    size_t k = 0;

    while (l->at + k < l->n && (unsigned char)s[k] < 0x80 && infq_is_word((unsigned char)s[k]))
        k++;
    if (k > 0) {
        if (l->at + k < l->n && (unsigned char)s[k] >= 0x80)
            return fail(l, INFQ_E_UNSUPPORTED, "a name with letters outside ASCII");
        l->at += k;
        return add(l, (chat_token){ .kind = CHAT_T_NAME, .s = s, .n = k });
    }
    for (size_t i = 0; i < sizeof(two) / sizeof(two[0]); i++)
        if (here(l, two[i]))
            k = 2;
    if (k == 0 && (!s[0] || !strchr("+-/*%~[](){}<>=.:|,", s[0]))) {
        if ((unsigned char)s[0] >= 0x80)
            return fail(l, INFQ_E_UNSUPPORTED, "a name with letters outside ASCII");
        return fail(l, INFQ_E_FORMAT, "a character that no expression has");
    }
    k = k ? k : 1;
    if (k == 1)
        INFQ_TRY(bracket(l, s[0]));
    l->at += k;
    return add(l, (chat_token){ .kind = CHAT_T_OP, .s = s, .n = k });
}

/* The inside of {% ... %} or {{ ... }}, up to and with its end. */
static infq_status inside(lexer *l, bool is_print)
{
    const char *mark = is_print ? "}}" : "%}";

    l->n_open = 0;
    for (;;) {
        skip_space(l);
        if (l->at == l->n)
            return fail(l, INFQ_E_FORMAT, is_print ? "{{ is not closed" : "{% is not closed");
        if (l->n_open == 0 && at_close(l, mark, !is_print)) {
            INFQ_TRY(add_kind(l, is_print ? CHAT_T_END_PRINT : CHAT_T_END_BLOCK));
            close_tag(l, mark);
            return INFQ_E_OK;
        }
        if (l->s[l->at] == '"' || l->s[l->at] == '\'')
            INFQ_TRY(string(l));
        else if (l->s[l->at] >= '0' && l->s[l->at] <= '9')
            INFQ_TRY(number(l));
        else
            INFQ_TRY(operator_or_name(l));
    }
}

static infq_status comment(lexer *l)
{
    while (l->at < l->n && !at_close(l, "#}", true))
        advance(l, l->at + 1);
    if (l->at == l->n)
        return fail(l, INFQ_E_FORMAT, "{# is not closed");
    close_tag(l, "#}");
    return INFQ_E_OK;
}

// At "{%": whether the tag is `word` and nothing else; *end is behind its sign and word.
static bool is_word_tag(const lexer *l, size_t at, const char *word, size_t *end)
{
    size_t i = at + 2;

    if (i < l->n && (l->s[i] == '-' || l->s[i] == '+'))
        i++;
    i += infq_lstrip(l->s + i, l->n - i);
    if (l->n - i < strlen(word) || memcmp(l->s + i, word, strlen(word)) != 0)
        return false;
    i += strlen(word);
    i += infq_lstrip(l->s + i, l->n - i);
    *end = i;
    if (l->n - i >= 3 && (l->s[i] == '-' || l->s[i] == '+'))
        i++;
    return l->n - i >= 2 && memcmp(l->s + i, "%}", 2) == 0;
}

/* {% raw %} ... {% endraw %}; l->at is at the first tag's sign and word, `end` behind them. Of the first tag
 * only "-" takes white space. */
static infq_status raw(lexer *l, size_t end)
{
    size_t from, close;
    bool minus = l->s[end] == '-';

    if (l->s[end] == '+')
        return fail(l, INFQ_E_FORMAT, "raw is closed with +");
    advance(l, end + (minus ? 3 : 2));
    if (minus)
        skip_space(l);
    for (from = l->at; ; ) {
        const char *hit = memmem(l->s + l->at, l->n - l->at, "{%", 2);
        if (!hit)
            return fail(l, INFQ_E_FORMAT, "raw is not closed");
        l->line_starts = false;
        if (is_word_tag(l, (size_t)(hit - l->s), "endraw", &close)) {
            size_t to = (size_t)(hit - l->s);
            char sign = l->s[to + 2];
            int line = l->line;
            l->line_starts = from == 0 || l->s[from - 1] == '\n';
            INFQ_TRY(add_text(l, from, to, sign, false));
            l->line = line;
            l->at = from;
            advance(l, close);
            close_tag(l, "%}");
            return INFQ_E_OK;
        }
        l->at = (size_t)(hit - l->s) + 2;
    }
}

static infq_status next(lexer *l)
{
    size_t from = l->at, to, end;
    const char *hit = l->s + from;
    char sign;
    bool is_print, is_comment;

    // the first of {{ {% {#
    for (to = l->n; (hit = memchr(hit, '{', l->n - (size_t)(hit - l->s))) != NULL; hit++) {
        if (hit + 1 < l->s + l->n && strchr("{%#", hit[1]) && hit[1]) {
            to = (size_t)(hit - l->s);
            break;
        }
    }
    if (to == l->n) {
        INFQ_TRY(add_text(l, from, to, '+', true));
        return INFQ_E_OK;
    }
    is_print = l->s[to + 1] == '{';
    is_comment = l->s[to + 1] == '#';
    sign = to + 2 < l->n ? l->s[to + 2] : '\0';
    INFQ_TRY(add_text(l, from, to, sign, is_print));
    if (!is_print && !is_comment && is_word_tag(l, to, "raw", &end))
        return raw(l, end);
    l->at += 2;
    if (sign == '-' || sign == '+')
        l->at++;
    if (is_comment)
        return comment(l);
    INFQ_TRY(add_kind(l, is_print ? CHAT_T_PRINT : CHAT_T_BLOCK));
    return inside(l, is_print);
}

infq_status infq_chat_lex(infq_arena *a, const char *text, size_t n, chat_token **out, int64_t *n_out, infq_err *err)
{
    lexer l = { .arena = a, .line = 1, .line_starts = true, .err = err };
    size_t bad = infq_utf8_check(text, n);
    void *p;

    if (bad < n)
        return infq_err_set(err, INFQ_E_FORMAT, "byte %zu is not UTF-8", bad);
    if (memchr(text, '\0', n))
        return infq_err_set(err, INFQ_E_FORMAT, "the text holds a NUL");
    INFQ_TRY(infq_arena_alloc(a, n + 1, 1, "template", &p, err));
    for (size_t i = 0; i < n; i++) { // \r\n and \r are newlines
        if (text[i] == '\r' && i + 1 < n && text[i + 1] == '\n')
            continue;
        ((char *)p)[l.n++] = text[i] == '\r' ? '\n' : text[i];
    }
    if (l.n > 0 && ((char *)p)[l.n - 1] == '\n')
        l.n--;
    ((char *)p)[l.n] = '\0';
    l.s = p;
    while (l.at < l.n)
        INFQ_TRY(next(&l));
    INFQ_TRY(add_kind(&l, CHAT_T_EOF));
    *out = l.t;
    *n_out = l.n_tokens;
    return INFQ_E_OK;
}
