#include "lib/eval/manifest.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/file.h"
#include "lib/base/str.h"
#include "lib/eval/answer.h"
#include "lib/io/prompt.h"

#define MAX_MANIFEST ((size_t)4 << 20)

const char *const infq_task_kind_names[] = {"choice", "target", "text", "generate", NULL};

static const char *const kind_names[] = {"choice", "target", "text", "generate", "suite", NULL};
static const char *const clean_names[] = {"none", "wikihow", NULL};
static const char *const pick_names[] = {"first", "last", NULL};
static const char *const order_names[] = {"first", "random", NULL};
static const char *const mean_names[] = {"none", "items", "tasks", NULL};
static const char *const form_names[] = {"plain", "lines", "wiki", NULL};

struct infq_catalog {
    infq_manifest **tasks;
    infq_suite **suites;
    int n_tasks, cap_tasks, n_suites, cap_suites;
};

/* What a document says at its top; the rest is read by kind. */
typedef struct {
    int kind;
    const cJSON *files, *prompt, *fewshot, *generate, *text, *variants, *tasks;
} top;

typedef struct {
    infq_manifest m;
    top t;
} head;

#define M(f) offsetof(head, m.f)
#define T(f) offsetof(head, t.f)
static const infq_yaml_field head_fields[] = {
    {"name", INFQ_YAML_STR, true, M(name), 0, 0, NULL},
    {"kind", INFQ_YAML_ENUM, true, T(kind), 0, 0, kind_names},
    {"about", INFQ_YAML_STR, true, M(about), 0, 0, NULL},
    {"group", INFQ_YAML_STR, false, M(group), 0, 0, NULL},
    {"subgroup", INFQ_YAML_STR, false, M(subgroup), 0, 0, NULL},
    {"mean", INFQ_YAML_ENUM, false, M(mean), 0, 0, mean_names},
    {"language", INFQ_YAML_STR, false, M(language), 0, 0, NULL},
    {"source", INFQ_YAML_STR, false, M(source), 0, 0, NULL},
    {"home", INFQ_YAML_STR, false, M(home), 0, 0, NULL},
    {"licence", INFQ_YAML_STR, false, M(licence), 0, 0, NULL},
    {"metric", INFQ_YAML_STR, false, M(metric), 0, 0, NULL},
    {"split", INFQ_YAML_STR, false, M(split), 0, 0, NULL},
    {"called", INFQ_YAML_STR, false, M(called), 0, 0, NULL},
    {"files", INFQ_YAML_MAP, false, T(files), 0, 0, NULL},
    {"prompt", INFQ_YAML_MAP, false, T(prompt), 0, 0, NULL},
    {"fewshot", INFQ_YAML_MAP, false, T(fewshot), 0, 0, NULL},
    {"generate", INFQ_YAML_MAP, false, T(generate), 0, 0, NULL},
    {"text", INFQ_YAML_MAP, false, T(text), 0, 0, NULL},
    {"variants", INFQ_YAML_LIST, false, T(variants), 0, 0, NULL},
    {"tasks", INFQ_YAML_LIST, false, T(tasks), 0, 0, NULL},
};

#define P(f) offsetof(infq_task_prompt, f)
static const infq_yaml_field prompt_fields[] = {
    {"description", INFQ_YAML_STR, false, P(description), 0, 0, NULL},
    {"context", INFQ_YAML_STR, false, P(context), 0, 0, NULL},
    {"contexts", INFQ_YAML_STRS, false, P(contexts), 0, 0, NULL},
    {"options", INFQ_YAML_STRS, false, P(options), 0, 0, NULL},
    {"choices", INFQ_YAML_STRS, false, P(choices), 0, 0, NULL},
    {"target", INFQ_YAML_STR, false, P(target), 0, 0, NULL},
    {"gold", INFQ_YAML_STR, false, P(gold), 0, 0, NULL},
    {"answer", INFQ_YAML_STR, false, P(answer), 0, 0, NULL},
    {"labels", INFQ_YAML_STR, false, P(labels), 0, 0, NULL},
    {"delimiter", INFQ_YAML_STR, false, P(delimiter), 0, 0, NULL},
    {"cluster", INFQ_YAML_STR, false, P(cluster), 0, 0, NULL},
    {"id", INFQ_YAML_STR, false, P(id), 0, 0, NULL},
    {"by_context", INFQ_YAML_BOOL, false, P(by_context), 0, 0, NULL},
    {"clean", INFQ_YAML_ENUM, false, P(clean), 0, 0, clean_names},
};

