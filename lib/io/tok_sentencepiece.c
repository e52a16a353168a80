#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/hash.h"
#include "lib/io/tok_int.h"

/* SentencePiece's tokenizer.model: a protobuf ModelProto { 1: pieces, 2: trainer, 3: normalizer, 5:
 * denormalizer }. */

#define BLANK "\xe2\x96\x81" /* U+2581 stands for a blank */
#define MAX_PIECE_BYTES 1024 /* every way to cut a piece is tried when loading */

enum { NORMAL = 1, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE };

typedef struct {
    uint64_t number, value; /* value: varint or fixed bits */
    const char *p;          /* wire type 2 */
    size_t n;
} field;

static uint64_t varint(infq_cursor *c)
{
    uint64_t v = 0;

    for (unsigned shift = 0; shift < 64; shift += 7) {
        uint8_t b = infq_cursor_u8(c);
        v |= (uint64_t)(b & 0x7f) << shift;
        if (!(b & 0x80))
            break;
    }
    return v;
}

// Next field; false at the end or on broken bytes (the cursor tells).
static bool next_field(infq_cursor *c, field *f)
{
    uint64_t tag;

    if (c->failed || !infq_cursor_left(c))
        return false;
    tag = varint(c);
    *f = (field){ tag >> 3, 0, NULL, 0 };
    switch (tag & 7) {
    case 0:
        f->value = varint(c);
        break;
    case 1:
        f->value = infq_cursor_u64le(c);
        break;
    case 2:
        f->value = varint(c);
        f->n = f->value > SIZE_MAX ? SIZE_MAX : (size_t)f->value;
        f->p = (const char *)infq_cursor_take(c, f->n);
        break;
    case 5:
        f->value = infq_cursor_u32le(c);
        break;
    default: // groups are not used by this format
        infq_cursor_take(c, SIZE_MAX);
    }
    return !c->failed;
}

static bool is_message(const field *f, uint64_t number)
{
    return f->number == number && f->p;
}

typedef struct {
    infq_tok_str text;
    float score;
    uint64_t type;
} piece;

typedef struct {
    infq_tok_str unk_surface, bos, eos;
    uint64_t model_type;
    bool byte_fallback, suffix_whitespace;
    bool add_dummy_prefix, remove_extra_whitespaces, escape_whitespaces;
    size_t n_charsmap;
    size_t n_pieces, n_bytes;
} header;

static infq_status read_piece(const field *m, piece *out, infq_err *err)
{
    infq_cursor c = infq_cursor_over(m->p, m->n);
    field f;

    *out = (piece){ { "", 0 }, 0, NORMAL };
    while (next_field(&c, &f)) {
        if (is_message(&f, 1)) {
            out->text = (infq_tok_str){ f.p, f.n };
        } else if (f.number == 2 && !f.p) {
            uint32_t bits = (uint32_t)f.value;
            memcpy(&out->score, &bits, sizeof(bits));
        } else if (f.number == 3) {
            out->type = f.value;
        }
    }
    return infq_cursor_status(&c, err);
}

static infq_status read_trainer(const field *m, header *h, infq_err *err)
{
    infq_cursor c = infq_cursor_over(m->p, m->n);
    field f;

    while (next_field(&c, &f)) {
        if (f.number == 3)
            h->model_type = f.value;
        else if (f.number == 24)
            h->suffix_whitespace = f.value != 0;
        else if (f.number == 35)
            h->byte_fallback = f.value != 0;
        else if (is_message(&f, 44))
            h->unk_surface = (infq_tok_str){ f.p, f.n };
        else if (is_message(&f, 46))
            h->bos = (infq_tok_str){ f.p, f.n };
        else if (is_message(&f, 47))
            h->eos = (infq_tok_str){ f.p, f.n };
    }
    return infq_cursor_status(&c, err);
}

