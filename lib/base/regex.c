#define PCRE2_CODE_UNIT_WIDTH 8
#include "lib/base/regex.h"

#include <pcre2.h>
#include <string.h>

#include "lib/base/mem.h"
#include "lib/base/str.h"

#define MAX_STEPS 10000000 /* of one search */

struct infq_regex {
    pcre2_code *code;
    pcre2_match_data *data;
    pcre2_match_context *limits;
};

void infq_regex_free(infq_regex *r)
{
    if (!r)
        return;
    pcre2_match_context_free(r->limits);
    pcre2_match_data_free(r->data);
    pcre2_code_free(r->code);
    infq_mem_free(r);
}

infq_status infq_regex_new(const char *pattern, unsigned flags, infq_regex **out, infq_err *err)
{
    uint32_t options = PCRE2_UTF | PCRE2_UCP | (flags & INFQ_REGEX_NOCASE ? PCRE2_CASELESS : 0) |
                       (flags & INFQ_REGEX_MULTILINE ? PCRE2_MULTILINE : 0);
    infq_regex *r;
    void *p;
    int code;
    PCRE2_SIZE at;
    PCRE2_UCHAR why[120];

    INFQ_TRY(infq_mem_new(1, sizeof(*r), "regular expression", &p, err));
    r = p;
    memset(r, 0, sizeof(*r));
    r->code = pcre2_compile((PCRE2_SPTR)pattern, PCRE2_ZERO_TERMINATED, options, &code, &at, NULL);
    if (!r->code) {
        infq_mem_free(r);
        pcre2_get_error_message(code, why, sizeof(why));
        return infq_err_set(err, INFQ_E_FORMAT, "regular expression %.60s, character %zu: %s", pattern, (size_t)at, (char *)why);
    }
    r->data = pcre2_match_data_create_from_pattern(r->code, NULL);
    r->limits = pcre2_match_context_create(NULL);
    if (!r->data || !r->limits) {
        infq_regex_free(r);
        return infq_err_set(err, INFQ_E_NOMEM, "a regular expression needs memory");
    }
    pcre2_set_match_limit(r->limits, MAX_STEPS);
    *out = r;
    return INFQ_E_OK;
}

int infq_regex_groups(const infq_regex *r)
{
    uint32_t n = 0;

    pcre2_pattern_info(r->code, PCRE2_INFO_CAPTURECOUNT, &n);
    return (int)n;
}

infq_status infq_regex_find(infq_regex *r, const char *s, size_t n, size_t from, infq_span *spans, int n_spans, bool *found,
                            infq_err *err)
{
    const PCRE2_SIZE *at;
    int rc;

    *found = false;
    if (from > n)
        return INFQ_E_OK;
    rc = pcre2_match(r->code, (PCRE2_SPTR)s, n, from, 0, r->data, r->limits);
    if (rc == PCRE2_ERROR_NOMATCH)
        return INFQ_E_OK;
    if (rc < 0)
        return infq_err_set(err, rc == PCRE2_ERROR_NOMEMORY ? INFQ_E_NOMEM : INFQ_E_UNSUPPORTED,
                            "a regular expression takes too many steps, or its text is not UTF-8 (PCRE2 code %d)", rc);
    at = pcre2_get_ovector_pointer(r->data);
    for (int i = 0; i < n_spans; i++) {
        bool set = i < rc && at[2 * i] != PCRE2_UNSET;
        spans[i] = (infq_span){ set ? at[2 * i] : 0, set ? at[2 * i + 1] : 0, set };
    }
    *found = true;
    return INFQ_E_OK;
}

size_t infq_regex_next(const infq_span *match, const char *s, size_t n)
{
    size_t len;

    if (match->end > match->begin)
        return match->end;
    if (match->end >= n)
        return n + 1;
    infq_utf8_next(s + match->end, n - match->end, &len);
    return match->end + len;
}

infq_status infq_regex_count(infq_regex *r, const char *s, size_t n, int64_t *out, infq_err *err)
{
    infq_span m;
    bool found;

    *out = 0;
    for (size_t at = 0; ; at = infq_regex_next(&m, s, n)) {
        INFQ_TRY(infq_regex_find(r, s, n, at, &m, 1, &found, err));
        if (!found)
            return INFQ_E_OK;
        ++*out;
    }
}
