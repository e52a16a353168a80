/* Answers taken out of generated text, and their comparison with what is right (specs 1.6 and 6.3).
 *
 * An extraction is a regular expression and a choice among its matches; of a match the first group that took part and is not
 * empty counts (the whole match without groups), trimmed of white space. Nothing found is "[invalid]", which is never right
 * and is counted. */
#ifndef INFQ_EVAL_EXTRACT_H
#define INFQ_EVAL_EXTRACT_H

#include "lib/base/buf.h"

#define INFQ_EXTRACT_INVALID "[invalid]"

typedef struct infq_extract infq_extract;
/* pattern NULL: the whole text, trimmed. last: the last match, else the first. */
infq_status infq_extract_new(const char *pattern, bool last, infq_extract **out, infq_err *err);
void infq_extract_free(infq_extract *x);
/* Puts the answer (or "[invalid]") into out, replacing what is there. Text with broken UTF-8 is read with U+FFFD in its place. */
infq_status infq_extract_apply(infq_extract *x, const char *text, size_t n, infq_buf *out, bool *found, infq_err *err);

/* What both sides lose before they are compared, in this order: every match of the ignored expressions one by one, case, ASCII
 * punctuation, digits, then (words) articles a, an, the and runs of white space. */
typedef struct {
    const char *const *ignore; /* [n_ignore] regular expressions */
    int n_ignore;
    bool ignore_case, ignore_punctuation, ignore_numbers, words;
} infq_match_rule;
typedef struct infq_match infq_match;
infq_status infq_match_new(const infq_match_rule *rule, infq_match **out, infq_err *err);
void infq_match_free(infq_match *m);
/* Replaces out. */
infq_status infq_match_normalize(infq_match *m, const char *text, size_t n, infq_buf *out, infq_err *err);
infq_status infq_match_equal(infq_match *m, const char *a, size_t n_a, const char *b, size_t n_b, bool *out, infq_err *err);

/* Text up to the earliest occurrence of a stop string (ties: none can differ in length kept): its length, n if none occurs. */
size_t infq_cut_at_stop(const char *text, size_t n, const char *const *stops, int n_stops, bool *stopped);
/* Text behind the last closing tag of a reasoning part ("</think>"), leading white space gone; the whole text when the tag
 * does not occur. A part that was opened and not closed leaves nothing. open may be NULL: then only the closing tag counts.
 * Offset of what is kept. */
size_t infq_strip_reasoning(const char *text, size_t n, const char *open, const char *close);

#endif
