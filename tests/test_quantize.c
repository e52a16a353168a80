#include "lib/compress/quantize.h"

#include <signal.h>
#include <sys/wait.h>

#include "lib/base/cpu.h"
#include "lib/base/hash.h"
#include "lib/base/par.h"
#include "tests/tiny_model.h"

// Quantizes src into dst; the error is left in *err.
static infq_status quantize(const char *src, const char *dst, infq_plan_options o, bool force, infq_quantize_result **out,
                            infq_err *err)
{
    infq_quantize_options qo = {.force = force, .verify = true};
    infq_quantize_result *r = NULL;
    infq_checkpoint *ck;
    infq_plan *p = NULL;
    infq_status st;

    o.out = dst;
    st = infq_checkpoint_open(src, NULL, &ck, err);
    if (st)
        return st;
    st = infq_plan_make(ck, &o, &p, err);
    if (!st)
        st = infq_quantize_run(p, &qo, NULL, &r, err);
    infq_plan_free(p);
    infq_checkpoint_close(ck);
    if (out)
        *out = r;
    else
        infq_quantize_result_free(r);
    return st;
}

static infq_plan_options scheme(const char *name, const char *method)
{
    infq_plan_options o = infq_plan_options_default();

    o.scheme = infq_scheme_find(name);
    o.method = infq_method_find(method);
    return o;
}

START_TEST(quantize_writes_every_scheme_and_it_verifies)
{
    const char *dir = test_tmpdir();
    TINY_PATH(src, dir, "src");
    infq_err err;

    tiny_write(src, TINY_DEFAULT);
    for (size_t i = 0; i < infq_scheme_count(); i++)
        for (size_t m = 0; m < infq_method_count(); m++) {
            const char *name = infq_scheme_get(i)->name;
            char dst[640];
            infq_quantize_result *r;
            if (infq_method_get(m)->needs)
                continue;
            snprintf(dst, sizeof(dst), "%s/%s-%zu", dir, name, m);
            ck_ok(quantize(src, dst, scheme(name, infq_method_get(m)->name), false, &r, &err), err);
            ck_assert_msg(r->published, "%s: %s", name, r->verified->findings.n ? r->verified->findings.v[0].text : "");
            ck_assert_uint_eq(r->verified->n_rows, 14);
            ck_assert_double_lt(r->verified->worst, infq_elem_bits(infq_scheme_get(i)->codec.elem) == 4 ? 0.13 : 0.03);
            ck_assert_double_gt(r->verified->worst, 0.001);
            tiny_same_file(src, dst, "tokenizer.json");
            infq_quantize_result_free(r);
        }
}
END_TEST

START_TEST(calibrated_methods_write_every_scheme_and_do_not_depend_on_threads)
{
    const char *dir = test_tmpdir();
    TINY_PATH(src, dir, "src");
    infq_calib calib;
    infq_err err;

    tiny_write(src, TINY_DEFAULT);
    tiny_calib(&calib);
    for (size_t i = 0; i < infq_scheme_count(); i++)
        for (size_t m = 0; m < infq_method_count(); m++) {
            infq_plan_options o = scheme(infq_scheme_get(i)->name, infq_method_get(m)->name);
            char first[640], again[640];
            infq_quantize_result *r;
            if (strcmp(o.method->name, "rtn") == 0)
                continue;
            o.calib = &calib;
            snprintf(first, sizeof(first), "%s/a%zu-%zu", dir, i, m);
            snprintf(again, sizeof(again), "%s/b%zu-%zu", dir, i, m);
            infq_par_threads_set(1);
            ck_ok(quantize(src, first, o, false, &r, &err), err);
            ck_assert_msg(r->published, "%s: %s", o.scheme->name, r->verified->findings.n ? r->verified->findings.v[0].text : "");
            ck_assert_uint_eq(r->verified->n_rows, 14);
            infq_quantize_result_free(r);
            infq_par_threads_set(3);
            o.shard_bytes = 0;
            ck_ok(quantize(src, again, o, false, NULL, &err), err);
            tiny_same_file(first, again, "model.safetensors");
            tiny_same_file(first, again, "infq.json");
        }
    infq_calib_free(&calib);
}
END_TEST

