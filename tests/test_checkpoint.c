#include "tests/testlib.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/base/str.h"
#include "lib/io/checkpoint.h"

static infq_err err;
static char warnings[4096];

static void on_warn(void *ctx, const char *line)
{
    size_t n = strlen(warnings);

    (void)ctx;
    snprintf(warnings + n, sizeof(warnings) - n, "%s\n", line);
}

static const infq_log sink = { .warn = on_warn };

static void put(const char *dir, const char *name, const void *p, size_t n)
{
    char *path = NULL;

    ck_ok(infq_path_join(dir, name, &path, &err), err);
    ck_ok(infq_file_write_atomic(path, p, n, true, &err), err);
    infq_mem_free(path);
}

static void put_text(const char *dir, const char *name, const char *s)
{
    put(dir, name, s, strlen(s));
}

// A file with the named U8 tensors of two bytes each (value: the file's first letter), names separated by blanks.
static void put_shard(const char *dir, const char *file, const char *names, const char *note)
{
    infq_st_layout *l = NULL;
    char copy[1024], *name, *rest = copy;
    int64_t shape[1] = { 2 };
    infq_buf b;

    snprintf(copy, sizeof(copy), "%s", names);
    ck_ok(infq_st_layout_new(&l, &err), err);
    while ((name = strtok_r(rest, " ", &rest)))
        ck_ok(infq_st_layout_add(l, name, INFQ_DTYPE_U8, 1, shape, &err), err);
    if (note)
        ck_ok(infq_st_layout_meta(l, "note", note, &err), err);
    ck_ok(infq_st_layout_seal(l, &err), err);
    infq_buf_init(&b);
    infq_buf_add(&b, infq_st_layout_header(l)->data, infq_st_layout_header(l)->n);
    while (b.n < infq_st_layout_file_bytes(l))
        infq_buf_char(&b, *file);
    put(dir, file, b.data, b.n);
    infq_buf_deinit(&b);
    infq_st_layout_free(l);
}

#define S1 "model-00001-of-00002.safetensors"
#define S2 "model-00002-of-00002.safetensors"
#define INDEX "model.safetensors.index.json"
#define GOOD_INDEX                                                                                                     \
    "{\"metadata\":{\"total_size\":6},\"weight_map\":{\"a\":\"" S1 "\",\"b\":\"" S1 "\",\"c\":\"" S2 "\"}}"

static const char *sharded(const char *index)
{
    const char *dir = test_tmpdir();

    put_shard(dir, S1, "b a", NULL);
    put_shard(dir, S2, "c", NULL);
    if (index)
        put_text(dir, INDEX, index);
    put_text(dir, "config.json", "{\"model_type\": \"llama\"}\n");
    warnings[0] = '\0';
    return dir;
}

static infq_checkpoint *opened(const char *path)
{
    infq_checkpoint *ck = NULL;

    ck_ok(infq_checkpoint_open(path, &sink, &ck, &err), err);
    return ck;
}

static void refused(const char *path, const char *says, const char *also)
{
    infq_checkpoint *ck = NULL;
    size_t live = infq_mem_stats_get().n_live;

    ck_assert_int_ne(infq_checkpoint_open(path, &sink, &ck, &err), 0);
    ck_assert_msg(strstr(err.msg, says) && strstr(err.msg, also), "message \"%s\" does not say \"%s\" and \"%s\"", err.msg,
                  says, also);
    ck_assert_uint_eq(infq_mem_stats_get().n_live, live);
}

static void warned(const char *says)
{
    ck_assert_msg(strstr(warnings, says) != NULL, "warnings \"%s\" do not say \"%s\"", warnings, says);
}

