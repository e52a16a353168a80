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
static int check_encode(const infq_tokenizer *t, const char *text, size_t n, unsigned flags,
                        const cJSON *want, const char *group, int id)
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

static int check_decode(const infq_tokenizer *t, const cJSON *ids, bool skip, const char *want,
                        size_t n_want, int id)
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
        printf("decode differs: case %d, skip %d\n  want %.200s\n  have %.200s\n", id, skip, want,
               text.data);
        bad = 1;
    }
    infq_buf_deinit(&text);
    infq_ids_deinit(&v);
    return bad;
}

// Texts of the golden file may hold a zero byte, where cJSON ends: then only the input's own bytes
// can be compared.
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
        ck_assert_int_eq((int)infq_json_get(s, "id")->valuedouble,
                         (int)infq_json_get(c, "id")->valuedouble);
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
    ck_assert_int_eq(
        infq_tokenizer_size(t) >= (int64_t)infq_json_get(golden, "vocabulary")->valuedouble, 1);
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

/* ---- every component against the library, on one small model ---- */

// The base with the members of `set` in place of its own; of "model" single members are replaced.
static cJSON *with_set(const cJSON *base, const cJSON *set)
{
    cJSON *root = cJSON_Duplicate(base, true);
    const cJSON *m, *k;

    cJSON_ArrayForEach(m, set) {
        if (strcmp(m->string, "model") != 0) {
            cJSON_DeleteItemFromObjectCaseSensitive(root, m->string);
            cJSON_AddItemToObject(root, m->string, cJSON_Duplicate(m, true));
            continue;
        }
        cJSON_ArrayForEach(k, m) {
            cJSON *model = cJSON_GetObjectItemCaseSensitive(root, "model");
            cJSON_DeleteItemFromObjectCaseSensitive(model, k->string);
            cJSON_AddItemToObject(model, k->string, cJSON_Duplicate(k, true));
        }
    }
    return root;
}

static int check_runs(const infq_tokenizer *t, const char *name, const cJSON *runs)
{
    const cJSON *run;
    int i = 0, bad = 0;

    cJSON_ArrayForEach(run, runs) {
        const cJSON *text = run->child, *ids = text->next, *special = ids->next,
                    *decoded = special->next;
        size_t n = strlen(text->valuestring);

        bad += check_encode(t, text->valuestring, n, 0, ids, name, i);
        bad += check_encode(t, text->valuestring, n, INFQ_TOK_SPECIAL, special, name, i);
        bad += check_decode(t, ids, false, decoded->valuestring, strlen(decoded->valuestring), i);
        decoded = decoded->next;
        bad += check_decode(t, ids, true, decoded->valuestring, strlen(decoded->valuestring), i);
        i++;
    }
    ck_assert_int_ge(i, 5);
    return bad;
}

START_TEST(every_component_gives_the_ids_and_texts_of_the_library)
{
    cJSON *golden = test_json("tests/golden/tokenizer_steps.json"), *c;
    int n = 0, bad = 0;

    cJSON_ArrayForEach(c, infq_json_get(golden, "cases")) {
        const char *name = infq_json_get(c, "name")->valuestring;
        cJSON *root = with_set(infq_json_get(golden, "base"), infq_json_get(c, "set"));
        char *json = cJSON_PrintUnformatted(root);
        infq_tokenizer *t = NULL;
        int wrong;

        ck_assert_msg(infq_tokenizer_parse(json, strlen(json), &t, &err) == 0, "%s: %s", name,
                      err.msg);
        wrong = check_runs(t, name, infq_json_get(c, "runs"));
        if (wrong)
            printf("%s: %d wrong\n", name, wrong);
        bad += wrong;
        n++;
        infq_tokenizer_free(t);
        free(json);
        cJSON_Delete(root);
    }
    ck_assert_int_ge(n, 60);
    ck_assert_int_eq(bad, 0);
    cJSON_Delete(golden);
}
END_TEST

START_TEST(merges_as_strings_and_as_pairs_and_added_tokens_with_flags_give_the_stored_ids)
{
    cJSON *golden, *c;
    int n = 0, bad = 0;

    TEST_NEEDS_SHARED();
    golden = test_json(test_shared_path("cases/files/token-ids.json"));
    cJSON_ArrayForEach(c, infq_json_get(golden, "cases")) {
        const char *file = infq_json_get(c, "file")->valuestring,
                   *text = infq_json_get(c, "text")->valuestring;
        const char *decoded = infq_json_get(c, "decoded")->valuestring;
        char rel[128];
        infq_tokenizer *t;

        snprintf(rel, sizeof(rel), "cases/files/%s", file);
        t = load(test_shared_path(rel), false);
        bad += check_encode(t, text, strlen(text), 0, infq_json_get(c, "ids"), file, n);
        bad += check_decode(t, infq_json_get(c, "ids"), false, decoded, strlen(decoded), n);
        n++;
        infq_tokenizer_free(t);
    }
    ck_assert_int_ge(n, 20);
    ck_assert_int_eq(bad, 0);
    cJSON_Delete(golden);
}
END_TEST

