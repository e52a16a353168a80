/* infeval gate: the decision on stored items, without running a model. */
#include <stdio.h>
#include <string.h>

#include "lib/base/file.h"
#include "lib/base/str.h"
#include "tools/cmd_eval.h"
#include "tools/commands.h"

#define GATE "infeval gate"

typedef struct {
    double margin, alpha, power;
    const char *metric;
    bool json, quiet;
} options;

#define AT(member) offsetof(options, member)
static const opt_row rows[] = {
    { "margin", 0, OPT_F64, "X", "largest loss of score that may pass (0.01)", AT(margin), 1e-9, 1 },
    { "alpha", 0, OPT_F64, "A", "one-sided error rate of either verdict (0.05)", AT(alpha), 1e-9, 0.5 },
    { "power", 0, OPT_F64, "P", "of the plan for more items (0.8)", AT(power), 0.5, 0.999999 },
    { "metric", 0, OPT_STR, "NAME", "that decides: acc, acc_norm, acc_bytes, ... (what the files say)", AT(metric), 0, 0 },
    { "json", 0, OPT_FLAG, NULL, "one JSON object on standard output", AT(json), 0, 0 },
    { "quiet", 'q', OPT_FLAG, NULL, "errors only on standard error", AT(quiet), 0, 0 },
};
const opt_spec cmd_eval_gate_spec = {
    GATE, "[options] ORIGINAL_ITEMS COMPRESSED_ITEMS", "Decides from stored items whether a compressed model may pass.",
    "Items are files of infeval --items, or sample logs of the reference harness; two folders are\n"
    "compared file by file. Exit code: 0 pass, 1 fail, 6 undecided, 3 not comparable.",
    rows, sizeof(rows) / sizeof(rows[0]), 2, 2,
};

static infq_status compare_files(const char *a, const char *b, const char *metric, const infq_gate_options *o, infq_gate_task *out,
                                 infq_err *err)
{
    infq_items *x = NULL, *y = NULL;
    infq_status st = infq_items_load(a, &x, err);

    if (!st)
        st = infq_items_load(b, &y, err);
    if (!st) {
        st = infq_gate_items(x, y, metric, o, out, err);
        if (st)
            infq_err_in(err, "%s", b);
        else if (!out->task[0])
            snprintf(out->task, sizeof(out->task), "%s", infq_path_base(a));
    }
    infq_items_free(x);
    infq_items_free(y);
    return st;
}

/* Every item file of folder a against its namesake in b. */
static infq_status compare_folders(const char *a, const char *b, const char *metric, const infq_gate_options *o,
                                   infq_gate_task *out, int *n, infq_err *err)
{
    char **names = NULL;
    size_t n_names = 0;
    infq_status st;

    *n = 0;
    INFQ_TRY(infq_dir_list(a, &names, &n_names, err));
    st = 0;
    for (size_t i = 0; i < n_names && !st; i++) {
        char *x = NULL, *y = NULL;
        if (!infq_str_ends(names[i], ".jsonl") && !infq_str_ends(names[i], ".jsonl.gz"))
            continue;
        if (*n == EVAL_MAX_TASKS)
            st = infq_err_set(err, INFQ_E_UNSUPPORTED, "%s: more than %d item files", a, EVAL_MAX_TASKS);
        if (!st)
            st = infq_path_join(a, names[i], &x, err);
        if (!st)
            st = infq_path_join(b, names[i], &y, err);
        if (!st && !infq_path_exists(y))
            st = infq_err_set(err, INFQ_E_MISMATCH, "not comparable: %s has no %s", b, names[i]);
        if (!st)
            st = compare_files(x, y, metric, o, &out[(*n)++], err);
        infq_mem_free(x);
        infq_mem_free(y);
    }
    infq_dir_list_free(names, n_names);
    if (!st && *n == 0)
        st = infq_err_set(err, INFQ_E_NOT_FOUND, "%s: holds no item files (*.jsonl)", a);
    return st;
}

static void write_json(const char *a, const char *b, const infq_gate_task *t, int n, const infq_gate_suite *s,
                       const infq_gate_options *o, infq_buf *to)
{
    infq_jw w = infq_jw_over(to, 0);

    infq_jw_obj(&w);
    infq_jw_key(&w, "schema");
    infq_jw_str(&w, "infq.gate.v1");
    infq_jw_key(&w, "first");
    infq_jw_str(&w, a);
    infq_jw_key(&w, "second");
    infq_jw_str(&w, b);
    infq_jw_key(&w, "tasks");
    infq_jw_arr(&w);
    for (int i = 0; i < n; i++) {
        infq_jw_obj(&w);
        eval_gate_json(&t[i], &w);
        infq_jw_end_obj(&w);
    }
    infq_jw_end_arr(&w);
    eval_suite_json(s, o, &w);
    infq_jw_key(&w, "verdict");
    infq_jw_str(&w, infq_verdict_name(s->verdict));
    infq_jw_end_obj(&w);
    infq_buf_char(to, '\n');
}

static infq_status decide(const char *a, const char *b, const options *o, infq_buf *doc, infq_verdict *verdict, infq_err *err)
{
    infq_gate_options g = { .margin = o->margin, .alpha = o->alpha, .power = o->power };
    infq_gate_task *t = NULL;
    const infq_gate_task *list[EVAL_MAX_TASKS];
    infq_gate_suite s;
    int n = 1;
    infq_status st;

    if (infq_path_is_dir(a) != infq_path_is_dir(b))
        return infq_err_set(err, INFQ_E_USAGE, "compare two files or two folders, not a file and a folder");
    INFQ_TRY(infq_mem_new(EVAL_MAX_TASKS, sizeof(*t), "comparisons", (void **)&t, err));
    memset(t, 0, EVAL_MAX_TASKS * sizeof(*t));
    st = infq_path_is_dir(a) ? compare_folders(a, b, o->metric, &g, t, &n, err) : compare_files(a, b, o->metric, &g, t, err);
    if (!st)
        st = infq_gate_combine(t, n, &g, &s, err);
    if (!st) {
        *verdict = s.verdict;
        for (int i = 0; i < n; i++)
            list[i] = &t[i];
        if (o->json) {
            write_json(a, b, t, n, &s, &g, doc);
        } else {
            eval_gate_header(doc);
            for (int i = 0; i < n; i++)
                eval_gate_line(&t[i], doc);
            eval_verdict_text(&s, list, &g, doc);
        }
    }
    infq_mem_free(t);
    return st;
}

int cmd_eval_gate(int argc, char **argv)
{
    infq_gate_options g = infq_gate_options_default();
    options o = { .margin = g.margin, .alpha = g.alpha, .power = g.power };
    infq_verdict verdict = INFQ_VERDICT_UNDECIDED;
    int n_args;
    bool done;
    infq_buf doc;
    infq_err err;
    infq_status st;

    if (opt_parse(&cmd_eval_gate_spec, argc, argv, &o, &n_args, &done, &err))
        return cmd_fail(GATE, &err);
    if (done)
        return 0;
    infq_buf_init(&doc);
    st = decide(argv[0], argv[1], &o, &doc, &verdict, &err);
    if (!st)
        st = cmd_print(&doc, &err);
    infq_buf_deinit(&doc);
    return st ? cmd_fail(GATE, &err) : infq_verdict_exit(verdict);
}
