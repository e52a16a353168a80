/* Rules by pattern: schemes and exceptions for some matrices. */
#include "lib/base/str.h"
#include "lib/compress/plan_int.h"

bool infq_plan_grouped(const infq_scheme *s)
{
    return s->codec.elem == INFQ_ELEM_U4 || s->codec.elem == INFQ_ELEM_U8;
}

static void apply(infq_plan *p, size_t k, const infq_pattern *pattern)
{
    const infq_plan_rule *rule = &p->o.rules[k];

    for (size_t i = 0; i < p->n; i++) {
        infq_plan_entry *e = &p->v[i];
        if (e->fate != INFQ_FATE_QUANTIZE || e->rule || !infq_pattern_match(pattern, e->module->name))
            continue;
        e->rule = rule;
        p->rule_hits[k]++;
    }
}

infq_status infq_plan_apply_rules(infq_plan *p, infq_err *err)
{
    for (size_t k = 0; k < p->o.n_rules; k++) {
        const infq_plan_rule *rule = &p->o.rules[k];
        infq_pattern *pattern = NULL;
        if (infq_pattern_new(rule->pattern, &pattern, err))
            return infq_err_in(err, "--type %s", rule->pattern);
        apply(p, k, pattern);
        infq_pattern_free(pattern);
        if (!p->rule_hits[k])
            return infq_err_set(err, INFQ_E_USAGE, "--type %s decides nothing: it matches no matrix of %s that is quantized and that no rule "
                                "before it matches (--include takes in more matrices)", rule->pattern, infq_checkpoint_path(p->ck));
        if (rule->scheme && rule->group_size && !infq_plan_grouped(rule->scheme))
            return infq_err_set(err, INFQ_E_USAGE, "--type %s: a group size does not apply to scheme %s", rule->pattern, rule->scheme->name);
    }
    for (size_t i = 0; i < p->n; i++) { // after all rules, so that a kept matrix still counts as matched
        infq_plan_entry *e = &p->v[i];
        if (e->rule && !e->rule->scheme) {
            e->fate = INFQ_FATE_COPY;
            e->reason = "kept by a rule";
        }
    }
    return 0;
}

infq_status infq_plan_rule_group(const infq_plan *p, const infq_plan_entry *e, int64_t *group, infq_err *err)
{
    static const int64_t sizes[] = {128, 64, 32};
    int64_t want = e->rule->group_size, cols = e->tensor->shape[1];

    *group = 0;
    if (!infq_plan_grouped(e->rule->scheme) || want == INFQ_GROUP_CHANNEL)
        return 0;
    if (want > 0) {
        if (cols % want)
            return infq_err_set(err, INFQ_E_USAGE, "--type %s: group size %lld does not divide the rows of %.60s (%lld)", e->rule->pattern,
                                (long long)want, e->module->name, (long long)cols);
        *group = want;
        return 0;
    }
    if (p->group_size > 0 && cols % p->group_size == 0)
        *group = p->group_size;
    for (size_t i = 0; i < 3 && !*group; i++)
        if (cols % sizes[i] == 0)
            *group = sizes[i];
    return 0;
}
