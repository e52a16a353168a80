/* Parser of chat templates: Jinja's grammar for the statements and expressions of the part that we read. */
#include <stdio.h>
#include <string.h>

#include "lib/io/chat_int.h"
#include "lib/io/chat_lex.h"

typedef struct {
    infq_arena *arena;
    const chat_token *t;
    int64_t at;
    int depth, loops;
    infq_err *err;
} parser;

static infq_status parse_expr(parser *p, chat_node **out);
static infq_status parse_or(parser *p, chat_node **out);
static infq_status parse_unary(parser *p, bool with_filter, chat_node **out);
static infq_status parse_tuple(parser *p, bool with_cond, bool stop_at_if, chat_node **out);
static infq_status parse_body(parser *p, const char *ends, chat_node **out);

static infq_status fail(const parser *p, infq_status code, const char *what)
{
    return infq_err_set(p->err, code, "line %d: %s", p->t[p->at].line, what);
}

static infq_status fail_at(const parser *p, const chat_token *t, infq_status code, const char *what)
{
    return infq_err_set(p->err, code, "line %d: %s %.*s", t->line, what, t->n > 60 ? 60 : (int)t->n, t->s ? t->s : "");
}

static infq_status node(parser *p, chat_node_kind kind, chat_node **out)
{
    void *n;

    INFQ_TRY(infq_arena_calloc(p->arena, 1, sizeof(chat_node), "template", &n, p->err));
    *out = n;
    (*out)->kind = kind;
    (*out)->line = p->t[p->at].line;
    return INFQ_E_OK;
}

static bool is_op(const parser *p, const char *op)
{
    const chat_token *t = &p->t[p->at];

    return t->kind == CHAT_T_OP && t->n == strlen(op) && memcmp(t->s, op, t->n) == 0;
}

static bool is_name(const parser *p, const char *name)
{
    const chat_token *t = &p->t[p->at];

    return t->kind == CHAT_T_NAME && t->n == strlen(name) && memcmp(t->s, name, t->n) == 0;
}

static bool skip_op(parser *p, const char *op)
{
    bool hit = is_op(p, op);

    p->at += hit;
    return hit;
}

static bool skip_name(parser *p, const char *name)
{
    bool hit = is_name(p, name);

    p->at += hit;
    return hit;
}

static infq_status expect_op(parser *p, const char *op)
{
    char what[40];

    if (skip_op(p, op))
        return INFQ_E_OK;
    snprintf(what, sizeof(what), "'%s' is missing in front of", op);
    return fail_at(p, &p->t[p->at], INFQ_E_FORMAT, what);
}

static infq_status name_of(parser *p, const char **out)
{
    const chat_token *t = &p->t[p->at];
    void *s;

    if (t->kind != CHAT_T_NAME)
        return fail_at(p, t, INFQ_E_FORMAT, "a name is missing in front of");
    INFQ_TRY(infq_arena_calloc(p->arena, t->n + 1, 1, "name", &s, p->err));
    memcpy(s, t->s, t->n);
    *out = s;
    p->at++;
    return INFQ_E_OK;
}

// One more level of nesting; leave takes it back.
static infq_status enter(parser *p)
{
    if (++p->depth > CHAT_MAX_DEPTH)
        return infq_err_set(p->err, INFQ_E_UNSUPPORTED, "line %d: nested deeper than %d", p->t[p->at].line, CHAT_MAX_DEPTH);
    return INFQ_E_OK;
}

static infq_status binary(parser *p, chat_op op, chat_node *a, chat_node *b, chat_node **out)
{
    chat_node *n;

    INFQ_TRY(node(p, CHAT_N_BINARY, &n));
    n->op = op;
    n->a = a;
    n->b = b;
    n->line = a->line;
    *out = n;
    return INFQ_E_OK;
}