START_TEST(calibrated_methods_are_refused_without_data_and_without_a_model_that_runs)
{
    const char *dir = test_tmpdir();
    TINY_PATH(src, dir, "src");
    TINY_PATH(bare, dir, "bare.safetensors");
    TINY_PATH(dst, dir, "q");
    tiny_options file = TINY_DEFAULT;
    infq_plan_options o = scheme("W4A16", "gptq");
    infq_calib calib;
    infq_err err;

    tiny_write(src, file);
    ck_assert_int_eq(quantize(src, dst, o, false, NULL, &err), INFQ_E_USAGE);
    file.file.bare = true;
    tiny_write(bare, file);
    tiny_calib(&calib);
    o.calib = &calib;
    ck_assert_int_eq(quantize(bare, dst, o, false, NULL, &err), INFQ_E_UNSUPPORTED);
    ck_assert_msg(strstr(err.msg, "config.json") != NULL, "%s", err.msg);
    infq_calib_free(&calib);
    ck_assert_int_eq(infq_calib_from_ids((int32_t[]){ 1 }, 1, 24, 6, "short.txt", NULL, &calib, &err), INFQ_E_FORMAT);
}
END_TEST

START_TEST(quantize_reports_the_error_that_verification_finds)
{
    const char *dir = test_tmpdir();
    TINY_PATH(src, dir, "src");
    TINY_PATH(dst, dir, "q");
    infq_quantize_result *r;
    infq_err err;
    size_t row = 0;

    tiny_write(src, TINY_DEFAULT);
    ck_ok(quantize(src, dst, scheme("W4A16", "search"), false, &r, &err), err);
    for (size_t i = 0; row < r->verified->n_rows; i++)
        if (r->rows[i].sq_sum > 0.0)
            // Sums in another order and precision: equal to a millionth.
            ck_assert_double_eq_tol(infq_ledger_error(&r->rows[i]), r->verified->rows[row++].relative_error, 1e-6);
    infq_quantize_result_free(r);
}
END_TEST

START_TEST(quantize_gives_the_same_bytes_for_any_thread_count_level_and_memory)
{
    const char *dir = test_tmpdir();
    TINY_PATH(src, dir, "src");
    TINY_PATH(ref, dir, "ref");
    infq_cpu_level top = infq_cpu_level_get();
    infq_err err;
    int n = 0;

    tiny_write(src, TINY_DEFAULT);
    infq_par_threads_set(1);
    ck_ok(quantize(src, ref, scheme("W4A16_ASYM", "search"), false, NULL, &err), err);
    for (int threads = 1; threads <= 5; threads += 2)
        for (infq_cpu_level level = INFQ_CPU_SCALAR; level <= top; level++) {
            infq_plan_options o = scheme("W4A16_ASYM", "search");
            char dst[640];
            snprintf(dst, sizeof(dst), "%s/q%d", dir, n++);
            ck_ok(infq_cpu_level_set(level, &err), err);
            infq_par_threads_set(threads);
            o.mem_limit = n % 2 ? 0 : (uint64_t)infq_mem_rss_now() + ((uint64_t)3 << 20);
            ck_ok(quantize(src, dst, o, false, NULL, &err), err);
            tiny_same_file(ref, dst, "model.safetensors");
            tiny_same_file(ref, dst, "infq.json");
        }
}
END_TEST

