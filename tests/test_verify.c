#include "lib/compress/verify.h"

#include "lib/compress/quantize.h"
#include "tests/tiny_model.h"

// A quantized tiny model and its source under one temporary folder.
typedef struct {
    char dir[300], src[700], out[700];
    infq_verify_report *r;
    infq_err err;
} fixture;

static void make(fixture *f, const char *scheme, tiny_options t)
{
    infq_plan_options o = infq_plan_options_default();
    infq_quantize_options qo = {.verify = false};
    infq_quantize_result *r;
    infq_checkpoint *ck;
    infq_plan *p;

    snprintf(f->dir, sizeof(f->dir), "%s", test_tmpdir());
    snprintf(f->src, sizeof(f->src), "%s/src", f->dir);
    snprintf(f->out, sizeof(f->out), "%s/out", f->dir);
    tiny_write(f->src, t);
    o.scheme = infq_scheme_find(scheme);
    o.method = infq_method_find("rtn");
    o.out = f->out;
    ck_ok(infq_checkpoint_open(f->src, NULL, &ck, &f->err), f->err);
    ck_ok(infq_plan_make(ck, &o, &p, &f->err), f->err);
    ck_ok(infq_quantize_run(p, &qo, NULL, &r, &f->err), f->err);
    infq_quantize_result_free(r);
    infq_plan_free(p);
    infq_checkpoint_close(ck);
    f->r = NULL;
}

static void verify(fixture *f, const char *source)
{
    infq_verify_options o = infq_verify_options_default();

    infq_verify_report_free(f->r);
    f->r = NULL;
    o.source = source;
    ck_ok(infq_verify_run(f->out, &o, NULL, &f->r, &f->err), f->err);
}

static void expect_fail(const fixture *f, const char *says)
{
    for (size_t i = 0; i < f->r->findings.n; i++)
        if (f->r->findings.v[i].fail && strstr(f->r->findings.v[i].text, says))
            return;
    ck_abort_msg("no failure says '%s'; %zu findings, first: %s", says, f->r->findings.n,
                 f->r->findings.n ? f->r->findings.v[0].text : "none");
}

// Overwrites bytes of a stored tensor of the output.
static void poke(const fixture *f, const char *tensor, uint64_t at, const void *bytes, size_t n)
{
    infq_checkpoint *ck;
    const infq_ck_tensor *t;
    infq_err err;
    FILE *file;

    ck_ok(infq_checkpoint_open(f->out, NULL, &ck, &err), err);
    t = infq_checkpoint_find(ck, tensor);
    ck_assert_msg(t != NULL, "%s", tensor);
    TINY_PATH(path, f->out, infq_checkpoint_shard_name(ck, (size_t)t->shard));
    file = fopen(path, "r+b");
    ck_assert_ptr_nonnull(file);
    ck_assert_int_eq(fseek(file, (long)(t->offset + at), SEEK_SET), 0);
    ck_assert_uint_eq(fwrite(bytes, 1, n, file), n);
    ck_assert_int_eq(fclose(file), 0);
    infq_checkpoint_close(ck);
}

static void replace_config(const fixture *f, const char *from, const char *to)
{
    TINY_PATH(path, f->out, "config.json");
    infq_buf text = tiny_read(path), changed;
    const char *at = strstr(text.data, from);
    infq_err err;

    ck_assert_msg(at != NULL, "%s is not in %s", from, text.data);
    infq_buf_init(&changed);
    infq_buf_add(&changed, text.data, (size_t)(at - text.data));
    infq_buf_str(&changed, to);
    infq_buf_str(&changed, at + strlen(from));
    ck_ok(infq_file_write_atomic(path, changed.data, changed.n, true, &err), err);
    infq_buf_deinit(&text);
    infq_buf_deinit(&changed);
}

#define UP "model.layers.0.mlp.up_proj"

