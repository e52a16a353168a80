/* The grammar: one function a kind of document. Random draws are made one a statement, because the
 * order in which C evaluates arguments is free and would change the text between compilers. */
#include <stdio.h>
#include <string.h>

#include "lib/eval/gen_int.h"

static int below(gen_item *it, int n)
{
    return (int)infq_rng_below(it->rng, (uint64_t)n);
}

static const char *pick(gen_item *it, gen_words l)
{
    return l.w[below(it, l.n)];
}

/* k different indices below n, in random order; k <= n, k <= 8. */
static void draw(gen_item *it, int n, int k, int *out)
{
    for (int i = 0; i < k; i++) {
        bool again;

        do {
            out[i] = below(it, n);
            again = false;
            for (int j = 0; j < i; j++)
                again |= out[j] == out[i];
        } while (again);
    }
}

/* Adds one choice; the first is the true one. Repeated ones and those past the last place are
 * dropped. */
static void choice(gen_item *it, const char *word)
{
    char text[GEN_CHOICE_BYTES];

    if (it->n_choices == GEN_MAX_CHOICES)
        return;
    snprintf(text, sizeof text, " %s", word);
    for (int i = 0; i < it->n_choices; i++)
        if (!strcmp(it->choice[i], text))
            return;
    memcpy(it->choice[it->n_choices++], text, sizeof text);
}

static void choice_int(gen_item *it, int v)
{
    char text[16];

    if (v < 0 || v > 99)
        return;
    snprintf(text, sizeof text, "%d", v);
    choice(it, text);
}

/* The true number first, then wrong ones near it. */
static void choices_near(gen_item *it, int gold)
{
    static const int shift[] = {1, -1, 2, -2, 3, -3, 10, -10};
    int at[8];

    choice_int(it, gold);
    draw(it, 8, 8, at);
    for (int i = 0; i < 8; i++)
        choice_int(it, gold + shift[at[i]]);
}

/* Fills up with words of the list. */
static void choices_from(gen_item *it, gen_words l)
{
    while (it->n_choices < GEN_MAX_CHOICES)
        choice(it, pick(it, l));
}

static void make_facts(gen_item *it)
{
    static const struct {
        const char *says, *asks;
        const gen_words *values;
    } rel[] = {{"lives in", "Where does %s live?", &gen_cities},
               {"has a", "What does %s have?", &gen_things},
               {"likes the colour", "Which colour does %s like?", &gen_colours},
               {"works as a", "What is the job of %s?", &gen_jobs}};
    int r = below(it, 4);
    int n = 2 + below(it, 3);
    int n_asked = 1 + below(it, n < 3 ? n : 3);
    int who[4], what[4], order[4];

    draw(it, gen_names.n, n, who);
    draw(it, rel[r].values->n, n, what);
    draw(it, n, n, order);
    for (int i = 0; i < n; i++)
        infq_buf_fmt(&it->context, "%s %s %s. ", gen_names.w[who[i]], rel[r].says,
                     rel[r].values->w[what[i]]);
    for (int q = 0; q < n_asked; q++) {
        const char *name = gen_names.w[who[order[q]]];

        infq_buf_fmt(&it->context, rel[r].asks, name);
        infq_buf_fmt(&it->context, " %s %s", name, rel[r].says);
        if (q + 1 < n_asked)
            infq_buf_fmt(&it->context, " %s. ", rel[r].values->w[what[order[q]]]);
    }
    choice(it, rel[r].values->w[what[order[n_asked - 1]]]);
    for (int i = 0; i < n; i++)
        choice(it, rel[r].values->w[what[i]]);
    infq_buf_char(&it->tail, '.');
}