START_TEST(quantize_changes_nothing_else_in_the_configuration)
{
    static const struct {
        const char *in, *out;
    } want[] = {
        {"{}", "{\"quantization_config\": {\"a\":1}}"},
        {"{\"x\": 2.50}", "{\"x\": 2.50,\"quantization_config\": {\"a\":1}}"},
        {"{\n}\n", "{\n\"quantization_config\": {\n    \"a\": 1\n  }\n}\n"},
        {"{\n  \"x\": \"}\"\n}\n", "{\n  \"x\": \"}\",\n  \"quantization_config\": {\n    \"a\": 1\n  }\n}\n"},
    };
    infq_buf b;
    infq_err err;

    for (size_t i = 0; i < sizeof(want) / sizeof(want[0]); i++) {
        infq_buf_init(&b);
        ck_ok(infq_config_insert(want[i].in, strlen(want[i].in), "{\"a\":1}", &b, &err), err);
        ck_assert_str_eq(b.data, want[i].out);
        infq_buf_deinit(&b);
    }
    infq_buf_init(&b);
    ck_assert_int_eq(infq_config_insert("[]", 2, "{}", &b, &err), INFQ_E_FORMAT);
    ck_assert_int_eq(infq_config_insert("{\"quantization_config\":null}", 28, "{}", &b, &err), INFQ_E_FORMAT);
    infq_buf_deinit(&b);
}
END_TEST

START_TEST(quantize_names_the_first_value_that_is_not_finite_and_writes_nothing)
{
    static const float bad[] = {NAN, INFINITY, -INFINITY};
    static const infq_dtype types[] = {INFQ_DTYPE_BF16, INFQ_DTYPE_F16, INFQ_DTYPE_F32};
    infq_err err;

    for (size_t i = 0; i < 3; i++)
        for (size_t t = 0; t < 3; t++) {
            const char *dir = test_tmpdir();
            TINY_PATH(src, dir, "src");
            TINY_PATH(dst, dir, "q");
            TINY_PATH(partial, dir, "q.partial");
            tiny_options o = TINY_DEFAULT;
            o.file.dtype = types[t];
            o.bad_tensor = "model.layers.1.self_attn.v_proj.weight";
            o.bad_value = bad[i];
            tiny_write(src, o);
            ck_assert_int_eq(quantize(src, dst, scheme("W4A16", "rtn"), false, NULL, &err), INFQ_E_NUMERIC);
            ck_assert_msg(strstr(err.msg, "model.layers.1.self_attn.v_proj.weight") && strstr(err.msg, "[3, 5]"), "%s", err.msg);
            ck_assert(!infq_path_exists(dst));
            ck_assert(!infq_path_exists(partial));
            ck_ok(infq_dir_remove(dir, &err), err);
        }
}
END_TEST

START_TEST(quantize_keeps_zero_matrices_zero_and_counts_their_groups)
{
    const char *dir = test_tmpdir();
    TINY_PATH(src, dir, "src");
    TINY_PATH(dst, dir, "q");
    tiny_options o = TINY_DEFAULT;
    infq_quantize_result *r;
    infq_err err;

    o.zero_tensor = "model.layers.0.mlp.up_proj.weight";
    tiny_write(src, o);
    ck_ok(quantize(src, dst, scheme("W4A16", "search"), false, &r, &err), err);
    ck_assert_int_eq(r->zero_groups, 256); // rows of one group
    ck_assert(r->published);
    infq_quantize_result_free(r);
}
END_TEST

START_TEST(quantize_hashes_the_source_files_as_a_checksum_tool_would)
{
    const char *dir = test_tmpdir();
    TINY_PATH(src, dir, "src");
    TINY_PATH(dst, dir, "q");
    TINY_PATH(receipt_path, dst, "infq.json");
    tiny_options o = TINY_DEFAULT;
    const cJSON *files, *file;
    cJSON *receipt;
    infq_err err;
    int n = 0;

    o.file.shard_bytes = 200000;
    tiny_write(src, o);
    ck_ok(quantize(src, dst, scheme("W4A16", "rtn"), false, NULL, &err), err);
    receipt = test_json(receipt_path);
    files = cJSON_GetObjectItem(cJSON_GetObjectItem(receipt, "source"), "files");
    cJSON_ArrayForEach(file, files)
    {
        TINY_PATH(source, src, cJSON_GetObjectItem(file, "name")->valuestring);
        char hex[65];
        ck_ok(infq_sha256_file(source, hex, &err), err);
        ck_assert_str_eq(cJSON_GetObjectItem(file, "sha256")->valuestring, hex);
        n++;
    }
    ck_assert_int_ge(n, 3);
    ck_assert_int_eq(cJSON_GetArraySize(cJSON_GetObjectItem(receipt, "ledger")), 21);
    ck_assert(cJSON_IsTrue(cJSON_GetObjectItem(cJSON_GetObjectItem(receipt, "verification"), "passed")));
    cJSON_Delete(receipt);
}
END_TEST

