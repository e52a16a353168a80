/* Strings: UTF-8, whole-number parsing, patterns, hash map from names to indices. */
#ifndef INFQ_BASE_STR_H
#define INFQ_BASE_STR_H

#include <stdint.h>

#include "lib/base/mem.h"

bool infq_str_starts(const char *s, const char *prefix);
bool infq_str_ends(const char *s, const char *suffix);

/* Offset of the first byte that is not valid UTF-8 (no surrogates, no overlong forms), n if all is. */
size_t infq_utf8_check(const char *s, size_t n);
/* Decodes one code point at s[0..n): its length in bytes in *len (>= 1). A broken part gives U+FFFD and
 * the length of the maximal broken subpart (Unicode 3.9, as the web and Python do). n >= 1. */
uint32_t infq_utf8_next(const char *s, size_t n, size_t *len);
size_t infq_utf8_put(uint32_t cp, char out[4]);  /* bytes written, 1 to 4 */
size_t infq_utf8_count(const char *s, size_t n); /* code points */

/* Parsed whole and range-checked; false on anything else. Sizes take B, KB, MB, GB, KiB, MiB, GiB. */
bool infq_parse_i64(const char *s, int64_t lo, int64_t hi, int64_t *out);
bool infq_parse_f64(const char *s, double lo, double hi, double *out);
bool infq_parse_size(const char *s, uint64_t *n_bytes);
/* "1.5 GB" (decimal units) into out. */
char *infq_format_bytes(double n_bytes, char *out, size_t cap);

/* Open-addressing map from byte strings to int64; keys are borrowed and must outlive the map. */
typedef struct infq_map infq_map;
infq_status infq_map_new(size_t n_expected, infq_map **out, infq_err *err);
void infq_map_free(infq_map *m);
/* Returns the index already stored for key (and stores nothing), or -1 after storing value; -2: no memory. */
int64_t infq_map_put(infq_map *m, const char *key, size_t n, int64_t value);
int64_t infq_map_get(const infq_map *m, const char *key, size_t n);  /* -1 if absent */

/* Module patterns of --ignore and --include: "re:" + regular expression (PCRE2, anchored at the start,
 * as compressed-tensors reads them), otherwise the exact name or its last dotted component ("lm_head",
 * "down_proj"). USAGE names a broken expression. */
typedef struct infq_pattern infq_pattern;
infq_status infq_pattern_new(const char *text, infq_pattern **out, infq_err *err);
void infq_pattern_free(infq_pattern *p);
bool infq_pattern_match(const infq_pattern *p, const char *name);

#endif
