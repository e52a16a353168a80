/* Evaluation of chat templates: expressions, scopes, statements. */
#include <math.h>
#include <string.h>

#include "lib/base/str.h"
#include "lib/io/chat_int.h"

static infq_status enter(chat_run *r, const chat_node *n)
{
    r->line = n->line;
    if (++r->depth > CHAT_MAX_CALLS)
        return infq_chat_fail(r, INFQ_E_UNSUPPORTED, "evaluation nested deeper than %d", CHAT_MAX_CALLS);
    return infq_chat_step(r);
}

// A variable of the scopes from inside out, else a function.
static void look_up(const chat_run *r, const char *name, chat_value *out)
{
    int f;

    for (const chat_scope *s = r->scope; s; s = s->parent) {
        const chat_value *v = infq_chat_dict_find(&s->vars, name);
        if (v) {
            *out = *v;
            return;
        }
    }
    f = infq_chat_function_find(name);
    *out = f < 0 ? infq_chat_undefined(name) : (chat_value){ .type = CHAT_FUNCTION, .u.function = f };
}

static infq_status assign(chat_run *r, const char *name, chat_value v)
{
    return infq_chat_dict_put(r, &r->scope->vars, infq_chat_strn(name, strlen(name)), v);
}

static infq_status push_scope(chat_run *r, chat_scope *parent, chat_scope **out)
{
    void *p;

    INFQ_TRY(infq_arena_calloc(r->arena, 1, sizeof(chat_scope), "scope", &p, r->err));
    *out = p;
    (*out)->parent = parent;
    return INFQ_E_OK;
}

static infq_status eval_args(chat_run *r, const chat_node *chain, chat_args *a)
{
    a->n = a->n_named = 0;
    for (const chat_node *n = chain; n; n = n->next) {
        chat_value v;
        if (a->n == CHAT_MAX_ARGS || a->n_named == CHAT_MAX_ARGS)
            return infq_chat_fail(r, INFQ_E_UNSUPPORTED, "more than %d arguments", CHAT_MAX_ARGS);
        INFQ_TRY(infq_chat_eval(r, n->a, &v));
        if (n->name) {
            for (int i = 0; i < a->n_named; i++)
                if (strcmp(a->names[i], n->name) == 0)
                    return infq_chat_fail(r, INFQ_E_FORMAT, "the argument %s is given twice", n->name);
            a->names[a->n_named] = n->name;
            a->named[a->n_named++] = v;
        } else {
            a->v[a->n++] = v;
        }
    }
    return INFQ_E_OK;
}

static infq_status fail_undefined(chat_run *r, const chat_value *v)
{
    return infq_chat_fail(r, INFQ_E_FORMAT, "%s is undefined", v->u.missing ? v->u.missing : "a value");
}

// Arithmetic

static bool is_integer(const chat_value *v)
{
    return v->type == CHAT_INT || v->type == CHAT_BOOL;
}

static int64_t integer(const chat_value *v)
{
    return v->type == CHAT_BOOL ? v->u.b : v->u.i;
}

static double real(const chat_value *v)
{
    return v->type == CHAT_FLOAT ? v->u.f : (double)integer(v);
}

static infq_status power(chat_run *r, int64_t a, int64_t b, int64_t *out)
{
    int64_t x = 1;

    for (int64_t i = 0; i < b; i++) {
        if (__builtin_mul_overflow(x, a, &x))
            return infq_chat_fail(r, INFQ_E_UNSUPPORTED, "an integer beyond 64 bits");
        if (x == 0 || x == 1)
            break;
        if (x == -1) {
            x = b % 2 ? -1 : 1;
            break;
        }
    }
    *out = x;
    return INFQ_E_OK;
}

static infq_status integers(chat_run *r, chat_op op, int64_t a, int64_t b, chat_value *out)
{
    int64_t x = 0;
    bool over = false;

    if ((op == CHAT_OP_DIV || op == CHAT_OP_FLOORDIV || op == CHAT_OP_MOD) && b == 0)
        return infq_chat_fail(r, INFQ_E_FORMAT, "division by zero");
    switch (op) {
    case CHAT_OP_ADD:
        over = __builtin_add_overflow(a, b, &x);
        break;
    case CHAT_OP_SUB:
        over = __builtin_sub_overflow(a, b, &x);
        break;
    case CHAT_OP_MUL:
        over = __builtin_mul_overflow(a, b, &x);
        break;
    case CHAT_OP_DIV:
        *out = infq_chat_float((double)a / (double)b);
        return INFQ_E_OK;
    case CHAT_OP_FLOORDIV:
        over = a == INT64_MIN && b == -1;
        x = over ? 0 : a / b - (a % b != 0 && (a < 0) != (b < 0));
        break;
    case CHAT_OP_MOD: // the sign of the divisor
        x = b == -1 ? 0 : a % b;
        x += x != 0 && (x < 0) != (b < 0) ? b : 0;
        break;
    default:
        if (b < 0)
            return infq_chat_fail(r, INFQ_E_UNSUPPORTED, "a negative power");
        INFQ_TRY(power(r, a, b, &x));
    }
    if (over)
        return infq_chat_fail(r, INFQ_E_UNSUPPORTED, "an integer beyond 64 bits");
    *out = infq_chat_int(x);
    return INFQ_E_OK;
}

