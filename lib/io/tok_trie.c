#include <string.h>

#include "lib/io/tok_int.h"

void infq_tok_trie_init(infq_tok_trie *t)
{
    memset(t, 0, sizeof(*t));
    for (size_t i = 0; i < 256; i++)
        t->root[i] = -1;
}

void infq_tok_trie_deinit(infq_tok_trie *t)
{
    infq_mem_free(t->nodes);
    infq_tok_trie_init(t);
}

static int32_t new_node(infq_tok_trie *t, uint8_t byte)
{
    if (t->n == t->cap) {
        size_t cap = t->cap ? 2 * t->cap : 64;
        infq_tok_node *grown =
            cap < INT32_MAX ? infq_mem_realloc(t->nodes, cap * sizeof(*grown)) : NULL;

        if (!grown)
            return -1;
        t->nodes = grown;
        t->cap = cap;
    }
    t->nodes[t->n] = (infq_tok_node){ -1, -1, -1, byte };
    return (int32_t)t->n++;
}

static int32_t find_child(const infq_tok_trie *t, int32_t node, uint8_t byte)
{
    int32_t at = t->nodes[node].child;

    while (at >= 0 && t->nodes[at].byte != byte)
        at = t->nodes[at].sibling;
    return at;
}

infq_status infq_tok_trie_add(infq_tok_trie *t, const char *s, size_t n, int32_t value,
                              infq_err *err)
{
    int32_t at = -1;

    if (n == 0)
        return INFQ_E_OK;
    for (size_t i = 0; i < n; i++) {
        uint8_t byte = (uint8_t)s[i];
        int32_t next = i == 0 ? t->root[byte] : find_child(t, at, byte);

        if (next < 0) {
            next = new_node(t, byte);
            if (next < 0)
                return infq_err_set(err, INFQ_E_NOMEM, "trie of added tokens");
            if (i == 0) {
                t->root[byte] = next;
            } else {
                t->nodes[next].sibling = t->nodes[at].child;
                t->nodes[at].child = next;
            }
        }
        at = next;
    }
    if (t->nodes[at].value < 0)
        t->nodes[at].value = value;
    return INFQ_E_OK;
}

size_t infq_tok_trie_longest(const infq_tok_trie *t, const char *s, size_t n, int32_t *value)
{
    size_t best = 0;
    int32_t at = n ? t->root[(uint8_t)s[0]] : -1;

    for (size_t i = 1; at >= 0; i++) {
        if (t->nodes[at].value >= 0) {
            best = i;
            *value = t->nodes[at].value;
        }
        if (i == n)
            break;
        at = find_child(t, at, (uint8_t)s[i]);
    }
    return best;
}

bool infq_tok_trie_find(const infq_tok_trie *t, const char *s, size_t n, size_t from, size_t *start,
                        size_t *end, int32_t *value)
{
    if (t->n == 0)
        return false;
    for (size_t i = from; i < n; i++) {
        size_t len;

        if (t->root[(uint8_t)s[i]] < 0)
            continue;
        len = infq_tok_trie_longest(t, s + i, n - i, value);
        if (len) {
            *start = i;
            *end = i + len;
            return true;
        }
    }
    return false;
}
