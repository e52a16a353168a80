/* The client of OpenAI-compatible servers against a small one of the test's own: scores, texts, retries, rate, resuming,
 * failures. */
#include "lib/eval/server.h"

#include <arpa/inet.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/base/cpu.h"
#include "lib/base/str.h"
#include "tests/testlib.h"

static infq_err err;

// What the server does, shared with it.
typedef struct {
    int script[32];       /* status of request i; 0: right answer, -1: closes, -2: half a body, -3: no JSON,
        -4: no log-probabilities */
    int n_script;
    bool bos;             /* echoes a BOS token in front */
    bool parts;           /* counts one character more than the text has, as where a token holds half of one */
    int own_tokens;       /* counts so many tokens more than were sent */
    int sleep_ms;         /* before the first answer */
    int n_requests;
    char last_body[4096], last_path[64], last_auth[64];
} world;

static world *shared;
static pid_t child;
static int port;

// Token ids: id i has log-probability -i / 4, and it is the likeliest unless odd.
static void put_ids(const cJSON *ids, infq_buf *to)
{
    const cJSON *v;
    infq_buf values, tops;

    infq_buf_init(&values);
    infq_buf_init(&tops);
    cJSON_ArrayForEach(v, ids) {
        infq_buf_fmt(&values, v == ids->child ? "null," : "%g,", -0.25 * v->valuedouble);
        infq_buf_fmt(&tops, "{\"t\": %g},", -0.25 * v->valuedouble + (v->valueint % 2 ? 0.125 : 0));
    }
    infq_buf_fmt(to, "{\"choices\": [{\"text\": \"\", \"logprobs\": {\"token_logprobs\": [%s-9], \"top_logprobs\": [%s{}]}}], "
                 "\"usage\": {\"prompt_tokens\": %d}}", values.data, tops.data, cJSON_GetArraySize(ids) + shared->own_tokens);
    infq_buf_deinit(&values);
    infq_buf_deinit(&tops);
}

static void put_score(const cJSON *body, infq_buf *to)
{
    const char *prompt = infq_json_get(body, "prompt")->valuestring;
    size_t n = strlen(prompt), at = 0, n_tokens = 0;
    infq_buf values, tops, offsets;

    infq_buf_init(&values);
    infq_buf_init(&tops);
    infq_buf_init(&offsets);
    if (shared->bos) {
        infq_buf_str(&values, "null,");
        infq_buf_str(&tops, "null,");
        infq_buf_str(&offsets, "0,");
        n_tokens++;
    }
    // tokens of three characters; one with an x is not the likeliest
    for (size_t chars = 0; at < n; n_tokens++) {
        size_t from = at, len, k = 0;
        double lp;
        for (; k < 3 && at < n; k++, at += len)
            infq_utf8_next(prompt + at, n - at, &len);
        lp = -0.5 - 0.125 * (double)(at - from);
        if (from == 0 && !shared->bos)
            infq_buf_str(&values, "null,");
        else
            infq_buf_fmt(&values, "%g,", lp);
        infq_buf_fmt(&tops, "{\"t\": %g},", memchr(prompt + from, 'x', at - from) ? lp + 0.25 : lp);
        infq_buf_fmt(&offsets, "%zu,", chars + (shared->bos ? 3 : 0));
        chars += k;
        if (at == n)
            infq_buf_fmt(&offsets, "%zu", chars + (shared->bos ? 3 : 0) + (shared->parts ? 3 : 0)); // of the token behind the prompt
    }
    infq_buf_fmt(to, "{\"choices\": [{\"text\": \"\", \"logprobs\": {\"token_logprobs\": [%s-9], \"top_logprobs\": [%s{}], "
                 "\"text_offset\": [%s], \"tokens\": [\"%.*s\"]}}], \"usage\": {\"prompt_tokens\": %zu}}", values.data, tops.data,
                 offsets.data, shared->bos ? 3 : (int)strcspn(prompt, " "), shared->bos ? "<s>" : prompt, n_tokens);
    infq_buf_deinit(&values);
    infq_buf_deinit(&tops);
    infq_buf_deinit(&offsets);
}

