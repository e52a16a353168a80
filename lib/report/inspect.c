#include "lib/report/inspect.h"

#include <stdio.h>
#include <string.h>

#include "lib/base/str.h"
#include "lib/model/model.h"

// Parameters of a dense tensor; buffers that are no weights (integers) count as they are.
static void count_tensors(const infq_checkpoint *ck, infq_inspect *in)
{
    in->n_tensors = (int64_t)infq_checkpoint_count(ck);
    for (size_t i = 0; i < infq_checkpoint_count(ck); i++) {
        const infq_ck_tensor *t = infq_checkpoint_get(ck, i);
        in->dtype_tensors[t->dtype]++;
        in->dtype_bytes[t->dtype] += t->n_bytes;
        in->tensor_bytes += t->n_bytes;
        in->n_params += t->n_elems;
    }
}

// Elements of the tensors "module.*" that the quantized module is stored as: they are not parameters themselves.
static int64_t stored_elems(const infq_checkpoint *ck, const char *module, infq_buf *name)
{
    int64_t n = 0;

    for (size_t i = 0; infq_format_parts[i]; i++) {
        const infq_ck_tensor *t;
        infq_buf_clear(name);
        infq_buf_fmt(name, "%s.%s", module, infq_format_parts[i]);
        t = infq_checkpoint_find(ck, name->data);
        if (t)
            n += t->n_elems;
    }
    return n;
}

static infq_status count_quantized(const infq_checkpoint *ck, infq_inspect *in, infq_err *err)
{
    infq_reader *reader = NULL;
    infq_modules *modules = NULL;
    infq_arena *arena = NULL;
    infq_buf name;
    infq_status st;
    double bits = 0;

    infq_buf_init(&name);
    st = infq_reader_open(ck, &reader, err);
    if (st)
        goto done;
    snprintf(in->format, sizeof(in->format), "%s", infq_reader_format(reader));
    if (strcmp(in->format, "dense") == 0)
        goto done;
    st = infq_modules_find(ck, &modules, err);
    if (!st)
        st = infq_arena_new(65536, &arena, err);
    for (size_t i = 0; !st && i < infq_modules_count(modules); i++) {
        const infq_module *m = infq_modules_get(modules, i);
        infq_mark mark = infq_arena_mark(arena);
        infq_weight w;
        st = infq_reader_read(reader, m->name, arena, &w, err);
        if (!st && w.codec.scale != INFQ_ELEM_NONE) {
            in->n_params += w.n_rows * w.n_cols - stored_elems(ck, m->name, &name);
            in->n_quantized_params += w.n_rows * w.n_cols;
            bits += infq_weight_bits(&w);
            if (!in->codec[0])
                infq_codec_describe(&w.codec, in->codec, sizeof(in->codec));
        }
        infq_arena_release(arena, mark);
    }
    if (in->n_quantized_params)
        in->bits_per_quantized_weight = bits / (double)in->n_quantized_params;
done:
    infq_arena_free(arena);
    infq_modules_free(modules);
    infq_reader_close(reader);
    infq_buf_deinit(&name);
    return st;
}

static void memory_table(infq_inspect *in)
{
    static const int64_t batches[INFQ_INSPECT_BATCHES] = { 1, 8, 32 };
    int64_t most = in->config.max_positions;

    for (int c = 0; c < INFQ_INSPECT_CONTEXTS; c++) {
        int64_t n = most >> 2 * (INFQ_INSPECT_CONTEXTS - 1 - c); // a 64th, a 16th, a quarter, all
        in->contexts[c] = n > 0 ? n : 1;
        for (int b = 0; b < INFQ_INSPECT_BATCHES; b++) {
            in->batches[b] = batches[b];
            in->kv_bytes[c][b] = (uint64_t)infq_model_kv_bytes(&in->config, in->contexts[c]) * (uint64_t)batches[b];
        }
    }
}

infq_status infq_inspect_run(const infq_checkpoint *ck, infq_inspect *out, infq_err *err)
{
    infq_inspect in;
    infq_err why;

    memset(&in, 0, sizeof(in));
    count_tensors(ck, &in);
    INFQ_TRY(count_quantized(ck, &in, err));
    if (in.n_params)
        in.bits_per_weight = (double)in.tensor_bytes * 8 / (double)in.n_params;
    in.has_config = infq_checkpoint_config(ck) != NULL;
    if (in.has_config) {
        in.runnable = infq_config_read(ck, &in.config, &why) == INFQ_E_OK;
        if (in.runnable)
            memory_table(&in);
        else
            snprintf(in.not_runnable, sizeof(in.not_runnable), "%s", why.msg);
    }
    *out = in;
    return INFQ_E_OK;
}

