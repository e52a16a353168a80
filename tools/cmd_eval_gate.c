/* infeval gate: the decision on stored items, without running a model. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "lib/base/file.h"
#include "lib/base/str.h"
#include "lib/base/text.h"
#include "lib/eval/self_check.h"
#include "tools/commands.h"
#include "tools/gate_items.h"

#define GATE "infeval gate"
#define MAX_FILE ((size_t)64 << 20)

typedef struct {
    const char *policy, *profile, *metric, *distance, *filter, *cluster, *clusters;
    opt_list noise, original, compressed;
    double margin, alpha, power;
    bool paired, reproducible, sequential, self_check, json, quiet;
} options;

#define AT(member) offsetof(options, member)
static const opt_row rows[] = {
    { "policy", 0, OPT_STR, "FILE", "every number that the verdict depends on (YAML or JSON, docs/cli/gate.md), hashed\n"
      "into the report; write it before the run", AT(policy), 0, 0 },
    { "profile", 0, OPT_STR, "NAME", "built-in policy: default, strict, 8-bit, 6-bit, 4-bit, 3-bit (default)", AT(profile), 0, 0 },
    { "margin", 0, OPT_F64, "X", "largest loss of score that may pass (0.01)", AT(margin), 1e-9, 1 },
    { "alpha", 0, OPT_F64, "A", "one-sided error rate of either verdict (0.05)", AT(alpha), 1e-9, 0.5 },
    { "power", 0, OPT_F64, "P", "of the plan for more items (0.8)", AT(power), 0.5, 0.999999 },
    { "metric", 0, OPT_STR, "NAME", "that decides: acc, acc_norm, acc_bytes, ... (what the files say)", AT(metric), 0, 0 },
    { "noise", 0, OPT_LIST, "FILE", "record of infeval noise: of the original, and once more of the compressed model", AT(noise), 0, 0 },
    { "original-run", 0, OPT_LIST, "PATH", "another run of the original, items as in ORIGINAL_ITEMS; several give its noise", AT(original), 0, 0 },
    { "compressed-run", 0, OPT_LIST, "PATH", "another run of the compressed model", AT(compressed), 0, 0 },
    { "paired-runs", 0, OPT_FLAG, NULL, "run j of both sides was made under the same variation", AT(paired), 0, 0 },
    { "reproducible", 0, OPT_FLAG, NULL, "the engine that made these items repeats itself bit by bit (infeval does)", AT(reproducible), 0, 0 },
    { "distance", 0, OPT_STR, "FILE", "report of infeval A B --metrics kld --json, for the guards on the distribution", AT(distance), 0, 0 },
    { "filter", 0, OPT_STR, "NAME", "of sample logs that hold several (the first)", AT(filter), 0, 0 },
    { "cluster", 0, OPT_STR, "KEY", "of doc in sample logs: items with the same value belong together", AT(cluster), 0, 0 },
    { "clusters", 0, OPT_STR, "FILE", "line i names the cluster of document i, for all tasks", AT(clusters), 0, 0 },
    { "sequential", 0, OPT_FLAG, NULL, "looks at the items in random order and stops when they have decided", AT(sequential), 0, 0 },
    { "self-check", 0, OPT_FLAG, NULL, "asks the gate about cases made from these items whose answer is known", AT(self_check), 0, 0 },
    { "json", 0, OPT_FLAG, NULL, "one JSON object on standard output", AT(json), 0, 0 },
    { "quiet", 'q', OPT_FLAG, NULL, "errors only on standard error", AT(quiet), 0, 0 },
};
const opt_spec cmd_eval_gate_spec = {
    GATE, "[options] ORIGINAL_ITEMS COMPRESSED_ITEMS", "Decides from stored items whether a compressed model may pass.",
    "Items are files of infeval --items, or sample logs of lm-evaluation-harness; two folders are compared\n"
    "task by task, and several files of one task are several runs of it.\n"
    "Exit code: 0 pass, 1 fail, 6 undecided, 3 not comparable.",
    rows, sizeof(rows) / sizeof(rows[0]), 2, 2,
};

typedef struct {
    const options *o;
    infq_policy policy;
    gate_side a, b;
    infq_pair *pairs[EVAL_MAX_TASKS];
    int n_pairs, late;
    infq_noise *noise_a, *noise_b;
    infq_distance distance;
    bool has_distance;
    infq_decision decision;
    infq_groups groups;
    infq_group_gap *gaps;
    int n_gaps;
} gate_run;

static infq_status read_sides(gate_run *g, char **args, infq_err *err)
{
    infq_items_options io = { g->o->filter, g->o->cluster };

    if (infq_path_is_dir(args[0]) != infq_path_is_dir(args[1]))
        return infq_err_set(err, INFQ_E_USAGE, "compare two files or two folders, not a file and a folder");
    INFQ_TRY(gate_side_add(&g->a, args[0], &io, err));
    for (int i = 0; i < g->o->original.n; i++)
        INFQ_TRY(gate_side_add(&g->a, g->o->original.v[i], &io, err));
    INFQ_TRY(gate_side_add(&g->b, args[1], &io, err));
    for (int i = 0; i < g->o->compressed.n; i++)
        INFQ_TRY(gate_side_add(&g->b, g->o->compressed.v[i], &io, err));
    return gate_sides_pair(&g->a, &g->b, &g->policy, g->pairs, &g->n_pairs, err);
}

static infq_status add_line(const char *line, size_t n, char ***names, int64_t *count, infq_err *err)
{
    if (*count % 1024 == 0) {
        char **p = infq_mem_realloc(*names, (size_t)(*count + 1024) * sizeof(*p));
        if (!p)
            return infq_err_set(err, INFQ_E_NOMEM, "no memory for the names of clusters");
        *names = p;
    }
    (*names)[*count] = infq_mem_strndup(line, n);
    if (!(*names)[*count])
        return infq_err_set(err, INFQ_E_NOMEM, "no memory for the names of clusters");
    ++*count;
    return 0;
}

static infq_status read_clusters(gate_run *g, infq_err *err)
{
    char **names = NULL;
    int64_t n = 0;
    infq_buf text;
    infq_status st;

    infq_buf_init(&text);
    st = infq_file_read(g->o->clusters, MAX_FILE, &text, err);
    for (size_t at = 0; !st && at < text.n;) {
        size_t len = strcspn(text.data + at, "\n");
        st = add_line(text.data + at, infq_rstrip(text.data + at, len), &names, &n, err);
        at += len + 1;
    }
    for (int i = 0; i < g->n_pairs && !st; i++) {
        st = infq_pair_set_clusters(g->pairs[i], names, n, err);
        if (st)
            infq_err_in(err, "%s: %s", g->o->clusters, g->pairs[i]->task);
    }
    for (int64_t i = 0; i < n; i++)
        infq_mem_free(names[i]);
    infq_mem_free(names);
    infq_buf_deinit(&text);
    return st;
}

/* The one distance in a report of infeval. */
static infq_status read_distance(gate_run *g, infq_err *err)
{
    cJSON *o = NULL;
    const cJSON *text, *d, *one = NULL, *all = NULL;
    int64_t windows = 0;
    infq_distance *x = &g->distance;
    infq_status st;
    int n = 0;

    INFQ_TRY(infq_json_load(g->o->distance, MAX_FILE, &o, err));
    cJSON_ArrayForEach(text, infq_json_get(o, "texts")) {
        cJSON_ArrayForEach(d, infq_json_get(text, "distance")) {
            all = infq_json_get(d, "all");
            one = d;
            n++;
        }
    }
    st = n == 1 && all ? 0 : infq_err_set(err, INFQ_E_FORMAT, "holds %d distances (texts[].distance[].all), one is wanted", n);
    if (!st)
        st = infq_json_i64(one, "windows", 0, &windows, err);
    if (!st)
        st = infq_json_f64(all, "kld_mean", NAN, &x->kld, err);
    if (!st)
        st = infq_json_f64(all, "kld_stderr", NAN, &x->kld_se, err);
    if (!st)
        st = infq_json_f64(all, "kld_p99", NAN, &x->kld_p99, err);
    if (!st)
        st = infq_json_f64(all, "same_top", NAN, &x->same_top, err);
    if (!st)
        st = infq_json_f64(all, "same_top_stderr", NAN, &x->same_top_se, err);
    if (!st)
        st = infq_json_f64(all, "ln_ratio", NAN, &x->ln_ratio, err);
    if (!st)
        st = infq_json_f64(all, "ln_ratio_stderr", NAN, &x->ln_ratio_se, err);
    cJSON_Delete(o);
    if (st)
        return infq_err_in(err, "%s", g->o->distance);
    x->n_windows = windows;
    x->self_kld = g->noise_a ? g->noise_a->kld_mean : NAN;
    g->has_distance = true;
    return 0;
}

