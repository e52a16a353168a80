/* Runs under class-R variation on stories260k: declared numerics, the short cut, taking up stored runs, repeatability of the engine. */
#include "tests/testlib.h"

#include "lib/base/par.h"
#include "lib/eval/noise_run.h"

static infq_backend *backend;
static infq_checkpoint *checkpoint;
static infq_model *model;
static infq_tokenizer *tokenizer;
static infq_task *task;
static const infq_log quiet;
static const infq_item_key key = {.task = "blimp", .metric = "acc", .settings = "bos=model"};

static void open_all(const char *spec, int64_t limit)
{
    const char *path = test_shared_path("data/model-stories260k/hf");
    infq_model_options mo = infq_model_options_default();
    infq_err err;

    infq_par_threads_set(1);
    ck_ok(infq_backend_open("cpu", &backend, &err), err);
    ck_ok(infq_checkpoint_open(path, &quiet, &checkpoint, &err), err);
    ck_ok(infq_model_open(checkpoint, backend, &mo, &model, &err), err);
    ck_ok(infq_tokenizer_open(path, &tokenizer, &err), err);
    ck_ok(infq_task_open(spec, limit, &task, &err), err);
}

static void close_all(void)
{
    infq_task_free(task);
    infq_tokenizer_free(tokenizer);
    infq_model_close(model);
    infq_checkpoint_close(checkpoint);
    infq_backend_close(backend);
}

static const char *blimp(void)
{
    return test_shared_path("data/blimp/anaphor_number_agreement.jsonl.gz");
}

static bool same_ll(const infq_item *a, const infq_item *b)
{
    return a->doc == b->doc && a->n == b->n && memcmp(a->ll, b->ll, (size_t)a->n * sizeof(*a->ll)) == 0;
}

static int64_t equal_items(const infq_items *a, const infq_items *b)
{
    int64_t n = 0;

    for (int64_t i = 0; i < infq_items_count(a); i++)
        n += same_ll(infq_items_get(a, i), infq_items_get(b, i));
    return n;
}

START_TEST(a_part_of_the_items_keeps_its_scores)
{
    infq_score_options so = infq_score_options_default();
    infq_items *all, *some;
    const int64_t order[] = {3, 10, 17, 59, 2};
    infq_err err;

    TEST_NEEDS_SHARED();
    open_all(blimp(), 60);
    ck_ok(infq_items_new(&key, &all, &err), err);
    ck_ok(infq_items_new(&key, &some, &err), err);
    ck_ok(infq_score_task(model, tokenizer, task, &so, all, NULL, &err), err);
    so.order = order;
    so.n_order = 5;
    so.batch = 2;
    ck_ok(infq_items_add_copy(some, infq_items_get(all, 3), &err), err); /* what an interrupted run left */
    ck_ok(infq_score_task(model, tokenizer, task, &so, some, NULL, &err), err);
    ck_assert_int_eq(infq_items_count(some), 5);
    for (int i = 0; i < 5; i++)
        ck_assert(same_ll(infq_items_get(some, i), infq_items_get(all, order[i])));
    infq_items_free(all);
    infq_items_free(some);
    close_all();
}
END_TEST