// (a, b=c, ...) behind the opening bracket.
static infq_status parse_args(parser *p, chat_node **out)
{
    chat_node **end = out;
    bool named = false;

    *out = NULL;
    while (!is_op(p, ")")) {
        chat_node *n;
        if (*out) {
            INFQ_TRY(expect_op(p, ","));
            if (is_op(p, ")"))
                break;
        }
        if (is_op(p, "*") || is_op(p, "**"))
            return fail(p, INFQ_E_UNSUPPORTED, "arguments from a list (*)");
        INFQ_TRY(node(p, CHAT_N_ARG, &n));
        if (p->t[p->at].kind == CHAT_T_NAME && p->t[p->at + 1].kind == CHAT_T_OP && p->t[p->at + 1].n == 1 &&
            p->t[p->at + 1].s[0] == '=') {
            INFQ_TRY(name_of(p, &n->name));
            p->at++;
            named = true;
        } else if (named) {
            return fail(p, INFQ_E_FORMAT, "an argument without a name behind one with a name");
        }
        INFQ_TRY(parse_expr(p, &n->a));
        *end = n;
        end = &n->next;
    }
    return expect_op(p, ")");
}

static infq_status parse_list(parser *p, chat_node **out)
{
    chat_node *n, **end;

    INFQ_TRY(node(p, CHAT_N_LIST, &n));
    p->at++;
    for (end = &n->args; !is_op(p, "]"); end = &(*end)->next) {
        if (n->args) {
            INFQ_TRY(expect_op(p, ","));
            if (is_op(p, "]"))
                break;
        }
        INFQ_TRY(parse_expr(p, end));
    }
    *out = n;
    return expect_op(p, "]");
}

static infq_status parse_dict(parser *p, chat_node **out)
{
    chat_node *n, **end;

    INFQ_TRY(node(p, CHAT_N_DICT, &n));
    p->at++;
    for (end = &n->args; !is_op(p, "}"); end = &(*end)->next) {
        chat_node *pair;
        if (n->args) {
            INFQ_TRY(expect_op(p, ","));
            if (is_op(p, "}"))
                break;
        }
        INFQ_TRY(node(p, CHAT_N_PAIR, &pair));
        INFQ_TRY(parse_expr(p, &pair->a));
        INFQ_TRY(expect_op(p, ":"));
        INFQ_TRY(parse_expr(p, &pair->b));
        *end = pair;
    }
    *out = n;
    return expect_op(p, "}");
}

// Adjacent string literals are one.
static infq_status parse_strings(parser *p, chat_node *n)
{
    size_t total = 0, at = 0;
    int64_t end = p->at;
    void *s;

    for (; p->t[end].kind == CHAT_T_STR; end++)
        total += p->t[end].n;
    INFQ_TRY(infq_arena_alloc(p->arena, total + 1, 1, "string", &s, p->err));
    for (; p->at < end; p->at++) {
        memcpy((char *)s + at, p->t[p->at].s, p->t[p->at].n);
        at += p->t[p->at].n;
    }
    n->value = infq_chat_strn(s, total);
    return INFQ_E_OK;
}

static infq_status parse_word(parser *p, chat_node *n)
{
    static const char *const reserved[] = { "self", "super", "caller", "varargs", "kwargs" };

    if (is_name(p, "true") || is_name(p, "True") || is_name(p, "false") || is_name(p, "False")) {
        n->value = infq_chat_bool(p->t[p->at].s[0] == 't' || p->t[p->at].s[0] == 'T');
    } else if (is_name(p, "none") || is_name(p, "None")) {
        n->value = infq_chat_none();
    } else {
        for (size_t i = 0; i < sizeof(reserved) / sizeof(reserved[0]); i++)
            if (is_name(p, reserved[i]))
                return fail_at(p, &p->t[p->at], INFQ_E_UNSUPPORTED, "the variable");
        n->kind = CHAT_N_NAME;
        return name_of(p, &n->name);
    }
    p->at++;
    return INFQ_E_OK;
}