static void put_answer(const char *path, const cJSON *body, infq_buf *to)
{
    const cJSON *messages = infq_json_get(body, "messages"), *last = NULL, *m;

    if (infq_json_get(body, "echo")) {
        if (cJSON_IsArray(infq_json_get(body, "prompt")))
            put_ids(infq_json_get(body, "prompt"), to);
        else
            put_score(body, to);
        return;
    }
    cJSON_ArrayForEach(m, messages)
        last = m;
    if (strstr(path, "chat"))
        infq_buf_fmt(to, "{\"choices\": [{\"message\": {\"content\": \"chat %s STOP more\"}, \"finish_reason\": \"stop\"}], "
                     "\"usage\": {\"completion_tokens\": 7, \"prompt_tokens\": 5}}", infq_json_get(last, "content")->valuestring);
    else
        infq_buf_fmt(to, "{\"choices\": [{\"text\": \"text %s\", \"finish_reason\": \"length\"}]}",
                     infq_json_get(body, "prompt")->valuestring);
}

static void reply(int fd, int status, const char *path, const char *text)
{
    infq_buf body, head;
    cJSON *o = NULL;

    infq_buf_init(&body);
    infq_buf_init(&head);
    if (status == 0 || status == -2 || status == -4) {
        ck_ok(infq_json_parse(text, strlen(text), "body", &o, &err), err);
        if (status == -4)
            infq_buf_str(&body, "{\"choices\": [{\"text\": \"x\"}]}");
        else
            put_answer(path, o, &body);
        cJSON_Delete(o);
    } else if (status > 0) {
        infq_buf_fmt(&body, "{\"error\": {\"message\": \"status %d it is\"}}", status);
    } else {
        infq_buf_str(&body, "<html>");
    }
    infq_buf_fmt(&head, "HTTP/1.1 %d X\r\nContent-Type: application/json\r\nContent-Length: %zu\r\n%sConnection: close\r\n\r\n",
                 status > 0 ? status : 200, body.n, status == 429 ? "Retry-After: 0.05\r\n" : "");
    (void)!write(fd, head.data, head.n);
    (void)!write(fd, body.data, status == -2 ? body.n / 2 : body.n);
    infq_buf_deinit(&body);
    infq_buf_deinit(&head);
}

static void serve(int listener)
{
    static char in[1 << 16];

    for (;;) {
        int fd = accept(listener, NULL, NULL), status, i;
        size_t n = 0, want = 0;
        char *body = NULL, *p;

        while (n < sizeof(in) - 1) {
            ssize_t k = read(fd, in + n, sizeof(in) - 1 - n);
            if (k <= 0)
                break;
            n += (size_t)k;
            in[n] = '\0';
            body = strstr(in, "\r\n\r\n");
            p = strcasestr(in, "content-length:");
            want = p ? (size_t)atoi(p + 15) : 0;
            if (body && n >= (size_t)(body + 4 - in) + want)
                break;
        }
        i = shared->n_requests++;
        status = i < shared->n_script ? shared->script[i] : 0;
        if (i == 0 && shared->sleep_ms > 0)
            usleep((useconds_t)shared->sleep_ms * 1000);
        sscanf(in, "POST %63s", shared->last_path);
        p = strcasestr(in, "authorization:");
        snprintf(shared->last_auth, sizeof(shared->last_auth), "%.*s", p ? (int)strcspn(p, "\r") : 0, p ? p : "");
        snprintf(shared->last_body, sizeof(shared->last_body), "%s", body ? body + 4 : "");
        if (status != -1 && body)
            reply(fd, status, shared->last_path, body + 4);
        close(fd);
    }
}

static void start(void)
{
    struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t len = sizeof(a);
    int listener = socket(AF_INET, SOCK_STREAM, 0);

    unsetenv("http_proxy");
    shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ck_assert(shared != MAP_FAILED);
    memset(shared, 0, sizeof(*shared));
    ck_assert_int_eq(bind(listener, (struct sockaddr *)&a, sizeof(a)), 0);
    ck_assert_int_eq(listen(listener, 64), 0);
    getsockname(listener, (struct sockaddr *)&a, &len);
    port = ntohs(a.sin_port);
    signal(SIGPIPE, SIG_IGN);
    child = fork();
    if (child == 0)
        serve(listener);
    close(listener);
}

