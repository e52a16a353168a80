#include "lib/io/chat.h"

#include <string.h>

#include "lib/base/file.h"
#include "lib/base/hash.h"
#include "lib/base/json.h"
#include "lib/io/chat_int.h"

#define MAX_TEMPLATE ((size_t)4 << 20)

infq_status infq_chat_parse(const char *text, size_t n, infq_chat **out, infq_err *err)
{
    infq_chat *c = NULL;
    void *p;
    infq_status st;

    if (n > MAX_TEMPLATE)
        return infq_err_set(err, INFQ_E_UNSUPPORTED, "a template of %zu bytes, at most %zu are read", n, MAX_TEMPLATE);
    INFQ_TRY(infq_mem_new(1, sizeof(*c), "chat template", &p, err));
    c = p;
    memset(c, 0, sizeof(*c));
    st = infq_sha256_of(text, n, c->digest, err);
    if (!st)
        st = infq_arena_new((size_t)1 << 16, &c->arena, err);
    if (!st)
        st = infq_chat_parse_template(c->arena, text, n, &c->body, err);
    if (st)
        infq_chat_free(c);
    else
        *out = c;
    return st ? infq_err_in(err, "chat template") : INFQ_E_OK;
}

void infq_chat_free(infq_chat *c)
{
    if (!c)
        return;
    infq_arena_free(c->arena);
    infq_mem_free(c);
}

const char *infq_chat_digest(const infq_chat *c)
{
    return c->digest;
}

// A token of tokenizer_config.json: a string, or an object with its text as "content".
static const char *token_text(const cJSON *config, const char *key)
{
    const cJSON *v = infq_json_get(config, key);

    if (cJSON_IsObject(v))
        v = infq_json_get(v, "content");
    return cJSON_IsString(v) ? v->valuestring : NULL;
}

// A template as text, or the one named "default" of a list of {"name", "template"}.
static const char *template_text(const cJSON *config)
{
    const cJSON *v = infq_json_get(config, "chat_template"), *e;

    if (cJSON_IsString(v))
        return v->valuestring;
    cJSON_ArrayForEach(e, v) {
        const cJSON *name = infq_json_get(e, "name"), *text = infq_json_get(e, "template");
        if (cJSON_IsString(name) && cJSON_IsString(text) && strcmp(name->valuestring, "default") == 0)
            return text->valuestring;
    }
    return NULL;
}

static infq_status keep_tokens(infq_chat *c, const cJSON *config, infq_err *err)
{
    const char *bos = token_text(config, "bos_token"), *eos = token_text(config, "eos_token");

    if (bos)
        INFQ_TRY(infq_arena_strdup(c->arena, bos, &c->bos, err));
    if (eos)
        INFQ_TRY(infq_arena_strdup(c->arena, eos, &c->eos, err));
    return INFQ_E_OK;
}

static infq_status read_config(const char *folder, cJSON **out, infq_err *err)
{
    char *path = NULL;
    infq_status st = INFQ_E_OK;

    INFQ_TRY(infq_path_join(folder, "tokenizer_config.json", &path, err));
    if (infq_path_exists(path))
        st = infq_json_load(path, (size_t)64 << 20, out, err);
    infq_mem_free(path);
    return st;
}

infq_status infq_chat_open(const char *folder, infq_chat **out, infq_err *err)
{
    infq_chat *c = NULL;
    cJSON *config = NULL;
    char *path = NULL;
    const char *text;
    infq_buf file;
    infq_status st;

    infq_buf_init(&file);
    st = read_config(folder, &config, err);
    if (!st)
        st = infq_path_join(folder, "chat_template.jinja", &path, err);
    if (st)
        goto done;
    text = template_text(config);
    if (infq_path_exists(path)) {
        st = infq_file_read(path, MAX_TEMPLATE, &file, err);
        if (!st)
            st = infq_chat_parse(file.data, file.n, &c, err);
    } else if (text) {
        st = infq_chat_parse(text, strlen(text), &c, err);
    } else {
        st = infq_err_set(err, INFQ_E_NOT_FOUND, "%s has no chat template (chat_template.jinja, tokenizer_config.json)", folder);
        goto done;
    }
    if (!st)
        st = keep_tokens(c, config, err);
    if (st)
        infq_err_in(err, "%s", folder);
done:
    if (st)
        infq_chat_free(c);
    else
        *out = c;
    cJSON_Delete(config);
    infq_mem_free(path);
    infq_buf_deinit(&file);
    return st;
}

