/* Between the parts of the tokenizer: text pieces, matchers, pipeline steps, model. Not for others.
 */
#ifndef INFQ_IO_TOK_INT_H
#define INFQ_IO_TOK_INT_H

#include "lib/base/arena.h"
#include "lib/base/cursor.h"
#include "lib/base/str.h"
#include "lib/io/tokenizer.h"

typedef struct {
    const char *p;
    size_t n;
} infq_tok_str;

/* ---- characters (tok_text.c); properties by utf8proc, spelled as Rust's char methods and regex
 * classes mean them ---- */
bool infq_tok_is_space(uint32_t cp);   /* White_Space */
bool infq_tok_is_word(uint32_t cp);    /* \w: Alphabetic, M, Nd, Pc, joiners */
bool infq_tok_is_numeric(uint32_t cp); /* Nd, Nl, No */
bool infq_tok_is_punct(uint32_t cp);   /* ASCII punctuation or P */
bool infq_tok_is_mark(uint32_t cp);    /* M */
/* Code point at s[0..n) of text known to be UTF-8, n >= 1. */
uint32_t infq_tok_next(const char *s, size_t n, size_t *len);

/* Byte-level alphabet (formats.md 3.3): every byte as a code point below U+0144, in UTF-8. */
typedef struct {
    char text[256][2];
    uint8_t len[256];
    int16_t byte_of[0x144]; /* -1: no byte */
} infq_tok_alphabet;
void infq_tok_alphabet_init(infq_tok_alphabet *a);
void infq_tok_alphabet_map(const infq_tok_alphabet *a, const char *s, size_t n, infq_buf *to);

/* ---- matchers (tok_regex.c) ---- */
typedef struct infq_tok_re infq_tok_re;
typedef struct infq_tok_match infq_tok_match; /* working state of one thread */
/* Compiles an Oniguruma-style pattern with PCRE2; the meaning of \s, \w, \h, ^ and $ is
 * Oniguruma's. UNSUPPORTED for constructions that PCRE2 reads otherwise (&& or [ inside a class).
 * `where` names the component. */
infq_status infq_tok_re_new(const char *pattern, const char *where, infq_tok_re **out,
                            infq_err *err);
void infq_tok_re_free(infq_tok_re *re);
infq_status infq_tok_match_new(infq_tok_match **out, infq_err *err);
void infq_tok_match_free(infq_tok_match *m);

/* What a Split or Replace looks for. */
typedef struct {
    enum { INFQ_TOK_FIND_REGEX, INFQ_TOK_FIND_STRING, INFQ_TOK_FIND_CHAR } kind;
    infq_tok_re *re; /* owned by the tokenizer's list */
    infq_tok_str text;
    bool (*is)(uint32_t cp);
} infq_tok_finder;
/* Walks the non-overlapping matches of s[0..n), left to right; an empty match right behind the last
 * match is skipped. */
typedef struct {
    const infq_tok_finder *f;
    infq_tok_match *m;
    const char *s;
    size_t n, at, last_end;
    bool any;
} infq_tok_walk;
infq_tok_walk infq_tok_walk_over(const infq_tok_finder *f, infq_tok_match *m, const char *s,
                                 size_t n);
infq_status infq_tok_walk_next(infq_tok_walk *w, bool *found, size_t *start, size_t *end,
                               infq_err *err);

/* ---- trie of fixed texts, leftmost longest (tok_trie.c) ---- */
typedef struct {
    int32_t child, sibling, value; /* value -1: no text ends here */
    uint8_t byte;
} infq_tok_node;
typedef struct {
    infq_tok_node *nodes;
    size_t n, cap;
    int32_t root[256];
} infq_tok_trie;
void infq_tok_trie_init(infq_tok_trie *t);
void infq_tok_trie_deinit(infq_tok_trie *t);
/* Empty texts are left out; of equal texts the first stays. value >= 0. */
infq_status infq_tok_trie_add(infq_tok_trie *t, const char *s, size_t n, int32_t value,
                              infq_err *err);
/* Longest text at s[0..n): its length (0: none). */
size_t infq_tok_trie_longest(const infq_tok_trie *t, const char *s, size_t n, int32_t *value);
/* First match at or behind `from`; false if none. */
bool infq_tok_trie_find(const infq_tok_trie *t, const char *s, size_t n, size_t from, size_t *start,
                        size_t *end, int32_t *value);

/* ---- model (tok_bpe.c) ---- */
#define INFQ_TOK_PRESENT 1u
#define INFQ_TOK_IS_ADDED 2u
#define INFQ_TOK_IS_SPECIAL 4u

/* Text and flags by id. Texts lie in one block. */
typedef struct {
    infq_tok_str *text;
    uint8_t *flags;
    int64_t n;       /* largest id + 1 */
    infq_map *map;   /* model vocabulary: text to id */
    infq_map *added; /* added tokens: text to id */
} infq_tok_vocab;