static infq_status reals(chat_run *r, chat_op op, double a, double b, chat_value *out)
{
    double x;

    switch (op) {
    case CHAT_OP_ADD:
        x = a + b;
        break;
    case CHAT_OP_SUB:
        x = a - b;
        break;
    case CHAT_OP_MUL:
        x = a * b;
        break;
    case CHAT_OP_DIV:
        if (b == 0)
            return infq_chat_fail(r, INFQ_E_FORMAT, "division by zero");
        x = a / b;
        break;
    default:
        return infq_chat_fail(r, INFQ_E_UNSUPPORTED, "//, %% and ** of numbers that are not whole");
    }
    *out = infq_chat_float(x);
    return INFQ_E_OK;
}

static infq_status joined(chat_run *r, const chat_list *a, const chat_list *b, chat_value *out)
{
    INFQ_TRY(infq_chat_list_new(r, out));
    out->u.list->tuple = a->tuple;
    for (int64_t i = 0; i < a->n; i++)
        INFQ_TRY(infq_chat_list_add(r, out->u.list, a->v[i]));
    for (int64_t i = 0; i < b->n; i++)
        INFQ_TRY(infq_chat_list_add(r, out->u.list, b->v[i]));
    return INFQ_E_OK;
}

infq_status infq_chat_add(chat_run *r, const chat_value *a, const chat_value *b, chat_value *out)
{
    infq_buf t;

    if (a->type == CHAT_STR && b->type == CHAT_STR) {
        infq_buf_init(&t);
        infq_buf_add(&t, a->u.str.s, a->u.str.n);
        infq_buf_add(&t, b->u.str.s, b->u.str.n);
        return infq_chat_take(r, &t, out);
    }
    if (a->type == CHAT_LIST && b->type == CHAT_LIST && a->u.list->tuple == b->u.list->tuple)
        return joined(r, a->u.list, b->u.list, out);
    if (a->type == CHAT_UNDEFINED || b->type == CHAT_UNDEFINED)
        return fail_undefined(r, a->type == CHAT_UNDEFINED ? a : b);
    if (is_integer(a) && is_integer(b))
        return integers(r, CHAT_OP_ADD, integer(a), integer(b), out);
    if ((is_integer(a) || a->type == CHAT_FLOAT) && (is_integer(b) || b->type == CHAT_FLOAT))
        return reals(r, CHAT_OP_ADD, real(a), real(b), out);
    return infq_chat_fail(r, INFQ_E_FORMAT, "a %s and a %s cannot be added", infq_chat_type_name(a), infq_chat_type_name(b));
}

static infq_status repeated(chat_run *r, const chat_value *v, int64_t times, chat_value *out)
{
    infq_buf t;

    if (v->type != CHAT_STR)
        return infq_chat_fail(r, INFQ_E_UNSUPPORTED, "* of a list");
    if (times < 0)
        times = 0;
    if (v->u.str.n > 0 && (size_t)times > CHAT_MAX_BYTES / v->u.str.n)
        return infq_chat_fail(r, INFQ_E_UNSUPPORTED, "a text of more than %zu bytes", CHAT_MAX_BYTES);
    infq_buf_init(&t);
    for (int64_t i = 0; v->u.str.n > 0 && i < times; i++)
        infq_buf_add(&t, v->u.str.s, v->u.str.n);
    return infq_chat_take(r, &t, out);
}

