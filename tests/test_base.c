#include "tests/testlib.h"

#include <sys/resource.h>
#include <unistd.h>
#include <sys/stat.h>
#include <time.h>

#include "lib/base/arena.h"
#include "lib/base/cpu.h"
#include "lib/base/cursor.h"
#include "lib/base/hash.h"
#include "lib/base/json_edit.h"
#include "lib/base/log.h"
#include "lib/base/par.h"
#include "lib/base/rng.h"
#include "lib/base/str.h"

START_TEST(err_puts_what_a_caller_knows_in_front)
{
    infq_err err;

    ck_assert_int_eq(infq_err_set(&err, INFQ_E_FORMAT, "%d rows", 3), INFQ_E_FORMAT);
    ck_assert_int_eq(infq_err_in(&err, "%s", "a.weight"), INFQ_E_FORMAT);
    ck_assert_str_eq(err.msg, "a.weight: 3 rows");
    ck_assert_int_eq(infq_status_exit(INFQ_E_FORMAT), 3);
    ck_assert_int_eq(infq_status_exit(INFQ_E_IO), 4);
    ck_assert_int_eq(infq_status_exit(INFQ_E_NOMEM), 5);
}
END_TEST

START_TEST(err_cuts_what_is_too_long)
{
    infq_err err;
    char text[900];

    memset(text, 'x', sizeof(text));
    text[899] = '\0';
    infq_err_set(&err, INFQ_E_IO, "%s", text);
    ck_assert_uint_eq(strlen(err.msg), sizeof(err.msg) - 1);
    infq_err_in(&err, "%s", text);
    ck_assert_uint_lt(strlen(err.msg), sizeof(err.msg));
}
END_TEST

START_TEST(err_keeps_the_beginning_and_the_end_of_what_is_too_long)
{
    infq_err err;
    char path[900];
    size_t n;

    // two bytes a character, so that a cut may fall inside of one
    for (size_t i = 0; i + 2 < sizeof(path); i += 2)
        memcpy(path + i, "\xc3\xa9", 3);
    for (int shift = 0; shift < 3; shift++) {
        infq_err_set(&err, INFQ_E_IO, "%.*s%s: no such rule", shift, "/a/", path);
        n = strlen(err.msg);
        ck_assert_uint_lt(n, sizeof(err.msg));
        ck_assert_uint_gt(n, sizeof(err.msg) - 8);
        ck_assert_uint_eq(infq_utf8_check(err.msg, n), n);
        ck_assert_ptr_nonnull(strstr(err.msg, " ... "));
        ck_assert(infq_str_ends(err.msg, ": no such rule"));
        infq_err_in(&err, "%s", "model b");
        ck_assert(infq_str_starts(err.msg, "model b: "));
        ck_assert(infq_str_ends(err.msg, ": no such rule"));
    }
}
END_TEST

START_TEST(err_is_one_line_whatever_a_name_holds)
{
    infq_err err;

    infq_err_set(&err, INFQ_E_FORMAT, "tensor a\nb\x1b[31m\x7f: bad");
    ck_assert_str_eq(err.msg, "tensor a?b?[31m?: bad");
}
END_TEST

START_TEST(mem_counts_and_fails_the_nth_call)
{
    infq_mem_stats before = infq_mem_stats_get();
    void *p = infq_mem_alloc(1000), *q;

    ck_assert_ptr_nonnull(p);
    ck_assert_uint_eq((uintptr_t)p % 64, 0);
    ck_assert_uint_eq(infq_mem_stats_get().live_bytes - before.live_bytes, 1000);
    infq_mem_fail_at(2);
    q = infq_mem_alloc(1);
    ck_assert_ptr_nonnull(q);
    infq_mem_free(q);
    ck_assert_ptr_null(infq_mem_alloc(1));
    q = infq_mem_alloc(1);
    ck_assert_ptr_nonnull(q);
    infq_mem_free(q);
    infq_mem_free(p);
    ck_assert_uint_eq(infq_mem_stats_get().n_live, before.n_live);
    ck_assert_ptr_null(infq_mem_calloc((size_t)-1, 2));
    ck_assert_ptr_null(infq_mem_alloc((size_t)-1));
}
END_TEST