static void shape_text(const infq_ck_tensor *t, infq_buf *to)
{
    infq_buf_char(to, '[');
    for (int d = 0; d < t->n_dims; d++)
        infq_buf_fmt(to, "%s%lld", d ? ", " : "", (long long)t->shape[d]);
    infq_buf_char(to, ']');
}

// 134515008 as "134,515,008".
static char *grouped(int64_t v, char out[32])
{
    char digits[32];
    int n = snprintf(digits, sizeof(digits), "%lld", (long long)v), k = 0;

    for (int i = 0; i < n; i++) {
        if (i && (n - i) % 3 == 0)
            out[k++] = ',';
        out[k++] = digits[i];
    }
    out[k] = '\0';
    return out;
}

void infq_inspect_text(const infq_checkpoint *ck, const infq_inspect *in, bool tensors, infq_buf *to)
{
    const infq_config *c = &in->config;
    char a[32], size[32];

    infq_buf_fmt(to, "%s: %s parameters in %lld tensors, %zu file%s, %s, %s, %.3f bits per weight\n", infq_checkpoint_path(ck),
                 grouped(in->n_params, a), (long long)in->n_tensors, infq_checkpoint_shard_count(ck),
                 infq_checkpoint_shard_count(ck) == 1 ? "" : "s", in->format,
                 infq_format_bytes((double)in->tensor_bytes, size, sizeof(size)), in->bits_per_weight);
    if (in->n_quantized_params)
        infq_buf_fmt(to, "quantized: %s parameters, %s, %.3f bits per weight\n", grouped(in->n_quantized_params, a), in->codec,
                     in->bits_per_quantized_weight);
    for (int d = 0; d < INFQ_DTYPE_COUNT; d++)
        if (in->dtype_tensors[d])
            infq_buf_fmt(to, "  %-8s %6lld tensors  %s\n", infq_dtype_name((infq_dtype)d), (long long)in->dtype_tensors[d],
                         infq_format_bytes((double)in->dtype_bytes[d], a, sizeof(a)));
    if (in->zeros_counted)
        infq_inspect_zeros_text(in, to);
    if (in->runnable) {
        infq_buf_fmt(to, "architecture: %s, %lld layers, hidden %lld, %lld heads of %lld (%lld key/value), ffn %lld, "
                         "vocabulary %lld, context %lld%s\n", c->model_type, (long long)c->n_layers, (long long)c->hidden,
                     (long long)c->n_heads, (long long)c->head_dim, (long long)c->n_kv_heads, (long long)c->ffn,
                     (long long)c->vocab, (long long)c->max_positions, c->tied ? ", tied head" : "");
        infq_buf_fmt(to, "memory (weights + key/value cache in F32):\n  %10s", "context");
        for (int b = 0; b < INFQ_INSPECT_BATCHES; b++)
            infq_buf_fmt(to, "  batch %-6lld", (long long)in->batches[b]);
        infq_buf_char(to, '\n');
        for (int k = 0; k < INFQ_INSPECT_CONTEXTS; k++) {
            infq_buf_fmt(to, "  %10lld", (long long)in->contexts[k]);
            for (int b = 0; b < INFQ_INSPECT_BATCHES; b++)
                infq_buf_fmt(to, "  %-12s", infq_format_bytes((double)(in->tensor_bytes + in->kv_bytes[k][b]), a, sizeof(a)));
            infq_buf_char(to, '\n');
        }
    } else if (in->has_config)
        infq_buf_fmt(to, "not runnable here: %s\n", in->not_runnable);
    else
        infq_buf_str(to, in->n_quantized_params ? "no config.json: it can be verified and converted, not run\n"
                                               : "no config.json: it can be quantized and converted, not run\n");
    for (size_t i = 0; tensors && i < infq_checkpoint_count(ck); i++) {
        const infq_ck_tensor *t = infq_checkpoint_get(ck, i);
        infq_buf_fmt(to, "%-8s ", infq_dtype_name(t->dtype));
        shape_text(t, to);
        infq_buf_fmt(to, " %s (%s)\n", t->name, infq_checkpoint_shard_name(ck, (size_t)t->shard));
    }
}

