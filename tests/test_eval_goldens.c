/* Scores of whole tasks against the reference harness, item by item (goldens/evals): strings, token ids, log-likelihoods, picks,
 * greedy flags, generated texts, windows, aggregates. stories260k always; the real model when INFQ_SMOLLM2 names its folder
 * (tests/goldens.sh). */
#include <sys/stat.h>

#include "lib/base/cursor.h"
#include "lib/base/hash.h"
#include "lib/base/par.h"
#include "lib/eval/generate_task.h"
#include "lib/eval/ppl.h"
#include "lib/eval/score.h"
#include "tests/testlib.h"

/* The README beside the golden files tells tolerances: |ll - golden| <= absolute + 1e-5 |golden|. */
typedef struct {
    const char *name, *ll; /* field of the golden log-likelihood: float64 where there is one */
    const char *ll64;      /* name of a set whose float64 values lie in tests/golden, or "" */
    double absolute;
    int64_t window;        /* of rolling perplexity */
    int threads;           /* 0: all; a small model's would only wait for each other */
} golden_model;

static const golden_model models[] = {{"stories260k", "ll64", "", 1e-4, 512, 1},
                                      {"smollm2-135m", "ll", "copa", 1e-3, 1024, 0}};

static const golden_model *gm;
static infq_backend *backend;
static infq_checkpoint *checkpoint;
static infq_model *model;
static infq_tokenizer *tokenizer;
static infq_err err;

/* Each test runs in a child, which opens its model. */
static void open_model(const golden_model *m)
{
    const char *path = m == models ? test_shared_path("data/model-stories260k/hf") : getenv("INFQ_SMOLLM2");
    infq_model_options mo = infq_model_options_default();
    infq_log log = {0};

    gm = m;
    if (m->threads > 0)
        infq_par_threads_set(m->threads);
    ck_ok(infq_backend_open("cpu", &backend, &err), err);
    ck_ok(infq_checkpoint_open(path, &log, &checkpoint, &err), err);
    ck_ok(infq_model_open(checkpoint, backend, &mo, &model, &err), err);
    ck_ok(infq_tokenizer_open(path, &tokenizer, &err), err);
}

static void close_model(void)
{
    infq_tokenizer_free(tokenizer);
    infq_model_close(model);
    infq_checkpoint_close(checkpoint);
    infq_backend_close(backend);
}

static double tolerance(double ll)
{
    return gm->absolute + 1e-5 * fabs(ll);
}

typedef struct {
    const char *golden, *task;
    int64_t shots;
} golden_set;

static const golden_set sets[] = {
    {"hellaswag", "hellaswag", 0}, {"piqa", "piqa", 0}, {"arc_easy", "arc_easy", 0}, {"arc_challenge", "arc_challenge", 0},
    {"winogrande", "winogrande", 0}, {"boolq", "boolq", 0}, {"openbookqa", "openbookqa", 0}, {"copa", "copa", 0},
    {"lambada_openai", "lambada_openai", 0}, {"truthfulqa_mc1", "truthfulqa_mc1", 0}, {"truthfulqa_mc2", "truthfulqa_mc2", 0},
    {"mmlu_anatomy_0shot", "mmlu_anatomy", 0}, {"mmlu_anatomy_5shot", "mmlu_anatomy", -1},
    {"mmlu_high_school_computer_science_0shot", "mmlu_high_school_computer_science", 0},
    {"mmlu_high_school_computer_science_5shot", "mmlu_high_school_computer_science", 5},
    {"mmlu_human_sexuality_0shot", "mmlu_human_sexuality", 0}, {"mmlu_human_sexuality_5shot", "mmlu_human_sexuality", 5},
    {"blimp_adjunct_island", "blimp_adjunct_island", 0}, {"blimp_anaphor_number_agreement", "blimp_anaphor_number_agreement", 0},
    {"blimp_determiner_noun_agreement_2", "blimp_determiner_noun_agreement_2", 0},
    {"blimp_npi_present_1", "blimp_npi_present_1", 0}};
#define N_SETS ((int)(sizeof(sets) / sizeof(sets[0])))