START_TEST(the_byte_alphabet_equals_the_stored_one)
{
    infq_tok_alphabet a;
    const cJSON *cp;
    cJSON *golden;
    int n = 0;

    TEST_NEEDS_SHARED();
    golden = test_json(test_shared_path("specs/vectors/byte_level_alphabet.json"));
    infq_tok_alphabet_init(&a);
    cJSON_ArrayForEach(cp, infq_json_get(golden, "codepoints")) {
        char text[4];
        size_t len = infq_utf8_put((uint32_t)cp->valueint, text);

        ck_assert_msg(a.len[n] == len && memcmp(a.text[n], text, len) == 0, "byte %d", n);
        ck_assert_int_eq(a.byte_of[cp->valueint], n);
        n++;
    }
    ck_assert_int_eq(n, 256);
    cJSON_Delete(golden);
}
END_TEST

START_TEST(every_stored_split_pattern_is_understood)
{
    const cJSON *pattern;
    cJSON *golden;
    int n = 0;

    TEST_NEEDS_SHARED();
    golden = test_json(test_shared_path("specs/vectors/pretokenizer_patterns.json"));
    cJSON_ArrayForEach(pattern, infq_json_get(golden, "patterns")) {
        infq_tok_re *re = NULL;
        infq_tok_match *m = NULL;
        infq_tok_finder f = { .kind = INFQ_TOK_FIND_REGEX };
        const char text[] = "It's 12345 l\xc3\xa9gers,  na\xc3\xafve\n\n end ";
        size_t start, end, at = 0;
        infq_tok_walk w;
        bool found = true;

        ck_ok(infq_tok_re_new(pattern->valuestring, pattern->string, &re, &err), err);
        ck_ok(infq_tok_match_new(&m, &err), err);
        f.re = re;
        w = infq_tok_walk_over(&f, m, text, sizeof(text) - 1);
        for (; found; n += found) { // these patterns leave no character out
            ck_ok(infq_tok_walk_next(&w, &found, &start, &end, &err), err);
            if (!found)
                break;
            ck_assert_msg(start == at && end > start, "%s: a piece begins at %zu, not %zu", pattern->string, start, at);
            at = end;
        }
        ck_assert_uint_eq(at, sizeof(text) - 1);
        infq_tok_match_free(m);
        infq_tok_re_free(re);
    }
    ck_assert_int_ge(n, 5 * 9);
    cJSON_Delete(golden);
}
END_TEST

/* ---- bad input ---- */

static void refuses(const char *json, infq_status code, const char *words)
{
    infq_tokenizer *t = NULL;
    infq_status st;

    err.msg[0] = '\0';
    st = infq_tokenizer_parse(json, strlen(json), &t, &err);
    ck_assert_msg(st == code && strstr(err.msg, words),
                  "status %d, message \"%s\", expected %d and \"%s\"", (int)st, err.msg, (int)code,
                  words);
    ck_assert_ptr_null(t);
}

#define BPE(vocab, merges) "\"model\":{\"type\":\"BPE\",\"vocab\":" vocab ",\"merges\":" merges "}"
#define SMALL BPE("{\"a\":0,\"b\":1,\"ab\":2}", "[\"a b\"]")

START_TEST(unknown_components_are_refused_by_name)
{
    refuses("{\"model\":{\"type\":\"Unigram\",\"vocab\":[]}}", INFQ_E_UNSUPPORTED, "model Unigram");
    refuses("{\"model\":{\"type\":\"WordPiece\",\"vocab\":{}}}", INFQ_E_UNSUPPORTED,
            "model WordPiece");
    refuses("{\"normalizer\":{\"type\":\"BertNormalizer\"}," SMALL "}", INFQ_E_UNSUPPORTED,
            "normalizer BertNormalizer");
    refuses("{\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"NFC\"},{\"type\":"
            "\"Precompiled\"}]}," SMALL "}",
            INFQ_E_UNSUPPORTED, "normalizer Precompiled");
    refuses("{\"pre_tokenizer\":{\"type\":\"UnicodeScripts\"}," SMALL "}", INFQ_E_UNSUPPORTED,
            "pre_tokenizer UnicodeScripts");
    refuses("{\"decoder\":{\"type\":\"CTC\"}," SMALL "}", INFQ_E_UNSUPPORTED, "decoder CTC");
    refuses("{\"post_processor\":{\"type\":\"RobertaProcessing\"}," SMALL "}", INFQ_E_UNSUPPORTED,
            "post_processor RobertaProcessing");
    refuses("{\"version\":\"2.0\"," SMALL "}", INFQ_E_UNSUPPORTED, "version 2.0");
    refuses("{\"model\":{\"type\":\"BPE\",\"dropout\":0.1,\"vocab\":{\"a\":0},\"merges\":[]}}",
            INFQ_E_UNSUPPORTED, "dropout");
}
END_TEST

