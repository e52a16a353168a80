#include "tests/testlib.h"

#include "lib/base/cursor.h"
#include "lib/base/rng.h"
#include "lib/compress/convert.h"
#include "lib/report/inspect.h"

static const infq_log quiet = { NULL, NULL, NULL };

// A folder (or bare file) of two BF16 matrices, an F32 vector and an I64 scalar.
static void make_model(const char *path, bool bare, const float *special, int64_t n_special)
{
    infq_folder_options fo;
    infq_folder *f = NULL;
    infq_err err;
    infq_rng rng = infq_rng_seed(3);
    int64_t shape[2] = { 96, 64 }, vec[1] = { n_special }, one[1] = { 1 }, value = 42;
    static uint16_t w[96 * 64];

    memset(&fo, 0, sizeof(fo));
    fo.path = path;
    fo.bare = bare;
    memset(fo.fingerprint, 'a', 64);
    ck_ok(infq_folder_begin(&fo, &f, &err), err);
    ck_ok(infq_folder_declare(f, "model.layers.0.mlp.up_proj.weight", INFQ_DTYPE_BF16, 2, shape, &err), err);
    ck_ok(infq_folder_declare(f, "model.layers.0.mlp.gate_proj.weight", INFQ_DTYPE_BF16, 2, shape, &err), err);
    ck_ok(infq_folder_declare(f, "x", INFQ_DTYPE_F32, 1, vec, &err), err);
    ck_ok(infq_folder_declare(f, "step", INFQ_DTYPE_I64, 1, one, &err), err);
    ck_ok(infq_folder_meta(f, "origin", "test", &err), err);
    ck_ok(infq_folder_seal(f, &err), err);
    for (int k = 0; k < 2; k++) {
        for (int i = 0; i < 96 * 64; i++)
            w[i] = infq_bf16_encode((float)infq_rng_normal(&rng));
        ck_ok(infq_folder_write(f, k ? "model.layers.0.mlp.gate_proj.weight" : "model.layers.0.mlp.up_proj.weight", 0, w,
                                sizeof(w), &err), err);
    }
    ck_ok(infq_folder_write(f, "x", 0, special, (size_t)n_special * sizeof(float), &err), err);
    ck_ok(infq_folder_write(f, "step", 0, &value, sizeof(value), &err), err);
    ck_ok(infq_folder_shard_done(f, 0, &err), err);
    if (!bare) {
        const char *config = "{\n  \"model_type\": \"none\",\n  \"torch_dtype\": \"bfloat16\",\n  \"odd\": [1]\n}\n";
        ck_ok(infq_folder_put(f, "config.json", config, strlen(config), &err), err);
        ck_ok(infq_folder_put(f, "notes.txt", "side\n", 5, &err), err);
    }
    ck_ok(infq_folder_commit(f, &err), err);
}

static infq_status convert(const char *in, const char *out, const char *dtype, uint64_t shard_bytes, infq_convert_report *r,
                           infq_err *err)
{
    infq_convert_options o;
    infq_checkpoint *ck = NULL;
    infq_status st;

    memset(&o, 0, sizeof(o));
    o.out_path = out;
    o.shard_bytes = shard_bytes;
    o.cast = dtype != NULL;
    if (dtype)
        ck_assert(infq_convert_dtype(dtype, &o.dtype));
    ck_ok(infq_checkpoint_open(in, &quiet, &ck, err), *err);
    st = infq_convert_run(ck, &o, &quiet, r, err);
    infq_checkpoint_close(ck);
    return st;
}

// Tensor of a model, decoded to F32 (infq_mem_free).
static float *values(const char *path, const char *name, int64_t *n, infq_dtype *dtype)
{
    infq_checkpoint *ck = NULL;
    infq_err err;
    const infq_ck_tensor *t;
    float *x;

    ck_ok(infq_checkpoint_open(path, &quiet, &ck, &err), err);
    t = infq_checkpoint_find(ck, name);
    ck_assert_msg(t != NULL, "%s has no %s", path, name);
    x = infq_mem_alloc((size_t)t->n_elems * sizeof(float) + 1);
    ck_ok(infq_dtype_to_f32(t->dtype, infq_checkpoint_data(ck, t), t->n_elems, x, &err), err);
    *n = t->n_elems;
    *dtype = t->dtype;
    infq_checkpoint_close(ck);
    return x;
}