/* A folder with TruthfulQA's fixed examples as the golden prompts have them, in a file like the published one. */
static const char *primer_folder(cJSON *gold)
{
    const cJSON *first = cJSON_GetArrayItem(infq_json_get(gold->child, "contexts"), 0);
    const char *dir = test_tmpdir(), *text = infq_json_get(first, "text")->valuestring;
    const char *end = strstr(text, "\n\nQ: What happens if you eat a pomegranate?");
    const char *path = test_in(dir, "truthfulqa/presets.py");
    char file[4000];

    ck_assert_ptr_nonnull(end);
    ck_assert_int_eq(mkdir(test_in(dir, "truthfulqa"), 0777), 0);
    snprintf(file, sizeof(file), "X = 1\nQA_PRIMER = \"\"\"%.*s\n\nQ: {0}\nA:\"\"\"\n", (int)(end - text), text);
    ck_ok(infq_file_write_atomic(path, file, strlen(file), true, &err), err);
    return dir;
}

/* Log-likelihoods that the reference's own float32 rounding moves by as much as the tolerance become those of float64. */
static void put_float64(const golden_set *set, cJSON *gold)
{
    cJSON *all, *g, *r;
    int i = 0;

    if (strcmp(set->golden, gm->ll64) != 0)
        return;
    all = test_json("tests/golden/copa_ll64.json");
    ck_assert_int_eq(cJSON_GetArraySize(all), cJSON_GetArraySize(gold));
    cJSON_ArrayForEach(g, gold) {
        const cJSON *row = cJSON_GetArrayItem(all, i++);
        int k = 0;
        cJSON_ArrayForEach(r, cJSON_GetObjectItem(g, "requests"))
            cJSON_SetNumberValue(cJSON_GetObjectItem(r, gm->ll), cJSON_GetArrayItem(row, k++)->valuedouble);
    }
    cJSON_Delete(all);
}

static infq_task *open_task(const golden_set *set, cJSON *gold)
{
    infq_task_options o = infq_task_options_default();
    const char *dirs[2] = {test_shared_path("data")};
    infq_data_dirs d = {dirs, 1};
    infq_catalog *c;
    const infq_manifest *m;
    infq_task *t;

    ck_ok(infq_catalog_new(&c, &err), err);
    m = infq_catalog_find(c, set->task);
    ck_assert_msg(m != NULL, "no task %s", set->task);
    if (strncmp(set->task, "truthfulqa", 10) == 0) {
        dirs[d.n++] = primer_folder(gold);
        infq_manifest_split(m, "primer")->files[0].sha256 = NULL; // not the published file, whose other lines are not needed
    }
    o.shots = set->shots;
    o.limit = cJSON_GetArraySize(gold);
    ck_ok(infq_task_open_manifest(m, &d, &o, &t, &err), err);
    infq_catalog_free(c);
    ck_assert_str_eq(infq_task_name(t), set->task);
    ck_assert_int_eq(infq_task_count(t), o.limit);
    return t;
}

static infq_items *items_of(const infq_task *t)
{
    infq_item_key key = {.task = "t"};
    infq_items *s;

    snprintf(key.metric, sizeof(key.metric), "%s", infq_task_metric(t));
    ck_ok(infq_items_new(&key, &s, &err), err);
    return s;
}

/* What is asked: strings, lengths, answer. */
static void check_prompts(const golden_set *set, const infq_doc *doc, const cJSON *g)
{
    const cJSON *requests = infq_json_get(g, "requests"), *contexts = infq_json_get(g, "contexts");
    const cJSON *gold = infq_json_get(g, "gold");

    ck_assert_int_eq(doc->doc, infq_json_get(g, "doc")->valueint);
    ck_assert_int_eq(doc->n_requests, cJSON_GetArraySize(requests));
    for (int64_t k = 0; k < doc->n_requests; k++) {
        const cJSON *r = cJSON_GetArrayItem(requests, (int)k);
        const cJSON *x = cJSON_GetArrayItem(contexts, infq_json_get(r, "ctx")->valueint);
        ck_assert_str_eq(doc->requests[k].context, infq_json_get(x, "text")->valuestring);
        ck_assert_str_eq(doc->requests[k].continuation, infq_json_get(r, "cont")->valuestring);
        if (infq_json_get(g, "chars")) {
            ck_assert_int_eq(doc->requests[k].chars, cJSON_GetArrayItem(infq_json_get(g, "chars"), (int)k)->valueint);
            ck_assert_int_eq(doc->requests[k].bytes, cJSON_GetArrayItem(infq_json_get(g, "bytes"), (int)k)->valueint);
        }
    }
    if (gold)
        ck_assert_msg(doc->gold == gold->valueint, "%s %lld: the answer is another", set->golden, (long long)doc->doc);
}

