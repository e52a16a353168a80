/* The 25 kinds of instructions: what follows each of them. The rules are those of the original program, kind by kind. */
#include <stdio.h>
#include <string.h>

#include "lib/base/str.h"
#include "lib/base/text.h"
#include "lib/eval/ifeval_int.h"
#include "lib/eval/language.h"

// A piece of text; nothing is copied.
typedef struct {
    const char *s;
    size_t n;
} piece;

static piece trimmed(const char *s, size_t n)
{
    size_t from;

    n = infq_rstrip(s, n);
    from = infq_lstrip(s, n);
    return (piece){ s + from, n - from };
}

static bool related(const infq_ifeval_args *a, int64_t found)
{
    return a->less_than ? found < a->number : found >= a->number;
}

static infq_status count(const infq_ifeval_args *a, int i, const char *s, size_t n, int64_t *out, infq_err *err)
{
    return infq_regex_count(a->regex[i], s, n, out, err);
}

static infq_status lowered(const char *s, size_t n, infq_buf *out, infq_err *err)
{
    infq_lower(s, n, out);
    return infq_buf_status(out, err);
}

// Keywords

static infq_status prepare_words(infq_ifeval_args *a, infq_err *err)
{
    for (int i = 0; i < a->n_words; i++)
        INFQ_TRY(infq_ifeval_add_regex(a, a->words[i], INFQ_REGEX_NOCASE, err));
    return INFQ_E_OK;
}

static infq_status prepare_whole_words(infq_ifeval_args *a, infq_err *err)
{
    char pattern[400];

    for (int i = 0; i < a->n_words; i++) {
        if (strlen(a->words[i]) > sizeof(pattern) - 8)
            return infq_err_set(err, INFQ_E_UNSUPPORTED, "a word of more than %zu bytes", sizeof(pattern) - 8);
        snprintf(pattern, sizeof(pattern), "\\b%s\\b", a->words[i]);
        INFQ_TRY(infq_ifeval_add_regex(a, pattern, INFQ_REGEX_NOCASE, err));
    }
    return INFQ_E_OK;
}

static infq_status prepare_keyword(infq_ifeval_args *a, infq_err *err)
{
    piece p = trimmed(a->text, strlen(a->text));
    char *copy = infq_mem_strndup(p.s, p.n);
    infq_status st;

    if (!copy)
        return infq_err_set(err, INFQ_E_NOMEM, "a keyword needs memory");
    st = infq_ifeval_add_regex(a, copy, INFQ_REGEX_NOCASE, err);
    infq_mem_free(copy);
    return st;
}

static infq_status check_existence(const infq_ifeval_args *a, const char *s, size_t n, bool *ok, infq_err *err)
{
    infq_span m;

    *ok = true;
    for (int i = 0; i < a->n_regex && *ok; i++)
        INFQ_TRY(infq_regex_find(a->regex[i], s, n, 0, &m, 1, ok, err));
    return INFQ_E_OK;
}

static infq_status check_forbidden(const infq_ifeval_args *a, const char *s, size_t n, bool *ok, infq_err *err)
{
    infq_span m;
    bool found = false;

    for (int i = 0; i < a->n_regex && !found; i++)
        INFQ_TRY(infq_regex_find(a->regex[i], s, n, 0, &m, 1, &found, err));
    *ok = !found;
    return INFQ_E_OK;
}

// keywords:frequency, and everything else that counts matches of one expression with a relation.
static infq_status check_frequency(const infq_ifeval_args *a, const char *s, size_t n, bool *ok, infq_err *err)
{
    int64_t found;

    INFQ_TRY(count(a, 0, s, n, &found, err));
    *ok = related(a, found);
    return INFQ_E_OK;
}

static infq_status prepare_letter(infq_ifeval_args *a, infq_err *err)
{
    if (infq_utf8_count(a->text, strlen(a->text)) != 1)
        return infq_err_set(err, INFQ_E_FORMAT, "letter is not one character");
    return INFQ_E_OK;
}

