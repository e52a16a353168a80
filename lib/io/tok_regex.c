#include <stdio.h>
#include <string.h>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "lib/io/tok_int.h"

struct infq_tok_re {
    pcre2_code *code;
    bool jit;
    char where[48];
};

struct infq_tok_match {
    pcre2_match_data *data;
    pcre2_match_context *context;
    pcre2_jit_stack *stack; // NULL until a pattern outgrew the machine stack's share
    size_t n_limit;         // 1 + the length of text that the limits are set for
};

#define JIT_STACK_BYTES ((size_t)256 << 20)
#define HEX "0-9a-fA-F"
// White_Space; PCRE2's own \s also takes U+180E, which left that class in Unicode 6.3.
#define SPACES                                                                                  \
    "\\x{9}-\\x{d}\\x{20}\\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}" \
    "\\x{205f}\\x{3000}"
// Oniguruma's \w inside a class: L, M, Nd, Nl, Pc, the circled and squared letters. Outside also
// Latin-1's other numbers.
#define WORDS                                                                                  \
    "\\p{L}\\p{M}\\p{Nd}\\p{Nl}\\p{Pc}\\x{24b6}-\\x{24e9}\\x{1f130}-\\x{1f149}\\x{1f150}-\\x{" \
    "1f169}\\x{1f170}-\\x{1f189}"
#define LONE_WORDS WORDS "\\x{b2}\\x{b3}\\x{b9}\\x{bc}-\\x{be}"

static infq_status refuse(const char *where, const char *what, infq_err *err)
{
    return infq_err_set(err, INFQ_E_UNSUPPORTED,
                        "%s: %s in its regular expression is not supported", where, what);
}

// "{Han}" behind \p: the script itself. From 10.40 on PCRE2 takes the bare name for the wider
// script extensions.
static size_t script(const char *p, infq_buf *to)
{
#if PCRE2_MAJOR > 10 || PCRE2_MINOR >= 40
    static const char *const names[] = { "Han",   "Hiragana",   "Katakana", "Hangul", "Bopomofo",
                                         "Latin", "Greek",      "Cyrillic", "Arabic", "Hebrew",
                                         "Thai",  "Devanagari", "Bengali",  "Tamil" };

    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
        size_t n = strlen(names[i]);
        if (p[0] == '{' && strncmp(p + 1, names[i], n) == 0 && p[1 + n] == '}') {
            infq_buf_fmt(to, "{sc:%s}", names[i]);
            return n + 2;
        }
    }
#else
    (void)p;
    (void)to;
#endif
    return 0;
}

// One escape at p (behind the backslash); *used: characters taken.
static infq_status escape(const char *p, bool in_class, const char *where, infq_buf *to,
                          size_t *used, infq_err *err)
{
    static const struct {
        char name;
        const char *alone, *in_class; // NULL: refused there
        bool negated;
    } known[] = {
        { 's', SPACES, SPACES, false },
        { 'S', SPACES, "\\S\\x{180e}", true }, // PCRE2's \S lacks exactly this character
        { 'w', LONE_WORDS, WORDS, false },
        { 'W', LONE_WORDS, NULL, true },
        { 'h', HEX, HEX, false },
        { 'H', HEX, NULL, true },
    };

    *used = 1;
    for (size_t i = 0; i < sizeof(known) / sizeof(*known); i++) {
        if (*p != known[i].name)
            continue;
        if (!in_class)
            infq_buf_fmt(to, "[%s%s]", known[i].negated ? "^" : "", known[i].alone);
        else if (known[i].in_class)
            infq_buf_str(to, known[i].in_class);
        else
            return refuse(where, *p == 'W' ? "\\W inside a class" : "\\H inside a class", err);
        return INFQ_E_OK;
    }
    if (*p == 'u' && strspn(p + 1, "0123456789abcdefABCDEF") >= 4) {
        infq_buf_fmt(to, "\\x{%.4s}", p + 1);
        *used = 5;
        return INFQ_E_OK;
    }
    infq_buf_char(to, '\\');
    if (*p)
        infq_buf_char(to, *p);
    else
        *used = 0;
    if (*p == 'p' || *p == 'P')
        *used += script(p + 1, to);
    return INFQ_E_OK;
}

// Options of a group "(?imx-:": m means "dot matches newline" there, something else here.
static bool group_has_m(const char *p)
{
    size_t n = strspn(p, "imxsn-");

    return (p[n] == ':' || p[n] == ')') && memchr(p, 'm', n);
}

