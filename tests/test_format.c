#include "lib/format/format.h"

#include "lib/base/cursor.h"
#include "lib/base/hash.h"
#include "lib/base/rng.h"
#include "tests/testlib.h"

static infq_checkpoint *open_ck(const char *path)
{
    infq_checkpoint *ck;
    infq_err err;

    ck_ok(infq_checkpoint_open(path, NULL, &ck, &err), err);
    return ck;
}

// The model of a golden folder, without the decoded copy that lies beside it.
static infq_checkpoint *open_golden(const char *name)
{
    static const char *const files[] = {"config.json", "model.safetensors"};
    const char *dir = test_tmpdir();
    infq_err err;

    for (size_t i = 0; i < 2; i++) {
        char rel[300], to[600];
        snprintf(rel, sizeof(rel), "goldens/quantized/%s/%s", name, files[i]);
        snprintf(to, sizeof(to), "%s/%s", dir, files[i]);
        ck_ok(infq_file_copy(test_shared_path(rel), to, &err), err);
    }
    return open_ck(dir);
}

// One test opens more folders than are removed at the end.
static void close_and_remove(infq_checkpoint *ck)
{
    char path[600];
    infq_err err;

    snprintf(path, sizeof(path), "%s", infq_checkpoint_path(ck));
    infq_checkpoint_close(ck);
    ck_ok(infq_dir_remove(path, &err), err);
}

// SHA-256 of the whole decoded matrix as F32, each value rounded to BF16 first.
static void decoded_digest(const infq_weight *w, char hex[65])
{
    float *row = calloc((size_t)w->n_cols, sizeof(*row));
    uint8_t *bytes = calloc((size_t)w->n_cols, 4);
    infq_sha256 *h;
    infq_err err;

    ck_ok(infq_sha256_new(&h, &err), err);
    for (int64_t r = 0; r < w->n_rows; r++) {
        infq_weight_decode_row(w, r, row);
        for (int64_t c = 0; c < w->n_cols; c++) {
            float v = infq_bf16_decode(infq_bf16_encode(row[c]));
            uint32_t u;
            memcpy(&u, &v, 4);
            infq_store_u32le(bytes + 4 * c, u);
        }
        ck_ok(infq_sha256_add(h, bytes, (size_t)w->n_cols * 4, &err), err);
    }
    ck_ok(infq_sha256_end(h, hex, &err), err);
    infq_sha256_free(h);
    free(bytes);
    free(row);
}

START_TEST(format_decodes_every_golden_folder_of_compressed_tensors_bit_for_bit)
{
    cJSON *manifest;
    const cJSON *entry, *t;
    int n_folders = 0, n_tensors = 0;
    infq_err err;

    TEST_NEEDS_SHARED();
    manifest = test_json(test_shared_path("goldens/quantized/manifest.json"));
    cJSON_ArrayForEach(entry, cJSON_GetObjectItem(manifest, "entries"))
    {
        const char *name = cJSON_GetObjectItem(entry, "name")->valuestring;
        infq_checkpoint *ck;
        infq_reader *r;
        infq_arena *a;
        if (strncmp(name, "ct-", 3))
            continue;
        n_folders++;
        ck = open_golden(name);
        ck_ok(infq_reader_open(ck, &r, &err), err);
        ck_assert_str_eq(infq_reader_format(r), "compressed-tensors");
        ck_ok(infq_arena_new(4096, &a, &err), err);
        cJSON_ArrayForEach(t, cJSON_GetObjectItem(entry, "tensors"))
        {
            char module[200], hex[65];
            infq_weight w;
            snprintf(module, sizeof(module), "%.*s", (int)(strlen(t->string) - strlen(".weight")), t->string);
            ck_ok(infq_reader_read(r, module, a, &w, &err), err);
            ck_assert_int_eq(w.n_rows, cJSON_GetArrayItem(cJSON_GetObjectItem(t, "shape"), 0)->valueint);
            ck_assert(infq_reader_expects(r, module));
            decoded_digest(&w, hex);
            ck_assert_msg(strcmp(hex, cJSON_GetObjectItem(t, "sha256_f32")->valuestring) == 0, "%s: %s decodes to other bits",
                          name, module);
            n_tensors++;
        }
        infq_arena_free(a);
        infq_reader_close(r);
        close_and_remove(ck);
    }
    ck_assert_int_eq(n_folders, 12);
    ck_assert_int_ge(n_tensors, 12 * 7);
    cJSON_Delete(manifest);
}
END_TEST