static infq_status binary(chat_run *r, const chat_node *n, chat_value *out)
{
    chat_value a, b;

    INFQ_TRY(infq_chat_eval(r, n->a, &a));
    INFQ_TRY(infq_chat_eval(r, n->b, &b));
    r->line = n->line;
    if (n->op == CHAT_OP_ADD)
        return infq_chat_add(r, &a, &b, out);
    if (a.type == CHAT_UNDEFINED || b.type == CHAT_UNDEFINED)
        return fail_undefined(r, a.type == CHAT_UNDEFINED ? &a : &b);
    if (n->op == CHAT_OP_MUL && is_integer(&b) && (a.type == CHAT_STR || a.type == CHAT_LIST))
        return repeated(r, &a, integer(&b), out);
    if (n->op == CHAT_OP_MUL && is_integer(&a) && (b.type == CHAT_STR || b.type == CHAT_LIST))
        return repeated(r, &b, integer(&a), out);
    if (n->op == CHAT_OP_MOD && a.type == CHAT_STR)
        return infq_chat_fail(r, INFQ_E_UNSUPPORTED, "%% on a string");
    if (is_integer(&a) && is_integer(&b))
        return integers(r, n->op, integer(&a), integer(&b), out);
    if ((is_integer(&a) || a.type == CHAT_FLOAT) && (is_integer(&b) || b.type == CHAT_FLOAT))
        return reals(r, n->op, real(&a), real(&b), out);
    return infq_chat_fail(r, INFQ_E_FORMAT, "no such arithmetic for a %s and a %s", infq_chat_type_name(&a),
                          infq_chat_type_name(&b));
}

static infq_status compare_once(chat_run *r, chat_op op, const chat_value *a, const chat_value *b, bool *out)
{
    int c;

    switch (op) {
    case CHAT_OP_EQ:
        return infq_chat_equal(r, a, b, out);
    case CHAT_OP_NE:
        INFQ_TRY(infq_chat_equal(r, a, b, out));
        *out = !*out;
        return INFQ_E_OK;
    case CHAT_OP_IN:
        return infq_chat_contains(r, b, a, out);
    case CHAT_OP_NOT_IN:
        INFQ_TRY(infq_chat_contains(r, b, a, out));
        *out = !*out;
        return INFQ_E_OK;
    default:
        INFQ_TRY(infq_chat_compare(r, a, b, &c));
        *out = op == CHAT_OP_LT ? c < 0 : op == CHAT_OP_LE ? c <= 0 : op == CHAT_OP_GT ? c > 0 : c >= 0;
        return INFQ_E_OK;
    }
}

static infq_status compare(chat_run *r, const chat_node *n, chat_value *out)
{
    chat_value left, right;
    bool yes = true;

    INFQ_TRY(infq_chat_eval(r, n->a, &left));
    for (const chat_node *k = n->args; k && yes; k = k->next) {
        INFQ_TRY(infq_chat_eval(r, k->a, &right));
        r->line = n->line;
        INFQ_TRY(compare_once(r, k->op, &left, &right, &yes));
        left = right;
    }
    *out = infq_chat_bool(yes);
    return INFQ_E_OK;
}

// Attributes, items, slices

static infq_status loop_attribute(const chat_loop *l, const char *name, chat_value *out)
{
    int64_t n = l->items->n, i = l->at;

    if (strcmp(name, "index") == 0)
        *out = infq_chat_int(i + 1);
    else if (strcmp(name, "index0") == 0)
        *out = infq_chat_int(i);
    else if (strcmp(name, "revindex") == 0)
        *out = infq_chat_int(n - i);
    else if (strcmp(name, "revindex0") == 0)
        *out = infq_chat_int(n - i - 1);
    else if (strcmp(name, "first") == 0)
        *out = infq_chat_bool(i == 0);
    else if (strcmp(name, "last") == 0)
        *out = infq_chat_bool(i == n - 1);
    else if (strcmp(name, "length") == 0)
        *out = infq_chat_int(n);
    else if (strcmp(name, "depth") == 0)
        *out = infq_chat_int(1);
    else if (strcmp(name, "depth0") == 0)
        *out = infq_chat_int(0);
    else if (strcmp(name, "previtem") == 0)
        *out = i > 0 ? l->items->v[i - 1] : infq_chat_undefined("loop.previtem");
    else if (strcmp(name, "nextitem") == 0)
        *out = i + 1 < n ? l->items->v[i + 1] : infq_chat_undefined("loop.nextitem");
    else
        return INFQ_E_NOT_FOUND;
    return INFQ_E_OK;
}

