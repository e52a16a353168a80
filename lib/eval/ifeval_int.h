/* Inside IFEval: arguments of an instruction, the table of kinds, counts of words and sentences. */
#ifndef INFQ_EVAL_IFEVAL_INT_H
#define INFQ_EVAL_IFEVAL_INT_H

#include "lib/base/regex.h"
#include "lib/eval/ifeval.h"

#define IFEVAL_MAX_WORDS 64

/* What the kwargs of an instruction say; only what its kind reads is set. Text is borrowed from the object that was parsed. */
typedef struct {
    int64_t number;                          /* count that is asked for */
    bool less_than;                          /* relation "less than", else "at least" */
    int64_t paragraph;                       /* of nth_paragraph_first_word, from 1 */
    const char *text;                        /* keyword, phrase, marker, letter, language */
    int n_words;
    const char *words[IFEVAL_MAX_WORDS];
    infq_regex *regex[IFEVAL_MAX_WORDS];     /* made once from the above by the kind */
    int n_regex;
} infq_ifeval_args;

/* s[0..n) is valid UTF-8, NUL behind it. */
typedef infq_status (*infq_ifeval_check_fn)(const infq_ifeval_args *a, const char *s, size_t n, bool *ok, infq_err *err);

typedef struct {
    const char *name;
    const char *number;    /* key of the count, NULL: none */
    const char *relation;  /* key of the relation, NULL: none */
    const char *text;      /* key of the text, NULL: none */
    const char *list;      /* key of a list of words, NULL: none */
    const char *patterns[3]; /* regular expressions that need no argument */
    unsigned flags;        /* of these */
    infq_status (*prepare)(infq_ifeval_args *a, infq_err *err); /* NULL: nothing more */
    infq_ifeval_check_fn check;
} infq_ifeval_kind;
extern const infq_ifeval_kind infq_ifeval_kinds[];
extern const int infq_ifeval_kinds_n;

/* Adds a regular expression to the arguments. */
infq_status infq_ifeval_add_regex(infq_ifeval_args *a, const char *pattern, unsigned flags, infq_err *err);

/* ifeval_text.c */
int64_t infq_ifeval_count_words(const char *s, size_t n);      /* runs of word characters */
int64_t infq_ifeval_count_sentences(const char *s, size_t n);
int64_t infq_ifeval_count_capital_words(const char *s, size_t n);
bool infq_ifeval_is_json(const char *s, size_t n);             /* as Python's json.loads: NaN, repeated keys allowed */

#endif
