#include "lib/eval/policy.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "lib/base/hash.h"
#include "lib/base/yaml.h"

#define SCHEMA "infq.policy/1"
#define MAX_FILE ((size_t)1 << 20)

static const char *const noise_names[] = {"optional", "required", "floor", "off", NULL};
static const char *const weight_names[] = {"equal", "size", NULL};
static const char *const stop_names[] = {"betting", "obrien-fleming", "pocock", NULL};

const char *infq_stop_rule_name(infq_stop_rule r)
{
    return stop_names[r];
}

/* Guards of specs 2.10; NAN: not asked. */
typedef struct {
    const char *name;
    double ln_ppl, kld, same_top, flips, kappa;
    bool strict;
} profile;

static const profile profiles[] = {
    {"default", NAN, NAN, NAN, NAN, 0, false},
    {"strict", NAN, NAN, NAN, NAN, 1, true},
    {"8-bit", 0.002, 0.002, 0.975, 0.02, 0, false},
    {"6-bit", 0.005, 0.006, 0.96, 0.03, 0, false},
    {"4-bit", 0.03, 0.03, 0.915, 0.08, 0, false},
    {"3-bit", 0.10, 0.10, 0.85, 0.12, 0, false},
};
#define N_PROFILES (sizeof(profiles) / sizeof(profiles[0]))

static infq_status start_from(const char *name, infq_policy *p, infq_err *err)
{
    const profile *f = NULL;

    for (size_t i = 0; i < N_PROFILES; i++)
        if (strcmp(profiles[i].name, name) == 0)
            f = &profiles[i];
    if (!f)
        return infq_err_set(err, INFQ_E_USAGE, "no profile is called %.40s: default, strict, 8-bit, 6-bit, 4-bit, 3-bit", name);
    memset(p, 0, sizeof(*p));
    snprintf(p->name, sizeof(p->name), "%s", f->name);
    snprintf(p->profile, sizeof(p->profile), "%s", f->name);
    p->gate = infq_gate_options_default();
    if (f->kappa > 0)
        p->gate.band.kappa = f->kappa;
    p->gate.strict = f->strict;
    p->gate.guards.ln_ppl = f->ln_ppl;
    p->gate.guards.kld = f->kld;
    p->gate.guards.same_top = f->same_top;
    p->gate.guards.flips = f->flips;
    p->run_looks = 1;
    p->stop = INFQ_STOP_BETTING;
    p->n_looks = 4;
    for (int i = 0; i < 4; i++)
        p->looks[i] = (i + 1) / 4.0;
    p->seed = 1;
    return 0;
}

infq_status infq_policy_builtin(const char *name, infq_policy *out, infq_err *err)
{
    INFQ_TRY(start_from(name, out, err));
    return infq_policy_seal(out, err);
}

/* The document's keys. */
typedef struct {
    const char *schema, *name, *profile, *metric;
    double alpha, power, margin, floor, cap, kappa;
    bool allow_gain, exact_level, strict, strict_detect, reproducible;
    int noise, weights, stop;
    int64_t run_looks, seed;
    const cJSON *tasks, *guards, *looks, *require;
} document;