START_TEST(quantize_works_on_a_bare_file_and_keeps_its_configuration_in_the_metadata)
{
    const char *dir = test_tmpdir();
    TINY_PATH(src, dir, "m.safetensors");
    TINY_PATH(dst, dir, "q.safetensors");
    TINY_PATH(again, dir, "q2.safetensors");
    tiny_options o = TINY_DEFAULT;
    infq_checkpoint *ck;
    infq_reader *r;
    infq_quantize_result *res;
    infq_err err;

    o.file.bare = true;
    tiny_write(src, o);
    ck_ok(quantize(src, dst, scheme("FP8", "rtn"), false, &res, &err), err);
    ck_assert(res->published && res->verified->with_source);
    infq_quantize_result_free(res);
    ck_ok(infq_checkpoint_open(dst, NULL, &ck, &err), err);
    ck_ok(infq_reader_open(ck, &r, &err), err);
    ck_assert_str_eq(infq_reader_format(r), "compressed-tensors");
    infq_reader_close(r);
    infq_checkpoint_close(ck);
    ck_assert_int_eq(quantize(dst, again, scheme("FP8", "rtn"), false, NULL, &err), INFQ_E_UNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(err.msg, "already quantized"));
}
END_TEST

START_TEST(quantize_replaces_an_output_only_when_forced)
{
    const char *dir = test_tmpdir();
    TINY_PATH(src, dir, "src");
    TINY_PATH(dst, dir, "q");
    infq_err err;

    tiny_write(src, TINY_DEFAULT);
    ck_ok(quantize(src, dst, scheme("W4A16", "rtn"), false, NULL, &err), err);
    ck_assert_int_eq(quantize(src, dst, scheme("FP8", "rtn"), false, NULL, &err), INFQ_E_EXISTS);
    ck_ok(quantize(src, dst, scheme("FP8", "rtn"), true, NULL, &err), err);
}
END_TEST

// Interrupts after a number of progress calls, as a signal would.
static void stop_after(void *ctx, const char *what, uint64_t done, uint64_t total)
{
    int *left = ctx;

    (void)what;
    (void)done;
    (void)total;
    if (--*left == 0)
        infq_interrupted = 1;
}

START_TEST(quantize_goes_on_where_it_was_interrupted_with_the_same_bytes)
{
    const char *dir = test_tmpdir();
    TINY_PATH(src, dir, "src");
    TINY_PATH(ref, dir, "ref");
    TINY_PATH(dst, dir, "q");
    infq_plan_options o = scheme("W4A16", "search");
    infq_quantize_options qo = {.verify = true};
    tiny_options t = TINY_DEFAULT;
    size_t n_resumed = 0;
    infq_err err;

    tiny_write(src, t);
    o.shard_bytes = 40000;
    ck_ok(quantize(src, ref, o, false, NULL, &err), err);
    for (int stop = 1; stop < 12; stop += 2) {
        infq_quantize_result *r = NULL;
        infq_checkpoint *ck;
        infq_plan *p;
        int left = stop;
        infq_log log = {.progress = stop_after, .ctx = &left};
        char **names;
        size_t n;
        ck_ok(infq_checkpoint_open(src, NULL, &ck, &err), err);
        o.out = dst;
        ck_ok(infq_plan_make(ck, &o, &p, &err), err);
        p->chunk_bytes = 20000; // many batches
        ck_assert_int_eq(infq_quantize_run(p, &qo, &log, &r, &err), INFQ_E_INTERRUPTED);
        ck_assert(!infq_path_exists(dst));
        infq_interrupted = 0;
        ck_ok(infq_quantize_run(p, &qo, NULL, &r, &err), err);
        n_resumed += r->n_resumed;
        infq_quantize_result_free(r);
        infq_plan_free(p);
        infq_checkpoint_close(ck);
        ck_ok(infq_dir_list(ref, &names, &n, &err), err);
        ck_assert_uint_ge(n, 5);
        for (size_t i = 0; i < n; i++)
            tiny_same_file(ref, dst, names[i]);
        infq_dir_list_free(names, n);
        ck_ok(infq_dir_remove(dst, &err), err);
    }
    ck_assert_uint_gt(n_resumed, 0);
}
END_TEST