static void stop(void)
{
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    munmap(shared, sizeof(*shared));
}

static infq_server *client(const infq_server_options *o)
{
    static char url[64];
    infq_server_options own = *o;
    infq_server *s = NULL;

    snprintf(url, sizeof(url), "http://127.0.0.1:%d/", port);
    own.url = url;
    own.model = "m";
    own.backoff_s = 0.01;
    ck_ok(infq_server_open(&own, &s, &err), err);
    return s;
}

static infq_task *choices(const char *dir, const char *text)
{
    char path[300];
    infq_task *t = NULL;
    FILE *f;

    snprintf(path, sizeof(path), "%s/t.jsonl", dir);
    f = fopen(path, "w");
    fputs(text, f);
    fclose(f);
    ck_ok(infq_task_open(path, 0, &t, &err), err);
    return t;
}

static const char three[] = "{\"context\": \"abcdef\", \"choices\": [\" gh\", \" xy\"], \"gold\": 0}\n"
                            "{\"context\": \"caf\xc3\xa9zz\", \"choices\": [\" ghijk\", \" lmn\"], \"gold\": 1}\n"
                            "{\"context\": \"abcde\", \"choices\": [\" gh\", \" i\"], \"gold\": 0}\n";

static infq_items *items_new(void)
{
    infq_item_key key;
    infq_items *s = NULL;

    memset(&key, 0, sizeof(key));
    ck_ok(infq_items_new(&key, &s, &err), err);
    return s;
}

START_TEST(log_likelihoods_are_sums_over_the_continuation)
{
    infq_server_options o = infq_server_options_default();
    infq_items *items = items_new();
    infq_task *t;
    infq_server *s;
    int64_t across;

    start();
    t = choices(test_tmpdir(), three);
    for (int bos = 0; bos < 2; bos++) {
        shared->bos = bos;
        s = client(&o);
        infq_items_free(items);
        items = items_new();
        ck_ok(infq_server_score_task(s, t, items, NULL, &across, &err), err);
        ck_assert_int_eq(infq_items_count(items), 3);
        // "abc" "def" " gh": one token of three bytes
        ck_assert_double_eq_tol(infq_items_get(items, 0)->ll[0], -0.875, 1e-12);
        ck_assert(infq_items_get(items, 0)->greedy[0] && !infq_items_get(items, 0)->greedy[1]);
        // "caf" "\xc3\xa9zz" " gh" "ijk"
        ck_assert_double_eq_tol(infq_items_get(items, 1)->ll[0], -1.75, 1e-12);
        ck_assert_int_eq(infq_items_get(items, 1)->n_tokens[0], 2);
        ck_assert_int_eq(infq_items_get(items, 1)->chars[0], 5);
        // "abc" "de " "gh": a token across the border belongs to the continuation
        ck_assert_double_eq_tol(infq_items_get(items, 2)->ll[0], -0.875 - 0.75, 1e-12);
        ck_assert_int_eq(across, 2);
        ck_assert_int_eq(infq_items_get(items, 0)->pick, 0);
        infq_server_close(s);
    }
    infq_task_free(t);
    infq_items_free(items);
    stop();
}
END_TEST

static infq_status one_score(infq_server_options o)
{
    infq_items *items = items_new();
    infq_task *t = choices(test_tmpdir(), three);
    infq_server *s = client(&o);
    int64_t across;
    infq_status st = infq_server_score_task(s, t, items, NULL, &across, &err);

    infq_server_close(s);
    infq_task_free(t);
    infq_items_free(items);
    return st;
}