infq_status infq_chat_attribute(chat_run *r, const chat_value *v, const char *name, chat_value *out)
{
    const chat_value *hit = NULL;

    *out = infq_chat_undefined(name);
    switch (v->type) {
    case CHAT_UNDEFINED:
        return fail_undefined(r, v);
    case CHAT_LOOP:
        if (loop_attribute(v->u.loop, name, out) == INFQ_E_OK)
            return INFQ_E_OK;
        break;
    case CHAT_NAMESPACE:
        if (r->in_loop_filter)
            return infq_chat_fail(r, INFQ_E_UNSUPPORTED, "a loop's condition that reads a namespace");
        hit = infq_chat_dict_find(v->u.dict, name);
        if (hit)
            *out = *hit;
        return INFQ_E_OK;
    default:
        break;
    }
    if (infq_chat_method_exists(v, name)) {
        void *self;
        INFQ_TRY(infq_arena_alloc(r->arena, 1, sizeof(*v), "method", &self, r->err));
        memcpy(self, v, sizeof(*v));
        *out = (chat_value){ .type = CHAT_METHOD, .u.method = { self, name } };
        return INFQ_E_OK;
    }
    if (v->type == CHAT_DICT) {
        hit = infq_chat_dict_find(v->u.dict, name);
        if (hit)
            *out = *hit;
    }
    return INFQ_E_OK;
}

// Character i of a string, from the end if negative.
static infq_status character(const chat_value *v, int64_t i, chat_value *out)
{
    int64_t n = infq_chat_str_len(v), at = 0;
    size_t len, pos = 0;

    i += i < 0 ? n : 0;
    if (i < 0 || i >= n) {
        *out = infq_chat_undefined("a character");
        return INFQ_E_OK;
    }
    for (; infq_utf8_next(v->u.str.s + pos, v->u.str.n - pos, &len), at < i; at++)
        pos += len;
    *out = infq_chat_strn(v->u.str.s + pos, len);
    return INFQ_E_OK;
}

infq_status infq_chat_subscript(chat_run *r, const chat_value *v, const chat_value *key, chat_value *out)
{
    const chat_value *hit = NULL;
    char *name;
    void *p;

    if (v->type == CHAT_UNDEFINED)
        return fail_undefined(r, v);
    if (v->type == CHAT_LIST && is_integer(key)) {
        int64_t i = integer(key), n = v->u.list->n;
        i += i < 0 ? n : 0;
        *out = i >= 0 && i < n ? v->u.list->v[i] : infq_chat_undefined("an item");
        return INFQ_E_OK;
    }
    if (v->type == CHAT_STR && is_integer(key))
        return character(v, integer(key), out);
    if (v->type == CHAT_DICT && key->type != CHAT_LIST && key->type != CHAT_DICT)
        hit = infq_chat_dict_get(v->u.dict, key);
    if (hit) {
        *out = *hit;
        return INFQ_E_OK;
    }
    *out = infq_chat_undefined("an item");
    if (key->type != CHAT_STR)
        return INFQ_E_OK;
    INFQ_TRY(infq_arena_alloc(r->arena, key->u.str.n + 1, 1, "name", &p, r->err));
    name = p;
    memcpy(name, key->u.str.s, key->u.str.n);
    name[key->u.str.n] = '\0';
    return infq_chat_attribute(r, v, name, out);
}

typedef struct {
    int64_t start, stop, step, n; /* n items from start on */
} range;

// As slice.indices: bounds cut to the length.
static range cut(int64_t n, bool has_start, int64_t start, bool has_stop, int64_t stop, int64_t step)
{
    range x = { 0, 0, step, 0 };
    int64_t lo = step < 0 ? -1 : 0, hi = step < 0 ? n - 1 : n;

    start = has_start ? (start < 0 ? start + n : start) : step < 0 ? hi : lo;
    stop = has_stop ? (stop < 0 ? stop + n : stop) : step < 0 ? lo : hi;
    x.start = start < lo ? lo : start > hi ? hi : start;
    x.stop = stop < lo ? lo : stop > hi ? hi : stop;
    if (step > 0 && x.stop > x.start)
        x.n = (x.stop - x.start - 1) / step + 1;
    else if (step < 0 && x.stop < x.start)
        x.n = (x.start - x.stop - 1) / -step + 1;
    return x;
}

static infq_status bound(chat_run *r, const chat_node *n, bool *has, int64_t *out)
{
    chat_value v;

    *has = false;
    if (!n)
        return INFQ_E_OK;
    INFQ_TRY(infq_chat_eval(r, n, &v));
    if (v.type == CHAT_NONE)
        return INFQ_E_OK;
    if (!is_integer(&v))
        return infq_chat_fail(r, INFQ_E_FORMAT, "a %s in a slice", infq_chat_type_name(&v));
    *has = true;
    *out = integer(&v);
    if (*out > INT32_MAX)
        *out = INT32_MAX;
    if (*out < -INT32_MAX)
        *out = -INT32_MAX;
    return INFQ_E_OK;
}

