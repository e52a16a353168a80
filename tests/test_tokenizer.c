#include "tests/testlib.h"

#include "lib/base/cpu.h"
#include "lib/base/par.h"
#include "lib/io/tok_int.h"
#include "lib/io/tokenizer.h"

static infq_err err;

/* ---- golden files ---- */

static infq_tokenizer *load(const char *path, bool sentencepiece)
{
    infq_tokenizer *t = NULL;
    infq_filemap m;

    ck_ok(infq_filemap_open(path, &m, &err), err);
    if (sentencepiece)
        ck_ok(infq_tokenizer_parse_sentencepiece(m.data, m.size, &t, &err), err);
    else
        ck_ok(infq_tokenizer_parse((const char *)m.data, m.size, &t, &err), err);
    infq_filemap_close(&m);
    return t;
}

static bool same_ids(const infq_ids *v, const cJSON *want)
{
    const cJSON *x = want->child;

    for (size_t i = 0; i < v->n; i++, x = x->next)
        if (!x || v->data[i] != (int32_t)x->valuedouble)
            return false;
    return !x;
}

static void print_ids(const char *label, const infq_ids *v)
{
    printf("  %s:", label);
    for (size_t i = 0; i < v->n && i < 40; i++)
        printf(" %d", (int)v->data[i]);
    printf("\n");
}

// Encodes text with flags and compares; a difference is printed with its group and counted.
static int check_encode(const infq_tokenizer *t, const char *text, size_t n, unsigned flags, const cJSON *want,
                        const char *group, int id)
{
    infq_ids ids;
    int bad = 0;

    infq_ids_init(&ids);
    ck_ok(infq_tokenizer_encode(t, text, n, flags, &ids, &err), err);
    if (!same_ids(&ids, want)) {
        char *w = cJSON_PrintUnformatted(want);
        printf("encode differs: string %d (%s), flags %u, want %.300s\n", id, group, flags, w);
        print_ids("have", &ids);
        free(w);
        bad = 1;
    }
    infq_ids_deinit(&ids);
    return bad;
}

static int check_decode(const infq_tokenizer *t, const cJSON *ids, bool skip, const char *want, size_t n_want, int id)
{
    infq_ids v;
    infq_buf text;
    const cJSON *x;
    int bad = 0;

    infq_ids_init(&v);
    infq_buf_init(&text);
    cJSON_ArrayForEach(x, ids)
        infq_ids_push(&v, (int32_t)x->valuedouble);
    ck_ok(infq_tokenizer_decode(t, v.data, v.n, skip, &text, &err), err);
    if (text.n != n_want || memcmp(text.data, want, n_want) != 0) {
        printf("decode differs: case %d, skip %d\n  want %.200s\n  have %.200s\n", id, skip, want, text.data);
        bad = 1;
    }
    infq_buf_deinit(&text);
    infq_ids_deinit(&v);
    return bad;
}

// Texts of the golden file may hold a zero byte, where cJSON ends: then only the input's own bytes can be compared.
static int check_case(const infq_tokenizer *t, const cJSON *string, const cJSON *c)
{
    const char *group = infq_json_get(string, "group")->valuestring;
    const cJSON *ids = infq_json_get(c, "ids"), *special = infq_json_get(c, "ids_special");
    const cJSON *plain = infq_json_get(c, "ids_plain"), *raw = infq_json_get(string, "raw_hex");
    const cJSON *decoded = infq_json_get(c, "decoded"), *skipped = infq_json_get(c, "decoded_skip");
    int id = (int)infq_json_get(c, "id")->valuedouble, bad = 0;
    size_t n, n_raw;
    char *text = (char *)test_hex(infq_json_get(string, "hex")->valuestring, &n);
    const char *want = decoded ? decoded->valuestring : text;
    size_t n_want = decoded ? strlen(want) : n;

    bad += check_encode(t, text, n, 0, ids, group, id);
    bad += check_encode(t, text, n, INFQ_TOK_SPECIAL, special ? special : ids, group, id);
    bad += check_encode(t, text, n, INFQ_TOK_PLAIN, plain ? plain : ids, group, id);
    if (raw) {
        char *bytes = (char *)test_hex(raw->valuestring, &n_raw);
        bad += check_encode(t, bytes, n_raw, 0, ids, group, id);
        infq_mem_free(bytes);
    }
    if (!decoded || !memchr(text, 0, n))
        bad += check_decode(t, ids, false, want, n_want, id);
    if (skipped && !memchr(text, 0, n)) {
        want = skipped->valuestring;
        n_want = strlen(want);
    }
    if (!(decoded || skipped) || !memchr(text, 0, n))
        bad += check_decode(t, ids, true, want, n_want, id);
    infq_mem_free(text);
    return bad;
}

