/* Unicode text as the methods of Python's str see it: the rules behind published prompts, counts and checks. Broken UTF-8
 * counts as U+FFFD. Categories and simple case mappings are utf8proc's. */
#ifndef INFQ_BASE_TEXT_H
#define INFQ_BASE_TEXT_H

#include "lib/base/buf.h"

/* White space as str.isspace: the rule behind trailing blanks and word counts. */
bool infq_is_space(uint32_t cp);
/* \w of a regular expression: letters, digits and other numbers, underscore. */
bool infq_is_word(uint32_t cp);
/* What repr leaves as it is. */
bool infq_is_printable(uint32_t cp);
/* Bytes of s[0..n) without trailing (leading) white space: new length (offset of the first other byte). */
size_t infq_rstrip(const char *s, size_t n);
size_t infq_lstrip(const char *s, size_t n);
/* Length of a byte order mark at the start of s[0..n): 3 or 0. Editors put one in front of UTF-8; JSON has none. */
size_t infq_bom_length(const char *s, size_t n);
/* Fields of a split at runs of white space, empty ones at the ends counted: at least 1. */
int64_t infq_count_words(const char *s, size_t n);

/* str.lower, str.upper, str.capitalize. All append; upper is false (out holds a part) for a character whose upper case is several
 * characters, sharp s apart. */
void infq_lower(const char *s, size_t n, infq_buf *out);
bool infq_upper(const char *s, size_t n, infq_buf *out);
void infq_capitalize(const char *s, size_t n, infq_buf *out);
/* str.isupper, str.islower: a cased character is there, and all of them are of that case. */
bool infq_is_upper(const char *s, size_t n);
bool infq_is_lower(const char *s, size_t n);

#endif
