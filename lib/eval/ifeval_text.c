/* Counts of words and sentences, and JSON, for IFEval's checks. */
#include <string.h>

#include "lib/base/str.h"
#include "lib/base/text.h"
#include "lib/eval/ifeval_int.h"

int64_t infq_ifeval_count_words(const char *s, size_t n)
{
    int64_t words = 0;
    bool inside = false;
    size_t len;

    for (size_t at = 0; at < n; at += len) {
        bool word = infq_is_word(infq_utf8_next(s + at, n - at, &len));
        words += word && !inside;
        inside = word;
    }
    return words;
}

// Sentences

static bool in_list(const char *list, const char *word, size_t n)
{
    for (const char *at = list; n > 0 && (at = memmem(at, strlen(at), word, n)) != NULL; at++)
        if ((at == list || at[-1] == ' ') && (at[n] == ' ' || at[n] == '\0'))
            return true;
    return false;
}

// Marks behind which an end of sentence may stand without white space.
static bool is_mark(char c)
{
    return c != '\0' && strchr(")\";}]*:@'({[!?", c) != NULL;
}

// What a word with a period looks like: `s` without marks in front and without the period.
typedef enum { ORDINARY, TITLE, ABBREVIATION, INITIAL, NUMBER, DOTS } look;

static look look_of(const char *s, size_t n)
{
    static const char titles[] = "mr mrs ms dr prof st gen sen rep gov lt col capt sgt rev hon vs e.g i.e cf no nos fig vol p "
        "pp mt ft";
    static const char others[] = "etc inc co corp ltd bros jr sr a.m p.m u.s u.k u.n d.c ph.d m.d b.a m.a jan feb mar apr jun "
        "jul aug sep sept "
                                 "oct nov dec dept est ave blvd rd";
    char low[16];
    bool digits = n > 0;

    if (n == 0 || s[n - 1] == '.')
        return DOTS;
    for (size_t i = 0; i < n; i++)
        digits = digits && ((s[i] >= '0' && s[i] <= '9') || (i > 0 && (s[i] == '.' || s[i] == ',')));
    if (digits)
        return NUMBER;
    if (n == 1)
        return (s[0] | 32) >= 'a' && (s[0] | 32) <= 'z' ? INITIAL : ORDINARY;
    if (n >= sizeof(low))
        return ORDINARY;
    for (size_t i = 0; i < n; i++)
        low[i] = s[i] >= 'A' && s[i] <= 'Z' ? (char)(s[i] + 32) : s[i];
    return in_list(titles, low, n) ? TITLE : in_list(others, low, n) ? ABBREVIATION : ORDINARY;
}

/* Whether a sentence ends at s[at] of the word s[0..n); next: the first character of what follows, 0 if nothing does. */
static bool ends_sentence(const char *s, size_t at, uint32_t next)
{
    size_t from = at;
    char u[4];
    size_t len = infq_utf8_put(next, u);

    if (s[at] != '.')
        return true;
    while (from > 0 && !is_mark(s[from - 1]) && s[from - 1] != ',')
        from--;
    switch (look_of(s + from, at - from)) {
    case ORDINARY:
        return true;
    case NUMBER:
        return !infq_is_lower(u, len);
    case ABBREVIATION:
    case DOTS:
        return infq_is_upper(u, len);
    default:
        return false;
    }
}

static bool closes_only(const char *s, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!strchr("\"')]}", s[i]))
            return false;
    return true;
}

// Offset of the last . ? ! of a word that a mark or the end follows; n if there is none. The end of the text is no place for one.
static size_t last_end(const char *s, size_t n, bool last_word)
{
    for (size_t i = n; i-- > 0; )
        if (strchr(".?!", s[i]) && s[i] && (i + 1 < n ? is_mark(s[i + 1]) : !last_word))
            return i;
    return n;
}

/* One sentence, and one more for each end that has text behind it. Within a word (up to white space) only the last possible
 * end counts. */
int64_t infq_ifeval_count_sentences(const char *s, size_t n)
{
    int64_t sentences = 1;
    size_t at = 0, len = 1;

    n = infq_rstrip(s, n);
    for (;;) {
        size_t from, end, next;
        at += infq_lstrip(s + at, n - at);
        if (at == n)
            return sentences;
        for (from = at; at < n && !infq_is_space(infq_utf8_next(s + at, n - at, &len)); at += len)
            ;
        next = at + infq_lstrip(s + at, n - at);
        end = last_end(s + from, at - from, next == n);
        if (from + end == at)
            continue;
        if (from + end + 1 < at) { // a mark follows
            if (ends_sentence(s + from, end, (unsigned char)s[from + end + 1]))
                sentences += next < n || !closes_only(s + from + end + 1, at - from - end - 1);
        } else {
            sentences += ends_sentence(s + from, end, infq_utf8_next(s + next, n - next, &len));
        }
    }
}

// Words in capitals

