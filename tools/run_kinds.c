/* The kinds of steps that recipes have: one row a command. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "lib/base/str.h"
#include "lib/report/words.h"
#include "tools/cmd_eval.h"
#include "tools/commands.h"
#include "tools/run.h"

static const char *text(const cJSON *o, const char *key)
{
    const cJSON *v = infq_json_get(o, key);

    return cJSON_IsString(v) ? v->valuestring : "";
}

static double number(const cJSON *o, const char *key)
{
    const cJSON *v = infq_json_get(o, key);

    return cJSON_IsNumber(v) ? v->valuedouble : NAN;
}

static void tell_quantize(const cJSON *d, infq_buf *to)
{
    const cJSON *plan = infq_json_get(d, "plan");
    char size[32];

    infq_buf_fmt(to, "%s, %s, %.2f bits per weight", text(d, "output"), infq_format_bytes(number(d, "bytes_written"), size, sizeof(size)),
                 number(plan, "bits_per_weight"));
}

static void tell_prune(const cJSON *d, infq_buf *to)
{
    infq_buf_fmt(to, "%s, %.2f %% zeros in %.0f matrices", text(d, "output"), 100.0 * number(d, "sparsity"),
                 number(infq_json_get(d, "plan"), "tensors_pruned"));
}

static void tell_convert(const cJSON *d, infq_buf *to)
{
    char size[32];

    infq_buf_fmt(to, "%s, %s", text(d, "output"), infq_format_bytes(number(d, "bytes_out"), size, sizeof(size)));
}

static void tell_verify(const cJSON *d, infq_buf *to)
{
    const cJSON *r = infq_json_get(d, "result");

    infq_buf_fmt(to, "%.0f matrices decoded, largest relative error %.4f", number(r, "matrices"), number(r, "largest_relative_error"));
}

static void tell_eval(const cJSON *d, infq_buf *to)
{
    const cJSON *c = infq_json_get(d, "comparisons"), *t = infq_json_get(d, "texts");
    const char *summary = text(cJSON_GetArrayItem(c, 0), "summary");

    if (text(d, "answer")[0])
        infq_buf_str(to, text(d, "answer"));
    else if (summary[0])
        infq_buf_str(to, summary);
    else
        infq_buf_fmt(to, "%d tasks, %d texts", cJSON_GetArraySize(infq_json_get(d, "tasks")), cJSON_GetArraySize(t));
}

static void tell_gate(const cJSON *d, infq_buf *to)
{
    infq_buf_str(to, text(d, "summary"));
}

static void tell_noise(const cJSON *d, infq_buf *to)
{
    char a[24];

    infq_buf_fmt(to, "repeatability limit %s points over %d runs", infq_points(number(infq_json_get(d, "suite"), "limit"), false, a),
                 cJSON_GetArraySize(infq_json_get(d, "runs")));
}

static void tell_bench(const cJSON *d, infq_buf *to)
{
    const cJSON *t;

    infq_buf_fmt(to, "decode %.1f tokens/s, TTFT P90 %.2f ms", number(d, "decode_tokens_per_s"),
                 number(infq_json_get(infq_json_get(d, "latency_ms"), "ttft"), "p90"));
    cJSON_ArrayForEach(t, infq_json_get(d, "targets"))
        infq_buf_fmt(to, "; %s: %s", text(t, "target"), text(t, "verdict"));
}

static const run_kind kinds[] = {
    {.name = "quantize", .spec = &cmd_quantize_spec, .run = cmd_quantize, .arguments = "model", .inputs = "model calib", .outputs = "output=",
     .json = true, .plans = true, .force = true, .stops = true, .tell = tell_quantize},
    {.name = "prune", .spec = &cmd_prune_spec, .run = cmd_prune, .arguments = "model", .inputs = "model calib", .outputs = "output=", .json = true,
     .plans = true, .force = true, .stops = true, .tell = tell_prune},
    {.name = "convert", .spec = &cmd_convert_spec, .run = cmd_convert, .arguments = "model", .inputs = "model", .outputs = "output=", .json = true,
     .force = true, .stops = true, .tell = tell_convert},
    {.name = "verify", .spec = &cmd_verify_spec, .run = cmd_verify, .arguments = "model", .inputs = "model source", .json = true, .stops = true,
     .tell = tell_verify},
    {.name = "eval", .spec = &cmd_eval_spec, .run = cmd_eval, .arguments = "models...", .inputs = "models reference bench noise policy",
     .outputs = "items=.items", .json = true, .depends = run_tasks_digest, .tell = tell_eval},
    {.name = "noise", .spec = &cmd_eval_noise_spec, .run = cmd_eval_noise, .arguments = "model", .inputs = "model text",
     .outputs = "output=.noise.json items=.items", .json = true, .force = true, .depends = run_tasks_digest, .tell = tell_noise},
    {.name = "gate", .spec = &cmd_eval_gate_spec, .run = cmd_eval_gate, .arguments = "original compressed",
     .inputs = "original compressed policy noise distance original-run compressed-run clusters", .json = true, .tell = tell_gate},
    {.name = "bench", .spec = &cmd_bench_spec, .run = cmd_bench, .arguments = "model", .inputs = "model", .json = true, .tell = tell_bench},
    {.name = "report", .spec = &cmd_eval_report_page_spec, .run = cmd_eval_report_page, .arguments = "results...", .inputs = "results",
     .outputs = "output=.html", .gathers = true},
    {.name = "receipt", .spec = &cmd_receipt_write_spec, .run = cmd_receipt_write, .arguments = "run", .inputs = "", .outputs = "output=.json",
     .fresh = true},
};
#define N_KINDS (int)(sizeof(kinds) / sizeof(kinds[0]))

int run_kind_count(void)
{
    return N_KINDS;
}

const run_kind *run_kind_of(const infq_recipe_step *s)
{
    for (int i = 0; i < N_KINDS; i++)
        if (strcmp(kinds[i].name, s->kind->name) == 0)
            return &kinds[i];
    return NULL;
}

/* Whether name is one of the words of list; *made: what stands behind "=" there. */
static bool listed(const char *list, const char *name, const char **made, infq_buf *store)
{
    size_t n = strlen(name);

    for (const char *s = list ? list : ""; *s; s += strcspn(s, " "), s += *s == ' ') {
        size_t len = strcspn(s, " ="), end = strcspn(s, " ");
        if (len != n || strncmp(s, name, n) != 0)
            continue;
        if (made && s[len] == '=') {
            *made = store->data + store->n; // room was made beforehand
            infq_buf_add(store, s + len + 1, end - len - 1);
            infq_buf_char(store, '\0');
        }
        return true;
    }
    return false;
}