// A folder with a tokenizer of a few words, "<s>" (id 0) in front of an empty context.
static infq_tokenizer *words(const char *dir)
{
    static const char *const files[2][2] = {
        {"tokenizer.json", "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"<s>\":0,\"a\":1,\"b\":2,\"c\":3,\"ab\":4,\"bc\":5,\" \":6},"
                           "\"merges\":[\"a b\",\"b c\"]},\"added_tokens\":[{\"id\":0,\"content\":\"<s>\",\"special\":true}]}"},
        {"tokenizer_config.json", "{\"bos_token\":\"<s>\",\"tokenizer_class\":\"PreTrainedTokenizerFast\"}"}};
    infq_tokenizer *t = NULL;

    for (int i = 0; i < 2; i++) {
        char path[300];
        FILE *f;
        snprintf(path, sizeof(path), "%s/%s", dir, files[i][0]);
        f = fopen(path, "w");
        fputs(files[i][1], f);
        fclose(f);
    }
    ck_ok(infq_tokenizer_open(dir, &t, &err), err);
    return t;
}

/* The ids that the engine would see are sent: also for an empty context, and where a word is parted otherwise behind its context. */
START_TEST(with_a_tokenizer_token_ids_are_sent_and_scored)
{
    infq_server_options o = infq_server_options_default();
    infq_items *items = items_new();
    infq_tokenizer *tok = words(test_tmpdir());
    int64_t across;
    infq_task *t;
    infq_server *s;

    start();
    t = choices(test_tmpdir(), "{\"context\": \"a\", \"choices\": [\" bc\", \" cab\"], \"gold\": 0}\n"
                               "{\"context\": \"\", \"choices\": [\"ab\", \"cc\"], \"gold\": 1}\n");
    o.tok = tok;
    o.parallel = 1;
    s = client(&o);
    ck_ok(infq_server_score_task(s, t, items, NULL, &across, &err), err);
    ck_assert_int_eq(across, 0);
    ck_assert_double_eq_tol(infq_items_get(items, 0)->ll[0], -0.25 * (6 + 5), 1e-12);
    ck_assert_double_eq_tol(infq_items_get(items, 0)->ll[1], -0.25 * (6 + 3 + 4), 1e-12);
    ck_assert_int_eq(infq_items_get(items, 0)->n_tokens[1], 3);
    ck_assert_double_eq_tol(infq_items_get(items, 1)->ll[0], -0.25 * 4, 1e-12);
    ck_assert(infq_items_get(items, 1)->greedy[0] && !infq_items_get(items, 1)->greedy[1]);
    ck_assert_ptr_nonnull(strstr(shared->last_body, "\"prompt\":[0,3,3]"));
    ck_assert_uint_eq(strlen(infq_items_get(items, 0)->request), 16);
    infq_server_close(s);
    infq_items_free(items);
    shared->own_tokens = -1; // a server that counts otherwise has changed the prompt
    items = items_new();
    s = client(&o);
    ck_assert_int_eq(infq_server_score_task(s, t, items, NULL, &across, &err), INFQ_E_UNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(err.msg, "were sent"));
    infq_server_close(s);
    infq_items_free(items);
    infq_task_free(t);
    infq_tokenizer_free(tok);
    stop();
}
END_TEST

START_TEST(offsets_that_do_not_fit_the_text_are_refused)
{
    infq_server_options o = infq_server_options_default();

    start();
    shared->parts = true;
    ck_assert_int_eq(one_score(o), INFQ_E_UNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(err.msg, "offsets do not fit"));
    shared->bos = true;
    ck_assert_int_eq(one_score(o), INFQ_E_UNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(err.msg, "offsets do not fit"));
    stop();
}
END_TEST

START_TEST(a_request_that_hangs_is_sent_again)
{
    infq_server_options o = infq_server_options_default();

    start();
    shared->sleep_ms = 700;
    o.timeout_s = 0.2;
    ck_assert_int_eq(one_score(o), 0);
    ck_assert_int_gt(shared->n_requests, 6);
    stop();
}
END_TEST

