/* Between gen.c (streams, sets), gen_kinds.c (the grammar) and gen_words.c (the lexicon). */
#ifndef INFQ_EVAL_GEN_INT_H
#define INFQ_EVAL_GEN_INT_H

#include "lib/base/buf.h"
#include "lib/base/rng.h"

enum { GEN_MAX_CHOICES = 4, GEN_CHOICE_BYTES = 24 };

/* One question. A document is context + choice[0] + tail; an item is context and the choices,
 * shuffled. */
typedef struct {
    infq_rng *rng;
    infq_buf context;
    infq_buf tail;
    infq_buf key; /* the combination that is in the text or held out; empty: the context itself */
    char choice[GEN_MAX_CHOICES][GEN_CHOICE_BYTES]; /* [0] is true; with the blank in front */
    int n_choices;
} gen_item;

typedef struct {
    const char *name, *about;
    int weight;                 /* share of documents in the text */
    void (*make)(gen_item *it); /* fills an empty item */
} gen_kind;
extern const gen_kind gen_kinds[];
extern const int gen_n_kinds;

/* A list of words that can take each other's place. */
typedef struct {
    const char *const *w;
    int n;
} gen_words;
extern const gen_words gen_names, gen_cities, gen_jobs, gen_things, gen_colours, gen_rooms,
    gen_days, gen_months, gen_letters, gen_adjectives;
extern const gen_words gen_animals; /* from small to big */

/* Two forms of one word: singular and plural, verb forms, a word and its opposite, a thing and its
 * value. */
typedef struct {
    const char *a, *b;
} gen_pair;
typedef struct {
    const gen_pair *p;
    int n;
} gen_pairs;
extern const gen_pairs gen_nouns, gen_verbs, gen_opposites, gen_thing_colours, gen_thing_kinds,
    gen_homes;

#endif
