#include "lib/recipe/recipe.h"

#include <stdio.h>
#include <string.h>

#include "lib/base/arena.h"
#include "lib/base/file.h"
#include "lib/base/hash.h"
#include "lib/base/str.h"

#define MAX_FILE ((size_t)1 << 20)
#define MAX_ARGS 512

struct infq_recipe_store {
    infq_arena *arena;
    infq_yaml *yaml;
    infq_yaml *expanded[INFQ_RECIPE_MAX_STEPS]; /* options of each step; argv points into them */
    infq_yaml *values[128];                     /* of variables */
    int n_values;
    cJSON *vars;
    const char *run;
};

typedef struct {
    infq_recipe *r;
    const infq_recipe_kind *kinds;
    int n_kinds;
    infq_err *err;
} reader;

static const char *const state_names[] = {"waiting", "pass", "fail", "undecided", "error", "skipped"};

const char *infq_step_state_name(infq_step_state s)
{
    return state_names[s];
}

infq_step_state infq_step_state_of_exit(int code)
{
    return code == 0 ? INFQ_STEP_PASS : code == 1 ? INFQ_STEP_FAIL : code == 6 ? INFQ_STEP_UNDECIDED : INFQ_STEP_ERROR;
}

static infq_status text_of(reader *x, const char **out, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
static infq_status text_of(reader *x, const char **out, const char *fmt, ...)
{
    char *copy;
    va_list ap, again;
    int n;
    infq_status st;

    va_start(ap, fmt);
    va_copy(again, ap);
    n = vsnprintf(NULL, 0, fmt, ap);
    st = infq_arena_alloc(x->r->store->arena, (size_t)n + 1, 1, "recipe", (void **)&copy, x->err);
    if (!st)
        vsnprintf(copy, (size_t)n + 1, fmt, again);
    va_end(ap);
    va_end(again);
    if (!st)
        *out = copy;
    return st;
}

/* A scalar as a command line spells it. */
static infq_status scalar_text(reader *x, const infq_yaml *y, const cJSON *v, const char **out)
{
    if (cJSON_IsString(v)) {
        *out = v->valuestring;
        return 0;
    }
    if (cJSON_IsNumber(v))
        return text_of(x, out, "%.15g", v->valuedouble);
    if (cJSON_IsBool(v)) {
        *out = cJSON_IsTrue(v) ? "true" : "false";
        return 0;
    }
    return infq_yaml_err(y, v, x->err, "text or a number is wanted");
}

static infq_status set_var(reader *x, const char *name, cJSON *value)
{
    if (value)
        cJSON_DeleteItemFromObjectCaseSensitive(x->r->store->vars, name);
    if (!value || !cJSON_AddItemToObject(x->r->store->vars, name, value)) {
        cJSON_Delete(value);
        return infq_err_set(x->err, INFQ_E_NOMEM, "%s: no memory", x->r->path);
    }
    return 0;
}

static bool good_name(const char *s)
{
    return *s && strlen(s) < 40 && strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") == strlen(s);
}

/* VALUE of --set: a number, true, false, null or a list as YAML reads it; anything else is text. */
static infq_status set_value(reader *x, const char *name, const char *text, cJSON **out)
{
    infq_yaml *y = NULL;
    infq_err ignored;

    *out = NULL;
    if (!infq_yaml_parse(text, strlen(text), name, &y, &ignored) && !cJSON_IsObject(infq_yaml_root(y)) && !cJSON_IsString(infq_yaml_root(y)))
        *out = cJSON_Duplicate(infq_yaml_root(y), true);
    infq_yaml_free(y);
    if (!*out)
        *out = cJSON_CreateString(text);
    return *out ? 0 : infq_err_set(x->err, INFQ_E_NOMEM, "%s: no memory", name);
}

static const char *set_for(const char *const *sets, int n_sets, const char *name)
{
    size_t n = strlen(name);

    for (int i = n_sets - 1; i >= 0; i--) // the last one counts
        if (strncmp(sets[i], name, n) == 0 && sets[i][n] == '=')
            return sets[i] + n + 1;
    return NULL;
}

static infq_status check_sets(reader *x, const cJSON *list, const char *const *sets, int n_sets)
{
    const char *names[128], *near;
    const cJSON *v;
    size_t n = 0;

    cJSON_ArrayForEach(v, list)
        if (n < 128)
            names[n++] = v->string;
    for (int i = 0; i < n_sets; i++) {
        char name[64];
        size_t len = strcspn(sets[i], "=");
        if (!sets[i][len] || len == 0 || len >= sizeof(name))
            return infq_err_set(x->err, INFQ_E_USAGE, "--set %.60s: NAME=VALUE is wanted", sets[i]);
        snprintf(name, sizeof(name), "%.*s", (int)len, sets[i]);
        if (cJSON_GetObjectItemCaseSensitive(list, name))
            continue;
        near = infq_nearest(name, names, n);
        return infq_err_set(x->err, INFQ_E_USAGE, "--set %s: %s has no variable of that name%s%s", name, x->r->path,
                            near ? ", probably meant: " : "", near ? near : "");
    }
    return 0;
}

static infq_status read_var(reader *x, const cJSON *v, const char *set)
{
    struct infq_recipe_store *s = x->r->store;
    infq_recipe_var *to = &x->r->vars[x->r->n_vars];
    cJSON *value = NULL;
    infq_buf text;
    infq_jw w;
    infq_status st;

    if (!good_name(v->string))
        return infq_yaml_err(s->yaml, v, x->err, "names are letters, digits, - and _");
    if (cJSON_IsObject(v))
        return infq_yaml_err(s->yaml, v, x->err, "a variable is text, a number or a list");
    if (set) {
        INFQ_TRY(set_value(x, v->string, set, &value));
    } else if (cJSON_IsNull(v)) {
        return infq_yaml_err(s->yaml, v, x->err, "has no value: give --set %s=...", v->string);
    } else {
        INFQ_TRY(infq_yaml_expand_node(s->yaml, v, s->vars, &s->values[s->n_values], x->err));
        value = cJSON_Duplicate(infq_yaml_root(s->values[s->n_values++]), true);
    }
    infq_buf_init(&text);
    w = infq_jw_over(&text, 0);
    infq_jw_tree(&w, value);
    to->name = v->string;
    st = infq_buf_status(&text, x->err);
    if (!st)
        st = text_of(x, &to->value, "%s", text.data);
    infq_buf_deinit(&text);
    if (st) {
        cJSON_Delete(value);
        return st;
    }
    x->r->n_vars++;
    return set_var(x, v->string, value);
}

static infq_status read_vars(reader *x, const cJSON *list, const char *const *sets, int n_sets)
{
    const cJSON *v;
    int n = list ? cJSON_GetArraySize(list) : 0;

    if (n > 128)
        return infq_yaml_err(x->r->store->yaml, list, x->err, "more than 128 variables");
    INFQ_TRY(infq_arena_calloc(x->r->store->arena, (size_t)n + 1, sizeof(*x->r->vars), "variables", (void **)&x->r->vars, x->err));
    INFQ_TRY(check_sets(x, list, sets, n_sets));
    cJSON_ArrayForEach(v, list)
        INFQ_TRY(read_var(x, v, set_for(sets, n_sets, v->string)));
    return 0;
}

/* One step while it is read. */
typedef struct {
    reader *x;
    const infq_yaml *y;
    infq_recipe_step *s;
    char *argv[MAX_ARGS], *paths_in[MAX_ARGS], *paths_out[MAX_ARGS];
    int n_arg, n_in, n_out;
} step_reader;

static infq_status add_arg(step_reader *q, const cJSON *node, const char *text)
{
    if (q->n_arg == MAX_ARGS - 2)
        return infq_yaml_err(q->y, node, q->x->err, "more than %d arguments", MAX_ARGS - 2);
    q->argv[q->n_arg++] = (char *)text; // lives as long as the recipe; commands move pointers, not text
    return 0;
}

static infq_status add_value(step_reader *q, const infq_recipe_key *k, const cJSON *node, const char *value)
{
    const char *arg = value;

    if (!*value) { // a variable that was left empty: nothing is asked for
        if (k->required)
            return infq_yaml_err(q->y, node, q->x->err, "%s is empty", k->name);
        return 0;
    }
    if (!k->position)
        INFQ_TRY(text_of(q->x, &arg, "--%s=%s", k->name, value));
    INFQ_TRY(add_arg(q, node, arg));
    if (k->input)
        q->paths_in[q->n_in++] = (char *)value;
    if (k->output)
        q->paths_out[q->n_out++] = (char *)value;
    return 0;
}

typedef struct {
    const cJSON *match;
    const char *scheme;
    const cJSON *group;
    bool keep;
} rule;

/* {match: PATTERN or several, scheme: S, group_size: N} or {match: ..., keep: true} */
static infq_status add_rule(step_reader *q, const infq_recipe_key *k, const cJSON *node)
{
    static const infq_yaml_field fields[] = {
        {"match", INFQ_YAML_STRS, true, offsetof(rule, match), 0, 0, NULL},
        {"scheme", INFQ_YAML_STR, false, offsetof(rule, scheme), 0, 0, NULL},
        {"group_size", INFQ_YAML_ANY, false, offsetof(rule, group), 0, 0, NULL},
        {"keep", INFQ_YAML_BOOL, false, offsetof(rule, keep), 0, 0, NULL},
    };
    rule r = {NULL, NULL, NULL, false};
    const char *what, *group = NULL;

    INFQ_TRY(infq_yaml_fields(q->y, node, fields, sizeof(fields) / sizeof(fields[0]), &r, q->x->err));
    if (r.keep == (r.scheme != NULL))
        return infq_yaml_err(q->y, node, q->x->err, "a rule has either scheme or keep: true");
    if (r.group && !r.scheme)
        return infq_yaml_err(q->y, r.group, q->x->err, "belongs to a scheme");
    if (r.group)
        INFQ_TRY(scalar_text(q->x, q->y, r.group, &group));
    what = r.keep ? "keep" : r.scheme;
    for (const cJSON *p = infq_yaml_first(r.match); p; p = infq_yaml_next(r.match, p)) {
        const char *arg;
        INFQ_TRY(text_of(q->x, &arg, "%s=%s%s%s", p->valuestring, what, group ? ":" : "", group ? group : ""));
        INFQ_TRY(add_value(q, k, p, arg));
    }
    return 0;
}

static infq_status add_key(step_reader *q, const infq_recipe_key *k, const cJSON *v)
{
    const char *value;

    switch (k->form) {
    case INFQ_RECIPE_FLAG:
        if (!cJSON_IsBool(v))
            return infq_yaml_err(q->y, v, q->x->err, "true or false is wanted");
        if (cJSON_IsFalse(v))
            return 0;
        INFQ_TRY(text_of(q->x, &value, "--%s", k->name));
        return add_arg(q, v, value);
    case INFQ_RECIPE_VALUE:
        INFQ_TRY(scalar_text(q->x, q->y, v, &value));
        return add_value(q, k, v, value);
    case INFQ_RECIPE_LIST:
        if (cJSON_IsObject(v))
            return infq_yaml_err(q->y, v, q->x->err, "a list is wanted");
        for (const cJSON *e = infq_yaml_first(v); e; e = infq_yaml_next(v, e)) {
            INFQ_TRY(scalar_text(q->x, q->y, e, &value));
            INFQ_TRY(add_value(q, k, e, value));
        }
        return 0;
    case INFQ_RECIPE_RULES:
        if (!cJSON_IsArray(v))
            return infq_yaml_err(q->y, v, q->x->err, "a list of rules is wanted");
        for (const cJSON *e = v->child; e; e = e->next)
            INFQ_TRY(add_rule(q, k, e));
        return 0;
    }
    return 0;
}

static bool same_key(const char *in_file, const char *option)
{
    for (; *in_file && *option; in_file++, option++)
        if (*in_file != *option && !(*in_file == '_' && *option == '-'))
            return false;
    return *in_file == *option;
}

static const char *const common_keys[] = {"name", "when", "on_fail", "decides"};
#define N_COMMON 4

static bool is_common(const char *key)
{
    for (int i = 0; i < N_COMMON; i++)
        if (strcmp(key, common_keys[i]) == 0)
            return true;
    return false;
}

static infq_status unknown_key(step_reader *q, const cJSON *v)
{
    const infq_recipe_kind *kind = q->s->kind;
    const char *names[160], *near;
    char word[160][40];
    size_t n = 0;

    for (int i = 0; i < N_COMMON; i++)
        names[n++] = common_keys[i];
    for (int i = 0; i < kind->n_keys && n < 160; i++) {
        if (kind->keys[i].fixed)
            continue;
        snprintf(word[n], sizeof(word[n]), "%s", kind->keys[i].name);
        for (char *c = word[n]; *c; c++)
            *c = *c == '-' ? '_' : *c;
        names[n] = word[n];
        n++;
    }
    near = infq_nearest(v->string, names, n);
    return near ? infq_yaml_err(q->y, v, q->x->err, "unknown key of step %s, %s was probably meant", kind->name, near)
                : infq_yaml_err(q->y, v, q->x->err, "unknown key of step %s", kind->name);
}

static infq_status check_keys(step_reader *q, const cJSON *options)
{
    const infq_recipe_kind *kind = q->s->kind;
    const cJSON *v;

    cJSON_ArrayForEach(v, options) {
        int i = 0;
        while (i < kind->n_keys && !same_key(v->string, kind->keys[i].name))
            i++;
        if (i < kind->n_keys && kind->keys[i].fixed)
            return infq_yaml_err(q->y, v, q->x->err, "is set by infq run and not by a recipe");
        if (i == kind->n_keys && !is_common(v->string))
            return unknown_key(q, v);
    }
    return 0;
}

static const cJSON *option_of(const cJSON *options, const char *key)
{
    const cJSON *v;

    cJSON_ArrayForEach(v, options)
        if (same_key(v->string, key) && !cJSON_IsNull(v))
            return v;
    return NULL;
}

/* What later steps may use: ${NAME.key} of every key that has a value. */
static infq_status publish(step_reader *q, const char *key, cJSON *value)
{
    char name[100];

    snprintf(name, sizeof(name), "%s.%.50s", q->s->name, key);
    for (char *c = name + strlen(q->s->name); *c; c++)
        *c = *c == '-' ? '_' : *c;
    return set_var(q->x, name, value);
}

/* ${NAME.key.base}: the last part of the (first) path that a step reads: results by model carry that name. */
static infq_status publish_base(step_reader *q, const char *key, const cJSON *v)
{
    const cJSON *first = cJSON_IsArray(v) ? v->child : v;
    char name[80], base[256];
    size_t n;

    if (!cJSON_IsString(first))
        return 0;
    snprintf(base, sizeof(base), "%s", infq_path_base(first->valuestring));
    for (n = strlen(base); n > 0 && base[n - 1] == '/'; n--)
        base[n - 1] = '\0';
    snprintf(name, sizeof(name), "%.40s.base", key);
    return publish(q, name, cJSON_CreateString(base));
}

static infq_status read_keys(step_reader *q, const cJSON *options, bool positions)
{
    const infq_recipe_kind *kind = q->s->kind;

    for (int i = 0; i < kind->n_keys; i++) {
        const infq_recipe_key *k = &kind->keys[i];
        const cJSON *v = option_of(options, k->name);
        if (k->position != positions)
            continue;
        if (v) {
            INFQ_TRY(add_key(q, k, v));
            INFQ_TRY(publish(q, k->name, cJSON_Duplicate(v, true)));
            INFQ_TRY(k->input ? publish_base(q, k->name, v) : 0);
        } else if (k->made) {
            const char *path;
            INFQ_TRY(text_of(q->x, &path, "%s/%s%s", q->x->r->store->run, q->s->name, k->made));
            INFQ_TRY(add_value(q, k, options, path));
            INFQ_TRY(publish(q, k->name, cJSON_CreateString(path)));
        } else if (k->required) {
            return infq_yaml_err(q->y, options, q->x->err, "%s: %s is missing", kind->name, k->name);
        }
    }
    return 0;
}

static infq_status keep_list(reader *x, char **from, int n, char ***to)
{
    INFQ_TRY(infq_arena_calloc(x->r->store->arena, (size_t)n + 1, sizeof(*from), "step", (void **)to, x->err));
    memcpy(*to, from, (size_t)n * sizeof(*from));
    return 0;
}

/* One "NAME is [not] STATE[ or STATE...]" of a condition; words[] is consumed. */
static infq_status read_test(step_reader *q, const cJSON *node, char **words, int n, int *at)
{
    const infq_recipe *r = q->x->r;
    infq_recipe_test *t = &q->s->tests[q->s->n_tests];
    const char *names[INFQ_RECIPE_MAX_STEPS], *near;

    if (q->s->n_tests == 8 || *at + 2 >= n || strcmp(words[*at + 1], "is") != 0)
        return infq_yaml_err(q->y, node, q->x->err, "STEP is [not] pass, fail, undecided or skipped is wanted, joined by and");
    memset(t, 0, sizeof(*t));
    for (t->step = 0; t->step < r->n_steps && strcmp(r->steps[t->step].name, words[*at]) != 0; t->step++)
        names[t->step] = r->steps[t->step].name;
    if (t->step == r->n_steps) {
        near = infq_nearest(words[*at], names, (size_t)r->n_steps);
        return infq_yaml_err(q->y, node, q->x->err, "no step before this one is called %s%s%s", words[*at], near ? ", probably meant: " : "",
                             near ? near : "");
    }
    *at += 2;
    if (*at < n && strcmp(words[*at], "not") == 0) {
        t->not = true;
        ++*at;
    }
    for (;;) {
        int s = 0;
        while (*at < n && s < 6 && strcmp(words[*at], state_names[s]) != 0)
            s++;
        if (*at >= n || s == 6 || s == INFQ_STEP_WAITING) {
            return infq_yaml_err(q->y, node, q->x->err, "pass, fail, undecided or skipped is wanted%s%s", *at < n ? ", not " : "",
                                 *at < n ? words[*at] : "");
        }
        t->states |= 1u << s;
        ++*at;
        if (*at >= n || strcmp(words[*at], "or") != 0)
            break;
        ++*at;
    }
    q->s->n_tests++;
    return 0;
}

static infq_status read_when(step_reader *q, const cJSON *node)
{
    char text[256], *words[64], *save = NULL;
    int n = 0, at = 0;

    if (!cJSON_IsString(node) || strlen(node->valuestring) >= sizeof(text))
        return infq_yaml_err(q->y, node, q->x->err, "a condition of at most %zu letters is wanted", sizeof(text) - 1);
    q->s->when = node->valuestring;
    if (strcmp(node->valuestring, "always") == 0) {
        q->s->always = true;
        return 0;
    }
    strcpy(text, node->valuestring);
    for (char *w = strtok_r(text, " \t\n", &save); w && n < 64; w = strtok_r(NULL, " \t\n", &save))
        words[n++] = w;
    do {
        INFQ_TRY(read_test(q, node, words, n, &at));
    } while (at < n && strcmp(words[at++], "and") == 0);
    return at == n ? 0 : infq_yaml_err(q->y, node, q->x->err, "and is wanted before %s", words[at - 1]);
}

static infq_status read_common(step_reader *q, const cJSON *options)
{
    static const char *const on_fail[] = {"stop", "continue", NULL};
    const cJSON *fail = infq_json_get(options, "on_fail"), *decides = infq_json_get(options, "decides"), *when = infq_json_get(options, "when");
    int choice = q->s->kind->stops ? 0 : 1;

    if (fail) {
        choice = 0;
        while (on_fail[choice] && !(cJSON_IsString(fail) && strcmp(fail->valuestring, on_fail[choice]) == 0))
            choice++;
        if (!on_fail[choice])
            return infq_yaml_err(q->y, fail, q->x->err, "stop or continue is wanted");
    }
    if (decides && !cJSON_IsBool(decides))
        return infq_yaml_err(q->y, decides, q->x->err, "true or false is wanted");
    q->s->stops = choice == 0;
    q->s->decides = !decides || cJSON_IsTrue(decides);
    return when ? read_when(q, when) : 0;
}

static infq_status name_step(reader *x, const cJSON *item, infq_recipe_step *s)
{
    const struct infq_recipe_store *st = x->r->store;
    const cJSON *name = infq_json_get(item->child, "name");

    s->name = name && cJSON_IsString(name) ? name->valuestring : s->kind->name;
    if (name && (!cJSON_IsString(name) || !good_name(name->valuestring)))
        return infq_yaml_err(st->yaml, name, x->err, "letters, digits, - and _ are wanted");
    for (int i = 0; i < x->r->n_steps; i++)
        if (strcmp(x->r->steps[i].name, s->name) == 0)
            return infq_yaml_err(st->yaml, name ? name : item->child, x->err, "another step is called %s: say name", s->name);
    return 0;
}

static infq_status find_kind(reader *x, const cJSON *item, infq_recipe_step *s)
{
    const struct infq_recipe_store *st = x->r->store;
    const char *names[64], *near;
    int i = 0;

    if (!cJSON_IsObject(item) || cJSON_GetArraySize(item) != 1 || !(cJSON_IsObject(item->child) || cJSON_IsNull(item->child)))
        return infq_yaml_err(st->yaml, item, x->err, "a step is one kind with its keys below it");
    for (; i < x->n_kinds && strcmp(x->kinds[i].name, item->child->string) != 0; i++)
        names[i] = x->kinds[i].name;
    if (i == x->n_kinds) {
        near = infq_nearest(item->child->string, names, (size_t)x->n_kinds);
        return near ? infq_yaml_err(st->yaml, item->child, x->err, "no step of that kind, %s was probably meant", near)
                    : infq_yaml_err(st->yaml, item->child, x->err, "no step of that kind");
    }
    s->kind = &x->kinds[i];
    s->line = infq_yaml_line(st->yaml, item->child);
    return 0;
}

static infq_status read_step(reader *x, const cJSON *item)
{
    infq_recipe *r = x->r;
    infq_recipe_step *s = &r->steps[r->n_steps];
    step_reader *q = NULL;
    const cJSON *options;
    const char *result;
    infq_status st;

    INFQ_TRY(find_kind(x, item, s));
    INFQ_TRY(name_step(x, item, s));
    INFQ_TRY(text_of(x, &s->state, "%s/%s.state.json", r->store->run, s->name));
    INFQ_TRY(set_var(x, "state", cJSON_CreateString(s->state)));
    INFQ_TRY(infq_yaml_expand_node(r->store->yaml, item->child, r->store->vars, &r->store->expanded[r->n_steps], x->err));
    INFQ_TRY(infq_mem_new(1, sizeof(*q), "step", (void **)&q, x->err));
    memset(q, 0, sizeof(*q));
    q->x = x;
    q->y = r->store->expanded[r->n_steps];
    q->s = s;
    options = infq_yaml_root(q->y);
    st = add_arg(q, options, s->kind->name);
    if (!st)
        st = check_keys(q, options);
    if (!st)
        st = read_common(q, options);
    if (!st)
        st = read_keys(q, options, false);
    if (!st)
        st = add_arg(q, options, "--");
    if (!st)
        st = read_keys(q, options, true);
    if (!st)
        st = keep_list(x, q->argv, s->argc = q->n_arg, &s->argv);
    if (!st)
        st = keep_list(x, q->paths_in, s->n_inputs = q->n_in, &s->inputs);
    if (!st)
        st = keep_list(x, q->paths_out, s->n_outputs = q->n_out, &s->outputs);
    if (!st)
        st = text_of(x, &result, "%s/%s.json", r->store->run, s->name);
    if (!st)
        st = publish(q, "result", cJSON_CreateString(result));
    infq_mem_free(q);
    r->n_steps += !st;
    return st;
}

/* ${recipe_dir}: files that lie beside the recipe. */
static infq_status set_dir(reader *x)
{
    const char *slash = strrchr(x->r->path, '/'), *dir = ".";

    if (slash)
        INFQ_TRY(text_of(x, &dir, "%.*s", slash == x->r->path ? 1 : (int)(slash - x->r->path), x->r->path));
    return set_var(x, "recipe_dir", cJSON_CreateString(dir));
}

typedef struct {
    const char *name, *about;
    const cJSON *variables, *steps;
} top;

static infq_status read_top(reader *x, const char *const *sets, int n_sets, const char *run)
{
    static const infq_yaml_field fields[] = {
        {"recipe", INFQ_YAML_STR, true, offsetof(top, name), 0, 0, NULL},
        {"about", INFQ_YAML_STR, false, offsetof(top, about), 0, 0, NULL},
        {"variables", INFQ_YAML_MAP, false, offsetof(top, variables), 0, 0, NULL},
        {"steps", INFQ_YAML_LIST, true, offsetof(top, steps), 0, 0, NULL},
    };
    struct infq_recipe_store *s = x->r->store;
    top t = {NULL, "", NULL, NULL};
    int n;

    INFQ_TRY(infq_yaml_fields(s->yaml, infq_yaml_root(s->yaml), fields, sizeof(fields) / sizeof(fields[0]), &t, x->err));
    if (!good_name(t.name))
        return infq_yaml_err(s->yaml, infq_json_get(infq_yaml_root(s->yaml), "recipe"), x->err, "letters, digits, - and _ are wanted");
    n = cJSON_IsArray(t.steps) ? cJSON_GetArraySize(t.steps) : 0;
    if (n < 1 || n > INFQ_RECIPE_MAX_STEPS)
        return infq_yaml_err(s->yaml, t.steps, x->err, "a list of 1 to %d steps is wanted", INFQ_RECIPE_MAX_STEPS);
    x->r->name = t.name;
    x->r->about = t.about;
    INFQ_TRY(run ? text_of(x, &s->run, "%s", run) : text_of(x, &s->run, "%s.run", t.name));
    INFQ_TRY(set_var(x, "run", cJSON_CreateString(s->run)));
    INFQ_TRY(set_dir(x));
    INFQ_TRY(read_vars(x, t.variables, sets, n_sets));
    INFQ_TRY(infq_arena_calloc(s->arena, (size_t)n, sizeof(*x->r->steps), "steps", (void **)&x->r->steps, x->err));
    for (const cJSON *item = t.steps->child; item; item = item->next)
        INFQ_TRY(read_step(x, item));
    return 0;
}

infq_status infq_recipe_load(const char *path, const infq_recipe_kind *kinds, int n_kinds, const char *const *sets, int n_sets, const char *run,
                             infq_recipe **out, infq_err *err)
{
    infq_recipe *r = NULL;
    reader x = {NULL, kinds, n_kinds, err};
    infq_buf text;
    infq_status st;

    INFQ_TRY(infq_mem_new(1, sizeof(*r), "recipe", (void **)&r, err));
    memset(r, 0, sizeof(*r));
    infq_buf_init(&text);
    r->path = path;
    x.r = r;
    st = infq_mem_new(1, sizeof(*r->store), "recipe", (void **)&r->store, err);
    if (!st) {
        memset(r->store, 0, sizeof(*r->store));
        st = infq_arena_new(16384, &r->store->arena, err);
    }
    if (!st) {
        r->store->vars = cJSON_CreateObject();
        st = r->store->vars ? infq_file_read(path, MAX_FILE, &text, err) : infq_err_set(err, INFQ_E_NOMEM, "%s: no memory", path);
    }
    if (!st)
        st = text_of(&x, &r->path, "%s", path);
    if (!st)
        st = infq_sha256_of(text.data, text.n, r->sha256, err);
    if (!st)
        st = infq_yaml_parse(text.data, text.n, path, &r->store->yaml, err);
    if (!st)
        st = read_top(&x, sets, n_sets, run);
    infq_buf_deinit(&text);
    if (st)
        infq_recipe_free(r);
    else
        *out = r;
    return st;
}

void infq_recipe_free(infq_recipe *r)
{
    if (!r)
        return;
    if (r->store) {
        for (int i = 0; i < INFQ_RECIPE_MAX_STEPS; i++)
            infq_yaml_free(r->store->expanded[i]);
        for (int i = 0; i < r->store->n_values; i++)
            infq_yaml_free(r->store->values[i]);
        cJSON_Delete(r->store->vars);
        infq_yaml_free(r->store->yaml);
        infq_arena_free(r->store->arena);
        infq_mem_free(r->store);
    }
    infq_mem_free(r);
}

const char *infq_recipe_run(const infq_recipe *r)
{
    return r->store->run;
}

infq_status infq_recipe_err_in(const infq_recipe *r, const infq_recipe_step *s, infq_err *err)
{
    return infq_err_in(err, "%s:%lld: %s", r->path, (long long)s->line, s->name);
}

bool infq_recipe_holds(const infq_recipe_step *s, const infq_step_state *states)
{
    for (int i = 0; i < s->n_tests; i++) {
        bool in = s->tests[i].states >> states[s->tests[i].step] & 1;
        if (in == s->tests[i].not)
            return false;
    }
    return true;
}