static infq_status parse_primary(parser *p, chat_node **out)
{
    const chat_token *t = &p->t[p->at];
    chat_node *n;

    if (is_op(p, "(")) {
        p->at++;
        INFQ_TRY(parse_tuple(p, true, false, out));
        return expect_op(p, ")");
    }
    if (is_op(p, "["))
        return parse_list(p, out);
    if (is_op(p, "{"))
        return parse_dict(p, out);
    INFQ_TRY(node(p, CHAT_N_CONST, &n));
    *out = n;
    switch (t->kind) {
    case CHAT_T_NAME:
        return parse_word(p, n);
    case CHAT_T_STR:
        return parse_strings(p, n);
    case CHAT_T_INT:
        n->value = infq_chat_int(t->i);
        break;
    case CHAT_T_FLOAT:
        n->value = infq_chat_float(t->f);
        break;
    case CHAT_T_OP:
        return fail_at(p, t, INFQ_E_FORMAT, "an expression is missing in front of");
    default:
        return fail(p, INFQ_E_FORMAT, "an expression is missing");
    }
    p->at++;
    return INFQ_E_OK;
}

// Behind "[": an index or a slice.
static infq_status parse_subscript(parser *p, chat_node *of, chat_node **out)
{
    chat_node *n, **part[3];
    int i = 0;

    INFQ_TRY(node(p, CHAT_N_ITEM, &n));
    n->a = of;
    part[0] = &n->b;
    part[1] = &n->c;
    part[2] = &n->body;
    while (!is_op(p, "]")) {
        if (skip_op(p, ":")) {
            n->kind = CHAT_N_SLICE;
            if (++i > 2)
                return fail(p, INFQ_E_FORMAT, "a slice of more than three parts");
        } else if (is_op(p, ",")) {
            return fail(p, INFQ_E_UNSUPPORTED, "several subscripts");
        } else if (*part[i]) {
            return fail(p, INFQ_E_FORMAT, "']' is missing");
        } else {
            INFQ_TRY(parse_expr(p, part[i]));
        }
    }
    if (n->kind == CHAT_N_ITEM && !n->b)
        return fail(p, INFQ_E_FORMAT, "an empty subscript");
    *out = n;
    return expect_op(p, "]");
}

static infq_status parse_call(parser *p, chat_node *of, chat_node **out)
{
    chat_node *n;

    INFQ_TRY(node(p, CHAT_N_CALL, &n));
    n->a = of;
    p->at++;
    *out = n;
    return parse_args(p, &n->args);
}

static infq_status parse_postfix(parser *p, chat_node **io)
{
    for (;;) {
        if (skip_op(p, ".")) {
            chat_node *n;
            INFQ_TRY(node(p, CHAT_N_ATTR, &n));
            n->a = *io;
            if (p->t[p->at].kind == CHAT_T_INT) {
                n->kind = CHAT_N_ITEM;
                INFQ_TRY(parse_primary(p, &n->b));
            } else {
                INFQ_TRY(name_of(p, &n->name));
            }
            *io = n;
        } else if (skip_op(p, "[")) {
            INFQ_TRY(parse_subscript(p, *io, io));
        } else if (is_op(p, "(")) {
            INFQ_TRY(parse_call(p, *io, io));
        } else {
            return INFQ_E_OK;
        }
    }
}

static infq_status parse_filter(parser *p, chat_node **io)
{
    const chat_token *t = &p->t[p->at];
    chat_node *n;

    INFQ_TRY(node(p, CHAT_N_FILTER, &n));
    INFQ_TRY(name_of(p, &n->name));
    n->a = *io;
    n->row = infq_chat_filter_find(n->name);
    if (!n->row)
        return fail_at(p, t, INFQ_E_UNSUPPORTED, "the filter");
    *io = n;
    if (skip_op(p, "("))
        return parse_args(p, &n->args);
    return INFQ_E_OK;
}

// An argument without brackets may follow: "divisibleby 3".
static bool starts_argument(const parser *p)
{
    const chat_token *t = &p->t[p->at];

    if (t->kind == CHAT_T_NAME)
        return !is_name(p, "else") && !is_name(p, "or") && !is_name(p, "and");
    return t->kind == CHAT_T_STR || t->kind == CHAT_T_INT || t->kind == CHAT_T_FLOAT || is_op(p, "[") || is_op(p, "{");
}

