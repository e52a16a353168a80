#include "tests/testlib.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/base/str.h"
#include "lib/io/checkpoint.h"
#include "lib/io/folder.h"

static infq_err err;

#define FINGERPRINT "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define OTHER_PRINT "ffff456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

static const struct {
    const char *name;
    infq_dtype dtype;
    int64_t rows, cols;
} items[] = { { "embed", INFQ_DTYPE_BF16, 10, 8 }, { "l0.w", INFQ_DTYPE_F32, 4, 8 }, { "l0.s", INFQ_DTYPE_U8, 1, 3 },
              { "l1.w", INFQ_DTYPE_F32, 4, 8 },    { "l1.z", INFQ_DTYPE_F32, 0, 8 }, { "head", INFQ_DTYPE_BF16, 10, 8 } };
#define N_ITEMS (sizeof(items) / sizeof(items[0]))

static size_t bytes_of(size_t i)
{
    return (size_t)(items[i].rows * items[i].cols * infq_dtype_bits(items[i].dtype) / 8);
}

static infq_folder_options options(const char *out, const char *fingerprint)
{
    infq_folder_options o = { .path = out, .shard_bytes = 300 };

    snprintf(o.fingerprint, sizeof(o.fingerprint), "%s", fingerprint);
    return o;
}

static infq_status declare_all(infq_folder *f)
{
    for (size_t i = 0; i < N_ITEMS; i++) {
        int64_t shape[2] = { items[i].rows, items[i].cols };
        INFQ_TRY(infq_folder_declare(f, items[i].name, items[i].dtype, 2, shape, &err));
    }
    INFQ_TRY(infq_folder_meta(f, "made_by", "test", &err));
    return infq_folder_seal(f, &err);
}

static void fill(uint8_t *p, size_t i, size_t n)
{
    for (size_t k = 0; k < n; k++)
        p[k] = (uint8_t)(17 * i + k);
}

// Writes a model; *n_reused counts shards that needed no writing. After kill_at folder calls, SIGKILL (0: never).
static infq_status write_model(const infq_folder_options *o, size_t *n_reused, int kill_at)
{
    infq_folder *f = NULL;
    infq_status st = infq_folder_begin(o, &f, &err);
    int calls = 0;

#define STEP()                                                                                     \
    do {                                                                                           \
        if (kill_at && ++calls == kill_at)                                                         \
            raise(SIGKILL);                                                                        \
    } while (0)
    *n_reused = 0;
    if (st)
        return st;
    st = declare_all(f);
    for (size_t i = 0; !st && i < N_ITEMS; i++) {
        uint8_t p[400];
        size_t n = bytes_of(i), half = n / 2, shard;
        bool done;
        STEP();
        fill(p, i, n);
        st = infq_folder_where(f, items[i].name, &shard, &done, &err);
        if (!st && !done)
            st = infq_folder_write(f, items[i].name, half, p + half, n - half, &err);
        STEP();
        if (!st && !done)
            st = infq_folder_write(f, items[i].name, 0, p, half, &err);
        if (!st) {
            size_t next = shard + 1;
            bool unused;
            if (i + 1 < N_ITEMS)
                st = infq_folder_where(f, items[i + 1].name, &next, &unused, &err);
            if (!st && next != shard) {
                *n_reused += done;
                st = infq_folder_shard_done(f, shard, &err);
            }
        }
    }
    STEP();
    if (!st && !o->bare)
        st = infq_folder_put(f, "config.json", "{}", 2, &err);
    STEP();
    if (st) {
        infq_folder_abort(f, false);
        return st;
    }
    return infq_folder_commit(f, &err);
#undef STEP
}

static infq_status write_plain(const infq_folder_options *o)
{
    size_t reused;

    return write_model(o, &reused, 0);
}