#define DOC(key, kind, member, lo, hi, names) {key, kind, false, offsetof(document, member), lo, hi, names}
static const infq_yaml_field doc_fields[] = {
    DOC("schema", INFQ_YAML_STR, schema, 0, 0, NULL),
    DOC("name", INFQ_YAML_STR, name, 0, 0, NULL),
    DOC("profile", INFQ_YAML_STR, profile, 0, 0, NULL),
    DOC("alpha", INFQ_YAML_F64, alpha, 1e-9, 0.5, NULL),
    DOC("power", INFQ_YAML_F64, power, 0.5, 0.999999, NULL),
    DOC("margin", INFQ_YAML_F64, margin, 1e-9, 1, NULL),
    DOC("floor", INFQ_YAML_F64, floor, 0, 1, NULL),
    DOC("cap", INFQ_YAML_F64, cap, 1e-9, 1, NULL),
    DOC("kappa", INFQ_YAML_F64, kappa, 0.01, 10, NULL),
    DOC("allow_gain", INFQ_YAML_BOOL, allow_gain, 0, 0, NULL),
    DOC("exact_level", INFQ_YAML_BOOL, exact_level, 0, 0, NULL),
    DOC("strict", INFQ_YAML_BOOL, strict, 0, 0, NULL),
    DOC("strict_detect", INFQ_YAML_BOOL, strict_detect, 0, 0, NULL),
    DOC("reproducible", INFQ_YAML_BOOL, reproducible, 0, 0, NULL),
    DOC("noise", INFQ_YAML_ENUM, noise, 0, 0, noise_names),
    DOC("weights", INFQ_YAML_ENUM, weights, 0, 0, weight_names),
    DOC("run_looks", INFQ_YAML_I64, run_looks, 1, 100, NULL),
    DOC("stop", INFQ_YAML_ENUM, stop, 0, 0, stop_names),
    DOC("looks", INFQ_YAML_LIST, looks, 0, 0, NULL),
    DOC("seed", INFQ_YAML_I64, seed, 0, 9e15, NULL),
    DOC("metric", INFQ_YAML_STR, metric, 0, 0, NULL),
    DOC("tasks", INFQ_YAML_LIST, tasks, 0, 0, NULL),
    DOC("guards", INFQ_YAML_MAP, guards, 0, 0, NULL),
    DOC("require", INFQ_YAML_STRS, require, 0, 0, NULL),
};

#define GUARD(key, member, lo, hi) {key, INFQ_YAML_F64, false, offsetof(infq_guard_limits, member), lo, hi, NULL}
static const infq_yaml_field guard_fields[] = {
    GUARD("flips", flips, 0, 1),
    GUARD("kld", kld, 0, 1e3),
    GUARD("kld_p99", kld_p99, 0, 1e3),
    GUARD("kld_noise", kld_noise, 0, 1e6),
    GUARD("same_top", same_top, 0, 1),
    GUARD("ln_ppl", ln_ppl, 0, 1e3),
    GUARD("format", format, 1e-9, 1),
    GUARD("length_lo", length_lo, 0, 1),
    GUARD("length_hi", length_hi, 1, 1e3),
    GUARD("jitter", jitter, 0.5, 0.999999),
};

typedef struct {
    const char *task, *metric;
    double margin;
} task_entry;

static const infq_yaml_field task_fields[] = {
    {"task", INFQ_YAML_STR, true, offsetof(task_entry, task), 0, 0, NULL},
    {"metric", INFQ_YAML_STR, false, offsetof(task_entry, metric), 0, 0, NULL},
    {"margin", INFQ_YAML_F64, false, offsetof(task_entry, margin), 1e-9, 1, NULL},
};
#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static infq_status copy_text(const infq_yaml *y, const cJSON *node, const char *text, char *out, size_t cap, infq_err *err)
{
    if (strlen(text) >= cap)
        return infq_yaml_err(y, node, err, "longer than %zu bytes", cap - 1);
    strcpy(out, text);
    return 0;
}

static infq_status read_tasks(const infq_yaml *y, const cJSON *list, infq_policy *p, infq_err *err)
{
    for (const cJSON *e = infq_yaml_first(list); e; e = infq_yaml_next(list, e)) {
        infq_policy_task *t = &p->tasks[p->n_tasks];
        task_entry in = {NULL, "", NAN};
        if (p->n_tasks == INFQ_POLICY_MAX_TASKS)
            return infq_yaml_err(y, e, err, "more than %d tasks", INFQ_POLICY_MAX_TASKS);
        if (cJSON_IsString(e))
            in.task = e->valuestring;
        else
            INFQ_TRY(infq_yaml_fields(y, e, task_fields, COUNT(task_fields), &in, err));
        INFQ_TRY(copy_text(y, e, in.task, t->task, sizeof(t->task), err));
        INFQ_TRY(copy_text(y, e, in.metric, t->metric, sizeof(t->metric), err));
        t->margin = in.margin;
        for (int i = 0; i < p->n_tasks; i++)
            if (strcmp(p->tasks[i].task, t->task) == 0)
                return infq_yaml_err(y, e, err, "task %s is listed twice", t->task);
        p->n_tasks++;
    }
    return 0;
}