START_TEST(runs_differ_and_the_record_has_their_figures)
{
    infq_noise_options o = infq_noise_options_default();
    infq_numerics off = infq_numerics_default();
    infq_noise_runs r;
    infq_noise *n;
    char a[160], b[160];
    infq_err err;

    TEST_NEEDS_SHARED();
    open_all(blimp(), 0);
    o.source = (infq_noise_source)_i;
    o.n_runs = 4;
    o.limit = 120;
    o.every_item = true;
    ck_ok(infq_noise_run_task(model, tokenizer, task, &o, &key, &r, &err), err);
    ck_assert_int_eq(r.n_full, 1000);
    ck_assert(!r.short_cut && r.rescored == 1);
    for (int j = 0; j < 4; j++) {
        ck_assert_int_eq(infq_items_count(r.items[j]), 120);
        for (int k = 0; k < j; k++)
            ck_assert_msg(equal_items(r.items[j], r.items[k]) == 120 || o.source != INFQ_NOISE_REPEAT, "runs %d and %d", j, k);
        for (int k = 0; k < j && o.source != INFQ_NOISE_REPEAT; k++)
            ck_assert_int_lt(equal_items(r.items[j], r.items[k]), 110);
        infq_noise_label(&o, j, a, sizeof(a));
        infq_noise_label(&o, (j + 1) % 4, b, sizeof(b));
        ck_assert_str_ne(a, b);
    }
    ck_ok(infq_noise_new(4, &n, &err), err);
    ck_ok(infq_noise_add_task(n, (const infq_items *const *)r.items, NULL, r.n_full, &err), err);
    ck_assert_double_le(n->tasks[0].flip_rate, 0.2);
    if (o.source == INFQ_NOISE_REPEAT)
        ck_assert(n->tasks[0].sd == 0 && n->tasks[0].flip_rate == 0);
    ck_assert_str_eq(infq_numerics_describe(infq_model_numerics(model), a, sizeof(a)), infq_numerics_describe(&off, b, sizeof(b)));
    infq_noise_free(n);
    infq_noise_runs_free(&r);
    close_all();
}
END_TEST

START_TEST(the_short_cut_gives_the_same_metrics_with_fewer_items)
{
    infq_noise_options o = infq_noise_options_default();
    infq_noise_runs all, few;
    infq_err err;

    TEST_NEEDS_SHARED();
    open_all(blimp(), 300);
    o.n_runs = 3;
    o.pilot = 60;
    o.checked = 40;
    o.every_item = true;
    ck_ok(infq_noise_run_task(model, tokenizer, task, &o, &key, &all, &err), err);
    o.every_item = false;
    ck_ok(infq_noise_run_task(model, tokenizer, task, &o, &key, &few, &err), err);
    ck_assert(few.short_cut);
    ck_assert_int_eq(few.n_check_flips, 0);
    ck_assert_int_ge(few.n_checked, 40);
    ck_assert(few.tau > 0 && isnan(all.tau));
    ck_assert_msg(few.rescored > 0 && few.rescored < 0.6, "%g of the items were scored again", few.rescored);
    for (int j = 0; j < 3; j++)
        for (int64_t i = 0; i < 300; i++) {
            const infq_item *x = infq_items_get(all.items[j], i), *y = infq_items_get(few.items[j], i);
            ck_assert(x->doc == y->doc && strcmp(x->request, y->request) == 0);
            ck_assert_msg(x->pick == y->pick, "run %d, item %d: other picks", j, (int)i);
        }
    infq_noise_runs_free(&all);
    infq_noise_runs_free(&few);
    close_all();
}
END_TEST

START_TEST(a_short_cut_that_misses_flips_is_switched_off)
{
    /* a tau of the pilot that is far too small: its items are all but ties of nothing (one pair of equal sentences), so everything is carried */
    infq_noise_options o = infq_noise_options_default();
    infq_noise_runs r;
    infq_buf text;
    char path[600];
    bool different = false;
    infq_err err;

    TEST_NEEDS_SHARED();
    infq_buf_init(&text);
    for (int i = 0; i < 10; i++) /* equal choices: their difference never changes */
        infq_buf_str(&text, "{\"context\": \"Once upon a time\", \"choices\": [\" there was\", \" there was\"], \"gold\": 0}\n");
    for (int i = 0; i < 30; i++) /* one token of a hundred differs: near ties that any rounding turns */
        infq_buf_fmt(&text, "{\"context\": \"Lily and Tom number %d saw a big dog\", \"choices\": [\" and the dog ran to the park with a ball and a cat\", "
                            "\" and the dog ran to the park with a cat and a ball\"], \"gold\": 0}\n", i);
    snprintf(path, sizeof(path), "%s/ties.jsonl", test_tmpdir());
    ck_ok(infq_file_write_atomic(path, text.data, text.n, true, &err), err);
    open_all(path, 0);
    o.source = INFQ_NOISE_ROUNDOFF;
    o.roundoff = 0.1;
    o.n_runs = 3;
    o.pilot = 10;
    o.checked = 30;
    ck_ok(infq_noise_run_task(model, tokenizer, task, &o, &key, &r, &err), err);
    ck_assert_double_eq(r.tau, 0);
    ck_assert_int_gt(r.n_check_flips, 0);
    ck_assert(!r.short_cut && r.rescored == 1);
    for (int64_t i = 10; i < 40; i++)
        different = different || !same_ll(infq_items_get(r.items[2], i), infq_items_get(r.items[0], i));
    ck_assert(different);
    infq_noise_runs_free(&r);
    infq_buf_deinit(&text);
    close_all();
}
END_TEST