typedef struct {
    uint64_t key; /* left << 32 | right */
    uint32_t rank;
    int32_t id; /* -1: free slot */
} infq_tok_pair;

typedef struct {
    const infq_tok_vocab *vocab;
    infq_tok_pair *pairs; /* open addressing */
    size_t n_pairs, cap_pairs;
    int32_t **pages;      /* code point >> 8 to 256 ids; NULL or -1: none */
    int32_t byte_id[256]; /* of "<0xHH>", -1 if absent */
    uint64_t *seams; /* set of (left << 32 | right) + 1: code points that stand side by side in a
                        merged token */
    size_t n_seams, cap_seams;
    int32_t unk;
    bool byte_fallback, fuse_unk, ignore_merges;
    bool has_pseudo;
    bool in_order;  /* every pair ranks behind all merges that make its parts */
    size_t n_ranks; /* highest rank + 1, if in_order */
    bool can_cut;   /* no merge crosses two known characters that are not in seams */
    infq_tok_str prefix, suffix;
} infq_tok_bpe;

void infq_tok_bpe_init(infq_tok_bpe *b, const infq_tok_vocab *v);
void infq_tok_bpe_deinit(infq_tok_bpe *b);
/* Single characters that occur inside SentencePiece pieces without being pieces: they merge under
 * this number, and one that is left over is unknown. */
#define INFQ_TOK_PSEUDO (1 << 30)
/* Id of a single character: a token or INFQ_TOK_PSEUDO | code point. */
infq_status infq_tok_bpe_char_set(infq_tok_bpe *b, uint32_t cp, int32_t id, infq_err *err);
/* A repeated pair takes the later rank. */
infq_status infq_tok_bpe_pair_add(infq_tok_bpe *b, int32_t left, int32_t right, uint32_t rank,
                                  int32_t id, infq_err *err);
const infq_tok_pair *infq_tok_bpe_pair(const infq_tok_bpe *b, int32_t left,
                                       int32_t right); /* NULL: do not merge */
/* Sets in_order and n_ranks; ranks must be unique and all ids inside the vocabulary. */
infq_status infq_tok_bpe_check_order(infq_tok_bpe *b, infq_err *err);
infq_status infq_tok_bpe_seams_add(infq_tok_bpe *b, const char *s, size_t n, infq_err *err);

/* Working state of one encode call: matcher, word cache, symbol and heap storage. */
typedef struct infq_tok_work infq_tok_work;
infq_status infq_tok_work_new(size_t n_text, infq_tok_work **out, infq_err *err);
void infq_tok_work_free(infq_tok_work *w);
infq_tok_match *infq_tok_work_match(infq_tok_work *w);
infq_buf *infq_tok_work_buf(infq_tok_work *w, size_t i); /* i < INFQ_TOK_MAX_STEPS + 4 */
uint64_t
infq_tok_work_steps(const infq_tok_work *w); /* symbols looked at and heap entries handled so far */
/* Ids of one pre-token. */
infq_status infq_tok_bpe_encode(const infq_tok_bpe *b, infq_tok_work *w, const char *s, size_t n,
                                infq_ids *ids, infq_err *err);

/* ---- steps ---- */
#define INFQ_TOK_MAX_STEPS 32

typedef enum {
    INFQ_TOK_NFC,
    INFQ_TOK_NFD,
    INFQ_TOK_NFKC,
    INFQ_TOK_NFKD,
    INFQ_TOK_LOWERCASE,
    INFQ_TOK_STRIP,
    INFQ_TOK_STRIP_ACCENTS,
    INFQ_TOK_PREPEND,
    INFQ_TOK_REPLACE,
    INFQ_TOK_BYTE_LEVEL
} infq_tok_norm_kind;
typedef struct {
    infq_tok_norm_kind kind;
    infq_tok_finder find; /* REPLACE */
    infq_tok_str content; /* REPLACE, PREPEND */
    bool left, right;     /* STRIP */
} infq_tok_norm;

typedef enum {
    INFQ_TOK_REMOVED,
    INFQ_TOK_ISOLATED,
    INFQ_TOK_MERGED_WITH_PREVIOUS,
    INFQ_TOK_MERGED_WITH_NEXT,
    INFQ_TOK_CONTIGUOUS
} infq_tok_behavior;
typedef enum { INFQ_TOK_ALWAYS, INFQ_TOK_FIRST, INFQ_TOK_NEVER } infq_tok_scheme;
typedef struct {
    /* "ByteLevel" is up to three steps: a blank in front, a Split by the GPT-2 pattern, the mapping
     * of bytes. */
    enum {
        INFQ_TOK_PRE_SPLIT,
        INFQ_TOK_PRE_PREFIX_SPACE,
        INFQ_TOK_PRE_BYTE_LEVEL,
        INFQ_TOK_PRE_METASPACE
    } kind;
    infq_tok_finder find;
    infq_tok_behavior behavior;
    bool invert;
    bool split;          /* METASPACE */
    infq_tok_str marker; /* METASPACE */
    infq_tok_scheme scheme;
} infq_tok_pre;

