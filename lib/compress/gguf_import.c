/* GGUF (llama architecture) to a transformers folder: names, rotary row order, config.json, tokenizer.json.
 * Metadata and names: formats.md 5.5, 5.6; docs/format/gguf.md. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/cpu.h"
#include "lib/base/hash.h"
#include "lib/base/str.h"
#include "lib/compress/convert_int.h"
#include "lib/io/gguf.h"
#include "lib/io/tokenizer.h"

typedef struct {
    const char *path;
    const infq_convert_options *o;
    const infq_log *log;
    infq_filemap map;
    infq_gguf *g;
    infq_folder *to;
    int64_t n_heads, n_kv_heads, hidden, n_layers, ffn, context, vocab, head_dim;
    double eps, rope_base;
    bool tied;
    infq_convert_report rep;
} import;

static const struct {
    const char *gguf, *hf;
} fixed_names[] = {
    { "token_embd.weight", "model.embed_tokens.weight" },
    { "output_norm.weight", "model.norm.weight" },
    { "output.weight", "lm_head.weight" },
}, layer_names[] = {
    { "attn_q", "self_attn.q_proj" },          { "attn_k", "self_attn.k_proj" },
    { "attn_v", "self_attn.v_proj" },          { "attn_output", "self_attn.o_proj" },
    { "ffn_gate", "mlp.gate_proj" },           { "ffn_up", "mlp.up_proj" },
    { "ffn_down", "mlp.down_proj" },           { "attn_norm", "input_layernorm" },
    { "ffn_norm", "post_attention_layernorm" },
};

// The transformers name into out; false for tensors that have none.
static bool hf_name(const char *name, char *out, size_t cap)
{
    int layer, at = 0;

    for (size_t i = 0; i < sizeof(fixed_names) / sizeof(fixed_names[0]); i++)
        if (strcmp(name, fixed_names[i].gguf) == 0) {
            snprintf(out, cap, "%s", fixed_names[i].hf);
            return true;
        }
    if (sscanf(name, "blk.%d.%n", &layer, &at) != 1 || at == 0)
        return false;
    for (size_t i = 0; i < sizeof(layer_names) / sizeof(layer_names[0]); i++) {
        size_t n = strlen(layer_names[i].gguf);
        if (strncmp(name + at, layer_names[i].gguf, n) == 0 && name[at + n] == '.') {
            snprintf(out, cap, "model.layers.%d.%s%s", layer, layer_names[i].hf, name + at + (int)n);
            return true;
        }
    }
    return false;
}

static infq_status number(const import *im, const char *key, double dflt, double *out, infq_err *err)
{
    const infq_gguf_value *v = infq_gguf_value_find(im->g, key);

    *out = dflt;
    if (v && (v->is_array || !infq_gguf_number(v, 0, out)))
        return infq_err_set(err, INFQ_E_FORMAT, "%s: %s is not a number", im->path, key);
    if (isnan(*out))
        return infq_err_set(err, INFQ_E_FORMAT, "%s: %s is missing", im->path, key);
    return INFQ_E_OK;
}

static infq_status whole(const import *im, const char *key, double dflt, int64_t *out, infq_err *err)
{
    double v;

    INFQ_TRY(number(im, key, dflt, &v, err));
    if (v != floor(v) || v < 1 || v > 1e9)
        return infq_err_set(err, INFQ_E_FORMAT, "%s: %s is %g", im->path, key, v);
    *out = (int64_t)v;
    return INFQ_E_OK;
}

// Scaled frequencies would need members that config.json does not get here: the model would run, and be wrong.
static infq_status no_rope_scaling(const import *im, infq_err *err)
{
    const infq_gguf_value *v = infq_gguf_value_find(im->g, "llama.rope.scaling.type");
    const char *s = "";
    uint64_t n = 0, pos = 0;

    if (!v)
        v = infq_gguf_value_find(im->g, "llama.rope.scale_linear");
    if (!v)
        return INFQ_E_OK;
    if (v->kind == INFQ_GGUF_STRING && !v->is_array && infq_gguf_string(v, &pos, &s, &n) && n == 4 &&
        memcmp(s, "none", 4) == 0)
        return INFQ_E_OK;
    return infq_err_set(err, INFQ_E_UNSUPPORTED, "%s: %s: scaled rotary frequencies cannot be converted", im->path, v->key);
}

static infq_status read_shape(import *im, infq_err *err)
{
    const infq_gguf_value *a = infq_gguf_value_find(im->g, "general.architecture");
    const infq_gguf_tensor *embed = NULL;
    const char *s = "";
    uint64_t n = 0, pos = 0;

    if (!a || a->kind != INFQ_GGUF_STRING || a->is_array || !infq_gguf_string(a, &pos, &s, &n))
        return infq_err_set(err, INFQ_E_FORMAT, "%s: general.architecture is missing", im->path);
    if (n != 5 || memcmp(s, "llama", 5) != 0)
        return infq_err_set(err, INFQ_E_UNSUPPORTED, "%s: architecture %.*s cannot be converted, only llama can", im->path,
                            n < 40 ? (int)n : 40, s);
    INFQ_TRY(whole(im, "llama.embedding_length", NAN, &im->hidden, err));
    INFQ_TRY(whole(im, "llama.block_count", NAN, &im->n_layers, err));
    INFQ_TRY(whole(im, "llama.feed_forward_length", NAN, &im->ffn, err));
    INFQ_TRY(whole(im, "llama.attention.head_count", NAN, &im->n_heads, err));
    INFQ_TRY(whole(im, "llama.attention.head_count_kv", (double)im->n_heads, &im->n_kv_heads, err));
    INFQ_TRY(whole(im, "llama.context_length", 2048, &im->context, err));
    INFQ_TRY(whole(im, "llama.attention.key_length", (double)(im->hidden / im->n_heads), &im->head_dim, err));
    INFQ_TRY(number(im, "llama.attention.layer_norm_rms_epsilon", NAN, &im->eps, err));
    INFQ_TRY(number(im, "llama.rope.freq_base", 10000, &im->rope_base, err));
    INFQ_TRY(no_rope_scaling(im, err));
    im->tied = true;
    for (size_t i = 0; i < infq_gguf_count(im->g); i++) {
        const infq_gguf_tensor *t = infq_gguf_get(im->g, i);
        if (strcmp(t->name, "token_embd.weight") == 0)
            embed = t;
        if (strcmp(t->name, "output.weight") == 0)
            im->tied = false;
    }
    if (!embed || embed->n_dims != 2 || embed->shape[1] != im->hidden)
        return infq_err_set(err, INFQ_E_FORMAT, "%s: token_embd.weight is missing or not [vocabulary, %lld]", im->path,
                            (long long)im->hidden);
    im->vocab = embed->shape[0];
    return INFQ_E_OK;
}

static infq_dtype out_dtype(const import *im)
{
    return im->o->cast ? im->o->dtype : INFQ_DTYPE_BF16;
}

static infq_status declare(import *im, infq_err *err)
{
    char name[160];

    for (size_t i = 0; i < infq_gguf_count(im->g); i++) {
        const infq_gguf_tensor *t = infq_gguf_get(im->g, i);
        infq_elem e = infq_ggml_elem(t->type);
        const char *type = "unknown";
        int block, bytes;

        infq_ggml_type(t->type, &type, &block, &bytes);
        if (!hf_name(t->name, name, sizeof(name))) {
            if (strcmp(t->name, "rope_freqs.weight") == 0)
                return infq_err_set(err, INFQ_E_UNSUPPORTED, "%s: rope_freqs.weight scales the rotary frequencies, which the "
                                    "configuration made here would lose", im->path);
            return infq_err_set(err, INFQ_E_UNSUPPORTED, "%s: tensor %s has no counterpart in transformers' names", im->path,
                                t->name);
        }
        if (infq_str_ends(t->name, ".bias"))
            return infq_err_set(err, INFQ_E_UNSUPPORTED, "%s: tensor %s: biases cannot be converted", im->path, t->name);
        if (e == INFQ_ELEM_NONE)
            return infq_err_set(err, INFQ_E_UNSUPPORTED, "%s: tensor %s is stored as %s, which cannot be decoded yet",
                                im->path, t->name, type);
        im->rep.bytes_in += t->n_bytes;
        INFQ_TRY(infq_folder_declare(im->to, name, out_dtype(im), t->n_dims, t->shape, err));
    }
    return INFQ_E_OK;
}

// GGUF interleaves the two rotary halves of each head in q and k: file row of row r of the transformers order.
static int64_t source_row(const import *im, const char *name, int64_t n_rows, int64_t r)
{
    int64_t heads = 0, d, h;

    if (strstr(name, "q_proj.weight"))
        heads = im->n_heads;
    else if (strstr(name, "k_proj.weight"))
        heads = im->n_kv_heads;
    if (!heads || n_rows % heads)
        return r;
    d = n_rows / heads;
    h = r / d;
    return d % 2 ? r : h * d + (r % d % (d / 2)) * 2 + r % d / (d / 2);
}

// Bytes of one row; rows are whole blocks (checked by the parser).
static infq_status decode_row(infq_elem e, const uint8_t *src, int64_t n, float *dst, infq_err *err)
{
    if (e == INFQ_ELEM_Q8_0 || e == INFQ_ELEM_Q4_0 || e == INFQ_ELEM_Q4_1)
        return infq_ggml_decode(e, src, n, dst, err);
    return infq_dtype_to_f32(e == INFQ_ELEM_F32 ? INFQ_DTYPE_F32 : e == INFQ_ELEM_F16 ? INFQ_DTYPE_F16
                             : e == INFQ_ELEM_BF16 ? INFQ_DTYPE_BF16 : INFQ_DTYPE_F64, src, n, dst, err);
}

static infq_status one_tensor(import *im, const infq_gguf_tensor *t, const char *name, infq_err *err)
{
    infq_elem e = infq_ggml_elem(t->type);
    int64_t n_cols = t->n_dims ? t->shape[t->n_dims - 1] : 1, n_rows = n_cols ? t->n_elems / n_cols : 0;
    size_t row_bytes = n_rows ? (size_t)(t->n_bytes / (uint64_t)n_rows) : 0;
    float *x = NULL;
    void *p, *buf = NULL;
    infq_status st;

    INFQ_TRY(infq_mem_new((size_t)n_cols + 1, sizeof(float), t->name, &p, err));
    x = p;
    st = infq_mem_new((size_t)n_cols + 1, sizeof(float), t->name, &buf, err);
    for (int64_t r = 0; !st && r < n_rows; r++) {
        const uint8_t *src = im->map.data + t->offset + (size_t)source_row(im, name, n_rows, r) * row_bytes;
        st = decode_row(e, src, n_cols, x, err);
        if (st)
            infq_err_in(err, "%s: %s", im->path, t->name);
        else
            st = infq_convert_put(im->to, name, out_dtype(im), x, r * n_cols, n_cols, buf, err);
    }
    infq_mem_free(x);
    infq_mem_free(buf);
    im->rep.n_decoded++;
    im->rep.n_tensors++;
    return st;
}

static infq_status write_tensors(import *im, infq_err *err)
{
    uint64_t done = 0;
    char name[160];

    for (size_t i = 0; i < infq_gguf_count(im->g); i++) {
        const infq_gguf_tensor *t = infq_gguf_get(im->g, i);
        INFQ_BUG_ON(!hf_name(t->name, name, sizeof(name))); // declared, so it has one
        infq_progress(im->log, t->name, done, im->rep.bytes_in);
        if (infq_interrupted)
            return infq_err_set(err, INFQ_E_INTERRUPTED, "interrupted at %s", t->name);
        INFQ_TRY(one_tensor(im, t, name, err));
        infq_filemap_drop(&im->map, t->offset, t->n_bytes);
        done += t->n_bytes;
    }
    for (size_t s = 0; s < infq_folder_shard_count(im->to); s++)
        INFQ_TRY(infq_folder_shard_done(im->to, s, err));
    return INFQ_E_OK;
}

static void token_id(const import *im, infq_jw *w, const char *key, const char *from)
{
    const infq_gguf_value *v = infq_gguf_value_find(im->g, from);
    double id;

    if (v && !v->is_array && infq_gguf_number(v, 0, &id) && id >= 0 && id < 1e9)
        infq_jw_key_i64(w, key, (int64_t)id);
}

// The double with the fewest digits that rounds to x: the file holds F32, people write 1e-05.
static double shortest(float x)
{
    char text[32];

    for (int digits = 1; digits < 9; digits++) {
        snprintf(text, sizeof(text), "%.*g", digits, x);
        if (strtof(text, NULL) == x)
            return strtod(text, NULL);
    }
    return x;
}

static infq_status write_config(import *im, infq_err *err)
{
    infq_buf b;
    infq_jw w;
    infq_status st;

    infq_buf_init(&b);
    w = infq_jw_over(&b, 2);
    infq_jw_obj(&w);
    infq_jw_key(&w, "architectures");
    infq_jw_arr(&w);
    infq_jw_str(&w, "LlamaForCausalLM");
    infq_jw_end_arr(&w);
    token_id(im, &w, "bos_token_id", "tokenizer.ggml.bos_token_id");
    token_id(im, &w, "eos_token_id", "tokenizer.ggml.eos_token_id");
    token_id(im, &w, "pad_token_id", "tokenizer.ggml.padding_token_id");
    infq_jw_key_i64(&w, "head_dim", im->head_dim);
    infq_jw_key_str(&w, "hidden_act", "silu");
    infq_jw_key_i64(&w, "hidden_size", im->hidden);
    infq_jw_key_i64(&w, "intermediate_size", im->ffn);
    infq_jw_key_i64(&w, "max_position_embeddings", im->context);
    infq_jw_key_str(&w, "model_type", "llama");
    infq_jw_key_i64(&w, "num_attention_heads", im->n_heads);
    infq_jw_key_i64(&w, "num_hidden_layers", im->n_layers);
    infq_jw_key_i64(&w, "num_key_value_heads", im->n_kv_heads);
    infq_jw_key_f64(&w, "rms_norm_eps", shortest((float)im->eps));
    infq_jw_key_f64(&w, "rope_theta", im->rope_base);
    infq_jw_key_bool(&w, "tie_word_embeddings", im->tied);
    infq_jw_key_str(&w, "torch_dtype", infq_convert_torch_name(out_dtype(im)));
    infq_jw_key_i64(&w, "vocab_size", im->vocab);
    infq_jw_end_obj(&w);
    infq_buf_char(&b, '\n');
    st = infq_buf_status(&b, err);
    if (!st)
        st = infq_folder_put(im->to, "config.json", b.data, b.n, err);
    infq_buf_deinit(&b);
    return st;
}

// Pre-tokenizers by their names in GGUF files (formats.md 3.4 and 5.5).
typedef struct {
    const char *name;
    const char *split;       // regular expression of a Split in front of ByteLevel, NULL: ByteLevel's own
    bool digits;             // Digits(individual) in front
} pretok;

static const pretok pretoks[] = {
    { "gpt-2", NULL, false },
    { "smollm", NULL, true },
    { "llama-bpe",
      "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|"
      "\\s+(?!\\S)|\\s+", false },
    { "qwen2",
      "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|"
      "\\s+(?!\\S)|\\s+", false },
};

static const pretok *find_pretok(const import *im)
{
    const infq_gguf_value *v = infq_gguf_value_find(im->g, "tokenizer.ggml.pre");
    const char *s;
    uint64_t n, pos = 0;

    if (!v || v->kind != INFQ_GGUF_STRING || v->is_array || !infq_gguf_string(v, &pos, &s, &n))
        return NULL;
    for (size_t i = 0; i < sizeof(pretoks) / sizeof(pretoks[0]); i++)
        if (strlen(pretoks[i].name) == n && memcmp(pretoks[i].name, s, (size_t)n) == 0)
            return &pretoks[i];
    return NULL;
}

static void byte_level(infq_jw *w, bool use_regex)
{
    infq_jw_obj(w);
    infq_jw_key_str(w, "type", "ByteLevel");
    infq_jw_key_bool(w, "add_prefix_space", false);
    infq_jw_key_bool(w, "trim_offsets", true);
    infq_jw_key_bool(w, "use_regex", use_regex);
    infq_jw_end_obj(w);
}

static void pre_tokenizer(infq_jw *w, const pretok *p)
{
    infq_jw_obj(w);
    infq_jw_key_str(w, "type", "Sequence");
    infq_jw_key(w, "pretokenizers");
    infq_jw_arr(w);
    if (p->digits) {
        infq_jw_obj(w);
        infq_jw_key_str(w, "type", "Digits");
        infq_jw_key_bool(w, "individual_digits", true);
        infq_jw_end_obj(w);
    }
    if (p->split) {
        infq_jw_obj(w);
        infq_jw_key_str(w, "type", "Split");
        infq_jw_key(w, "pattern");
        infq_jw_obj(w);
        infq_jw_key_str(w, "Regex", p->split);
        infq_jw_end_obj(w);
        infq_jw_key_str(w, "behavior", "Isolated");
        infq_jw_key_bool(w, "invert", false);
        infq_jw_end_obj(w);
    }
    byte_level(w, !p->split);
    infq_jw_end_arr(w);
    infq_jw_end_obj(w);
}

// Control tokens (type 3) and user-defined ones (4) become added tokens.
static void added_tokens(infq_jw *w, const infq_gguf_value *tokens, const infq_gguf_value *types)
{
    uint64_t pos = 0;
    const char *s;
    uint64_t n;

    infq_jw_arr(w);
    for (uint64_t i = 0; i < tokens->n && infq_gguf_string(tokens, &pos, &s, &n); i++) {
        double type = 1;
        if (!types || !infq_gguf_number(types, i, &type) || (type != 3 && type != 4))
            continue;
        infq_jw_obj(w);
        infq_jw_key_i64(w, "id", (int64_t)i);
        infq_jw_key(w, "content");
        infq_jw_strn(w, s, (size_t)n);
        infq_jw_key_bool(w, "single_word", false);
        infq_jw_key_bool(w, "lstrip", false);
        infq_jw_key_bool(w, "rstrip", false);
        infq_jw_key_bool(w, "normalized", false);
        infq_jw_key_bool(w, "special", type == 3);
        infq_jw_end_obj(w);
    }
    infq_jw_end_arr(w);
}

static void model_part(infq_jw *w, const infq_gguf_value *tokens, const infq_gguf_value *merges)
{
    uint64_t pos = 0, n;
    infq_buf key;
    const char *s;

    infq_buf_init(&key);
    infq_jw_obj(w);
    infq_jw_key_str(w, "type", "BPE");
    infq_jw_key(w, "vocab");
    infq_jw_obj(w);
    for (uint64_t i = 0; i < tokens->n && infq_gguf_string(tokens, &pos, &s, &n); i++) {
        infq_buf_clear(&key);
        infq_buf_add(&key, s, (size_t)n);
        infq_jw_key_i64(w, key.data, (int64_t)i);
    }
    infq_jw_end_obj(w);
    infq_jw_key(w, "merges");
    infq_jw_arr(w);
    pos = 0;
    for (uint64_t i = 0; i < merges->n && infq_gguf_string(merges, &pos, &s, &n); i++)
        infq_jw_strn(w, s, (size_t)n);
    infq_jw_end_arr(w);
    infq_jw_end_obj(w);
    infq_buf_deinit(&key);
}

static infq_status put_tokenizer(import *im, const pretok *p, const infq_gguf_value *tokens, const infq_gguf_value *merges,
                                 infq_err *err)
{
    infq_tokenizer *check = NULL;
    infq_buf b;
    infq_jw w;
    infq_status st;

    infq_buf_init(&b);
    w = infq_jw_over(&b, 1);
    infq_jw_obj(&w);
    infq_jw_key_str(&w, "version", "1.0");
    infq_jw_key(&w, "truncation");
    infq_jw_null(&w);
    infq_jw_key(&w, "padding");
    infq_jw_null(&w);
    infq_jw_key(&w, "added_tokens");
    added_tokens(&w, tokens, infq_gguf_value_find(im->g, "tokenizer.ggml.token_type"));
    infq_jw_key(&w, "normalizer");
    infq_jw_null(&w);
    infq_jw_key(&w, "pre_tokenizer");
    pre_tokenizer(&w, p);
    infq_jw_key(&w, "post_processor");
    infq_jw_null(&w);
    infq_jw_key(&w, "decoder");
    byte_level(&w, true);
    infq_jw_key(&w, "model");
    model_part(&w, tokens, merges);
    infq_jw_end_obj(&w);
    infq_buf_char(&b, '\n');
    st = infq_buf_status(&b, err);
    if (!st)
        st = infq_tokenizer_parse(b.data, b.n, &check, err); // what we write must be readable
    if (!st)
        st = infq_folder_put(im->to, "tokenizer.json", b.data, b.n, err);
    infq_tokenizer_free(check);
    infq_buf_deinit(&b);
    return st;
}

static infq_status write_tokenizer(import *im, infq_err *err)
{
    const infq_gguf_value *tokens = infq_gguf_value_find(im->g, "tokenizer.ggml.tokens");
    const infq_gguf_value *merges = infq_gguf_value_find(im->g, "tokenizer.ggml.merges");
    const pretok *p = find_pretok(im);

    if (!tokens || !tokens->is_array || tokens->kind != INFQ_GGUF_STRING || !merges || !merges->is_array ||
        merges->kind != INFQ_GGUF_STRING || !p) {
        infq_warn(im->log, "%s: its vocabulary is not a byte-level BPE that is known here, no tokenizer.json is written",
                  im->path);
        return INFQ_E_OK;
    }
    return put_tokenizer(im, p, tokens, merges, err);
}

static infq_status run(import *im, infq_err *err)
{
    infq_folder_options fo;
    char name[64];

    INFQ_TRY(infq_filemap_open(im->path, &im->map, err));
    if (infq_gguf_parse(im->map.data, im->map.size, &im->g, err))
        return infq_err_in(err, "%s", im->path);
    INFQ_TRY(read_shape(im, err));
    memset(&fo, 0, sizeof(fo));
    fo.path = im->o->out_path;
    fo.source = im->path;
    fo.force = im->o->force;
    fo.shard_bytes = im->o->shard_bytes;
    // The work takes seconds: nothing is resumed, so the fingerprint only has to differ from any other run's.
    snprintf(name, sizeof(name), "gguf %s %lld", INFQ_VERSION, (long long)infq_time_ns());
    INFQ_TRY(infq_sha256_of(name, strlen(name), fo.fingerprint, err));
    INFQ_TRY(infq_folder_begin(&fo, &im->to, err));
    INFQ_TRY(declare(im, err));
    INFQ_TRY(infq_folder_seal(im->to, err));
    INFQ_TRY(infq_convert_check_space(im->to, im->o->out_path, 16 << 20, err));
    INFQ_TRY(write_tensors(im, err));
    INFQ_TRY(write_config(im, err));
    INFQ_TRY(write_tokenizer(im, err));
    im->rep.bytes_out = infq_folder_total_bytes(im->to);
    im->rep.n_shards = infq_folder_shard_count(im->to);
    return INFQ_E_OK;
}

infq_status infq_convert_gguf(const char *path, const infq_convert_options *o, const infq_log *log, infq_convert_report *out,
                              infq_err *err)
{
    import im;
    infq_status st;

    memset(&im, 0, sizeof(im));
    im.path = path;
    im.o = o;
    im.log = log;
    if (infq_str_ends(o->out_path, ".safetensors"))
        return infq_err_set(err, INFQ_E_USAGE, "%s: a GGUF file becomes a folder; give a name without .safetensors",
                            o->out_path);
    st = run(&im, err);
    if (!st) {
        infq_folder *to = im.to;
        im.to = NULL;
        st = infq_folder_commit(to, err);
    }
    if (im.to)
        infq_folder_abort(im.to, false);
    infq_gguf_free(im.g);
    infq_filemap_close(&im.map);
    if (!st)
        *out = im.rep;
    return st;
}