static infq_status slice(chat_run *r, const chat_node *n, chat_value *out)
{
    bool has[3];
    int64_t at[3] = { 0, 0, 1 };
    chat_value v;
    chat_list *items;
    infq_buf t;
    range x;

    INFQ_TRY(infq_chat_eval(r, n->a, &v));
    INFQ_TRY(bound(r, n->b, &has[0], &at[0]));
    INFQ_TRY(bound(r, n->c, &has[1], &at[1]));
    INFQ_TRY(bound(r, n->body, &has[2], &at[2]));
    r->line = n->line;
    if (v.type == CHAT_UNDEFINED)
        return fail_undefined(r, &v);
    if (v.type != CHAT_LIST && v.type != CHAT_STR) { // Jinja answers with an undefined value here
        *out = infq_chat_undefined("a slice");
        return INFQ_E_OK;
    }
    if (has[2] && at[2] == 0)
        return infq_chat_fail(r, INFQ_E_FORMAT, "a slice of step 0");
    INFQ_TRY(infq_chat_items_of(r, &v, &items));
    x = cut(items->n, has[0], at[0], has[1], at[1], at[2]);
    if (v.type == CHAT_STR) {
        infq_buf_init(&t);
        for (int64_t i = 0; i < x.n; i++)
            infq_buf_add(&t, items->v[x.start + i * x.step].u.str.s, items->v[x.start + i * x.step].u.str.n);
        return infq_chat_take(r, &t, out);
    }
    INFQ_TRY(infq_chat_list_new(r, out));
    out->u.list->tuple = items->tuple;
    for (int64_t i = 0; i < x.n; i++)
        INFQ_TRY(infq_chat_list_add(r, out->u.list, items->v[x.start + i * x.step]));
    return INFQ_E_OK;
}

// Calls

// Parameters of a macro bound in a scope of its own.
static infq_status bind(chat_run *r, const chat_macro *m, const chat_args *a)
{
    int i = 0, used = 0;

    for (const chat_node *p = m->node->args; p; p = p->next, i++) {
        chat_value v = infq_chat_undefined(p->name);
        bool given = i < a->n;
        if (given)
            v = a->v[i];
        for (int k = 0; k < a->n_named; k++) {
            if (strcmp(a->names[k], p->name) != 0)
                continue;
            if (given)
                return infq_chat_fail(r, INFQ_E_FORMAT, "macro %s gets %s twice", m->node->name, p->name);
            given = true;
            used++;
            v = a->named[k];
        }
        if (!given && p->a)
            INFQ_TRY(infq_chat_eval(r, p->a, &v));
        INFQ_TRY(assign(r, p->name, v));
    }
    if (a->n > i || used < a->n_named)
        return infq_chat_fail(r, INFQ_E_FORMAT, "macro %s does not take these arguments", m->node->name);
    return INFQ_E_OK;
}

// Runs statements and gives their text as a string.
static infq_status captured(chat_run *r, const chat_node *body, chat_value *out)
{
    infq_buf t, *outer = r->out;
    chat_flow flow = CHAT_FLOW_ON;
    infq_status st;

    infq_buf_init(&t);
    r->out = &t;
    st = infq_chat_exec(r, body, &flow);
    r->out = outer;
    if (!st && flow != CHAT_FLOW_ON)
        st = infq_chat_fail(r, INFQ_E_UNSUPPORTED, "a loop left from inside a set block");
    if (!st)
        return infq_chat_take(r, &t, out);
    infq_buf_deinit(&t);
    return st;
}

static infq_status call_macro(chat_run *r, const chat_macro *m, const chat_args *a, chat_value *out)
{
    chat_scope *caller = r->scope, *own;
    infq_status st;

    INFQ_TRY(push_scope(r, m->scope, &own));
    r->scope = own;
    st = bind(r, m, a);
    if (!st)
        st = captured(r, m->node->body, out);
    r->scope = caller;
    return st;
}

static infq_status call(chat_run *r, const chat_node *n, chat_value *out)
{
    chat_value f;
    chat_args a;

    INFQ_TRY(infq_chat_eval(r, n->a, &f));
    INFQ_TRY(eval_args(r, n->args, &a));
    r->line = n->line;
    switch (f.type) {
    case CHAT_MACRO:
        return call_macro(r, f.u.macro, &a, out);
    case CHAT_FUNCTION:
        return infq_chat_function_call(r, f.u.function, &a, out);
    case CHAT_METHOD:
        return infq_chat_method_call(r, f.u.method.self, f.u.method.name, &a, out);
    case CHAT_UNDEFINED:
        return fail_undefined(r, &f);
    default:
        return infq_chat_fail(r, INFQ_E_FORMAT, "a %s cannot be called", infq_chat_type_name(&f));
    }
}