START_TEST(verify_passes_what_quantize_wrote_and_finds_the_source_by_itself)
{
    static const char *const schemes[] = {"W4A16", "W4A16_ASYM", "W8A16", "W8A8-INT8", "FP8", "FP8-BLOCK"};

    for (size_t i = 0; i < 6; i++) {
        fixture f;
        make(&f, schemes[i], TINY_DEFAULT);
        verify(&f, NULL);
        ck_assert_uint_eq(f.r->findings.n_fail, 0);
        ck_assert(f.r->with_source);
        ck_assert_uint_eq(f.r->n_rows, 14);
        ck_assert_uint_eq(f.r->n_copied, 7);
        ck_assert_uint_eq(f.r->n_side, 1);
        ck_assert_double_gt(f.r->worst, 0.0);
        infq_verify_report_free(f.r);
        ck_ok(infq_dir_remove(f.dir, &f.err), f.err);
    }
}
END_TEST

START_TEST(verify_checks_the_files_alone_when_the_source_is_gone)
{
    static const uint8_t nan[2] = {0xc0, 0x7f};
    fixture f;

    make(&f, "W4A16", TINY_DEFAULT);
    ck_ok(infq_dir_remove(f.src, &f.err), f.err);
    verify(&f, NULL);
    ck_assert(!f.r->with_source);
    ck_assert_uint_eq(f.r->findings.n_fail, 0);
    poke(&f, UP ".weight_scale", 6, nan, 2);
    verify(&f, NULL);
    expect_fail(&f, "scale that is negative or not finite");
    infq_verify_report_free(f.r);
}
END_TEST

START_TEST(verify_sees_changed_codes_scales_and_copies)
{
    uint8_t noise[4096];
    static const uint8_t nan_code[1] = {0x7f}, negative[2] = {0x80, 0xbf};
    fixture f;

    memset(noise, 0x0f, sizeof(noise));
    make(&f, "W4A16", TINY_DEFAULT);
    poke(&f, UP ".weight_packed", 0, noise, sizeof(noise));
    verify(&f, f.src);
    expect_fail(&f, UP ": relative error");
    ck_assert_uint_eq(f.r->findings.n_fail, 1);
    poke(&f, UP ".weight_scale", 0, negative, 2);
    poke(&f, "model.norm.weight", 10, noise, 1);
    verify(&f, f.src);
    expect_fail(&f, UP " has a scale that is negative");
    expect_fail(&f, "model.norm.weight differs");
    infq_verify_report_free(f.r);
    make(&f, "FP8", TINY_DEFAULT);
    poke(&f, UP ".weight", 128 * 7 + 3, nan_code, 1);
    verify(&f, f.src);
    expect_fail(&f, UP " decodes to a value that is not finite at [7, 3]");
    infq_verify_report_free(f.r);
}
END_TEST

START_TEST(verify_sees_padding_bits_that_are_set)
{
    static const uint8_t one[1] = {0x10};
    tiny_options t = TINY_DEFAULT;
    fixture f;

    t.ffn = 165; // no group divides it: channel scales, rows of 82.5 bytes in words
    make(&f, "W4A16", t);
    verify(&f, f.src);
    ck_assert_uint_eq(f.r->findings.n_fail, 0);
    poke(&f, "model.layers.0.mlp.down_proj.weight_packed", 82, one, 1);
    verify(&f, f.src);
    // The low half of byte 82 is the last code; the high half is padding.
    expect_fail(&f, "padding bits");
    infq_verify_report_free(f.r);
}
END_TEST

START_TEST(verify_sees_a_configuration_that_does_not_fit)
{
    fixture f;

    make(&f, "W4A16", TINY_DEFAULT);
    replace_config(&f, "\"lm_head\"", "\"" UP "\"");
    verify(&f, f.src);
    expect_fail(&f, UP " is stored quantized, but quantization_config does not target it");
    expect_fail(&f, "lm_head is stored as it was, but quantization_config targets it");
    infq_verify_report_free(f.r);
    make(&f, "W4A16", TINY_DEFAULT);
    replace_config(&f, "2.50", "2.51");
    verify(&f, f.src);
    expect_fail(&f, "config.json differs");
    ck_assert_uint_eq(f.r->findings.n_fail, 1);
    infq_verify_report_free(f.r);
}
END_TEST