static void make_count(gen_item *it)
{
    int step = 1 + below(it, 10);
    int up = below(it, 2);
    int shown = 3 + below(it, 3);
    int room = 99 - step * shown;
    int start = below(it, room + 1);
    int v = up ? start : 99 - start;
    int d = up ? step : -step;

    infq_buf_fmt(&it->key, "%d %d", v, d);
    infq_buf_fmt(&it->context, "Count %s by %d:", up ? "up" : "down", step);
    for (int i = 0; i < shown; i++, v += d)
        infq_buf_fmt(&it->context, " %d", v);
    choices_near(it, v);
    for (int i = 0; i < 3 && v + d >= 0 && v + d <= 99; i++) {
        v += d;
        infq_buf_fmt(&it->tail, " %d", v);
    }
}

static void make_order(gen_item *it)
{
    static const struct {
        const char *name;
        const gen_words *l;
        bool round; /* the first follows the last */
    } seq[] = {
        {"days", &gen_days, true}, {"months", &gen_months, true}, {"letters", &gen_letters, false}};
    static const char *const head[] = {
        "Say the %s %s by %d:", "In steps %3$d go %2$s through the %1$s:",
        "The %s in order, %s by %d:", "Go %2$s by %3$d, all %1$s:", "Now come the %s, %s by %d:"};
    int s = below(it, 3);
    int t = below(it, 5);
    int step = 1 + below(it, 3);
    int forward = below(it, 2);
    int shown = 3 + below(it, 2);
    int n = seq[s].l->n;
    int room = seq[s].round ? n : n - step * shown;
    int at = below(it, room);
    int d = forward ? step : n - step;

    if (!seq[s].round && !forward)
        at = n - 1 - at;
    infq_buf_fmt(&it->key, "%d %d %d %d %d", s, t, step, forward, at);
    infq_buf_fmt(&it->context, head[t], seq[s].name, forward ? "forward" : "backward", step);
    for (int i = 0; i < shown; i++, at = (at + d) % n)
        infq_buf_fmt(&it->context, " %s", seq[s].l->w[at]);
    choice(it, seq[s].l->w[at]);
    choices_from(it, *seq[s].l);
    infq_buf_char(&it->tail, '.');
}

static void make_agreement(gen_item *it)
{
    static const char *const link[] = {"near", "with", "behind"};
    const gen_pair *verb = &gen_verbs.p[below(it, gen_verbs.n)];
    int shape = below(it, 5);
    int plural = below(it, 2);
    int other_plural = below(it, 2);
    int noun[2];
    const char *subject, *other;

    draw(it, gen_nouns.n, 2, noun);
    subject = plural ? gen_nouns.p[noun[0]].b : gen_nouns.p[noun[0]].a;
    other = other_plural ? gen_nouns.p[noun[1]].b : gen_nouns.p[noun[1]].a;
    if (shape == 0) {
        const char *name = pick(it, gen_names);

        infq_buf_fmt(&it->context, "%s says that the %s", name, subject);
    } else if (shape == 1) {
        infq_buf_fmt(&it->context, "The %s that the %s %s", subject, other,
                     other_plural ? "like" : "likes");
    } else if (shape == 2) {
        infq_buf_fmt(&it->context, "The %s that %s the %s", subject, plural ? "see" : "sees",
                     other);
    } else {
        const char *adjective = pick(it, gen_adjectives);
        const char *word = link[below(it, 3)];

        infq_buf_fmt(&it->context, "The %s %s %s the %s", adjective, subject, word, other);
    }
    choice(it, plural ? verb->b : verb->a);
    choice(it, plural ? verb->a : verb->b);
    infq_buf_char(&it->tail, '.');
}

/* n different words of several lists. */
static void draw_words(gen_item *it, int n, const char **out)
{
    int at[8];
    int n_all = gen_things.n + gen_animals.n + gen_colours.n;

    draw(it, n_all, n, at);
    for (int i = 0; i < n; i++) {
        int k = at[i];

        if (k < gen_things.n)
            out[i] = gen_things.w[k];
        else if (k < gen_things.n + gen_animals.n)
            out[i] = gen_animals.w[k - gen_things.n];
        else
            out[i] = gen_colours.w[k - gen_things.n - gen_animals.n];
    }
}