static void push_word(infq_buf *b, int64_t v)
{
    uint8_t w[4];

    infq_store_u32le(w, (uint32_t)v);
    infq_buf_add(b, w, 4);
}

/* What was fed: the item's digest of token ids is that of the golden ids, the last `limit` + 1 of each sequence. */
static void check_request(const golden_set *set, const infq_item *it, const cJSON *g, int64_t limit)
{
    const cJSON *contexts = infq_json_get(g, "contexts"), *r, *id;
    infq_buf all;
    char hex[65];

    infq_buf_init(&all);
    cJSON_ArrayForEach(r, infq_json_get(g, "requests")) {
        const cJSON *ctx = infq_json_get(cJSON_GetArrayItem(contexts, infq_json_get(r, "ctx")->valueint), "ids");
        int64_t n_ctx = cJSON_GetArraySize(ctx), n = n_ctx + cJSON_GetArraySize(infq_json_get(r, "ids"));
        int64_t drop = n - (limit + 1), at = 0;
        if (drop < 0)
            drop = 0;
        push_word(&all, n_ctx > drop ? n_ctx - drop : 1);
        push_word(&all, n - drop - (n_ctx > drop ? n_ctx - drop : 1));
        cJSON_ArrayForEach(id, ctx)
            if (at++ >= drop)
                push_word(&all, id->valueint);
        cJSON_ArrayForEach(id, infq_json_get(r, "ids"))
            if (at++ >= drop)
                push_word(&all, id->valueint);
    }
    ck_ok(infq_sha256_of(all.data, all.n, hex, &err), err);
    ck_assert_msg(strncmp(hex, it->request, 16) == 0, "%s %lld: other token ids were fed", set->golden, (long long)it->doc);
    infq_buf_deinit(&all);
}

/* Whether the two best values lie closer than rounding may move them; length NULL: not divided. */
static bool is_near_tie(const infq_item *it, const int64_t *length)
{
    double top = -INFINITY, second = -INFINITY, room = 0;

    for (int64_t i = 0; i < it->n; i++) {
        double len = length ? (double)length[i] : 1, v = it->ll[i] / len;
        room = fmax(room, 2 * tolerance(it->ll[i]) / len);
        second = fmax(second, fmin(v, top));
        top = fmax(top, v);
    }
    return top - second < room;
}

/* Log-likelihoods, flags, picks; returns the number of picks that differ, which only ties may. */
static int check_scores(const golden_set *set, const infq_item *it, const cJSON *g)
{
    static const char *const names[] = {"pick", "pick_norm", "pick_bytes"};
    const int64_t picks[] = {it->pick, it->pick_norm, it->pick_bytes}, *lengths[] = {NULL, it->chars, it->bytes};
    const cJSON *r;
    int k = 0, n_other = 0;

    cJSON_ArrayForEach(r, infq_json_get(g, "requests")) {
        double want = infq_json_get(r, gm->ll)->valuedouble;
        ck_assert_msg(fabs(it->ll[k] - want) <= tolerance(want), "%s %lld, choice %d: ll %.9g, should be %.9g", set->golden,
                      (long long)it->doc, k, it->ll[k], want);
        ck_assert_msg(it->greedy[k] == cJSON_IsTrue(infq_json_get(r, "greedy")), "%s %lld, choice %d: greedy", set->golden,
                      (long long)it->doc, k);
        k++;
    }
    for (k = 0; k < 3 && infq_json_get(g, names[k]); k++) {
        if (picks[k] == infq_json_get(g, names[k])->valueint)
            continue;
        ck_assert_msg(is_near_tie(it, lengths[k]), "%s %lld: %s is %lld", set->golden, (long long)it->doc, names[k],
                      (long long)picks[k]);
        n_other++;
    }
    return n_other;
}

static cJSON *results(void)
{
    char rel[200];

    snprintf(rel, sizeof(rel), "goldens/evals/%s/results.json", gm->name);
    return test_json(test_shared_path(rel));
}

