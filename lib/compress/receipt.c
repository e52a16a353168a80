/* infq.json and the change to config.json. */
#include <string.h>

#include "lib/base/cpu.h"
#include "lib/base/hash.h"
#include "lib/base/json_edit.h"
#include "lib/compress/quantize.h"

static void list(infq_jw *w, const char *key, const char *const *v, size_t n)
{
    infq_jw_key(w, key);
    infq_jw_arr(w);
    for (size_t i = 0; i < n; i++)
        infq_jw_str(w, v[i]);
    infq_jw_end_arr(w);
}

static infq_status source(const infq_plan *p, const infq_quantize_result *r, infq_jw *w, infq_err *err)
{
    const infq_buf *config = infq_checkpoint_config_text(p->ck);
    char hex[65];

    infq_jw_key(w, "source");
    infq_jw_obj(w);
    infq_jw_key_str(w, "path", infq_checkpoint_path(p->ck));
    infq_jw_key(w, "files");
    infq_jw_arr(w);
    for (size_t i = 0; i < infq_checkpoint_shard_count(p->ck); i++) {
        infq_jw_obj(w);
        infq_jw_key_str(w, "name", infq_checkpoint_shard_name(p->ck, i));
        infq_jw_key_i64(w, "bytes", (int64_t)infq_checkpoint_shard_bytes(p->ck, i));
        infq_jw_key_str(w, "sha256", r->shard_sha256[i]);
        infq_jw_end_obj(w);
    }
    infq_jw_end_arr(w);
    if (config && config->n) {
        INFQ_TRY(infq_sha256_of(config->data, config->n, hex, err));
        infq_jw_key_str(w, "config_sha256", hex);
    }
    infq_jw_end_obj(w);
    return INFQ_E_OK;
}

static void rules(const infq_plan *p, infq_jw *w)
{
    if (!p->o.n_rules)
        return;
    infq_jw_key(w, "rules");
    infq_jw_arr(w);
    for (size_t i = 0; i < p->o.n_rules; i++) {
        const infq_plan_rule *r = &p->o.rules[i];
        infq_jw_obj(w);
        infq_jw_key_str(w, "match", r->pattern);
        if (r->scheme)
            infq_jw_key_str(w, "scheme", r->scheme->name);
        else
            infq_jw_key_bool(w, "keep", true);
        if (r->scheme && r->group_size)
            infq_jw_key_i64(w, "group_size", r->group_size);
        infq_jw_key_i64(w, "matrices", p->rule_hits[i]);
        infq_jw_end_obj(w);
    }
    infq_jw_end_arr(w);
}

static void recipe(const infq_plan *p, infq_jw *w)
{
    const infq_codec *c = &p->o.scheme->codec;

    infq_jw_key(w, "recipe");
    infq_jw_obj(w);
    infq_jw_key_str(w, "command", infq_plan_is_dense(p) ? "prune" : "quantize");
    if (!infq_plan_is_dense(p)) {
        infq_jw_key_str(w, "scheme", p->o.scheme->name);
        infq_jw_key_i64(w, "bits", infq_elem_bits(c->elem));
        infq_jw_key_i64(w, "group_size", p->group_size);
        infq_jw_key_bool(w, "symmetric", c->zero == INFQ_ZERO_NONE);
    }
    if (p->o.sparsity.fraction > 0.0) {
        infq_jw_key(w, "sparsity");
        infq_sparsity_json(&p->o.sparsity, infq_plan_updates(p), w);
    }
    infq_jw_key_str(w, "method", p->o.method->name);
    infq_jw_key_str(w, "format", p->o.format->name);
    if (p->o.calib) {
        infq_jw_key(w, "calibration");
        infq_jw_obj(w);
        infq_jw_key_str(w, "source", p->o.calib->source);
        infq_jw_key_i64(w, "windows", p->o.calib->n_windows);
        infq_jw_key_i64(w, "window", p->o.calib->window);
        infq_jw_key_str(w, "sha256", p->o.calib->digest);
        infq_jw_key_f64(w, "damping", p->o.damping);
        infq_jw_key_str(w, "cpu_level", infq_cpu_level_name(infq_cpu_level_get()));
        infq_jw_end_obj(w);
    }
    list(w, "ignore", p->o.ignore, p->o.n_ignore);
    list(w, "include", p->o.include, p->o.n_include);
    rules(p, w);
    infq_jw_key_bool(w, "allow_fallback", p->o.allow_fallback);
    infq_jw_end_obj(w);
}