START_TEST(folder_with_index_gives_tensors_by_shard_then_offset)
{
    static const char *const order[] = { "a", "b", "c" };
    infq_checkpoint *ck = opened(sharded(GOOD_INDEX));

    ck_assert_uint_eq(infq_checkpoint_count(ck), 3);
    for (size_t i = 0; i < 3; i++) {
        const infq_ck_tensor *t = infq_checkpoint_get(ck, i);
        ck_assert_str_eq(t->name, order[i]);
        ck_assert_int_eq(t->shard, i == 2);
        ck_assert_int_eq(memcmp(infq_checkpoint_data(ck, t), "mm", 2), 0);
        ck_assert_ptr_eq(infq_checkpoint_find(ck, order[i]), t);
    }
    ck_assert_ptr_null(infq_checkpoint_get(ck, 3));
    ck_assert_ptr_null(infq_checkpoint_find(ck, "d"));
    ck_assert_str_eq(infq_checkpoint_shard_name(ck, 1), S2);
    ck_assert_str_eq(infq_json_get(infq_checkpoint_config(ck), "model_type")->valuestring, "llama");
    ck_assert_str_eq(infq_checkpoint_config_text(ck)->data, "{\"model_type\": \"llama\"}\n");
    ck_assert(!infq_checkpoint_is_bare(ck));
    ck_assert_str_eq(warnings, "");
    infq_checkpoint_close(ck);
}
END_TEST

START_TEST(missing_shards_are_all_listed)
{
    const char *dir = sharded("{\"weight_map\":{\"a\":\"" S1 "\",\"x\":\"gone-1.safetensors\",\"y\":\"gone-2.safetensors\","
                              "\"z\":\"gone-1.safetensors\"}}");

    refused(dir, "2 files that are absent", "gone-1.safetensors, gone-2.safetensors");
}
END_TEST

START_TEST(missing_shards_that_do_not_fit_into_the_message_are_counted)
{
    const char *dir = test_tmpdir();

    put_shard(dir, "model-00002-of-00030.safetensors", "a", NULL);
    refused(dir, "29 files that are absent", "model-00001-of-00030.safetensors");
    ck_assert_msg(strstr(err.msg, " more") != NULL, "%s", err.msg);
}
END_TEST

START_TEST(index_and_shards_must_name_the_same_tensors)
{
    refused(sharded("{\"weight_map\":{\"a\":\"" S1 "\",\"b\":\"" S2 "\",\"c\":\"" S2 "\"}}"), "index", "\"b\"");
    refused(sharded("{\"weight_map\":{\"a\":\"" S1 "\",\"b\":\"" S1 "\",\"d\":\"" S2 "\",\"c\":\"" S2 "\"}}"), "index",
            "\"d\"");
    refused(sharded("{\"weight_map\":{\"a\":\"" S1 "\",\"c\":\"" S2 "\"}}"), "not in the index", "\"b\"");
}
END_TEST

START_TEST(broken_indexes_are_refused)
{
    refused(sharded("{\"weight_map\":[]}"), "weight_map", INDEX);
    refused(sharded("{\"weight_map\":{\"a\":1}}"), "no plain file name", "\"a\"");
    refused(sharded("{\"weight_map\":{\"a\":\"../x.safetensors\"}}"), "no plain file name", "\"a\"");
    refused(sharded("{\"weight_map\":"), INDEX, "line 1");
}
END_TEST

START_TEST(wrong_total_size_is_only_a_warning)
{
    infq_checkpoint *ck = opened(sharded("{\"metadata\":{\"total_size\":7},\"weight_map\":{\"a\":\"" S1 "\",\"b\":\"" S1
                                         "\",\"c\":\"" S2 "\"}}"));

    warned("total_size of the index is 7, its tensors have 6 bytes");
    infq_checkpoint_close(ck);
}
END_TEST

START_TEST(stray_copy_beside_the_index_is_warned_of_and_left_out)
{
    const char *dir = sharded(GOOD_INDEX);
    infq_checkpoint *ck;

    put_shard(dir, "model.safetensors", "a b c", NULL);
    put_shard(dir, "consolidated.safetensors", "other.a", NULL);
    ck = opened(dir);
    ck_assert_uint_eq(infq_checkpoint_count(ck), 3);
    ck_assert_uint_eq(infq_checkpoint_shard_count(ck), 2);
    warned("model.safetensors is not named by the index");
    warned("consolidated.safetensors holds the model a second time");
    infq_checkpoint_close(ck);
}
END_TEST