/* Groups by the names of the tasks; suites are not known to stored items. */
static infq_status find_groups(gate_run *g, infq_err *err)
{
    const infq_decision *d = &g->decision;
    const infq_gate_task **by_task = NULL;
    infq_group_task *t = NULL;
    infq_catalog *c = NULL;
    infq_status st;

    if (d->n < 2)
        return 0;
    INFQ_TRY(infq_catalog_new(&c, err));
    st = infq_mem_new((size_t)d->n, sizeof(*t), "groups", (void **)&t, err);
    if (!st)
        st = infq_mem_new((size_t)d->n, sizeof(*by_task), "groups", (void **)&by_task, err);
    for (int i = 0; i < d->n && !st; i++) {
        t[i] = (infq_group_task){ d->tasks[i].task, d->tasks[i].n, -1, -1 };
        by_task[i] = &d->tasks[i];
    }
    if (!st)
        st = infq_groups_find(c, t, d->n, NULL, 0, &g->groups, err);
    if (!st)
        st = infq_mem_new((size_t)g->groups.n + 1, sizeof(*g->gaps), "groups", (void **)&g->gaps, err);
    for (int i = 0; i < g->groups.n && !st; i++)
        g->n_gaps += infq_group_gap_of(&g->groups.g[i], by_task, &g->policy.gate, &g->gaps[g->n_gaps]);
    infq_mem_free(by_task);
    infq_mem_free(t);
    infq_catalog_free(c);
    return st;
}