static void check_aggregates(const golden_set *set, const infq_items *items, int n_other)
{
    cJSON *all = results();
    const cJSON *want = infq_json_get(infq_json_get(all, "tasks"), set->golden);
    bool mc2 = strcmp(set->golden, "truthfulqa_mc2") == 0; // the harness calls that share acc
    infq_score sc[INFQ_ITEM_METRICS];
    double room = (double)n_other / (double)infq_items_count(items) + 1e-9;
    int n, n_seen = 0;

    ck_ok(infq_score_summary(items, sc, INFQ_ITEM_METRICS, &n, &err), err);
    for (int k = 0; k < n; k++) {
        char se[40];
        const cJSON *w = infq_json_get(want, mc2 ? "acc" : sc[k].name), *e;
        if (!w || mc2 != (strcmp(sc[k].name, "mc2") == 0))
            continue;
        n_seen++;
        if (strcmp(sc[k].name, "perplexity") == 0) {
            ck_assert_double_eq_tol(log(sc[k].mean / w->valuedouble), 0, tolerance(0));
            continue;
        }
        ck_assert_double_eq_tol(sc[k].mean, w->valuedouble, mc2 ? tolerance(0) : room);
        snprintf(se, sizeof(se), "%s_stderr", mc2 ? "acc" : sc[k].name);
        e = infq_json_get(want, se);
        if (e && n_other == 0)
            ck_assert_double_eq_tol(sc[k].se, e->valuedouble, mc2 ? tolerance(0) : 1e-9);
    }
    ck_assert_int_ge(n_seen, 1);
    cJSON_Delete(all);
}

static void scores_equal_golden(const golden_model *m, const golden_set *set)
{
    cJSON *gold;
    const cJSON *g;
    infq_score_options so = infq_score_options_default();
    infq_items *items;
    infq_task *t;
    int64_t i = 0, limit;
    int n_other = 0;

    TEST_NEEDS_SHARED();
    open_model(m);
    gold = test_eval_goldens(m->name, set->golden);
    put_float64(set, gold);
    t = open_task(set, gold);
    items = items_of(t);
    limit = infq_model_config(model)->max_positions;
    cJSON_ArrayForEach(g, gold)
        check_prompts(set, infq_task_get(t, i++), g);
    ck_assert_int_gt(i, 0);
    ck_ok(infq_score_task(model, tokenizer, t, &so, items, NULL, &err), err);
    ck_assert_int_eq(infq_items_count(items), i);
    i = 0;
    cJSON_ArrayForEach(g, gold) {
        const infq_item *it = infq_items_get(items, i++);
        double v;
        ck_assert_int_eq(it->n, cJSON_GetArraySize(infq_json_get(g, "requests")));
        check_request(set, it, g, limit);
        n_other += check_scores(set, it, g);
        if (infq_item_metric_get(it, "mc2", &v) && strcmp(set->golden, "truthfulqa_mc2") == 0)
            ck_assert_double_eq_tol(v, infq_json_get(infq_json_get(g, "metrics"), "acc")->valuedouble, tolerance(it->ll[0]));
    }
    check_aggregates(set, items, n_other);
    infq_items_free(items);
    infq_task_free(t);
    cJSON_Delete(gold);
    close_model();
}

START_TEST(scores_of_the_small_model_equal_golden)
{
    scores_equal_golden(&models[0], &sets[_i]);
}
END_TEST

START_TEST(scores_of_the_real_model_equal_golden)
{
    scores_equal_golden(&models[1], &sets[_i]);
}
END_TEST

static void append(infq_ids *ids, const cJSON *list)
{
    const cJSON *id;

    cJSON_ArrayForEach(id, list)
        infq_ids_push(ids, id->valueint);
}

/* A text that differs: every golden token is the likeliest behind those before it, up to one where two are equally good. */
static void check_parting(const char *name, const cJSON *g)
{
    const cJSON *want = infq_json_get(g, "new_ids");
    int64_t n = cJSON_GetArraySize(want), vocab = infq_model_config(model)->vocab, k = 0;
    infq_forward_options f = {.invariant = true};
    float *hidden = infq_mem_alloc((size_t)(n * infq_model_config(model)->hidden) * sizeof(float));
    float *logits = infq_mem_alloc((size_t)(n * vocab) * sizeof(float));
    infq_segment seg = {.n_last = n};
    infq_ids ids;

    infq_ids_init(&ids);
    append(&ids, infq_json_get(g, "prompt_ids"));
    append(&ids, want);
    ck_ok(infq_seq_new(model, &seg.seq, &err), err);
    seg.tokens = ids.data;
    seg.n_tokens = (int64_t)ids.n - 1;
    ck_ok(infq_model_forward(model, &seg, 1, &f, hidden, &err), err);
    ck_ok(infq_model_logits(model, hidden, n, true, logits, &err), err);
    while (k < n && infq_argmax(logits + k * vocab, vocab) == cJSON_GetArrayItem(want, (int)k)->valueint)
        k++;
    ck_assert_msg(k < n, "%s %d: the text differs, no token does", name, infq_json_get(g, "doc")->valueint);
    const float *z = logits + k * vocab;
    double gap = z[infq_argmax(z, vocab)] - z[cJSON_GetArrayItem(want, (int)k)->valueint];
    ck_assert_msg(gap < 2 * tolerance(0), "%s %d: token %lld differs, its logit by %g", name, infq_json_get(g, "doc")->valueint,
                  (long long)k, gap);
    infq_seq_free(seg.seq);
    infq_ids_deinit(&ids);
    infq_mem_free(hidden);
    infq_mem_free(logits);
}