static infq_status translate(const char *p, const char *where, infq_buf *to, infq_err *err)
{
    bool in_class = false;

    while (*p) {
        if (*p == '\\') {
            size_t used;
            INFQ_TRY(escape(p + 1, in_class, where, to, &used, err));
            p += 1 + used;
            continue;
        }
        if (!in_class && *p == '[') {
            in_class = true;
            infq_buf_char(to, *p++);
            if (*p == '^')
                infq_buf_char(to, *p++);
            if (*p == ']')
                infq_buf_char(to, *p++);
            continue;
        }
        if (in_class &&
            *p == '[') // nested or POSIX class: another meaning, or another set of characters
            return refuse(where, "[ inside a class", err);
        if (in_class && p[0] == '&' && p[1] == '&')
            return refuse(where, "&& inside a class", err);
        if (!in_class && p[0] == '(' && p[1] == '?' && group_has_m(p + 2))
            return refuse(where, "option m", err);
        if (*p == ']')
            in_class = false;
        infq_buf_char(to, *p++);
    }
    return infq_buf_status(to, err);
}

static void *pcre_alloc(size_t n, void *ctx)
{
    (void)ctx;
    return infq_mem_alloc(n);
}

static void pcre_free(void *p, void *ctx)
{
    (void)ctx;
    infq_mem_free(p);
}

static infq_status compile(infq_tok_re *re, const char *pattern, size_t n, infq_err *err)
{
    pcre2_general_context *general = pcre2_general_context_create(pcre_alloc, pcre_free, NULL);
    pcre2_compile_context *context = general ? pcre2_compile_context_create(general) : NULL;
    infq_status st = INFQ_E_OK;
    PCRE2_SIZE at;
    int code;

    if (!context) {
        st = infq_err_set(err, INFQ_E_NOMEM, "%s: regular expression", re->where);
    } else {
        pcre2_set_newline(context, PCRE2_NEWLINE_LF);
        // Oniguruma's ^ and $ always look at lines.
        re->code = pcre2_compile((PCRE2_SPTR)pattern, n,
                                 PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NO_UTF_CHECK,
                                 &code, &at, context);
        if (!re->code && code == PCRE2_ERROR_HEAP_FAILED) {
            st = infq_err_set(err, INFQ_E_NOMEM, "%s: regular expression", re->where);
        } else if (!re->code) {
            PCRE2_UCHAR why[120];
            pcre2_get_error_message(code, why, sizeof(why));
            st = infq_err_set(err, INFQ_E_FORMAT, "%s: broken regular expression: %s", re->where,
                              (char *)why);
        } else {
            re->jit = pcre2_jit_compile(re->code, PCRE2_JIT_COMPLETE) == 0;
        }
    }
    pcre2_compile_context_free(context);
    pcre2_general_context_free(general);
    return st;
}

infq_status infq_tok_re_new(const char *pattern, const char *where, infq_tok_re **out,
                            infq_err *err)
{
    infq_tok_re *re;
    infq_buf b;
    infq_status st;
    void *p;

    INFQ_TRY(infq_mem_new(1, sizeof(*re), "regular expression", &p, err));
    re = p;
    memset(re, 0, sizeof(*re));
    snprintf(re->where, sizeof(re->where), "%s", where);
    infq_buf_init(&b);
    st = translate(pattern, where, &b, err);
    if (!st)
        st = compile(re, b.data, b.n, err);
    infq_buf_deinit(&b);
    if (st) {
        infq_tok_re_free(re);
        return st;
    }
    *out = re;
    return INFQ_E_OK;
}

void infq_tok_re_free(infq_tok_re *re)
{
    if (!re)
        return;
    pcre2_code_free(re->code);
    infq_mem_free(re);
}

infq_status infq_tok_match_new(infq_tok_match **out, infq_err *err)
{
    pcre2_general_context *general = pcre2_general_context_create(pcre_alloc, pcre_free, NULL);
    infq_tok_match *m = infq_mem_calloc(1, sizeof(*m));

    if (m && general) {
        m->data = pcre2_match_data_create(1, general);
        m->context = pcre2_match_context_create(general);
    }
    pcre2_general_context_free(general);
    if (!m || !m->data || !m->context) {
        infq_tok_match_free(m);
        return infq_err_set(err, INFQ_E_NOMEM, "state of a regular expression");
    }
    pcre2_set_depth_limit(m->context, UINT32_MAX); // the heap limit covers it
    *out = m;
    return INFQ_E_OK;
}

void infq_tok_match_free(infq_tok_match *m)
{
    if (!m)
        return;
    pcre2_match_context_free(m->context);
    pcre2_match_data_free(m->data);
    pcre2_jit_stack_free(m->stack);
    infq_mem_free(m);
}