typedef struct {
    enum {
        INFQ_TOK_DEC_BYTE_LEVEL,
        INFQ_TOK_DEC_REPLACE,
        INFQ_TOK_DEC_FUSE,
        INFQ_TOK_DEC_STRIP,
        INFQ_TOK_DEC_BYTE_FALLBACK,
        INFQ_TOK_DEC_METASPACE
    } kind;
    infq_tok_finder find;
    infq_tok_str content; /* REPLACE: new text; STRIP, METASPACE: the character */
    int64_t start, stop;  /* STRIP */
    infq_tok_scheme scheme;
} infq_tok_dec;

/* SentencePiece models: how text is prepared and put together again. */
typedef struct {
    bool add_dummy_prefix, remove_extra_whitespaces, escape_whitespaces, suffix_whitespace;
    infq_tok_str unk_surface;
    uint8_t *type; /* by id */
} infq_tok_sp;

#define INFQ_TOK_MAX_TEMPLATE 64

struct infq_tokenizer {
    infq_arena *arena;
    infq_tok_alphabet alphabet;
    infq_tok_vocab vocab;
    infq_tok_bpe bpe;
    infq_tok_trie raw, normalized; /* added tokens by the text they are looked for in */
    uint8_t *added_flags;          /* by id: INFQ_TOK_SINGLE_WORD ... */
    infq_tok_norm norm[INFQ_TOK_MAX_STEPS];
    infq_tok_pre pre[INFQ_TOK_MAX_STEPS];
    infq_tok_dec dec[INFQ_TOK_MAX_STEPS];
    size_t n_norm, n_pre, n_dec;
    bool has_decoder;
    infq_tok_re *regexes[4 * INFQ_TOK_MAX_STEPS];
    size_t n_regexes;
    int32_t template_ids[INFQ_TOK_MAX_TEMPLATE]; /* -1: the text */
    size_t n_template;
    int32_t bos, eos;
    infq_tok_sp *sp; /* NULL for tokenizer.json */
    char digest[65];
};

#define INFQ_TOK_SINGLE_WORD 1u
#define INFQ_TOK_LSTRIP 2u
#define INFQ_TOK_RSTRIP 4u

/* tokenizer.c */
infq_status infq_tok_new(infq_tokenizer **out, infq_err *err);
/* Allocates texts and flags for ids 0..n-1 of the vocabulary. */
infq_status infq_tok_vocab_alloc(infq_tokenizer *t, int64_t n, size_t n_tokens, infq_err *err);
infq_status infq_tok_strdup(infq_tokenizer *t, const char *s, size_t n, infq_tok_str *out,
                            infq_err *err);
/* Encode that also reports the work done, for tests of linearity. */
infq_status infq_tok_encode_counted(const infq_tokenizer *t, const char *text, size_t n,
                                    unsigned flags, infq_ids *ids, uint64_t *n_steps,
                                    infq_err *err);

/* tok_normalize.c: runs all steps on s[0..n); the result is borrowed from w until the next call, or
 * s itself. */
infq_status infq_tok_normalize(const infq_tokenizer *t, infq_tok_work *w, const char *s, size_t n,
                               infq_tok_str *out, infq_err *err);
/* tok_pretok.c: splits a piece by all steps and encodes each pre-token. at_start: the piece begins
 * the whole text. */
infq_status infq_tok_pretokenize(const infq_tokenizer *t, infq_tok_work *w, const char *s, size_t n,
                                 bool at_start, infq_ids *ids, infq_err *err);
/* tok_decode.c: texts of ids known to be valid. */
infq_status infq_tok_decode(const infq_tokenizer *t, const int32_t *ids, size_t n,
                            bool skip_special, infq_buf *text, infq_err *err);
/* tok_parse.c, tok_model.c, tok_config.c */
infq_status infq_tok_parse_steps(infq_tokenizer *t, const cJSON *root, infq_err *err);
infq_status infq_tok_parse_model(infq_tokenizer *t, const cJSON *root, infq_err *err);
infq_status infq_tok_parse_template(infq_tokenizer *t, const cJSON *post, infq_err *err);
infq_status infq_tok_config_apply(infq_tokenizer *t, const char *folder, infq_err *err);
/* tok_sentencepiece.c */
infq_status infq_tok_sp_normalize(const infq_tokenizer *t, const char *s, size_t n, infq_buf *out,
                                  infq_err *err);
infq_status infq_tok_sp_decode(const infq_tokenizer *t, const int32_t *ids, size_t n,
                               infq_buf *text, infq_err *err);

#endif
