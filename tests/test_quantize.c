/* Plan, quantize and verify on a small model: determinism, refusals, faults, tampering. */
#include "tests/testlib.h"

#include "lib/base/cpu.h"
#include "lib/base/par.h"
#include "lib/compress/quantize.h"
#include "tests/tiny_model.h"

static const infq_log quiet = { NULL, NULL, NULL };

// Plans and runs; *code is what the run says, err its message. Returns whether the output was published.
static bool quantize(const char *in, const char *out, const char *scheme, infq_plan_options o, bool force, infq_status *code,
                     infq_err *err)
{
    infq_checkpoint *ck = NULL;
    infq_plan *p = NULL;
    infq_quantize_result *r = NULL;
    infq_quantize_options qo = { force, true };
    bool published = false;

    ck_ok(infq_checkpoint_open(in, &quiet, &ck, err), *err);
    o.scheme = infq_scheme_find(scheme);
    ck_assert_ptr_nonnull(o.scheme);
    o.out = out;
    *code = infq_plan_make(ck, &o, &p, err);
    if (!*code)
        *code = infq_quantize_run(p, &qo, &quiet, &r, err);
    if (!*code)
        published = r->published;
    infq_quantize_result_free(r);
    infq_plan_free(p);
    infq_checkpoint_close(ck);
    return published;
}

static void quantized(const char *in, const char *out, const char *scheme)
{
    infq_status code;
    infq_err err = { 0 };

    ck_assert_msg(quantize(in, out, scheme, infq_plan_options_default(), false, &code, &err), "%s: %s", scheme, err.msg);
}

static const char *const schemes[] = { "W4A16", "W4A16_ASYM", "W8A16", "W8A8-INT8", "FP8", "FP8-BLOCK" };
#define N_SCHEMES ((int)(sizeof(schemes) / sizeof(schemes[0])))

START_TEST(every_scheme_publishes_a_verified_folder)
{
    const char *d = test_tmpdir();
    infq_verify_options vo = infq_verify_options_default();
    infq_verify_report *v = NULL;
    infq_err err;

    tiny_write(tiny_path(d, "m"), TINY_DEFAULT);
    quantized(tiny_path(d, "m"), tiny_path(d, "q"), schemes[_i]);
    vo.source = tiny_path(d, "m");
    ck_ok(infq_verify_run(tiny_path(d, "q"), &vo, &quiet, &v, &err), err);
    ck_assert_uint_eq(v->findings.n_fail, 0);
    ck_assert_uint_eq(v->n_rows, 14);
    ck_assert_double_lt(v->worst, strncmp(schemes[_i], "W4", 2) == 0 ? 0.13 : 0.04);
    ck_assert_double_gt(v->worst, 0);
    infq_verify_report_free(v);
    tiny_same_file(tiny_path(d, "m/tokenizer.json"), tiny_path(d, "q/tokenizer.json"));
}
END_TEST

START_TEST(bytes_do_not_depend_on_threads_or_cpu_level)
{
    const char *d = test_tmpdir();
    infq_err err;
    char name[32];

    tiny_write(tiny_path(d, "m"), TINY_DEFAULT);
    infq_par_threads_set(1);
    ck_ok(infq_cpu_level_set(INFQ_CPU_SCALAR, &err), err);
    quantized(tiny_path(d, "m"), tiny_path(d, "one"), schemes[_i]);
    infq_par_threads_set(2);
    for (int level = 0; level <= (int)infq_cpu_level_max(); level++) {
        ck_ok(infq_cpu_level_set((infq_cpu_level)level, &err), err);
        snprintf(name, sizeof(name), "l%d", level);
        quantized(tiny_path(d, "m"), tiny_path(d, name), schemes[_i]);
        snprintf(name, sizeof(name), "l%d/model.safetensors", level);
        tiny_same_file(tiny_path(d, "one/model.safetensors"), tiny_path(d, name));
        snprintf(name, sizeof(name), "l%d/config.json", level);
        tiny_same_file(tiny_path(d, "one/config.json"), tiny_path(d, name));
    }
}
END_TEST