START_TEST(format_reads_activation_schemes_of_the_goldens)
{
    static const struct {
        const char *folder;
        infq_act act;
    } want[] = {{"ct-w8a8-int8", INFQ_ACT_I8_TOKEN}, {"ct-fp8-dynamic", INFQ_ACT_E4M3_TOKEN},
                {"ct-fp8-block", INFQ_ACT_E4M3_GROUP128}, {"ct-fp8-static", INFQ_ACT_E4M3_TENSOR},
                {"ct-w4a16-g32", INFQ_ACT_NONE}};
    infq_err err;

    TEST_NEEDS_SHARED();
    for (size_t i = 0; i < sizeof(want) / sizeof(want[0]); i++) {
        infq_checkpoint *ck;
        infq_reader *r;
        infq_arena *a;
        infq_weight w;
        ck = open_golden(want[i].folder);
        ck_ok(infq_reader_open(ck, &r, &err), err);
        ck_ok(infq_arena_new(4096, &a, &err), err);
        ck_ok(infq_reader_read(r, "model.layers.0.self_attn.q_proj", a, &w, &err), err);
        ck_assert_int_eq(w.codec.act, want[i].act);
        ck_assert(want[i].act != INFQ_ACT_E4M3_TENSOR || w.act_scale > 0.0f);
        ck_ok(infq_reader_read(r, "model.embed_tokens", a, &w, &err), err);
        ck_assert_int_eq(w.codec.elem, INFQ_ELEM_BF16);
        ck_assert(!infq_reader_expects(r, "lm_head"));
        ck_assert_int_eq(infq_reader_read(r, "model.layers.9.self_attn.q_proj", a, &w, &err), INFQ_E_NOT_FOUND);
        infq_arena_free(a);
        infq_reader_close(r);
        close_and_remove(ck);
    }
}
END_TEST

START_TEST(format_names_methods_that_it_does_not_read)
{
    static const char *const folders[] = {"gptq-v1-w4-sym-g32", "awq-gemm-g32", "fp8-block-scale-inv"};
    static const char *const names[] = {"gptq", "awq", "fp8"};
    infq_err err;

    TEST_NEEDS_SHARED();
    for (size_t i = 0; i < 3; i++) {
        infq_checkpoint *ck;
        infq_reader *r;
        ck = open_golden(folders[i]);
        ck_assert_int_eq(infq_reader_open(ck, &r, &err), INFQ_E_UNSUPPORTED);
        ck_assert_msg(strstr(err.msg, names[i]) != NULL, "%s", err.msg);
        close_and_remove(ck);
    }
}
END_TEST

START_TEST(format_finds_schemes_by_any_spelling)
{
    ck_assert_str_eq(infq_scheme_find("w4a16")->name, "W4A16");
    ck_assert_str_eq(infq_scheme_find("W4A16-asym")->name, "W4A16_ASYM");
    ck_assert_str_eq(infq_scheme_find("int8")->name, "W8A8-INT8");
    ck_assert_str_eq(infq_scheme_find("fp8_dynamic")->name, "FP8");
    ck_assert_str_eq(infq_scheme_find("FP8_BLOCK")->name, "FP8-BLOCK");
    ck_assert_ptr_null(infq_scheme_find("FP"));
    ck_assert_ptr_null(infq_scheme_find("W4A161"));
}
END_TEST

// One matrix of random codes, scales and zero points under a codec, written in parts and read back.
typedef struct {
    infq_codec codec;
    int64_t rows, cols;
    uint8_t *codes, *zeros;
    uint16_t *scales;
    int64_t sr, sc;
    size_t row_bytes;
} matrix;