START_TEST(regular_expressions_that_would_mean_something_else_are_refused)
{
#define SPLIT(regex)                                                         \
    "{\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"Regex\":\"" regex \
    "\"},\"behavior\":\"Isolated\"}," SMALL "}"
    refuses(SPLIT("[a-z&&[^b]]"), INFQ_E_UNSUPPORTED, "pre_tokenizer Split");
    refuses(SPLIT("[[:alpha:]]"), INFQ_E_UNSUPPORTED, "[ inside a class");
    refuses(SPLIT("[a[bc]]"), INFQ_E_UNSUPPORTED, "[ inside a class");
    refuses(SPLIT("[\\\\W]"), INFQ_E_UNSUPPORTED, "\\W inside a class");
    refuses(SPLIT("(?m:a.b)"), INFQ_E_UNSUPPORTED, "option m");
    refuses(SPLIT("(a"), INFQ_E_FORMAT, "pre_tokenizer Split: broken regular expression");
    refuses(SPLIT("a\\\\"), INFQ_E_FORMAT, "broken regular expression");
}
END_TEST

START_TEST(broken_vocabularies_are_refused)
{
    refuses("", INFQ_E_FORMAT, "tokenizer.json");
    refuses("[]", INFQ_E_FORMAT, "tokenizer.json");
    refuses("{}", INFQ_E_FORMAT, "model is not an object");
    refuses("{" BPE("{\"a\":0,\"b\":0}", "[]") "}", INFQ_E_FORMAT,
            "id 0 belongs to \"a\" and to \"b\"");
    refuses("{" BPE("{\"a\":-1}", "[]") "}", INFQ_E_FORMAT, "\"a\" has no valid id");
    refuses("{" BPE("{\"a\":0.5}", "[]") "}", INFQ_E_FORMAT, "\"a\" has no valid id");
    refuses("{" BPE("{\"a\":\"0\"}", "[]") "}", INFQ_E_FORMAT, "\"a\" has no valid id");
    refuses("{" BPE("{\"a\":1000000000}", "[]") "}", INFQ_E_FORMAT,
            "largest id is 1000000000, with 1 tokens");
    refuses("{" BPE("{\"a\":1e300}", "[]") "}", INFQ_E_FORMAT, "\"a\" has no valid id");
    refuses("{" BPE("{\"a\":0,\"b\":1}", "[\"a b\"]") "}", INFQ_E_FORMAT, "merge 0 names \"ab\"");
    refuses("{" BPE("{\"a\":0,\"ab\":1}", "[\"a b\"]") "}", INFQ_E_FORMAT, "merge 0 names \"b\"");
    refuses("{" BPE("{\"a\":0,\"b\":1,\"ab\":2}", "[\"a b\",\"a b c\"]") "}", INFQ_E_FORMAT,
            "merge 1 is neither");
    refuses("{" BPE("{\"a\":0,\"b\":1,\"ab\":2}", "[[\"a\"]]") "}", INFQ_E_FORMAT,
            "merge 0 is neither");
    refuses("{" BPE("{\"a\":0,\"b\":1,\"ab\":2}", "[]") "}", INFQ_E_FORMAT, "no merges");
    refuses("{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0}}}", INFQ_E_FORMAT, "no list merges");
    refuses("{\"model\":{\"type\":\"BPE\",\"unk_token\":\"?\",\"vocab\":{\"a\":0},\"merges\":[]}}",
            INFQ_E_FORMAT, "unk_token \"?\"");
    refuses("{" BPE("{\"\\u0000\":0}", "[]") "}", INFQ_E_UNSUPPORTED, "zero byte");
}
END_TEST

#define ADDED(list) "{\"added_tokens\":[" list "]," SMALL "}"

