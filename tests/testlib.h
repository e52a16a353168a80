/* Shared by the Check suites: golden files, temporary folders, skipping. */
#ifndef INFQ_TESTS_TESTLIB_H
#define INFQ_TESTS_TESTLIB_H

#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/file.h"
#include "lib/base/json.h"

/* Folder of the shared golden files (environment INFQ_SHARED), NULL when it is not there. */
const char *test_shared(void);
/* "<shared>/<rel>" in a static buffer (8 of them in turn). */
const char *test_shared_path(const char *rel);
/* "<dir>/<name>" in a static buffer (32 of them in turn). */
const char *test_in(const char *dir, const char *name);
/* Leaves the test as skipped when the shared folder is absent: prints "SKIP <reason>", counted by run.sh. */
#define TEST_NEEDS_SHARED()                                                                        \
    do {                                                                                           \
        if (!test_shared()) {                                                                      \
            printf("SKIP %s: shared golden files are not here (INFQ_SHARED, or ../shared)\n", __func__);\
            fflush(stdout);                                                                        \
            return;                                                                                \
        }                                                                                          \
    } while (0)
/* A fresh folder under $TMPDIR, removed at exit of the test process; static buffer (8 in turn). */
const char *test_tmpdir(void);
/* Parsed JSON file, fails the test when it cannot be read. */
cJSON *test_json(const char *path);
/* Lines of goldens/evals/MODEL/NAME.jsonl (or .jsonl.gz), as an array; cJSON_Delete. */
cJSON *test_eval_goldens(const char *model, const char *name);
/* Bytes of a hex string; *n their number; infq_mem_free. */
uint8_t *test_hex(const char *hex, size_t *n);
/* Asserts st == 0, printing err. */
#define ck_ok(call, err)                                                                           \
    do {                                                                                           \
        infq_status ck_st_ = (call);                                                               \
        ck_assert_msg(ck_st_ == 0, "%s: %s: %s", #call, infq_status_text(ck_st_), (err).msg);             \
    } while (0)
/* Runs a suite with forks (CK_RUN_CASE selects); returns main's exit code. */
/* a = m^-1 by elimination, for small well conditioned matrices; m [n][n] becomes the identity. */
void test_inverse(double *m, int64_t n, double *a);

int test_main(Suite *s);

#endif
