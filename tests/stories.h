/* The small real model of the shared data, with its tokenizer, opened for tests (model-stories260k, 1 MB). */
#ifndef INFQ_TESTS_STORIES_H
#define INFQ_TESTS_STORIES_H

#include "tests/testlib.h"

#include "lib/base/par.h"
#include "lib/io/tokenizer.h"
#include "lib/model/model.h"

typedef struct {
    infq_backend *be;
    infq_checkpoint *ck;
    infq_model *model;
    infq_tokenizer *tok;
} stories;

/* On the CPU, one thread. */
static inline stories stories_open(void)
{
    const char *folder = test_shared_path("data/model-stories260k/hf");
    static const infq_log quiet;
    infq_model_options mo = infq_model_options_default();
    stories s;
    infq_err err;

    infq_par_threads_set(1);
    ck_ok(infq_backend_open("cpu", &s.be, &err), err);
    ck_ok(infq_checkpoint_open(folder, &quiet, &s.ck, &err), err);
    ck_ok(infq_model_open(s.ck, s.be, &mo, &s.model, &err), err);
    ck_ok(infq_tokenizer_open(folder, &s.tok, &err), err);
    return s;
}

static inline void stories_close(stories *s)
{
    infq_tokenizer_free(s->tok);
    infq_model_close(s->model);
    infq_checkpoint_close(s->ck);
    infq_backend_close(s->be);
}

#endif