// The output is there, whole, with the right bytes, and nothing else of ours is.
static void check_complete(const char *out)
{
    infq_checkpoint *ck = NULL;
    char partial[512];

    ck_ok(infq_checkpoint_open(out, NULL, &ck, &err), err);
    ck_assert_uint_eq(infq_checkpoint_count(ck), N_ITEMS);
    for (size_t i = 0; i < N_ITEMS; i++) {
        const infq_ck_tensor *t = infq_checkpoint_find(ck, items[i].name);
        uint8_t p[400];
        ck_assert_ptr_nonnull(t);
        fill(p, i, bytes_of(i));
        ck_assert_uint_eq(t->n_bytes, bytes_of(i));
        ck_assert_int_eq(memcmp(infq_checkpoint_data(ck, t), p, bytes_of(i)), 0);
    }
    infq_checkpoint_close(ck);
    snprintf(partial, sizeof(partial), "%s.partial", out);
    ck_assert(!infq_path_exists(partial));
}

// Bytes of all files of a folder, with their names.
static infq_buf slurp(const char *dir)
{
    infq_buf b;
    char **names = NULL;
    size_t n = 0;

    infq_buf_init(&b);
    ck_ok(infq_dir_list(dir, &names, &n, &err), err);
    for (size_t i = 0; i < n; i++) {
        infq_buf_fmt(&b, "\n%s\n", names[i]);
        ck_ok(infq_file_read(test_in(dir, names[i]), 1 << 20, &b, &err), err);
    }
    infq_dir_list_free(names, n);
    return b;
}

static void same_folders(const char *a, const char *b)
{
    infq_buf x = slurp(a), y = slurp(b);

    ck_assert_uint_eq(x.n, y.n);
    ck_assert_int_eq(memcmp(x.data, y.data, x.n), 0);
    infq_buf_deinit(&x);
    infq_buf_deinit(&y);
}

START_TEST(folder_is_split_greedily_and_has_an_index_of_transformers_form)
{
    const char *dir = test_tmpdir(), *out = test_in(dir, "out");
    infq_folder_options o = options(out, FINGERPRINT);
    infq_buf index;
    char **names = NULL;
    size_t n = 0;

    ck_ok(write_plain(&o), err);
    check_complete(out);
    ck_ok(infq_dir_list(out, &names, &n, &err), err);
    ck_assert_uint_eq(n, 4);
    ck_assert_str_eq(names[1], "model-00001-of-00002.safetensors");
    ck_assert_str_eq(names[3], "model.safetensors.index.json");
    infq_dir_list_free(names, n);
    infq_buf_init(&index);
    ck_ok(infq_file_read(test_in(out, "model.safetensors.index.json"), 1 << 20, &index, &err), err);
    ck_assert_str_eq(index.data, "{\n  \"metadata\": {\n    \"total_size\": 579\n  },\n  \"weight_map\": {\n"
                                 "    \"embed\": \"model-00001-of-00002.safetensors\",\n"
                                 "    \"head\": \"model-00002-of-00002.safetensors\",\n"
                                 "    \"l0.s\": \"model-00001-of-00002.safetensors\",\n"
                                 "    \"l0.w\": \"model-00001-of-00002.safetensors\",\n"
                                 "    \"l1.w\": \"model-00002-of-00002.safetensors\",\n"
                                 "    \"l1.z\": \"model-00002-of-00002.safetensors\"\n  }\n}\n");
    infq_buf_deinit(&index);
}
END_TEST

START_TEST(one_shard_is_called_model_and_has_no_index)
{
    const char *dir = test_tmpdir(), *out = test_in(dir, "out");
    infq_folder_options o = options(test_in(dir, "out///"), "");

    o.shard_bytes = 0;
    ck_ok(write_plain(&o), err);
    check_complete(out);
    ck_assert(infq_path_exists(test_in(out, "model.safetensors")));
    ck_assert(!infq_path_exists(test_in(out, "model.safetensors.index.json")));
}
END_TEST