static infq_status read_looks(const infq_yaml *y, const cJSON *list, infq_policy *p, infq_err *err)
{
    p->n_looks = 0;
    for (const cJSON *e = infq_yaml_first(list); e; e = infq_yaml_next(list, e)) {
        if (!cJSON_IsNumber(e) || p->n_looks == INFQ_MAX_LOOKS)
            return infq_yaml_err(y, e, err, "a list of at most %d fractions is wanted", INFQ_MAX_LOOKS);
        p->looks[p->n_looks++] = e->valuedouble;
    }
    return 0;
}

static infq_status read_require(const infq_yaml *y, const cJSON *list, infq_policy *p, infq_err *err)
{
    for (const cJSON *e = infq_yaml_first(list); e; e = infq_yaml_next(list, e)) {
        int k = 0;
        if (strcmp(e->valuestring, "noise") == 0) {
            p->gate.noise = INFQ_NOISE_REQUIRED;
            continue;
        }
        while (k < INFQ_GUARD_KINDS && strcmp(infq_guard_name((infq_guard_kind)k), e->valuestring) != 0)
            k++;
        if (k == INFQ_GUARD_KINDS)
            return infq_yaml_err(y, e, err, "%.40s cannot be required: noise or the name of a guard", e->valuestring);
        p->gate.require |= 1u << k;
    }
    return 0;
}

/* The document starts from what the profile set, so that absent keys keep it. */
static infq_status read_document(const infq_yaml *y, infq_policy *p, infq_err *err)
{
    const cJSON *root = infq_yaml_root(y);
    document d = {.schema = SCHEMA, .name = "", .profile = "default", .metric = ""};
    infq_gate_options *g = &p->gate;

    INFQ_TRY(infq_yaml_fields(y, root, doc_fields, COUNT(doc_fields), &d, err));
    if (strcmp(d.schema, SCHEMA) != 0)
        return infq_yaml_err(y, infq_json_get(root, "schema"), err, "%.40s is not %s", d.schema, SCHEMA);
    if (start_from(d.profile, p, err))
        return infq_yaml_err(y, infq_json_get(root, "profile"), err, "%.150s", err->msg);
    d = (document){.schema = SCHEMA, .name = p->profile, .profile = d.profile, .metric = "", .alpha = g->alpha, .power = g->power,
                   .margin = g->margin, .floor = g->band.floor, .cap = g->band.cap, .kappa = g->band.kappa, .strict = g->strict,
                   .noise = (int)g->noise, .stop = (int)p->stop, .run_looks = 1, .seed = (int64_t)p->seed};
    INFQ_TRY(infq_yaml_fields(y, root, doc_fields, COUNT(doc_fields), &d, err));
    INFQ_TRY(copy_text(y, infq_json_get(root, "name"), d.name, p->name, sizeof(p->name), err));
    INFQ_TRY(copy_text(y, infq_json_get(root, "metric"), d.metric, p->metric, sizeof(p->metric), err));
    g->alpha = d.alpha;
    g->power = d.power;
    g->margin = d.margin;
    g->band = (infq_band_options){.alpha = d.alpha, .kappa = d.kappa, .floor = d.floor, .cap = d.cap, .allow_gain = d.allow_gain,
                                  .exact_level = d.exact_level};
    g->noise = (infq_noise_use)d.noise;
    g->weights = (infq_gate_weights)d.weights;
    g->strict = d.strict;
    g->strict_detect = d.strict_detect;
    g->reproducible = d.reproducible;
    p->run_looks = (int)d.run_looks;
    p->stop = (infq_stop_rule)d.stop;
    p->seed = (uint64_t)d.seed;
    if (d.guards)
        INFQ_TRY(infq_yaml_fields(y, d.guards, guard_fields, COUNT(guard_fields), &g->guards, err));
    if (d.looks)
        INFQ_TRY(read_looks(y, d.looks, p, err));
    if (d.require)
        INFQ_TRY(read_require(y, d.require, p, err));
    return d.tasks ? read_tasks(y, d.tasks, p, err) : 0;
}