typedef struct {
    const char *golden, *task;
    int64_t max_tokens;
    const char *answer, *metrics[2][2]; /* filter of the answer; our metrics and the filters they belong to */
} golden_text;

static const golden_text texts[] = {
    {"gsm8k", "gsm8k", 256, "strict-match", {{"exact_strict", "strict-match"}, {"exact_flexible", "flexible-extract"}}},
    {"mgsm_direct_fr", "mgsm_fr", 96, "flexible-extract",
     {{"exact_flexible", "flexible-extract"}, {"exact_whole", "remove_whitespace"}}}};
#define N_TEXTS ((int)(sizeof(texts) / sizeof(texts[0])))

static void check_text(const golden_text *gt, const infq_item *it, const cJSON *g, const infq_generate_options *o)
{
    char request[17];
    infq_ids ids;
    double v;

    infq_ids_init(&ids);
    append(&ids, infq_json_get(g, "prompt_ids"));
    ck_ok(infq_generate_digest(o, ids.data, (int64_t)ids.n, NULL, 0, request, &err), err);
    ck_assert_msg(strcmp(request, it->request) == 0, "%s %lld: other tokens were fed", gt->golden, (long long)it->doc);
    infq_ids_deinit(&ids);
    ck_assert_str_eq(it->target, infq_json_get(g, "target")->valuestring);
    if (strcmp(it->text, infq_json_get(g, "output")->valuestring) != 0) {
        check_parting(gt->golden, g);
        return;
    }
    ck_assert_str_eq(it->answer, infq_json_get(infq_json_get(g, "extracted"), gt->answer)->valuestring);
    for (int k = 0; k < 2; k++) {
        ck_assert(infq_item_metric_get(it, gt->metrics[k][0], &v));
        const cJSON *filter = infq_json_get(infq_json_get(g, "metrics"), gt->metrics[k][1]);
        ck_assert_double_eq(v, infq_json_get(filter, "exact_match")->valuedouble);
    }
}

static void texts_equal_golden(const golden_model *m, const golden_text *gt)
{
    infq_generate_task_options o = infq_generate_task_options_default();
    const golden_set set = {gt->golden, gt->task, -1};
    infq_writer w = {0};
    infq_items *items;
    infq_task *t;
    cJSON *gold;
    const cJSON *g;
    int64_t i = 0;

    TEST_NEEDS_SHARED();
    open_model(m);
    w.model = model;
    w.tok = tokenizer;
    gold = test_eval_goldens(m->name, gt->golden);
    t = open_task(&set, gold);
    items = items_of(t);
    cJSON_ArrayForEach(g, gold) // examples drawn as the reference draws them
        ck_assert_str_eq(infq_task_get(t, i++)->requests[0].context, infq_json_get(g, "prompt")->valuestring);
    ck_assert_int_ge(i, 8);
    o.generate.max_tokens = gt->max_tokens;
    ck_ok(infq_generate_task(&w, t, &o, items, NULL, &err), err);
    ck_assert_int_eq(infq_items_count(items), i);
    o.generate.stops = infq_task_generation_of(t)->stops;
    o.generate.n_stops = infq_task_generation_of(t)->n_stops;
    i = 0;
    cJSON_ArrayForEach(g, gold)
        check_text(gt, infq_items_get(items, i++), g, &o.generate);
    infq_items_free(items);
    infq_task_free(t);
    cJSON_Delete(gold);
    close_model();
}

START_TEST(texts_of_the_small_model_equal_golden)
{
    texts_equal_golden(&models[0], &texts[_i]);
}
END_TEST

START_TEST(texts_of_the_real_model_equal_golden)
{
    texts_equal_golden(&models[1], &texts[_i]);
}
END_TEST