START_TEST(a_tensor_above_the_limit_has_a_shard_of_its_own)
{
    const char *dir = test_tmpdir(), *out = test_in(dir, "out");
    infq_folder_options o = options(out, "");

    o.shard_bytes = 1;
    ck_ok(write_plain(&o), err);
    check_complete(out);
    ck_assert(infq_path_exists(test_in(out, "model-00005-of-00005.safetensors")));
}
END_TEST

START_TEST(bare_output_is_one_file)
{
    const char *dir = test_tmpdir(), *out = test_in(dir, "w.safetensors");
    infq_folder_options o = options(out, FINGERPRINT);
    infq_folder *f = NULL;

    o.bare = true;
    ck_ok(write_plain(&o), err);
    check_complete(out);
    ck_assert(!infq_path_is_dir(out));
    ck_assert_int_eq(write_plain(&o), INFQ_E_EXISTS);
    o.force = true;
    ck_ok(write_plain(&o), err);
    check_complete(out);
    ck_ok(infq_folder_begin(&o, &f, &err), err);
    ck_assert_int_eq(infq_folder_put(f, "config.json", "{}", 2, &err), INFQ_E_USAGE);
    infq_folder_abort(f, false);
    check_complete(out);
}
END_TEST

START_TEST(folder_without_tensors_is_legal)
{
    const char *dir = test_tmpdir(), *out = test_in(dir, "out");
    infq_folder_options o = options(out, "");
    infq_folder *f = NULL;
    infq_checkpoint *ck = NULL;

    ck_ok(infq_folder_begin(&o, &f, &err), err);
    ck_ok(infq_folder_seal(f, &err), err);
    ck_assert_uint_eq(infq_folder_shard_count(f), 1);
    ck_ok(infq_folder_shard_done(f, 0, &err), err);
    ck_ok(infq_folder_commit(f, &err), err);
    ck_ok(infq_checkpoint_open(out, NULL, &ck, &err), err);
    ck_assert_uint_eq(infq_checkpoint_count(ck), 0);
    infq_checkpoint_close(ck);
}
END_TEST

START_TEST(existing_output_needs_force_and_force_replaces_models_only)
{
    const char *dir = test_tmpdir(), *out = test_in(dir, "out"), *home = test_in(dir, "home");
    infq_folder_options o = options(out, "");

    ck_ok(write_plain(&o), err);
    ck_assert_int_eq(write_plain(&o), INFQ_E_EXISTS);
    ck_ok(infq_file_write_atomic(test_in(out, "old.txt"), "x", 1, false, &err), err);
    o.force = true;
    ck_ok(write_plain(&o), err);
    check_complete(out);
    ck_assert(!infq_path_exists(test_in(out, "old.txt")));
    ck_assert_int_eq(mkdir(home, 0777), 0);
    ck_ok(infq_file_write_atomic(test_in(home, "letters.txt"), "x", 1, false, &err), err);
    o.path = home;
    ck_assert_int_eq(write_plain(&o), INFQ_E_EXISTS);
    ck_assert_ptr_nonnull(strstr(err.msg, "no model"));
    ck_assert(infq_path_exists(test_in(home, "letters.txt")));
    // many projects have a config.json
    ck_ok(infq_file_write_atomic(test_in(home, "config.json"), "{}", 2, false, &err), err);
    ck_assert_int_eq(write_plain(&o), INFQ_E_EXISTS);
    ck_ok(infq_file_write_atomic(test_in(home, "infq.json"), "{}", 2, false, &err), err);
    ck_assert_int_eq(mkdir(test_in(home, "work"), 0777), 0);
    ck_assert_int_eq(write_plain(&o), INFQ_E_EXISTS);
    ck_assert_ptr_nonnull(strstr(err.msg, "holds a folder (work)"));
    ck_assert(infq_path_exists(test_in(home, "work")));
    ck_assert_int_eq(rmdir(test_in(home, "work")), 0);
    ck_ok(write_plain(&o), err);
}
END_TEST