START_TEST(peak_memory_follows_what_was_touched)
{
    size_t before = infq_mem_rss_now(), n = (size_t)64 << 20;
    char *p = infq_mem_alloc(n);

    ck_assert_uint_gt(before, 0);
    for (size_t i = 0; i < n; i += 4096)
        ((volatile char *)p)[i] = 1;
    ck_assert_uint_ge(infq_mem_rss_peak(), before + n * 9 / 10);
    ck_assert_uint_ge(infq_mem_rss_now(), before + n * 9 / 10);
    ck_assert_uint_le(infq_mem_rss_now(), infq_mem_rss_peak());
    infq_mem_free(p);
}
END_TEST

START_TEST(arena_gives_back_what_came_after_the_mark)
{
    infq_arena *a = NULL;
    infq_err err;
    void *p, *q, *r;
    infq_mark m;

    ck_ok(infq_arena_new(4096, &a, &err), err);
    ck_ok(infq_arena_alloc(a, 3, 7, "first", &p, &err), err);
    m = infq_arena_mark(a);
    ck_ok(infq_arena_alloc(a, 10000, 8, "large", &q, &err), err);
    ck_assert_uint_eq((uintptr_t)q % 64, 0);
    memset(q, 1, 80000);
    infq_arena_release(a, m);
    ck_ok(infq_arena_calloc(a, 5, 4, "again", &r, &err), err);
    for (int i = 0; i < 20; i++)
        ck_assert_int_eq(((char *)r)[i], 0);
    ck_assert_int_eq(infq_arena_alloc(a, (size_t)-1, 2, "huge", &q, &err), INFQ_E_NOMEM);
    infq_arena_free(a);
}
END_TEST

START_TEST(buf_reports_memory_that_ran_out_once)
{
    infq_buf b;
    infq_err err;

    infq_buf_init(&b);
    infq_buf_fmt(&b, "%d-%s", 12, "ab");
    infq_buf_char(&b, '!');
    ck_assert_str_eq(b.data, "12-ab!");
    infq_mem_fail_at(1);
    infq_buf_add(&b, (char[5000]){ 0 }, 5000);
    infq_buf_str(&b, "more");
    ck_assert_int_eq(infq_buf_status(&b, &err), INFQ_E_NOMEM);
    infq_buf_deinit(&b);
    ck_assert_str_eq(b.data, "");
}
END_TEST

START_TEST(cursor_keeps_the_first_failure)
{
    uint8_t bytes[6] = { 1, 2, 3, 4, 5, 6 };
    infq_cursor c = infq_cursor_over(bytes, sizeof(bytes));
    infq_err err;

    ck_assert_uint_eq(infq_cursor_u32le(&c), 0x04030201);
    ck_assert_uint_eq(infq_cursor_u64le(&c), 0);
    ck_assert_ptr_null(infq_cursor_take(&c, 1));
    ck_assert_int_eq(infq_cursor_status(&c, &err), INFQ_E_FORMAT);
    ck_assert_str_eq(err.msg, "truncated: 8 bytes wanted at byte 4, 2 there");
}
END_TEST

START_TEST(utf8_knows_broken_parts)
{
    // "a", an overlong slash, a surrogate, a cut euro sign, "b"; Unicode 3.9 table 3-8 counts the parts.
    static const char text[] = "a\xc0\xaf\xed\xa0\x80\xe2\x82" "b";
    static const uint32_t want[] = { 'a', 0xfffd, 0xfffd, 0xfffd, 0xfffd, 0xfffd, 0xfffd, 'b' };
    size_t n = sizeof(text) - 1, at = 0, i = 0, len;

    ck_assert_uint_eq(infq_utf8_check(text, n), 1);
    while (at < n) {
        ck_assert_uint_lt(i, 8);
        ck_assert_uint_eq(infq_utf8_next(text + at, n - at, &len), want[i++]);
        at += len;
    }
    ck_assert_uint_eq(i, 8);
    for (uint32_t cp = 1; cp < 0x110000; cp += 97) {
        char out[4];
        size_t k;
        if (cp >= 0xd800 && cp < 0xe000)
            continue;
        k = infq_utf8_put(cp, out);
        ck_assert_uint_eq(infq_utf8_next(out, k, &len), cp);
        ck_assert_uint_eq(len, k);
    }
}
END_TEST