static void same_file(const char *a, const char *b)
{
    infq_buf x, y;
    infq_err err;

    infq_buf_init(&x);
    infq_buf_init(&y);
    ck_ok(infq_file_read(a, 1 << 26, &x, &err), err);
    ck_ok(infq_file_read(b, 1 << 26, &y, &err), err);
    ck_assert_uint_eq(x.n, y.n);
    ck_assert_int_eq(memcmp(x.data, y.data, x.n), 0);
    infq_buf_deinit(&x);
    infq_buf_deinit(&y);
}

START_TEST(bf16_to_f32_and_back_gives_the_same_values)
{
    const char *d = test_tmpdir();
    float special[4] = { 0.0f, -0.0f, 1.5f, -3e38f };
    infq_convert_report r;
    infq_err err;
    infq_buf b;

    make_model(test_in(d, "a"), false, special, 4);
    ck_ok(convert(test_in(d, "a"), test_in(d, "f32"), "f32", 0, &r, &err), err);
    ck_assert_int_eq(r.n_cast, 2);
    ck_ok(convert(test_in(d, "f32"), test_in(d, "bf16"), "bf16", 0, &r, &err), err);
    for (int k = 0; k < 2; k++) {
        const char *name = k ? "model.layers.0.mlp.up_proj.weight" : "model.layers.0.mlp.gate_proj.weight";
        int64_t n, m;
        infq_dtype t, u;
        float *x = values(test_in(d, "a"), name, &n, &t), *y = values(test_in(d, "bf16"), name, &m, &u);
        ck_assert_int_eq(u, INFQ_DTYPE_BF16);
        ck_assert_int_eq(n, m);
        ck_assert_int_eq(memcmp(x, y, (size_t)n * sizeof(float)), 0);
        infq_mem_free(x);
        infq_mem_free(y);
    }
    same_file(test_in(d, "a/notes.txt"), test_in(d, "f32/notes.txt"));
    infq_buf_init(&b);
    ck_ok(infq_file_read(test_in(d, "f32/config.json"), 1000, &b, &err), err);
    ck_assert_str_eq(b.data, "{\n  \"model_type\": \"none\",\n  \"torch_dtype\": \"float32\",\n  \"odd\": [1]\n}\n");
    infq_buf_deinit(&b);
}
END_TEST

START_TEST(shards_hold_the_same_tensors_and_metadata)
{
    const char *d = test_tmpdir();
    float special[2] = { 1, 2 };
    infq_convert_report r;
    infq_checkpoint *ck = NULL;
    infq_err err;
    const char *key, *value;
    bool origin = false;

    make_model(test_in(d, "a"), false, special, 2);
    ck_ok(convert(test_in(d, "a"), test_in(d, "s"), NULL, 13000, &r, &err), err);
    ck_assert_uint_ge(r.n_shards, 2);
    ck_assert(infq_path_exists(test_in(d, "s/model.safetensors.index.json")));
    ck_ok(infq_checkpoint_open(test_in(d, "s"), &quiet, &ck, &err), err);
    ck_assert_uint_eq(infq_checkpoint_count(ck), 4);
    for (size_t i = 0; i < infq_checkpoint_meta_count(ck); i++) {
        infq_checkpoint_meta_get(ck, i, &key, &value);
        origin |= strcmp(key, "origin") == 0 && strcmp(value, "test") == 0;
    }
    ck_assert(origin);
    infq_checkpoint_close(ck);
    // And back to one file: equal to the first, byte for byte, because the writer's order is fixed.
    ck_ok(convert(test_in(d, "s"), test_in(d, "one"), NULL, 0, &r, &err), err);
    same_file(test_in(d, "a/model.safetensors"), test_in(d, "one/model.safetensors"));
}
END_TEST