static infq_status check_letter(const infq_ifeval_args *a, const char *s, size_t n, bool *ok, infq_err *err)
{
    infq_buf low, letter;
    infq_status st;
    int64_t found = 0;

    infq_buf_init(&low);
    infq_buf_init(&letter);
    st = lowered(s, n, &low, err);
    if (!st)
        st = lowered(a->text, strlen(a->text), &letter, err);
    for (const char *at = low.data; !st && (at = memmem(at, low.n - (size_t)(at - low.data), letter.data, letter.n)) != NULL;
         at += letter.n)
        found++;
    infq_buf_deinit(&low);
    infq_buf_deinit(&letter);
    *ok = related(a, found);
    return st;
}

// Language

static infq_status prepare_language(infq_ifeval_args *a, infq_err *err)
{
    if (!infq_language_known(a->text))
        return infq_err_set(err, INFQ_E_UNSUPPORTED, "the language %.20s", a->text);
    return INFQ_E_OK;
}

// A text without letters counts as being in any language.
static bool is_language(const char *code, const char *s, size_t n)
{
    const char *found = infq_language_of(s, n);

    return !found || strcmp(found, code) == 0;
}

static infq_status check_language(const infq_ifeval_args *a, const char *s, size_t n, bool *ok, infq_err *err)
{
    (void)err;
    *ok = is_language(a->text, s, n);
    return INFQ_E_OK;
}

static infq_status check_capital(const infq_ifeval_args *a, const char *s, size_t n, bool *ok, infq_err *err)
{
    (void)a;
    (void)err;
    *ok = infq_is_upper(s, n) && is_language("en", s, n);
    return INFQ_E_OK;
}

static infq_status check_lowercase(const infq_ifeval_args *a, const char *s, size_t n, bool *ok, infq_err *err)
{
    (void)a;
    (void)err;
    *ok = infq_is_lower(s, n) && is_language("en", s, n);
    return INFQ_E_OK;
}

static infq_status check_capital_words(const infq_ifeval_args *a, const char *s, size_t n, bool *ok, infq_err *err)
{
    (void)err;
    *ok = related(a, infq_ifeval_count_capital_words(s, n));
    return INFQ_E_OK;
}

// Length

static infq_status check_words(const infq_ifeval_args *a, const char *s, size_t n, bool *ok, infq_err *err)
{
    (void)err;
    *ok = related(a, infq_ifeval_count_words(s, n));
    return INFQ_E_OK;
}

static infq_status check_sentences(const infq_ifeval_args *a, const char *s, size_t n, bool *ok, infq_err *err)
{
    (void)err;
    *ok = related(a, infq_ifeval_count_sentences(s, n));
    return INFQ_E_OK;
}

// The piece in front of the next match from *at on, *at moves behind it; false after the last piece.
static infq_status next_piece(infq_regex *r, const char *s, size_t n, size_t *at, piece *out, bool *last, infq_err *err)
{
    infq_span m;
    bool found;

    INFQ_TRY(infq_regex_find(r, s, n, *at, &m, 1, &found, err));
    *last = !found;
    *out = (piece){ s + *at, (found ? m.begin : n) - *at };
    *at = found ? m.end : n;
    return INFQ_E_OK;
}

// Paragraphs stand between "***"; an empty one is allowed at either end only.
static infq_status check_paragraphs(const infq_ifeval_args *a, const char *s, size_t n, bool *ok, infq_err *err)
{
    int64_t found = 0;
    size_t at = 0;
    bool last = false;

    *ok = false;
    for (int64_t i = 0; !last; i++) {
        piece p;
        INFQ_TRY(next_piece(a->regex[0], s, n, &at, &p, &last, err));
        if (trimmed(p.s, p.n).n > 0)
            found++;
        else if (i > 0 && !last)
            return INFQ_E_OK;
    }
    *ok = found == a->number;
    return INFQ_E_OK;
}

// The first word without quotes in front, up to the first punctuation, in lower case.
static infq_status first_word_is(const char *want, piece p, bool *ok, infq_err *err)
{
    infq_buf word, low;
    size_t at = 0, len, end = 0;
    infq_status st;

    while (end < p.n && !infq_is_space(infq_utf8_next(p.s + end, p.n - end, &len)))
        end += len;
    while (at < end && p.s[at] == '\'')
        at++;
    while (at < end && p.s[at] == '"')
        at++;
    infq_buf_init(&word);
    infq_buf_init(&low);
    for (; at < end && !strchr(".,?!'\"", p.s[at]); at++)
        infq_buf_char(&word, p.s[at]);
    infq_lower(want, strlen(want), &low);
    p = (piece){ word.data, word.n };
    st = infq_buf_status(&word, err);
    if (!st) {
        infq_buf mine;
        infq_buf_init(&mine);
        st = lowered(p.s, p.n, &mine, err);
        *ok = !st && mine.n == low.n && memcmp(mine.data, low.data, low.n) == 0;
        infq_buf_deinit(&mine);
    }
    infq_buf_deinit(&word);
    infq_buf_deinit(&low);
    return st;
}

