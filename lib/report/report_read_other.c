/* Benches, verifications, states of recipes: infq.bench.v1, infq.verify.v1, infq.run.v1. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "lib/base/file.h"
#include "lib/report/report_int.h"

infq_status infq_report_read_bench(infq_report *r, const cJSON *doc, infq_err *err)
{
    const cJSON *ttft = infq_json_get(infq_json_get(doc, "latency_ms"), "ttft"), *t;
    const char *path, *cpu;
    infq_report_model *m;
    infq_buf name;
    const char *kept;
    infq_status st;

    INFQ_TRY(infq_report_str(doc, "model", &path, err));
    INFQ_TRY(infq_report_str(doc, "cpu", &cpu, err));
    if (!path)
        return infq_err_set(err, INFQ_E_FORMAT, "model is missing");
    if (cpu)
        INFQ_TRY(infq_report_setting(r, "bench machine", cpu, err));
    infq_buf_init(&name);
    infq_buf_str(&name, infq_path_base(path));
    st = infq_report_text(r, &name, &kept, err);
    infq_buf_deinit(&name);
    if (st)
        return st;
    INFQ_TRY(infq_report_model_get(r, kept, path, &m, err));
    INFQ_TRY(infq_report_num(doc, "decode_tokens_per_s", &m->decode, err));
    INFQ_TRY(infq_report_num(doc, "prefill_tokens_per_s", &m->prefill, err));
    INFQ_TRY(infq_report_num(ttft, "p90", &m->ttft_p90, err));
    if (isnan(m->bytes))
        INFQ_TRY(infq_report_num(doc, "weight_bytes", &m->bytes, err));
    cJSON_ArrayForEach(t, infq_json_get(doc, "targets")) {
        const char *target, *verdict;
        double value;
        infq_buf text;
        INFQ_TRY(infq_report_str(t, "target", &target, err));
        INFQ_TRY(infq_report_str(t, "verdict", &verdict, err));
        INFQ_TRY(infq_report_num(t, "value_ms", &value, err));
        if (!target || !verdict)
            return infq_err_set(err, INFQ_E_FORMAT, "a target lacks target or verdict");
        infq_buf_init(&text);
        infq_buf_fmt(&text, "%s: target %s is %s (measured %.2f ms)", m->name, target, verdict, value);
        INFQ_TRY(infq_report_check_add(r, "bench", target, infq_report_verdict_of(verdict), true, &text, err));
    }
    return 0;
}

infq_status infq_report_read_verify(infq_report *r, const cJSON *doc, infq_err *err)
{
    const cJSON *o = infq_json_get(doc, "result"), *f;
    const char *path;
    bool passed, compared;
    double worst;
    int64_t matrices;
    infq_buf text;

    INFQ_TRY(infq_report_str(doc, "model", &path, err));
    if (!path || !o)
        return infq_err_set(err, INFQ_E_FORMAT, "model or result is missing");
    INFQ_TRY(infq_json_bool(o, "passed", false, &passed, err));
    INFQ_TRY(infq_json_bool(o, "compared_with_source", false, &compared, err));
    INFQ_TRY(infq_report_num(o, "largest_relative_error", &worst, err));
    INFQ_TRY(infq_report_int(o, "matrices", &matrices, err));
    infq_buf_init(&text);
    infq_buf_fmt(&text, "%s: %lld matrices decoded from the stored bytes", path, (long long)matrices);
    if (compared)
        infq_buf_fmt(&text, " and compared with the source, largest relative error %.4f", worst);
    cJSON_ArrayForEach(f, infq_json_get(o, "findings")) {
        const char *what;
        bool fails;
        if (!infq_report_str(f, "text", &what, err) && !infq_json_bool(f, "fails", false, &fails, err) && what)
            infq_buf_fmt(&text, "; %s%s", fails ? "FAIL " : "", what);
    }
    return infq_report_check_add(r, "verify", "stored bytes", passed ? INFQ_REPORT_PASS : INFQ_REPORT_FAIL, true, &text, err);
}

/* Steps that could not be done; those that were have results of their own. */
infq_status infq_report_read_run(infq_report *r, const cJSON *doc, infq_err *err)
{
    static const char *const keys[] = {"recipe", "recipe_sha256", "build_sha256", "version"};
    const cJSON *step, *v;

    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
        const char *text;
        INFQ_TRY(infq_report_str(doc, keys[i], &text, err));
        if (text)
            INFQ_TRY(infq_report_setting(r, keys[i], text, err));
    }
    cJSON_ArrayForEach(v, infq_json_get(doc, "variables"))
        if (cJSON_IsString(v) && v->valuestring[0])
            INFQ_TRY(infq_report_setting(r, v->string, v->valuestring, err));
    cJSON_ArrayForEach(step, infq_json_get(doc, "steps")) {
        const char *name, *state, *why;
        infq_buf text;
        INFQ_TRY(infq_report_str(step, "name", &name, err));
        INFQ_TRY(infq_report_str(step, "state", &state, err));
        INFQ_TRY(infq_report_str(step, "error", &why, err));
        if (!name || !state)
            return infq_err_set(err, INFQ_E_FORMAT, "a step lacks name or state");
        if (strcmp(state, "error") != 0)
            continue;
        infq_buf_init(&text);
        infq_buf_fmt(&text, "%s could not be done: %s", name, why ? why : "");
        INFQ_TRY(infq_report_check_add(r, "recipe", name, INFQ_REPORT_REFUSED, true, &text, err));
    }
    return 0;
}
