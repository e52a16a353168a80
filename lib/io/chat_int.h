/* Inside the chat template interpreter: values, syntax tree, the state of a run. Everything a run makes lies in its arena. */
#ifndef INFQ_IO_CHAT_INT_H
#define INFQ_IO_CHAT_INT_H

#include "lib/base/arena.h"
#include "lib/io/chat.h"

typedef enum {
    CHAT_UNDEFINED,
    CHAT_NONE,
    CHAT_BOOL,
    CHAT_INT,
    CHAT_FLOAT,
    CHAT_STR,
    CHAT_LIST,      /* also tuples, told apart where Python does */
    CHAT_DICT,
    CHAT_NAMESPACE, /* dict that may be changed by `set ns.x` */
    CHAT_MACRO,
    CHAT_FUNCTION,  /* range, namespace, ... */
    CHAT_METHOD,    /* of a string, list or dict; waits for its call */
    CHAT_LOOP       /* the variable `loop` */
} chat_type;

typedef struct chat_value chat_value;
typedef struct chat_node chat_node;
typedef struct chat_scope chat_scope;

typedef struct {
    chat_value *v;
    int64_t n, cap;
    int depth;           /* of nesting, at most CHAT_MAX_DEPTH */
    bool tuple;
} chat_list;

typedef struct {
    chat_value *keys, *values; /* in order of insertion */
    int64_t n, cap;
    int depth;
} chat_dict;

typedef struct {
    chat_list *items;
    int64_t at;
    int depth;
} chat_loop;

typedef struct chat_macro chat_macro;

struct chat_value {
    chat_type type;
    union {
        bool b;
        int64_t i;
        double f;
        struct {
            const char *s;   /* not terminated; valid UTF-8 */
            size_t n;
        } str;
        chat_list *list;
        chat_dict *dict;
        chat_loop *loop;
        chat_macro *macro;
        int function;        /* row of the table in chat_call.c */
        struct {
            const chat_value *self;
            const char *name;
        } method;
        const char *missing; /* UNDEFINED: the name that was looked for, NULL if none */
    } u;
};

/* Syntax. Children by role; lists are chains through next. */
typedef enum {
    /* statements */
    CHAT_N_TEXT, CHAT_N_PRINT, CHAT_N_IF, CHAT_N_FOR, CHAT_N_SET, CHAT_N_SET_BLOCK, CHAT_N_MACRO, CHAT_N_BREAK, CHAT_N_CONTINUE,
    /* expressions */
    CHAT_N_CONST, CHAT_N_NAME, CHAT_N_LIST, CHAT_N_TUPLE, CHAT_N_DICT, CHAT_N_COND, CHAT_N_AND, CHAT_N_OR, CHAT_N_NOT,
    CHAT_N_COMPARE, CHAT_N_BINARY, CHAT_N_CONCAT, CHAT_N_NEG, CHAT_N_POS, CHAT_N_ATTR, CHAT_N_ITEM, CHAT_N_SLICE, CHAT_N_CALL,
    CHAT_N_FILTER, CHAT_N_TEST,
    CHAT_N_ARG,      /* of calls: a = value, name set for keywords */
    CHAT_N_PAIR      /* of dicts: a = key, b = value */
} chat_node_kind;

typedef enum { CHAT_OP_EQ, CHAT_OP_NE, CHAT_OP_LT, CHAT_OP_LE, CHAT_OP_GT, CHAT_OP_GE, CHAT_OP_IN, CHAT_OP_NOT_IN,
               CHAT_OP_ADD, CHAT_OP_SUB, CHAT_OP_MUL, CHAT_OP_DIV, CHAT_OP_FLOORDIV, CHAT_OP_MOD, CHAT_OP_POW } chat_op;

struct chat_node {
    chat_node_kind kind;
    int line;
    chat_op op;
    bool negated;        /* TEST: is not */
    bool literal;        /* ITEM made of a dot: attribute first */
    chat_value value;    /* CONST, TEXT */
    const char *name;    /* NAME, ATTR, FILTER, TEST, MACRO, ARG */
    const void *row;     /* FILTER, TEST: row of the table */
    chat_node *a, *b, *c;
    chat_node *args;     /* chain: of ARG (CALL, FILTER, TEST), of members (LIST, DICT, CONCAT), of operands with op (COMPARE) */
    chat_node *body, *other;  /* statements: chains */
    chat_node *next;
};

struct infq_chat {
    infq_arena *arena;
    chat_node *body;
    char *bos, *eos;     /* in the arena, NULL if the folder has none */
    char digest[65];
};

struct chat_scope {
    chat_scope *parent;
    chat_dict vars;
};

struct chat_macro {
    const chat_node *node;
    chat_scope *scope;   /* where it was defined */
};

/* Bounds of a run. */
#define CHAT_MAX_DEPTH 200             /* of syntax and of values */
#define CHAT_MAX_CALLS 1000            /* of evaluation: syntax and macros inside each other */
#define CHAT_MAX_STEPS 20000000
#define CHAT_MAX_BYTES ((size_t)1 << 26)
#define CHAT_MAX_RANGE 100000          /* as Jinja's sandbox */

typedef struct {
    const infq_chat *chat;
    infq_arena *arena;
    chat_scope *scope;
    infq_buf *out;       /* what is printed now: the result, or the text of a macro or block */
    const char *date;
    int depth, loop_depth;
    int64_t steps;
    bool in_loop_filter;
    bool strict;         /* what is not there fails where it is read (prompt.h) */
    const chat_node *may_lack; /* ... but for this operand of default, defined, undefined */
    int line;            /* of the statement or expression at work, for messages */
    infq_err *err;
} chat_run;

