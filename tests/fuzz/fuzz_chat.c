/* Any bytes as a chat template; what parses is rendered for one conversation. */
#include <stddef.h>
#include <stdint.h>

#include "lib/io/chat.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char vars[] = "{\"messages\": [{\"role\": \"system\", \"content\": \"s\"}, "
                           "{\"role\": \"user\", \"content\": \"h\xc3\xa9 \\\"q\\\"\"}, "
                           "{\"role\": \"assistant\", \"content\": [{\"type\": \"text\", \"text\": \"t\"}], \"n\": [1, 2.5, null]}]}";

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    infq_chat *c = NULL;
    infq_err err;
    infq_buf out;

    infq_buf_init(&out);
    if (infq_chat_parse((const char *)data, size, &c, &err) == 0)
        (void)infq_chat_render(c, vars, sizeof(vars) - 1, NULL, &out, &err);
    infq_chat_free(c);
    infq_buf_deinit(&out);
    return 0;
}