#define F(f) offsetof(infq_task_file, f)
static const infq_yaml_field file_fields[] = {
    {"path", INFQ_YAML_STR, true, F(path), 0, 0, NULL},
    {"url", INFQ_YAML_STR, false, F(url), 0, 0, NULL},
    {"sha256", INFQ_YAML_STR, false, F(sha256), 0, 0, NULL},
    {"join", INFQ_YAML_STR, false, F(join_path), 0, 0, NULL},
    {"join_url", INFQ_YAML_STR, false, F(join_url), 0, 0, NULL},
    {"join_sha256", INFQ_YAML_STR, false, F(join_sha256), 0, 0, NULL},
    {"join_field", INFQ_YAML_STR, false, F(join_field), 0, 0, NULL},
    {"items", INFQ_YAML_I64, false, F(items), 1, 1e12, NULL},
    {"from", INFQ_YAML_I64, false, F(from), 0, 1e12, NULL},
    {"to", INFQ_YAML_I64, false, F(to), 1, 1e12, NULL},
    {"layout", INFQ_YAML_ENUM, false, F(rows.layout), 0, 0, infq_rows_names},
    {"header", INFQ_YAML_BOOL, false, F(rows.header), 0, 0, NULL},
    {"member", INFQ_YAML_STR, false, F(rows.member), 0, 0, NULL},
    {"detect", INFQ_YAML_STRS, false, F(detect), 0, 0, NULL},
    {"prompt", INFQ_YAML_MAP, false, F(prompt), 0, 0, NULL},
    {"begin", INFQ_YAML_STR, false, F(begin), 0, 0, NULL},
    {"end", INFQ_YAML_STR, false, F(end), 0, 0, NULL},
};

#define S(f) offsetof(infq_task_fewshot, f)
static const infq_yaml_field fewshot_fields[] = {
    {"split", INFQ_YAML_STR, false, S(split), 0, 0, NULL},
    {"text", INFQ_YAML_STR, false, S(text), 0, 0, NULL},
    {"count", INFQ_YAML_I64, false, S(count), 0, 1000, NULL},
    {"order", INFQ_YAML_ENUM, false, S(order), 0, 0, order_names},
    {"seed", INFQ_YAML_I64, false, S(seed), 0, 4294967295.0, NULL},
    {"separator", INFQ_YAML_STR, false, S(separator), 0, 0, NULL},
};

#define G(f) offsetof(infq_task_generate, f)
static const infq_yaml_field generate_fields[] = {
    {"stop", INFQ_YAML_STRS, false, G(stop), 0, 0, NULL},
    {"max_tokens", INFQ_YAML_I64, true, G(max_tokens), 1, 1e6, NULL},
    {"extract", INFQ_YAML_STR, true, G(extract), 0, 0, NULL},
    {"chat", INFQ_YAML_BOOL, false, G(chat), 0, 0, NULL},
    {"pattern", INFQ_YAML_STR, false, G(pattern), 0, 0, NULL},
    {"pick", INFQ_YAML_ENUM, false, G(pick), 0, 0, pick_names},
    {"ignore", INFQ_YAML_STRS, false, G(ignore), 0, 0, NULL},
    {"ignore_case", INFQ_YAML_BOOL, false, G(ignore_case), 0, 0, NULL},
    {"ignore_punctuation", INFQ_YAML_BOOL, false, G(ignore_punctuation), 0, 0, NULL},
    {"any", INFQ_YAML_BOOL, false, G(any), 0, 0, NULL},
};

