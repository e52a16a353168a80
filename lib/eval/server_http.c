#include <math.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include <curl/curl.h>

#include "lib/base/cpu.h"
#include "lib/base/str.h"
#include "lib/eval/server_int.h"

#define MAX_REPLY ((size_t)64 << 20)
#define MAX_PARALLEL 256
#define LONGEST_WAIT_S 300

struct infq_server {
    infq_server_options o;
    char *base;              /* ".../v1" */
    struct curl_slist *headers;
    CURLM *multi;
    int64_t n_retried, next_send_ns;
};

typedef enum { IDLE, WAITING, FLYING, ANSWERED } state;

/* A request on its way, or its answer until its turn comes. */
typedef struct {
    state state;
    int64_t index, tries, not_before_ns;
    double retry_after_s;
    CURL *easy;
    infq_buf body, reply;
    char why[CURL_ERROR_SIZE];
} flight;

typedef struct {
    infq_server *s;
    const infq_server_job *job;
    int64_t next, written, n;
    flight *ring;            /* [n_ring]: request i is in place i % n_ring */
    int64_t n_ring, n_busy;  /* n_busy: prepared and not answered */
    char url[1024];
} pool;

infq_server_options infq_server_options_default(void)
{
    return (infq_server_options){ .parallel = 8, .retries = 6, .timeout_s = 600, .backoff_s = 1 };
}

const infq_server_options *infq_server_options_of(const infq_server *s)
{
    return &s->o;
}

int64_t infq_server_retried(const infq_server *s)
{
    return s->n_retried;
}

static infq_status make_headers(infq_server *s, infq_err *err)
{
    char line[1024];
    struct curl_slist *more = curl_slist_append(NULL, "Content-Type: application/json");

    s->headers = more;
    if (more && s->o.key) {
        if (strlen(s->o.key) > sizeof(line) - 30)
            return infq_err_set(err, INFQ_E_USAGE, "the key is longer than %zu bytes", sizeof(line) - 30);
        snprintf(line, sizeof(line), "Authorization: Bearer %s", s->o.key);
        more = curl_slist_append(s->headers, line);
    }
    return more ? INFQ_E_OK : infq_err_set(err, INFQ_E_NOMEM, "a server connection needs memory");
}

infq_status infq_server_open(const infq_server_options *o, infq_server **out, infq_err *err)
{
    infq_server *s;
    infq_buf url;
    void *p;
    infq_status st;

    if (strncasecmp(o->url, "http://", 7) != 0 && strncasecmp(o->url, "https://", 8) != 0)
        return infq_err_set(err, INFQ_E_USAGE, "%.80s is no http or https address", o->url);
    if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
        return infq_err_set(err, INFQ_E_NOMEM, "libcurl cannot start");
    st = infq_mem_new(1, sizeof(*s), "server", &p, err);
    if (st) {
        curl_global_cleanup();
        return st;
    }
    s = p;
    *s = (infq_server){ .o = *o };
    s->o.parallel = o->parallel < 1 ? 1 : o->parallel > MAX_PARALLEL ? MAX_PARALLEL : o->parallel;
    infq_buf_init(&url);
    infq_buf_str(&url, o->url);
    while (url.n > 0 && url.data[url.n - 1] == '/')
        url.data[--url.n] = '\0';
    if (url.n > 0 && !infq_str_ends(url.data, "/v1"))
        infq_buf_str(&url, "/v1");
    st = infq_buf_status(&url, err);
    s->base = st ? NULL : infq_buf_take(&url);
    infq_buf_deinit(&url);
    s->multi = curl_multi_init();
    if (!st && !s->multi)
        st = infq_err_set(err, INFQ_E_NOMEM, "a server connection needs memory");
    if (!st)
        st = make_headers(s, err);
    if (st)
        infq_server_close(s);
    else
        *out = s;
    return st;
}

void infq_server_close(infq_server *s)
{
    if (!s)
        return;
    if (s->multi)
        curl_multi_cleanup(s->multi);
    curl_slist_free_all(s->headers);
    infq_mem_free(s->base);
    infq_mem_free(s);
    curl_global_cleanup();
}

static size_t on_body(char *data, size_t one, size_t n, void *ctx)
{
    flight *f = ctx;

    (void)one;
    if (f->reply.n + n > MAX_REPLY)
        return 0;
    infq_buf_add(&f->reply, data, n);
    return f->reply.failed ? 0 : n;
}

static size_t on_header(char *data, size_t one, size_t n, void *ctx)
{
    flight *f = ctx;
    char text[32];
    double seconds;

    (void)one;
    if (n > 12 && n < 12 + sizeof(text) && strncasecmp(data, "retry-after:", 12) == 0) {
        snprintf(text, sizeof(text), "%.*s", (int)(n - 12), data + 12);
        text[strcspn(text, "\r\n")] = '\0';
        if (infq_parse_f64(text + strspn(text, " "), 0, 1e6, &seconds))
            f->retry_after_s = seconds;
    }
    return n;
}