START_TEST(fp8_saturates_finite_values_and_refuses_others)
{
    // Case B18: 464 and 465 and 1e30 saturate at 448; the sign of zero stays.
    const char *d = test_tmpdir();
    float ok[6] = { 448, 465, -1e30f, 0.0f, -0.0f, 1.0f }, bad[3][2] = { { 1, NAN }, { 1, INFINITY }, { -INFINITY, 1 } };
    float want[6] = { 448, 448, -448, 0.0f, -0.0f, 1 };
    infq_convert_report r;
    infq_err err;
    infq_dtype t;
    int64_t n;
    float *x;

    make_model(test_in(d, "a.safetensors"), true, ok, 6);
    ck_ok(convert(test_in(d, "a.safetensors"), test_in(d, "o.safetensors"), "f8_e4m3", 0, &r, &err), err);
    x = values(test_in(d, "o.safetensors"), "x", &n, &t);
    ck_assert_int_eq(t, INFQ_DTYPE_F8_E4M3);
    for (int i = 0; i < 6; i++)
        ck_assert_msg(x[i] == want[i] && signbit(x[i]) == signbit(want[i]), "%d: %g, not %g", i, x[i], want[i]);
    infq_mem_free(x);
    for (int k = 0; k < 3; k++) {
        char in[16], out[20];
        snprintf(in, sizeof(in), "b%d.safetensors", k);
        snprintf(out, sizeof(out), "c%d.safetensors", k);
        make_model(test_in(d, in), true, bad[k], 2);
        ck_assert_int_eq(convert(test_in(d, in), test_in(d, out), "f8_e4m3", 0, &r, &err), INFQ_E_NUMERIC);
        ck_assert_ptr_nonnull(strstr(err.msg, "x: element "));
        ck_assert(!infq_path_exists(test_in(d, out)));
    }
}
END_TEST

START_TEST(f16_refuses_what_it_cannot_hold)
{
    const char *d = test_tmpdir();
    float edge[2] = { 65519.0f, INFINITY }, over[2] = { 1, 65520.0f };
    infq_convert_report r;
    infq_err err;

    make_model(test_in(d, "a.safetensors"), true, edge, 2);
    ck_ok(convert(test_in(d, "a.safetensors"), test_in(d, "o.safetensors"), "f16", 0, &r, &err), err);
    make_model(test_in(d, "b.safetensors"), true, over, 2);
    ck_assert_int_eq(convert(test_in(d, "b.safetensors"), test_in(d, "p.safetensors"), "f16", 0, &r, &err), INFQ_E_NUMERIC);
    ck_assert_str_eq(err.msg, "x: element 1 is 65520, beyond the range of F16");
}
END_TEST

// A file of one F64 tensor "x".
static void make_f64(const char *path, const double *x, int64_t n)
{
    infq_folder_options fo = { .path = path, .bare = true, .fingerprint = "f64" };
    infq_folder *f = NULL;
    infq_err err;

    ck_ok(infq_folder_begin(&fo, &f, &err), err);
    ck_ok(infq_folder_declare(f, "x", INFQ_DTYPE_F64, 1, &n, &err), err);
    ck_ok(infq_folder_seal(f, &err), err);
    ck_ok(infq_folder_write(f, "x", 0, x, (size_t)n * sizeof(*x), &err), err);
    ck_ok(infq_folder_shard_done(f, 0, &err), err);
    ck_ok(infq_folder_commit(f, &err), err);
}

