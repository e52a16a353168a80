#include "lib/eval/answer.h"

#include <stdio.h>
#include <string.h>

#include "lib/base/json.h"
#include "lib/base/text.h"
#include "lib/eval/extract.h"
#include "lib/eval/generate.h"
#include "lib/eval/ifeval.h"

#define MAX_INSTRUCTIONS 64

typedef struct rule rule;

/* What was written and what is right. */
typedef struct {
    const char *text;
    size_t n;
    const char *target, *row;
} given;

typedef struct {
    const char *metric;
    const char *pattern;  /* NULL: the whole text */
    bool last;
} extraction;

struct rule {
    const char *name;
    infq_status (*judge)(infq_answers *a, infq_items *s, infq_item *it, const given *g, infq_err *err);
    const char *metric;
    extraction x[2];
    infq_match_rule match;
    bool list;            /* the target is a JSON list, one of it is enough */
};

struct infq_answers {
    rule rule;            /* a row of the table; "regex" completed by the task */
    infq_extract *x[2];
    infq_match *match;
};

// Comparison

static infq_status is_right(infq_answers *a, const infq_buf *answer, const char *target, bool *out, infq_err *err)
{
    cJSON *list = NULL;
    const cJSON *e;
    infq_status st = INFQ_E_OK;

    *out = false;
    if (!a->rule.list)
        return infq_match_equal(a->match, answer->data, answer->n, target, strlen(target), out, err);
    INFQ_TRY(infq_json_parse(target, strlen(target), "target", &list, err));
    if (!cJSON_IsArray(list))
        st = infq_err_set(err, INFQ_E_FORMAT, "the target is no list of answers");
    for (e = list->child; e && !st && !*out; e = e->next) {
        if (!cJSON_IsString(e))
            st = infq_err_set(err, INFQ_E_FORMAT, "the target holds something that is no text");
        else
            st = infq_match_equal(a->match, answer->data, answer->n, e->valuestring, strlen(e->valuestring), out, err);
    }
    cJSON_Delete(list);
    return st;
}

static infq_status judge_extracted(infq_answers *a, infq_items *s, infq_item *it, const given *g, infq_err *err)
{
    bool found = true, invalid = false, right;
    infq_buf answer;
    infq_status st = INFQ_E_OK;

    infq_buf_init(&answer);
    for (int i = 0; i < 2 && a->x[i] && !st; i++) {
        st = infq_extract_apply(a->x[i], g->text, g->n, &answer, &found, err);
        if (!st && i == 0)
            st = infq_items_text(s, answer.data, answer.n, &it->answer, err);
        invalid = i == 0 ? !found : invalid;
        right = false;
        if (!st && found)
            st = is_right(a, &answer, g->target, &right, err);
        if (!st)
            infq_item_metric_add(it, a->rule.x[i].metric, right);
    }
    infq_buf_deinit(&answer);
    if (!st)
        infq_item_metric_add(it, "invalid", invalid);
    return st;
}

static infq_status judge_instructions(infq_answers *a, infq_items *s, infq_item *it, const given *g, infq_err *err)
{
    bool strict[MAX_INSTRUCTIONS], loose[MAX_INSTRUCTIONS];
    int64_t n_strict = 0, n_loose = 0, n = 0;
    cJSON *doc = NULL;
    infq_ifeval *e = NULL;
    infq_status st;

    (void)a;
    if (!g->row)
        return infq_err_set(err, INFQ_E_FORMAT, "ifeval needs the row of its data file");
    INFQ_TRY(infq_json_parse(g->row, strlen(g->row), "row", &doc, err));
    st = infq_ifeval_new(doc, &e, err);
    if (!st)
        st = infq_ifeval_check(e, g->text, g->n, strict, loose, err);
    if (!st) {
        n = infq_ifeval_count(e);
        for (int64_t i = 0; i < n; i++) {
            n_strict += strict[i];
            n_loose += loose[i];
        }
        it->parts = n;
        infq_item_metric_add(it, "prompt_strict", n_strict == n);
        infq_item_metric_add(it, "inst_strict", (double)n_strict / (double)n);
        infq_item_metric_add(it, "prompt_loose", n_loose == n);
        infq_item_metric_add(it, "inst_loose", (double)n_loose / (double)n);
        st = infq_items_text(s, "", 0, &it->answer, err);
    }
    infq_ifeval_free(e);
    cJSON_Delete(doc);
    return st;
}

static infq_status judge_nothing(infq_answers *a, infq_items *s, infq_item *it, const given *g, infq_err *err)
{
    (void)a;
    infq_item_metric_add(it, "empty", infq_lstrip(g->text, g->n) == g->n);
    return infq_items_text(s, "", 0, &it->answer, err);
}

#define LAST_NUMBER "(-?[$0-9.,]{2,})|(-?[0-9]+)"
static const char *const number_ignores[] = { ",", "\\$", "(?s).*#### ", "\\.$" };