static void flight_end(pool *p, flight *f)
{
    if (f->easy) {
        if (f->state == FLYING)
            curl_multi_remove_handle(p->s->multi, f->easy);
        curl_easy_cleanup(f->easy);
    }
    infq_buf_deinit(&f->body);
    infq_buf_deinit(&f->reply);
    memset(f, 0, sizeof(*f));
    infq_buf_init(&f->body);
    infq_buf_init(&f->reply);
}

static infq_status prepare(pool *p, infq_err *err)
{
    flight *f = &p->ring[p->next % p->n_ring];
    CURL *e = curl_easy_init();

    f->index = p->next++;
    f->easy = e;
    f->state = WAITING;
    p->n_busy++;
    if (!e)
        return infq_err_set(err, INFQ_E_NOMEM, "a request needs memory");
    if (p->job->make(p->job->ctx, f->index, &f->body, err))
        return infq_err_in(err, "request %lld", (long long)f->index);
    INFQ_TRY(infq_buf_status(&f->body, err));
    curl_easy_setopt(e, CURLOPT_URL, p->url);
#if LIBCURL_VERSION_NUM >= 0x075500
    curl_easy_setopt(e, CURLOPT_PROTOCOLS_STR, "http,https");
#else
    curl_easy_setopt(e, CURLOPT_PROTOCOLS, (long)(CURLPROTO_HTTP | CURLPROTO_HTTPS));
#endif
    curl_easy_setopt(e, CURLOPT_HTTPHEADER, p->s->headers);
    curl_easy_setopt(e, CURLOPT_POSTFIELDS, f->body.data);
    curl_easy_setopt(e, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)f->body.n);
    curl_easy_setopt(e, CURLOPT_WRITEFUNCTION, on_body);
    curl_easy_setopt(e, CURLOPT_WRITEDATA, f);
    curl_easy_setopt(e, CURLOPT_HEADERFUNCTION, on_header);
    curl_easy_setopt(e, CURLOPT_HEADERDATA, f);
    curl_easy_setopt(e, CURLOPT_ERRORBUFFER, f->why);
    curl_easy_setopt(e, CURLOPT_TIMEOUT_MS, (long)(p->s->o.timeout_s * 1000));
    curl_easy_setopt(e, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(e, CURLOPT_PRIVATE, f);
    return INFQ_E_OK;
}

// Sends what is due: places in flight are free, the rate allows it, its wait is over.
static infq_status send_due(pool *p, infq_err *err)
{
    infq_server *s = p->s;
    int64_t now = infq_time_ns();

    while (p->next < p->n && p->next < p->written + p->n_ring && p->n_busy < s->o.parallel)
        INFQ_TRY(prepare(p, err));
    for (int64_t i = p->written; i < p->next; i++) {
        flight *f = &p->ring[i % p->n_ring];
        if (f->state != WAITING || f->not_before_ns > now || s->next_send_ns > now)
            continue;
        if (s->o.rate > 0)
            s->next_send_ns = now + (int64_t)(1e9 / s->o.rate);
        infq_buf_clear(&f->reply);
        f->why[0] = '\0';
        f->retry_after_s = 0;
        if (curl_multi_add_handle(s->multi, f->easy) != CURLM_OK)
            return infq_err_set(err, INFQ_E_NOMEM, "a request needs memory");
        f->state = FLYING;
        f->tries++;
    }
    return INFQ_E_OK;
}

// What a server says of an error: {"error": {"message": ..}}, {"message": ..}, or the first words of the body.
static void message_of(const infq_buf *reply, char *out, size_t cap)
{
    infq_err ignored;
    cJSON *o = NULL;
    const cJSON *m = NULL;

    if (infq_json_parse(reply->data, reply->n, "reply", &o, &ignored) == 0 && cJSON_IsObject(o)) {
        m = infq_json_get(o, "error");
        m = infq_json_get(cJSON_IsObject(m) ? m : o, "message");
    }
    snprintf(out, cap, "%.120s", cJSON_IsString(m) ? m->valuestring : reply->data);
    for (char *c = out; *c; c++)
        if ((unsigned char)*c < 0x20)
            *c = ' ';
    cJSON_Delete(o);
}