// What infq run itself decides.
static const char *const fixed[] = {"json", "quiet", "force", "dry-run"};

static void option_keys(const run_kind *k, infq_recipe_kind *to, infq_recipe_key *keys, infq_buf *store)
{
    for (int i = 0; i < k->spec->n_rows && to->n_keys < RUN_MAX_KEYS; i++) {
        const opt_row *row = &k->spec->rows[i];
        infq_recipe_key *key = &keys[to->n_keys++];
        key->name = row->name;
        key->form = row->kind == OPT_FLAG ? INFQ_RECIPE_FLAG : row->kind == OPT_LIST ? INFQ_RECIPE_LIST : INFQ_RECIPE_VALUE;
        if (strcmp(k->name, "quantize") == 0 && strcmp(row->name, "type") == 0)
            key->form = INFQ_RECIPE_RULES;
        key->input = listed(k->inputs, row->name, NULL, store);
        key->output = listed(k->outputs, row->name, &key->made, store);
        for (size_t f = 0; f < sizeof(fixed) / sizeof(fixed[0]); f++)
            key->fixed = key->fixed || strcmp(row->name, fixed[f]) == 0;
    }
}

static void argument_keys(const run_kind *k, infq_recipe_kind *to, infq_recipe_key *keys, infq_buf *store)
{
    for (const char *s = k->arguments; *s && to->n_keys < RUN_MAX_KEYS; s += strcspn(s, " "), s += *s == ' ') {
        infq_recipe_key *key = &keys[to->n_keys++];
        size_t n = strcspn(s, " .");
        key->name = store->data + store->n;
        infq_buf_add(store, s, n);
        infq_buf_char(store, '\0');
        key->form = s[n] == '.' ? INFQ_RECIPE_LIST : INFQ_RECIPE_VALUE;
        key->position = key->required = true;
        key->input = listed(k->inputs, key->name, NULL, store);
    }
}

typedef struct {
    infq_recipe_kind kinds[N_KINDS];
    infq_recipe_key keys[N_KINDS][RUN_MAX_KEYS];
    infq_buf store;
} kind_table;

infq_status run_kinds_new(infq_recipe_kind **out, infq_err *err)
{
    kind_table *t = NULL;
    infq_status st;

    INFQ_TRY(infq_mem_new(1, sizeof(*t), "kinds of steps", (void **)&t, err));
    memset(t, 0, sizeof(*t));
    infq_buf_init(&t->store);
    for (int i = 0; i < 4096; i++) // so that names do not move
        infq_buf_char(&t->store, 0);
    st = infq_buf_status(&t->store, err);
    t->store.n = 0;
    for (int i = 0; i < N_KINDS && !st; i++) {
        t->kinds[i] = (infq_recipe_kind){kinds[i].name, t->keys[i], 0, kinds[i].stops};
        option_keys(&kinds[i], &t->kinds[i], t->keys[i], &t->store);
        argument_keys(&kinds[i], &t->kinds[i], t->keys[i], &t->store);
    }
    INFQ_BUG_ON(!st && t->store.n > 4096);
    if (st)
        run_kinds_free(t->kinds);
    else
        *out = t->kinds;
    return st;
}

void run_kinds_free(infq_recipe_kind *k)
{
    kind_table *t = (kind_table *)(void *)k;

    if (!t)
        return;
    infq_buf_deinit(&t->store);
    infq_mem_free(t);
}

infq_status run_step_check(const infq_recipe_step *s, infq_err *err)
{
    const run_kind *k = run_kind_of(s);
    size_t most = 0;
    char **argv = NULL, *options = NULL;
    int n_args;
    bool done;
    infq_status st;

    for (int i = 0; i < k->spec->n_rows; i++) // the largest member of any option table is a list
        most = k->spec->rows[i].offset > most ? k->spec->rows[i].offset : most;
    INFQ_TRY(infq_mem_new(most + sizeof(opt_list), 1, "options", (void **)&options, err));
    memset(options, 0, most + sizeof(opt_list));
    st = infq_mem_new((size_t)s->argc + 1, sizeof(*argv), "arguments", (void **)&argv, err);
    if (!st) {
        memcpy(argv, s->argv, ((size_t)s->argc + 1) * sizeof(*argv));
        st = opt_parse(k->spec, s->argc, argv, options, &n_args, &done, err);
    }
    infq_mem_free(argv);
    infq_mem_free(options);
    return st;
}