static infq_status decide(gate_run *g, char **args, infq_err *err)
{
    infq_decision_input in = { .policy = &g->policy, .paired_runs = g->o->paired, .sequential = g->o->sequential };

    INFQ_TRY(gate_policy(g->o->policy, g->o->profile, g->o->margin, g->o->alpha, g->o->power, g->o->metric, g->o->reproducible,
                         &g->policy, err));
    INFQ_TRY(read_sides(g, args, err));
    INFQ_TRY(gate_policy_late(g->o->policy, (const char *const *)g->b.paths, g->b.n_paths, &g->late, err));
    if (g->o->clusters)
        INFQ_TRY(read_clusters(g, err));
    INFQ_TRY(gate_noise_load(&g->o->noise, g->pairs[0]->digest_a, g->pairs[0]->digest_b, &g->noise_a, &g->noise_b, err));
    if (g->o->distance)
        INFQ_TRY(read_distance(g, err));
    in.pairs = g->pairs;
    in.n = g->n_pairs;
    in.noise_a = g->noise_a;
    in.noise_b = g->noise_b;
    in.distance = g->has_distance ? &g->distance : NULL;
    INFQ_TRY(infq_decide(&in, &g->decision, err));
    return find_groups(g, err);
}

static void report(const gate_run *g, char **args, infq_buf *doc)
{
    const infq_decision *d = &g->decision;
    infq_verdict_view v = { .original = args[0], .compressed = args[1], .tasks = d->tasks, .suite = &d->suite, .policy = &g->policy,
                            .policy_path = g->o->policy, .policy_late = g->late,
                            .noise_source = g->noise_a ? g->noise_a->source : NULL, .stop = d->stopped ? &d->stop : NULL,
                            .left_out = d->left_out, .n_left_out = d->n_left_out, .groups = g->gaps, .n_groups = g->n_gaps };
    infq_jw w = infq_jw_over(doc, 0);

    if (!g->o->json) {
        infq_verdict_text(&v, doc);
        infq_buf_char(doc, '\n');
        infq_verdict_table(&v, doc);
        return;
    }
    infq_jw_obj(&w);
    infq_jw_key_str(&w, "schema", "infq.gate.v1");
    infq_jw_key_str(&w, "first", args[0]);
    infq_jw_key_str(&w, "second", args[1]);
    infq_verdict_json(&v, &w);
    infq_jw_end_obj(&w);
    infq_buf_char(doc, '\n');
}

static infq_status self_check(gate_run *g, infq_buf *doc, infq_verdict *verdict, infq_err *err)
{
    infq_self_check c;
    infq_jw w = infq_jw_over(doc, 0);

    if (g->o->sequential)
        return infq_err_set(err, INFQ_E_USAGE, "--self-check asks the test of fixed size: leave --sequential out");
    INFQ_TRY(infq_self_check_run(g->pairs, g->n_pairs, &g->decision, &g->policy, &c, err));
    *verdict = c.verdict;
    if (g->o->json)
        infq_self_check_json(&c, &w);
    else
        infq_self_check_text(&c, doc);
    if (g->o->json)
        infq_buf_char(doc, '\n');
    return 0;
}

static void gate_free(gate_run *g)
{
    for (int i = 0; i < g->n_pairs; i++)
        infq_pair_free(g->pairs[i]);
    gate_side_free(&g->a);
    gate_side_free(&g->b);
    infq_noise_free(g->noise_a);
    infq_noise_free(g->noise_b);
    infq_decision_free(&g->decision);
    infq_groups_free(&g->groups);
    infq_mem_free(g->gaps);
    infq_mem_free(g);
}

int cmd_eval_gate(int argc, char **argv)
{
    options o = { .margin = NAN, .alpha = NAN, .power = NAN };
    infq_verdict verdict = INFQ_VERDICT_UNDECIDED;
    gate_run *g = NULL;
    int n_args;
    bool done;
    infq_buf doc;
    infq_err err;
    infq_status st;

    if (opt_parse(&cmd_eval_gate_spec, argc, argv, &o, &n_args, &done, &err))
        return cmd_fail(GATE, &err);
    if (done)
        return 0;
    if (infq_mem_new(1, sizeof(*g), "gate", (void **)&g, &err))
        return cmd_fail(GATE, &err);
    memset(g, 0, sizeof(*g));
    g->o = &o;
    g->late = -1;
    infq_buf_init(&doc);
    st = decide(g, argv, &err);
    if (!st && o.self_check) {
        st = self_check(g, &doc, &verdict, &err);
    } else if (!st) {
        report(g, argv, &doc);
        verdict = g->decision.suite.verdict;
    }
    if (!st)
        st = cmd_print(&doc, &err);
    infq_buf_deinit(&doc);
    gate_free(g);
    return st ? cmd_fail(GATE, &err) : infq_verdict_exit(verdict);
}