static infq_status filter(chat_run *r, const chat_node *n, chat_value *out)
{
    chat_value v;
    chat_args a;

    if (strcmp(n->name, "default") == 0 || strcmp(n->name, "d") == 0)
        r->may_lack = n->a;
    INFQ_TRY(infq_chat_eval(r, n->a, &v));
    INFQ_TRY(eval_args(r, n->args, &a));
    r->line = n->line;
    return infq_chat_filter_apply(r, n->row, &v, &a, out);
}

static infq_status test(chat_run *r, const chat_node *n, chat_value *out)
{
    chat_value v;
    chat_args a;
    bool yes;

    if (strcmp(n->name, "defined") == 0 || strcmp(n->name, "undefined") == 0)
        r->may_lack = n->a;
    INFQ_TRY(infq_chat_eval(r, n->a, &v));
    INFQ_TRY(eval_args(r, n->args, &a));
    r->line = n->line;
    INFQ_TRY(infq_chat_test_apply(r, n->row, &v, &a, &yes));
    *out = infq_chat_bool(yes != n->negated);
    return INFQ_E_OK;
}

static infq_status collect(chat_run *r, const chat_node *n, chat_value *out)
{
    INFQ_TRY(infq_chat_list_new(r, out));
    out->u.list->tuple = n->kind == CHAT_N_TUPLE;
    for (const chat_node *k = n->args; k; k = k->next) {
        chat_value v;
        INFQ_TRY(infq_chat_eval(r, k, &v));
        INFQ_TRY(infq_chat_list_add(r, out->u.list, v));
    }
    return INFQ_E_OK;
}

static infq_status dict(chat_run *r, const chat_node *n, chat_value *out)
{
    INFQ_TRY(infq_chat_dict_new(r, out));
    for (const chat_node *k = n->args; k; k = k->next) {
        chat_value key, v;
        INFQ_TRY(infq_chat_eval(r, k->a, &key));
        INFQ_TRY(infq_chat_eval(r, k->b, &v));
        INFQ_TRY(infq_chat_dict_put(r, out->u.dict, key, v));
    }
    return INFQ_E_OK;
}

static infq_status concat(chat_run *r, const chat_node *n, chat_value *out)
{
    infq_buf t;
    infq_status st = INFQ_E_OK;

    infq_buf_init(&t);
    for (const chat_node *k = n->args; k && !st; k = k->next) {
        chat_value v;
        st = infq_chat_eval(r, k, &v);
        if (!st)
            st = infq_chat_str(r, &v, &t);
    }
    if (!st)
        return infq_chat_take(r, &t, out);
    infq_buf_deinit(&t);
    return st;
}

static infq_status sign(chat_run *r, const chat_node *n, chat_value *out)
{
    chat_value v;

    INFQ_TRY(infq_chat_eval(r, n->a, &v));
    if (v.type == CHAT_FLOAT)
        *out = infq_chat_float(n->kind == CHAT_N_NEG ? -v.u.f : v.u.f);
    else if (is_integer(&v) && integer(&v) > INT64_MIN)
        *out = infq_chat_int(n->kind == CHAT_N_NEG ? -integer(&v) : integer(&v));
    else
        return infq_chat_fail(r, INFQ_E_FORMAT, "a %s has no sign", infq_chat_type_name(&v));
    return INFQ_E_OK;
}

// and, or, if: what is not needed is not evaluated.
static infq_status choose(chat_run *r, const chat_node *n, chat_value *out)
{
    chat_value v;

    if (n->kind == CHAT_N_COND) {
        INFQ_TRY(infq_chat_eval(r, n->b, &v));
        if (infq_chat_true(&v))
            return infq_chat_eval(r, n->a, out);
        if (n->c)
            return infq_chat_eval(r, n->c, out);
        *out = infq_chat_undefined("an if without else");
        return INFQ_E_OK;
    }
    INFQ_TRY(infq_chat_eval(r, n->a, out));
    if (infq_chat_true(out) == (n->kind == CHAT_N_AND))
        return infq_chat_eval(r, n->b, out);
    return INFQ_E_OK;
}