START_TEST(what_is_read_is_never_replaced)
{
    static const char *const same[] = {"big/m", "big/m/", "big/m/.", "big/../big/m", "link", "big"};
    const char *dir = test_tmpdir(), *source = test_in(dir, "big/m"), *kept = test_in(dir, "big/m/model-00001-of-00002.safetensors");
    infq_folder_options o = options(source, "");

    ck_assert_int_eq(mkdir(test_in(dir, "big"), 0777), 0);
    ck_ok(write_plain(&o), err);
    ck_assert_int_eq(symlink(source, test_in(dir, "link")), 0);
    o.force = true;
    for (int by_link = 0; by_link < 2; by_link++)
        for (size_t i = 0; i < sizeof(same) / sizeof(same[0]); i++) {
            o.source = by_link ? test_in(dir, "link") : source;
            o.path = test_in(dir, same[i]);
            ck_assert_msg(write_plain(&o) == INFQ_E_USAGE, "%s: %s", same[i], err.msg);
            ck_assert(infq_path_exists(kept));
        }
    o.bare = true;
    o.path = kept;
    ck_assert_int_eq(write_plain(&o), INFQ_E_USAGE);
    ck_assert_ptr_nonnull(strstr(err.msg, "a file of the model that is read"));
    o.source = kept;
    ck_assert_int_eq(write_plain(&o), INFQ_E_USAGE);
    check_complete(source);
}
END_TEST

START_TEST(output_without_parent_folder_is_not_found)
{
    infq_folder_options o = options(test_in(test_tmpdir(), "a/b"), "");

    ck_assert_int_eq(write_plain(&o), INFQ_E_NOT_FOUND);
    o.path = "..";
    ck_assert_int_eq(write_plain(&o), INFQ_E_USAGE);
}
END_TEST

START_TEST(second_writer_of_one_output_is_refused)
{
    const char *dir = test_tmpdir(), *out = test_in(dir, "out");
    infq_folder_options o = options(out, "");
    infq_folder *f = NULL, *g = NULL;

    ck_ok(infq_folder_begin(&o, &f, &err), err);
    ck_assert_int_eq(infq_folder_begin(&o, &g, &err), INFQ_E_EXISTS);
    ck_assert_ptr_nonnull(strstr(err.msg, "another process"));
    infq_folder_abort(f, false);
    ck_ok(write_plain(&o), err);
    check_complete(out);
}
END_TEST

START_TEST(foreign_partial_folder_is_left_alone)
{
    const char *dir = test_tmpdir(), *out = test_in(dir, "out"), *partial = test_in(dir, "out.partial");
    infq_folder_options o = options(out, "");

    ck_assert_int_eq(mkdir(partial, 0777), 0);
    ck_ok(infq_file_write_atomic(test_in(partial, "mine"), "x", 1, false, &err), err);
    ck_assert_int_eq(write_plain(&o), INFQ_E_EXISTS);
    ck_assert(infq_path_exists(test_in(partial, "mine")));
}
END_TEST

START_TEST(misuse_is_reported_as_a_bug)
{
    const char *dir = test_tmpdir(), *out = test_in(dir, "out");
    infq_folder_options o = options(out, "");
    infq_folder *f = NULL;
    int64_t shape[1] = { 4 };

    ck_ok(infq_folder_begin(&o, &f, &err), err);
    ck_ok(infq_folder_declare(f, "a", INFQ_DTYPE_U8, 1, shape, &err), err);
    ck_assert_int_eq(infq_folder_declare(f, "a", INFQ_DTYPE_F32, 1, shape, &err), INFQ_E_FORMAT);
    ck_ok(infq_folder_seal(f, &err), err);
    ck_assert_int_eq(infq_folder_write(f, "b", 0, "abcd", 4, &err), INFQ_E_BUG);
    ck_assert_int_eq(infq_folder_write(f, "a", 1, "abcd", 4, &err), INFQ_E_BUG);
    ck_ok(infq_folder_write(f, "a", 1, "bcd", 3, &err), err);
    ck_assert_int_eq(infq_folder_shard_done(f, 0, &err), INFQ_E_BUG);
    ck_assert_ptr_nonnull(strstr(err.msg, "3 of 4"));
    ck_assert_int_eq(infq_folder_put(f, "../x", "", 0, &err), INFQ_E_FORMAT);
    ck_assert_int_eq(infq_folder_commit(f, &err), INFQ_E_BUG);
    ck_assert(!infq_path_exists(out));
    ck_assert(!infq_path_exists(test_in(dir, "out.partial")));
}
END_TEST

