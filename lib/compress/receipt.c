/* infq.json and the change to config.json. */
#include <string.h>

#include "lib/base/hash.h"
#include "lib/compress/quantize.h"

static void key_str(infq_jw *w, const char *key, const char *v)
{
    infq_jw_key(w, key);
    infq_jw_str(w, v);
}

static void key_i64(infq_jw *w, const char *key, int64_t v)
{
    infq_jw_key(w, key);
    infq_jw_i64(w, v);
}

static void key_f64(infq_jw *w, const char *key, double v)
{
    infq_jw_key(w, key);
    infq_jw_f64(w, v);
}

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
    key_str(w, "path", infq_checkpoint_path(p->ck));
    infq_jw_key(w, "files");
    infq_jw_arr(w);
    for (size_t i = 0; i < infq_checkpoint_shard_count(p->ck); i++) {
        infq_jw_obj(w);
        key_str(w, "name", infq_checkpoint_shard_name(p->ck, i));
        key_i64(w, "bytes", (int64_t)infq_checkpoint_shard_bytes(p->ck, i));
        key_str(w, "sha256", r->shard_sha256[i]);
        infq_jw_end_obj(w);
    }
    infq_jw_end_arr(w);
    if (config && config->n) {
        INFQ_TRY(infq_sha256_of(config->data, config->n, hex, err));
        key_str(w, "config_sha256", hex);
    }
    infq_jw_end_obj(w);
    return INFQ_E_OK;
}

static void recipe(const infq_plan *p, infq_jw *w)
{
    const infq_codec *c = &p->o.scheme->codec;

    infq_jw_key(w, "recipe");
    infq_jw_obj(w);
    key_str(w, "command", "quantize");
    key_str(w, "scheme", p->o.scheme->name);
    key_i64(w, "bits", infq_elem_bits(c->elem));
    key_i64(w, "group_size", p->group_size);
    infq_jw_key(w, "symmetric");
    infq_jw_bool(w, c->zero == INFQ_ZERO_NONE);
    key_str(w, "method", p->o.method->name);
    key_str(w, "format", p->o.format->name);
    list(w, "ignore", p->o.ignore, p->o.n_ignore);
    list(w, "include", p->o.include, p->o.n_include);
    infq_jw_key(w, "allow_fallback");
    infq_jw_bool(w, p->o.allow_fallback);
    infq_jw_end_obj(w);
}

static void totals(const infq_plan *p, const infq_quantize_result *r, infq_jw *w)
{
    infq_jw_key(w, "achieved");
    infq_jw_obj(w);
    key_i64(w, "weights", p->weights);
    key_i64(w, "weights_quantized", p->weights_quantized);
    key_f64(w, "bits_per_weight", p->bits_per_weight);
    key_f64(w, "bits_per_weight_quantized", p->bits_per_weight_quantized);
    key_i64(w, "tensor_bytes_in", (int64_t)p->bytes_in);
    key_i64(w, "file_bytes_out", (int64_t)r->bytes_written);
    key_i64(w, "tensors_quantized", (int64_t)p->n_quantized);
    key_i64(w, "tensors_copied", (int64_t)p->n_copied);
    key_i64(w, "tensors_tied", (int64_t)p->n_tied);
    key_i64(w, "fallbacks", (int64_t)p->n_fallback);
    key_i64(w, "zero_groups", r->zero_groups);
    key_i64(w, "clipped", r->clipped);
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
        key_str(w, "tensor", e->tensor->name);
        key_str(w, "fate", infq_fate_name(e->fate));
        if (e->fate == INFQ_FATE_QUANTIZE) {
            key_str(w, "codec", infq_codec_describe(&e->codec, what, sizeof(what)));
            key_f64(w, "relative_error", infq_ledger_error(&r->rows[i]));
            key_i64(w, "zero_groups", r->rows[i].zero_groups);
            key_i64(w, "clipped", r->rows[i].clipped);
        } else {
            key_str(w, "reason", e->reason);
        }
        key_i64(w, "bytes_in", (int64_t)e->tensor->n_bytes);
        key_i64(w, "bytes_out", (int64_t)e->bytes_out);
        infq_jw_end_obj(w);
    }
    infq_jw_end_arr(w);
}

infq_status infq_receipt_write(const infq_plan *p, const infq_quantize_result *r, infq_buf *to, infq_err *err)
{
    infq_jw w = infq_jw_over(to, 2);

    infq_jw_obj(&w);
    key_str(&w, "schema", "infq.receipt.v1");
    key_str(&w, "version", INFQ_VERSION);
    INFQ_TRY(source(p, r, &w, err));
    recipe(p, &w);
    key_i64(&w, "seed", 0);
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

infq_status infq_config_insert(const char *text, size_t n, const char *quantization_config, infq_buf *to, infq_err *err)
{
    cJSON *tree = NULL, *q = NULL;
    infq_buf pretty;
    infq_jw w;
    size_t end = n, last;
    infq_status st = infq_json_parse(text, n, "config.json", &tree, err);
    bool empty;

    if (!st && (!cJSON_IsObject(tree) || cJSON_GetObjectItemCaseSensitive(tree, "quantization_config")))
        st = infq_err_set(err, INFQ_E_FORMAT, "not an object, or it has a quantization_config already");
    empty = !st && !tree->child;
    cJSON_Delete(tree);
    if (st)
        return st;
    // The text is valid JSON, so the last brace closes the object; white space in front of it stays behind the new member.
    while (text[end - 1] != '}')
        end--;
    last = end - 1;
    while (last > 0 && (text[last - 1] == ' ' || text[last - 1] == '\n' || text[last - 1] == '\r' || text[last - 1] == '\t'))
        last--;
    INFQ_TRY(infq_json_parse(quantization_config, strlen(quantization_config), "quantization_config", &q, err));
    infq_buf_init(&pretty);
    w = infq_jw_over(&pretty, 2);
    infq_jw_tree(&w, q);
    cJSON_Delete(q);
    infq_buf_add(to, text, last);
    infq_buf_str(to, empty ? "\n  \"quantization_config\": " : ",\n  \"quantization_config\": ");
    for (const char *c = pretty.data; *c; c++) {
        infq_buf_char(to, *c);
        if (*c == '\n')
            infq_buf_str(to, "  ");
    }
    if (last == end - 1)
        infq_buf_char(to, '\n');
    infq_buf_add(to, text + last, n - last);
    st = infq_buf_status(&pretty, err);
    infq_buf_deinit(&pretty);
    return st ? st : infq_buf_status(to, err);
}