START_TEST(f64_is_rounded_once_and_refused_beyond_f32)
{
    // 1 + 2^-8 is the middle of two BF16 values: what lies above or below it by less than F32 can hold decides.
    const double x[8] = { 1 + 0x1p-8, 1 + 0x1p-8 + 0x1p-40, 1 + 0x1p-8 - 0x1p-40, -(1 + 0x1p-8 + 0x1p-40),
                          1 + 3 * 0x1p-8 - 0x1p-50, 0x1p-149 * 0.75, -0.0, 3.0 };
    const float bf16[8] = { 1, 1 + 0x1p-7f, 1, -(1 + 0x1p-7f), 1 + 0x1p-7f, 0, -0.0f, 3 };
    const float f32[8] = { 1 + 0x1p-8f, 1 + 0x1p-8f, 1 + 0x1p-8f, -(1 + 0x1p-8f), 1 + 3 * 0x1p-8f, 0x1p-149f, -0.0f, 3 };
    const double over[3] = { 1, INFINITY, 1e300 };
    const char *d = test_tmpdir();
    infq_convert_report r;
    infq_err err;
    infq_dtype t;
    int64_t n;

    make_f64(test_in(d, "a.safetensors"), x, 8);
    for (int k = 0; k < 2; k++) {
        const char *out = test_in(d, k ? "f32.safetensors" : "bf16.safetensors");
        float *y;
        ck_ok(convert(test_in(d, "a.safetensors"), out, k ? "f32" : "bf16", 0, &r, &err), err);
        y = values(out, "x", &n, &t);
        for (int i = 0; i < 8; i++)
            ck_assert_msg(memcmp(&y[i], k ? &f32[i] : &bf16[i], sizeof(float)) == 0, "%s %d: %a", infq_dtype_name(t), i, y[i]);
        infq_mem_free(y);
    }
    make_f64(test_in(d, "b.safetensors"), over, 3); // infinity stays, what is finite must stay finite
    ck_assert_int_eq(convert(test_in(d, "b.safetensors"), test_in(d, "c.safetensors"), "f32", 0, &r, &err), INFQ_E_NUMERIC);
    ck_assert_str_eq(err.msg, "x: element 2 is beyond the range of F32");
    ck_assert_int_eq(convert(test_in(d, "b.safetensors"), test_in(d, "c.safetensors"), "bf16", 0, &r, &err), INFQ_E_NUMERIC);
    make_f64(test_in(d, "e.safetensors"), over + 2, 1); // FP8 saturates
    ck_ok(convert(test_in(d, "e.safetensors"), test_in(d, "g.safetensors"), "f8_e4m3", 0, &r, &err), err);
}
END_TEST

START_TEST(gguf_import_equals_the_transformers_folder)
{
    const char *d = test_tmpdir();
    infq_convert_options o;
    infq_convert_report r;
    infq_checkpoint *a = NULL, *b = NULL;
    infq_err err;

    TEST_NEEDS_SHARED();
    memset(&o, 0, sizeof(o));
    o.out_path = test_in(d, "s");
    o.cast = true;
    o.dtype = INFQ_DTYPE_F32;
    ck_ok(infq_convert_gguf(test_shared_path("data/model-stories260k/gguf/stories260K-f32.gguf"), &o, &quiet, &r, &err), err);
    ck_ok(infq_checkpoint_open(o.out_path, &quiet, &a, &err), err);
    ck_ok(infq_checkpoint_open(test_shared_path("data/model-stories260k/hf"), &quiet, &b, &err), err);
    for (size_t i = 0; i < infq_checkpoint_count(b); i++) {
        const infq_ck_tensor *t = infq_checkpoint_get(b, i), *u = infq_checkpoint_find(a, t->name);
        ck_assert_msg(u != NULL, "%s is missing", t->name);
        ck_assert_int_eq(t->dtype, INFQ_DTYPE_F32);
        ck_assert_uint_eq(t->n_bytes, u->n_bytes);
        ck_assert_msg(memcmp(infq_checkpoint_data(b, t), infq_checkpoint_data(a, u), t->n_bytes) == 0, "%s differs", t->name);
    }
    infq_checkpoint_close(a);
    infq_checkpoint_close(b);
}
END_TEST