/* A list, then the list again (step 1) or from its end (step -1), asked at a random place. */
static void list_again(gen_item *it, const char *first, const char *second, bool reverse)
{
    const char *word[6], *again[6] = { NULL };
    int n = 3 + below(it, reverse ? 3 : 4);
    int cut = below(it, n);

    draw_words(it, n, word);
    for (int i = 0; i < n; i++)
        again[i] = word[reverse ? n - 1 - i : i];
    infq_buf_str(&it->context, first);
    for (int i = 0; i < n; i++)
        infq_buf_fmt(&it->context, " %s", word[i]);
    infq_buf_str(&it->context, second);
    for (int i = 0; i < cut; i++)
        infq_buf_fmt(&it->context, " %s", again[i]);
    choice(it, again[cut]);
    // the words not yet said are the tempting ones
    for (int i = n - 1; i >= 0; i--)
        choice(it, again[i]);
    for (int i = cut + 1; i < n; i++)
        infq_buf_fmt(&it->tail, " %s", again[i]);
    infq_buf_char(&it->tail, '.');
}

static void make_copy(gen_item *it)
{
    list_again(it, "Copy:", ". Again:", false);
}

static void make_reverse(gen_item *it)
{
    list_again(it, "Reverse:", ". Backwards:", true);
}

static void make_compare(gen_item *it)
{
    int n = 2 + below(it, 2);
    int more = below(it, 2);
    int best = 0;
    int v[3];

    draw(it, 100, n, v);
    for (int i = 1; i < n; i++)
        if (more ? v[i] > v[best] : v[i] < v[best])
            best = i;
    infq_buf_fmt(&it->context, "Which number is the %s,", more ? "largest" : "smallest");
    for (int i = 0; i < n; i++)
        infq_buf_fmt(&it->context, " %d%s", v[i], i + 2 < n ? "," : i + 1 < n ? " or" : "? It is");
    choice_int(it, v[best]);
    for (int i = 0; i < n; i++)
        choice_int(it, v[i]);
    infq_buf_char(&it->tail, '.');
}

static void make_size(gen_item *it)
{
    int more = below(it, 2);
    int at[3], best = 0;
    int n = 2 + below(it, 2);

    draw(it, gen_animals.n, n, at);
    for (int i = 1; i < n; i++)
        if (more ? at[i] > at[best] : at[i] < at[best])
            best = i;
    infq_buf_fmt(&it->context, "Which animal is the %s,", more ? "biggest" : "smallest");
    for (int i = 0; i < n; i++)
        infq_buf_fmt(&it->context, " the %s%s", gen_animals.w[at[i]],
                     i + 2 < n   ? ","
                     : i + 1 < n ? " or"
                                 : "? It is the");
    choice(it, gen_animals.w[at[best]]);
    for (int i = 0; i < n; i++)
        choice(it, gen_animals.w[at[i]]);
    infq_buf_char(&it->tail, '.');
}

/* Who has what: things go from hand to hand, all are asked for in turn. */
static void make_give(gen_item *it)
{
    int who[3], what[2], holder[2];
    int n_gives = 1 + below(it, 3);
    int asked = below(it, 2);
    int both = below(it, 2);

    draw(it, gen_names.n, 3, who);
    draw(it, gen_things.n, 2, what);
    for (int i = 0; i < 2; i++) {
        holder[i] = i;
        infq_buf_fmt(&it->context, "%s has the %s. ", gen_names.w[who[i]], gen_things.w[what[i]]);
    }
    for (int g = 0; g < n_gives; g++) {
        int thing = below(it, 2);
        int to = (holder[thing] + 1 + below(it, 2)) % 3;

        infq_buf_fmt(&it->context, "%s gives the %s to %s. ", gen_names.w[who[holder[thing]]],
                     gen_things.w[what[thing]], gen_names.w[who[to]]);
        holder[thing] = to;
    }
    if (both)
        infq_buf_fmt(&it->context, "Now the %s is with %s. ", gen_things.w[what[1 - asked]],
                     gen_names.w[who[holder[1 - asked]]]);
    infq_buf_fmt(&it->context, "Now the %s is with", gen_things.w[what[asked]]);
    choice(it, gen_names.w[who[holder[asked]]]);
    for (int i = 0; i < 3; i++)
        choice(it, gen_names.w[who[i]]);
    infq_buf_char(&it->tail, '.');
}