START_TEST(verify_sees_missing_superfluous_and_side_files)
{
    tiny_options more = TINY_DEFAULT;
    char other[700];
    fixture f;

    make(&f, "W4A16", TINY_DEFAULT);
    more.extra = "model.layers.0.mlp.gate";
    snprintf(other, sizeof(other), "%.400s/more", f.dir);
    tiny_write(other, more);
    verify(&f, other);
    expect_fail(&f, "model.layers.0.mlp.gate.weight of the source is missing");
    infq_verify_report_free(f.r);
    make(&f, "W4A16", more);
    snprintf(other, sizeof(other), "%.400s/less", f.dir);
    tiny_write(other, TINY_DEFAULT);
    verify(&f, other);
    expect_fail(&f, "model.layers.0.mlp.gate.weight is superfluous");
    TINY_PATH(side, f.out, "tokenizer.json");
    ck_ok(infq_file_write_atomic(side, "{}", 2, true, &f.err), f.err);
    verify(&f, f.src);
    expect_fail(&f, "side file tokenizer.json differs");
    unlink(side);
    verify(&f, f.src);
    expect_fail(&f, "side file tokenizer.json is missing");
    infq_verify_report_free(f.r);
}
END_TEST

// A folder of one layer's gate and up, each with one scale of its own, written without a source.
static void make_whole_scales(fixture *f, const char *config, const char *codes, infq_dtype dtype, const char *scale, float gate,
                              float up)
{
    static const char *const modules[] = {"model.layers.0.mlp.gate_proj", UP};
    infq_folder_options fo = {.path = f->out, .fingerprint = "whole"};
    int64_t matrix[2] = {32, dtype == INFQ_DTYPE_U8 ? 32 : 64}, blocks[2] = {32, 4}, one[1] = {1};
    uint8_t block_scales[128], bytes[2048];
    infq_folder *out;
    char name[100];

    memset(block_scales, 0x38, sizeof(block_scales)); // 1.0
    for (size_t i = 0; i < sizeof(bytes); i++)
        bytes[i] = (uint8_t)(i * 37 & 0x77);
    snprintf(f->dir, sizeof(f->dir), "%s", test_tmpdir());
    snprintf(f->out, sizeof(f->out), "%s/out", f->dir);
    f->r = NULL;
    ck_ok(infq_folder_begin(&fo, &out, &f->err), f->err);
    for (int pass = 0; pass < 2; pass++) {
        for (int i = 0; i < 2; i++) {
            float value = i ? up : gate;
            const struct {
                const char *suffix;
                infq_dtype dtype;
                int n_dims;
                const int64_t *shape;
                const void *data;
                size_t n;
            } parts[] = {{codes, dtype, 2, matrix, bytes, (size_t)(matrix[0] * matrix[1])},
                         {scale, INFQ_DTYPE_F32, 1, one, &value, 4},
                         {"weight_scale", INFQ_DTYPE_F8_E4M3, 2, blocks, block_scales, 128}};
            for (int k = 0; k < (dtype == INFQ_DTYPE_U8 ? 3 : 2); k++) {
                snprintf(name, sizeof(name), "%s.%s", modules[i], parts[k].suffix);
                if (pass)
                    ck_ok(infq_folder_write(out, name, 0, parts[k].data, parts[k].n, &f->err), f->err);
                else
                    ck_ok(infq_folder_declare(out, name, parts[k].dtype, parts[k].n_dims, parts[k].shape, &f->err), f->err);
            }
        }
        if (!pass)
            ck_ok(infq_folder_seal(out, &f->err), f->err);
    }
    ck_ok(infq_folder_shard_done(out, 0, &f->err), f->err);
    ck_ok(infq_folder_put(out, "config.json", config, strlen(config), &f->err), f->err);
    ck_ok(infq_folder_commit(out, &f->err), f->err);
}

#define CT_CONFIG(format, weights)                                                                                     \
    "{\"quantization_config\":{\"quant_method\":\"compressed-tensors\",\"format\":\"" format "\",\"config_groups\":"     \
    "{\"group_0\":{\"targets\":[\"Linear\"],\"weights\":{\"type\":\"float\"," weights "}}}}}"