static void drop_lines(const char *path, int keep)
{
    infq_buf b;
    size_t at = 0;
    infq_err err;

    infq_buf_init(&b);
    ck_ok(infq_file_read(path, (size_t)1 << 26, &b, &err), err);
    for (int i = 0; i < keep; i++)
        at = (size_t)((char *)memchr(b.data + at, '\n', b.n - at) - b.data) + 1;
    ck_ok(infq_file_write_atomic(path, b.data, at + 20, true, &err), err); /* and a torn line */
    infq_buf_deinit(&b);
}

START_TEST(an_interrupted_measurement_goes_on_and_ends_the_same)
{
    infq_noise_options o = infq_noise_options_default();
    infq_noise_runs a, b;
    infq_item_key other = key;
    char path[700];
    infq_err err;

    TEST_NEEDS_SHARED();
    open_all(blimp(), 150);
    o.n_runs = 3;
    o.pilot = 40;
    o.every_item = _i == 1;
    o.folder = test_tmpdir();
    ck_ok(infq_noise_run_task(model, tokenizer, task, &o, &key, &a, &err), err);
    ck_assert(a.short_cut == (_i == 0));
    for (int j = 1; j <= 3; j++) {
        snprintf(path, sizeof(path), "%s/run-%d.%s.jsonl", o.folder, j, infq_task_name(task));
        drop_lines(path, 30 * j);
    }
    ck_ok(infq_noise_run_task(model, tokenizer, task, &o, &key, &b, &err), err);
    for (int j = 0; j < 3; j++)
        for (int64_t i = 0; i < 150; i++)
            ck_assert_msg(same_ll(infq_items_get(a.items[j], i), infq_items_get(b.items[j], i)), "run %d, item %d", j, (int)i);
    infq_noise_runs_free(&b);
    snprintf(other.model_digest, sizeof(other.model_digest), "another");
    ck_assert_int_eq(infq_noise_run_task(model, tokenizer, task, &o, &other, &b, &err), INFQ_E_EXISTS);
    infq_noise_runs_free(&a);
    close_all();
}
END_TEST

START_TEST(the_engine_repeats_itself_under_declared_numerics)
{
    infq_noise_options o = infq_noise_options_default();
    bool same = false;
    infq_err err;

    TEST_NEEDS_SHARED();
    open_all(blimp(), 0);
    o.source = (infq_noise_source)_i;
    ck_ok(infq_noise_repeats(model, tokenizer, task, &o, 25, &same, &err), err);
    ck_assert(same);
    o.n_runs = 1;
    ck_assert_int_eq(infq_noise_run_task(model, tokenizer, task, &o, &key, &(infq_noise_runs){.n_runs = 0}, &err), INFQ_E_USAGE);
    close_all();
}
END_TEST

int main(void)
{
    Suite *s = suite_create("noise_run");
    TCase *t = tcase_create("runs");

    tcase_set_timeout(t, 60);
    tcase_add_test(t, a_part_of_the_items_keeps_its_scores);
    tcase_add_loop_test(t, runs_differ_and_the_record_has_their_figures, 0, 3);
    tcase_add_test(t, the_short_cut_gives_the_same_metrics_with_fewer_items);
    tcase_add_test(t, a_short_cut_that_misses_flips_is_switched_off);
    tcase_add_loop_test(t, an_interrupted_measurement_goes_on_and_ends_the_same, 0, 2);
    tcase_add_loop_test(t, the_engine_repeats_itself_under_declared_numerics, 0, 2);
    suite_add_tcase(s, t);
    return test_main(s);
}
