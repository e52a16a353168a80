#include <string.h>

#include "lib/eval/item_int.h"

void infq_item_generate_write(const infq_item *it, infq_jw *w)
{
    infq_jw_key_str(w, "text", it->text);
    infq_jw_key_i64(w, "tokens", it->n_tokens[0]);
    infq_jw_key_str(w, "stop", it->stop);
    infq_jw_key_str(w, "answer", it->answer);
    infq_jw_key_str(w, "target", it->target);
    if (it->parts != 1)
        infq_jw_key_i64(w, "parts", it->parts);
    if (it->cut != 0)
        infq_jw_key_i64(w, "cut", it->cut);
}

static infq_status read_text(infq_items *s, const cJSON *o, const char *key, const char **out, infq_err *err)
{
    const char *v;

    INFQ_TRY(infq_json_str(o, key, "", &v, err));
    return infq_items_text(s, v, strlen(v), out, err);
}

infq_status infq_item_generate_read(infq_items *s, const cJSON *o, infq_item *it, infq_err *err)
{
    INFQ_TRY(read_text(s, o, "text", &it->text, err));
    INFQ_TRY(read_text(s, o, "stop", &it->stop, err));
    INFQ_TRY(read_text(s, o, "answer", &it->answer, err));
    INFQ_TRY(read_text(s, o, "target", &it->target, err));
    INFQ_TRY(infq_json_i64(o, "tokens", 0, &it->n_tokens[0], err));
    INFQ_TRY(infq_json_i64(o, "parts", 1, &it->parts, err));
    INFQ_TRY(infq_json_i64(o, "cut", 0, &it->cut, err));
    if (it->n_tokens[0] < 0 || it->parts < 1 || it->cut < 0)
        return infq_err_set(err, INFQ_E_FORMAT, "tokens, parts or cut is no count");
    return INFQ_E_OK;
}