START_TEST(numbers_are_parsed_whole)
{
    int64_t i;
    double d;
    uint64_t n;

    ck_assert(infq_parse_i64("-12", -20, 20, &i) && i == -12);
    ck_assert(!infq_parse_i64("12x", 0, 20, &i) && !infq_parse_i64("", 0, 20, &i) && !infq_parse_i64("21", 0, 20, &i));
    ck_assert(infq_parse_f64("1e-3", 0, 1, &d) && d == 1e-3);
    ck_assert(!infq_parse_f64("nan", -1, 1, &d) && !infq_parse_f64("0x1", 0, 2, &d));
    ck_assert(infq_parse_size("2GiB", &n) && n == (uint64_t)2 << 30);
    ck_assert(infq_parse_size("500MB", &n) && n == 500000000);
    ck_assert(!infq_parse_size("5XB", &n) && !infq_parse_size("-1", &n));
}
END_TEST

START_TEST(map_keeps_the_first_value)
{
    static char keys[5000][16];
    infq_map *m = NULL;
    infq_err err;

    ck_ok(infq_map_new(4, &m, &err), err);
    for (int i = 0; i < 5000; i++) {
        snprintf(keys[i], sizeof(keys[i]), "k%d", i);
        ck_assert_int_eq(infq_map_put(m, keys[i], strlen(keys[i]), i), -1);
    }
    ck_assert_int_eq(infq_map_put(m, "k77", 3, 1), 77);
    ck_assert_int_eq(infq_map_get(m, "k4999", 5), 4999);
    ck_assert_int_eq(infq_map_get(m, "k5000", 5), -1);
    infq_map_free(m);
}
END_TEST

START_TEST(patterns_match_names_last_parts_and_expressions)
{
    static const struct {
        const char *pattern, *name;
        bool match;
    } t[] = {
        { "lm_head", "lm_head", true },
        { "down_proj", "model.layers.3.mlp.down_proj", true },
        { "down", "model.layers.3.mlp.down_proj", false },
        { "model.layers.1", "model.layers.10.mlp.up_proj", false },
        { "re:model\\.layers\\.1\\.", "model.layers.1.mlp.up_proj", true },
        { "re:model\\.layers\\.1\\.", "model.layers.10.mlp.up_proj", false },
        { "re:.*up_proj$", "model.layers.10.mlp.up_proj", true },
        { "re:up_proj", "model.layers.10.mlp.up_proj", false },
    };
    infq_pattern *p = NULL;
    infq_err err;

    for (size_t i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
        ck_ok(infq_pattern_new(t[i].pattern, &p, &err), err);
        ck_assert_msg(infq_pattern_match(p, t[i].name) == t[i].match, "%s on %s", t[i].pattern, t[i].name);
        infq_pattern_free(p);
    }
    ck_assert_int_eq(infq_pattern_new("re:(", &p, &err), INFQ_E_USAGE);
}
END_TEST

START_TEST(json_refuses_what_rfc_8259_refuses)
{
    static const char *const bad[] = { "",        "{",          "{\"a\":02}",     "{\"a\":1.}", "{\"a\":.5}",
                                       "[1,]",    "{\"a\":1,}", "\"\\ud800\"",    "\"\\x\"",    "[1] 2",
                                       "nul",     "\"\x01\"",   "{\"a\":1,\"a\":2}", "\"\xff\"", "{'a':1}",
                                       "[1e]",    "-",          "\"abc",          "{\"a\" 1}",  "+1" };
    infq_err err;
    cJSON *j = NULL;
    char deep[400];

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        ck_assert_msg(infq_json_parse(bad[i], strlen(bad[i]), "t", &j, &err) == INFQ_E_FORMAT, "%s", bad[i]);
    memset(deep, '[', 200);
    memset(deep + 200, ']', 200);
    ck_assert_int_eq(infq_json_parse(deep, 400, "t", &j, &err), INFQ_E_FORMAT);
    ck_ok(infq_json_parse("{\"a\":[1,-2.5e3,\"\\u00e9\\ud83d\\ude00\"],\"b\":null}", 46, "t", &j, &err), err);
    ck_assert_ptr_null(infq_json_get(j, "b"));
    ck_assert_str_eq(cJSON_GetArrayItem(infq_json_get(j, "a"), 2)->valuestring, "\xc3\xa9\xf0\x9f\x98\x80");
    cJSON_Delete(j);
    ck_assert_int_eq(infq_json_parse("{\n \"a\": x}", 10, "c.json", &j, &err), INFQ_E_FORMAT);
    ck_assert_str_eq(err.msg, "c.json: line 2 column 7: a value was expected");
}
END_TEST

