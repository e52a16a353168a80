/* Sample logs of the reference harness (lm-evaluation-harness 0.4, --log_samples), as specs 6.4 tells them. Its writer turns every leaf of "resps" and
 * "filtered_resps" into text, so a pair is ["-12.5", "False"]. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "lib/base/file.h"
#include "lib/base/hash.h"
#include "lib/base/str.h"
#include "lib/eval/item_int.h"

/* Number of a leaf that may be a number or its text. */
static bool leaf_number(const cJSON *v, double *out)
{
    if (cJSON_IsNumber(v)) {
        *out = v->valuedouble;
        return true;
    }
    return cJSON_IsString(v) && infq_parse_f64(v->valuestring, -1e308, 1e308, out);
}

static bool leaf_true(const cJSON *v)
{
    return cJSON_IsTrue(v) || (cJSON_IsString(v) && strcmp(v->valuestring, "True") == 0);
}

/* Number of pairs [ll, greedy], 0 when the responses are something else. */
static int64_t n_pairs(const cJSON *responses)
{
    const cJSON *r;
    int64_t n = 0;

    cJSON_ArrayForEach(r, responses) {
        double ll;
        if (!cJSON_IsArray(r) || cJSON_GetArraySize(r) != 2 || !leaf_number(cJSON_GetArrayItem(r, 0), &ll))
            return 0;
        n++;
    }
    return n;
}

static void take_pairs(const cJSON *responses, infq_item *it)
{
    const cJSON *r;
    int64_t i = 0;

    cJSON_ArrayForEach(r, responses) {
        leaf_number(cJSON_GetArrayItem(r, 0), &it->ll[i]);
        it->greedy[i++] = leaf_true(cJSON_GetArrayItem(r, 1));
    }
    for (i = 1; i < it->n; i++)
        if (it->ll[i] > it->ll[it->pick])
            it->pick = i;
}

/* Text of the first generated answer as the filter left it, and as the model gave it; NULL when the item is none of that kind. */
static const char *generated(const cJSON *line, const char **raw)
{
    const cJSON *filtered = cJSON_GetArrayItem(infq_json_get(line, "filtered_resps"), 0);
    const cJSON *r = cJSON_GetArrayItem(cJSON_GetArrayItem(infq_json_get(line, "resps"), 0), 0);

    *raw = cJSON_IsString(r) ? r->valuestring : NULL;
    return cJSON_IsString(filtered) ? filtered->valuestring : NULL;
}

static infq_status add_metric(infq_item *it, const char *name, double value, infq_err *err)
{
    if (!isfinite(value))
        return infq_err_set(err, INFQ_E_NUMERIC, "metric %.60s is not finite", name);
    if (it->n_metrics < INFQ_ITEM_METRICS)
        infq_item_metric_add(it, name, value);
    return 0;
}

/* Every metric that is one number (or true, false); lists belong to figures of the whole set. */
static infq_status take_metrics(const cJSON *line, infq_item *it, infq_err *err)
{
    const cJSON *v, *x;
    const char *answer, *raw;

    cJSON_ArrayForEach(v, infq_json_get(line, "metrics")) {
        if (!cJSON_IsString(v) || strlen(v->valuestring) >= sizeof(it->metrics[0].name))
            continue;
        x = infq_json_get(line, v->valuestring);
        if (cJSON_IsNumber(x) || cJSON_IsBool(x))
            INFQ_TRY(add_metric(it, v->valuestring, cJSON_IsNumber(x) ? x->valuedouble : cJSON_IsTrue(x), err));
    }
    if (it->n_metrics == 0)
        return infq_err_set(err, INFQ_E_FORMAT, "no metric with a number");
    answer = generated(line, &raw);
    if (answer)
        INFQ_TRY(add_metric(it, "invalid", strcmp(answer, "[invalid]") == 0, err));
    if (answer && raw)
        INFQ_TRY(add_metric(it, "length", (double)infq_utf8_count(raw, strlen(raw)), err));
    return 0;
}

