/* Regular expressions on text, as Python's re reads them as far as PCRE2 does: UTF-8, \w \d \s and classes of letters by
 * Unicode, "$" also in front of a newline at the end. One object serves one thread at a time. */
#ifndef INFQ_BASE_REGEX_H
#define INFQ_BASE_REGEX_H

#include <stdint.h>

#include "lib/base/err.h"

typedef struct infq_regex infq_regex;

#define INFQ_REGEX_NOCASE 1u
#define INFQ_REGEX_MULTILINE 2u /* ^ and $ at every line */
/* FORMAT with the place when the expression is broken. */
infq_status infq_regex_new(const char *pattern, unsigned flags, infq_regex **out, infq_err *err);
void infq_regex_free(infq_regex *r);
int infq_regex_groups(const infq_regex *r);

/* Bytes [begin, end); a group that took no part: set false. */
typedef struct {
    size_t begin, end;
    bool set;
} infq_span;

/* The first match that begins at or behind byte `from`: spans[0] the whole, spans[i] group i, for the n_spans that are asked for.
 * `from` stands at a character of valid UTF-8. UNSUPPORTED when the search takes too many steps. */
infq_status infq_regex_find(infq_regex *r, const char *s, size_t n, size_t from, infq_span *spans, int n_spans, bool *found,
                            infq_err *err);
/* Where to look for the match behind this one, as re.findall: an empty match moves on by a character; past n: the end. */
size_t infq_regex_next(const infq_span *match, const char *s, size_t n);
/* Number of matches. */
infq_status infq_regex_count(infq_regex *r, const char *s, size_t n, int64_t *out, infq_err *err);

#endif
