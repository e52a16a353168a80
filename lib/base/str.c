#define PCRE2_CODE_UNIT_WIDTH 8
#include "lib/base/str.h"

#include <errno.h>
#include <math.h>
#include <pcre2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

bool infq_str_starts(const char *s, const char *prefix)
{
    return strncmp(s, prefix, strlen(prefix)) == 0;
}

bool infq_str_ends(const char *s, const char *suffix)
{
    size_t n = strlen(s), m = strlen(suffix);

    return n >= m && strcmp(s + n - m, suffix) == 0;
}

// Length of a valid sequence at s, or 0 with *broken = bytes of the maximal broken subpart.
static size_t utf8_len(const unsigned char *s, size_t n, size_t *broken)
{
    unsigned char b = s[0], lo = 0x80, hi = 0xbf;
    size_t len, i;

    *broken = 1;
    if (b < 0x80)
        return 1;
    if (b >= 0xc2 && b <= 0xdf)
        len = 2;
    else if (b >= 0xe0 && b <= 0xef)
        len = 3;
    else if (b >= 0xf0 && b <= 0xf4)
        len = 4;
    else
        return 0;
    if (b == 0xe0)
        lo = 0xa0;
    else if (b == 0xed)
        hi = 0x9f;
    else if (b == 0xf0)
        lo = 0x90;
    else if (b == 0xf4)
        hi = 0x8f;
    for (i = 1; i < len; i++) {
        if (i >= n || s[i] < lo || s[i] > hi) {
            *broken = i;
            return 0;
        }
        lo = 0x80;
        hi = 0xbf;
    }
    return len;
}

size_t infq_utf8_check(const char *s, size_t n)
{
    const unsigned char *p = (const unsigned char *)s;
    size_t at = 0, broken;

    while (at < n) {
        size_t len;
        if (p[at] < 0x80) {
            at++;
            continue;
        }
        len = utf8_len(p + at, n - at, &broken);
        if (!len)
            return at;
        at += len;
    }
    return n;
}

uint32_t infq_utf8_next(const char *s, size_t n, size_t *len)
{
    const unsigned char *p = (const unsigned char *)s;
    size_t broken, k = utf8_len(p, n, &broken);

    *len = k ? k : broken;
    switch (k) {
    case 1:
        return p[0];
    case 2:
        return (uint32_t)(p[0] & 31) << 6 | (p[1] & 63);
    case 3:
        return (uint32_t)(p[0] & 15) << 12 | (uint32_t)(p[1] & 63) << 6 | (p[2] & 63);
    case 4:
        return (uint32_t)(p[0] & 7) << 18 | (uint32_t)(p[1] & 63) << 12 | (uint32_t)(p[2] & 63) << 6 | (p[3] & 63);
    default:
        return 0xfffd;
    }
}

size_t infq_utf8_put(uint32_t cp, char out[4])
{
    if (cp < 0x80) {
        out[0] = (char)cp;
        return 1;
    }
    if (cp < 0x800) {
        out[0] = (char)(0xc0 | cp >> 6);
        out[1] = (char)(0x80 | (cp & 63));
        return 2;
    }
    if (cp < 0x10000) {
        out[0] = (char)(0xe0 | cp >> 12);
        out[1] = (char)(0x80 | (cp >> 6 & 63));
        out[2] = (char)(0x80 | (cp & 63));
        return 3;
    }
    out[0] = (char)(0xf0 | cp >> 18);
    out[1] = (char)(0x80 | (cp >> 12 & 63));
    out[2] = (char)(0x80 | (cp >> 6 & 63));
    out[3] = (char)(0x80 | (cp & 63));
    return 4;
}

size_t infq_utf8_count(const char *s, size_t n)
{
    size_t at = 0, count = 0, len;

    while (at < n) {
        infq_utf8_next(s + at, n - at, &len);
        at += len;
        count++;
    }
    return count;
}

bool infq_parse_i64(const char *s, int64_t lo, int64_t hi, int64_t *out)
{
    char *end;
    long long v;

    if (!*s || strchr(" \t\n+", *s))
        return false;
    errno = 0;
    v = strtoll(s, &end, 10);
    if (errno || *end || v < lo || v > hi)
        return false;
    *out = v;
    return true;
}

bool infq_parse_f64(const char *s, double lo, double hi, double *out)
{
    char *end;
    double v;

    if (!*s || strchr(" \t\n+", *s) || strpbrk(s, "xX"))
        return false;
    errno = 0;
    v = strtod(s, &end);
    if (*end || !isfinite(v) || v < lo || v > hi)
        return false;
    *out = v;
    return true;
}

bool infq_parse_size(const char *s, uint64_t *n_bytes)
{
    static const struct {
        const char *unit;
        double factor;
    } units[] = { { "", 1 },        { "B", 1 },       { "KB", 1e3 },     { "MB", 1e6 },          { "GB", 1e9 },
                  { "TB", 1e12 },   { "KiB", 1024 },  { "MiB", 1048576 }, { "GiB", 1073741824 }, { "K", 1024 },
                  { "M", 1048576 }, { "G", 1073741824 } };
    char *end;
    double v;

    if (*s < '0' || *s > '9')
        return false;
    v = strtod(s, &end);
    while (*end == ' ')
        end++;
    for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++)
        if (strcasecmp(end, units[i].unit) == 0) {
            v *= units[i].factor;
            if (!(v >= 0 && v < 9e18))
                return false;
            *n_bytes = (uint64_t)v;
            return true;
        }
    return false;
}