static matrix random_matrix(infq_codec c, int64_t rows, int64_t cols)
{
    matrix m = {.codec = c, .rows = rows, .cols = cols};
    infq_weight w = {.codec = c, .n_rows = rows, .n_cols = cols};
    infq_rng rng = infq_rng_seed(7);

    m.sr = infq_weight_scale_rows(&w);
    m.sc = infq_weight_scale_cols(&w);
    m.row_bytes = infq_codec_row_bytes(&c, cols);
    m.codes = calloc((size_t)rows, m.row_bytes);
    m.zeros = calloc((size_t)(m.sr * m.sc), 1);
    m.scales = calloc((size_t)(m.sr * m.sc), 2);
    for (int64_t r = 0; r < rows; r++)
        for (int64_t k = 0; k < cols; k++) {
            uint8_t v = (uint8_t)infq_rng_below(&rng, c.elem == INFQ_ELEM_U4 ? 16 : c.elem == INFQ_ELEM_E4M3 ? 127 : 256);
            if (c.elem == INFQ_ELEM_U4)
                m.codes[(size_t)r * m.row_bytes + (size_t)k / 2] |= (uint8_t)(v << (k % 2 * 4));
            else
                m.codes[(size_t)r * m.row_bytes + (size_t)k] = v;
        }
    for (int64_t i = 0; i < m.sr * m.sc; i++) {
        m.scales[i] = infq_bf16_encode(0.001f + 0.01f * (float)infq_rng_f64(&rng));
        m.zeros[i] = (uint8_t)infq_rng_below(&rng, 16);
    }
    return m;
}

static infq_weight rows_of(const matrix *m, int64_t row0, int64_t n)
{
    int64_t g = m->codec.group_rows;
    infq_weight w = {.codec = m->codec, .n_rows = n, .n_cols = m->cols, .outer = 1.0f};

    w.codes = (infq_view){m->codes + (size_t)row0 * m->row_bytes, m->row_bytes};
    w.scales = (infq_view){m->scales + row0 / g * m->sc, (size_t)m->sc * 2};
    w.zeros = (infq_view){m->zeros + row0 / g * m->sc, (size_t)m->sc};
    return w;
}

static void write_matrix(const matrix *m, const char *path, int64_t step)
{
    const infq_format *f = infq_format_find("compressed-tensors");
    infq_folder_options fo = {.path = path, .fingerprint = "format"};
    infq_written written = {"model.layers.0.self_attn.q_proj", m->codec};
    infq_layout l;
    infq_folder *to;
    infq_buf text;
    infq_jw jw;
    infq_err err;

    ck_ok(infq_folder_begin(&fo, &to, &err), err);
    ck_ok(f->layout(&m->codec, m->rows, m->cols, &l, &err), err);
    for (int i = 0; i < l.n; i++) {
        char name[200];
        snprintf(name, sizeof(name), "%s.%s", written.module, l.t[i].suffix);
        ck_ok(infq_folder_declare(to, name, l.t[i].dtype, l.t[i].n_dims, l.t[i].shape, &err), err);
    }
    ck_ok(infq_folder_seal(to, &err), err);
    for (int64_t r = 0; r < m->rows; r += step) {
        infq_weight w = rows_of(m, r, m->rows - r < step ? m->rows - r : step);
        ck_ok(f->write(&w, r, m->rows, written.module, to, &err), err);
    }
    ck_ok(infq_folder_shard_done(to, 0, &err), err);
    infq_buf_init(&text);
    infq_buf_str(&text, "{\"quantization_config\":");
    jw = infq_jw_over(&text, 0);
    ck_ok(f->config(&written, 1, infq_scheme_find("W4A16"), &jw, &err), err);
    infq_buf_char(&text, '}');
    ck_ok(infq_folder_put(to, "config.json", text.data, text.n, &err), err);
    infq_buf_deinit(&text);
    ck_ok(infq_folder_commit(to, &err), err);
}

static void check_matrix(const matrix *m, const char *path)
{
    infq_checkpoint *ck = open_ck(path);
    infq_weight want = rows_of(m, 0, m->rows), got;
    float *a = calloc((size_t)m->cols, 4), *b = calloc((size_t)m->cols, 4);
    infq_reader *r;
    infq_arena *arena;
    infq_err err;

    ck_ok(infq_reader_open(ck, &r, &err), err);
    ck_ok(infq_arena_new(4096, &arena, &err), err);
    ck_ok(infq_reader_read(r, "model.layers.0.self_attn.q_proj", arena, &got, &err), err);
    ck_assert_int_eq(got.n_rows, m->rows);
    ck_assert_int_eq(got.n_cols, m->cols);
    ck_assert_int_eq(got.codec.act, m->codec.act);
    for (int64_t i = 0; i < m->rows; i++) {
        infq_weight_decode_row(&want, i, a);
        infq_weight_decode_row(&got, i, b);
        ck_assert_msg(memcmp(a, b, (size_t)m->cols * 4) == 0, "row %lld differs", (long long)i);
    }
    infq_arena_free(arena);
    infq_reader_close(r);
    infq_checkpoint_close(ck);
    free(a);
    free(b);
}