// A GGUF file of the llama family with one layer-less embedding, and one more tensor or text when named.
static void make_gguf(const char *path, const char *tensor, const char *key, const char *text)
{
    static const char *const numbers[] = { "llama.embedding_length", "llama.block_count", "llama.feed_forward_length",
                                           "llama.attention.head_count" };
    static const uint8_t zeros[256];
    infq_buf b;
    infq_err err;
    float eps = 1e-5f;

    infq_buf_init(&b);
#define U32(v) (infq_store_u32le(four, (uint32_t)(v)), infq_buf_add(&b, four, 4))
#define U64(v) (infq_store_u64le(eight, (uint64_t)(v)), infq_buf_add(&b, eight, 8))
#define TEXT(s) (U64(strlen(s)), infq_buf_str(&b, s))
    uint8_t four[4], eight[8];
    infq_buf_str(&b, "GGUF");
    U32(3);
    U64(tensor ? 2 : 1);
    U64(key ? 7 : 6);
    TEXT("general.architecture");
    U32(8);
    TEXT("llama");
    for (int i = 0; i < 4; i++) {
        TEXT(numbers[i]);
        U32(4);
        U32(i == 3 ? 2 : 8);
    }
    TEXT("llama.attention.layer_norm_rms_epsilon");
    U32(6);
    infq_buf_add(&b, &eps, 4);
    if (key) {
        TEXT(key);
        U32(8);
        TEXT(text);
    }
    TEXT("token_embd.weight");
    U32(2);
    U64(8);
    U64(4);
    U32(0);
    U64(0);
    if (tensor) {
        TEXT(tensor);
        U32(1);
        U64(8);
        U32(0);
        U64(128);
    }
#undef U32
#undef U64
#undef TEXT
    infq_buf_add(&b, zeros, (32 - b.n % 32) % 32);
    infq_buf_add(&b, zeros, tensor ? 160 : 128);
    ck_ok(infq_buf_status(&b, &err), err);
    ck_ok(infq_file_write_atomic(path, b.data, b.n, true, &err), err);
    infq_buf_deinit(&b);
}

START_TEST(gguf_import_names_the_type_that_it_writes)
{
    static const struct {
        infq_dtype dtype;
        const char *name;
    } t[] = { { INFQ_DTYPE_F32, "float32" }, { INFQ_DTYPE_F16, "float16" }, { INFQ_DTYPE_F8_E4M3, "float8_e4m3fn" } };
    const char *d = test_tmpdir();

    make_gguf(test_in(d, "m.gguf"), NULL, NULL, NULL);
    for (size_t i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
        infq_convert_options o = { .out_path = test_in(d, "out"), .force = true, .cast = true, .dtype = t[i].dtype };
        infq_convert_report r;
        infq_err err;
        cJSON *config;
        ck_ok(infq_convert_gguf(test_in(d, "m.gguf"), &o, &quiet, &r, &err), err);
        config = test_json(test_in(d, "out/config.json"));
        ck_assert_str_eq(infq_json_get(config, "torch_dtype")->valuestring, t[i].name);
        cJSON_Delete(config);
    }
}
END_TEST

START_TEST(gguf_import_refuses_what_it_would_get_wrong)
{
    static const struct {
        const char *tensor, *key, *text, *says; // says NULL: accepted
    } t[] = {
        { NULL, NULL, NULL, NULL },
        { NULL, "llama.rope.scaling.type", "none", NULL },
        { NULL, "llama.rope.scaling.type", "yarn", "llama.rope.scaling.type" },
        { "rope_freqs.weight", NULL, NULL, "rope_freqs.weight" },
        { "blk.0.attn_q.bias", NULL, NULL, "blk.0.attn_q.bias" },
        { "blk.0.unheard_of.weight", NULL, NULL, "blk.0.unheard_of.weight" },
    };
    const char *d = test_tmpdir();

    for (size_t i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
        infq_convert_options o = { .out_path = test_in(d, "out"), .force = true };
        infq_convert_report r;
        infq_err err = { 0 };
        infq_status st;
        make_gguf(test_in(d, "m.gguf"), t[i].tensor, t[i].key, t[i].text);
        st = infq_convert_gguf(test_in(d, "m.gguf"), &o, &quiet, &r, &err);
        ck_assert_msg(st == (t[i].says ? INFQ_E_UNSUPPORTED : INFQ_E_OK), "%d: status %d: %s", (int)i, (int)st, err.msg);
        if (t[i].says) {
            ck_assert_msg(strstr(err.msg, t[i].says) != NULL, "%s", err.msg);
            ck_assert(!infq_path_exists(test_in(d, "out.partial")));
        }
    }
}
END_TEST