START_TEST(tensors_of_their_own_beside_the_index_are_kept)
{
    const char *dir = sharded(GOOD_INDEX);
    infq_checkpoint *ck;

    put_shard(dir, "mtp.safetensors", "mtp.fc mtp.norm", NULL);
    put_shard(dir, "empty.safetensors", "", NULL);
    ck = opened(dir);
    ck_assert_uint_eq(infq_checkpoint_count(ck), 5);
    ck_assert_str_eq(infq_checkpoint_shard_name(ck, (size_t)infq_checkpoint_find(ck, "mtp.fc")->shard), "mtp.safetensors");
    warned("mtp.safetensors is not named by the index; its 2 tensors");
    infq_checkpoint_close(ck);
    put_shard(dir, "mtp.safetensors", "mtp.fc a", NULL);
    refused(dir, "mtp.safetensors", "mtp.fc");
}
END_TEST

START_TEST(folder_without_index_reads_all_files_or_the_one_model_file)
{
    const char *dir = sharded(NULL);
    infq_checkpoint *ck = opened(dir);

    ck_assert_uint_eq(infq_checkpoint_count(ck), 3);
    infq_checkpoint_close(ck);
    put_shard(dir, "x.safetensors", "c", NULL);
    refused(dir, "\"c\" is in two files", "x.safetensors");
    put_shard(dir, "model.safetensors", "a", NULL);
    put_shard(dir, "model-00007-of-00009.safetensors", "a", NULL);
    ck = opened(dir);
    ck_assert_uint_eq(infq_checkpoint_count(ck), 1);
    warned("x.safetensors lies beside model.safetensors");
    infq_checkpoint_close(ck);
}
END_TEST

START_TEST(bare_file_has_no_config_and_no_side_files)
{
    const char *dir = test_tmpdir();
    infq_checkpoint *ck;
    char path[512];

    put_shard(dir, "w.safetensors", "a", "hello");
    put_text(dir, "config.json", "{}");
    snprintf(path, sizeof(path), "%s/w.safetensors", dir);
    ck = opened(path);
    ck_assert(infq_checkpoint_is_bare(ck));
    ck_assert_ptr_null(infq_checkpoint_config(ck));
    ck_assert_ptr_null(infq_checkpoint_config_text(ck));
    ck_assert_uint_eq(infq_checkpoint_side_count(ck), 0);
    ck_assert_str_eq(infq_checkpoint_shard_name(ck, 0), "w.safetensors");
    ck_assert_uint_eq(infq_checkpoint_meta_count(ck), 2);
    infq_checkpoint_close(ck);
    snprintf(path, sizeof(path), "%s/absent.safetensors", dir);
    refused(path, "absent.safetensors", "");
    ck_assert_int_eq(err.code, INFQ_E_NOT_FOUND);
}
END_TEST

START_TEST(folders_of_other_containers_are_called_so)
{
    const char *dir = test_tmpdir();
    char torch[512];

    refused(dir, "no *.safetensors file", "");
    ck_assert_int_eq(err.code, INFQ_E_NOT_FOUND);
    put_text(dir, "pytorch_model.bin", "PK");
    refused(dir, "pytorch_model.bin", "PyTorch");
    snprintf(torch, sizeof(torch), "%s/pytorch_model.bin", dir);
    ck_assert_int_eq(unlink(torch), 0);
    put_text(dir, "m.gguf", "GGUF");
    refused(dir, "m.gguf", "GGUF");
    put(dir, "model.safetensors", "PK\3\4\24\0\0\0\10\10\0\0\0\0", 14);
    refused(dir, "model.safetensors", "zip");
}
END_TEST

START_TEST(broken_config_is_refused)
{
    const char *dir = sharded(GOOD_INDEX);

    put_text(dir, "config.json", "[]");
    refused(dir, "config.json", "not a JSON object");
    put_text(dir, "config.json", "{\"a\":1,}");
    refused(dir, "config.json", "line 1");
}
END_TEST