START_TEST(side_files_are_copied_byte_for_byte)
{
    const char *dir = test_tmpdir(), *from = test_in(dir, "from"), *out = test_in(dir, "out");
    infq_folder_options o = options(out, "");
    infq_folder *f = NULL;
    infq_buf b;

    ck_ok(infq_file_write_atomic(from, "a\0b\r\n", 5, false, &err), err);
    ck_ok(infq_folder_begin(&o, &f, &err), err);
    ck_ok(infq_folder_seal(f, &err), err);
    ck_ok(infq_folder_copy(f, from, "merges.txt", &err), err);
    ck_assert_int_eq(infq_folder_copy(f, from, "merges.txt", &err), INFQ_E_EXISTS);
    ck_ok(infq_folder_shard_done(f, 0, &err), err);
    ck_ok(infq_folder_commit(f, &err), err);
    infq_buf_init(&b);
    ck_ok(infq_file_read(test_in(out, "merges.txt"), 100, &b, &err), err);
    ck_assert_uint_eq(b.n, 5);
    ck_assert_int_eq(memcmp(b.data, "a\0b\r\n", 5), 0);
    infq_buf_deinit(&b);
}
END_TEST

// Every write, fsync and rename fails once: OUT is absent, or what it was, or complete; nothing leaks.
static void fault_loop(bool bare, bool force)
{
    const char *dir = test_tmpdir(), *out = test_in(dir, bare ? "w.safetensors" : "out");
    char partial[512];
    infq_folder_options o = options(out, FINGERPRINT);
    size_t live = infq_mem_stats_get().n_live, n;

    o.bare = bare;
    o.force = force;
    snprintf(partial, sizeof(partial), "%s.partial", out);
    for (n = 1; n < 500; n++) {
        infq_status st;
        if (force && n == 1) {
            ck_ok(write_plain(&o), err);
        } else if (!force && infq_path_exists(out)) {
            if (bare)
                ck_assert_int_eq(unlink(out), 0);
            else
                ck_ok(infq_dir_remove(out, &err), err);
        }
        infq_file_fail_at(n);
        st = write_plain(&o);
        infq_file_fail_at(0);
        ck_assert_uint_eq(infq_mem_stats_get().n_live, live);
        if (!st)
            break;
        ck_assert_int_eq(err.code, INFQ_E_IO);
        ck_assert_msg(strstr(err.msg, bare ? "w.safetensors" : "out") || strstr(err.msg, dir), "%s", err.msg);
        ck_assert_msg(!infq_path_exists(partial), "step %zu leaves %s: %s", n, partial, err.msg);
        if (force || infq_path_exists(out))
            check_complete(out);
    }
    ck_assert_uint_gt(n, 10);
    ck_assert_uint_lt(n, 500);
    check_complete(out);
}

START_TEST(every_failing_write_leaves_no_incomplete_folder)
{
    fault_loop(false, false);
}
END_TEST

START_TEST(every_failing_write_leaves_no_incomplete_file)
{
    fault_loop(true, false);
}
END_TEST