// Quantizes in a child that is killed before its n-th write, fsync or rename; true if it was, false if it came to its end.
static bool killed_at(size_t n, const char *src, const char *dst, infq_plan_options o, bool force)
{
    infq_err err;
    int status;
    pid_t child = fork();

    ck_assert_int_ge(child, 0);
    if (child == 0) {
        infq_file_die_at(n);
        _exit(quantize(src, dst, o, force, NULL, &err) ? 1 : 0);
    }
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    if (WIFEXITED(status))
        ck_assert_int_eq(WEXITSTATUS(status), 0);
    return WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
}

static void same_model(const char *a, const char *b)
{
    infq_err err;
    char **names;
    size_t n;

    ck_ok(infq_dir_list(a, &names, &n, &err), err);
    ck_assert_uint_ge(n, 4);
    for (size_t i = 0; i < n; i++)
        tiny_same_file(a, b, names[i]);
    infq_dir_list_free(names, n);
}

START_TEST(quantize_killed_at_any_write_leaves_all_or_nothing_and_ends_with_the_same_bytes)
{
    static const uint64_t shard_bytes[] = {0, 40000};
    const char *dir = test_tmpdir();
    TINY_PATH(src, dir, "src");
    TINY_PATH(ref, dir, "ref");
    TINY_PATH(dst, dir, "q");
    TINY_PATH(partial, dir, "q.partial");
    infq_plan_options o = scheme("W4A16", "rtn");
    size_t n = 0;
    infq_err err;

    o.threads = 1;
    infq_par_threads_set(1); // a child of a process with threads cannot start its own
    tiny_write(src, TINY_DEFAULT);
    for (int i = 0; i < 2; i++) {
        o.shard_bytes = shard_bytes[i];
        ck_ok(quantize(src, ref, o, true, NULL, &err), err);
        for (n = 1; killed_at(n, src, dst, o, false); n++) {
            if (infq_path_exists(dst))
                same_model(ref, dst);
            else
                ck_ok(quantize(src, dst, o, false, NULL, &err), err);
            same_model(ref, dst);
            ck_ok(infq_dir_remove(dst, &err), err);
            ck_ok(infq_dir_remove(partial, &err), err);
        }
        ck_assert_uint_gt(n, 30);
        ck_ok(infq_dir_remove(dst, &err), err);
    }
}
END_TEST

START_TEST(quantize_fails_cleanly_at_every_write_and_allocation)
{
    const char *dir = test_tmpdir();
    TINY_PATH(src, dir, "src");
    TINY_PATH(dst, dir, "q");
    infq_plan_options o = scheme("W4A16", "rtn");
    size_t live, n_fail = 0;
    infq_err err;

    tiny_write(src, TINY_DEFAULT);
    infq_par_threads_set(1);
    ck_ok(quantize(src, dst, o, false, NULL, &err), err);
    ck_ok(infq_dir_remove(dst, &err), err);
    live = infq_mem_stats_get().n_live;
    for (int what = 0; what < 2; what++)
        for (size_t n = 1; n < 100000; n += n < 400 ? 1 : 37) {
            infq_status st;
            what ? infq_file_fail_at(n) : infq_mem_fail_at(n);
            st = quantize(src, dst, o, false, NULL, &err);
            infq_file_fail_at(0);
            infq_mem_fail_at(0);
            ck_assert_msg(infq_mem_stats_get().n_live == live, "%s %zu: %zu blocks are left", what ? "write" : "allocation", n,
                          infq_mem_stats_get().n_live - live);
            if (st == 0) {
                ck_ok(infq_dir_remove(dst, &err), err);
                break;
            }
            n_fail++;
            ck_assert_msg(st == INFQ_E_NOMEM || st == INFQ_E_IO || st == INFQ_E_NOSPACE, "status %d: %s", (int)st, err.msg);
            // Only the last step, making the rename durable, can fail with the output in place: then it is complete.
            if (infq_path_exists(dst)) {
                infq_verify_options vo = infq_verify_options_default();
                infq_verify_report *report;
                ck_assert_ptr_nonnull(strstr(err.msg, "fsync"));
                vo.source = src;
                ck_ok(infq_verify_run(dst, &vo, NULL, &report, &err), err);
                ck_assert_uint_eq(report->findings.n_fail, 0);
                infq_verify_report_free(report);
                ck_ok(infq_dir_remove(dst, &err), err);
            }
        }
    ck_assert_uint_gt(n_fail, 50);
}
END_TEST