static void config_json(infq_jw *w, const infq_inspect *in)
{
    const infq_config *c = &in->config;

    infq_jw_key(w, "architecture");
    infq_jw_obj(w);
    infq_jw_key_str(w, "model_type", c->model_type);
    infq_jw_key_i64(w, "layers", c->n_layers);
    infq_jw_key_i64(w, "hidden", c->hidden);
    infq_jw_key_i64(w, "heads", c->n_heads);
    infq_jw_key_i64(w, "kv_heads", c->n_kv_heads);
    infq_jw_key_i64(w, "head_dim", c->head_dim);
    infq_jw_key_i64(w, "ffn", c->ffn);
    infq_jw_key_i64(w, "vocab", c->vocab);
    infq_jw_key_i64(w, "context", c->max_positions);
    infq_jw_key_bool(w, "tied", c->tied);
    infq_jw_end_obj(w);
    infq_jw_key(w, "memory");
    infq_jw_arr(w);
    for (int k = 0; k < INFQ_INSPECT_CONTEXTS; k++)
        for (int b = 0; b < INFQ_INSPECT_BATCHES; b++) {
            infq_jw_obj(w);
            infq_jw_key_i64(w, "context", in->contexts[k]);
            infq_jw_key_i64(w, "batch", in->batches[b]);
            infq_jw_key_i64(w, "kv_bytes", (int64_t)in->kv_bytes[k][b]);
            infq_jw_key_i64(w, "total_bytes", (int64_t)(in->kv_bytes[k][b] + in->tensor_bytes));
            infq_jw_end_obj(w);
        }
    infq_jw_end_arr(w);
}

void infq_inspect_json(const infq_checkpoint *ck, const infq_inspect *in, bool tensors, infq_buf *to)
{
    infq_jw w = infq_jw_over(to, 0);

    infq_jw_obj(&w);
    infq_jw_key_str(&w, "schema", "infq.inspect.v1");
    infq_jw_key_str(&w, "model", infq_checkpoint_path(ck));
    infq_jw_key_str(&w, "format", in->format);
    infq_jw_key_i64(&w, "parameters", in->n_params);
    infq_jw_key_i64(&w, "quantized_parameters", in->n_quantized_params);
    infq_jw_key_i64(&w, "tensors", in->n_tensors);
    infq_jw_key_i64(&w, "files", (int64_t)infq_checkpoint_shard_count(ck));
    infq_jw_key_i64(&w, "tensor_bytes", (int64_t)in->tensor_bytes);
    infq_jw_key_f64(&w, "bits_per_weight", in->bits_per_weight);
    if (in->n_quantized_params) {
        infq_jw_key_f64(&w, "bits_per_quantized_weight", in->bits_per_quantized_weight);
        infq_jw_key_str(&w, "codec", in->codec);
    }
    infq_jw_key(&w, "dtypes");
    infq_jw_obj(&w);
    for (int d = 0; d < INFQ_DTYPE_COUNT; d++)
        if (in->dtype_tensors[d]) {
            infq_jw_key(&w, infq_dtype_name((infq_dtype)d));
            infq_jw_obj(&w);
            infq_jw_key_i64(&w, "tensors", in->dtype_tensors[d]);
            infq_jw_key_i64(&w, "bytes", (int64_t)in->dtype_bytes[d]);
            infq_jw_end_obj(&w);
        }
    infq_jw_end_obj(&w);
    if (in->zeros_counted)
        infq_inspect_zeros_json(in, &w);
    infq_jw_key_bool(&w, "runnable", in->runnable);
    if (in->runnable)
        config_json(&w, in);
    else if (in->has_config) {
        infq_jw_key_str(&w, "not_runnable", in->not_runnable);
    }
    if (tensors) {
        infq_jw_key(&w, "tensor_list");
        infq_jw_arr(&w);
        for (size_t i = 0; i < infq_checkpoint_count(ck); i++) {
            const infq_ck_tensor *t = infq_checkpoint_get(ck, i);
            infq_jw_obj(&w);
            infq_jw_key_str(&w, "name", t->name);
            infq_jw_key_str(&w, "dtype", infq_dtype_name(t->dtype));
            infq_jw_key(&w, "shape");
            infq_jw_arr(&w);
            for (int d = 0; d < t->n_dims; d++)
                infq_jw_i64(&w, t->shape[d]);
            infq_jw_end_arr(&w);
            infq_jw_key_i64(&w, "bytes", (int64_t)t->n_bytes);
            infq_jw_end_obj(&w);
        }
        infq_jw_end_arr(&w);
    }
    infq_jw_end_obj(&w);
    infq_buf_char(to, '\n');
}