static const rule rules[] = {
    { .name = "gsm8k", .judge = judge_extracted, .metric = "exact_strict",
      .x = { { "exact_strict", "#### (\\-?[0-9\\.\\,]+)", false }, { "exact_flexible", LAST_NUMBER, true } },
      .match = { .ignore = number_ignores, .n_ignore = 4, .ignore_case = true } },
    { .name = "mgsm", .judge = judge_extracted, .metric = "exact_flexible",
      .x = { { "exact_flexible", LAST_NUMBER, true }, { "exact_whole", NULL, false } },
      .match = { .ignore_case = true, .ignore_punctuation = true } },
    { .name = "cot", .judge = judge_extracted, .metric = "exact_strict",
      .x = { { "exact_strict", "The answer is (\\-?[0-9\\.\\,]+)", false }, { "exact_flexible", LAST_NUMBER, true } },
      .match = { .ignore = number_ignores, .n_ignore = 4, .ignore_case = true } },
    { .name = "exact", .judge = judge_extracted, .metric = "exact", .x = { { "exact", NULL, false } } },
    { .name = "words", .judge = judge_extracted, .metric = "exact", .x = { { "exact", NULL, false } }, .list = true,
      .match = { .ignore_case = true, .ignore_punctuation = true, .words = true } },
    { .name = "regex", .judge = judge_extracted, .metric = "exact", .x = { { "exact", NULL, false } } },
    { .name = "ifeval", .judge = judge_instructions, .metric = "prompt_strict" },
    { .name = "code", .judge = judge_nothing, .metric = "" },
    { .name = "judge", .judge = judge_nothing, .metric = "" },
};
#define N_RULES ((int)(sizeof(rules) / sizeof(rules[0])))

int infq_answers_count(void)
{
    return N_RULES;
}

const char *infq_answers_name(int i)
{
    return rules[i].name;
}

const char *infq_answers_metric(const char *name, int k)
{
    static const char *const instructions[] = { "prompt_strict", "inst_strict", "prompt_loose", "inst_loose", "truncated", "length", NULL };
    const char *extracted[6] = { NULL };
    int row = 0, n = 0;

    while (row < N_RULES && strcmp(rules[row].name, name) != 0)
        row++;
    if (row == N_RULES || k < 0 || k > 6)
        return NULL;
    if (rules[row].judge == judge_instructions)
        return instructions[k];
    for (int i = 0; i < 2 && rules[row].x[i].metric; i++)
        extracted[n++] = rules[row].x[i].metric;
    extracted[n++] = rules[row].judge == judge_extracted ? "invalid" : "empty";
    extracted[n++] = "truncated";
    extracted[n++] = "length";
    return k < n ? extracted[k] : NULL;
}

bool infq_answers_judges(const char *name)
{
    for (int i = 0; i < N_RULES; i++)
        if (strcmp(rules[i].name, name) == 0)
            return rules[i].metric[0] != '\0';
    return false;
}

static infq_status unknown(const char *name, infq_err *err)
{
    char list[160] = "";

    for (int i = 0; i < N_RULES; i++)
        snprintf(list + strlen(list), sizeof(list) - strlen(list), "%s%s", i ? ", " : "", rules[i].name);
    return infq_err_set(err, INFQ_E_USAGE, "answers are not taken as \"%.40s\", only as %s", name, list);
}

infq_status infq_answers_open(const char *name, const infq_answer_regex *regex, infq_answers **out, infq_err *err)
{
    infq_answers *a;
    void *p;
    infq_status st = INFQ_E_OK;
    int row = 0;

    while (row < N_RULES && strcmp(rules[row].name, name) != 0)
        row++;
    if (row == N_RULES)
        return unknown(name, err);
    INFQ_TRY(infq_mem_new(1, sizeof(*a), "answers", &p, err));
    a = p;
    a->rule = rules[row];
    if (regex) {
        a->rule.x[0].pattern = regex->pattern;
        a->rule.x[0].last = regex->last;
        a->rule.list = regex->any;
        a->rule.match = (infq_match_rule){ .ignore = regex->ignore, .n_ignore = regex->n_ignore,
                                           .ignore_case = regex->ignore_case,
                                           .ignore_punctuation = regex->ignore_punctuation };
    }
    for (int i = 0; i < 2 && a->rule.x[i].metric && !st; i++)
        st = infq_extract_new(a->rule.x[i].pattern, a->rule.x[i].last, &a->x[i], err);
    if (!st)
        st = infq_match_new(&a->rule.match, &a->match, err);
    if (st)
        infq_answers_close(a);
    else
        *out = a;
    return st;
}

void infq_answers_close(infq_answers *a)
{
    if (!a)
        return;
    infq_extract_free(a->x[0]);
    infq_extract_free(a->x[1]);
    infq_match_free(a->match);
    infq_mem_free(a);
}

infq_status infq_answers_judge(infq_answers *a, infq_items *s, infq_item *it, const char *text, size_t n, const char *target,
                               const char *row, infq_err *err)
{
    given g = { text, n, target, row };

    it->n_metrics = 0;
    INFQ_TRY(infq_items_text(s, target, strlen(target), &it->target, err));
    INFQ_TRY(a->rule.judge(a, s, it, &g, err));
    infq_item_metric_add(it, "truncated", strcmp(it->stop, infq_finish_name(INFQ_FINISH_LENGTH)) == 0);
    infq_item_metric_add(it, "length", (double)it->n_tokens[0]);
    return INFQ_E_OK;
}
