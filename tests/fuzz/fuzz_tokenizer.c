/* Any bytes as a tokenizer.json (first byte '{') or a SentencePiece model; what loads must encode
 * and decode. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "lib/io/tokenizer.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char text[] =
    "the cat  sat\xc3\xa9 e\xcc\x81\xcc\xa3 <s> 123 \xff\xe4\xb8\xad\xf0\x9f\x98\x80\n\t "
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaabababab "
    "\xe2\x96\x81the";

static void use(const infq_tokenizer *t)
{
    infq_err err;
    infq_ids ids;
    infq_buf out;

    infq_ids_init(&ids);
    infq_buf_init(&out);
    for (unsigned flags = 0; flags < 4; flags++)
        if (infq_tokenizer_encode(t, text, sizeof(text) - 1, flags, &ids, &err) == 0 &&
            infq_tokenizer_decode(t, ids.data, ids.n, flags & 1, &out, &err))
            abort(); // an encoder's own ids must decode
    infq_buf_deinit(&out);
    infq_ids_deinit(&ids);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    infq_tokenizer *t = NULL;
    infq_err err;
    infq_status st;

    if (size && data[0] == '{')
        st = infq_tokenizer_parse((const char *)data, size, &t, &err);
    else
        st = infq_tokenizer_parse_sentencepiece(data, size, &t, &err);
    if (st == 0)
        use(t);
    infq_tokenizer_free(t);
    return 0;
}