START_TEST(items_of_another_order_are_not_gone_on_with)
{
    infq_server_options o = infq_server_options_default();
    infq_items *items = items_new();
    infq_item *it;
    infq_task *t = choices(test_tmpdir(), three);
    infq_server *s;
    int64_t across;

    start();
    s = client(&o);
    ck_ok(infq_items_add(items, 2, &it, &err), err);
    it->doc = 1;
    ck_assert_int_eq(infq_server_score_task(s, t, items, NULL, &across, &err), INFQ_E_EXISTS);
    ck_assert_int_eq(shared->n_requests, 0);
    infq_server_close(s);
    infq_items_free(items);
    infq_task_free(t);
    stop();
}
END_TEST

START_TEST(failures_that_pass_are_tried_again)
{
    infq_server_options o = infq_server_options_default();
    infq_items *items = items_new();
    infq_task *t;
    infq_server *s;
    int64_t across;

    start();
    shared->n_script = 6;
    memcpy(shared->script, (int[]){ 429, 500, -1, -2, 503, 429 }, 6 * sizeof(int));
    t = choices(test_tmpdir(), three);
    s = client(&o);
    ck_ok(infq_server_score_task(s, t, items, NULL, &across, &err), err);
    ck_assert_int_eq(infq_items_count(items), 3);
    ck_assert_int_eq(infq_server_retried(s), 6);
    ck_assert_int_eq(shared->n_requests, 12);
    infq_server_close(s);
    infq_task_free(t);
    infq_items_free(items);
    stop();
}
END_TEST

START_TEST(failures_that_stay_are_named)
{
    infq_server_options o = infq_server_options_default();

    start();
    o.retries = 2;
    o.parallel = 1;
    shared->n_script = 32;
    for (int i = 0; i < 32; i++)
        shared->script[i] = 500;
    ck_assert_int_eq(one_score(o), INFQ_E_IO);
    ck_assert_ptr_nonnull(strstr(err.msg, "500"));
    ck_assert_ptr_nonnull(strstr(err.msg, "3 times"));
    ck_assert_ptr_nonnull(strstr(err.msg, "status 500 it is"));
    shared->n_requests = 0;
    shared->script[0] = 404;
    ck_assert_int_eq(one_score(o), INFQ_E_UNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(err.msg, "status 404 it is"));
    ck_assert_int_eq(shared->n_requests, 1);
    shared->n_requests = 0;
    shared->script[0] = -3;
    ck_assert_int_eq(one_score(o), INFQ_E_FORMAT);
    shared->n_requests = 0;
    shared->script[0] = -4;
    ck_assert_int_eq(one_score(o), INFQ_E_UNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(err.msg, "echo"));
    stop();
    ck_assert_int_eq(one_score(o), INFQ_E_IO); // nobody listens any more
    o.url = "ftp://x";
    infq_server *s = NULL;
    ck_assert_int_eq(infq_server_open(&o, &s, &err), INFQ_E_USAGE);
}
END_TEST

START_TEST(the_rate_is_kept)
{
    infq_server_options o = infq_server_options_default();
    int64_t t0;

    start();
    o.rate = 25;
    t0 = infq_time_ns();
    ck_assert_int_eq(one_score(o), 0);
    ck_assert_int_ge(infq_time_ns() - t0, (int64_t)(5 * 0.04 * 1e9)); // six requests, five waits
    stop();
}
END_TEST

START_TEST(a_run_goes_on_behind_what_is_there)
{
    infq_server_options o = infq_server_options_default();
    const char *dir = test_tmpdir();
    char path[300];
    infq_task *t;
    infq_items *items;
    infq_item_log *log = NULL;
    infq_server *s;
    int64_t across;

    start();
    snprintf(path, sizeof(path), "%s/items.jsonl", dir);
    t = choices(dir, three);
    o.retries = 0;
    o.parallel = 1;
    shared->n_script = 4;
    shared->script[3] = 500; // the second item fails halfway
    s = client(&o);
    items = items_new();
    ck_ok(infq_item_log_open(path, items, &log, &err), err);
    ck_assert_int_eq(infq_server_score_task(s, t, items, log, &across, &err), INFQ_E_IO);
    ck_ok(infq_item_log_close(log, &err), err);
    infq_items_free(items);
    items = items_new();
    ck_ok(infq_item_log_open(path, items, &log, &err), err);
    ck_assert_int_eq(infq_items_count(items), 1);
    ck_ok(infq_server_score_task(s, t, items, log, &across, &err), err);
    ck_ok(infq_item_log_close(log, &err), err);
    ck_assert_int_eq(infq_items_count(items), 3);
    ck_assert_int_eq(shared->n_requests, 4 + 4);
    infq_items_free(items);
    infq_server_close(s);
    infq_task_free(t);
    stop();
}
END_TEST