infq_status infq_policy_load(const char *path, infq_policy *out, infq_err *err)
{
    infq_yaml *y = NULL;
    infq_status st;

    INFQ_TRY(infq_yaml_load(path, MAX_FILE, &y, err));
    st = read_document(y, out, err);
    infq_yaml_free(y);
    if (st)
        return st;
    st = infq_policy_seal(out, err);
    return st ? infq_err_in(err, "%s", path) : 0;
}

static infq_status check(const infq_policy *p, infq_err *err)
{
    const infq_gate_options *g = &p->gate;

    if (!(g->band.floor < g->band.cap))
        return infq_err_set(err, INFQ_E_USAGE, "floor %g is not below cap %g", g->band.floor, g->band.cap);
    if (!(g->guards.length_lo < g->guards.length_hi))
        return infq_err_set(err, INFQ_E_USAGE, "length_lo %g is not below length_hi %g", g->guards.length_lo, g->guards.length_hi);
    for (int i = 0; i < p->n_looks; i++)
        if (!(p->looks[i] > (i ? p->looks[i - 1] : 0) && p->looks[i] <= 1))
            return infq_err_set(err, INFQ_E_USAGE, "looks: fractions ascend within 0..1");
    if (p->n_looks < 1 || p->looks[p->n_looks - 1] != 1)
        return infq_err_set(err, INFQ_E_USAGE, "looks: the last one is 1, all items");
    return 0;
}

infq_status infq_policy_seal(infq_policy *p, infq_err *err)
{
    infq_buf text;
    infq_jw w;
    infq_status st;

    p->gate.band.alpha = p->gate.alpha / p->run_looks;
    INFQ_TRY(check(p, err));
    infq_buf_init(&text);
    w = infq_jw_over(&text, 0);
    infq_policy_write(p, &w);
    st = infq_buf_status(&text, err);
    if (!st)
        st = infq_sha256_of(text.data, text.n, p->sha256, err);
    infq_buf_deinit(&text);
    return st;
}

static void write_guards(const infq_guard_limits *g, infq_jw *w)
{
    infq_jw_key(w, "guards");
    infq_jw_obj(w);
    for (size_t i = 0; i < COUNT(guard_fields); i++)
        infq_jw_key_f64(w, guard_fields[i].key, *(const double *)((const char *)g + guard_fields[i].offset));
    infq_jw_end_obj(w);
}

static void write_lists(const infq_policy *p, infq_jw *w)
{
    infq_jw_key(w, "looks");
    infq_jw_arr(w);
    for (int i = 0; i < p->n_looks; i++)
        infq_jw_f64(w, p->looks[i]);
    infq_jw_end_arr(w);
    infq_jw_key(w, "require");
    infq_jw_arr(w);
    for (int k = 0; k < INFQ_GUARD_KINDS; k++)
        if (p->gate.require >> k & 1)
            infq_jw_str(w, infq_guard_name((infq_guard_kind)k));
    infq_jw_end_arr(w);
    infq_jw_key(w, "tasks");
    infq_jw_arr(w);
    for (int i = 0; i < p->n_tasks; i++) {
        infq_jw_obj(w);
        infq_jw_key_str(w, "task", p->tasks[i].task);
        infq_jw_key_str(w, "metric", p->tasks[i].metric);
        infq_jw_key_f64(w, "margin", isnan(p->tasks[i].margin) ? p->gate.margin : p->tasks[i].margin);
        infq_jw_end_obj(w);
    }
    infq_jw_end_arr(w);
}