static infq_status read_normalizer(const field *m, header *h, bool denormalizer, infq_err *err)
{
    infq_cursor c = infq_cursor_over(m->p, m->n);
    field f;

    while (next_field(&c, &f)) {
        if (is_message(&f, 2))
            h->n_charsmap += f.n;
        else if (f.number == 3 && !denormalizer)
            h->add_dummy_prefix = f.value != 0;
        else if (f.number == 4 && !denormalizer)
            h->remove_extra_whitespaces = f.value != 0;
        else if (f.number == 5 && !denormalizer)
            h->escape_whitespaces = f.value != 0;
    }
    return infq_cursor_status(&c, err);
}

static infq_status read_header(infq_cursor c, header *h, infq_err *err)
{
    static const char *const types[] = { "of unknown type", "unigram", "BPE", "word", "character" };
    field f;

    *h = (header){ .unk_surface = { " \xe2\x81\x87 ", 5 },
                   .bos = { "<s>", 3 },
                   .eos = { "</s>", 4 },
                   .model_type = 1,
                   .add_dummy_prefix = true,
                   .remove_extra_whitespaces = true,
                   .escape_whitespaces = true };
    while (next_field(&c, &f)) {
        if (is_message(&f, 1)) {
            h->n_pieces++;
            h->n_bytes += f.n + 1;
        } else if (is_message(&f, 2)) {
            INFQ_TRY(read_trainer(&f, h, err));
        } else if (is_message(&f, 3) || is_message(&f, 5)) {
            INFQ_TRY(read_normalizer(&f, h, f.number == 5, err));
        }
    }
    INFQ_TRY(infq_cursor_status(&c, err));
    if (!h->n_pieces)
        return infq_err_set(err, INFQ_E_FORMAT, "no pieces in it: not a SentencePiece model");
    if (h->model_type != 2)
        return infq_err_set(err, INFQ_E_UNSUPPORTED,
                            "a SentencePiece %s model is not supported, only BPE is",
                            types[h->model_type <= 4 ? h->model_type : 0]);
    if (h->n_charsmap)
        return infq_err_set(err, INFQ_E_UNSUPPORTED,
                            "a SentencePiece model with a character map (normalizer) is not "
                            "supported, only identity is");
    return h->n_pieces < INFQ_TOK_PSEUDO
               ? INFQ_E_OK
               : infq_err_set(err, INFQ_E_UNSUPPORTED, "%zu pieces are too many", h->n_pieces);
}

// Text, type and flags of piece `id`; the text is copied to *at.
static infq_status place(infq_tokenizer *t, int64_t id, const piece *p, char **at, infq_err *err)
{
    infq_tok_vocab *v = &t->vocab;
    int64_t other;

    if (!p->text.n || infq_utf8_check(p->text.p, p->text.n) < p->text.n)
        return infq_err_set(err, INFQ_E_FORMAT, "piece %lld is empty or not UTF-8", (long long)id);
    if (p->text.n > MAX_PIECE_BYTES)
        return infq_err_set(err, INFQ_E_UNSUPPORTED, "piece %lld has more than %d bytes",
                            (long long)id, MAX_PIECE_BYTES);
    if (p->type < NORMAL || p->type > BYTE || p->type == UNUSED)
        return infq_err_set(err, INFQ_E_UNSUPPORTED,
                            "piece %lld is of type %llu, which is not supported", (long long)id,
                            (unsigned long long)p->type);
    if (!isfinite(p->score))
        return infq_err_set(err, INFQ_E_NUMERIC, "the score of piece %lld is not finite",
                            (long long)id);
    memcpy(*at, p->text.p, p->text.n);
    (*at)[p->text.n] = '\0';
    v->text[id] = (infq_tok_str){ *at, p->text.n };
    v->flags[id] =
        INFQ_TOK_PRESENT | (p->type == CONTROL || p->type == UNKNOWN ? INFQ_TOK_IS_SPECIAL : 0);
    t->sp->type[id] = (uint8_t)p->type;
    *at += p->text.n + 1;
    other = infq_map_put(v->map, v->text[id].p, v->text[id].n, id);
    if (other == -2)
        return infq_err_set(err, INFQ_E_NOMEM, "vocabulary");
    if (other >= 0)
        return infq_err_set(err, INFQ_E_FORMAT, "piece \"%.40s\" has ids %lld and %lld",
                            v->text[id].p, (long long)other, (long long)id);
    return INFQ_E_OK;
}