START_TEST(broken_added_tokens_and_templates_are_refused)
{
    refuses(ADDED("{\"id\":5,\"content\":\"x\"},{\"id\":4,\"content\":\"y\"}"), INFQ_E_FORMAT,
            "id 4 of \"y\" is out of order");
    refuses(ADDED("{\"id\":3,\"content\":\"x\"},{\"id\":3,\"content\":\"y\"}"), INFQ_E_FORMAT,
            "id 3 of \"y\" is out of order");
    refuses(ADDED("{\"id\":1,\"content\":\"x\"}"), INFQ_E_FORMAT,
            "id 1 belongs to \"b\" and to \"x\"");
    refuses(ADDED("{\"id\":3,\"content\":\"a\"}"), INFQ_E_FORMAT, "\"a\" has id 3, but 0");
    refuses(ADDED("{\"id\":3,\"content\":\"x\"},{\"id\":4,\"content\":\"x\"}"), INFQ_E_FORMAT,
            "\"x\" appears twice");
    refuses(ADDED("{\"id\":3}"), INFQ_E_FORMAT, "no content");
    refuses(ADDED("{\"content\":\"x\"}"), INFQ_E_FORMAT, "\"x\" has no valid id");
    refuses(ADDED("{\"id\":3,\"content\":\"x\",\"lstrip\":1}"), INFQ_E_FORMAT, "lstrip");
    refuses(ADDED("7"), INFQ_E_FORMAT, "no content");
#define TEMPLATE(single, special)                                             \
    "{\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":" single \
    ",\"special_tokens\":" special "}," SMALL "}"
    refuses(TEMPLATE("[]", "{}"), INFQ_E_FORMAT, "Sequence A 0 times");
    refuses(TEMPLATE("[{\"Sequence\":{\"id\":\"B\"}}]", "{}"), INFQ_E_FORMAT, "Sequence B");
    refuses(TEMPLATE("[{\"SpecialToken\":{\"id\":\"s\"}}]", "{}"), INFQ_E_FORMAT,
            "s is not in special_tokens");
    refuses(TEMPLATE("[{\"SpecialToken\":{\"id\":\"s\"}}]", "{\"s\":{\"ids\":[9]}}"), INFQ_E_FORMAT,
            "an id of s");
}
END_TEST

START_TEST(a_vocabulary_without_merges_is_refused)
{
    infq_tokenizer *t = NULL;
    infq_filemap m;

    TEST_NEEDS_SHARED();
    ck_ok(infq_filemap_open(test_shared_path("cases/files/tokenizer-no-merges.json"), &m, &err),
          err);
    ck_assert_int_eq(infq_tokenizer_parse((const char *)m.data, m.size, &t, &err), INFQ_E_FORMAT);
    ck_assert_ptr_nonnull(strstr(err.msg, "no merges"));
    infq_filemap_close(&m);
}
END_TEST

START_TEST(broken_sentencepiece_models_are_refused)
{
    static const struct {
        const char *bytes;
        size_t n;
        const char *words;
    } cases[] = {
        { "", 0, "no pieces" },
        { "\x0a\xff\xff\xff\xff\x0f", 6, "truncated" },
        { "\x0a\x05\x0a\x03"
          "abc",
          7, "unigram model is not supported" },
        { "\x0a\x05\x0a\x03"
          "abc\x12\x02\x18\x02",
          11, "no piece stands for unknown text" },
        { "\x0a\x05\x0a\x03"
          "abc\x0a\x05\x0a\x03"
          "abc\x12\x02\x18\x02",
          18, "piece \"abc\" has ids 0 and 1" },
        { "\x0a\x05\x0a\x03"
          "a\xff"
          "c\x12\x02\x18\x02",
          11, "not UTF-8" },
        { "\x0a\x07\x0a\x03"
          "abc\x18\x05\x12\x02\x18\x02",
          13, "type 5" },
        { "\x0a\x0a\x0a\x03"
          "abc\x15\x00\x00\xc0\x7f\x12\x02\x18\x02",
          16, "not finite" },
        { "\x0a\x05\x0a\x03"
          "abc\x12\x02\x18\x02\x1a\x03\x12\x01x",
          16, "character map" },
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        infq_tokenizer *t = NULL;
        infq_status st = infq_tokenizer_parse_sentencepiece(cases[i].bytes, cases[i].n, &t, &err);

        ck_assert_msg(st && strstr(err.msg, cases[i].words),
                      "case %zu: status %d, \"%s\", expected \"%s\"", i, (int)st, err.msg,
                      cases[i].words);
        ck_assert_ptr_null(t);
    }
}
END_TEST

START_TEST(a_unigram_model_is_refused_by_name)
{
    infq_tokenizer *t = NULL;
    infq_filemap m;

    TEST_NEEDS_SHARED();
    ck_ok(infq_filemap_open(test_shared_path("data/tokenizer-sentencepiece-test/test_model.model"),
                            &m, &err),
          err);
    ck_assert_int_eq(infq_tokenizer_parse_sentencepiece(m.data, m.size, &t, &err),
                     INFQ_E_UNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(err.msg, "unigram"));
    infq_filemap_close(&m);
}
END_TEST

START_TEST(ids_outside_the_vocabulary_are_refused_when_decoding)
{
    static const int32_t bad[] = { 3, -1, INT32_MAX, INT32_MIN };
    infq_tokenizer *t = NULL;
    infq_buf text;

    infq_buf_init(&text);
    ck_ok(infq_tokenizer_parse("{" SMALL "}", strlen("{" SMALL "}"), &t, &err), err);
    for (size_t i = 0; i < 4; i++) {
        ck_assert_int_eq(infq_tokenizer_decode(t, &bad[i], 1, false, &text, &err), INFQ_E_FORMAT);
        ck_assert_ptr_nonnull(strstr(err.msg, "token id"));
    }
    ck_assert_uint_eq(text.n, 0);
    infq_tokenizer_free(t);
    infq_buf_deinit(&text);
}
END_TEST