START_TEST(a_value_that_is_not_finite_is_found_with_its_place)
{
    const char *d = test_tmpdir();
    tiny_options o = TINY_DEFAULT;
    infq_status code;
    infq_err err = { 0 };

    o.bad_tensor = "model.layers.1.self_attn.v_proj.weight";
    o.bad_value = _i ? INFINITY : NAN;
    tiny_write(tiny_path(d, "m"), o);
    ck_assert(!quantize(tiny_path(d, "m"), tiny_path(d, "q"), "W4A16", infq_plan_options_default(), false, &code, &err));
    ck_assert_int_eq(code, INFQ_E_NUMERIC);
    ck_assert_msg(strstr(err.msg, "model.layers.1.self_attn.v_proj") && strstr(err.msg, "[3, 5]"), "%s", err.msg);
    ck_assert(!infq_path_exists(tiny_path(d, "q")) && !infq_path_exists(tiny_path(d, "q.partial")));
}
END_TEST

START_TEST(zero_matrices_stay_exactly_zero)
{
    const char *d = test_tmpdir();
    tiny_options o = TINY_DEFAULT;
    infq_checkpoint *ck = NULL;
    infq_reader *r = NULL;
    infq_arena *a = NULL;
    infq_weight w;
    infq_err err;
    float row[256];

    o.zero_tensor = "model.layers.0.mlp.up_proj.weight";
    tiny_write(tiny_path(d, "m"), o);
    quantized(tiny_path(d, "m"), tiny_path(d, "q"), schemes[_i]);
    ck_ok(infq_checkpoint_open(tiny_path(d, "q"), &quiet, &ck, &err), err);
    ck_ok(infq_reader_open(ck, &r, &err), err);
    ck_ok(infq_arena_new(0, &a, &err), err);
    ck_ok(infq_reader_read(r, "model.layers.0.mlp.up_proj", a, &w, &err), err);
    for (int64_t i = 0; i < w.n_rows; i++) {
        infq_weight_decode_row(&w, i, row);
        for (int64_t c = 0; c < w.n_cols; c++)
            ck_assert(row[c] == 0.0f);
        ck_assert(isfinite(infq_weight_scale_at(&w, i, 0)) && infq_weight_scale_at(&w, i, 0) > 0);
    }
    infq_arena_free(a);
    infq_reader_close(r);
    infq_checkpoint_close(ck);
}
END_TEST

START_TEST(groups_that_do_not_divide_are_refused_or_kept_on_request)
{
    const char *d = test_tmpdir(), *pattern = "re:.*no_such";
    infq_plan_options po = infq_plan_options_default();
    tiny_options o = TINY_DEFAULT;
    infq_status code;
    infq_err err = { 0 };

    o.ffn = 160; // down_proj: 160 columns, no multiple of 128 or 64
    tiny_write(tiny_path(d, "m"), o);
    po.group_size = 64;
    ck_assert(!quantize(tiny_path(d, "m"), tiny_path(d, "q"), "W4A16", po, false, &code, &err));
    ck_assert_int_eq(code, INFQ_E_USAGE);
    ck_assert_msg(strstr(err.msg, "down_proj") != NULL, "%s", err.msg);
    po.allow_fallback = true;
    ck_assert_msg(quantize(tiny_path(d, "m"), tiny_path(d, "q"), "W4A16", po, false, &code, &err), "%s", err.msg);
    po.group_size = 0;
    po.allow_fallback = false;
    ck_assert_msg(quantize(tiny_path(d, "m"), tiny_path(d, "r"), "W4A16", po, false, &code, &err), "%s", err.msg);
    po.ignore = &pattern;
    po.n_ignore = 1;
    ck_assert(!quantize(tiny_path(d, "m"), tiny_path(d, "s"), "W4A16", po, false, &code, &err));
    ck_assert_msg(strstr(err.msg, "no_such") != NULL, "%s", err.msg);
}
END_TEST

START_TEST(a_memory_limit_below_the_plan_is_refused)
{
    const char *d = test_tmpdir();
    infq_plan_options po = infq_plan_options_default();
    infq_status code;
    infq_err err = { 0 };

    tiny_write(tiny_path(d, "m"), TINY_DEFAULT);
    po.mem_limit = 1 << 20;
    ck_assert(!quantize(tiny_path(d, "m"), tiny_path(d, "q"), "W4A16", po, false, &code, &err));
    ck_assert_int_eq(infq_status_exit(code), 5);
    ck_assert(!infq_path_exists(tiny_path(d, "q")));
}
END_TEST

START_TEST(config_gains_one_member_and_keeps_its_bytes)
{
    const char *d = test_tmpdir();
    infq_buf was, is;
    size_t same = 0;

    tiny_write(tiny_path(d, "m"), TINY_DEFAULT);
    quantized(tiny_path(d, "m"), tiny_path(d, "q"), "W4A16");
    was = tiny_read(tiny_path(d, "m/config.json"));
    is = tiny_read(tiny_path(d, "q/config.json"));
    while (same < was.n && was.data[same] == is.data[same])
        same++;
    ck_assert_uint_ge(same + 4, was.n); // all but the closing "\n}\n"
    ck_assert_ptr_nonnull(strstr(is.data + same, "\"quantization_config\""));
    infq_buf_deinit(&was);
    infq_buf_deinit(&is);
}
END_TEST