static int byte_of(infq_tok_str s)
{
    static const char hex[] = "0123456789ABCDEF";
    const char *high, *low;

    if (s.n != 6 || memcmp(s.p, "<0x", 3) != 0 || s.p[5] != '>')
        return -1;
    high = memchr(hex, s.p[3], 16);
    low = memchr(hex, s.p[4], 16);
    return high && low ? (int)((high - hex) * 16 + (low - hex)) : -1;
}

static infq_status add_special(infq_tokenizer *t, const header *h, int32_t id, infq_err *err)
{
    infq_tok_str s = t->vocab.text[id];
    int byte;

    switch (t->sp->type[id]) {
    case UNKNOWN:
        if (t->bpe.unk >= 0)
            return infq_err_set(err, INFQ_E_FORMAT, "pieces %d and %d both stand for unknown text",
                                (int)t->bpe.unk, (int)id);
        t->bpe.unk = id;
        return INFQ_E_OK;
    case CONTROL:
        if (s.n == h->bos.n && memcmp(s.p, h->bos.p, s.n) == 0)
            t->bos = id;
        if (s.n == h->eos.n && memcmp(s.p, h->eos.p, s.n) == 0)
            t->eos = id;
        return INFQ_E_OK;
    case USER_DEFINED:
        return infq_tok_trie_add(&t->raw, s.p, s.n, id, err);
    case BYTE:
        byte = byte_of(s);
        if (byte < 0)
            return infq_err_set(err, INFQ_E_FORMAT, "byte piece %d is not of the form <0xHH>",
                                (int)id);
        t->bpe.byte_id[byte] = id;
        return INFQ_E_OK;
    default:
        return INFQ_E_OK;
    }
}

typedef struct {
    float score;
    int32_t id;
} scored;

static int by_score(const void *a, const void *b)
{
    const scored *x = a, *y = b;

    if (x->score != y->score)
        return x->score > y->score ? -1 : 1;
    return x->id < y->id ? -1 : 1;
}

// Number under which s merges: its piece, or a pseudo number for a character that is none; -1 if
// neither.
static infq_status part_id(infq_tokenizer *t, const char *s, size_t n, int32_t *id, infq_err *err)
{
    int64_t known = infq_map_get(t->vocab.map, s, n);
    size_t len;
    uint32_t cp;

    *id = -1;
    if (known >= 0 && t->sp->type[known] == NORMAL) {
        *id = (int32_t)known;
        return INFQ_E_OK;
    }
    cp = infq_tok_next(s, n, &len);
    if (len < n)
        return INFQ_E_OK;
    *id = INFQ_TOK_PSEUDO | (int32_t)cp;
    t->bpe.has_pseudo = true;
    return infq_tok_bpe_char_set(&t->bpe, cp, *id, err);
}

// A pair merges when its text is a piece, the best score first: every cut of every piece is a merge
// of the piece's rank.
static infq_status add_merges(infq_tokenizer *t, int32_t id, uint32_t rank, infq_err *err)
{
    infq_tok_str s = t->vocab.text[id];
    size_t len;
    uint32_t cp = infq_tok_next(s.p, s.n, &len);

    if (len == s.n)
        return infq_tok_bpe_char_set(&t->bpe, cp, id, err);
    for (size_t at = len; at < s.n; at += len) {
        int32_t left, right;

        INFQ_TRY(part_id(t, s.p, at, &left, err));
        INFQ_TRY(part_id(t, s.p + at, s.n - at, &right, err));
        if (left >= 0 && right >= 0)
            INFQ_TRY(infq_tok_bpe_pair_add(&t->bpe, left, right, rank, id, err));
        infq_tok_next(s.p + at, s.n - at, &len);
    }
    return infq_tok_bpe_seams_add(&t->bpe, s.p, s.n, err);
}

