/* Working state of one encode call: word cache, symbol links, heap. Between tok_work.c and
 * tok_bpe.c. */
#ifndef INFQ_IO_TOK_WORK_H
#define INFQ_IO_TOK_WORK_H

#include "lib/io/tok_int.h"

#define INFQ_TOK_SHORT 64  /* symbols merged by looking at all of them */
#define INFQ_TOK_CACHED 64 /* bytes of a word that is remembered */

typedef struct {
    uint64_t hash;
    uint32_t key_at, ids_at;
    uint16_t n_key, n_ids; /* n_key 0: free */
} infq_tok_cached;

typedef struct {
    uint32_t at, next;
} infq_tok_entry;

struct infq_tok_work {
    infq_tok_match *match;
    infq_buf bufs[INFQ_TOK_MAX_STEPS + 4];
    infq_buf key;
    bool use_cache;
    infq_tok_cached *slots;
    size_t n_slots, cap_slots;
    infq_buf keys;
    infq_ids values;
    infq_ids swap;
    int32_t *prev, *next;
    size_t cap_links;
    uint64_t *heap;
    size_t cap_heap;
    uint32_t *order;
    size_t cap_order;
    uint64_t n_steps;
};

uint64_t infq_tok_cache_hash(const char *s, size_t n);
/* Appends the remembered ids. */
bool infq_tok_cache_get(const infq_tok_work *w, uint64_t hash, const char *s, size_t n,
                        infq_ids *ids);
/* Remembers; when full starts anew; without memory does nothing. */
void infq_tok_cache_put(infq_tok_work *w, uint64_t hash, const char *s, size_t n,
                        const int32_t *ids, size_t n_ids);

/* Merges the symbols id[0..n). short: n <= INFQ_TOK_SHORT, by looking at all ranks for each merge;
 * returns the number left. long: O(n log n), linear for one rank at a time; merged-away symbols are
 * taken out and *n is lowered. */
size_t infq_tok_merge_short(const infq_tok_bpe *b, infq_tok_work *w, int32_t *id, size_t n);
infq_status infq_tok_merge_long(const infq_tok_bpe *b, infq_tok_work *w, int32_t *id, size_t *n,
                                infq_err *err);

#endif