static infq_status item(chat_run *r, const chat_node *n, chat_value *out)
{
    chat_value v, key;

    INFQ_TRY(infq_chat_eval(r, n->a, &v));
    if (n->kind == CHAT_N_ATTR) {
        r->line = n->line;
        return infq_chat_attribute(r, &v, n->name, out);
    }
    INFQ_TRY(infq_chat_eval(r, n->b, &key));
    r->line = n->line;
    return infq_chat_subscript(r, &v, &key, out);
}

static infq_status there(chat_run *r, const chat_node *n, const chat_value *v)
{
    return r->strict && v->type == CHAT_UNDEFINED && n != r->may_lack ? fail_undefined(r, v) : INFQ_E_OK;
}

static infq_status evaluate(chat_run *r, const chat_node *n, chat_value *out)
{
    switch (n->kind) {
    case CHAT_N_CONST:
        *out = n->value;
        return INFQ_E_OK;
    case CHAT_N_NAME:
        look_up(r, n->name, out);
        return there(r, n, out);
    case CHAT_N_LIST:
    case CHAT_N_TUPLE:
        return collect(r, n, out);
    case CHAT_N_DICT:
        return dict(r, n, out);
    case CHAT_N_COND:
    case CHAT_N_AND:
    case CHAT_N_OR:
        return choose(r, n, out);
    case CHAT_N_NOT:
        INFQ_TRY(infq_chat_eval(r, n->a, out));
        *out = infq_chat_bool(!infq_chat_true(out));
        return INFQ_E_OK;
    case CHAT_N_COMPARE:
        return compare(r, n, out);
    case CHAT_N_BINARY:
        return binary(r, n, out);
    case CHAT_N_CONCAT:
        return concat(r, n, out);
    case CHAT_N_NEG:
    case CHAT_N_POS:
        return sign(r, n, out);
    case CHAT_N_ATTR:
    case CHAT_N_ITEM:
        INFQ_TRY(item(r, n, out));
        return there(r, n, out);
    case CHAT_N_SLICE:
        return slice(r, n, out);
    case CHAT_N_CALL:
        return call(r, n, out);
    case CHAT_N_FILTER:
        return filter(r, n, out);
    case CHAT_N_TEST:
        return test(r, n, out);
    default:
        INFQ_BUG_ON(true);
    }
}

infq_status infq_chat_eval(chat_run *r, const chat_node *n, chat_value *out)
{
    INFQ_TRY(enter(r, n));
    INFQ_TRY(evaluate(r, n, out));
    r->depth--;
    return INFQ_E_OK;
}

// Statements

static infq_status unpack(chat_run *r, const chat_node *target, const chat_value *v)
{
    chat_list *items;
    int64_t i = 0;

    if (target->kind == CHAT_N_NAME)
        return assign(r, target->name, *v);
    INFQ_TRY(infq_chat_items_of(r, v, &items));
    for (const chat_node *k = target->args; k; k = k->next, i++)
        if (i < items->n)
            INFQ_TRY(assign(r, k->name, items->v[i]));
    if (i != items->n)
        return infq_chat_fail(r, INFQ_E_FORMAT, "%lld values for %lld names", (long long)items->n, (long long)i);
    return INFQ_E_OK;
}

static infq_status set(chat_run *r, const chat_node *n, const chat_value *v)
{
    chat_value ns;

    if (n->a->kind != CHAT_N_ATTR)
        return unpack(r, n->a, v);
    look_up(r, n->a->a->name, &ns);
    if (ns.type != CHAT_NAMESPACE)
        return infq_chat_fail(r, INFQ_E_FORMAT, "%s is no namespace", n->a->a->name);
    return infq_chat_dict_put(r, ns.u.dict, infq_chat_strn(n->a->name, strlen(n->a->name)), *v);
}

// {% set x | filter %}text{% endset %}: the text stands in for the innermost operand of the filters.
static infq_status filtered(chat_run *r, const chat_node *n, const chat_node *innermost, const chat_value *text, chat_value *out)
{
    chat_value v;
    chat_args a;

    if (n == innermost) {
        *out = *text;
        return INFQ_E_OK;
    }
    INFQ_TRY(enter(r, n));
    INFQ_TRY(filtered(r, n->a, innermost, text, &v));
    INFQ_TRY(eval_args(r, n->args, &a));
    INFQ_TRY(infq_chat_filter_apply(r, n->row, &v, &a, out));
    r->depth--;
    return INFQ_E_OK;
}

static infq_status set_block(chat_run *r, const chat_node *n)
{
    chat_scope *outer = r->scope, *own;
    chat_value text, v;
    infq_status st;

    INFQ_TRY(push_scope(r, outer, &own));
    r->scope = own;
    st = captured(r, n->body, &text);
    r->scope = outer;
    if (!st)
        st = filtered(r, n->b, n->c, &text, &v);
    return st ? st : set(r, n, &v);
}