static infq_status load_pieces(infq_tokenizer *t, infq_cursor c, const header *h, scored *order,
                               infq_err *err)
{
    size_t n_normal = 0;
    int32_t id = 0;
    uint32_t rank = 0;
    field f;
    void *block;
    char *at;

    INFQ_TRY(infq_arena_alloc(t->arena, h->n_bytes, 1, "vocabulary", &block, err));
    at = block;
    while (next_field(&c, &f)) {
        piece p;

        if (!is_message(&f, 1))
            continue;
        INFQ_TRY(read_piece(&f, &p, err));
        INFQ_TRY(place(t, id, &p, &at, err));
        INFQ_TRY(add_special(t, h, id, err));
        if (p.type == NORMAL)
            order[n_normal++] = (scored){ p.score, id };
        id++;
    }
    if (t->bpe.unk < 0)
        return infq_err_set(err, INFQ_E_FORMAT, "no piece stands for unknown text");
    qsort(order, n_normal, sizeof(*order), by_score);
    for (size_t i = 0; i < n_normal; i++) {
        rank += i > 0 && order[i].score != order[i - 1].score;
        INFQ_TRY(add_merges(t, order[i].id, rank, err));
    }
    return INFQ_E_OK;
}

static infq_status load_model(infq_tokenizer *t, infq_cursor c, infq_err *err)
{
    scored *order = NULL;
    infq_status st;
    header h;
    void *p;

    INFQ_TRY(read_header(c, &h, err));
    INFQ_TRY(infq_arena_calloc(t->arena, 1, sizeof(*t->sp), "SentencePiece model", &p, err));
    t->sp = p;
    INFQ_TRY(infq_arena_calloc(t->arena, h.n_pieces, 1, "SentencePiece model", &p, err));
    t->sp->type = p;
    t->sp->add_dummy_prefix = h.add_dummy_prefix;
    t->sp->remove_extra_whitespaces = h.remove_extra_whitespaces;
    t->sp->escape_whitespaces = h.escape_whitespaces;
    t->sp->suffix_whitespace = h.suffix_whitespace;
    INFQ_TRY(infq_tok_strdup(t, h.unk_surface.p, h.unk_surface.n, &t->sp->unk_surface, err));
    INFQ_TRY(infq_tok_vocab_alloc(t, (int64_t)h.n_pieces, h.n_pieces, err));
    t->bpe.byte_fallback = h.byte_fallback;
    t->bpe.fuse_unk = true;
    t->bpe.can_cut = true;
    INFQ_TRY(infq_mem_new(h.n_pieces, sizeof(*order), "pieces by score", &p, err));
    order = p;
    st = load_pieces(t, c, &h, order, err);
    infq_mem_free(order);
    if (!st && t->bos >= 0) {
        t->template_ids[0] = t->bos;
        t->template_ids[1] = -1;
        t->n_template = 2;
    }
    return st;
}

infq_status infq_tokenizer_parse_sentencepiece(const void *data, size_t n, infq_tokenizer **out,
                                               infq_err *err)
{
    infq_tokenizer *t = NULL;
    infq_status st = infq_tok_new(&t, err);

    if (!st)
        st = load_model(t, infq_cursor_over(data, n), err);
    if (st)
        infq_err_in(err, "tokenizer.model");
    if (!st)
        st = infq_sha256_of(data, n, t->digest, err);
    if (st) {
        infq_tokenizer_free(t);
        return st;
    }
    *out = t;
    return INFQ_E_OK;
}

/* Blanks: none at the ends and no two in a row if remove_extra_whitespaces, one in front if
 * add_dummy_prefix, all as U+2581 if escape_whitespaces. The user's own symbols are left as they
 * are. */
