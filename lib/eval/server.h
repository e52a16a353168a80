/* Scores and texts from an OpenAI-compatible server, in place of a model on the built-in engine.
 *
 * Log-likelihoods come from completions that echo the prompt with log-probabilities; texts from completions or chat
 * completions. What the server computes is its own: batch invariance and numerics are not ours to promise. */
#ifndef INFQ_EVAL_SERVER_H
#define INFQ_EVAL_SERVER_H

#include "lib/eval/encode.h"
#include "lib/eval/generate.h"
#include "lib/eval/task.h"

typedef struct {
    const char *url;             /* "http://host:port" with or without "/v1"; https too */
    const char *model;           /* as the server calls it */
    const char *key;             /* bearer token, NULL: none */
    int64_t parallel;            /* requests in flight; 8 */
    int64_t retries;             /* after 429, 5xx, lost connections, time-outs; 6 */
    double rate;                 /* requests a second at most, 0: no limit */
    double timeout_s;            /* of one request; 600 */
    double backoff_s;            /* before the first retry, doubled each time up to 60; a longer Retry-After is kept; 1 */
    const infq_tokenizer *tok;   /* of likelihoods: prompts go as its token ids, NULL: as text */
    infq_bos bos;                /* of such prompts */
    const infq_log *log;
} infq_server_options;
infq_server_options infq_server_options_default(void);

typedef struct infq_server infq_server;
/* USAGE for a URL that is not http or https. Nothing is sent yet. Options are borrowed. */
infq_status infq_server_open(const infq_server_options *o, infq_server **out, infq_err *err);
void infq_server_close(infq_server *s);
int64_t infq_server_retried(const infq_server *s); /* requests that were sent again, so far */

/* Scores items infq_items_count(items).. of a choice or target task. With a tokenizer the ids that the engine would see are sent, and
 * the same tokens scored. Without one text is sent; of the tokens that the server echoes, those that begin at or behind the end of
 * the context (trailing blanks moved to the continuation) are scored; one that begins before and ends behind it belongs to the
 * continuation too, and is counted in *n_across. UNSUPPORTED when the server does not echo with log-probabilities, when it
 * changes the prompt, or its text offsets do not fit the text. */
infq_status infq_server_score_task(infq_server *s, const infq_task *task, infq_items *items, infq_item_log *log,
                                   int64_t *n_across, infq_err *err);

/* As infq_generate. chat: prompts are sent as a user's message (behind `system` if not NULL), the server applies its
 * template. Stop strings are cut here too. Tokens are as the server counts them, 0 where it does not. */
infq_status infq_server_generate(infq_server *s, bool chat, const char *system, int64_t first, int64_t n,
                                 const infq_generate_options *o,
                                 const infq_generate_sink *sink, infq_err *err);

#endif