START_TEST(every_failing_write_leaves_the_replaced_folder_or_the_new_one)
{
    fault_loop(false, true);
    fault_loop(true, true);
}
END_TEST

START_TEST(every_failing_allocation_leaves_nothing)
{
    const char *dir = test_tmpdir(), *out = test_in(dir, "out");
    infq_folder_options o = options(out, FINGERPRINT);
    size_t live = infq_mem_stats_get().n_live, n;

    for (n = 1; n < 2000; n++) {
        infq_status st;
        infq_mem_fail_at(n);
        st = write_plain(&o);
        infq_mem_fail_at(0);
        ck_assert_uint_eq(infq_mem_stats_get().n_live, live);
        if (!st)
            break;
        ck_assert_int_eq(st, INFQ_E_NOMEM);
        if (infq_path_exists(out)) {
            check_complete(out);
            ck_ok(infq_dir_remove(out, &err), err);
        }
    }
    ck_assert_uint_gt(n, 30);
    check_complete(out);
}
END_TEST

START_TEST(file_size_limit_is_an_io_error_that_leaves_nothing)
{
    const char *dir = test_tmpdir(), *out = test_in(dir, "out");
    infq_folder_options o = options(out, FINGERPRINT);
    struct rlimit limit = { 500, 500 };

    signal(SIGXFSZ, SIG_IGN);
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
    ck_assert_int_eq(write_plain(&o), INFQ_E_IO);
    ck_assert_msg(strstr(err.msg, "out.partial") && strstr(err.msg, "failed at byte"), "%s", err.msg);
    ck_assert(!infq_path_exists(out));
    ck_assert(!infq_path_exists(test_in(dir, "out.partial")));
}
END_TEST

// A child is killed at each of its steps; the rerun ends with the bytes of an uninterrupted run.
static void kill_loop(bool bare)
{
    const char *dir = test_tmpdir();
    char out[512], ref[512];
    infq_folder_options o = options(out, FINGERPRINT);
    size_t total_reused = 0;

    o.bare = bare;
    snprintf(out, sizeof(out), "%s/%s", dir, bare ? "w.safetensors" : "out");
    snprintf(ref, sizeof(ref), "%s/ref", dir);
    if (!bare) {
        o.path = ref;
        ck_ok(write_plain(&o), err);
        o.path = out;
    }
    for (int step = 1; step <= 2 * (int)N_ITEMS + 2; step++) {
        size_t reused;
        int status;
        pid_t child = fork();
        if (child == 0) {
            write_model(&o, &reused, step);
            _exit(0);
        }
        ck_assert_int_eq(waitpid(child, &status, 0), child);
        ck_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
        ck_assert(!infq_path_exists(out));
        ck_ok(write_model(&o, &reused, 0), err);
        total_reused += reused;
        check_complete(out);
        if (bare)
            ck_assert_int_eq(unlink(out), 0);
        else {
            same_folders(out, ref);
            ck_ok(infq_dir_remove(out, &err), err);
        }
    }
    ck_assert_uint_gt(total_reused, 0);
}

START_TEST(killed_run_resumes_with_the_same_bytes)
{
    kill_loop(false);
    kill_loop(true);
}
END_TEST

// Finishes the first shard and is interrupted; a caller's ledger lies beside it.
static void interrupted_run(const infq_folder_options *o)
{
    infq_folder *f = NULL;

    ck_ok(infq_folder_begin(o, &f, &err), err);
    ck_ok(declare_all(f), err);
    for (size_t i = 0; i < 3; i++) {
        uint8_t p[400];
        fill(p, i, bytes_of(i));
        ck_ok(infq_folder_write(f, items[i].name, 0, p, bytes_of(i), &err), err);
    }
    ck_ok(infq_folder_shard_done(f, 0, &err), err);
    ck_ok(infq_folder_put(f, "config.json", "[]", 2, &err), err);
    ck_ok(infq_file_write_atomic(test_in(infq_folder_partial_path(f), "infq.ledger-00001"), "x", 1, false, &err), err);
    infq_folder_abort(f, true);
}