START_TEST(side_files_are_all_but_weights_index_config_and_receipt)
{
    static const char *const kept[] = { "LICENSE", "generation_config.json", "link.txt", "tokenizer.json" };
    const char *dir = sharded(GOOD_INDEX);
    char path[512], target[512];
    infq_checkpoint *ck;

    put_text(dir, "tokenizer.json", "{}");
    put_text(dir, "generation_config.json", "{}");
    put_text(dir, "LICENSE", "free");
    put_text(dir, "infq.json", "{}");
    put_text(dir, "pytorch_model-00001-of-00002.bin", "PK");
    put_text(dir, "q4.gguf", "GGUF");
    snprintf(path, sizeof(path), "%s/original", dir);
    ck_assert_int_eq(mkdir(path, 0777), 0);
    snprintf(path, sizeof(path), "%s/link.txt", dir);
    snprintf(target, sizeof(target), "%s/LICENSE", dir);
    ck_assert_int_eq(symlink(target, path), 0);
    snprintf(path, sizeof(path), "%s/broken.txt", dir);
    ck_assert_int_eq(symlink("nowhere", path), 0);
    ck = opened(dir);
    ck_assert_uint_eq(infq_checkpoint_side_count(ck), 4);
    for (size_t i = 0; i < 4; i++)
        ck_assert_str_eq(infq_checkpoint_side_name(ck, i), kept[i]);
    warned("folder original is left out");
    warned("other weights q4.gguf is left out");
    warned("other weights pytorch_model-00001-of-00002.bin is left out");
    warned("broken link broken.txt is left out");
    infq_checkpoint_close(ck);
}
END_TEST

START_TEST(metadata_of_shards_is_joined_and_differences_are_warned_of)
{
    const char *dir = test_tmpdir(), *key, *value;
    infq_checkpoint *ck;

    warnings[0] = '\0';
    put_shard(dir, S1, "a", "one");
    put_shard(dir, S2, "b", "two");
    ck = opened(dir);
    ck_assert_uint_eq(infq_checkpoint_meta_count(ck), 2);
    infq_checkpoint_meta_get(ck, 1, &key, &value);
    ck_assert_str_eq(key, "note");
    ck_assert_str_eq(value, "one");
    warned("metadata key note");
    infq_checkpoint_close(ck);
}
END_TEST

static void digest_of(const char *dir, char hex[65])
{
    infq_checkpoint *ck = opened(dir);

    ck_ok(infq_checkpoint_digest(ck, &sink, hex, &err), err);
    infq_checkpoint_close(ck);
}

START_TEST(digest_depends_on_names_contents_and_config_only)
{
    char a[65], b[65];
    const char *dir = sharded(GOOD_INDEX);

    digest_of(dir, a);
    digest_of(sharded(GOOD_INDEX), b);
    ck_assert_str_eq(a, b);
    put_text(dir, "README.md", "x");
    digest_of(dir, b);
    ck_assert_str_eq(a, b);
    put_text(dir, "config.json", "{\"model_type\": \"llama\"}");
    digest_of(dir, b);
    ck_assert_str_ne(a, b);
    dir = sharded(GOOD_INDEX);
    put_shard(dir, S2, "c", "note");
    digest_of(dir, b);
    ck_assert_str_ne(a, b);
}
END_TEST

START_TEST(dropped_pages_read_the_same_again)
{
    const char *dir = test_tmpdir();
    infq_checkpoint *ck;
    const infq_ck_tensor *t;

    put_shard(dir, "x.safetensors", "a", NULL);
    ck = opened(dir);
    t = infq_checkpoint_get(ck, 0);
    infq_checkpoint_drop(ck, t, 0, t->n_bytes);
    infq_checkpoint_drop(ck, t, 1, t->n_bytes + 1);
    ck_assert_int_eq(memcmp(infq_checkpoint_data(ck, t), "xx", 2), 0);
    infq_checkpoint_close(ck);
}
END_TEST

START_TEST(names_longer_than_the_limit_are_refused)
{
    const char *dir = test_tmpdir();
    infq_checkpoint *ck;
    char name[INFQ_CK_NAME_MAX + 2];

    memset(name, 'n', sizeof(name));
    name[INFQ_CK_NAME_MAX + 1] = '\0';
    put_shard(dir, "x.safetensors", name, NULL);
    ck_assert_int_eq(infq_checkpoint_open(dir, &sink, &ck, &err), INFQ_E_UNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(err.msg, "x.safetensors"));
    ck_assert_ptr_nonnull(strstr(err.msg, "481 bytes, at most 480"));
    name[INFQ_CK_NAME_MAX] = '\0';
    put_shard(dir, "x.safetensors", name, NULL);
    infq_checkpoint_close(opened(dir));
}
END_TEST

