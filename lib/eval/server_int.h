/* Requests to an OpenAI-compatible server: parallel, retried, limited in rate, answers handed over in order. */
#ifndef INFQ_EVAL_SERVER_INT_H
#define INFQ_EVAL_SERVER_INT_H

#include "lib/base/json.h"
#include "lib/eval/server.h"

/* Where request bodies come from and replies go. */
typedef struct {
    const char *path;            /* "/completions" */
    /* Appends the JSON body of request i. */
    infq_status (*make)(void *ctx, int64_t i, infq_buf *body, infq_err *err);
    /* Called in the order of i, once each. */
    infq_status (*done)(void *ctx, int64_t i, const cJSON *reply, infq_err *err);
    void *ctx;
} infq_server_job;

/* Requests first .. n - 1. IO after the last retry, naming URL, request and what was answered; FORMAT for a reply that is no
 * JSON object; UNSUPPORTED with the server's message for the other 4xx; INTERRUPTED after a signal. */
infq_status infq_server_run(infq_server *s, int64_t first, int64_t n, const infq_server_job *job, infq_err *err);
const infq_server_options *infq_server_options_of(const infq_server *s);

#endif