/* Who is where: the last move counts. */
static void make_where(gen_item *it)
{
    int who[3], place[6], at[3];
    int n_people = 2 + below(it, 2);
    int n_moves = 1 + below(it, 3);
    int asked = below(it, n_people);

    draw(it, gen_names.n, n_people, who);
    draw(it, gen_rooms.n, 6, place);
    for (int i = 0; i < n_people; i++) {
        at[i] = place[i];
        infq_buf_fmt(&it->context, "%s is in the %s. ", gen_names.w[who[i]], gen_rooms.w[at[i]]);
    }
    for (int m = 0; m < n_moves; m++) {
        int p = below(it, n_people);

        at[p] = place[3 + m];
        infq_buf_fmt(&it->context, "%s goes to the %s. ", gen_names.w[who[p]], gen_rooms.w[at[p]]);
    }
    infq_buf_fmt(&it->context, "Where is %s now? In the", gen_names.w[who[asked]]);
    choice(it, gen_rooms.w[at[asked]]);
    for (int i = 0; i < n_people; i++)
        choice(it, gen_rooms.w[at[i]]);
    for (int i = 0; i < 3 + n_moves; i++)
        if (i < n_people || i >= 3)
            choice(it, gen_rooms.w[place[i]]);
    infq_buf_char(&it->tail, '.');
}

static void make_opposite(gen_item *it)
{
    static const char *const shape[] = {
        "The opposite of %1$s is", "%2$s says %1$s and %3$s says the opposite:",
        "%2$s asks for the opposite of %1$s and %3$s answers",
        "What is not %1$s at all, asks %2$s, is", "%2$s and %3$s turn %1$s into"};
    const gen_pair *pair = &gen_opposites.p[below(it, gen_opposites.n)];
    int s = below(it, 5);
    int turn = below(it, 2);
    int who[2];

    draw(it, gen_names.n, 2, who);
    infq_buf_fmt(&it->key, "%d %s", s, turn ? pair->b : pair->a);
    infq_buf_fmt(&it->context, shape[s], turn ? pair->b : pair->a, gen_names.w[who[0]],
                 gen_names.w[who[1]]);
    choice(it, turn ? pair->a : pair->b);
    while (it->n_choices < GEN_MAX_CHOICES) {
        const gen_pair *wrong = &gen_opposites.p[below(it, gen_opposites.n)];
        int side = below(it, 2);

        if (wrong != pair)
            choice(it, side ? wrong->a : wrong->b);
    }
    infq_buf_char(&it->tail, '.');
}

/* Fixed facts of the grammar, each said in several ways; one way in eight is held out. */
static void make_world(gen_item *it)
{
    static const struct {
        const gen_pairs *facts;
        const char *shape[4];
    } about[] = {
        {&gen_thing_colours,
         {"The colour of %1$s is", "%2$s knows that %1$s is always",
          "For %1$s %2$s takes the paint that is", "%2$s asks which colour %1$s has, and hears"}},
        {&gen_thing_kinds,
         {"The %1$s is a kind of", "%2$s calls the %1$s a", "%2$s asks what the %1$s is: a",
          "In the book of %2$s the %1$s is listed as a"}},
        {&gen_homes,
         {"The %1$s lives in the", "%2$s looks for the %1$s in the",
          "The home of the %1$s, says %2$s, is the", "%2$s brings the %1$s back to the"}}};
    int g = below(it, 3);
    int s = below(it, 4);
    int k = below(it, about[g].facts->n);
    const char *name = pick(it, gen_names);

    infq_buf_fmt(&it->key, "%d %d %d", g, s, k);
    infq_buf_fmt(&it->context, about[g].shape[s], about[g].facts->p[k].a, name);
    choice(it, about[g].facts->p[k].b);
    while (it->n_choices < GEN_MAX_CHOICES)
        choice(it, about[g].facts->p[below(it, about[g].facts->n)].b);
    infq_buf_char(&it->tail, '.');
}