static infq_buf identity(const char *dir)
{
    infq_checkpoint *ck = opened(dir);
    infq_buf b;

    infq_buf_init(&b);
    ck_ok(infq_checkpoint_identity(ck, &b, &err), err);
    infq_checkpoint_close(ck);
    return b;
}

START_TEST(identity_tells_a_file_from_another_of_the_same_size_and_time)
{
    const char *dir = test_tmpdir();
    const struct timespec then[2] = {{1000, 0}, {1000, 0}};
    infq_buf a, b;

    for (int round = 0; round < 2; round++) {
        put_shard(dir, "x.safetensors", "a", NULL);
        ck_assert_int_eq(utimensat(AT_FDCWD, test_in(dir, "x.safetensors"), then, 0), 0);
        *(round ? &b : &a) = identity(dir);
    }
    ck_assert_str_ne(a.data, b.data);
    infq_buf_deinit(&a);
    a = identity(dir);
    ck_assert_str_eq(a.data, b.data);
    infq_buf_deinit(&b);
    put_text(dir, "config.json", "{\"a\":1}");
    b = identity(dir);
    ck_assert_str_ne(a.data, b.data);
    infq_buf_deinit(&a);
    infq_buf_deinit(&b);
}
END_TEST

START_TEST(opening_fails_cleanly_at_every_allocation)
{
    const char *dir = sharded(GOOD_INDEX);
    infq_checkpoint *ck = NULL;
    size_t live, n;

    put_shard(dir, "mtp.safetensors", "mtp.fc", "x");
    put_text(dir, "tokenizer.json", "{}");
    live = infq_mem_stats_get().n_live;
    for (n = 1; n < 2000; n++) {
        infq_status st;
        infq_mem_fail_at(n);
        st = infq_checkpoint_open(dir, &sink, &ck, &err);
        infq_mem_fail_at(0);
        if (!st)
            break;
        ck_assert_int_eq(st, INFQ_E_NOMEM);
        ck_assert_uint_eq(infq_mem_stats_get().n_live, live);
    }
    ck_assert_uint_gt(n, 20);
    infq_checkpoint_close(ck);
}
END_TEST

START_TEST(folder_of_another_writer_is_read)
{
    infq_checkpoint *ck;

    TEST_NEEDS_SHARED();
    ck = opened(test_shared_path("data/safetensors-samples/sharded"));
    ck_assert_uint_eq(infq_checkpoint_shard_count(ck), 6);
    ck_assert_uint_gt(infq_checkpoint_count(ck), 5);
    infq_checkpoint_close(ck);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("checkpoint");
    TCase *i = tcase_create("index"), *f = tcase_create("folder");

    tcase_add_test(i, folder_with_index_gives_tensors_by_shard_then_offset);
    tcase_add_test(i, missing_shards_are_all_listed);
    tcase_add_test(i, missing_shards_that_do_not_fit_into_the_message_are_counted);
    tcase_add_test(i, index_and_shards_must_name_the_same_tensors);
    tcase_add_test(i, broken_indexes_are_refused);
    tcase_add_test(i, wrong_total_size_is_only_a_warning);
    tcase_add_test(i, stray_copy_beside_the_index_is_warned_of_and_left_out);
    tcase_add_test(i, tensors_of_their_own_beside_the_index_are_kept);
    tcase_add_test(f, folder_without_index_reads_all_files_or_the_one_model_file);
    tcase_add_test(f, bare_file_has_no_config_and_no_side_files);
    tcase_add_test(f, folders_of_other_containers_are_called_so);
    tcase_add_test(f, broken_config_is_refused);
    tcase_add_test(f, side_files_are_all_but_weights_index_config_and_receipt);
    tcase_add_test(f, metadata_of_shards_is_joined_and_differences_are_warned_of);
    tcase_add_test(f, digest_depends_on_names_contents_and_config_only);
    tcase_add_test(f, dropped_pages_read_the_same_again);
    tcase_add_test(f, names_longer_than_the_limit_are_refused);
    tcase_add_test(f, identity_tells_a_file_from_another_of_the_same_size_and_time);
    tcase_add_test(f, opening_fails_cleanly_at_every_allocation);
    tcase_add_test(f, folder_of_another_writer_is_read);
    suite_add_tcase(s, i);
    suite_add_tcase(s, f);
    return test_main(s);
}