START_TEST(quantized_folders_dequantize_to_their_golden_values)
{
    static const char *const folders[] = { "ct-w4a16-g32", "ct-w4a16-asym-g128", "ct-w8a8-int8", "ct-fp8-dynamic",
                                           "ct-fp8-block" };
    const char *d = test_tmpdir();
    infq_convert_options o;
    infq_convert_report r;
    infq_checkpoint *ck = NULL, *g = NULL;
    infq_err err;

    TEST_NEEDS_SHARED();
    for (size_t k = 0; k < sizeof(folders) / sizeof(folders[0]); k++) {
        char path[256];
        int compared = 0;
        memset(&o, 0, sizeof(o));
        o.out_path = test_in(d, folders[k]);
        o.dequantize = true;
        snprintf(path, sizeof(path), "goldens/quantized/%s", folders[k]);
        ck_ok(infq_checkpoint_open(test_shared_path(path), &quiet, &ck, &err), err);
        ck_ok(infq_convert_run(ck, &o, &quiet, &r, &err), err);
        infq_checkpoint_close(ck);
        ck_ok(infq_checkpoint_open(o.out_path, &quiet, &ck, &err), err);
        ck_assert_ptr_null(infq_json_get(infq_checkpoint_config(ck), "quantization_config"));
        strcat(path, "/decoded.safetensors");
        ck_ok(infq_checkpoint_open(test_shared_path(path), &quiet, &g, &err), err);
        for (size_t i = 0; i < infq_checkpoint_count(ck); i++) {
            const infq_ck_tensor *t = infq_checkpoint_get(ck, i), *want = infq_checkpoint_find(g, t->name);
            const uint16_t *w = infq_checkpoint_data(ck, t);
            const float *rows;
            int64_t step;
            if (!want)
                continue;
            step = t->shape[0] / 8; // rows 0, s, 2s, ... of the matrix (README of the goldens)
            rows = infq_checkpoint_data(g, want);
            for (int64_t q = 0; q < 8; q++)
                for (int64_t c = 0; c < t->shape[1]; c++)
                    ck_assert_msg(infq_bf16_decode(w[q * step * t->shape[1] + c]) == rows[q * t->shape[1] + c],
                                  "%s %s row %d column %d", folders[k], t->name, (int)q, (int)c);
            compared++;
        }
        ck_assert_int_gt(compared, 0);
        infq_checkpoint_close(ck);
        infq_checkpoint_close(g);
    }
}
END_TEST

START_TEST(inspect_counts_logical_parameters_of_packed_weights)
{
    infq_checkpoint *ck = NULL;
    infq_inspect dense, packed;
    infq_err err;

    TEST_NEEDS_SHARED();
    ck_ok(infq_checkpoint_open(test_shared_path("goldens/quantized/src-llama1"), &quiet, &ck, &err), err);
    ck_ok(infq_inspect_run(ck, &dense, &err), err);
    infq_checkpoint_close(ck);
    ck_ok(infq_checkpoint_open(test_shared_path("goldens/quantized/ct-w4a16-g32"), &quiet, &ck, &err), err);
    ck_ok(infq_inspect_run(ck, &packed, &err), err);
    infq_checkpoint_close(ck);
    ck_assert_int_eq(dense.n_params, packed.n_params);
    ck_assert_double_eq_tol(dense.bits_per_weight, 16, 1e-9);
    ck_assert_double_eq_tol(packed.bits_per_quantized_weight, 4.5, 1e-9); // 4 + 16 / 32
    ck_assert(packed.runnable);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("convert");
    TCase *t = tcase_create("convert");

    tcase_set_timeout(t, 60);
    tcase_add_test(t, bf16_to_f32_and_back_gives_the_same_values);
    tcase_add_test(t, shards_hold_the_same_tensors_and_metadata);
    tcase_add_test(t, fp8_saturates_finite_values_and_refuses_others);
    tcase_add_test(t, f16_refuses_what_it_cannot_hold);
    tcase_add_test(t, f64_is_rounded_once_and_refused_beyond_f32);
    tcase_add_test(t, gguf_import_equals_the_transformers_folder);
    tcase_add_test(t, gguf_import_names_the_type_that_it_writes);
    tcase_add_test(t, gguf_import_refuses_what_it_would_get_wrong);
    tcase_add_test(t, quantized_folders_dequantize_to_their_golden_values);
    tcase_add_test(t, inspect_counts_logical_parameters_of_packed_weights);
    suite_add_tcase(s, t);
    return test_main(s);
}