START_TEST(json_writer_output_reads_back)
{
    infq_buf b;
    infq_err err;
    cJSON *j = NULL;

    for (int indent = 0; indent <= 2; indent += 2) {
        infq_jw w;
        infq_buf_init(&b);
        w = infq_jw_over(&b, indent);
        infq_jw_obj(&w);
        infq_jw_key(&w, "text");
        infq_jw_str(&w, "a\"\\\n\x01\xc3\xa9");
        infq_jw_key(&w, "x");
        infq_jw_arr(&w);
        infq_jw_f64(&w, 0.1);
        infq_jw_f64(&w, INFINITY);
        infq_jw_i64(&w, -7);
        infq_jw_arr(&w);
        infq_jw_end_arr(&w);
        infq_jw_end_arr(&w);
        infq_jw_end_obj(&w);
        ck_ok(infq_json_parse(b.data, b.n, "own", &j, &err), err);
        ck_assert_str_eq(infq_json_get(j, "text")->valuestring, "a\"\\\n\x01\xc3\xa9");
        ck_assert(cJSON_GetArrayItem(infq_json_get(j, "x"), 0)->valuedouble == 0.1);
        ck_assert(cJSON_IsNull(cJSON_GetArrayItem(infq_json_get(j, "x"), 1)));
        if (indent == 0)
            ck_assert_str_eq(b.data + b.n - 21, ",\"x\":[0.1,null,-7,[]]}" + 1);
        cJSON_Delete(j);
        infq_buf_deinit(&b);
    }
}
END_TEST

START_TEST(json_edit_keeps_every_other_byte)
{
    static const struct {
        const char *text, *key, *value, *want; // value NULL: remove
    } t[] = {
        { "{\n  \"a\": 1,\n  \"b\": [2, {\"q\": \"}\"}]\n}\n", "q", "3",
          "{\n  \"a\": 1,\n  \"b\": [2, {\"q\": \"}\"}],\n  \"q\": 3\n}\n" },
        { "{ \"a\" : 1 , \"q\":{\"x\":[1]}, \"c\":\"\\\"\"}", "q", "null", "{ \"a\" : 1 , \"q\":null, \"c\":\"\\\"\"}" },
        { "{}", "q", "1", "{\"q\": 1}" },
        { "{\"a\":1,\"q\":2,\"c\":3}", "q", NULL, "{\"a\":1,\"c\":3}" },
        { "{\"a\":1,\n\"q\":2\n}", "q", NULL, "{\"a\":1\n}" },
        { "{\"q\":2, \"a\":1}", "q", NULL, "{\"a\":1}" },
        { "{\"q\":2}", "q", NULL, "{}" },
        { "{\"a\":{\"q\":2}}", "q", NULL, "{\"a\":{\"q\":2}}" },
    };
    infq_err err;

    for (size_t i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
        infq_buf b;
        infq_buf_init(&b);
        if (t[i].value)
            ck_ok(infq_json_set(t[i].text, strlen(t[i].text), t[i].key, t[i].value, &b, &err), err);
        else
            ck_ok(infq_json_remove(t[i].text, strlen(t[i].text), t[i].key, &b, &err), err);
        ck_assert_str_eq(b.data, t[i].want);
        infq_buf_deinit(&b);
    }
}
END_TEST