// Limits that grow with the text: a long run of blanks passes, a pattern of exponential cost ends.
static void set_limits(infq_tok_match *m, size_t n)
{
    uint64_t steps = 10000000 + 100 * (uint64_t)n, kib = 65536 + (uint64_t)n;

    if (m->n_limit == n + 1)
        return;
    pcre2_set_match_limit(m->context, steps < UINT32_MAX ? (uint32_t)steps : UINT32_MAX);
    pcre2_set_heap_limit(m->context, kib < UINT32_MAX ? (uint32_t)kib : UINT32_MAX);
    m->n_limit = n + 1;
}

// JIT on the machine stack, then on a large one of its own, then the interpreter, whose stack is
// the heap.
static int run(const infq_tok_re *re, infq_tok_match *m, const char *s, size_t n, size_t from)
{
    int rc = PCRE2_ERROR_JIT_STACKLIMIT;

    set_limits(m, n);
    if (re->jit) {
        rc = pcre2_jit_match(re->code, (PCRE2_SPTR)s, n, from, 0, m->data, m->context);
        if (rc == PCRE2_ERROR_JIT_STACKLIMIT && !m->stack) {
            m->stack = pcre2_jit_stack_create((size_t)64 << 10, JIT_STACK_BYTES, NULL);
            if (m->stack) {
                pcre2_jit_stack_assign(m->context, NULL, m->stack);
                rc = pcre2_jit_match(re->code, (PCRE2_SPTR)s, n, from, 0, m->data, m->context);
            }
        }
    }
    if (rc == PCRE2_ERROR_JIT_STACKLIMIT)
        rc = pcre2_match(re->code, (PCRE2_SPTR)s, n, from, PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT,
                         m->data, m->context);
    return rc;
}

static infq_status find_regex(infq_tok_walk *w, size_t from, bool *found, size_t *start,
                              size_t *end, infq_err *err)
{
    const infq_tok_re *re = w->f->re;
    int rc = run(re, w->m, w->s, w->n, from);

    if (rc >= 0) {
        const PCRE2_SIZE *at = pcre2_get_ovector_pointer(w->m->data);
        *found = true;
        *start = at[0];
        *end = at[1] < at[0] ? at[0]
                             : at[1]; // \K inside a look-ahead can put the start behind the end
        return INFQ_E_OK;
    }
    *found = false;
    if (rc == PCRE2_ERROR_NOMATCH)
        return INFQ_E_OK;
    if (rc == PCRE2_ERROR_NOMEMORY || rc == PCRE2_ERROR_HEAPLIMIT)
        return infq_err_set(err, INFQ_E_NOMEM, "%s: regular expression on a text of %zu bytes",
                            re->where, w->n);
    return infq_err_set(
        err, INFQ_E_UNSUPPORTED,
        "%s: its regular expression takes too many steps on a text of %zu bytes (PCRE2 error %d)",
        re->where, w->n, rc);
}

static infq_status find_any(infq_tok_walk *w, size_t from, bool *found, size_t *start, size_t *end,
                            infq_err *err)
{
    const infq_tok_finder *f = w->f;

    if (f->kind == INFQ_TOK_FIND_REGEX)
        return find_regex(w, from, found, start, end, err);
    *found = false;
    if (f->kind == INFQ_TOK_FIND_STRING) {
        const char *at =
            f->text.n ? memmem(w->s + from, w->n - from, f->text.p, f->text.n) : w->s + from;
        if (at) {
            *found = true;
            *start = (size_t)(at - w->s);
            *end = *start + f->text.n;
        }
        return INFQ_E_OK;
    }
    for (size_t i = from, len; i < w->n; i += len) {
        uint32_t cp = infq_tok_next(w->s + i, w->n - i, &len);
        if (f->is(cp)) {
            *found = true;
            *start = i;
            *end = i + len;
            return INFQ_E_OK;
        }
    }
    return INFQ_E_OK;
}

infq_tok_walk infq_tok_walk_over(const infq_tok_finder *f, infq_tok_match *m, const char *s,
                                 size_t n)
{
    infq_tok_walk w = { f, m, s, n, 0, 0, false };

    return w;
}

infq_status infq_tok_walk_next(infq_tok_walk *w, bool *found, size_t *start, size_t *end,
                               infq_err *err)
{
    *found = false;
    while (w->at <= w->n) {
        size_t len = 1;

        INFQ_TRY(find_any(w, w->at, found, start, end, err));
        if (!*found) {
            w->at = w->n + 1;
            return INFQ_E_OK;
        }
        if (*end == *start && w->any && w->last_end == *end) {
            if (w->at < w->n)
                infq_tok_next(w->s + w->at, w->n - w->at, &len);
            w->at += len;
            *found = false;
            continue;
        }
        w->at = w->last_end = *end;
        w->any = true;
        return INFQ_E_OK;
    }
    return INFQ_E_OK;
}