START_TEST(format_reads_back_what_it_wrote_in_parts)
{
    const infq_codec u4 = {.elem = INFQ_ELEM_U4, .group_rows = 1, .group_cols = 32, .scale = INFQ_ELEM_BF16};
    const infq_codec u8 = {.elem = INFQ_ELEM_U8, .group_rows = 1, .scale = INFQ_ELEM_BF16};
    const infq_codec i8 = {.elem = INFQ_ELEM_I8, .group_rows = 1, .scale = INFQ_ELEM_BF16, .act = INFQ_ACT_I8_TOKEN};
    const infq_codec f8 = {.elem = INFQ_ELEM_E4M3, .group_rows = 1, .scale = INFQ_ELEM_BF16, .act = INFQ_ACT_E4M3_TOKEN};
    infq_codec asym = u4, channel = u4, block = f8, wide = u8;
    matrix m[8];

    asym.zero = wide.zero = INFQ_ZERO_INT;
    channel.group_cols = 0;
    wide.group_cols = 32;
    block.group_rows = block.group_cols = 128;
    block.act = INFQ_ACT_E4M3_GROUP128;
    m[0] = random_matrix(u4, 40, 96);
    m[1] = random_matrix(asym, 37, 96);     // last word of the zero points is not full
    m[2] = random_matrix(channel, 19, 43);  // rows end inside a byte and inside a word
    m[3] = random_matrix(u8, 19, 43);
    m[4] = random_matrix(i8, 19, 43);
    m[5] = random_matrix(f8, 19, 43);
    m[6] = random_matrix(block, 200, 300);  // edge blocks are smaller
    m[7] = random_matrix(wide, 21, 64);
    for (int i = 0; i < 8; i++) {
        char path[600];
        snprintf(path, sizeof(path), "%s/m", test_tmpdir());
        write_matrix(&m[i], path, i == 6 ? 128 : 8);
        check_matrix(&m[i], path);
        free(m[i].codes);
        free(m[i].scales);
        free(m[i].zeros);
    }
}
END_TEST

START_TEST(format_refuses_layouts_that_it_cannot_hold)
{
    const infq_format *f = infq_format_find("compressed-tensors");
    infq_codec c = {.elem = INFQ_ELEM_U4, .group_rows = 1, .group_cols = 64, .scale = INFQ_ELEM_BF16};
    infq_layout l;
    infq_err err;

    ck_assert_int_eq(f->layout(&c, 8, 96, &l, &err), INFQ_E_UNSUPPORTED); // 64 does not divide 96
    c.group_cols = 32;
    ck_ok(f->layout(&c, 8, 96, &l, &err), err);
    ck_assert_int_eq(l.n, 3);
    ck_assert_str_eq(l.t[0].suffix, "weight_packed");
    ck_assert_int_eq(l.t[0].shape[1], 12);
    c.scale = INFQ_ELEM_E8M0;
    ck_assert_int_eq(f->layout(&c, 8, 96, &l, &err), INFQ_E_UNSUPPORTED);
    c = (infq_codec){.elem = INFQ_ELEM_I8, .group_rows = 1, .scale = INFQ_ELEM_BF16}; // weight-only int-quantized: engines fail
    ck_assert_int_eq(f->layout(&c, 8, 96, &l, &err), INFQ_E_UNSUPPORTED);
}
END_TEST

static cJSON *config_of(const infq_written *w, size_t n)
{
    infq_buf text;
    infq_jw jw;
    cJSON *tree;
    infq_err err;

    infq_buf_init(&text);
    jw = infq_jw_over(&text, 0);
    ck_ok(infq_format_find("compressed-tensors")->config(w, n, infq_scheme_find("W4A16"), &jw, &err), err);
    ck_ok(infq_json_parse(text.data, text.n, "config", &tree, &err), err);
    infq_buf_deinit(&text);
    return tree;
}