static void check_golden(const char *name, const char *file, bool sentencepiece)
{
    char rel[128];
    infq_tokenizer *t = load(test_shared_path(file), sentencepiece);
    cJSON *strings = test_json(test_shared_path("goldens/tokenizers/strings.json"));
    cJSON *golden, *c;
    const cJSON *s = infq_json_get(strings, "strings")->child;
    int bad = 0, n = 0;

    snprintf(rel, sizeof(rel), "goldens/tokenizers/%s", name);
    golden = test_json(test_shared_path(rel));
    cJSON_ArrayForEach(c, infq_json_get(golden, "cases")) {
        ck_assert_int_eq((int)infq_json_get(s, "id")->valuedouble, (int)infq_json_get(c, "id")->valuedouble);
        bad += check_case(t, s, c);
        s = s->next;
        n++;
    }
    ck_assert_int_eq(n, 372);
    n = 0;
    cJSON_ArrayForEach(c, infq_json_get(golden, "decode")) {
        const char *text = infq_json_get(c, "text")->valuestring;
        const cJSON *skip = infq_json_get(c, "text_skip");

        bad += check_decode(t, infq_json_get(c, "ids"), false, text, strlen(text), n);
        text = skip ? skip->valuestring : text;
        bad += check_decode(t, infq_json_get(c, "ids"), true, text, strlen(text), n);
        n++;
    }
    ck_assert_int_eq(n, 50);
    ck_assert_int_eq(bad, 0);
    ck_assert_int_eq(infq_tokenizer_size(t) >= (int64_t)infq_json_get(golden, "vocabulary")->valuedouble, 1);
    cJSON_Delete(golden);
    cJSON_Delete(strings);
    infq_tokenizer_free(t);
}

START_TEST(smollm2_ids_and_texts_equal_the_reference)
{
    TEST_NEEDS_SHARED();
    check_golden("smollm2.json", "data/tokenizer-smollm2/tokenizer.json", false);
}
END_TEST

START_TEST(gpt2_ids_and_texts_equal_the_reference)
{
    TEST_NEEDS_SHARED();
    check_golden("gpt2.json", "data/tokenizer-gpt2/tokenizer.json", false);
}
END_TEST

START_TEST(neox_ids_and_texts_equal_the_reference)
{
    TEST_NEEDS_SHARED();
    check_golden("gpt-neox-20b.json", "data/tokenizer-gpt-neox-20b/tokenizer.json", false);
}
END_TEST

START_TEST(stories260k_ids_and_texts_equal_the_reference)
{
    TEST_NEEDS_SHARED();
    check_golden("stories260k.json", "data/model-stories260k/hf/tokenizer.json", false);
}
END_TEST

START_TEST(stories260k_sentencepiece_ids_and_texts_equal_the_reference)
{
    TEST_NEEDS_SHARED();
    check_golden("stories260k-sp.json", "data/model-stories260k/llama2c/tok512.model", true);
}
END_TEST

START_TEST(open_llama_sentencepiece_ids_and_texts_equal_the_reference)
{
    TEST_NEEDS_SHARED();
    check_golden("open-llama-sp.json", "data/tokenizer-open-llama/tokenizer.model", true);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("tokenizer");
    TCase *c = tcase_create("goldens");

    tcase_set_timeout(c, 120);
    tcase_add_test(c, smollm2_ids_and_texts_equal_the_reference);
    tcase_add_test(c, gpt2_ids_and_texts_equal_the_reference);
    tcase_add_test(c, neox_ids_and_texts_equal_the_reference);
    tcase_add_test(c, stories260k_ids_and_texts_equal_the_reference);
    tcase_add_test(c, stories260k_sentencepiece_ids_and_texts_equal_the_reference);
    tcase_add_test(c, open_llama_sentencepiece_ids_and_texts_equal_the_reference);
    suite_add_tcase(s, c);
    return test_main(s);
}
