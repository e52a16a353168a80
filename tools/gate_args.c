/* Policy and noise records as the commands that decide take them. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tools/cmd_eval.h"

infq_status gate_policy(const char *file, const char *profile, double margin, double alpha, double power, const char *metric,
                        bool reproducible, infq_policy *out, infq_err *err)
{
    bool numbers = !isnan(margin) || !isnan(alpha) || !isnan(power) || metric || reproducible;

    if (file && (profile || numbers))
        return infq_err_set(err, INFQ_E_USAGE, "--policy %s holds every number: --profile, --margin, --alpha, --power, --metric, "
                            "--reproducible cannot stand beside it", file);
    if (file)
        return infq_policy_load(file, out, err);
    INFQ_TRY(infq_policy_builtin(profile ? profile : "default", out, err));
    if (!isnan(margin))
        out->gate.margin = margin;
    if (!isnan(alpha))
        out->gate.alpha = alpha;
    if (!isnan(power))
        out->gate.power = power;
    if (metric && strlen(metric) >= sizeof(out->metric))
        return infq_err_set(err, INFQ_E_USAGE, "--metric %.40s: no metric has so long a name", metric);
    if (metric)
        strcpy(out->metric, metric);
    out->gate.reproducible = reproducible;
    if (numbers)
        snprintf(out->name, sizeof(out->name), "%s, changed by options", out->profile);
    return infq_policy_seal(out, err);
}

infq_status gate_policy_late(const char *policy, const char *const *items, int n_items, int *late, infq_err *err)
{
    int64_t written, began, first = INT64_MAX;

    if (!policy)
        return 0;
    INFQ_TRY(infq_policy_written_ns(policy, &written, err));
    for (int i = 0; i < n_items; i++) {
        INFQ_TRY(infq_policy_run_began_ns(items[i], &began, err));
        first = began < first ? began : first;
    }
    *late = written > first;
    return 0;
}

infq_status gate_noise_load(const opt_list *files, const char *digest_a, const char *digest_b, infq_noise **a, infq_noise **b,
                            infq_err *err)
{
    if (files->n > 2)
        return infq_err_set(err, INFQ_E_USAGE, "--noise: one record of the original, one of the compressed model");
    for (int i = 0; i < files->n; i++) {
        infq_noise *r = NULL;
        bool is_b;
        INFQ_TRY(infq_noise_load(files->v[i], &r, err));
        is_b = r->model_digest[0] && digest_b[0] && strcmp(r->model_digest, digest_b) == 0 && strcmp(digest_a, digest_b) != 0;
        if (!r->model_digest[0] || !digest_a[0] || strcmp(r->model_digest, digest_a) != 0)
            is_b = is_b || (i == 1 && *a);
        if (*(is_b ? b : a)) {
            // the same model on both sides, or no digest to tell them by: first and second
            if (!is_b && !*b) {
                *b = r;
                continue;
            }
            infq_noise_free(r);
            return infq_err_set(err, INFQ_E_MISMATCH, "%s: a record of that model was given already", files->v[i]);
        }
        *(is_b ? b : a) = r;
    }
    return 0;
}