static void make_sums(gen_item *it)
{
    static const char *const shape[] = {"So %d %s %d =", "We know that %d %s %d is",
                                        "What is %d %s %d? It is"};
    int plus = below(it, 2);
    int a = below(it, 30);
    int b = below(it, 12);
    int s = below(it, 3);

    if (!plus)
        a += b;
    infq_buf_fmt(&it->key, "%d %d %d", plus, a, b);
    infq_buf_fmt(&it->context, shape[s], a,
                 s == 0 ? (plus ? "+" : "-")
                 : plus ? "plus"
                        : "minus",
                 b);
    choices_near(it, plus ? a + b : a - b);
    infq_buf_char(&it->tail, '.');
}

/* Two steps: a person's animal, and the rule about such animals. */
static void make_rules(gen_item *it)
{
    int who[3], animal[3], colour[3], order[3];
    int n = 2 + below(it, 2);
    int n_asked = 1 + below(it, n);

    draw(it, gen_names.n, n, who);
    draw(it, gen_animals.n, n, animal);
    draw(it, gen_colours.n, n, colour);
    for (int i = 0; i < n; i++)
        infq_buf_fmt(&it->context, "Every %s is %s. ", gen_animals.w[animal[i]],
                     gen_colours.w[colour[i]]);
    draw(it, n, n, order);
    for (int q = 0; q < n_asked; q++) {
        int k = order[q];

        infq_buf_fmt(&it->context, "The pet of %s is a %s, so it is", gen_names.w[who[k]],
                     gen_animals.w[animal[k]]);
        if (q + 1 < n_asked)
            infq_buf_fmt(&it->context, " %s. ", gen_colours.w[colour[k]]);
    }
    choice(it, gen_colours.w[colour[order[n_asked - 1]]]);
    for (int i = 0; i < n; i++)
        choice(it, gen_colours.w[colour[i]]);
    infq_buf_char(&it->tail, '.');
}

/* How often one of two words was said. */
static void make_tally(gen_item *it)
{
    int n = 3 + below(it, 5);
    int what[2];
    int n_first = 0;

    draw(it, gen_things.n, 2, what);
    infq_buf_str(&it->context, "Words:");
    for (int i = 0; i < n; i++) {
        int second = below(it, 3) == 0;

        n_first += !second;
        infq_buf_fmt(&it->context, " %s", gen_things.w[what[second]]);
    }
    infq_buf_fmt(&it->context, ". How many times %s?", gen_things.w[what[0]]);
    choices_near(it, n_first);
    infq_buf_fmt(&it->tail, ". How many times %s? %d.", gen_things.w[what[1]], n - n_first);
}

const gen_kind gen_kinds[] = {
    {"facts", "recall of a fact that the context states about one of several people", 3,
     make_facts},
    {"count", "counting up or down by a step", 2, make_count},
    {"order", "days, months and letters in order, by a step", 2, make_order},
    {"agreement", "the verb agrees with its subject, not with the noun beside it", 2,
     make_agreement},
    {"copy", "the next word of a repeated list", 2, make_copy},
    {"reverse", "the next word of a list said backwards", 2, make_reverse},
    {"compare", "the largest or smallest of two or three numbers", 2, make_compare},
    {"size", "the biggest or smallest of two or three animals", 2, make_size},
    {"give", "stories: who holds a thing after it was given away", 3, make_give},
    {"where", "stories: the place of a person after some moves", 3, make_where},
    {"opposite", "opposites, in phrasings not seen with the word", 1, make_opposite},
    {"world", "colours, kinds and homes, in phrasings not seen with the thing", 2, make_world},
    {"sums", "sums and differences below forty", 2, make_sums},
    {"rules", "a rule applied to a named case", 2, make_rules},
    {"tally", "how often a word was said", 2, make_tally},
};
const int gen_n_kinds = (int)(sizeof gen_kinds / sizeof *gen_kinds);
