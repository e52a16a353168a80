#include <string.h>

#include "lib/base/file.h"
#include "lib/io/tok_int.h"

#define MAX_CONFIG_BYTES ((size_t)64 << 20)

static infq_status load(const char *folder, const char *name, cJSON **out, infq_err *err)
{
    char *path = NULL;
    infq_buf text;
    infq_status st = infq_path_join(folder, name, &path, err);

    infq_buf_init(&text);
    if (!st && infq_path_exists(path)) {
        st = infq_file_read(path, MAX_CONFIG_BYTES, &text, err);
        if (!st)
            st = infq_json_parse(text.data, text.n, name, out, err);
    }
    infq_buf_deinit(&text);
    infq_mem_free(path);
    return st;
}

// "bos_token": text, {"content": text} or nothing. *id stays as it is when the member or the token
// is not there.
static infq_status token_of(const infq_tokenizer *t, const cJSON *config, const char *file,
                            const char *key, bool *given, int32_t *id, infq_err *err)
{
    const cJSON *v = infq_json_get(config, key);
    const char *text;

    *given = false;
    if (!v)
        return INFQ_E_OK;
    text = cJSON_IsString(v) ? v->valuestring : NULL;
    if (cJSON_IsObject(v) && infq_json_str(v, "content", NULL, &text, err))
        return infq_err_in(err, "%s: %s", file, key);
    if (!text)
        return infq_err_set(err, INFQ_E_FORMAT,
                            "%s: %s is neither a text nor an object with content", file, key);
    *given = true;
    *id = infq_tokenizer_id(t, text);
    return INFQ_E_OK;
}

static infq_status find_token(const infq_tokenizer *t, const cJSON *config, const cJSON *map,
                              const char *key, int32_t *id, infq_err *err)
{
    bool given;

    INFQ_TRY(token_of(t, config, "tokenizer_config.json", key, &given, id, err));
    return given ? INFQ_E_OK : token_of(t, map, "special_tokens_map.json", key, &given, id, err);
}

/* add_bos_token and add_eos_token, when written, decide over the template, as in transformers. */
static infq_status put_token(infq_tokenizer *t, const cJSON *config, const char *key,
                             const char *token_key, bool front, int32_t id, infq_err *err)
{
    bool want, there;
    size_t n = t->n_template;

    if (!infq_json_get(config, key))
        return INFQ_E_OK;
    if (infq_json_bool(config, key, false, &want, err))
        return infq_err_in(err, "tokenizer_config.json");
    if (want && id < 0)
        return infq_err_set(err, INFQ_E_FORMAT,
                            "tokenizer_config.json: %s is true, but the vocabulary has no %s", key,
                            token_key);
    there = id >= 0 && t->template_ids[front ? 0 : n - 1] == id;
    if (want == there)
        return INFQ_E_OK;
    if (!want) {
        if (front)
            memmove(t->template_ids, t->template_ids + 1, (n - 1) * sizeof(id));
        t->n_template--;
        return INFQ_E_OK;
    }
    if (n == INFQ_TOK_MAX_TEMPLATE)
        return infq_err_set(err, INFQ_E_UNSUPPORTED, "post_processor has more than %d tokens",
                            INFQ_TOK_MAX_TEMPLATE);
    if (front)
        memmove(t->template_ids + 1, t->template_ids, n * sizeof(id));
    t->template_ids[front ? 0 : n] = id;
    t->n_template++;
    return INFQ_E_OK;
}

static infq_status apply(infq_tokenizer *t, const cJSON *config, const cJSON *map, infq_err *err)
{
    INFQ_TRY(find_token(t, config, map, "bos_token", &t->bos, err));
    INFQ_TRY(find_token(t, config, map, "eos_token", &t->eos, err));
    INFQ_TRY(put_token(t, config, "add_bos_token", "bos_token", true, t->bos, err));
    return put_token(t, config, "add_eos_token", "eos_token", false, t->eos, err);
}

infq_status infq_tok_config_apply(infq_tokenizer *t, const char *folder, infq_err *err)
{
    cJSON *config = NULL, *map = NULL;
    infq_status st = load(folder, "tokenizer_config.json", &config, err);

    if (!st)
        st = load(folder, "special_tokens_map.json", &map, err);
    if (!st)
        st = apply(t, config, map, err);
    cJSON_Delete(map);
    cJSON_Delete(config);
    return st;
}
