/* Does the gate answer rightly on items like these (specs 2.11)? Cases with a known answer are made from the items at hand: the original against itself,
 * the observed changes with their signs drawn anew (no gap), a gap planted at the margin and one of twice the cap. Each is resampled and asked of
 * T2, task by task and as a suite; T1 is simulated with the numbers of runs, the noise and the spread that were measured. */
#ifndef INFQ_EVAL_SELF_CHECK_H
#define INFQ_EVAL_SELF_CHECK_H

#include "lib/eval/decide.h"
#include "lib/eval/simulate.h"

typedef enum {
    INFQ_CHECK_OK,
    INFQ_CHECK_WEAK,    /* nothing wrong, but too few items or runs for the power that the policy states */
    INFQ_CHECK_BROKEN   /* wrong more often than stated, beyond the error of the simulation */
} infq_check_state;

typedef struct {
    char what[96];
    infq_rates rates;
    double wanted;      /* bound of a wrong answer, or power of the right one */
    infq_check_state state;
} infq_check_row;

#define INFQ_SELF_CHECK_ROWS 8
#define INFQ_SELF_CHECK_DRAWS 2000
typedef struct {
    int n;
    infq_check_row rows[INFQ_SELF_CHECK_ROWS];
    infq_verdict verdict;  /* PASS all ok, UNDECIDED one weak, FAIL one broken */
} infq_self_check;

infq_status infq_self_check_run(infq_pair *const *pairs, int n, const infq_decision *d, const infq_policy *p, infq_self_check *out,
                                infq_err *err);
void infq_self_check_text(const infq_self_check *c, infq_buf *to);
/* One object, schema "infq.gate-self-check.v1". */
void infq_self_check_json(const infq_self_check *c, infq_jw *w);

#endif