typedef enum { CHAT_FLOW_ON, CHAT_FLOW_BREAK, CHAT_FLOW_CONTINUE } chat_flow;

/* Arguments of a call, filter or test, evaluated. */
#define CHAT_MAX_ARGS 16
typedef struct {
    int n, n_named;
    chat_value v[CHAT_MAX_ARGS];
    const char *names[CHAT_MAX_ARGS];
    chat_value named[CHAT_MAX_ARGS];
} chat_args;

/* Message "line N: ..." with the line at work; returns the code. */
infq_status infq_chat_step(chat_run *r); /* counts; UNSUPPORTED past the bounds */
infq_status infq_chat_fail(chat_run *r, infq_status code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* chat_value.c */
chat_value infq_chat_none(void);
chat_value infq_chat_undefined(const char *name);
chat_value infq_chat_bool(bool b);
chat_value infq_chat_int(int64_t i);
chat_value infq_chat_float(double f);
chat_value infq_chat_strn(const char *s, size_t n);
const char *infq_chat_type_name(const chat_value *v); /* "list", as messages name it */
bool infq_chat_true(const chat_value *v);
infq_status infq_chat_text(chat_run *r, const char *s, size_t n, chat_value *out); /* copy in the arena */
infq_status infq_chat_list_new(chat_run *r, chat_value *out);
infq_status infq_chat_list_add(chat_run *r, chat_list *l, chat_value v);
infq_status infq_chat_dict_new(chat_run *r, chat_value *out);
infq_status infq_chat_dict_put(chat_run *r, chat_dict *d, chat_value key, chat_value v);
const chat_value *infq_chat_dict_get(const chat_dict *d, const chat_value *key); /* NULL if absent */
const chat_value *infq_chat_dict_find(const chat_dict *d, const char *key);
infq_status infq_chat_equal(chat_run *r, const chat_value *a, const chat_value *b, bool *out);
/* -1, 0, 1; FORMAT for types that Python does not order. */
infq_status infq_chat_compare(chat_run *r, const chat_value *a, const chat_value *b, int *out);
infq_status infq_chat_contains(chat_run *r, const chat_value *in, const chat_value *what, bool *out);
/* str() and repr(). */
infq_status infq_chat_str(chat_run *r, const chat_value *v, infq_buf *to);
infq_status infq_chat_repr(chat_run *r, const chat_value *v, infq_buf *to);
/* The same as a string value. */
infq_status infq_chat_str_value(chat_run *r, const chat_value *v, chat_value *out);
/* A finished buffer as a string value; deinitialises it. */
infq_status infq_chat_take(chat_run *r, infq_buf *b, chat_value *out);
/* What a for loop or a filter goes through: items of lists, keys of dicts, characters of strings, nothing of undefined. */
infq_status infq_chat_items_of(chat_run *r, const chat_value *v, chat_list **out);
int64_t infq_chat_str_len(const chat_value *v); /* code points */

/* chat_json.c */
infq_status infq_chat_from_json(chat_run *r, const char *text, size_t n, chat_value *out);
typedef struct {
    int64_t indent;      /* -1: one line */
    bool ascii, sort_keys;
    const char *item_sep, *key_sep;
} chat_json_style;
infq_status infq_chat_to_json(chat_run *r, const chat_value *v, const chat_json_style *s, int64_t level, infq_buf *to);

/* chat_parse.c */
infq_status infq_chat_parse_template(infq_arena *a, const char *text, size_t n, chat_node **out, infq_err *err);

/* chat_eval.c */
infq_status infq_chat_eval(chat_run *r, const chat_node *n, chat_value *out);
infq_status infq_chat_exec(chat_run *r, const chat_node *chain, chat_flow *flow);
infq_status infq_chat_add(chat_run *r, const chat_value *a, const chat_value *b, chat_value *out);
/* v.name and v[key] as templates see them; what is not there is UNDEFINED. */
infq_status infq_chat_attribute(chat_run *r, const chat_value *v, const char *name, chat_value *out);
infq_status infq_chat_subscript(chat_run *r, const chat_value *v, const chat_value *key, chat_value *out);

/* chat_call.c: functions and methods by name. */
int infq_chat_function_find(const char *name);   /* -1 */
infq_status infq_chat_function_call(chat_run *r, int row, const chat_args *a, chat_value *out);
bool infq_chat_method_exists(const chat_value *self, const char *name); /* in Python */
infq_status infq_chat_method_call(chat_run *r, const chat_value *self, const char *name, const chat_args *a, chat_value *out);
/* Argument i, or the one named so; *out untouched if absent. */
void infq_chat_arg(const chat_args *a, int i, const char *name, chat_value *out);
/* FORMAT unless lo <= n <= hi positional and all keywords are among `names` (blank separated). */
infq_status infq_chat_args_check(chat_run *r, const char *what, const chat_args *a, int lo, int hi, const char *names);
/* Python's split, strip, replace, shared by filters and methods. */
void infq_chat_strip(const char **s, size_t *n, const chat_value *chars, bool left, bool right);
infq_status infq_chat_replace(chat_run *r, const chat_value *s, const chat_value *from, const chat_value *to, int64_t count,
                             chat_value *out);
/* how: "upper", "lower", "capitalize" */
infq_status infq_chat_case(chat_run *r, const char *how, const chat_value *s, chat_value *out);

/* chat_filter.c */
const void *infq_chat_filter_find(const char *name);  /* NULL: we lack it */
const void *infq_chat_test_find(const char *name);
infq_status infq_chat_filter_apply(chat_run *r, const void *row, const chat_value *v, const chat_args *a, chat_value *out);
infq_status infq_chat_test_apply(chat_run *r, const void *row, const chat_value *v, const chat_args *a, bool *out);

#endif