START_TEST(same_fingerprint_reuses_finished_shards_and_ledgers)
{
    const char *dir = test_tmpdir(), *out = test_in(dir, "out");
    infq_folder_options o = options(out, FINGERPRINT);
    infq_folder *f = NULL;
    size_t reused, shard;
    bool done;

    interrupted_run(&o);
    ck_ok(infq_folder_begin(&o, &f, &err), err);
    ck_assert(infq_path_exists(test_in(infq_folder_partial_path(f), "infq.ledger-00001")));
    ck_assert(!infq_path_exists(test_in(infq_folder_partial_path(f), "config.json")));
    ck_ok(declare_all(f), err);
    ck_ok(infq_folder_where(f, "embed", &shard, &done, &err), err);
    ck_assert(done);
    ck_ok(infq_folder_where(f, "head", &shard, &done, &err), err);
    ck_assert(!done);
    infq_folder_abort(f, true);
    ck_ok(write_model(&o, &reused, 0), err);
    ck_assert_uint_eq(reused, 1);
    check_complete(out);
    ck_assert(!infq_path_exists(test_in(out, "infq.ledger-00001")));
}
END_TEST

START_TEST(other_fingerprint_starts_anew)
{
    const char *dir = test_tmpdir(), *out = test_in(dir, "out");
    infq_folder_options o = options(out, FINGERPRINT);
    size_t reused;

    interrupted_run(&o);
    o = options(out, OTHER_PRINT);
    ck_ok(write_model(&o, &reused, 0), err);
    ck_assert_uint_eq(reused, 0);
    check_complete(out);
}
END_TEST

START_TEST(changed_or_unplanned_shards_of_an_earlier_run_are_not_reused)
{
    const char *dir = test_tmpdir(), *out = test_in(dir, "out");
    infq_folder_options o = options(out, FINGERPRINT);
    char first[512];
    size_t reused;

    interrupted_run(&o);
    snprintf(first, sizeof(first), "%s.partial/model/model-00001-of-00002.safetensors", out);
    ck_assert_int_eq(truncate(first, 100), 0);
    ck_ok(write_model(&o, &reused, 0), err);
    ck_assert_uint_eq(reused, 0);
    check_complete(out);
    ck_ok(infq_dir_remove(out, &err), err);
    interrupted_run(&o);
    o.shard_bytes = 0; // one shard now: the finished one has no place
    ck_ok(write_model(&o, &reused, 0), err);
    check_complete(out);
    ck_assert(!infq_path_exists(test_in(out, "model-00001-of-00002.safetensors")));
}
END_TEST

START_TEST(abort_without_finished_shards_leaves_nothing)
{
    const char *dir = test_tmpdir(), *out = test_in(dir, "out");
    infq_folder_options o = options(out, FINGERPRINT);
    infq_folder *f = NULL;

    ck_ok(infq_folder_begin(&o, &f, &err), err);
    ck_ok(declare_all(f), err);
    ck_ok(infq_folder_write(f, "l0.s", 0, "abc", 3, &err), err);
    infq_folder_abort(f, true);
    ck_assert(!infq_path_exists(test_in(dir, "out.partial")));
    infq_folder_abort(NULL, false);
}
END_TEST

START_TEST(replacement_cut_short_is_undone_by_the_next_run)
{
    const char *dir = test_tmpdir(), *out = test_in(dir, "out");
    infq_folder_options o = options(out, FINGERPRINT);
    char old[512];

    ck_ok(write_plain(&o), err);
    interrupted_run(&(infq_folder_options){ .path = test_in(dir, "x"), .shard_bytes = 300, .fingerprint = FINGERPRINT });
    ck_ok(infq_file_rename(test_in(dir, "x.partial"), test_in(dir, "out.partial"), false, &err), err);
    snprintf(old, sizeof(old), "%s.partial/.old", out);
    ck_ok(infq_file_rename(out, old, false, &err), err); // as if killed between the two renames
    ck_assert_int_eq(write_plain(&o), INFQ_E_EXISTS);
    ck_assert(infq_path_exists(test_in(out, "config.json")));
    o.force = true;
    ck_ok(write_plain(&o), err);
    check_complete(out);
}
END_TEST