#define X(f) offsetof(infq_task_text, f)
static const infq_yaml_field text_fields[] = {
    {"form", INFQ_YAML_ENUM, true, X(form), 0, 0, form_names},
    {"convention", INFQ_YAML_STR, true, X(convention), 0, 0, NULL},
    {"window", INFQ_YAML_I64, false, X(window), 4, 1e7, NULL},
    {"tokens", INFQ_YAML_I64, false, X(tokens), 1, 1e12, NULL},
    {"lines", INFQ_YAML_I64, false, X(lines), 1, 1e6, NULL},
};

#define E(f) offsetof(infq_suite_entry, f)
static const infq_yaml_field entry_fields[] = {
    {"task", INFQ_YAML_STR, true, E(task), 0, 0, NULL},
    {"limit", INFQ_YAML_I64, false, E(limit), 1, 1e12, NULL},
    {"tokens", INFQ_YAML_I64, false, E(tokens), 1, 1e12, NULL},
    {"shots", INFQ_YAML_I64, false, E(shots), 0, 1000, NULL},
};
#define LEN(a) (sizeof(a) / sizeof((a)[0]))

static void free_task(infq_manifest *m)
{
    if (!m)
        return;
    for (int i = 0; i < m->n_splits; i++)
        infq_mem_free(m->splits[i].files);
    infq_mem_free(m->splits);
    infq_yaml_free(m->yaml);
    infq_mem_free(m);
}

static void free_suite(infq_suite *s)
{
    if (!s)
        return;
    infq_mem_free(s->entries);
    infq_yaml_free(s->yaml);
    infq_mem_free(s);
}

