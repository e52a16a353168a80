#include "lib/eval/token_class.h"

#include <string.h>

#include "lib/base/str.h"
#include "lib/eval/corpus.h"

const char *infq_token_class_name(infq_token_class c)
{
    static const char *const names[INFQ_TOKEN_CLASS_COUNT] = {
        [INFQ_TOKEN_SPECIAL] = "special", [INFQ_TOKEN_SPACE] = "space", [INFQ_TOKEN_WORD] = "word start",
        [INFQ_TOKEN_CONTINUATION] = "continuation", [INFQ_TOKEN_DIGIT] = "digit", [INFQ_TOKEN_PUNCTUATION] = "punctuation",
        [INFQ_TOKEN_OTHER] = "other script"};

    return names[c];
}

static bool is_letter(uint32_t cp)
{
    if (cp < 0x80)
        return (cp | 0x20) >= 'a' && (cp | 0x20) <= 'z';
    return (cp >= 0xC0 && cp <= 0x24F && cp != 0xD7 && cp != 0xF7) || (cp >= 0x1E00 && cp <= 0x1EFF);
}

static bool is_punctuation(uint32_t cp)
{
    return cp < 0x80 || (cp >= 0xA1 && cp <= 0xBF) || cp == 0xD7 || cp == 0xF7 || (cp >= 0x2010 && cp <= 0x206F);
}

infq_token_class infq_token_class_of(const char *text, size_t n)
{
    size_t at = infq_lstrip(text, n), len;
    uint32_t cp;

    if (n == 0)
        return INFQ_TOKEN_SPECIAL;
    if (at == n)
        return INFQ_TOKEN_SPACE;
    cp = infq_utf8_next(text + at, n - at, &len);
    if (is_letter(cp))
        return at > 0 ? INFQ_TOKEN_WORD : INFQ_TOKEN_CONTINUATION;
    if (cp >= '0' && cp <= '9')
        return INFQ_TOKEN_DIGIT;
    return is_punctuation(cp) ? INFQ_TOKEN_PUNCTUATION : INFQ_TOKEN_OTHER;
}

/* A token whose text is one ordinary character: other tokens are read behind it. */
static infq_status find_anchor(const infq_tokenizer *tok, int32_t *id, infq_err *err)
{
    infq_ids ids;
    infq_status st;

    infq_ids_init(&ids);
    st = infq_tokenizer_encode(tok, "a", 1, 0, &ids, err);
    if (!st)
        st = infq_ids_status(&ids, err);
    if (!st && ids.n == 0)
        st = infq_err_set(err, INFQ_E_UNSUPPORTED, "the tokenizer has no token for a letter");
    if (!st)
        *id = ids.data[ids.n - 1];
    infq_ids_deinit(&ids);
    return st;
}

infq_status infq_token_classes(const infq_tokenizer *tok, int64_t vocab, uint8_t **out, infq_err *err)
{
    int64_t known = infq_tokenizer_size(tok) < vocab ? infq_tokenizer_size(tok) : vocab;
    int32_t pair[2];
    infq_buf alone, both;
    uint8_t *classes = NULL;
    infq_status st;

    INFQ_TRY(find_anchor(tok, &pair[0], err));
    INFQ_TRY(infq_mem_new((size_t)(vocab > 0 ? vocab : 1), 1, "token classes", (void **)&classes, err));
    memset(classes, INFQ_TOKEN_SPECIAL, (size_t)vocab);
    infq_buf_init(&alone);
    infq_buf_init(&both);
    st = infq_tokenizer_decode(tok, pair, 1, true, &alone, err);
    for (int64_t id = 0; id < known && !st; id++) {
        infq_err gap;
        pair[1] = (int32_t)id;
        infq_buf_clear(&both);
        if (infq_tokenizer_decode(tok, pair, 2, true, &both, &gap)) // an id that the vocabulary leaves out
            continue;
        st = infq_buf_status(&both, err);
        if (!st && both.n >= alone.n)
            classes[id] = (uint8_t)infq_token_class_of(both.data + alone.n, both.n - alone.n);
    }
    infq_buf_deinit(&alone);
    infq_buf_deinit(&both);
    if (st) {
        infq_mem_free(classes);
        return st;
    }
    *out = classes;
    return 0;
}