static void totals(const infq_plan *p, const infq_quantize_result *r, infq_jw *w)
{
    infq_jw_key(w, "achieved");
    infq_jw_obj(w);
    infq_jw_key_i64(w, "weights", p->weights);
    infq_jw_key_i64(w, infq_plan_is_dense(p) ? "weights_pruned" : "weights_quantized", p->weights_quantized);
    infq_jw_key_f64(w, "bits_per_weight", p->bits_per_weight);
    infq_jw_key_f64(w, infq_plan_is_dense(p) ? "bits_per_weight_pruned" : "bits_per_weight_quantized", p->bits_per_weight_quantized);
    infq_jw_key_i64(w, "tensor_bytes_in", (int64_t)p->bytes_in);
    infq_jw_key_i64(w, "file_bytes_out", (int64_t)r->bytes_written);
    infq_jw_key_i64(w, infq_plan_is_dense(p) ? "tensors_pruned" : "tensors_quantized", (int64_t)p->n_quantized);
    infq_jw_key_i64(w, "tensors_copied", (int64_t)p->n_copied);
    infq_jw_key_i64(w, "tensors_tied", (int64_t)p->n_tied);
    infq_jw_key_i64(w, "fallbacks", (int64_t)p->n_fallback);
    if (p->o.sparsity.fraction > 0.0) {
        infq_jw_key_i64(w, "zeros", r->zeros);
        infq_jw_key_f64(w, "sparsity", (double)r->zeros / (double)p->weights_quantized);
    }
    if (!infq_plan_is_dense(p)) {
        infq_jw_key_i64(w, "zero_groups", r->zero_groups);
        infq_jw_key_i64(w, "clipped", r->clipped);
    }
    infq_jw_end_obj(w);
}

static void ledger(const infq_plan *p, const infq_quantize_result *r, infq_jw *w)
{
    char what[80];

    infq_jw_key(w, "ledger");
    infq_jw_arr(w);
    for (size_t i = 0; i < p->n; i++) {
        const infq_plan_entry *e = &p->v[i];
        infq_jw_obj(w);
        infq_jw_key_str(w, "tensor", e->tensor->name);
        infq_jw_key_str(w, "fate", infq_fate_name(e));
        if (e->fate == INFQ_FATE_QUANTIZE) {
            infq_jw_key_str(w, "codec", infq_codec_describe(&e->codec, what, sizeof(what)));
            infq_jw_key_f64(w, "relative_error", infq_ledger_error(&r->rows[i]));
            if (p->o.sparsity.fraction > 0.0)
                infq_jw_key_i64(w, "zeros", r->rows[i].zeros);
            if (e->codec.scale != INFQ_ELEM_NONE) {
                infq_jw_key_i64(w, "zero_groups", r->rows[i].zero_groups);
                infq_jw_key_i64(w, "clipped", r->rows[i].clipped);
            }
        } else {
            infq_jw_key_str(w, "reason", e->reason);
        }
        infq_jw_key_i64(w, "bytes_in", (int64_t)e->tensor->n_bytes);
        infq_jw_key_i64(w, "bytes_out", (int64_t)e->bytes_out);
        infq_jw_end_obj(w);
    }
    infq_jw_end_arr(w);
}

infq_status infq_receipt_write(const infq_plan *p, const infq_quantize_result *r, infq_buf *to, infq_err *err)
{
    infq_jw w = infq_jw_over(to, 2);

    infq_jw_obj(&w);
    infq_jw_key_str(&w, "schema", "infq.receipt.v1");
    infq_jw_key_str(&w, "version", INFQ_VERSION);
    INFQ_TRY(source(p, r, &w, err));
    recipe(p, &w);
    infq_jw_key_i64(&w, "seed", p->o.calib ? (int64_t)p->o.calib->seed : 0);
    totals(p, r, &w);
    infq_jw_key(&w, "verification");
    if (r->verified)
        infq_verify_report_json(r->verified, &w);
    else
        infq_jw_null(&w);
    ledger(p, r, &w);
    infq_jw_end_obj(&w);
    infq_buf_char(to, '\n');
    return infq_buf_status(to, err);
}

// The value in the look of a text with line breaks: two spaces a level, one level deep.
static infq_status pretty(const char *json, infq_buf *to, infq_err *err)
{
    infq_buf b;
    infq_jw w;
    cJSON *tree;
    infq_status st;

    INFQ_TRY(infq_json_parse(json, strlen(json), "quantization_config", &tree, err));
    infq_buf_init(&b);
    w = infq_jw_over(&b, 2);
    infq_jw_tree(&w, tree);
    cJSON_Delete(tree);
    for (const char *c = b.data; *c; c++) {
        infq_buf_char(to, *c);
        if (*c == '\n')
            infq_buf_str(to, "  ");
    }
    st = infq_buf_status(&b, err);
    infq_buf_deinit(&b);
    return st ? st : infq_buf_status(to, err);
}

infq_status infq_config_insert(const char *text, size_t n, const char *quantization_config, infq_buf *to, infq_err *err)
{
    cJSON *tree = NULL;
    infq_buf value;
    infq_status st = infq_json_parse(text, n, "config.json", &tree, err);

    if (!st && (!cJSON_IsObject(tree) || cJSON_GetObjectItemCaseSensitive(tree, "quantization_config")))
        st = infq_err_set(err, INFQ_E_FORMAT, "not an object, or it has a quantization_config already");
    cJSON_Delete(tree);
    if (st)
        return st;
    infq_buf_init(&value);
    if (memchr(text, '\n', n))
        st = pretty(quantization_config, &value, err);
    else
        infq_buf_str(&value, quantization_config);
    if (!st)
        st = infq_buf_status(&value, err);
    if (!st)
        st = infq_json_set(text, n, "quantization_config", value.data, to, err);
    infq_buf_deinit(&value);
    return st;
}