typedef struct {
    char texts[4][80];
    infq_finish stop[4];
    int64_t n_tokens[4], n;
} heard;

static infq_status give_prompt(void *ctx, int64_t i, infq_buf *text, infq_err *e)
{
    (void)ctx;
    infq_buf_fmt(text, "p%d", (int)i);
    return infq_buf_status(text, e);
}

static infq_status take_text(void *ctx, const infq_generated *g, infq_err *e)
{
    heard *h = ctx;

    (void)e;
    ck_assert_int_eq(g->index, h->n);
    snprintf(h->texts[h->n], sizeof(h->texts[0]), "%.*s", (int)g->n_text, g->text);
    h->stop[h->n] = g->stop;
    h->n_tokens[h->n++] = g->n_tokens;
    return INFQ_E_OK;
}

START_TEST(texts_come_in_order_and_are_cut_at_stops)
{
    infq_server_options o = infq_server_options_default();
    infq_generate_options g = infq_generate_options_default();
    static const char *const stops[] = { " STOP" };
    heard h = { 0 };
    infq_generate_sink sink = { give_prompt, take_text, &h };
    infq_server *s;

    start();
    shared->n_script = 1;
    shared->script[0] = 429; // so that the first answer is the last to come
    o.key = "secret";
    s = client(&o);
    g.stops = stops;
    g.n_stops = 1;
    g.max_tokens = 9;
    ck_ok(infq_server_generate(s, false, NULL, 0, 4, &g, &sink, &err), err);
    ck_assert_int_eq(h.n, 4);
    ck_assert_str_eq(h.texts[0], "text p0");
    ck_assert_str_eq(h.texts[3], "text p3");
    ck_assert_int_eq(h.stop[0], INFQ_FINISH_LENGTH);
    ck_assert_str_eq(shared->last_path, "/v1/completions");
    ck_assert_str_eq(shared->last_auth, "Authorization: Bearer secret");
    ck_assert_ptr_nonnull(strstr(shared->last_body, "\"max_tokens\":9"));
    memset(&h, 0, sizeof(h));
    ck_ok(infq_server_generate(s, true, "be brief", 0, 2, &g, &sink, &err), err);
    ck_assert_str_eq(h.texts[1], "chat p1");
    ck_assert_int_eq(h.stop[1], INFQ_FINISH_STRING);
    ck_assert_int_eq(h.n_tokens[1], 7);
    ck_assert_str_eq(shared->last_path, "/v1/chat/completions");
    ck_assert_ptr_nonnull(strstr(shared->last_body, "\"role\":\"system\",\"content\":\"be brief\""));
    infq_server_close(s);
    stop();
}
END_TEST

int main(void)
{
    Suite *s = suite_create("server");
    TCase *t = tcase_create("client");

    tcase_set_timeout(t, 60);
    tcase_add_test(t, log_likelihoods_are_sums_over_the_continuation);
    tcase_add_test(t, with_a_tokenizer_token_ids_are_sent_and_scored);
    tcase_add_test(t, offsets_that_do_not_fit_the_text_are_refused);
    tcase_add_test(t, a_request_that_hangs_is_sent_again);
    tcase_add_test(t, items_of_another_order_are_not_gone_on_with);
    tcase_add_test(t, failures_that_pass_are_tried_again);
    tcase_add_test(t, failures_that_stay_are_named);
    tcase_add_test(t, the_rate_is_kept);
    tcase_add_test(t, a_run_goes_on_behind_what_is_there);
    tcase_add_test(t, texts_come_in_order_and_are_cut_at_stops);
    suite_add_tcase(s, t);
    return test_main(s);
}