static infq_status parse_test(parser *p, chat_node **io)
{
    const chat_token *t;
    chat_node *n, *whole;

    INFQ_TRY(node(p, CHAT_N_TEST, &n));
    n->negated = skip_name(p, "not");
    t = &p->t[p->at];
    INFQ_TRY(name_of(p, &n->name));
    n->a = *io;
    n->row = infq_chat_test_find(n->name);
    if (!n->row)
        return fail_at(p, t, INFQ_E_UNSUPPORTED, "the test");
    whole = n;
    if (skip_op(p, "(")) {
        INFQ_TRY(parse_args(p, &n->args));
    } else if (starts_argument(p)) {
        if (is_name(p, "is"))
            return fail(p, INFQ_E_FORMAT, "tests cannot be chained with 'is'");
        INFQ_TRY(node(p, CHAT_N_ARG, &n->args));
        INFQ_TRY(parse_primary(p, &n->args->a));
        INFQ_TRY(parse_postfix(p, &n->args->a));
    }
    *io = whole;
    return INFQ_E_OK;
}

static infq_status parse_filters(parser *p, chat_node **io)
{
    for (;;) {
        if (skip_op(p, "|"))
            INFQ_TRY(parse_filter(p, io));
        else if (skip_name(p, "is"))
            INFQ_TRY(parse_test(p, io));
        else if (is_op(p, "("))
            INFQ_TRY(parse_call(p, *io, io));
        else
            return INFQ_E_OK;
    }
}

static infq_status parse_unary(parser *p, bool with_filter, chat_node **out)
{
    chat_node *n;

    INFQ_TRY(enter(p));
    if (is_op(p, "-") || is_op(p, "+")) {
        INFQ_TRY(node(p, is_op(p, "-") ? CHAT_N_NEG : CHAT_N_POS, &n));
        p->at++;
        INFQ_TRY(parse_unary(p, false, &n->a));
    } else {
        INFQ_TRY(parse_primary(p, &n));
    }
    INFQ_TRY(parse_postfix(p, &n));
    if (with_filter)
        INFQ_TRY(parse_filters(p, &n));
    p->depth--;
    *out = n;
    return INFQ_E_OK;
}

static infq_status parse_pow(parser *p, chat_node **out)
{
    chat_node *b;

    INFQ_TRY(parse_unary(p, true, out));
    while (skip_op(p, "**")) {
        INFQ_TRY(parse_unary(p, true, &b));
        INFQ_TRY(binary(p, CHAT_OP_POW, *out, b, out));
    }
    return INFQ_E_OK;
}

static infq_status parse_product(parser *p, chat_node **out)
{
    static const struct {
        const char *text;
        chat_op op;
    } ops[] = { { "*", CHAT_OP_MUL }, { "/", CHAT_OP_DIV }, { "//", CHAT_OP_FLOORDIV }, { "%", CHAT_OP_MOD } };
    chat_node *b;
    size_t i;

    INFQ_TRY(parse_pow(p, out));
    for (;;) {
        for (i = 0; i < 4 && !skip_op(p, ops[i].text); i++)
            ;
        if (i == 4)
            return INFQ_E_OK;
        INFQ_TRY(parse_pow(p, &b));
        INFQ_TRY(binary(p, ops[i].op, *out, b, out));
    }
}

static infq_status parse_concat(parser *p, chat_node **out)
{
    chat_node *n, **end;

    INFQ_TRY(parse_product(p, out));
    if (!is_op(p, "~"))
        return INFQ_E_OK;
    INFQ_TRY(node(p, CHAT_N_CONCAT, &n));
    n->args = *out;
    for (end = &n->args->next; skip_op(p, "~"); end = &(*end)->next)
        INFQ_TRY(parse_product(p, end));
    *out = n;
    return INFQ_E_OK;
}