// After an answer or a failure: ANSWERED, WAITING for another try, or an error.
static infq_status landed(pool *p, flight *f, CURLcode rc, infq_err *err)
{
    char says[128] = "";
    long code = 0;
    double wait;

    curl_multi_remove_handle(p->s->multi, f->easy);
    curl_easy_getinfo(f->easy, CURLINFO_RESPONSE_CODE, &code);
    f->state = ANSWERED;
    if (rc == CURLE_OK && code == 200)
        return INFQ_E_OK;
    if (f->reply.failed)
        return infq_err_set(err, INFQ_E_NOMEM, "a reply needs memory");
    message_of(&f->reply, says, sizeof(says));
    if (rc == CURLE_OK && code != 429 && code < 500)
        return infq_err_set(err, INFQ_E_UNSUPPORTED, "%.60s answers %ld to request %lld: %s", p->url, code,
                            (long long)f->index, says);
    if (f->tries > p->s->o.retries) {
        if (rc == CURLE_OK)
            return infq_err_set(err, INFQ_E_IO, "%.60s answers %ld to request %lld, %lld times: %s", p->url, code,
                                (long long)f->index,
                                (long long)f->tries, says);
        return infq_err_set(err, INFQ_E_IO, "%.60s, request %lld, %lld times: %.80s", p->url, (long long)f->index,
                            (long long)f->tries,
                            f->why[0] ? f->why : curl_easy_strerror(rc));
    }
    wait = fmin(p->s->o.backoff_s * pow(2, (double)(f->tries - 1)), 60);
    wait = fmin(fmax(wait, f->retry_after_s), LONGEST_WAIT_S);
    f->not_before_ns = infq_time_ns() + (int64_t)(wait * 1e9);
    f->state = WAITING;
    p->s->n_retried++;
    return INFQ_E_OK;
}

static infq_status receive(pool *p, infq_err *err)
{
    CURLMsg *m;
    int running, left;

    if (curl_multi_perform(p->s->multi, &running) != CURLM_OK)
        return infq_err_set(err, INFQ_E_IO, "libcurl fails on %.80s", p->url);
    while ((m = curl_multi_info_read(p->s->multi, &left)) != NULL) {
        char *f;
        if (m->msg != CURLMSG_DONE)
            continue;
        curl_easy_getinfo(m->easy_handle, CURLINFO_PRIVATE, &f);
        INFQ_TRY(landed(p, (flight *)(void *)f, m->data.result, err));
        if (((flight *)(void *)f)->state == ANSWERED)
            p->n_busy--;
    }
    return INFQ_E_OK;
}

static infq_status hand_over(pool *p, infq_err *err)
{
    while (p->written < p->next && p->ring[p->written % p->n_ring].state == ANSWERED) {
        flight *f = &p->ring[p->written % p->n_ring];
        cJSON *o = NULL;
        infq_status st = infq_json_parse(f->reply.data, f->reply.n, "reply", &o, err);

        if (!st && !cJSON_IsObject(o))
            st = infq_err_set(err, INFQ_E_FORMAT, "the reply is no JSON object");
        if (!st)
            st = p->job->done(p->job->ctx, f->index, o, err);
        cJSON_Delete(o);
        if (st)
            return infq_err_in(err, "%.60s, request %lld", p->url, (long long)f->index);
        flight_end(p, f);
        p->written++;
    }
    return INFQ_E_OK;
}

// How long nothing but an answer can happen.
static int patience_ms(const pool *p)
{
    int64_t now = infq_time_ns(), due = now + 200000000;

    for (int64_t i = p->written; i < p->next; i++) {
        const flight *f = &p->ring[i % p->n_ring];
        int64_t at = f->not_before_ns > p->s->next_send_ns ? f->not_before_ns : p->s->next_send_ns;
        if (f->state == WAITING && at < due)
            due = at;
    }
    return due > now ? (int)((due - now) / 1000000) + 1 : 1;
}

static infq_status fly(pool *p, infq_err *err)
{
    while (p->written < p->n) {
        if (infq_interrupted)
            return infq_err_set(err, INFQ_E_INTERRUPTED, "interrupted after %lld requests", (long long)p->written);
        INFQ_TRY(send_due(p, err));
        INFQ_TRY(receive(p, err));
        INFQ_TRY(hand_over(p, err));
        if (p->written < p->n)
            curl_multi_poll(p->s->multi, NULL, 0, patience_ms(p), NULL);
    }
    return INFQ_E_OK;
}

infq_status infq_server_run(infq_server *s, int64_t first, int64_t n, const infq_server_job *job, infq_err *err)
{
    pool p = { .s = s, .job = job, .next = first, .written = first, .n = n, .n_ring = 4 * s->o.parallel };
    void *ring;
    infq_status st;

    if (snprintf(p.url, sizeof(p.url), "%s%s", s->base, job->path) >= (int)sizeof(p.url))
        return infq_err_set(err, INFQ_E_USAGE, "the server's address is too long");
    INFQ_TRY(infq_mem_new((size_t)p.n_ring, sizeof(flight), "requests", &ring, err));
    p.ring = ring;
    memset(ring, 0, (size_t)p.n_ring * sizeof(flight));
    for (int64_t i = 0; i < p.n_ring; i++) {
        infq_buf_init(&p.ring[i].body);
        infq_buf_init(&p.ring[i].reply);
    }
    st = fly(&p, err);
    for (int64_t i = 0; i < p.n_ring; i++)
        flight_end(&p, &p.ring[i]);
    infq_mem_free(p.ring);
    return st;
}