static infq_status set_default(chat_run *r, const char *name, chat_value v)
{
    if (infq_chat_dict_find(&r->scope->vars, name))
        return INFQ_E_OK;
    return infq_chat_dict_put(r, &r->scope->vars, infq_chat_strn(name, strlen(name)), v);
}

static infq_status run(chat_run *r, const char *vars, size_t n_vars)
{
    const infq_chat *c = r->chat;
    chat_flow flow = CHAT_FLOW_ON;
    chat_value v;

    INFQ_TRY(infq_chat_from_json(r, vars, n_vars, &v));
    if (v.type != CHAT_DICT)
        return infq_err_set(r->err, INFQ_E_FORMAT, "chat variables are no JSON object");
    for (int64_t i = 0; i < v.u.dict->n; i++)
        INFQ_TRY(infq_chat_dict_put(r, &r->scope->vars, v.u.dict->keys[i], v.u.dict->values[i]));
    INFQ_TRY(set_default(r, "add_generation_prompt", infq_chat_bool(true)));
    INFQ_TRY(set_default(r, "tools", infq_chat_none()));
    INFQ_TRY(set_default(r, "documents", infq_chat_none()));
    if (c->bos)
        INFQ_TRY(set_default(r, "bos_token", infq_chat_strn(c->bos, strlen(c->bos))));
    if (c->eos)
        INFQ_TRY(set_default(r, "eos_token", infq_chat_strn(c->eos, strlen(c->eos))));
    return infq_chat_exec(r, c->body, &flow);
}

infq_status infq_chat_render(const infq_chat *c, const char *vars, size_t n_vars, const char *date, infq_buf *out,
                             infq_err *err)
{
    chat_scope top;
    infq_buf text;
    chat_run r = { .chat = c, .scope = &top, .out = &text, .date = date ? date : INFQ_CHAT_DATE, .line = 1, .err = err };
    infq_status st;

    memset(&top, 0, sizeof(top));
    INFQ_TRY(infq_arena_new((size_t)1 << 18, &r.arena, err));
    infq_buf_init(&text);
    st = run(&r, vars, n_vars);
    if (!st)
        st = infq_buf_status(&text, err);
    if (!st) {
        infq_buf_add(out, text.data, text.n);
        st = infq_buf_status(out, err);
    }
    infq_buf_deinit(&text);
    infq_arena_free(r.arena);
    return st ? infq_err_in(err, "chat template") : INFQ_E_OK;
}

infq_status infq_chat_prompt(const infq_chat *c, const char *system, const char *user, size_t n_user, const char *date,
                             infq_buf *out, infq_err *err)
{
    infq_buf vars;
    infq_jw w;
    infq_status st;

    infq_buf_init(&vars);
    w = infq_jw_over(&vars, 0);
    infq_jw_obj(&w);
    infq_jw_key(&w, "messages");
    infq_jw_arr(&w);
    for (int i = system ? 0 : 1; i < 2; i++) {
        infq_jw_obj(&w);
        infq_jw_key_str(&w, "role", i == 0 ? "system" : "user");
        infq_jw_key(&w, "content");
        if (i == 0)
            infq_jw_str(&w, system);
        else
            infq_jw_strn(&w, user, n_user);
        infq_jw_end_obj(&w);
    }
    infq_jw_end_arr(&w);
    infq_jw_end_obj(&w);
    st = infq_buf_status(&vars, err);
    if (!st)
        st = infq_chat_render(c, vars.data, vars.n, date, out, err);
    infq_buf_deinit(&vars);
    return st;
}