static infq_status parse_sum(parser *p, chat_node **out)
{
    INFQ_TRY(parse_concat(p, out));
    for (;;) {
        chat_op op = is_op(p, "+") ? CHAT_OP_ADD : CHAT_OP_SUB;
        chat_node *b;
        if (!is_op(p, "+") && !is_op(p, "-"))
            return INFQ_E_OK;
        p->at++;
        INFQ_TRY(parse_concat(p, &b));
        INFQ_TRY(binary(p, op, *out, b, out));
    }
}

static bool comparison(parser *p, chat_op *op)
{
    static const struct {
        const char *text;
        chat_op op;
    } ops[] = { { "==", CHAT_OP_EQ }, { "!=", CHAT_OP_NE }, { "<=", CHAT_OP_LE }, { ">=", CHAT_OP_GE }, { "<", CHAT_OP_LT },
                { ">", CHAT_OP_GT } };

    for (size_t i = 0; i < sizeof(ops) / sizeof(ops[0]); i++) {
        *op = ops[i].op;
        if (skip_op(p, ops[i].text))
            return true;
    }
    *op = CHAT_OP_IN;
    if (skip_name(p, "in"))
        return true;
    *op = CHAT_OP_NOT_IN;
    if (is_name(p, "not") && p->t[p->at + 1].kind == CHAT_T_NAME && p->t[p->at + 1].n == 2 &&
        memcmp(p->t[p->at + 1].s, "in", 2) == 0) {
        p->at += 2;
        return true;
    }
    return false;
}

// a < b < c is a chain of operands, each with the operator in front of it.
static infq_status parse_compare(parser *p, chat_node **out)
{
    chat_node *n = NULL, **end = NULL;
    chat_op op;

    INFQ_TRY(parse_sum(p, out));
    while (comparison(p, &op)) {
        chat_node *operand;
        if (!n) {
            INFQ_TRY(node(p, CHAT_N_COMPARE, &n));
            n->a = *out;
            end = &n->args;
        }
        INFQ_TRY(node(p, CHAT_N_ARG, &operand));
        operand->op = op;
        INFQ_TRY(parse_sum(p, &operand->a));
        *end = operand;
        end = &operand->next;
    }
    if (n)
        *out = n;
    return INFQ_E_OK;
}

static infq_status parse_not(parser *p, chat_node **out)
{
    chat_node *n;

    if (!is_name(p, "not"))
        return parse_compare(p, out);
    INFQ_TRY(enter(p));
    INFQ_TRY(node(p, CHAT_N_NOT, &n));
    p->at++;
    INFQ_TRY(parse_not(p, &n->a));
    p->depth--;
    *out = n;
    return INFQ_E_OK;
}

static infq_status logical(parser *p, chat_node_kind kind, chat_node *a, chat_node *b, chat_node **out)
{
    chat_node *n;

    INFQ_TRY(node(p, kind, &n));
    n->a = a;
    n->b = b;
    *out = n;
    return INFQ_E_OK;
}

static infq_status parse_and(parser *p, chat_node **out)
{
    chat_node *b;

    INFQ_TRY(parse_not(p, out));
    while (skip_name(p, "and")) {
        INFQ_TRY(parse_not(p, &b));
        INFQ_TRY(logical(p, CHAT_N_AND, *out, b, out));
    }
    return INFQ_E_OK;
}

static infq_status parse_or(parser *p, chat_node **out)
{
    chat_node *b;

    INFQ_TRY(parse_and(p, out));
    while (skip_name(p, "or")) {
        INFQ_TRY(parse_and(p, &b));
        INFQ_TRY(logical(p, CHAT_N_OR, *out, b, out));
    }
    return INFQ_E_OK;
}