static infq_status take_cluster(const cJSON *line, const char *key, infq_item *it, infq_err *err)
{
    const cJSON *v = infq_json_get(infq_json_get(line, "doc"), key);
    char hex[65], *text;
    infq_status st;

    if (!v)
        return infq_err_set(err, INFQ_E_FORMAT, "doc has no %s to group items by", key);
    text = cJSON_PrintUnformatted(v);
    if (!text)
        return infq_err_set(err, INFQ_E_NOMEM, "no memory for %s", key);
    st = infq_sha256_of(text, strlen(text), hex, err);
    cJSON_free(text);
    if (!st)
        snprintf(it->cluster, sizeof(it->cluster), "%.16s", hex);
    return st;
}

/* Both hashes in one field. They may be padded with zeros in front: their ends tell them apart. */
static void take_hashes(const char *doc, const char *prompt, infq_item *it)
{
    size_t n = strlen(doc), m = strlen(prompt);

    snprintf(it->request, sizeof(it->request), "%.32s%.32s", n > 32 ? doc + n - 32 : doc, m > 32 ? prompt + m - 32 : prompt);
}

infq_status infq_sample_read(infq_items *s, const cJSON *line, const infq_items_options *o, infq_err *err)
{
    const cJSON *responses = infq_json_get(line, "filtered_resps"), *target = infq_json_get(line, "target");
    const char *filter, *prompt, *doc_hash;
    int64_t n = n_pairs(responses);
    infq_item *it;
    double gold;

    INFQ_TRY(infq_json_str(line, "filter", "none", &filter, err));
    if (s->n == 0 && (!o->filter || strcmp(o->filter, filter) == 0))
        snprintf(s->key.settings, sizeof(s->key.settings), "filter=%.100s", filter);
    else if (s->n == 0 || strncmp(s->key.settings + 7, filter, 100) != 0)
        return 0;
    INFQ_TRY(infq_items_add(s, n > 0 ? n : 1, &it, err));
    INFQ_TRY(infq_json_i64(line, "doc_id", -1, &it->doc, err));
    INFQ_TRY(infq_json_str(line, "prompt_hash", "", &prompt, err));
    INFQ_TRY(infq_json_str(line, "doc_hash", "", &doc_hash, err));
    if (it->doc < 0)
        return infq_err_set(err, INFQ_E_FORMAT, "doc_id is missing");
    take_hashes(doc_hash, prompt, it);
    it->kind = n > 1 ? INFQ_ITEM_CHOICE : INFQ_ITEM_TARGET;
    if (n > 0)
        take_pairs(responses, it);
    // a target that is no index is the answer's text: which choice that is, the log does not say
    if (n > 1 && leaf_number(target, &gold) && gold >= 0 && gold < (double)n && gold == floor(gold))
        it->gold = (int64_t)gold;
    if (o->cluster)
        INFQ_TRY(take_cluster(line, o->cluster, it, err));
    INFQ_TRY(take_metrics(line, it, err));
    if (!s->key.metric[0])
        snprintf(s->key.metric, sizeof(s->key.metric), "%s", it->metrics[0].name);
    return 0;
}

void infq_sample_task_of(const char *path, char *out, size_t cap)
{
    static const char *const ends[] = {".gz", ".jsonl", ".json"};
    const char *base = infq_path_base(path);
    char name[256];
    size_t n;

    if (!infq_str_starts(base, "samples_"))
        return;
    snprintf(name, sizeof(name), "%s", base + 8);
    for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++)
        if (infq_str_ends(name, ends[i]))
            name[strlen(name) - strlen(ends[i])] = '\0';
    // "_2026-01-31T12-00-00.000000", with or without the fraction
    n = strlen(name);
    while (n > 0 && strchr("0123456789-T.", name[n - 1]))
        n--;
    if (n > 1 && name[n - 1] == '_' && strlen(name + n) >= 19 && name[n + 4] == '-' && name[n + 10] == 'T')
        name[n - 1] = '\0';
    snprintf(out, cap, "%s", name);
}