// The items of a loop: those that pass its condition.
static infq_status loop_items(chat_run *r, const chat_node *n, chat_list **out)
{
    chat_value v, kept, yes;
    chat_list *all;
    chat_scope *outer = r->scope, *own;

    INFQ_TRY(infq_chat_eval(r, n->b, &v));
    r->line = n->line;
    INFQ_TRY(infq_chat_items_of(r, &v, &all));
    *out = all;
    if (!n->c)
        return INFQ_E_OK;
    INFQ_TRY(infq_chat_list_new(r, &kept));
    for (int64_t i = 0; i < all->n; i++) {
        INFQ_TRY(push_scope(r, outer, &own));
        r->scope = own;
        INFQ_TRY(unpack(r, n->a, &all->v[i]));
        r->in_loop_filter = true;
        INFQ_TRY(infq_chat_eval(r, n->c, &yes));
        r->in_loop_filter = false;
        r->scope = outer;
        if (infq_chat_true(&yes))
            INFQ_TRY(infq_chat_list_add(r, kept.u.list, all->v[i]));
    }
    *out = kept.u.list;
    return INFQ_E_OK;
}

static infq_status loop(chat_run *r, const chat_node *n, chat_flow *flow)
{
    chat_scope *outer = r->scope, *own;
    chat_loop *l;
    chat_list *items;
    void *p;

    INFQ_TRY(loop_items(r, n, &items));
    INFQ_TRY(infq_arena_calloc(r->arena, 1, sizeof(chat_loop), "loop", &p, r->err));
    l = p;
    l->items = items;
    for (l->at = 0; l->at < items->n && *flow != CHAT_FLOW_BREAK; l->at++) {
        INFQ_TRY(push_scope(r, outer, &own));
        r->scope = own;
        INFQ_TRY(assign(r, "loop", (chat_value){ .type = CHAT_LOOP, .u.loop = l }));
        INFQ_TRY(unpack(r, n->a, &items->v[l->at]));
        *flow = CHAT_FLOW_ON;
        INFQ_TRY(infq_chat_exec(r, n->body, flow));
        r->scope = outer;
    }
    *flow = CHAT_FLOW_ON;
    return items->n == 0 ? infq_chat_exec(r, n->other, flow) : INFQ_E_OK;
}

static infq_status define(chat_run *r, const chat_node *n)
{
    void *p;
    chat_macro *m;

    INFQ_TRY(infq_arena_alloc(r->arena, 1, sizeof(chat_macro), "macro", &p, r->err));
    m = p;
    *m = (chat_macro){ n, r->scope };
    return assign(r, n->name, (chat_value){ .type = CHAT_MACRO, .u.macro = m });
}

static infq_status statement(chat_run *r, const chat_node *n, chat_flow *flow)
{
    chat_value v;

    switch (n->kind) {
    case CHAT_N_TEXT:
        infq_buf_add(r->out, n->value.u.str.s, n->value.u.str.n);
        return INFQ_E_OK;
    case CHAT_N_PRINT:
        INFQ_TRY(infq_chat_eval(r, n->a, &v));
        return infq_chat_str(r, &v, r->out);
    case CHAT_N_IF:
        INFQ_TRY(infq_chat_eval(r, n->a, &v));
        return infq_chat_exec(r, infq_chat_true(&v) ? n->body : n->other, flow);
    case CHAT_N_FOR:
        return loop(r, n, flow);
    case CHAT_N_SET:
        INFQ_TRY(infq_chat_eval(r, n->b, &v));
        r->line = n->line;
        return set(r, n, &v);
    case CHAT_N_SET_BLOCK:
        return set_block(r, n);
    case CHAT_N_MACRO:
        return define(r, n);
    case CHAT_N_BREAK:
        *flow = CHAT_FLOW_BREAK;
        return INFQ_E_OK;
    case CHAT_N_CONTINUE:
        *flow = CHAT_FLOW_CONTINUE;
        return INFQ_E_OK;
    default:
        INFQ_BUG_ON(true);
    }
}

infq_status infq_chat_exec(chat_run *r, const chat_node *chain, chat_flow *flow)
{
    for (const chat_node *n = chain; n && *flow == CHAT_FLOW_ON; n = n->next) {
        INFQ_TRY(enter(r, n));
        INFQ_TRY(statement(r, n, flow));
        r->depth--;
    }
    return INFQ_E_OK;
}