START_TEST(format_lists_every_linear_that_it_leaves_out_and_no_embedding)
{
    const infq_codec u4 = {.elem = INFQ_ELEM_U4, .group_rows = 1, .group_cols = 32, .scale = INFQ_ELEM_BF16};
    const infq_written w[] = {{.module = "model.embed_tokens"}, {"model.layers.0.mlp.up_proj", u4},
                              {.module = "model.layers.0.mlp.gate"}};
    cJSON *q = config_of(w, 3), *ignore = cJSON_GetObjectItem(q, "ignore");
    cJSON *g = cJSON_GetObjectItem(cJSON_GetObjectItem(q, "config_groups"), "group_0");

    ck_assert_int_eq(cJSON_GetArraySize(ignore), 2);
    ck_assert_str_eq(cJSON_GetArrayItem(ignore, 0)->valuestring, "model.layers.0.mlp.gate");
    ck_assert_str_eq(cJSON_GetArrayItem(ignore, 1)->valuestring, "lm_head");
    ck_assert_str_eq(cJSON_GetArrayItem(cJSON_GetObjectItem(g, "targets"), 0)->valuestring, "Linear");
    ck_assert_int_eq(cJSON_GetObjectItem(cJSON_GetObjectItem(g, "weights"), "group_size")->valueint, 32);
    ck_assert_str_eq(cJSON_GetObjectItem(q, "quantization_status")->valuestring, "compressed");
    cJSON_Delete(q);
}
END_TEST

START_TEST(format_writes_one_group_a_codec_when_they_differ)
{
    const infq_codec u4 = {.elem = INFQ_ELEM_U4, .group_rows = 1, .group_cols = 32, .scale = INFQ_ELEM_BF16};
    const infq_codec u8 = {.elem = INFQ_ELEM_U8, .group_rows = 1, .scale = INFQ_ELEM_BF16};
    const infq_written w[] = {{"a.up_proj", u4}, {"lm_head", u8}, {"b.up_proj", u4}};
    cJSON *q = config_of(w, 3), *groups = cJSON_GetObjectItem(q, "config_groups"), *t;

    ck_assert_str_eq(cJSON_GetObjectItem(q, "format")->valuestring, "mixed-precision");
    ck_assert_int_eq(cJSON_GetArraySize(groups), 2);
    t = cJSON_GetObjectItem(cJSON_GetObjectItem(groups, "group_0"), "targets");
    ck_assert_int_eq(cJSON_GetArraySize(t), 2);
    ck_assert_str_eq(cJSON_GetArrayItem(t, 1)->valuestring, "b.up_proj");
    ck_assert_int_eq(cJSON_GetArraySize(cJSON_GetObjectItem(q, "ignore")), 0);
    cJSON_Delete(q);
}
END_TEST

// A folder with one good packed matrix whose config.json is replaced.
static infq_status open_with_config(const char *config, infq_err *err)
{
    const infq_codec u4 = {.elem = INFQ_ELEM_U4, .group_rows = 1, .group_cols = 32, .scale = INFQ_ELEM_BF16};
    matrix m = random_matrix(u4, 8, 64);
    char path[600], file[620];
    infq_checkpoint *ck;
    infq_reader *r = NULL;
    infq_arena *a;
    infq_weight w;
    infq_status st;

    snprintf(path, sizeof(path), "%s/m", test_tmpdir());
    write_matrix(&m, path, 8);
    snprintf(file, sizeof(file), "%s/config.json", path);
    ck_ok(infq_file_write_atomic(file, config, strlen(config), true, err), *err);
    ck = open_ck(path);
    ck_ok(infq_arena_new(4096, &a, err), *err);
    st = infq_reader_open(ck, &r, err);
    if (!st)
        st = infq_reader_read(r, "model.layers.0.self_attn.q_proj", a, &w, err);
    infq_reader_close(r);
    infq_arena_free(a);
    close_and_remove(ck);
    free(m.codes);
    free(m.scales);
    free(m.zeros);
    return st;
}

#define CT(groups, rest)                                                                                              \
    "{\"quantization_config\":{\"quant_method\":\"compressed-tensors\",\"format\":\"pack-quantized\","                \
    "\"quantization_status\":\"compressed\",\"config_groups\":{" groups "}" rest "}}"
#define GROUP(targets, weights) "\"g\":{\"targets\":[" targets "],\"weights\":{" weights "}}"
#define G32 "\"num_bits\":4,\"strategy\":\"group\",\"group_size\":32"