// 'S 'M 'D 'LL 'RE 'VE N'T at the end of a token are tokens of their own.
static size_t clitic(const char *s, size_t n)
{
    static const char *const tails[] = { "'s", "'m", "'d", "'ll", "'re", "'ve", "n't" };

    for (size_t i = 0; i < sizeof(tails) / sizeof(tails[0]); i++) {
        size_t k = strlen(tails[i]), same = 0;
        while (n > k && same < k && (s[n - k + same] | 32) == (tails[i][same] | 32))
            same++;
        if (same == k)
            return k;
    }
    return 0;
}

static int64_t capitals_of(const char *s, size_t n)
{
    static const char pairs[] = "CANNOT GIMME GONNA GOTTA LEMME WANNA";
    size_t tail = clitic(s, n);

    if (tail > 0)
        return infq_is_upper(s, n - tail) + infq_is_upper(s + n - tail, tail);
    return infq_is_upper(s, n) * (in_list(pairs, s, n) ? 2 : 1);
}

// Whether the character stands apart from the words round it.
static bool splits(const char *s, size_t n, size_t at, uint32_t cp)
{
    char c = s[at];

    if (c == ',' || c == ':')
        return at + 1 >= n || !(s[at + 1] >= '0' && s[at + 1] <= '9');
    if (c == '-')
        return (at + 1 < n && s[at + 1] == '-') || (at > 0 && s[at - 1] == '-');
    if (c == '.')
        return (at + 1 < n && s[at + 1] == '.') || (at > 0 && s[at - 1] == '.');
    return infq_is_space(cp) || cp == 0xab || cp == 0xbb || (cp >= 0x201c && cp <= 0x201e) || (c != '\0' &&
        strchr("\"`()[]{}<>;@#$%&?!*", c));
}

int64_t infq_ifeval_count_capital_words(const char *s, size_t n)
{
    int64_t words = 0;
    size_t from = 0, len = 1;

    for (size_t at = 0; at <= n; at += len) {
        uint32_t cp = at < n ? infq_utf8_next(s + at, n - at, &len) : ' ';
        if (at < n && !splits(s, n, at, cp))
            continue;
        words += capitals_of(s + from, at - from);
        from = at + len;
        if (at == n)
            break;
    }
    return words;
}

// JSON

typedef struct {
    const char *s;
    size_t n, at;
    int depth;
} json;

static bool value(json *j);

static void blanks(json *j)
{
    while (j->at < j->n && strchr(" \t\n\r", j->s[j->at]) && j->s[j->at])
        j->at++;
}

static bool take(json *j, const char *what)
{
    size_t n = strlen(what);

    if (j->n - j->at < n || memcmp(j->s + j->at, what, n) != 0)
        return false;
    j->at += n;
    return true;
}

static bool string(json *j)
{
    if (!take(j, "\""))
        return false;
    while (j->at < j->n && j->s[j->at] != '"') {
        unsigned char c = (unsigned char)j->s[j->at++];
        if (c < 0x20)
            return false;
        if (c != '\\')
            continue;
        if (take(j, "u")) {
            for (int i = 0; i < 4; i++, j->at++)
                if (j->at >= j->n || !strchr("0123456789abcdefABCDEF", j->s[j->at]) || !j->s[j->at])
                    return false;
        } else if (j->at >= j->n || !strchr("\"\\/bfnrt", j->s[j->at]) || !j->s[j->at++]) {
            return false;
        }
    }
    return take(j, "\"");
}

static size_t digits(json *j)
{
    size_t from = j->at;

    while (j->at < j->n && j->s[j->at] >= '0' && j->s[j->at] <= '9')
        j->at++;
    return j->at - from;
}

static bool number(json *j)
{
    size_t k;

    if (take(j, "NaN") || take(j, "Infinity") || take(j, "-Infinity"))
        return true;
    take(j, "-");
    if (!take(j, "0") && digits(j) == 0)
        return false;
    k = j->at; // a broken fraction or exponent is not part of the number, and then an error behind it
    if (take(j, ".") && digits(j) == 0)
        j->at = k;
    k = j->at;
    if (take(j, "e") || take(j, "E")) {
        if (!take(j, "+"))
            take(j, "-");
        if (digits(j) == 0)
            j->at = k;
    }
    return true;
}

// The members of an object or array behind its opening, up to and with its end.
static bool members(json *j, const char *end, bool keys)
{
    blanks(j);
    if (take(j, end))
        return true;
    for (;;) {
        blanks(j);
        if (keys) {
            if (!string(j))
                return false;
            blanks(j);
            if (!take(j, ":"))
                return false;
        }
        if (!value(j))
            return false;
        blanks(j);
        if (take(j, end))
            return true;
        if (!take(j, ","))
            return false;
    }
}

static bool value(json *j)
{
    bool ok;

    blanks(j);
    if (j->at >= j->n || ++j->depth > 900)
        return false;
    if (j->s[j->at] == '"')
        ok = string(j);
    else if (take(j, "{"))
        ok = members(j, "}", true);
    else if (take(j, "["))
        ok = members(j, "]", false);
    else
        ok = take(j, "true") || take(j, "false") || take(j, "null") || number(j);
    j->depth--;
    return ok;
}

bool infq_ifeval_is_json(const char *s, size_t n)
{
    json j = { s, n, 0, 0 };

    if (!value(&j))
        return false;
    blanks(&j);
    return j.at == n;
}