// Every write, fsync and rename is made to fail once: a clean error, nothing under the final name, same bytes afterwards.
START_TEST(a_failing_disk_leaves_nothing_under_the_final_name)
{
    const char *d = test_tmpdir();
    infq_status code;
    infq_err err = { 0 };
    size_t n;

    tiny_write(tiny_path(d, "m"), TINY_DEFAULT);
    quantized(tiny_path(d, "m"), tiny_path(d, "want"), "W4A16");
    for (n = 1; n < 500; n++) {
        bool published;
        infq_file_fail_at(n);
        published = quantize(tiny_path(d, "m"), tiny_path(d, "q"), "W4A16", infq_plan_options_default(), false, &code, &err);
        infq_file_fail_at(0);
        if (published && !code)
            break;
        ck_assert_msg(infq_status_exit(code) == 4, "failure %zu: status %d: %s", n, (int)code, err.msg);
        // A failure after the final rename (fsync of the parent) may find the output there: then it must be complete.
        if (infq_path_exists(tiny_path(d, "q"))) {
            tiny_same_file(tiny_path(d, "want/model.safetensors"), tiny_path(d, "q/model.safetensors"));
            ck_ok(infq_dir_remove(tiny_path(d, "q"), &err), err);
        }
    }
    ck_assert_uint_gt(n, 10);
    ck_assert_uint_lt(n, 500);
    tiny_same_file(tiny_path(d, "want/model.safetensors"), tiny_path(d, "q/model.safetensors"));
    tiny_same_file(tiny_path(d, "want/infq.json"), tiny_path(d, "q/infq.json"));
}
END_TEST

START_TEST(memory_that_runs_out_is_a_clean_error_without_a_leak)
{
    const char *d = test_tmpdir();
    infq_status code;
    infq_err err = { 0 };
    size_t n, live;

    tiny_write(tiny_path(d, "m"), TINY_DEFAULT);
    infq_par_threads_set(1);
    live = infq_mem_stats_get().n_live;
    for (n = 1; n < 20000; n += 1 + n / 16) {
        infq_checkpoint *ck = NULL;
        infq_plan *p = NULL;
        infq_quantize_result *r = NULL;
        infq_plan_options o = infq_plan_options_default();
        infq_quantize_options qo = { true, true };
        o.out = tiny_path(d, "q");
        infq_mem_fail_at(n);
        code = infq_checkpoint_open(tiny_path(d, "m"), &quiet, &ck, &err);
        if (!code)
            code = infq_plan_make(ck, &o, &p, &err);
        if (!code)
            code = infq_quantize_run(p, &qo, &quiet, &r, &err);
        infq_mem_fail_at(0);
        infq_quantize_result_free(r);
        infq_plan_free(p);
        infq_checkpoint_close(ck);
        ck_assert_msg(infq_mem_stats_get().n_live == live, "failure %zu leaves %zu blocks", n,
                      infq_mem_stats_get().n_live - live);
        if (!code)
            break;
        ck_assert_msg(code == INFQ_E_NOMEM, "failure %zu: status %d: %s", n, (int)code, err.msg);
    }
    ck_assert_uint_lt(n, 20000);
}
END_TEST

// Overwrites one byte of a tensor of DIR/q.
static void change(const char *dir, const char *tensor, size_t offset, uint8_t with)
{
    infq_buf file = tiny_read(tiny_path(dir, "q/model.safetensors"));
    infq_st *st = NULL;
    const infq_st_tensor *t;
    infq_err err;

    ck_ok(infq_st_parse((const uint8_t *)file.data, file.n, &st, &err), err);
    t = infq_st_find(st, tensor);
    ck_assert_msg(t != NULL, "%s", tensor);
    file.data[t->offset + offset] = (char)with;
    infq_st_free(st);
    ck_ok(infq_file_write_atomic(tiny_path(dir, "q/model.safetensors"), file.data, file.n, true, &err), err);
    infq_buf_deinit(&file);
}