static infq_status check_first_word(const infq_ifeval_args *a, const char *s, size_t n, bool *ok, infq_err *err)
{
    int64_t full = 0;
    size_t at = 0;
    piece nth = { s, 0 };
    bool last = false;

    *ok = false;
    for (int64_t i = 1; !last; i++) {
        piece p;
        INFQ_TRY(next_piece(a->regex[0], s, n, &at, &p, &last, err));
        full += trimmed(p.s, p.n).n > 0;
        if (i == a->paragraph)
            nth = trimmed(p.s, p.n);
    }
    if (a->paragraph > full || full != a->number || nth.n == 0)
        return INFQ_E_OK;
    return first_word_is(a->text, nth, ok, err);
}

// Content and format

static infq_status check_at_least(const infq_ifeval_args *a, const char *s, size_t n, bool *ok, infq_err *err)
{
    int64_t found;

    INFQ_TRY(count(a, 0, s, n, &found, err));
    *ok = found >= a->number;
    return INFQ_E_OK;
}

static infq_status prepare_postscript(infq_ifeval_args *a, infq_err *err)
{
    infq_buf low;
    infq_status st;

    if (strcmp(a->text, "P.P.S") == 0)
        return infq_ifeval_add_regex(a, "\\s*p\\.\\s?p\\.\\s?s.*$", INFQ_REGEX_MULTILINE, err);
    if (strcmp(a->text, "P.S.") == 0)
        return infq_ifeval_add_regex(a, "\\s*p\\.\\s?s\\..*$", INFQ_REGEX_MULTILINE, err);
    infq_buf_init(&low);
    infq_buf_str(&low, "\\s*");
    infq_lower(a->text, strlen(a->text), &low);
    infq_buf_str(&low, ".*$");
    st = infq_buf_status(&low, err);
    if (!st)
        st = infq_ifeval_add_regex(a, low.data, INFQ_REGEX_MULTILINE, err);
    infq_buf_deinit(&low);
    return st;
}

static infq_status check_postscript(const infq_ifeval_args *a, const char *s, size_t n, bool *ok, infq_err *err)
{
    infq_buf low;
    infq_span m;
    infq_status st;

    infq_buf_init(&low);
    st = lowered(s, n, &low, err);
    if (!st)
        st = infq_regex_find(a->regex[0], low.data, low.n, 0, &m, 1, ok, err);
    infq_buf_deinit(&low);
    return st;
}

static infq_status check_bullets(const infq_ifeval_args *a, const char *s, size_t n, bool *ok, infq_err *err)
{
    int64_t stars, dashes;

    INFQ_TRY(count(a, 0, s, n, &stars, err));
    INFQ_TRY(count(a, 1, s, n, &dashes, err));
    *ok = stars + dashes == a->number;
    return INFQ_E_OK;
}

static infq_status check_constrained(const infq_ifeval_args *a, const char *s, size_t n, bool *ok, infq_err *err)
{
    static const char *const answers[] = { "My answer is yes.", "My answer is no.", "My answer is maybe." };

    (void)a;
    (void)err;
    *ok = false;
    for (int i = 0; i < 3; i++)
        *ok = *ok || memmem(s, n, answers[i], strlen(answers[i]));
    return INFQ_E_OK;
}

// Counts *..* with something inside, then **..** with something inside once more.
static infq_status check_highlights(const infq_ifeval_args *a, const char *s, size_t n, bool *ok, infq_err *err)
{
    int64_t found = 0;

    for (int i = 0; i < 2; i++) {
        infq_span m;
        bool more;
        for (size_t at = 0; ; at = infq_regex_next(&m, s, n)) {
            size_t from, to;
            INFQ_TRY(infq_regex_find(a->regex[i], s, n, at, &m, 1, &more, err));
            if (!more)
                break;
            for (from = m.begin; from < m.end && s[from] == '*'; from++)
                ;
            for (to = m.end; to > from && s[to - 1] == '*'; to--)
                ;
            found += trimmed(s + from, to - from).n > 0;
        }
    }
    *ok = found >= a->number;
    return INFQ_E_OK;
}