START_TEST(sha256_equals_the_standards_examples)
{
    char hex[65];
    infq_err err;

    ck_ok(infq_sha256_of("abc", 3, hex, &err), err); // FIPS 180-2, appendix B.1
    ck_assert_str_eq(hex, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    ck_ok(infq_sha256_of("", 0, hex, &err), err);
    ck_assert_str_eq(hex, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
}
END_TEST

START_TEST(rng_stream_is_pinned)
{
    infq_rng r = infq_rng_seed(1);
    double sum = 0, sq = 0;
    uint64_t seen = 0;

    // First value of xoshiro256** seeded by splitmix64(1), from the authors' definition worked by hand in Python.
    ck_assert_uint_eq(infq_rng_u64(&r), 0xb3f2af6d0fc710c5u);
    for (int i = 0; i < 100000; i++) {
        double x = infq_rng_normal(&r);
        sum += x;
        sq += x * x;
        seen |= 1u << infq_rng_below(&r, 7);
    }
    ck_assert_double_lt(fabs(sum / 1e5), 0.015); // 4.7 standard errors
    ck_assert_double_lt(fabs(sq / 1e5 - 1), 0.02);
    ck_assert_uint_eq(seen, 127);
}
END_TEST

typedef struct {
    int hits[1001];
} cover;

static void touch(void *ctx, int64_t begin, int64_t end, int thread)
{
    cover *c = ctx;

    (void)thread;
    for (int64_t i = begin; i < end; i++)
        c->hits[i]++;
}

/* Sanitizers need terabytes of addresses themselves. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define ADDRESSES_CAN_BE_LIMITED 0
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer) || __has_feature(address_sanitizer)
#define ADDRESSES_CAN_BE_LIMITED 0
#endif
#endif
#ifndef ADDRESSES_CAN_BE_LIMITED
#define ADDRESSES_CAN_BE_LIMITED 1
#endif

#if ADDRESSES_CAN_BE_LIMITED
START_TEST(threads_that_the_system_refuses_are_done_without)
{
    struct rlimit r;
    unsigned long pages;
    static cover c;
    FILE *f = fopen("/proc/self/statm", "r");

    ck_assert_int_eq(fscanf(f, "%lu", &pages), 1);
    fclose(f);
    getrlimit(RLIMIT_AS, &r);
    r.rlim_cur = (rlim_t)pages * (rlim_t)sysconf(_SC_PAGESIZE) + ((rlim_t)48 << 20); // a few stacks
    setrlimit(RLIMIT_AS, &r);
    infq_par_threads_set(200);
    ck_assert_int_lt(infq_par_threads(), 200);
    ck_assert_int_ge(infq_par_threads(), 1);
    infq_par_for(1001, 1, touch, &c);
    for (int i = 0; i < 1001; i++)
        ck_assert_int_eq(c.hits[i], 1);
}
END_TEST
#endif

START_TEST(par_for_covers_each_index_once)
{
    for (int threads = 1; threads <= 3; threads++)
        for (int64_t grain = 1; grain < 600; grain += 131) {
            static cover c;
            memset(&c, 0, sizeof(c));
            infq_par_threads_set(threads);
            infq_par_for(1001, grain, touch, &c);
            for (int i = 0; i < 1001; i++)
                ck_assert_int_eq(c.hits[i], 1);
        }
}
END_TEST

// What a team did: regions of many sizes, one inside a part, one after the threads went to sleep.
typedef struct {
    cover c;
    int n_regions, n_bad_threads;
} team_work;

typedef struct {
    cover *c;
    int64_t from;
} inner_part;

static void touch_from(void *ctx, int64_t begin, int64_t end, int thread)
{
    inner_part *p = ctx;

    touch(p->c, p->from + begin, p->from + end, thread);
}

static void touch_in_part(void *ctx, int64_t begin, int64_t end, int thread)
{
    team_work *w = ctx;

    if (thread < 0 || thread >= infq_par_threads())
        w->n_bad_threads++;
    infq_par_for(end - begin, 1, touch_from, &(inner_part){ &w->c, begin });
}

static void lead(void *ctx)
{
    team_work *w = ctx;

    for (int64_t grain = 1; grain < 600; grain += 7, w->n_regions++)
        infq_par_for(1001, grain, touch, &w->c);
    nanosleep(&(struct timespec){ 0, 3000000 }, NULL);
    for (int i = 0; i < 2000; i++, w->n_regions++)
        infq_par_for(1001, 100, touch_in_part, w);
}

static void lead_again(void *ctx)
{
    infq_par_team(lead, ctx);
}

START_TEST(team_covers_each_index_once_in_every_region)
{
    for (int threads = 1; threads <= 4; threads++)
        for (int nested = 0; nested < 2; nested++) {
            static team_work w;
            memset(&w, 0, sizeof(w));
            infq_par_threads_set(threads);
            infq_par_team(nested ? lead_again : lead, &w);
            ck_assert_int_eq(w.n_bad_threads, 0);
            for (int i = 0; i < 1001; i++)
                ck_assert_int_eq(w.c.hits[i], w.n_regions);
        }
}
END_TEST

START_TEST(cpu_level_can_be_lowered_but_not_raised)
{
    infq_err err;
    infq_cpu_level max = infq_cpu_level_max();

    ck_ok(infq_cpu_level_set(INFQ_CPU_SCALAR, &err), err);
    ck_assert_int_eq(infq_cpu_level_get(), INFQ_CPU_SCALAR);
    ck_ok(infq_cpu_level_set(max, &err), err);
    if (max < INFQ_CPU_VNNI)
        ck_assert_int_eq(infq_cpu_level_set(INFQ_CPU_VNNI, &err), INFQ_E_USAGE);
}
END_TEST

START_TEST(atomic_write_leaves_old_or_new_at_every_failure)
{
    const char *dir = test_tmpdir();
    char path[512];
    infq_err err;
    infq_buf b;

    snprintf(path, sizeof(path), "%s/f", dir);
    ck_ok(infq_file_write_atomic(path, "old", 3, false, &err), err);
    ck_assert_int_eq(infq_file_write_atomic(path, "new", 3, false, &err), INFQ_E_EXISTS);
    for (size_t n = 1;; n++) {
        infq_status st;
        char **names = NULL;
        size_t count = 0;
        infq_file_fail_at(n);
        st = infq_file_write_atomic(path, "new", 3, true, &err);
        infq_file_fail_at(0);
        infq_buf_init(&b);
        ck_ok(infq_file_read(path, 100, &b, &err), err);
        ck_assert_str_eq(b.data, st ? "old" : "new");
        infq_buf_deinit(&b);
        ck_ok(infq_dir_list(dir, &names, &count, &err), err);
        ck_assert_uint_eq(count, 1);
        infq_dir_list_free(names, count);
        if (!st) {
            ck_assert_uint_ge(n, 4); // write, fsync and rename were each made to fail
            break;
        }
        ck_assert_int_eq(st, INFQ_E_IO);
    }
}
END_TEST

START_TEST(files_that_are_not_there_are_not_found)
{
    infq_filemap m;
    infq_err err;

    ck_assert_int_eq(infq_filemap_open("/nonexistent/x", &m, &err), INFQ_E_NOT_FOUND);
    ck_assert_int_eq(infq_filemap_open("/tmp", &m, &err), INFQ_E_FORMAT);
}
END_TEST

START_TEST(pipes_are_refused_without_waiting_for_a_writer)
{
    char path[512];
    infq_filemap m;
    infq_err err;

    snprintf(path, sizeof(path), "%s/pipe", test_tmpdir());
    ck_assert_int_eq(mkfifo(path, 0600), 0);
    ck_assert_int_eq(infq_filemap_open(path, &m, &err), INFQ_E_FORMAT);
    ck_assert(infq_str_ends(err.msg, "not a regular file"));
}
END_TEST

int main(void)
{
    Suite *s = suite_create("base");
    TCase *t = tcase_create("memory and text");

    tcase_add_test(t, err_puts_what_a_caller_knows_in_front);
    tcase_add_test(t, err_cuts_what_is_too_long);
    tcase_add_test(t, err_keeps_the_beginning_and_the_end_of_what_is_too_long);
    tcase_add_test(t, err_is_one_line_whatever_a_name_holds);
    tcase_add_test(t, mem_counts_and_fails_the_nth_call);
    tcase_add_test(t, peak_memory_follows_what_was_touched);
    tcase_add_test(t, arena_gives_back_what_came_after_the_mark);
    tcase_add_test(t, buf_reports_memory_that_ran_out_once);
    tcase_add_test(t, cursor_keeps_the_first_failure);
    tcase_add_test(t, utf8_knows_broken_parts);
    tcase_add_test(t, numbers_are_parsed_whole);
    tcase_add_test(t, map_keeps_the_first_value);
    tcase_add_test(t, patterns_match_names_last_parts_and_expressions);
    suite_add_tcase(s, t);
    t = tcase_create("json");
    tcase_add_test(t, json_refuses_what_rfc_8259_refuses);
    tcase_add_test(t, json_writer_output_reads_back);
    tcase_add_test(t, json_edit_keeps_every_other_byte);
    suite_add_tcase(s, t);
    t = tcase_create("machine");
    tcase_add_test(t, sha256_equals_the_standards_examples);
    tcase_add_test(t, rng_stream_is_pinned);
#if ADDRESSES_CAN_BE_LIMITED
    tcase_add_test(t, threads_that_the_system_refuses_are_done_without);
#endif
    tcase_add_test(t, par_for_covers_each_index_once);
    tcase_add_test(t, team_covers_each_index_once_in_every_region);
    tcase_add_test(t, cpu_level_can_be_lowered_but_not_raised);
    tcase_add_test(t, atomic_write_leaves_old_or_new_at_every_failure);
    tcase_add_test(t, files_that_are_not_there_are_not_found);
    tcase_add_test(t, pipes_are_refused_without_waiting_for_a_writer);
    suite_add_tcase(s, t);
    return test_main(s);
}
