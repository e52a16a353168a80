#include "lib/base/fetch.h"

#include <curl/curl.h>

#define STALL_SECONDS 60L /* less than a byte a second for so long ends the attempt */

typedef struct {
    infq_buf *out;
    size_t start, max_bytes;
    const char *what;
    const infq_log *log;
    bool too_long;
} job;

static size_t on_data(char *p, size_t size, size_t n, void *ctx)
{
    job *j = ctx;
    size_t bytes = size * n;

    if (bytes > j->max_bytes - (j->out->n - j->start)) {
        j->too_long = true;
        return 0;
    }
    infq_buf_add(j->out, p, bytes);
    return j->out->failed ? 0 : bytes;
}

static int on_progress(void *ctx, curl_off_t total, curl_off_t now, curl_off_t up_total, curl_off_t up)
{
    job *j = ctx;

    (void)up_total;
    (void)up;
    if (total > 0)
        infq_progress(j->log, j->what, (uint64_t)now, (uint64_t)total);
    return infq_interrupted != 0;
}

static infq_status status_of(CURLcode rc, CURL *c, const job *j, const char *url, infq_err *err)
{
    long http = 0;

    if (rc == CURLE_OK)
        return 0;
    curl_easy_getinfo(c, CURLINFO_RESPONSE_CODE, &http);
    if (infq_interrupted)
        return infq_err_set(err, INFQ_E_INTERRUPTED, "interrupted");
    if (j->too_long)
        return infq_err_set(err, INFQ_E_FORMAT, "more than %zu bytes at %s", j->max_bytes, url);
    if (j->out->failed)
        return infq_err_set(err, INFQ_E_NOMEM, "no memory for %s", url);
    if (rc == CURLE_FILE_COULDNT_READ_FILE || http == 404 || http == 410)
        return infq_err_set(err, INFQ_E_NOT_FOUND, "nothing at %s", url);
    if (http >= 400)
        return infq_err_set(err, INFQ_E_IO, "the server answered %ld for %s", http, url);
    return infq_err_set(err, INFQ_E_IO, "%s: %s", curl_easy_strerror(rc), url);
}

infq_status infq_fetch(const char *url, size_t max_bytes, const char *what, const infq_log *log, infq_buf *out, infq_err *err)
{
    job j = { out, out->n, max_bytes, what, log, false };
    CURL *c = curl_easy_init();
    CURLcode rc;
    infq_status st;

    if (!c)
        return infq_err_set(err, INFQ_E_NOMEM, "no memory for a download");
    curl_easy_setopt(c, CURLOPT_URL, url);
#if LIBCURL_VERSION_NUM >= 0x075500
    curl_easy_setopt(c, CURLOPT_PROTOCOLS_STR, "https,file");
    curl_easy_setopt(c, CURLOPT_REDIR_PROTOCOLS_STR, "https");
#else
    curl_easy_setopt(c, CURLOPT_PROTOCOLS, (long)(CURLPROTO_HTTPS | CURLPROTO_FILE));
    curl_easy_setopt(c, CURLOPT_REDIR_PROTOCOLS, (long)CURLPROTO_HTTPS);
#endif
    curl_easy_setopt(c, CURLOPT_FOLLOWLOCATION, 1L);
    curl_easy_setopt(c, CURLOPT_MAXREDIRS, 8L);
    curl_easy_setopt(c, CURLOPT_FAILONERROR, 1L);
    curl_easy_setopt(c, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(c, CURLOPT_LOW_SPEED_LIMIT, 1L);
    curl_easy_setopt(c, CURLOPT_LOW_SPEED_TIME, STALL_SECONDS);
    curl_easy_setopt(c, CURLOPT_USERAGENT, "infq/" INFQ_VERSION);
    curl_easy_setopt(c, CURLOPT_WRITEFUNCTION, on_data);
    curl_easy_setopt(c, CURLOPT_WRITEDATA, &j);
    curl_easy_setopt(c, CURLOPT_NOPROGRESS, 0L);
    curl_easy_setopt(c, CURLOPT_XFERINFOFUNCTION, on_progress);
    curl_easy_setopt(c, CURLOPT_XFERINFODATA, &j);
    rc = curl_easy_perform(c);
    st = status_of(rc, c, &j, url, err);
    curl_easy_cleanup(c);
    return st;
}
