#include <string.h>

#include "lib/io/tok_int.h"

/* Depth first: every piece of a step goes through the later steps at once, so that memory follows
 * the largest piece. */
typedef struct {
    const infq_tokenizer *t;
    infq_tok_work *w;
    infq_ids *ids;
    infq_err *err;
} pass;

static infq_status step(pass *p, size_t k, const char *s, size_t n, bool at_start);

// Rebuilds the pieces of tokenizers' SplitDelimiterBehavior from the row of matches and gaps
// between them.
typedef struct {
    pass *p;
    size_t next_step;
    const char *s;
    infq_tok_behavior behavior;
    bool invert, at_start;
    bool held, was_match;
    size_t start, end; // piece held back
} splitter;

static infq_status emit(splitter *x, size_t start, size_t end)
{
    return end > start
               ? step(x->p, x->next_step, x->s + start, end - start, x->at_start && start == 0)
               : INFQ_E_OK;
}

static infq_status hold(splitter *x, size_t start, size_t end)
{
    size_t old_start = x->start, old_end = x->end;
    bool had = x->held;

    x->held = true;
    x->start = start;
    x->end = end;
    return had ? emit(x, old_start, old_end) : INFQ_E_OK;
}

static infq_status take(splitter *x, size_t start, size_t end, bool match)
{
    bool joins;

    match ^= x->invert;
    switch (x->behavior) {
    case INFQ_TOK_REMOVED:
        return match ? INFQ_E_OK : emit(x, start, end);
    case INFQ_TOK_ISOLATED:
        return emit(x, start, end);
    case INFQ_TOK_MERGED_WITH_PREVIOUS:
        joins = match && !x->was_match;
        break;
    case INFQ_TOK_MERGED_WITH_NEXT:
        joins = !match && x->was_match;
        break;
    default:
        joins = match == x->was_match;
    }
    x->was_match = match;
    if (joins && x->held) {
        x->end = end;
        return INFQ_E_OK;
    }
    return hold(x, start, end);
}

static infq_status split(pass *p, size_t k, const infq_tok_finder *f, infq_tok_behavior behavior,
                         bool invert, const char *s, size_t n, bool at_start)
{
    splitter x = { p, k + 1, s, behavior, invert, at_start, false, false, 0, 0 };
    infq_tok_walk walk = infq_tok_walk_over(f, infq_tok_work_match(p->w), s, n);
    size_t at = 0, start, end;
    bool found;

    for (;;) {
        INFQ_TRY(infq_tok_walk_next(&walk, &found, &start, &end, p->err));
        if (!found)
            break;
        if (start > at)
            INFQ_TRY(take(&x, at, start, false));
        INFQ_TRY(take(&x, start, end, true));
        at = end;
    }
    if (n > at)
        INFQ_TRY(take(&x, at, n, false));
    return x.held ? emit(&x, x.start, x.end) : INFQ_E_OK;
}

static infq_status byte_level(pass *p, size_t k, const char *s, size_t n, bool at_start)
{
    infq_buf *to = infq_tok_work_buf(p->w, 2 + k);

    infq_buf_clear(to);
    infq_tok_alphabet_map(&p->t->alphabet, s, n, to);
    INFQ_TRY(infq_buf_status(to, p->err));
    return step(p, k + 1, to->data, to->n, at_start);
}

static infq_status prefix_space(pass *p, size_t k, const char *s, size_t n, bool at_start)
{
    infq_buf *to = infq_tok_work_buf(p->w, 2 + k);

    if (s[0] == ' ')
        return step(p, k + 1, s, n, at_start);
    infq_buf_clear(to);
    infq_buf_char(to, ' ');
    infq_buf_add(to, s, n);
    INFQ_TRY(infq_buf_status(to, p->err));
    return step(p, k + 1, to->data, to->n, at_start);
}

static infq_status metaspace(pass *p, size_t k, const infq_tok_pre *f, const char *s, size_t n,
                             bool at_start)
{
    infq_buf *to = infq_tok_work_buf(p->w, 2 + k);
    bool starts = s[0] == ' ' || (n >= f->marker.n && memcmp(s, f->marker.p, f->marker.n) == 0);

    infq_buf_clear(to);
    if (!starts && (f->scheme == INFQ_TOK_ALWAYS || (f->scheme == INFQ_TOK_FIRST && at_start)))
        infq_buf_add(to, f->marker.p, f->marker.n);
    for (size_t i = 0; i < n;) {
        const char *blank = memchr(s + i, ' ', n - i);
        size_t end = blank ? (size_t)(blank - s) : n;

        infq_buf_add(to, s + i, end - i);
        if (blank)
            infq_buf_add(to, f->marker.p, f->marker.n);
        i = end + (blank != NULL);
    }
    INFQ_TRY(infq_buf_status(to, p->err));
    if (!f->split)
        return step(p, k + 1, to->data, to->n, at_start);
    return split(p, k, &f->find, INFQ_TOK_MERGED_WITH_NEXT, false, to->data, to->n, at_start);
}

static infq_status step(pass *p, size_t k, const char *s, size_t n, bool at_start)
{
    const infq_tok_pre *f = &p->t->pre[k];

    if (k == p->t->n_pre)
        return infq_tok_bpe_encode(&p->t->bpe, p->w, s, n, p->ids, p->err);
    switch (f->kind) {
    case INFQ_TOK_PRE_SPLIT:
        return split(p, k, &f->find, f->behavior, f->invert, s, n, at_start);
    case INFQ_TOK_PRE_PREFIX_SPACE:
        return prefix_space(p, k, s, n, at_start);
    case INFQ_TOK_PRE_BYTE_LEVEL:
        return byte_level(p, k, s, n, at_start);
    default:
        return metaspace(p, k, f, s, n, at_start);
    }
}

infq_status infq_tok_pretokenize(const infq_tokenizer *t, infq_tok_work *w, const char *s, size_t n,
                                 bool at_start, infq_ids *ids, infq_err *err)
{
    pass p = { t, w, ids, err };

    return n ? step(&p, 0, s, n, at_start) : INFQ_E_OK;
}