START_TEST(format_reads_targets_written_in_every_way)
{
    static const char *const good[] = {
        CT(GROUP("\"Linear\"", G32), ""),
        CT(GROUP("\"model.layers.0.self_attn.q_proj\"", G32), ",\"ignore\":[\"lm_head\"]"),
        CT(GROUP("\"re:.*q_proj$\"", G32), ",\"ignore\":[\"re:.*k_proj\"]"),
        CT("\"a\":{\"targets\":[\"re:.*mlp.*\"],\"weights\":{\"num_bits\":8}},"
           GROUP("\"Linear\"", "\"num_bits\":4,\"group_size\":32"), ""),
    };
    infq_err err;

    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
        ck_assert_msg(open_with_config(good[i], &err) == 0, "%zu: %s", i, err.msg);
}
END_TEST

START_TEST(format_says_what_is_wrong_with_a_configuration)
{
    static const struct {
        const char *config;
        infq_status st;
        const char *says;
    } bad[] = {
        {CT(GROUP("\"Linear\"", G32), ",\"ignore\":[\"Linear\"]"), INFQ_E_FORMAT, "does not target"},
        {CT(GROUP("\"q_proj\"", G32), ""), INFQ_E_FORMAT, "does not target"},
        {CT(GROUP("\"Linear\"", "\"num_bits\":4,\"strategy\":\"group\",\"group_size\":64"), ""), INFQ_E_FORMAT, "weight_scale"},
        {CT(GROUP("\"Linear\"", "\"num_bits\":8,\"strategy\":\"group\",\"group_size\":32"), ""), INFQ_E_FORMAT, "weight_packed"},
        {CT(GROUP("\"Linear\"", "\"num_bits\":5,\"strategy\":\"channel\""), ""), INFQ_E_UNSUPPORTED, "5 bits"},
        {CT(GROUP("\"Linear\"", G32 ",\"symmetric\":false"), ""), INFQ_E_FORMAT, "weight_zero_point"},
        {CT(GROUP("\"Linear\"", G32 ",\"actorder\":\"group\""), ""), INFQ_E_FORMAT, "weight_g_idx"},
        {CT(GROUP("\"Linear\"", "\"num_bits\":\"4\""), ""), INFQ_E_FORMAT, "num_bits"},
        {CT(GROUP("\"re:(\"", G32), ""), INFQ_E_FORMAT, "re:("},
        {CT(GROUP("3", G32), ""), INFQ_E_FORMAT, "strings"},
        {CT("\"W9A9\":[\"Linear\"]", ""), INFQ_E_UNSUPPORTED, "W9A9"},
        {CT("", ""), INFQ_E_FORMAT, "config_groups"},
        {CT(GROUP("\"Linear\"", G32), ",\"transform_config\":{\"x\":1}"), INFQ_E_UNSUPPORTED, "transform_config"},
        {CT(GROUP("\"Linear\"", G32), ",\"sparsity_config\":{\"format\":\"sparse-24\"}"), INFQ_E_UNSUPPORTED, "sparse-24"},
    };
    infq_err err;

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        infq_status st = open_with_config(bad[i].config, &err);
        ck_assert_msg(st == bad[i].st && strstr(err.msg, bad[i].says), "%zu: status %d, %s", i, (int)st, st ? err.msg : "");
    }
}
END_TEST

int main(void)
{
    Suite *s = suite_create("format");
    TCase *t = tcase_create("compressed-tensors");

    tcase_set_timeout(t, 60);
    tcase_add_test(t, format_decodes_every_golden_folder_of_compressed_tensors_bit_for_bit);
    tcase_add_test(t, format_reads_activation_schemes_of_the_goldens);
    tcase_add_test(t, format_names_methods_that_it_does_not_read);
    tcase_add_test(t, format_finds_schemes_by_any_spelling);
    tcase_add_test(t, format_reads_back_what_it_wrote_in_parts);
    tcase_add_test(t, format_refuses_layouts_that_it_cannot_hold);
    tcase_add_test(t, format_lists_every_linear_that_it_leaves_out_and_no_embedding);
    tcase_add_test(t, format_writes_one_group_a_codec_when_they_differ);
    tcase_add_test(t, format_reads_targets_written_in_every_way);
    tcase_add_test(t, format_says_what_is_wrong_with_a_configuration);
    suite_add_tcase(s, t);
    return test_main(s);
}