static infq_status parse_expr(parser *p, chat_node **out)
{
    chat_node *n;

    INFQ_TRY(enter(p));
    INFQ_TRY(parse_or(p, out));
    while (skip_name(p, "if")) {
        INFQ_TRY(node(p, CHAT_N_COND, &n));
        n->a = *out;
        INFQ_TRY(parse_or(p, &n->b));
        if (skip_name(p, "else"))
            INFQ_TRY(parse_expr(p, &n->c));
        *out = n;
    }
    p->depth--;
    return INFQ_E_OK;
}

static bool tuple_ends(const parser *p, bool stop_at_if)
{
    const chat_token *t = &p->t[p->at];

    return t->kind == CHAT_T_END_BLOCK || t->kind == CHAT_T_END_PRINT || is_op(p, ")") || is_op(p, "=") || is_name(p, "in") ||
           is_name(p, "recursive") || (stop_at_if && is_name(p, "if"));
}

// a, b, ...: one expression, or several as a tuple.
static infq_status parse_tuple(parser *p, bool with_cond, bool stop_at_if, chat_node **out)
{
    chat_node *n = NULL, *first, **end = NULL;
    bool comma = true;

    for (first = NULL; comma && !tuple_ends(p, stop_at_if); comma = skip_op(p, ",")) {
        chat_node *e;
        INFQ_TRY(with_cond ? parse_expr(p, &e) : parse_or(p, &e));
        if (!first) {
            first = e;
        } else if (!n) {
            INFQ_TRY(node(p, CHAT_N_TUPLE, &n));
            n->args = first;
            first->next = e;
            end = &e->next;
        } else {
            *end = e;
            end = &e->next;
        }
    }
    if (!n && (!first || comma)) { // () and (a,)
        INFQ_TRY(node(p, CHAT_N_TUPLE, &n));
        n->args = first;
    }
    *out = n ? n : first;
    return INFQ_E_OK;
}

static infq_status end_block(parser *p)
{
    const chat_token *t = &p->t[p->at];

    if (t->kind != CHAT_T_END_BLOCK)
        return fail_at(p, t, INFQ_E_FORMAT, "'%}' is missing in front of");
    p->at++;
    return INFQ_E_OK;
}

// The next token is a name of the list ("elif else endif", blank separated).
static bool in_list(const parser *p, const char *list)
{
    const chat_token *t = &p->t[p->at];
    const char *hit = list;

    while (t->kind == CHAT_T_NAME && (hit = memmem(hit, strlen(hit), t->s, t->n)) != NULL) {
        if ((hit == list || hit[-1] == ' ') && (hit[t->n] == ' ' || hit[t->n] == '\0'))
            return true;
        hit++;
    }
    return false;
}

static infq_status parse_if(parser *p, chat_node **out)
{
    chat_node *n;

    INFQ_TRY(enter(p));
    INFQ_TRY(node(p, CHAT_N_IF, &n));
    p->at++; // if or elif
    INFQ_TRY(parse_tuple(p, false, false, &n->a));
    INFQ_TRY(end_block(p));
    INFQ_TRY(parse_body(p, "elif else endif", &n->body));
    if (is_name(p, "elif")) {
        INFQ_TRY(parse_if(p, &n->other));
    } else {
        if (skip_name(p, "else")) {
            INFQ_TRY(end_block(p));
            INFQ_TRY(parse_body(p, "endif", &n->other));
        }
        p->at++;
        INFQ_TRY(end_block(p));
    }
    p->depth--;
    *out = n;
    return INFQ_E_OK;
}

// Names that a loop or a set assigns to: NAME, or TUPLE of such.
static infq_status parse_target(parser *p, chat_node **out)
{
    chat_node *n = NULL, *first = NULL, **end = NULL;
    bool comma = true;

    for (; comma && !tuple_ends(p, false); comma = skip_op(p, ",")) {
        chat_node *e;
        if (is_op(p, "("))
            return fail(p, INFQ_E_UNSUPPORTED, "brackets in a target");
        if (is_name(p, "loop"))
            return fail(p, INFQ_E_FORMAT, "loop cannot be assigned to");
        INFQ_TRY(node(p, CHAT_N_NAME, &e));
        INFQ_TRY(name_of(p, &e->name));
        if (!first) {
            first = e;
        } else {
            if (!n) {
                INFQ_TRY(node(p, CHAT_N_TUPLE, &n));
                n->args = first;
                end = &first->next;
            }
            *end = e;
            end = &e->next;
        }
    }
    if (!first)
        return fail(p, INFQ_E_FORMAT, "a name is missing");
    *out = n ? n : first;
    return INFQ_E_OK;
}