START_TEST(a_failing_allocation_anywhere_is_a_clean_error)
{
    static const char json[] =
        "{\"added_tokens\":[{\"id\":3,\"content\":\"x\",\"normalized\":true}],\"normalizer\":{"
        "\"type\":\"NFD\"},"
        "\"pre_tokenizer\":{\"type\":\"ByteLevel\"},\"decoder\":{\"type\":\"ByteLevel\"}," SMALL
        "}";
    char text[1500];
    size_t live = infq_mem_stats_get().n_live, n;

    memset(text, 'a', sizeof(text));
    memcpy(text, "ab ab \xc3\xa9 x ", 12);
    for (n = 1; n < 500; n++) {
        infq_tokenizer *t = NULL;
        infq_ids ids;
        infq_buf out;
        infq_status st;

        infq_ids_init(&ids);
        infq_buf_init(&out);
        infq_mem_fail_at(n);
        st = infq_tokenizer_parse(json, sizeof(json) - 1, &t, &err);
        if (!st)
            st = infq_tokenizer_encode(t, text, sizeof(text), 0, &ids, &err);
        if (!st)
            st = infq_tokenizer_decode(t, ids.data, ids.n, false, &out, &err);
        infq_mem_fail_at(0);
        ck_assert_msg(st == 0 || st == INFQ_E_NOMEM, "allocation %zu: status %d: %s", n, (int)st,
                      err.msg);
        if (!st)
            ck_assert_uint_gt(ids.n, 1000);
        infq_buf_deinit(&out);
        infq_ids_deinit(&ids);
        infq_tokenizer_free(t);
        ck_assert_uint_eq(infq_mem_stats_get().n_live, live);
    }
}
END_TEST

/* ---- folders ---- */

static void put(const char *folder, const char *name, const char *text)
{
    char *path = NULL;

    ck_ok(infq_path_join(folder, name, &path, &err), err);
    ck_ok(infq_file_write_atomic(path, text, strlen(text), true, &err), err);
    infq_mem_free(path);
}