START_TEST(output_that_appears_meanwhile_is_not_replaced)
{
    const char *dir = test_tmpdir(), *out = test_in(dir, "out");
    infq_folder_options o = options(out, FINGERPRINT);
    infq_folder *f = NULL;

    ck_ok(infq_folder_begin(&o, &f, &err), err);
    ck_ok(infq_folder_seal(f, &err), err);
    ck_ok(infq_folder_shard_done(f, 0, &err), err);
    ck_assert_int_eq(mkdir(out, 0777), 0); // somebody else was faster
    ck_ok(infq_file_write_atomic(test_in(out, "theirs"), "x", 1, false, &err), err);
    ck_assert_int_eq(infq_folder_commit(f, &err), INFQ_E_EXISTS);
    ck_assert(infq_path_exists(test_in(out, "theirs")));
    ck_assert(infq_path_exists(test_in(dir, "out.partial")));
}
END_TEST

int main(void)
{
    Suite *s = suite_create("folder");
    TCase *w = tcase_create("writing"), *p = tcase_create("publishing"), *r = tcase_create("resuming");

    // Hundreds of small outputs, each with its fsyncs: in memory where the machine has such a folder.
    if (access("/dev/shm", W_OK) == 0)
        setenv("TMPDIR", "/dev/shm", 0);

    tcase_set_timeout(p, 60);
    tcase_set_timeout(r, 60);
    tcase_add_test(w, folder_is_split_greedily_and_has_an_index_of_transformers_form);
    tcase_add_test(w, one_shard_is_called_model_and_has_no_index);
    tcase_add_test(w, a_tensor_above_the_limit_has_a_shard_of_its_own);
    tcase_add_test(w, bare_output_is_one_file);
    tcase_add_test(w, folder_without_tensors_is_legal);
    tcase_add_test(w, misuse_is_reported_as_a_bug);
    tcase_add_test(w, side_files_are_copied_byte_for_byte);
    tcase_add_test(p, existing_output_needs_force_and_force_replaces_models_only);
    tcase_add_test(p, what_is_read_is_never_replaced);
    tcase_add_test(p, output_without_parent_folder_is_not_found);
    tcase_add_test(p, second_writer_of_one_output_is_refused);
    tcase_add_test(p, foreign_partial_folder_is_left_alone);
    tcase_add_test(p, every_failing_write_leaves_no_incomplete_folder);
    tcase_add_test(p, every_failing_write_leaves_no_incomplete_file);
    tcase_add_test(p, every_failing_write_leaves_the_replaced_folder_or_the_new_one);
    tcase_add_test(p, every_failing_allocation_leaves_nothing);
    tcase_add_test(p, file_size_limit_is_an_io_error_that_leaves_nothing);
    tcase_add_test(p, output_that_appears_meanwhile_is_not_replaced);
    tcase_add_test(r, killed_run_resumes_with_the_same_bytes);
    tcase_add_test(r, same_fingerprint_reuses_finished_shards_and_ledgers);
    tcase_add_test(r, other_fingerprint_starts_anew);
    tcase_add_test(r, changed_or_unplanned_shards_of_an_earlier_run_are_not_reused);
    tcase_add_test(r, abort_without_finished_shards_leaves_nothing);
    tcase_add_test(r, replacement_cut_short_is_undone_by_the_next_run);
    suite_add_tcase(s, w);
    suite_add_tcase(s, p);
    suite_add_tcase(s, r);
    return test_main(s);
}