static infq_status parse_for(parser *p, chat_node **out)
{
    chat_node *n;

    INFQ_TRY(node(p, CHAT_N_FOR, &n));
    p->at++;
    INFQ_TRY(parse_target(p, &n->a));
    if (!skip_name(p, "in"))
        return fail(p, INFQ_E_FORMAT, "'in' is missing");
    INFQ_TRY(parse_tuple(p, false, true, &n->b));
    if (skip_name(p, "if"))
        INFQ_TRY(parse_expr(p, &n->c));
    if (is_name(p, "recursive"))
        return fail(p, INFQ_E_UNSUPPORTED, "a recursive loop");
    INFQ_TRY(end_block(p));
    p->loops++;
    INFQ_TRY(parse_body(p, "else endfor", &n->body));
    p->loops--;
    if (skip_name(p, "else")) {
        INFQ_TRY(end_block(p));
        INFQ_TRY(parse_body(p, "endfor", &n->other));
    }
    p->at++;
    *out = n;
    return end_block(p);
}

static infq_status parse_set(parser *p, chat_node **out)
{
    chat_node *n;

    INFQ_TRY(node(p, CHAT_N_SET, &n));
    p->at++;
    if (p->t[p->at].kind == CHAT_T_NAME && p->t[p->at + 1].kind == CHAT_T_OP && p->t[p->at + 1].n == 1 &&
        p->t[p->at + 1].s[0] == '.') {
        INFQ_TRY(node(p, CHAT_N_ATTR, &n->a));
        INFQ_TRY(node(p, CHAT_N_NAME, &n->a->a));
        INFQ_TRY(name_of(p, &n->a->a->name));
        p->at++;
        INFQ_TRY(name_of(p, &n->a->name));
    } else {
        INFQ_TRY(parse_target(p, &n->a));
    }
    *out = n;
    if (skip_op(p, "=")) {
        INFQ_TRY(parse_tuple(p, true, false, &n->b));
        return end_block(p);
    }
    n->kind = CHAT_N_SET_BLOCK;
    if (n->a->kind == CHAT_N_TUPLE)
        return fail(p, INFQ_E_FORMAT, "'=' is missing");
    INFQ_TRY(node(p, CHAT_N_CONST, &n->b)); // the block's text takes this place, the filters lie around it
    n->c = n->b;
    while (skip_op(p, "|"))
        INFQ_TRY(parse_filter(p, &n->b));
    INFQ_TRY(end_block(p));
    INFQ_TRY(parse_body(p, "endset", &n->body));
    p->at++;
    return end_block(p);
}

static infq_status parse_macro(parser *p, chat_node **out)
{
    chat_node *n, **end;
    int loops = p->loops;

    INFQ_TRY(node(p, CHAT_N_MACRO, &n));
    p->at++;
    INFQ_TRY(name_of(p, &n->name));
    INFQ_TRY(expect_op(p, "("));
    for (end = &n->args; !is_op(p, ")"); end = &(*end)->next) {
        if (n->args)
            INFQ_TRY(expect_op(p, ","));
        INFQ_TRY(node(p, CHAT_N_ARG, end));
        INFQ_TRY(name_of(p, &(*end)->name));
        if (skip_op(p, "="))
            INFQ_TRY(parse_expr(p, &(*end)->a));
        else if (n->b)
            return fail(p, INFQ_E_FORMAT, "a parameter without a default behind one with a default");
        if ((*end)->a)
            n->b = *end; // marks that a default has been seen
    }
    p->at++;
    INFQ_TRY(end_block(p));
    p->loops = 0;
    INFQ_TRY(parse_body(p, "endmacro", &n->body));
    p->loops = loops;
    p->at++;
    skip_name(p, n->name); // {% endmacro name %}
    *out = n;
    return end_block(p);
}