char *infq_format_bytes(double n_bytes, char *out, size_t cap)
{
    static const char *const units[] = { "B", "KB", "MB", "GB", "TB", "PB" };
    int u = 0;

    while (n_bytes >= 999.5 && u < 5) {
        n_bytes /= 1000;
        u++;
    }
    if (u == 0)
        snprintf(out, cap, "%.0f B", n_bytes);
    else
        snprintf(out, cap, n_bytes < 10 ? "%.2f %s" : n_bytes < 100 ? "%.1f %s" : "%.0f %s", n_bytes, units[u]);
    return out;
}

struct infq_map {
    struct {
        const char *key;
        size_t n;
        int64_t value;
    } *slots;
    size_t n, cap; // cap is a power of two
};

static uint64_t hash_bytes(const char *s, size_t n)
{
    uint64_t h = 0xcbf29ce484222325u;

    for (size_t i = 0; i < n; i++)
        h = (h ^ (unsigned char)s[i]) * 0x100000001b3u;
    return h ^ h >> 29;
}

infq_status infq_map_new(size_t n_expected, infq_map **out, infq_err *err)
{
    infq_map *m;
    size_t cap = 16;
    void *p;

    while (cap / 2 < n_expected)
        cap *= 2;
    INFQ_TRY(infq_mem_new(1, sizeof(*m), "name map", &p, err));
    m = p;
    m->slots = infq_mem_calloc(cap, sizeof(*m->slots));
    if (!m->slots) {
        infq_mem_free(m);
        return infq_err_set(err, INFQ_E_NOMEM, "name map of %zu entries", n_expected);
    }
    m->cap = cap;
    *out = m;
    return INFQ_E_OK;
}

void infq_map_free(infq_map *m)
{
    if (!m)
        return;
    infq_mem_free(m->slots);
    infq_mem_free(m);
}

static size_t find_slot(const infq_map *m, const char *key, size_t n)
{
    size_t i = (size_t)hash_bytes(key, n) & (m->cap - 1);

    while (m->slots[i].key && (m->slots[i].n != n || memcmp(m->slots[i].key, key, n) != 0))
        i = (i + 1) & (m->cap - 1);
    return i;
}

static bool grow(infq_map *m)
{
    infq_map bigger = { infq_mem_calloc(2 * m->cap, sizeof(*m->slots)), m->n, 2 * m->cap };

    if (!bigger.slots)
        return false;
    for (size_t i = 0; i < m->cap; i++)
        if (m->slots[i].key)
            bigger.slots[find_slot(&bigger, m->slots[i].key, m->slots[i].n)] = m->slots[i];
    infq_mem_free(m->slots);
    *m = bigger;
    return true;
}

int64_t infq_map_put(infq_map *m, const char *key, size_t n, int64_t value)
{
    size_t i = find_slot(m, key, n);

    if (m->slots[i].key)
        return m->slots[i].value;
    if (2 * (m->n + 1) > m->cap) {
        if (!grow(m))
            return -2;
        i = find_slot(m, key, n);
    }
    m->slots[i].key = key;
    m->slots[i].n = n;
    m->slots[i].value = value;
    m->n++;
    return -1;
}

int64_t infq_map_get(const infq_map *m, const char *key, size_t n)
{
    size_t i = find_slot(m, key, n);

    return m->slots[i].key ? m->slots[i].value : -1;
}

struct infq_pattern {
    char *text;
    pcre2_code *code; // NULL for exact names
};

infq_status infq_pattern_new(const char *text, infq_pattern **out, infq_err *err)
{
    infq_pattern *p;
    void *mem;

    if (!*text)
        return infq_err_set(err, INFQ_E_USAGE, "a pattern is empty");
    INFQ_TRY(infq_mem_new(1, sizeof(*p), "pattern", &mem, err));
    p = mem;
    p->text = infq_mem_strdup(text);
    if (!p->text) {
        infq_mem_free(p);
        return infq_err_set(err, INFQ_E_NOMEM, "pattern %s", text);
    }
    if (infq_str_starts(text, "re:")) {
        int code;
        PCRE2_SIZE at;
        p->code = pcre2_compile((PCRE2_SPTR)(text + 3), PCRE2_ZERO_TERMINATED, PCRE2_ANCHORED | PCRE2_UTF, &code, &at,
                                NULL);
        if (!p->code) {
            PCRE2_UCHAR why[128] = "";
            pcre2_get_error_message(code, why, sizeof(why));
            infq_pattern_free(p);
            return infq_err_set(err, INFQ_E_USAGE, "pattern %s: %s at character %zu", text, (const char *)why,
                                (size_t)at);
        }
    }
    *out = p;
    return INFQ_E_OK;
}

void infq_pattern_free(infq_pattern *p)
{
    if (!p)
        return;
    pcre2_code_free(p->code);
    infq_mem_free(p->text);
    infq_mem_free(p);
}

bool infq_pattern_match(const infq_pattern *p, const char *name)
{
    if (p->code) {
        pcre2_match_data *md = pcre2_match_data_create(1, NULL);
        int rc = md ? pcre2_match(p->code, (PCRE2_SPTR)name, strlen(name), 0, 0, md, NULL) : -1;
        pcre2_match_data_free(md);
        return rc >= 0;
    }
    if (strcmp(p->text, name) == 0)
        return true;
    // A single component matches as the last one of the name: "down_proj", "lm_head".
    if (!strchr(p->text, '.')) {
        const char *last = strrchr(name, '.');
        return last && strcmp(p->text, last + 1) == 0;
    }
    return false;
}