static infq_status prepare_sections(infq_ifeval_args *a, infq_err *err)
{
    char pattern[200];

    if (strlen(a->text) > sizeof(pattern) - 20)
        return infq_err_set(err, INFQ_E_UNSUPPORTED, "section_spliter of more than %zu bytes", sizeof(pattern) - 20);
    snprintf(pattern, sizeof(pattern), "\\s?%s\\s?\\d+\\s?", a->text);
    return infq_ifeval_add_regex(a, pattern, 0, err);
}

static infq_status check_json(const infq_ifeval_args *a, const char *s, size_t n, bool *ok, infq_err *err)
{
    static const char *const fences[] = { "```json", "```Json", "```JSON", "```" };
    piece p = trimmed(s, n);

    (void)a;
    (void)err;
    for (int i = 0; i < 4; i++) {
        size_t len = strlen(fences[i]);
        if (p.n >= len && memcmp(p.s, fences[i], len) == 0)
            p = (piece){ p.s + len, p.n - len };
    }
    if (p.n >= 3 && memcmp(p.s + p.n - 3, "```", 3) == 0)
        p.n -= 3;
    p = trimmed(p.s, p.n);
    *ok = infq_ifeval_is_json(p.s, p.n);
    return INFQ_E_OK;
}

static infq_status check_title(const infq_ifeval_args *a, const char *s, size_t n, bool *ok, infq_err *err)
{
    infq_span m;
    bool found;

    *ok = false;
    for (size_t at = 0; !*ok; at = infq_regex_next(&m, s, n)) {
        size_t from, to;
        INFQ_TRY(infq_regex_find(a->regex[0], s, n, at, &m, 1, &found, err));
        if (!found)
            return INFQ_E_OK;
        for (from = m.begin; from < m.end && s[from] == '<'; from++)
            ;
        for (to = m.end; to > from && s[to - 1] == '>'; to--)
            ;
        *ok = trimmed(s + from, to - from).n > 0;
    }
    return INFQ_E_OK;
}

// Combination

static bool same_piece(piece a, piece b)
{
    return a.n == b.n && memcmp(a.s, b.s, a.n) == 0;
}

// Two different answers apart by "******"; empty parts are allowed at either end only.
static infq_status check_two(const infq_ifeval_args *a, const char *s, size_t n, bool *ok, infq_err *err)
{
    piece answers[2];
    int64_t found = 0;
    size_t at = 0;
    bool last = false;

    *ok = false;
    for (int64_t i = 0; !last; i++) {
        piece p;
        INFQ_TRY(next_piece(a->regex[0], s, n, &at, &p, &last, err));
        p = trimmed(p.s, p.n);
        if (p.n == 0 && i > 0 && !last)
            return INFQ_E_OK;
        if (p.n > 0 && found < 2)
            answers[found] = p;
        found += p.n > 0;
    }
    *ok = found == 2 && !same_piece(answers[0], answers[1]);
    return INFQ_E_OK;
}

// Lower-case texts: one begins (ends) with the other.
static infq_status affix(piece text, piece part, bool at_end, bool *ok, infq_err *err)
{
    infq_buf t, p;
    infq_status st;

    infq_buf_init(&t);
    infq_buf_init(&p);
    st = lowered(text.s, text.n, &t, err);
    if (!st)
        st = lowered(part.s, part.n, &p, err);
    if (!st)
        *ok = t.n >= p.n && memcmp(t.data + (at_end ? t.n - p.n : 0), p.data, p.n) == 0;
    infq_buf_deinit(&t);
    infq_buf_deinit(&p);
    return st;
}

static infq_status check_repeat(const infq_ifeval_args *a, const char *s, size_t n, bool *ok, infq_err *err)
{
    return affix(trimmed(s, n), trimmed(a->text, strlen(a->text)), false, ok, err);
}

// Start and end, punctuation