#define WITH_BOS                                                                                   \
    "{\"added_tokens\":[{\"id\":3,\"content\":\"<s>\",\"special\":true},{\"id\":4,\"content\":\"<" \
    "/s>\",\"special\":true}],"                                                                    \
    "\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":{\"id\":"   \
    "\"<s>\"}},{\"Sequence\":"                                                                     \
    "{\"id\":\"A\"}}],\"special_tokens\":{\"<s>\":{\"ids\":[3]}}}," SMALL "}"

static infq_tokenizer *open_with(const char *json, const char *config, const char *map)
{
    const char *folder = test_tmpdir();
    infq_tokenizer *t = NULL;

    put(folder, "tokenizer.json", json);
    if (config)
        put(folder, "tokenizer_config.json", config);
    if (map)
        put(folder, "special_tokens_map.json", map);
    ck_ok(infq_tokenizer_open(folder, &t, &err), err);
    return t;
}

static size_t special_count(const infq_tokenizer *t, int32_t first, int32_t last)
{
    infq_ids ids;
    size_t n;

    infq_ids_init(&ids);
    ck_ok(infq_tokenizer_encode(t, "ab", 2, INFQ_TOK_SPECIAL, &ids, &err), err);
    n = ids.n;
    ck_assert_int_eq(ids.data[0], first);
    ck_assert_int_eq(ids.data[n - 1], last);
    infq_ids_deinit(&ids);
    return n;
}

START_TEST(bos_and_eos_come_from_config_then_map_then_template)
{
    infq_tokenizer *t = open_with(WITH_BOS, NULL, NULL);

    ck_assert_int_eq(infq_tokenizer_bos(t), 3);
    ck_assert_int_eq(infq_tokenizer_eos(t), -1);
    ck_assert(infq_tokenizer_add_bos(t));
    ck_assert_uint_eq(special_count(t, 3, 2), 2);
    infq_tokenizer_free(t);
    t = open_with(WITH_BOS, "{\"eos_token\":{\"content\":\"</s>\"}}",
                  "{\"bos_token\":\"</s>\",\"eos_token\":\"<s>\"}");
    ck_assert_int_eq(infq_tokenizer_bos(t), 4);
    ck_assert_int_eq(infq_tokenizer_eos(t), 4);
    ck_assert(!infq_tokenizer_add_bos(t));
    ck_assert_int_eq(infq_tokenizer_prefix(t), 4);
    infq_tokenizer_free(t);
    t = open_with("{" SMALL "}", "{\"eos_token\":\"ab\",\"bos_token\":null}", NULL);
    ck_assert_int_eq(infq_tokenizer_bos(t), -1);
    ck_assert_int_eq(infq_tokenizer_prefix(t), 2);
    ck_assert(!infq_tokenizer_add_bos(t));
    infq_tokenizer_free(t);
}
END_TEST

START_TEST(add_bos_token_decides_over_the_template_and_never_doubles)
{
    infq_tokenizer *t = open_with(WITH_BOS, "{\"bos_token\":\"<s>\",\"add_bos_token\":true}", NULL);

    ck_assert_uint_eq(special_count(t, 3, 2), 2);
    infq_tokenizer_free(t);
    t = open_with(WITH_BOS,
                  "{\"bos_token\":\"<s>\",\"add_bos_token\":false,\"eos_token\":\"</"
                  "s>\",\"add_eos_token\":true}",
                  NULL);
    ck_assert(!infq_tokenizer_add_bos(t));
    ck_assert_uint_eq(special_count(t, 2, 4), 2);
    infq_tokenizer_free(t);
    t = open_with("{" SMALL "}", "{\"bos_token\":\"a\",\"add_bos_token\":true}", NULL);
    ck_assert(infq_tokenizer_add_bos(t));
    ck_assert_uint_eq(special_count(t, 0, 2), 2);
    infq_tokenizer_free(t);
}
END_TEST

START_TEST(a_folder_that_contradicts_itself_or_holds_nothing_is_refused)
{
    const char *folder = test_tmpdir();
    infq_tokenizer *t = NULL;

    ck_assert_int_eq(infq_tokenizer_open(folder, &t, &err), INFQ_E_NOT_FOUND);
    put(folder, "tokenizer.json", "{" SMALL "}");
    put(folder, "tokenizer_config.json", "{\"add_bos_token\":true}");
    ck_assert_int_eq(infq_tokenizer_open(folder, &t, &err), INFQ_E_FORMAT);
    ck_assert_ptr_nonnull(strstr(err.msg, "add_bos_token"));
    put(folder, "tokenizer_config.json", "{\"bos_token\":7}");
    ck_assert_int_eq(infq_tokenizer_open(folder, &t, &err), INFQ_E_FORMAT);
    ck_assert_ptr_nonnull(strstr(err.msg, "bos_token"));
    put(folder, "tokenizer_config.json", "{");
    ck_assert_int_eq(infq_tokenizer_open(folder, &t, &err), INFQ_E_FORMAT);
    ck_assert_ptr_null(t);
}
END_TEST

START_TEST(a_folder_with_only_tokenizer_model_opens)
{
    const char *folder = test_tmpdir();
    infq_tokenizer *t = NULL;
    char *path = NULL;

    TEST_NEEDS_SHARED();
    ck_ok(infq_path_join(folder, "tokenizer.model", &path, &err), err);
    ck_ok(infq_file_copy(test_shared_path("data/tokenizer-open-llama/tokenizer.model"), path, &err),
          err);
    infq_mem_free(path);
    ck_ok(infq_tokenizer_open(folder, &t, &err), err);
    ck_assert_int_eq(infq_tokenizer_size(t), 32000);
    ck_assert_int_eq(infq_tokenizer_bos(t), 1);
    ck_assert_int_eq(infq_tokenizer_eos(t), 2);
    ck_assert(infq_tokenizer_add_bos(t));
    ck_assert_int_eq(infq_tokenizer_id(t, "</s>"), 2);
    ck_assert_uint_eq(strlen(infq_tokenizer_digest(t)), 64);
    infq_tokenizer_free(t);
}
END_TEST

/* ---- long texts: the work is counted, the ways of merging must agree ---- */

static void encode(const infq_tokenizer *t, const char *text, size_t n, infq_ids *ids,
                   uint64_t *n_steps)
{
    infq_ids_clear(ids);
    ck_ok(infq_tok_encode_counted(t, text, n, 0, ids, n_steps, &err), err);
}

// Twice the text may cost a little more than twice the work (n log n), never four times.
static void is_linear(const infq_tokenizer *t, const char *text, size_t n, const char *label)
{
    uint64_t half, whole;
    infq_ids ids;
    infq_buf out;

    infq_ids_init(&ids);
    infq_buf_init(&out);
    encode(t, text, n / 2, &ids, &half);
    encode(t, text, n, &ids, &whole);
    ck_assert_msg(whole <= half * 23 / 10 + 10000, "%s: %llu steps for %zu bytes, %llu for half",
                  label, (unsigned long long)whole, n, (unsigned long long)half);
    ck_assert_msg(whole <= 20 * n, "%s: %llu steps for %zu bytes", label, (unsigned long long)whole,
                  n);
    ck_ok(infq_tokenizer_decode(t, ids.data, ids.n, false, &out, &err), err);
    ck_assert_uint_eq(out.n, n);
    ck_assert(memcmp(out.data, text, n) == 0);
    infq_buf_deinit(&out);
    infq_ids_deinit(&ids);
}

static void letters(char *text, size_t n, const char *alphabet)
{
    uint64_t x = 88172645463325252u;
    size_t k = strlen(alphabet);

    for (size_t i = 0; i < n; i++) {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        text[i] = alphabet[x % k];
    }
}

static void long_texts(const char *path, bool sentencepiece)
{
    static const char *const alphabets[] = {
        "a", "abcdefghijklmnopqrstuvwxyz", "A", "0123456789", "!?.-", "\n", "ab \n"
    };
    const size_t n = 1 << 20;
    infq_tokenizer *t = load(path, sentencepiece);
    char *text = infq_mem_alloc(n);

    for (size_t i = 0; i < sizeof(alphabets) / sizeof(*alphabets); i++) {
        if (sentencepiece && strchr(alphabets[i], ' '))
            continue; // blanks are changed there, so the text does not come back
        letters(text, n, alphabets[i]);
        is_linear(t, text, n, alphabets[i]);
    }
    if (!sentencepiece) {
        memset(text, ' ', n);
        is_linear(t, text, n, "blanks");
    }
    infq_mem_free(text);
    infq_tokenizer_free(t);
}

START_TEST(a_word_of_one_megabyte_takes_linear_work)
{
    TEST_NEEDS_SHARED();
    long_texts(test_shared_path("data/tokenizer-gpt2/tokenizer.json"), false);
    long_texts(test_shared_path("data/tokenizer-smollm2/tokenizer.json"), false);
    long_texts(test_shared_path("data/tokenizer-gpt-neox-20b/tokenizer.json"), false);
    long_texts(test_shared_path("data/model-stories260k/hf/tokenizer.json"), false);
    long_texts(test_shared_path("data/tokenizer-open-llama/tokenizer.model"), true);
}
END_TEST

START_TEST(cutting_caching_and_the_kind_of_merge_do_not_change_ids)
{
    static const char *const files[] = { "data/tokenizer-gpt2/tokenizer.json",
                                         "data/model-stories260k/hf/tokenizer.json" };
    infq_filemap m;

    TEST_NEEDS_SHARED();
    ck_ok(infq_filemap_open(test_shared_path("data/tinystories-sample/tiny.utf8"), &m, &err), err);
    for (size_t f = 0; f < 2; f++) {
        infq_tokenizer *t = load(test_shared_path(files[f]), false);
        infq_ids a, b;
        uint64_t steps;

        infq_ids_init(&a);
        infq_ids_init(&b);
        ck_assert(t->bpe.can_cut);
        ck_assert_int_eq(t->bpe.in_order,
                         f == 0); // the second file has pairs that rank before their parts
        t->n_pre = 0;             // the whole text is one word
        t->n_norm = 0;
        encode(t, (const char *)m.data, m.size, &a, &steps);
        for (int way = 0; way < (f == 0 ? 2 : 1); way++) {
            t->bpe.can_cut = false;
            t->bpe.in_order = way;
            encode(t, (const char *)m.data, m.size, &b, &steps);
            ck_assert_uint_eq(a.n, b.n);
            ck_assert(memcmp(a.data, b.data, a.n * sizeof(*a.data)) == 0);
        }
        infq_ids_deinit(&b);
        infq_ids_deinit(&a);
        infq_tokenizer_free(t);
    }
    infq_filemap_close(&m);
}
END_TEST

typedef struct {
    const infq_tokenizer *t;
    const infq_filemap *m;
    infq_ids ids[8];
    infq_status st[8];
} shared_use;

static void use_part(void *ctx, int64_t begin, int64_t end, int thread)
{
    shared_use *u = ctx;
    infq_err mine;

    (void)thread;
    for (int64_t i = begin; i < end; i++)
        u->st[i] =
            infq_tokenizer_encode(u->t, (const char *)u->m->data, u->m->size, 0, &u->ids[i], &mine);
}

START_TEST(threads_share_a_tokenizer)
{
    shared_use u = { 0 };
    infq_filemap m;
    infq_tokenizer *t;

    TEST_NEEDS_SHARED();
    t = load(test_shared_path("data/tokenizer-smollm2/tokenizer.json"), false);
    ck_ok(infq_filemap_open(test_shared_path("data/tinystories-sample/tiny.utf8"), &m, &err), err);
    u.t = t;
    u.m = &m;
    for (size_t i = 0; i < 8; i++)
        infq_ids_init(&u.ids[i]);
    infq_par_threads_set(4);
    infq_par_for(8, 1, use_part, &u);
    for (size_t i = 0; i < 8; i++) {
        ck_assert_int_eq(u.st[i], 0);
        ck_assert_uint_gt(u.ids[i].n, 10000);
        ck_assert_uint_eq(u.ids[i].n, u.ids[0].n);
        ck_assert(memcmp(u.ids[i].data, u.ids[0].data, u.ids[0].n * sizeof(int32_t)) == 0);
    }
    for (size_t i = 0; i < 8; i++)
        infq_ids_deinit(&u.ids[i]);
    infq_filemap_close(&m);
    infq_tokenizer_free(t);
}
END_TEST

START_TEST(a_pattern_with_deep_backtracking_passes_on_a_long_text)
{
    static const char json[] =
        "{\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"Regex\":\"(?:a|b)+c|a\"},"
        "\"behavior\":\"Isolated\"}," BPE("{\"a\":0,\"b\":1,\"c\":2}", "[]") "}";
    const size_t n = 300000;
    char *text = infq_mem_alloc(n);
    infq_tokenizer *t = NULL;
    infq_ids ids;
    uint64_t steps;

    infq_ids_init(&ids);
    letters(text, n, "ab");
    text[n - 1] = 'c';
    ck_ok(infq_tokenizer_parse(json, sizeof(json) - 1, &t, &err), err);
    encode(t, text, n, &ids, &steps);
    ck_assert_uint_eq(ids.n, n);
    infq_ids_deinit(&ids);
    infq_tokenizer_free(t);
    infq_mem_free(text);
}
END_TEST

START_TEST(a_pattern_of_exponential_cost_ends_with_an_error_that_names_it)
{
    static const char json[] =
        "{\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"Regex\":\"(a+)+[bc]\"},"
        "\"behavior\":\"Isolated\"}," BPE("{\"a\":0}", "[]") "}";
    char text[64];
    infq_tokenizer *t = NULL;
    infq_ids ids;

    infq_ids_init(&ids);
    memset(text, 'a', sizeof(text));
    ck_ok(infq_tokenizer_parse(json, sizeof(json) - 1, &t, &err), err);
    ck_assert_int_eq(infq_tokenizer_encode(t, text, sizeof(text), 0, &ids, &err),
                     INFQ_E_UNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(err.msg, "pre_tokenizer Split"));
    ck_assert_uint_eq(ids.n, 0);
    infq_ids_deinit(&ids);
    infq_tokenizer_free(t);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("tokenizer");
    TCase *c = tcase_create("goldens"), *bad = tcase_create("bad input"),
          *folder = tcase_create("folders");
    TCase *work = tcase_create("long texts");

    tcase_set_timeout(c, 120);
    tcase_add_test(c, smollm2_ids_and_texts_equal_the_reference);
    tcase_add_test(c, gpt2_ids_and_texts_equal_the_reference);
    tcase_add_test(c, neox_ids_and_texts_equal_the_reference);
    tcase_add_test(c, stories260k_ids_and_texts_equal_the_reference);
    tcase_add_test(c, stories260k_sentencepiece_ids_and_texts_equal_the_reference);
    tcase_add_test(c, open_llama_sentencepiece_ids_and_texts_equal_the_reference);
    tcase_add_test(c, every_component_gives_the_ids_and_texts_of_the_library);
    tcase_add_test(c,
                   merges_as_strings_and_as_pairs_and_added_tokens_with_flags_give_the_stored_ids);
    tcase_add_test(c, the_byte_alphabet_equals_the_stored_one);
    tcase_add_test(c, every_stored_split_pattern_is_understood);
    suite_add_tcase(s, c);
    tcase_set_timeout(bad, 120);
    tcase_add_test(bad, unknown_components_are_refused_by_name);
    tcase_add_test(bad, regular_expressions_that_would_mean_something_else_are_refused);
    tcase_add_test(bad, broken_vocabularies_are_refused);
    tcase_add_test(bad, broken_added_tokens_and_templates_are_refused);
    tcase_add_test(bad, a_vocabulary_without_merges_is_refused);
    tcase_add_test(bad, broken_sentencepiece_models_are_refused);
    tcase_add_test(bad, a_unigram_model_is_refused_by_name);
    tcase_add_test(bad, ids_outside_the_vocabulary_are_refused_when_decoding);
    tcase_add_test(bad, a_failing_allocation_anywhere_is_a_clean_error);
    suite_add_tcase(s, bad);
    tcase_add_test(folder, bos_and_eos_come_from_config_then_map_then_template);
    tcase_add_test(folder, add_bos_token_decides_over_the_template_and_never_doubles);
    tcase_add_test(folder, a_folder_that_contradicts_itself_or_holds_nothing_is_refused);
    tcase_add_test(folder, a_folder_with_only_tokenizer_model_opens);
    suite_add_tcase(s, folder);
    tcase_set_timeout(work, 300);
    tcase_add_test(work, a_word_of_one_megabyte_takes_linear_work);
    tcase_add_test(work, cutting_caching_and_the_kind_of_merge_do_not_change_ids);
    tcase_add_test(work, threads_share_a_tokenizer);
    tcase_add_test(work, a_pattern_with_deep_backtracking_passes_on_a_long_text);
    tcase_add_test(work, a_pattern_of_exponential_cost_ends_with_an_error_that_names_it);
    suite_add_tcase(s, work);
    return test_main(s);
}