static size_t failures(const char *dir)
{
    infq_verify_options vo = infq_verify_options_default();
    infq_verify_report *v = NULL;
    infq_err err;
    size_t n_fail;

    vo.source = tiny_path(dir, "m");
    ck_ok(infq_verify_run(tiny_path(dir, "q"), &vo, &quiet, &v, &err), err);
    n_fail = v->findings.n_fail;
    infq_verify_report_free(v);
    return n_fail;
}

START_TEST(verify_sees_a_scale_that_is_not_finite)
{
    const char *d = test_tmpdir();

    tiny_write(tiny_path(d, "m"), TINY_DEFAULT);
    quantized(tiny_path(d, "m"), tiny_path(d, "q"), "W4A16");
    change(d, "model.layers.0.mlp.up_proj.weight_scale", 1, 0x7f); // with the lower byte's top bit a BF16 NaN
    change(d, "model.layers.0.mlp.up_proj.weight_scale", 0, 0xff);
    ck_assert_uint_gt(failures(d), 0);
}
END_TEST

START_TEST(verify_sees_a_changed_copy)
{
    const char *d = test_tmpdir();

    tiny_write(tiny_path(d, "m"), TINY_DEFAULT);
    quantized(tiny_path(d, "m"), tiny_path(d, "q"), "W8A16");
    change(d, "model.norm.weight", 4, 0x11);
    ck_assert_uint_eq(failures(d), 1);
}
END_TEST

START_TEST(verify_refuses_a_weight_shape_that_contradicts_the_codes)
{
    const char *d = test_tmpdir();
    infq_verify_options vo = infq_verify_options_default();
    infq_verify_report *v = NULL;
    infq_err err;

    tiny_write(tiny_path(d, "m"), TINY_DEFAULT);
    quantized(tiny_path(d, "m"), tiny_path(d, "q"), "W4A16");
    change(d, "model.layers.1.mlp.down_proj.weight_shape", 0, 0x7f);
    vo.source = tiny_path(d, "m");
    ck_assert_int_eq(infq_verify_run(tiny_path(d, "q"), &vo, &quiet, &v, &err), INFQ_E_FORMAT);
    ck_assert_ptr_nonnull(strstr(err.msg, "model.layers.1.mlp.down_proj"));
}
END_TEST

START_TEST(a_bare_file_is_quantized_into_a_folder_or_file_that_verifies)
{
    const char *d = test_tmpdir();
    tiny_options o = TINY_DEFAULT;
    infq_verify_options vo = infq_verify_options_default();
    infq_verify_report *v = NULL;
    infq_err err;

    o.bare = true;
    tiny_write(tiny_path(d, "m.safetensors"), o);
    quantized(tiny_path(d, "m.safetensors"), tiny_path(d, "q.safetensors"), "W4A16");
    vo.source = tiny_path(d, "m.safetensors");
    ck_ok(infq_verify_run(tiny_path(d, "q.safetensors"), &vo, &quiet, &v, &err), err);
    ck_assert_uint_eq(v->findings.n_fail, 0);
    infq_verify_report_free(v);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("quantize");
    TCase *t = tcase_create("outputs");

    tcase_set_timeout(t, 120);
    tcase_add_loop_test(t, every_scheme_publishes_a_verified_folder, 0, N_SCHEMES);
    tcase_add_loop_test(t, bytes_do_not_depend_on_threads_or_cpu_level, 0, N_SCHEMES);
    tcase_add_loop_test(t, a_value_that_is_not_finite_is_found_with_its_place, 0, 2);
    tcase_add_loop_test(t, zero_matrices_stay_exactly_zero, 0, N_SCHEMES);
    tcase_add_test(t, groups_that_do_not_divide_are_refused_or_kept_on_request);
    tcase_add_test(t, a_memory_limit_below_the_plan_is_refused);
    tcase_add_test(t, config_gains_one_member_and_keeps_its_bytes);
    tcase_add_test(t, a_bare_file_is_quantized_into_a_folder_or_file_that_verifies);
    suite_add_tcase(s, t);
    t = tcase_create("faults");
    tcase_set_timeout(t, 240);
    tcase_add_test(t, a_failing_disk_leaves_nothing_under_the_final_name);
    tcase_add_test(t, memory_that_runs_out_is_a_clean_error_without_a_leak);
    suite_add_tcase(s, t);
    t = tcase_create("verify");
    tcase_add_test(t, verify_sees_a_scale_that_is_not_finite);
    tcase_add_test(t, verify_sees_a_changed_copy);
    tcase_add_test(t, verify_refuses_a_weight_shape_that_contradicts_the_codes);
    suite_add_tcase(s, t);
    return test_main(s);
}