infq_status infq_tok_sp_normalize(const infq_tokenizer *t, const char *s, size_t n, infq_buf *out,
                                  infq_err *err)
{
    const infq_tok_sp *sp = t->sp;
    const char *blank = sp->escape_whitespaces ? BLANK : " ";
    const size_t n_blank = strlen(blank);
    bool after_blank = sp->remove_extra_whitespaces, dummy = sp->add_dummy_prefix;
    size_t i = 0;

    while (sp->remove_extra_whitespaces && i < n && s[i] == ' ')
        i++;
    if (i == n)
        return INFQ_E_OK;
    if (dummy && !sp->suffix_whitespace)
        infq_buf_str(out, blank);
    while (i < n) {
        int32_t id;
        size_t len = t->raw.n ? infq_tok_trie_longest(&t->raw, s + i, n - i, &id) : 0, end = i;

        if (len) {
            infq_buf_add(out, s + i, len);
            after_blank = sp->remove_extra_whitespaces && s[i + len - 1] == ' ';
            i += len;
        } else if (s[i] == ' ') {
            if (!after_blank)
                infq_buf_str(out, blank);
            after_blank = sp->remove_extra_whitespaces;
            i++;
        } else {
            do
                end++;
            while (end < n && s[end] != ' ' && (t->raw.n == 0 || t->raw.root[(uint8_t)s[end]] < 0));
            infq_buf_add(out, s + i, end - i);
            after_blank = false;
            i = end;
        }
    }
    INFQ_TRY(infq_buf_status(out, err));
    while (sp->remove_extra_whitespaces && out->n >= n_blank &&
           memcmp(out->data + out->n - n_blank, blank, n_blank) == 0)
        out->n -= n_blank;
    if (dummy && sp->suffix_whitespace)
        infq_buf_str(out, blank);
    return infq_buf_status(out, err);
}

// Text of a run of byte pieces; each byte that belongs to no character becomes U+FFFD.
static void flush_bytes(infq_buf *bytes, infq_buf *text)
{
    for (size_t i = 0, len; i < bytes->n; i += len) {
        infq_utf8_next(bytes->data + i, bytes->n - i, &len);
        if (infq_utf8_check(bytes->data + i, len) == len) {
            infq_buf_add(text, bytes->data + i, len);
        } else {
            infq_buf_str(text, "\xef\xbf\xbd");
            len = 1;
        }
    }
    infq_buf_clear(bytes);
}

static void add_piece(infq_tok_str s, infq_buf *text)
{
    for (size_t i = 0; i < s.n;) {
        const char *at = memmem(s.p + i, s.n - i, BLANK, 3);
        size_t end = at ? (size_t)(at - s.p) : s.n;

        infq_buf_add(text, s.p + i, end - i);
        if (at)
            infq_buf_char(text, ' ');
        i = at ? end + 3 : end;
    }
}

/* At the beginning the blank that encoding put in front goes; if extra blanks are removed, all of
 * them. */
infq_status infq_tok_sp_decode(const infq_tokenizer *t, const int32_t *ids, size_t n,
                               infq_buf *text, infq_err *err)
{
    const infq_tok_sp *sp = t->sp;
    bool at_start = true, blank_gone = false;
    size_t n_before = text->n;
    infq_buf bytes;
    infq_status st;

    infq_buf_init(&bytes);
    for (size_t i = 0; i < n; i++) {
        infq_tok_str s = t->vocab.text[ids[i]];

        if (sp->type[ids[i]] == BYTE) {
            infq_buf_char(&bytes, (char)byte_of(s));
            continue;
        }
        flush_bytes(&bytes, text);
        if (blank_gone || text->n > n_before)
            at_start = false;
        blank_gone = false;
        if (sp->type[ids[i]] == CONTROL)
            continue;
        if (sp->type[ids[i]] == UNKNOWN) {
            infq_buf_add(text, sp->unk_surface.p, sp->unk_surface.n);
            continue;
        }
        if (at_start && (sp->add_dummy_prefix || sp->remove_extra_whitespaces) && s.n >= 3 &&
            memcmp(s.p, BLANK, 3) == 0) {
            s.p += 3;
            s.n -= 3;
            blank_gone = !sp->remove_extra_whitespaces;
        }
        add_piece(s, text);
    }
    st = infq_buf_status(&bytes, err);
    flush_bytes(&bytes, text);
    infq_buf_deinit(&bytes);
    return st ? st : infq_buf_status(text, err);
}
