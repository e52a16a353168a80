#include "lib/io/prompt.h"

#include <string.h>

#include "lib/io/chat_int.h"

struct infq_prompt {
    infq_chat chat;
    bool is_value;       /* nothing but one {{ }} */
    bool one_line;       /* messages then need no line of the template, which looks like one of the data file */
};

struct infq_fields {
    infq_arena *arena;
    infq_mark empty;
    infq_buf nothing;    /* where runs that print nothing print to */
    chat_scope scope;
};

infq_status infq_prompt_parse(const char *text, infq_prompt **out, infq_err *err)
{
    infq_prompt *p = infq_mem_calloc(1, sizeof(*p));
    infq_buf b;
    infq_status st;

    if (!p)
        return infq_err_set(err, INFQ_E_NOMEM, "no memory for a template");
    infq_buf_init(&b);
    infq_buf_str(&b, text);
    infq_buf_char(&b, '\n'); // the one that Jinja drops
    st = infq_buf_status(&b, err);
    if (!st)
        st = infq_arena_new((size_t)1 << 14, &p->chat.arena, err);
    if (!st)
        st = infq_chat_parse_template(p->chat.arena, b.data, b.n, &p->chat.body, err);
    infq_buf_deinit(&b);
    if (st) {
        infq_prompt_free(p);
        return st;
    }
    p->one_line = !strchr(text, '\n');
    p->is_value = p->chat.body && p->chat.body->kind == CHAT_N_PRINT && !p->chat.body->next;
    *out = p;
    return INFQ_E_OK;
}

void infq_prompt_free(infq_prompt *p)
{
    if (!p)
        return;
    infq_arena_free(p->chat.arena);
    infq_mem_free(p);
}

infq_status infq_fields_new(infq_fields **out, infq_err *err)
{
    infq_fields *f = infq_mem_calloc(1, sizeof(*f));
    void *first;
    infq_status st;

    if (!f)
        return infq_err_set(err, INFQ_E_NOMEM, "no memory for the fields of a row");
    st = infq_arena_new((size_t)1 << 18, &f->arena, err);
    if (!st)
        st = infq_arena_alloc(f->arena, 1, 1, "fields", &first, err); // a chunk that clearing keeps
    if (st) {
        infq_fields_free(f);
        return st;
    }
    infq_buf_init(&f->nothing);
    f->empty = infq_arena_mark(f->arena);
    *out = f;
    return INFQ_E_OK;
}

void infq_fields_clear(infq_fields *f)
{
    infq_arena_release(f->arena, f->empty);
    memset(&f->scope, 0, sizeof(f->scope));
}

void infq_fields_free(infq_fields *f)
{
    if (!f)
        return;
    infq_arena_free(f->arena);
    infq_buf_deinit(&f->nothing);
    infq_mem_free(f);
}

static chat_run run_over(infq_fields *f, const infq_prompt *p, infq_buf *out, infq_err *err)
{
    return (chat_run){ .chat = p ? &p->chat : NULL, .arena = f->arena, .scope = &f->scope, .out = out ? out : &f->nothing,
                       .date = INFQ_CHAT_DATE, .line = 1, .strict = true, .err = err };
}

infq_status infq_fields_add(infq_fields *f, const char *json, size_t n, infq_err *err)
{
    chat_run r = run_over(f, NULL, NULL, err);
    chat_value v;

    INFQ_TRY(infq_chat_from_json(&r, json, n, &v));
    if (v.type != CHAT_DICT)
        return infq_err_set(err, INFQ_E_FORMAT, "not an object");
    for (int64_t i = 0; i < v.u.dict->n; i++)
        INFQ_TRY(infq_chat_dict_put(&r, &f->scope.vars, v.u.dict->keys[i], v.u.dict->values[i]));
    return INFQ_E_OK;
}

infq_status infq_fields_set(infq_fields *f, const char *name, const cJSON *value, infq_err *err)
{
    infq_buf b;
    infq_jw w;
    infq_status st;

    infq_buf_init(&b);
    w = infq_jw_over(&b, 0);
    infq_jw_obj(&w);
    infq_jw_key(&w, name);
    infq_jw_tree(&w, value);
    infq_jw_end_obj(&w);
    st = infq_buf_status(&b, err);
    if (!st)
        st = infq_fields_add(f, b.data, b.n, err);
    infq_buf_deinit(&b);
    return st;
}

static infq_status failed(const infq_prompt *p, infq_err *err)
{
    static const char first[] = "line 1: ";
    size_t n = sizeof(first) - 1;

    if (p->one_line && strncmp(err->msg, first, n) == 0)
        memmove(err->msg, err->msg + n, strlen(err->msg + n) + 1);
    return err->code;
}

/* What a run leaves in the arena goes, and so do variables that it set. */
infq_status infq_prompt_text(const infq_prompt *p, infq_fields *f, infq_buf *out, infq_err *err)
{
    infq_mark m = infq_arena_mark(f->arena);
    chat_scope own = { .parent = &f->scope };
    infq_buf text;
    chat_run r = run_over(f, p, &text, err);
    chat_flow flow = CHAT_FLOW_ON;
    infq_status st;

    infq_buf_init(&text);
    r.scope = &own;
    st = infq_chat_exec(&r, p->chat.body, &flow);
    if (!st)
        st = infq_buf_status(&text, err);
    infq_buf_add(out, text.data, st ? 0 : text.n);
    infq_buf_deinit(&text);
    infq_arena_release(f->arena, m);
    return st ? failed(p, err) : infq_buf_status(out, err);
}

infq_status infq_prompt_value(const infq_prompt *p, infq_fields *f, cJSON **out, infq_err *err)
{
    static const chat_json_style plain = { .indent = -1, .item_sep = ",", .key_sep = ":" };
    infq_mark m = infq_arena_mark(f->arena);
    chat_run r = run_over(f, p, NULL, err);
    chat_value v;
    infq_buf b;
    infq_status st;

    infq_buf_init(&b);
    if (p->is_value) {
        st = infq_chat_eval(&r, p->chat.body->a, &v);
        if (!st)
            st = infq_chat_to_json(&r, &v, &plain, 0, &b);
        if (!st)
            st = infq_buf_status(&b, err);
        if (!st)
            st = infq_json_parse(b.data, b.n, "the template's value", out, err);
    } else {
        st = infq_prompt_text(p, f, &b, err);
        if (!st) {
            *out = cJSON_CreateString(b.data);
            if (!*out)
                st = infq_err_set(err, INFQ_E_NOMEM, "no memory for a template's text");
        }
    }
    infq_buf_deinit(&b);
    infq_arena_release(f->arena, m);
    return st ? failed(p, err) : INFQ_E_OK;
}