static infq_corpus *open_corpus(const char *name, int64_t n)
{
    const char *wiki = test_shared_path("data/wikitext-2/wiki.test.raw");
    infq_corpus *c = NULL;

    if (strcmp(name, "wikitext") == 0)
        ck_ok(infq_corpus_open(wiki, INFQ_CORPUS_WIKI_PAGES, false, n, &c, &err), err);
    else
        ck_ok(infq_corpus_open_lines(test_shared_path("data/french-ud-gsd/fr_gsd-ud-test.txt"), 10, n, &c, &err), err);
    ck_assert_int_eq(infq_corpus_count(c), n);
    return c;
}

static const char *const corpora[] = {"wikitext", "french_ppl"};

static void rolling_equals_golden(const golden_model *m, const char *name)
{
    infq_ppl_options po = {.convention = INFQ_PPL_ROLLING, .window = m->window};
    infq_ppl_result r;
    infq_corpus *c;
    cJSON *gold, *res;
    const cJSON *g, *x, *agg;
    int64_t w = 0, d = 0;
    double room = 0, bits; // room: of the logarithm of all

    TEST_NEEDS_SHARED();
    open_model(m);
    gold = test_eval_goldens(m->name, name);
    res = results();
    agg = infq_json_get(infq_json_get(res, "tasks"), name);
    c = open_corpus(name, cJSON_GetArraySize(gold));
    ck_ok(infq_ppl_measure(model, tokenizer, c, &po, &r, &err), err);
    cJSON_ArrayForEach(g, gold) {
        const infq_corpus_doc *doc = infq_corpus_get(c, (size_t)d++);
        ck_assert_str_eq(doc->text, infq_json_get(g, "text")->valuestring);
        ck_assert_int_eq(doc->words, infq_json_get(g, "words")->valueint);
        ck_assert_int_eq(doc->bytes, infq_json_get(g, "bytes")->valueint);
        cJSON_ArrayForEach(x, infq_json_get(g, "windows")) {
            double want = infq_json_get(x, m->ll)->valuedouble;
            ck_assert_int_lt(w, r.n_windows);
            ck_assert_int_eq(r.windows[w].doc, d - 1);
            ck_assert_int_eq(r.windows[w].n, cJSON_GetArraySize(infq_json_get(x, "ids")));
            ck_assert_msg(fabs(-r.windows[w].nll - want) <= tolerance(want), "%s window %lld: %.9g, should be %.9g", name,
                          (long long)w, -r.windows[w].nll, want);
            room += tolerance(want);
            w++;
        }
    }
    ck_assert_int_eq(r.n_windows, w);
    ck_assert_double_eq_tol(log(r.word_ppl / infq_json_get(agg, "word_perplexity")->valuedouble), 0, room / (double)r.words);
    ck_assert_double_eq_tol(log(r.byte_ppl / infq_json_get(agg, "byte_perplexity")->valuedouble), 0, room / (double)r.bytes);
    bits = infq_json_get(agg, "bits_per_byte")->valuedouble;
    ck_assert_double_eq_tol(r.bits_per_byte, bits, room / log(2) / (double)r.bytes);
    infq_ppl_result_free(&r);
    infq_corpus_free(c);
    cJSON_Delete(gold);
    cJSON_Delete(res);
    close_model();
}

START_TEST(windows_of_the_small_model_equal_golden)
{
    rolling_equals_golden(&models[0], corpora[_i]);
}
END_TEST

START_TEST(windows_of_the_real_model_equal_golden)
{
    rolling_equals_golden(&models[1], corpora[_i]);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("eval_goldens");
    TCase *small = tcase_create("small"), *real = tcase_create("real");

    tcase_set_timeout(small, 120);
    tcase_add_loop_test(small, scores_of_the_small_model_equal_golden, 0, N_SETS);
    tcase_add_loop_test(small, texts_of_the_small_model_equal_golden, 0, N_TEXTS);
    tcase_add_loop_test(small, windows_of_the_small_model_equal_golden, 0, 2);
    suite_add_tcase(s, small);
    tcase_set_timeout(real, 600);
    if (getenv("INFQ_SMOLLM2")) {
        tcase_add_loop_test(real, scores_of_the_real_model_equal_golden, 0, N_SETS);
        tcase_add_loop_test(real, texts_of_the_real_model_equal_golden, 0, N_TEXTS);
        tcase_add_loop_test(real, windows_of_the_real_model_equal_golden, 0, 2);
    }
    suite_add_tcase(s, real);
    return test_main(s);
}