static infq_status parse_jump(parser *p, chat_node **out)
{
    if (p->loops == 0)
        return fail_at(p, &p->t[p->at], INFQ_E_FORMAT, "outside a loop:");
    INFQ_TRY(node(p, is_name(p, "break") ? CHAT_N_BREAK : CHAT_N_CONTINUE, out));
    p->at++;
    return end_block(p);
}

// {% generation %} marks what a model wrote; it prints what is inside.
static infq_status parse_generation(parser *p, chat_node **out)
{
    p->at++;
    INFQ_TRY(end_block(p));
    INFQ_TRY(parse_body(p, "endgeneration", out));
    p->at++;
    return end_block(p);
}

static const struct {
    const char *name;
    infq_status (*parse)(parser *p, chat_node **out);
} statements[] = {
    { "if", parse_if },       { "for", parse_for },       { "set", parse_set },
    { "macro", parse_macro }, { "break", parse_jump },    { "continue", parse_jump },
    { "generation", parse_generation },
};

static infq_status parse_statement(parser *p, chat_node **out)
{
    static const char jinja[] = "call filter with autoescape include import from extends block do debug trans pluralize";
    const chat_token *t = &p->t[p->at];

    for (size_t i = 0; i < sizeof(statements) / sizeof(statements[0]); i++)
        if (is_name(p, statements[i].name))
            return statements[i].parse(p, out);
    return fail_at(p, t, in_list(p, jinja) ? INFQ_E_UNSUPPORTED : INFQ_E_FORMAT, "the tag");
}

// {{ x | safe }} changes nothing, since nothing is escaped; elsewhere it would.
static infq_status parse_print(parser *p, chat_node **out)
{
    chat_node *n;

    INFQ_TRY(node(p, CHAT_N_PRINT, &n));
    p->at++;
    INFQ_TRY(parse_tuple(p, true, false, &n->a));
    if (n->a->kind == CHAT_N_FILTER && strcmp(n->a->name, "safe") == 0)
        n->a = n->a->a;
    if (p->t[p->at].kind != CHAT_T_END_PRINT)
        return fail_at(p, &p->t[p->at], INFQ_E_FORMAT, "'}}' is missing in front of");
    p->at++;
    *out = n;
    return INFQ_E_OK;
}

/* Statements up to a tag of `ends`, whose name is then the next token; NULL: up to the end of the template. */
static infq_status parse_body(parser *p, const char *ends, chat_node **out)
{
    chat_node **end = out;

    *out = NULL;
    INFQ_TRY(enter(p));
    for (;;) {
        const chat_token *t = &p->t[p->at];
        if (t->kind == CHAT_T_EOF) {
            if (ends)
                return infq_err_set(p->err, INFQ_E_FORMAT, "line %d: the template ends, %s is missing", t->line, ends);
            break;
        }
        if (t->kind == CHAT_T_TEXT) {
            INFQ_TRY(node(p, CHAT_N_TEXT, end));
            (*end)->value = infq_chat_strn(t->s, t->n);
            p->at++;
        } else if (t->kind == CHAT_T_PRINT) {
            INFQ_TRY(parse_print(p, end));
        } else {
            p->at++;
            if (ends && in_list(p, ends))
                break;
            INFQ_TRY(parse_statement(p, end));
        }
        while (*end)
            end = &(*end)->next;
    }
    p->depth--;
    return INFQ_E_OK;
}

infq_status infq_chat_parse_template(infq_arena *a, const char *text, size_t n, chat_node **out, infq_err *err)
{
    parser p = { .arena = a, .err = err };
    chat_token *t;
    int64_t n_tokens;

    INFQ_TRY(infq_chat_lex(a, text, n, &t, &n_tokens, err));
    p.t = t;
    return parse_body(&p, NULL, out);
}