START_TEST(quantize_by_rules_verifies_and_says_so_in_the_receipt)
{
    const char *dir = test_tmpdir();
    const infq_plan_rule rules[] = {{"o_proj", NULL, 0}, {"re:.*\\.1\\.mlp", infq_scheme_find("W8A16"), INFQ_GROUP_CHANNEL},
                                    {"down_proj", infq_scheme_find("FP8"), 0}};
    infq_plan_options o = scheme("W4A16", "search");
    TINY_PATH(src, dir, "src");
    TINY_PATH(dst, dir, "dst");
    TINY_PATH(receipt, dst, "infq.json");
    const cJSON *list;
    cJSON *doc;
    infq_quantize_result *r;
    infq_err err;

    tiny_write(src, TINY_DEFAULT);
    o.rules = rules;
    o.n_rules = 3;
    ck_ok(quantize(src, dst, o, false, &r, &err), err);
    ck_assert(r->published && r->verified->findings.n_fail == 0);
    ck_assert_uint_eq(r->verified->n_rows, 12);
    infq_quantize_result_free(r);
    doc = test_json(receipt);
    list = infq_json_get(infq_json_get(doc, "recipe"), "rules");
    ck_assert_int_eq(cJSON_GetArraySize(list), 3);
    ck_assert(cJSON_IsTrue(infq_json_get(cJSON_GetArrayItem(list, 0), "keep")));
    ck_assert_int_eq(infq_json_get(cJSON_GetArrayItem(list, 1), "matrices")->valueint, 3);
    ck_assert_str_eq(infq_json_get(cJSON_GetArrayItem(list, 2), "scheme")->valuestring, "FP8");
    cJSON_Delete(doc);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("quantize");
    TCase *t = tcase_create("quantize");

    tcase_set_timeout(t, 240);
    tcase_add_test(t, quantize_writes_every_scheme_and_it_verifies);
    tcase_add_test(t, calibrated_methods_write_every_scheme_and_do_not_depend_on_threads);
    tcase_add_test(t, calibrated_methods_are_refused_without_data_and_without_a_model_that_runs);
    tcase_add_test(t, quantize_reports_the_error_that_verification_finds);
    tcase_add_test(t, quantize_gives_the_same_bytes_for_any_thread_count_level_and_memory);
    tcase_add_test(t, quantize_changes_nothing_else_in_the_configuration);
    tcase_add_test(t, quantize_names_the_first_value_that_is_not_finite_and_writes_nothing);
    tcase_add_test(t, quantize_keeps_zero_matrices_zero_and_counts_their_groups);
    tcase_add_test(t, quantize_hashes_the_source_files_as_a_checksum_tool_would);
    tcase_add_test(t, quantize_works_on_a_bare_file_and_keeps_its_configuration_in_the_metadata);
    tcase_add_test(t, quantize_replaces_an_output_only_when_forced);
    tcase_add_test(t, quantize_goes_on_where_it_was_interrupted_with_the_same_bytes);
    tcase_add_test(t, quantize_killed_at_any_write_leaves_all_or_nothing_and_ends_with_the_same_bytes);
    tcase_add_test(t, quantize_fails_cleanly_at_every_write_and_allocation);
    tcase_add_test(t, quantize_by_rules_verifies_and_says_so_in_the_receipt);
    suite_add_tcase(s, t);
    return test_main(s);
}