static infq_status check_end(const infq_ifeval_args *a, const char *s, size_t n, bool *ok, infq_err *err)
{
    piece p = trimmed(s, n);

    while (p.n > 0 && p.s[0] == '"')
        p = (piece){ p.s + 1, p.n - 1 };
    while (p.n > 0 && p.s[p.n - 1] == '"')
        p.n--;
    return affix(p, trimmed(a->text, strlen(a->text)), true, ok, err);
}

static infq_status check_quotation(const infq_ifeval_args *a, const char *s, size_t n, bool *ok, infq_err *err)
{
    piece p = trimmed(s, n);

    (void)a;
    (void)err;
    *ok = p.n > 1 && p.s[0] == '"' && p.s[p.n - 1] == '"';
    return INFQ_E_OK;
}

static infq_status check_no_comma(const infq_ifeval_args *a, const char *s, size_t n, bool *ok, infq_err *err)
{
    (void)a;
    (void)err;
    *ok = memchr(s, ',', n) == NULL;
    return INFQ_E_OK;
}

const infq_ifeval_kind infq_ifeval_kinds[] = {
    { .name = "change_case:capital_word_frequency", .number = "capital_frequency", .relation = "capital_relation",
      .check = check_capital_words },
    { .name = "change_case:english_capital", .check = check_capital },
    { .name = "change_case:english_lowercase", .check = check_lowercase },
    { .name = "combination:repeat_prompt", .text = "prompt_to_repeat", .check = check_repeat },
    { .name = "combination:two_responses", .patterns = { "\\*{6}" }, .check = check_two },
    { .name = "detectable_content:number_placeholders", .number = "num_placeholders", .patterns = { "\\[.*?\\]" },
      .check = check_at_least },
    { .name = "detectable_content:postscript", .text = "postscript_marker", .prepare = prepare_postscript,
      .check = check_postscript },
    { .name = "detectable_format:constrained_response", .check = check_constrained },
    { .name = "detectable_format:json_format", .check = check_json },
    { .name = "detectable_format:multiple_sections", .number = "num_sections", .text = "section_spliter",
      .prepare = prepare_sections,
      .check = check_at_least },
    { .name = "detectable_format:number_bullet_lists", .number = "num_bullets", .patterns = { "^\\s*\\*[^\\*].*$", "^\\s*-.*$" },
      .flags = INFQ_REGEX_MULTILINE, .check = check_bullets },
    { .name = "detectable_format:number_highlighted_sections", .number = "num_highlights",
      .patterns = { "\\*[^\\n\\*]*\\*", "\\*\\*[^\\n\\*]*\\*\\*" }, .check = check_highlights },
    { .name = "detectable_format:title", .patterns = { "<<[^\\n]+>>" }, .check = check_title },
    { .name = "keywords:existence", .list = "keywords", .prepare = prepare_words, .check = check_existence },
    { .name = "keywords:forbidden_words", .list = "forbidden_words", .prepare = prepare_whole_words, .check = check_forbidden },
    { .name = "keywords:frequency", .number = "frequency", .relation = "relation", .text = "keyword", .prepare = prepare_keyword,
      .check = check_frequency },
    { .name = "keywords:letter_frequency", .number = "let_frequency", .relation = "let_relation", .text = "letter",
      .prepare = prepare_letter, .check = check_letter },
    { .name = "language:response_language", .text = "language", .prepare = prepare_language, .check = check_language },
    { .name = "length_constraints:nth_paragraph_first_word", .number = "num_paragraphs", .text = "first_word",
      .patterns = { "\\n\\n" }, .check = check_first_word },
    { .name = "length_constraints:number_paragraphs", .number = "num_paragraphs", .patterns = { "\\s?\\*\\*\\*\\s?" },
      .check = check_paragraphs },
    { .name = "length_constraints:number_sentences", .number = "num_sentences", .relation = "relation",
      .check = check_sentences },
    { .name = "length_constraints:number_words", .number = "num_words", .relation = "relation", .check = check_words },
    { .name = "punctuation:no_comma", .check = check_no_comma },
    { .name = "startend:end_checker", .text = "end_phrase", .check = check_end },
    { .name = "startend:quotation", .check = check_quotation },
};
const int infq_ifeval_kinds_n = sizeof(infq_ifeval_kinds) / sizeof(infq_ifeval_kinds[0]);
