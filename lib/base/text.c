#include "lib/base/text.h"

#include <string.h>
#include <utf8proc.h>

#include "lib/base/str.h"

bool infq_is_space(uint32_t cp)
{
    if (cp < 0x80)
        return (cp >= 9 && cp <= 13) || (cp >= 0x1c && cp <= 0x20);
    return cp == 0x85 || cp == 0xa0 || cp == 0x1680 || (cp >= 0x2000 && cp <= 0x200a) || cp == 0x2028 || cp == 0x2029 ||
           cp == 0x202f || cp == 0x205f || cp == 0x3000;
}

size_t infq_bom_length(const char *s, size_t n)
{
    return n >= 3 && memcmp(s, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
}

size_t infq_lstrip(const char *s, size_t n)
{
    size_t at = 0, len;

    while (at < n && infq_is_space(infq_utf8_next(s + at, n - at, &len)))
        at += len;
    return at;
}

size_t infq_rstrip(const char *s, size_t n)
{
    while (n > 0) {
        size_t start = n - 1, len;
        while (start > 0 && n - start < 4 && ((unsigned char)s[start] & 0xc0) == 0x80)
            start--;
        if (!infq_is_space(infq_utf8_next(s + start, n - start, &len)) || start + len != n)
            break;
        n = start;
    }
    return n;
}

int64_t infq_count_words(const char *s, size_t n)
{
    int64_t words = 1;
    bool in_space = false;
    size_t len;

    for (size_t at = 0; at < n; at += len) {
        bool space = infq_is_space(infq_utf8_next(s + at, n - at, &len));
        words += space && !in_space;
        in_space = space;
    }
    return words;
}

static void put_cp(infq_buf *out, uint32_t cp)
{
    char u[4];

    infq_buf_add(out, u, infq_utf8_put(cp, u));
}

static bool is_cased(uint32_t cp)
{
    utf8proc_int32_t c = (utf8proc_int32_t)cp;
    utf8proc_category_t k = utf8proc_category(c);

    return k == UTF8PROC_CATEGORY_LU || k == UTF8PROC_CATEGORY_LL || k == UTF8PROC_CATEGORY_LT;
}

static bool is_case_ignorable(uint32_t cp)
{
    utf8proc_category_t k = utf8proc_category((utf8proc_int32_t)cp);

    return k == UTF8PROC_CATEGORY_MN || k == UTF8PROC_CATEGORY_ME || k == UTF8PROC_CATEGORY_CF || k == UTF8PROC_CATEGORY_LM ||
           k == UTF8PROC_CATEGORY_SK || cp == '\'' || cp == '.' || cp == ':' || cp == 0xb7 || cp == 0x2019;
}

/* Greek capital sigma at the end of a word: a cased letter before it, none after it (Unicode 3.13). */
static bool is_final_sigma(const char *s, size_t n, size_t at, size_t len)
{
    bool before = false;
    size_t i, l;

    for (i = 0; i < at; i += l) {
        uint32_t cp = infq_utf8_next(s + i, n - i, &l);
        if (!is_case_ignorable(cp))
            before = is_cased(cp);
    }
    if (!before)
        return false;
    for (i = at + len; i < n; i += l) {
        uint32_t cp = infq_utf8_next(s + i, n - i, &l);
        if (!is_case_ignorable(cp))
            return !is_cased(cp);
    }
    return true;
}

static void put_lower(const char *s, size_t n, size_t at, infq_buf *out)
{
    size_t len;
    uint32_t cp = infq_utf8_next(s + at, n - at, &len);

    if (cp == 0x130) { // the only lower case of two code points
        put_cp(out, 'i');
        put_cp(out, 0x307);
    } else if (cp == 0x3a3) {
        put_cp(out, is_final_sigma(s, n, at, len) ? 0x3c2 : 0x3c3);
    } else {
        put_cp(out, (uint32_t)utf8proc_tolower((utf8proc_int32_t)cp));
    }
}

void infq_capitalize(const char *s, size_t n, infq_buf *out)
{
    size_t len = 0;

    if (n > 0) {
        uint32_t cp = infq_utf8_next(s, n, &len);
        if (cp == 0xdf)
            infq_buf_str(out, "Ss");
        else
            put_cp(out, (uint32_t)utf8proc_totitle((utf8proc_int32_t)cp));
    }
    for (size_t at = len; at < n; at += len) {
        infq_utf8_next(s + at, n - at, &len);
        put_lower(s, n, at, out);
    }
}

void infq_lower(const char *s, size_t n, infq_buf *out)
{
    size_t len;

    for (size_t at = 0; at < n; at += len) {
        infq_utf8_next(s + at, n - at, &len);
        put_lower(s, n, at, out);
    }
}

/* Characters whose upper case is several (SpecialCasing.txt), sharp s apart: ligatures, Greek with iota, a few others. */
static bool has_long_upper(uint32_t cp)
{
    return cp == 0x149 || cp == 0x1f0 || cp == 0x390 || cp == 0x3b0 || cp == 0x587 || (cp >= 0x1e96 && cp <= 0x1e9a) ||
           (cp >= 0x1f50 && cp <= 0x1f56 && cp % 2 == 0) || (cp >= 0x1f80 && cp <= 0x1fff) || (cp >= 0xfb00 && cp <= 0xfb17);
}

bool infq_upper(const char *s, size_t n, infq_buf *out)
{
    size_t len;

    for (size_t at = 0; at < n; at += len) {
        uint32_t cp = infq_utf8_next(s + at, n - at, &len);
        if (has_long_upper(cp))
            return false;
        if (cp == 0xdf)
            infq_buf_str(out, "SS");
        else
            put_cp(out, (uint32_t)utf8proc_toupper((utf8proc_int32_t)cp));
    }
    return true;
}

/* Whether a cased character is there and all of them are of the category (title case counts as neither). */
static bool all_of_case(const char *s, size_t n, utf8proc_category_t want)
{
    bool any = false;
    size_t len;

    for (size_t at = 0; at < n; at += len) {
        uint32_t cp = infq_utf8_next(s + at, n - at, &len);
        if (!is_cased(cp))
            continue;
        if (utf8proc_category((utf8proc_int32_t)cp) != want)
            return false;
        any = true;
    }
    return any;
}

bool infq_is_upper(const char *s, size_t n)
{
    return all_of_case(s, n, UTF8PROC_CATEGORY_LU);
}

bool infq_is_lower(const char *s, size_t n)
{
    return all_of_case(s, n, UTF8PROC_CATEGORY_LL);
}

bool infq_is_printable(uint32_t cp)
{
    utf8proc_category_t k = utf8proc_category((utf8proc_int32_t)cp);

    return cp == ' ' || !(k == UTF8PROC_CATEGORY_CC || k == UTF8PROC_CATEGORY_CF || k == UTF8PROC_CATEGORY_CS ||
                          k == UTF8PROC_CATEGORY_CO || k == UTF8PROC_CATEGORY_CN || k == UTF8PROC_CATEGORY_ZL ||
                          k == UTF8PROC_CATEGORY_ZP || k == UTF8PROC_CATEGORY_ZS);
}

bool infq_is_word(uint32_t cp)
{
    utf8proc_category_t k;

    if (cp < 0x80)
        return (cp >= '0' && cp <= '9') || (cp >= 'A' && cp <= 'Z') || (cp >= 'a' && cp <= 'z') || cp == '_';
    k = utf8proc_category((utf8proc_int32_t)cp);
    return (k >= UTF8PROC_CATEGORY_LU && k <= UTF8PROC_CATEGORY_LO) || k == UTF8PROC_CATEGORY_ND || k == UTF8PROC_CATEGORY_NL ||
           k == UTF8PROC_CATEGORY_NO;
}