void infq_policy_write(const infq_policy *p, infq_jw *w)
{
    const infq_gate_options *g = &p->gate;

    infq_jw_obj(w);
    infq_jw_key_str(w, "schema", SCHEMA);
    infq_jw_key_str(w, "name", p->name);
    infq_jw_key_str(w, "profile", p->profile);
    infq_jw_key_f64(w, "alpha", g->alpha);
    infq_jw_key_f64(w, "power", g->power);
    infq_jw_key_f64(w, "margin", g->margin);
    infq_jw_key_f64(w, "floor", g->band.floor);
    infq_jw_key_f64(w, "cap", g->band.cap);
    infq_jw_key_f64(w, "kappa", g->band.kappa);
    infq_jw_key_bool(w, "allow_gain", g->band.allow_gain);
    infq_jw_key_bool(w, "exact_level", g->band.exact_level);
    infq_jw_key_bool(w, "strict", g->strict);
    infq_jw_key_bool(w, "strict_detect", g->strict_detect);
    infq_jw_key_bool(w, "reproducible", g->reproducible);
    infq_jw_key_str(w, "noise", noise_names[g->noise]);
    infq_jw_key_str(w, "weights", weight_names[g->weights]);
    infq_jw_key_i64(w, "run_looks", p->run_looks);
    infq_jw_key_str(w, "stop", stop_names[p->stop]);
    infq_jw_key_i64(w, "seed", (int64_t)p->seed);
    infq_jw_key_str(w, "metric", p->metric);
    write_guards(&g->guards, w);
    write_lists(p, w);
    infq_jw_end_obj(w);
}

const infq_policy_task *infq_policy_find(const infq_policy *p, const char *task)
{
    static const infq_policy_task any = {"", "", NAN};

    if (p->n_tasks == 0)
        return &any;
    for (int i = 0; i < p->n_tasks; i++)
        if (strcmp(p->tasks[i].task, task) == 0)
            return &p->tasks[i];
    return NULL;
}

const char *infq_policy_metric(const infq_policy *p, const infq_policy_task *t)
{
    return t->metric[0] ? t->metric : p->metric[0] ? p->metric : NULL;
}

infq_gate_options infq_policy_options(const infq_policy *p, const infq_policy_task *t)
{
    infq_gate_options o = p->gate;

    if (!isnan(t->margin))
        o.margin = t->margin;
    return o;
}

static infq_status times_of(const char *path, int64_t *birth, int64_t *change, infq_err *err)
{
    struct statx x;

    if (statx(AT_FDCWD, path, 0, STATX_MTIME | STATX_BTIME, &x))
        return infq_err_set(err, INFQ_E_IO, "%s: %s", path, strerror(errno));
    *change = (int64_t)x.stx_mtime.tv_sec * 1000000000 + x.stx_mtime.tv_nsec;
    *birth = x.stx_mask & STATX_BTIME ? (int64_t)x.stx_btime.tv_sec * 1000000000 + x.stx_btime.tv_nsec : *change;
    return 0;
}

infq_status infq_policy_written_ns(const char *path, int64_t *ns, infq_err *err)
{
    int64_t birth;

    return times_of(path, &birth, ns, err);
}

infq_status infq_policy_run_began_ns(const char *path, int64_t *ns, infq_err *err)
{
    int64_t change;

    INFQ_TRY(times_of(path, ns, &change, err));
    if (*ns > change) // copied with its times: the copy is younger than what it holds
        *ns = change;
    return 0;
}