static infq_status check_name(const infq_yaml *y, const cJSON *node, infq_err *err)
{
    const char *s = node->valuestring;

    if (!*s || strlen(s) > 100 || strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") != strlen(s))
        return infq_yaml_err(y, node, err, "letters, digits, _ and - are wanted, at most 100");
    return 0;
}

static infq_status check_hash(const infq_yaml *y, const cJSON *node, infq_err *err)
{
    if (node && (strlen(node->valuestring) != 64 || strspn(node->valuestring, "0123456789abcdef") != 64))
        return infq_yaml_err(y, node, err, "64 small hexadecimal digits are wanted");
    return 0;
}

static infq_status check_path(const infq_yaml *y, const cJSON *node, infq_err *err)
{
    if (node && (!node->valuestring[0] || node->valuestring[0] == '/' || strstr(node->valuestring, "..") || strchr(node->valuestring, '\\')))
        return infq_yaml_err(y, node, err, "a path below a data folder is wanted: not absolute, without ..");
    return 0;
}

static infq_status check_url(const infq_yaml *y, const cJSON *node, infq_err *err)
{
    if (node && !infq_str_starts(node->valuestring, "https://") && !infq_str_starts(node->valuestring, "file://"))
        return infq_yaml_err(y, node, err, "a https:// or file:// address is wanted");
    return 0;
}

/* Every text below prompt that is a template is read once, so that a mistake is found before any data. */
static infq_status check_templates(const infq_yaml *y, const cJSON *prompt, infq_err *err)
{
    static const char *const plain[] = {"by_context", "clean", NULL};
    const cJSON *v, *e;

    cJSON_ArrayForEach(v, prompt) {
        bool skip = cJSON_IsNull(v);
        for (int i = 0; plain[i]; i++)
            skip = skip || strcmp(v->string, plain[i]) == 0;
        for (e = skip ? NULL : infq_yaml_first(v); e; e = infq_yaml_next(v, e)) {
            infq_prompt *p = NULL;
            infq_err inner;
            infq_status st = infq_prompt_parse(e->valuestring, &p, &inner);
            infq_prompt_free(p);
            if (st) {
                infq_status code = infq_yaml_err(y, v, err, "%s", inner.msg);
                err->code = st == INFQ_E_FORMAT ? code : st;
                return err->code;
            }
        }
    }
    return 0;
}

static infq_status read_file(const infq_manifest *m, const cJSON *node, infq_task_file *f, infq_err *err)
{
    static const char *const hashes[] = {"sha256", "join_sha256"}, *const paths[] = {"path", "join"}, *const urls[] = {"url", "join_url"};
    infq_task_prompt unused = {0};

    memset(f, 0, sizeof(*f));
    f->line = infq_yaml_line(m->yaml, node);
    f->rows.layout = INFQ_ROWS_JSONL;
    if (cJSON_IsString(infq_json_get(node, "path")))
        f->rows.layout = infq_rows_layout_of(infq_json_get(node, "path")->valuestring);
    INFQ_TRY(infq_yaml_fields(m->yaml, node, file_fields, LEN(file_fields), f, err));
    for (int i = 0; i < 2; i++) {
        INFQ_TRY(check_hash(m->yaml, infq_json_get(node, hashes[i]), err));
        INFQ_TRY(check_path(m->yaml, infq_json_get(node, paths[i]), err));
        INFQ_TRY(check_url(m->yaml, infq_json_get(node, urls[i]), err));
    }
    if (f->url && !f->sha256)
        return infq_yaml_err(m->yaml, node, err, "an url needs a sha256");
    if (f->join_path && (!f->join_field || (f->join_url && !f->join_sha256)))
        return infq_yaml_err(m->yaml, node, err, "join needs join_field, and join_url a join_sha256");
    if (f->prompt) {
        INFQ_TRY(infq_yaml_fields(m->yaml, f->prompt, prompt_fields, LEN(prompt_fields), &unused, err));
        INFQ_TRY(check_templates(m->yaml, f->prompt, err));
    }
    return 0;
}

static infq_status read_split(infq_manifest *m, const cJSON *list, infq_task_split *s, infq_err *err)
{
    const cJSON *e;
    int n = 0;

    for (e = infq_yaml_first(list); e; e = infq_yaml_next(list, e))
        n++;
    if (n == 0)
        return infq_yaml_err(m->yaml, list, err, "at least one file is wanted");
    s->name = list->string;
    INFQ_TRY(infq_mem_new((size_t)n, sizeof(*s->files), "files of a task", (void **)&s->files, err));
    for (e = infq_yaml_first(list); e; e = infq_yaml_next(list, e))
        INFQ_TRY(read_file(m, e, &s->files[s->n_files++], err));
    return 0;
}

static infq_status read_splits(infq_manifest *m, const cJSON *files, infq_err *err)
{
    const cJSON *v;
    int n = cJSON_GetArraySize(files);

    INFQ_TRY(infq_mem_new((size_t)(n > 0 ? n : 1), sizeof(*m->splits), "splits of a task", (void **)&m->splits, err));
    memset(m->splits, 0, (size_t)n * sizeof(*m->splits));
    cJSON_ArrayForEach(v, files)
        INFQ_TRY(read_split(m, v, &m->splits[m->n_splits++], err));
    return 0;
}

const infq_task_split *infq_manifest_split(const infq_manifest *m, const char *name)
{
    for (int i = 0; i < m->n_splits; i++)
        if (strcmp(m->splits[i].name, name) == 0)
            return &m->splits[i];
    return NULL;
}

infq_status infq_manifest_prompt(const infq_manifest *m, const infq_task_file *f, infq_task_prompt *out, infq_err *err)
{
    *out = m->prompt;
    if (!f->prompt)
        return 0;
    // one way to say a thing replaces the other
    if (infq_json_get(f->prompt, "context") || infq_json_get(f->prompt, "contexts")) {
        out->context = NULL;
        out->contexts = NULL;
    }
    if (infq_json_get(f->prompt, "options") || infq_json_get(f->prompt, "choices")) {
        out->options = NULL;
        out->choices = NULL;
    }
    if (infq_json_get(f->prompt, "gold") || infq_json_get(f->prompt, "answer"))
        out->gold = out->answer = out->labels = NULL;
    return infq_yaml_fields(m->yaml, f->prompt, prompt_fields, LEN(prompt_fields), out, err);
}

/* What a kind needs, of each file's prompt. */
static infq_status check_prompt(const infq_manifest *m, const cJSON *root, const infq_task_file *f, infq_err *err)
{
    infq_task_prompt p;
    bool labelled;

    INFQ_TRY(infq_manifest_prompt(m, f, &p, err));
    labelled = p.answer && p.labels;
    if (!p.context == !p.contexts)
        return infq_yaml_err(m->yaml, root, err, "prompt needs context, or contexts");
    if (m->kind == INFQ_TASK_CHOICE && (!(p.choices || p.options) || !p.gold == !labelled))
        return infq_yaml_err(m->yaml, root, err, "prompt of a choice needs choices or options, and gold or answer with labels");
    if (m->kind != INFQ_TASK_CHOICE && (p.contexts || (m->kind == INFQ_TASK_TARGET && !p.target)))
        return infq_yaml_err(m->yaml, root, err, "prompt needs context and target");
    return 0;
}

/* How answers are judged is known, and its expressions can be read. */
static infq_status check_generate(const infq_manifest *m, const cJSON *node, infq_err *err)
{
    const infq_task_generate *g = &m->generate;
    infq_answer_regex regex = {.pattern = g->pattern};
    infq_answers *a = NULL;
    bool own = strcmp(g->extract, "regex") == 0;
    infq_err why;

    if (own != (g->pattern != NULL))
        return infq_yaml_err(m->yaml, node, err, own ? "pattern is missing" : "pattern belongs to extract: regex");
    if (!own && (g->ignore || g->pick || g->ignore_case || g->ignore_punctuation || g->any))
        return infq_yaml_err(m->yaml, node, err, "pick, ignore, ignore_case, ignore_punctuation and any belong to extract: regex");
    if (infq_answers_open(g->extract, own ? &regex : NULL, &a, &why))
        return infq_yaml_err(m->yaml, infq_json_get(node, own ? "pattern" : "extract"), err, "%s", why.msg);
    infq_answers_close(a);
    return 0;
}

static infq_status check_kind(const infq_manifest *m, const cJSON *root, const head *h, infq_err *err)
{
    const infq_task_split *s = infq_manifest_split(m, m->split);
    const char *const wants[] = {m->fewshot.split, m->fewshot.text};

    if (!s)
        return infq_yaml_err(m->yaml, root, err, "files has no split %s", m->split);
    for (int i = 0; i < 2; i++)
        if (wants[i] && !infq_manifest_split(m, wants[i]))
            return infq_yaml_err(m->yaml, h->t.fewshot, err, "files has no split %s", wants[i]);
    if (m->fewshot.count > 0 && !m->fewshot.split)
        return infq_yaml_err(m->yaml, h->t.fewshot, err, "count needs a split that examples come from");
    if ((m->kind == INFQ_TASK_TEXT) != (h->t.text != NULL) || (m->kind == INFQ_TASK_GENERATE) != (h->t.generate != NULL))
        return infq_yaml_err(m->yaml, root, err, "text belongs to kind text, and generate to kind generate");
    if (m->kind == INFQ_TASK_TEXT)
        return h->t.prompt ? infq_yaml_err(m->yaml, h->t.prompt, err, "a text has no prompt") : 0;
    for (int i = 0; i < s->n_files; i++)
        INFQ_TRY(check_prompt(m, root, &s->files[i], err));
    return 0;
}

/* Fills m, which owns its yaml, from the document (with variables in place). */
static infq_status read_task(infq_manifest *m, const cJSON *vars, infq_err *err)
{
    const cJSON *root = infq_yaml_root(m->yaml);
    head h = {.m = *m};

    h.m.split = "test";
    h.m.vars = vars;
    h.m.prompt.delimiter = " ";
    h.m.fewshot.separator = "\n\n";
    h.m.fewshot.seed = 1234;
    INFQ_TRY(infq_yaml_fields(m->yaml, root, head_fields, LEN(head_fields), &h, err));
    h.m.kind = (infq_task_kind)h.t.kind;
    if (!h.m.metric)
        h.m.metric = h.m.kind == INFQ_TASK_TEXT ? "perplexity" : "acc";
    *m = h.m;
    INFQ_TRY(check_name(m->yaml, infq_json_get(root, "name"), err));
    if (m->group)
        INFQ_TRY(check_name(m->yaml, infq_json_get(root, "group"), err));
    if (m->subgroup)
        INFQ_TRY(check_name(m->yaml, infq_json_get(root, "subgroup"), err));
    if (m->mean != INFQ_MEAN_NONE && !m->group)
        return infq_yaml_err(m->yaml, root, err, "mean is of a group, which is missing");
    if (!h.t.files || h.t.tasks)
        return infq_yaml_err(m->yaml, root, err, h.t.tasks ? "tasks belongs to kind suite" : "files is missing");
    if (h.t.prompt) {
        INFQ_TRY(infq_yaml_fields(m->yaml, h.t.prompt, prompt_fields, LEN(prompt_fields), &m->prompt, err));
        INFQ_TRY(check_templates(m->yaml, h.t.prompt, err));
    }
    if (h.t.fewshot)
        INFQ_TRY(infq_yaml_fields(m->yaml, h.t.fewshot, fewshot_fields, LEN(fewshot_fields), &m->fewshot, err));
    if (h.t.generate) {
        INFQ_TRY(infq_yaml_fields(m->yaml, h.t.generate, generate_fields, LEN(generate_fields), &m->generate, err));
        INFQ_TRY(check_generate(m, h.t.generate, err));
    }
    if (h.t.text)
        INFQ_TRY(infq_yaml_fields(m->yaml, h.t.text, text_fields, LEN(text_fields), &m->text, err));
    INFQ_TRY(read_splits(m, h.t.files, err));
    return check_kind(m, root, &h, err);
}

static infq_status grow(void *list, int n, int *cap, infq_err *err)
{
    void **l = list, *p;

    if (n < *cap)
        return 0;
    p = infq_mem_realloc(*l, (size_t)(*cap ? 2 * *cap : 64) * sizeof(void *));
    if (!p)
        return infq_err_set(err, INFQ_E_NOMEM, "no memory for the list of tasks");
    *l = p;
    *cap = *cap ? 2 * *cap : 64;
    return 0;
}

/* take_y: freed here on failure. */
static infq_status add_task(infq_catalog *c, infq_yaml *take_y, const cJSON *vars, const char *folder, infq_err *err)
{
    infq_manifest *m = infq_mem_calloc(1, sizeof(*m));
    infq_status st;

    if (!m) {
        infq_yaml_free(take_y);
        return infq_err_set(err, INFQ_E_NOMEM, "no memory for a task");
    }
    m->yaml = take_y;
    snprintf(m->folder, sizeof(m->folder), "%s", folder);
    st = read_task(m, vars, err);
    if (!st && (infq_catalog_find(c, m->name) || infq_catalog_suite_find(c, m->name)))
        st = infq_yaml_err(m->yaml, infq_json_get(infq_yaml_root(m->yaml), "name"), err, "another task or suite is called %s", m->name);
    if (!st)
        st = grow(&c->tasks, c->n_tasks, &c->cap_tasks, err);
    if (st)
        free_task(m);
    else
        c->tasks[c->n_tasks++] = m;
    return st;
}

static infq_status read_suite(infq_suite *s, infq_err *err)
{
    const cJSON *root = infq_yaml_root(s->yaml), *e;
    head h;
    int n;

    memset(&h, 0, sizeof(h));
    INFQ_TRY(infq_yaml_fields(s->yaml, root, head_fields, LEN(head_fields), &h, err));
    s->name = h.m.name;
    s->about = h.m.about;
    INFQ_TRY(check_name(s->yaml, infq_json_get(root, "name"), err));
    n = cJSON_IsArray(h.t.tasks) ? cJSON_GetArraySize(h.t.tasks) : 0;
    if (n == 0)
        return infq_yaml_err(s->yaml, root, err, "tasks is no list with entries");
    INFQ_TRY(infq_mem_new((size_t)n, sizeof(*s->entries), "entries of a suite", (void **)&s->entries, err));
    cJSON_ArrayForEach(e, h.t.tasks) {
        infq_suite_entry *to = &s->entries[s->n_entries];
        *to = (infq_suite_entry){.shots = -1, .line = infq_yaml_line(s->yaml, e)};
        if (cJSON_IsString(e))
            to->task = e->valuestring;
        else
            INFQ_TRY(infq_yaml_fields(s->yaml, e, entry_fields, LEN(entry_fields), to, err));
        s->n_entries++;
    }
    return 0;
}

static infq_status add_suite(infq_catalog *c, infq_yaml *take_y, infq_err *err)
{
    infq_suite *s = infq_mem_calloc(1, sizeof(*s));
    infq_status st;

    if (!s) {
        infq_yaml_free(take_y);
        return infq_err_set(err, INFQ_E_NOMEM, "no memory for a suite");
    }
    s->yaml = take_y;
    st = read_suite(s, err);
    if (!st && (infq_catalog_find(c, s->name) || infq_catalog_suite_find(c, s->name)))
        st = infq_yaml_err(s->yaml, infq_json_get(infq_yaml_root(s->yaml), "name"), err, "another task or suite is called %s", s->name);
    if (!st)
        st = grow(&c->suites, c->n_suites, &c->cap_suites, err);
    if (st)
        free_suite(s);
    else
        c->suites[c->n_suites++] = s;
    return st;
}

static infq_status add_variants(infq_catalog *c, const infq_yaml *y, const cJSON *variants, const char *folder, infq_err *err)
{
    const cJSON *v;
    int i = 0;

    if (!cJSON_IsArray(variants) || !variants->child)
        return infq_yaml_err(y, variants, err, "a list of variables with values is wanted");
    cJSON_ArrayForEach(v, variants) {
        infq_yaml *e;
        if (!cJSON_IsObject(v))
            return infq_yaml_err(y, v, err, "variables with values are wanted");
        INFQ_TRY(infq_yaml_expand(y, v, &e, err));
        // the copy's own variables live as long as it does
        INFQ_TRY(add_task(c, e, cJSON_GetArrayItem(infq_json_get(infq_yaml_root(e), "variants"), i++), folder, err));
    }
    return 0;
}

infq_status infq_catalog_add(infq_catalog *c, const char *text, size_t n, const char *what, const char *folder, infq_err *err)
{
    const cJSON *root, *kind, *variants;
    infq_yaml *y;
    infq_status st;

    INFQ_TRY(infq_yaml_parse(text, n, what, &y, err));
    root = infq_yaml_root(y);
    kind = infq_json_get(root, "kind");
    variants = infq_json_get(root, "variants");
    if (cJSON_IsString(kind) && strcmp(kind->valuestring, "suite") == 0)
        return add_suite(c, y, err);
    if (!variants)
        return add_task(c, y, NULL, folder, err);
    st = add_variants(c, y, variants, folder, err);
    infq_yaml_free(y);
    return st;
}

infq_status infq_catalog_load(infq_catalog *c, const char *path, infq_err *err)
{
    char folder[512];
    infq_buf text;
    infq_status st;
    size_t n = (size_t)(infq_path_base(path) - path);

    if (n >= sizeof(folder))
        return infq_err_set(err, INFQ_E_IO, "%.60s...: the path is too long", path);
    snprintf(folder, sizeof(folder), "%.*s", (int)n, path);
    if (n > 1 && folder[n - 1] == '/')
        folder[n - 1] = '\0';
    if (n == 0)
        strcpy(folder, ".");
    infq_buf_init(&text);
    st = infq_file_read(path, MAX_MANIFEST, &text, err);
    if (!st)
        st = infq_catalog_add(c, text.data, text.n, path, folder, err);
    infq_buf_deinit(&text);
    return st;
}

infq_status infq_catalog_new(infq_catalog **out, infq_err *err)
{
    infq_catalog *c = infq_mem_calloc(1, sizeof(*c));
    infq_status st = 0;

    if (!c)
        return infq_err_set(err, INFQ_E_NOMEM, "no memory for the list of tasks");
    for (const infq_builtin *b = infq_builtin_manifests; b->name && !st; b++)
        st = infq_catalog_add(c, (const char *)b->text, b->n, b->name, "", err);
    if (st)
        infq_catalog_free(c);
    else
        *out = c;
    return st;
}

void infq_catalog_free(infq_catalog *c)
{
    if (!c)
        return;
    for (int i = 0; i < c->n_tasks; i++)
        free_task(c->tasks[i]);
    for (int i = 0; i < c->n_suites; i++)
        free_suite(c->suites[i]);
    infq_mem_free(c->tasks);
    infq_mem_free(c->suites);
    infq_mem_free(c);
}

int infq_catalog_count(const infq_catalog *c)
{
    return c->n_tasks;
}

const infq_manifest *infq_catalog_get(const infq_catalog *c, int i)
{
    return c->tasks[i];
}

const infq_manifest *infq_catalog_find(const infq_catalog *c, const char *name)
{
    for (int i = 0; i < c->n_tasks; i++)
        if (strcmp(c->tasks[i]->name, name) == 0)
            return c->tasks[i];
    return NULL;
}

int infq_catalog_suite_count(const infq_catalog *c)
{
    return c->n_suites;
}

const infq_suite *infq_catalog_suite_get(const infq_catalog *c, int i)
{
    return c->suites[i];
}

const infq_suite *infq_catalog_suite_find(const infq_catalog *c, const char *name)
{
    for (int i = 0; i < c->n_suites; i++)
        if (strcmp(c->suites[i]->name, name) == 0)
            return c->suites[i];
    return NULL;
}

const char *infq_manifest_name(const infq_manifest *m, int k)
{
    return k == 0 ? m->name : k == 1 ? m->group : m->subgroup;
}

bool infq_manifest_in(const infq_manifest *m, const char *group)
{
    return (m->group && strcmp(m->group, group) == 0) || (m->subgroup && strcmp(m->subgroup, group) == 0);
}

const char *infq_catalog_nearest(const infq_catalog *c, const char *name)
{
    const char *best = NULL, *words[2];

    for (int i = 0; i < c->n_suites + 3 * c->n_tasks; i++) {
        const infq_manifest *m = i < c->n_suites ? NULL : c->tasks[(i - c->n_suites) / 3];
        const char *word = !m ? c->suites[i]->name : infq_manifest_name(m, (i - c->n_suites) % 3);
        if (!word)
            continue;
        words[0] = best ? best : word;
        words[1] = word;
        best = infq_nearest(name, words, 2);
    }
    return best;
}

/* path, or path.gz, below dir: into a new string, NULL if neither is there. */
static infq_status look_in(const char *dir, const char *path, char **out, infq_err *err)
{
    infq_buf b;
    infq_status st;

    *out = NULL;
    infq_buf_init(&b);
    infq_buf_fmt(&b, "%s/%s", dir, path);
    st = infq_buf_status(&b, err);
    if (!st && !infq_path_exists(b.data)) {
        infq_buf_str(&b, ".gz");
        st = infq_buf_status(&b, err);
    }
    if (!st && infq_path_exists(b.data))
        *out = infq_buf_take(&b);
    infq_buf_deinit(&b);
    return st;
}

static infq_status missing(const infq_manifest *m, const infq_task_split *s, infq_err *err)
{
    const infq_task_file *f = &s->files[0];

    for (int i = s->n_files - 1; i >= 0; i--)
        if (s->files[i].url)
            f = &s->files[i];
    if (!f->url)
        return infq_err_set(err, INFQ_E_NOT_FOUND, "%s: %s is in no data folder (--data, INFQ_DATA, ./data)", m->name, f->path);
    return infq_err_set(err, INFQ_E_NOT_FOUND, "%s: %s is in no data folder; infeval fetch %s gets it (sha256 %.16s...) from %s", m->name,
                        f->path, m->name, f->sha256, f->url);
}

infq_status infq_manifest_locate(const infq_manifest *m, const infq_task_split *s, const infq_data_dirs *dirs, char **path,
                                 const infq_task_file **file, infq_err *err)
{
    for (int d = 0; d <= dirs->n; d++) {
        const char *dir = d < dirs->n ? dirs->v[d] : m->folder;
        for (int i = 0; i < s->n_files && dir[0]; i++) {
            INFQ_TRY(look_in(dir, s->files[i].path, path, err));
            if (*path) {
                *file = &s->files[i];
                return 0;
            }
        }
    }
    return missing(m, s, err);
}