#define NVFP4 CT_CONFIG("nvfp4-pack-quantized", "\"num_bits\":4,\"strategy\":\"tensor_group\",\"group_size\":16")
#define FP8_TENSOR CT_CONFIG("float-quantized", "\"num_bits\":8,\"strategy\":\"tensor\"")

START_TEST(verify_misses_no_head_that_the_class_ties)
{
    tiny_options t = TINY_DEFAULT;
    fixture f;

    t.model_type = "gemma2"; // tied although the configuration does not say so
    t.head_equal = true;
    make(&f, "W4A16", t);
    verify(&f, f.src);
    ck_assert_msg(f.r->findings.n_fail == 0, "%s", f.r->findings.n ? f.r->findings.v[0].text : "");
    infq_verify_report_free(f.r);
}
END_TEST

START_TEST(verify_sees_scales_that_differ_inside_a_fused_group)
{
    fixture f;

    make_whole_scales(&f, NVFP4, "weight_packed", INFQ_DTYPE_U8, "weight_global_scale", 64.0f, 64.0f);
    verify(&f, NULL);
    ck_assert_uint_eq(f.r->n_rows, 2);
    ck_assert_uint_eq(f.r->findings.n, 0);
    infq_verify_report_free(f.r);
    make_whole_scales(&f, NVFP4, "weight_packed", INFQ_DTYPE_U8, "weight_global_scale", 64.0f, 512.0f);
    verify(&f, NULL);
    expect_fail(&f, "model.layers.0.mlp.gate_proj have different global scales");
    ck_assert_uint_eq(f.r->findings.n_fail, 1);
    infq_verify_report_free(f.r);
    // Scales of whole tensors are requantized by loaders: told, and no failure.
    make_whole_scales(&f, FP8_TENSOR, "weight", INFQ_DTYPE_F8_E4M3, "weight_scale", 0.5f, 0.5f);
    verify(&f, NULL);
    ck_assert_uint_eq(f.r->findings.n, 0);
    infq_verify_report_free(f.r);
    make_whole_scales(&f, FP8_TENSOR, "weight", INFQ_DTYPE_F8_E4M3, "weight_scale", 0.5f, 0.25f);
    verify(&f, NULL);
    ck_assert_uint_eq(f.r->findings.n_fail, 0);
    ck_assert_uint_eq(f.r->findings.n, 1);
    ck_assert_ptr_nonnull(strstr(f.r->findings.v[0].text, "different scales of the whole tensor"));
    infq_verify_report_free(f.r);
}
END_TEST

START_TEST(verify_checks_the_rules_of_an_engine)
{
    infq_verify_options o = infq_verify_options_default();
    fixture f;

    make(&f, "W4A16", TINY_DEFAULT);
    o.engine = "vllm";
    ck_ok(infq_verify_run(f.out, &o, NULL, &f.r, &f.err), f.err);
    ck_assert_uint_eq(f.r->findings.n_fail, 0);
    infq_verify_report_free(f.r);
    o.tp = 2;
    ck_ok(infq_verify_run(f.out, &o, NULL, &f.r, &f.err), f.err);
    expect_fail(&f, "group size");
    infq_verify_report_free(f.r);
    o.engine = "nobody";
    ck_assert_int_eq(infq_verify_run(f.out, &o, NULL, &f.r, &f.err), INFQ_E_USAGE);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("verify");
    TCase *t = tcase_create("verify");

    tcase_set_timeout(t, 60);
    tcase_add_test(t, verify_passes_what_quantize_wrote_and_finds_the_source_by_itself);
    tcase_add_test(t, verify_checks_the_files_alone_when_the_source_is_gone);
    tcase_add_test(t, verify_sees_changed_codes_scales_and_copies);
    tcase_add_test(t, verify_sees_padding_bits_that_are_set);
    tcase_add_test(t, verify_sees_a_configuration_that_does_not_fit);
    tcase_add_test(t, verify_sees_missing_superfluous_and_side_files);
    tcase_add_test(t, verify_misses_no_head_that_the_class_ties);
    tcase_add_test(t, verify_sees_scales_that_differ_inside_a_fused_group);
    tcase_add_test(t, verify_checks_the_rules_of_an_engine);
    suite_add_tcase(s, t);
    return test_main(s);
}
