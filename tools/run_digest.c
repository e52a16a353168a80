/* What a step depends on beside its arguments and the files they name. */
#include <stdio.h>
#include <string.h>

#include "lib/base/hash.h"
#include "tools/cmd_eval.h"
#include "tools/run.h"

/* Values of an option in a step's command line. */
static void values_of(const infq_recipe_step *s, const char *option, opt_list *out)
{
    char head[64];
    size_t n = (size_t)snprintf(head, sizeof(head), "--%s=", option);

    out->n = 0;
    for (int i = 1; i < s->argc && out->n < OPT_LIST_MAX; i++)
        if (strncmp(s->argv[i], head, n) == 0)
            out->v[out->n++] = s->argv[i] + n;
}

static bool has_flag(const infq_recipe_step *s, const char *flag)
{
    for (int i = 1; i < s->argc; i++)
        if (strcmp(s->argv[i], flag) == 0)
            return true;
    return false;
}

static infq_status add_text(infq_sha256 *h, const char *s, infq_err *err)
{
    return infq_sha256_add(h, s, strlen(s) + 1, err);
}

static infq_status add_file(infq_sha256 *h, const char *path, infq_err *err)
{
    char hex[65];

    INFQ_TRY(infq_sha256_file(path, hex, err));
    return add_text(h, hex, err);
}

static infq_status digest(eval_run *r, const infq_recipe_step *s, char hex[65], infq_err *err)
{
    opt_list texts;
    infq_sha256 *h = NULL;
    infq_status st;

    INFQ_TRY(eval_tasks_add(r, &r->o->tasks, has_flag(s, "--metrics=kld"), err));
    values_of(s, "ppl", &texts);
    for (int i = 0; i < texts.n; i++)
        INFQ_TRY(eval_text_add(r, texts.v[i], true, false, err));
    INFQ_TRY(infq_sha256_new(&h, err));
    st = 0;
    for (int i = 0; i < r->n_tasks && !st; i++) {
        st = add_text(h, infq_task_name(r->tasks[i].task), err);
        if (!st)
            st = add_text(h, infq_task_digest(r->tasks[i].task), err);
    }
    for (int i = 0; i < r->n_texts && !st; i++) {
        st = add_text(h, r->texts[i].name, err);
        if (!st)
            st = add_file(h, r->texts[i].path, err);
    }
    if (!st)
        st = infq_sha256_end(h, hex, err);
    infq_sha256_free(h);
    return st;
}

infq_status run_tasks_digest(const infq_recipe_step *s, char hex[65], infq_err *err)
{
    eval_options o = {.shots = -1, .fewshot_seed = -1};
    eval_run *r = NULL;
    infq_status st;

    values_of(s, "tasks", &o.tasks);
    values_of(s, "data", &o.data);
    o.skip_missing = has_flag(s, "--skip-missing");
    INFQ_TRY(infq_mem_new(1, sizeof(*r), "tasks", (void **)&r, err));
    memset(r, 0, sizeof(*r));
    r->o = &o;
    st = digest(r, s, hex, err);
    eval_run_free(r);
    return st;
}
