/* The lexicon of the generator. The order of gen_animals is a fact of the grammar: small to big. */
#include "lib/eval/gen_int.h"

#define WORDS(list)                             \
    {                                           \
        list, (int)(sizeof list / sizeof *list) \
    }

static const char *const names[] = {"Anna",  "Ben",   "Clara", "David",  "Emma", "Felix",
                                    "Grace", "Henry", "Ida",   "Jack",   "Kate", "Leo",
                                    "Mia",   "Noah",  "Olga",  "Paul",   "Rosa", "Sam",
                                    "Tina",  "Max",   "Lucy",  "Victor", "Nora", "Tom"};
static const char *const cities[] = {"Paris",  "Rome",   "London", "Berlin", "Madrid", "Oslo",
                                     "Vienna", "Lisbon", "Athens", "Dublin", "Prague", "Cairo"};
static const char *const jobs[] = {"baker",  "doctor", "farmer", "teacher", "singer", "painter",
                                   "driver", "nurse",  "pilot",  "cook",    "judge",  "gardener"};
static const char *const things[] = {"ball", "cup",   "hat",   "book",  "key",   "lamp",
                                     "coin", "shoe",  "bag",   "box",   "ring",  "drum",
                                     "kite", "spoon", "clock", "chair", "bell",  "rope",
                                     "map",  "pen",   "brush", "shirt", "stone", "plate"};
static const char *const colours[] = {"red",   "blue",  "green", "yellow", "black",
                                      "white", "brown", "pink",  "grey",   "purple"};
static const char *const rooms[] = {"kitchen", "garden", "hall",   "cellar", "office",
                                    "park",    "school", "market", "forest", "library"};
static const char *const days[] = {"Monday", "Tuesday",  "Wednesday", "Thursday",
                                   "Friday", "Saturday", "Sunday"};
static const char *const months[] = {"January",   "February", "March",    "April",
                                     "May",       "June",     "July",     "August",
                                     "September", "October",  "November", "December"};
static const char *const letters[] = {"A", "B", "C", "D", "E", "F", "G", "H", "I",
                                      "J", "K", "L", "M", "N", "O", "P", "Q", "R",
                                      "S", "T", "U", "V", "W", "X", "Y", "Z"};
static const char *const adjectives[] = {"old",  "young", "happy", "sad",
                                         "tall", "quiet", "tired", "clever"};
static const char *const animals[] = {"flea",  "bee",    "snail", "frog",  "mouse",   "crow",
                                      "duck",  "rabbit", "cat",   "fox",   "goose",   "dog",
                                      "sheep", "wolf",   "pig",   "lion",  "tiger",   "bear",
                                      "cow",   "horse",  "camel", "hippo", "mammoth", "whale"};

const gen_words gen_names = WORDS(names);
const gen_words gen_cities = WORDS(cities);
const gen_words gen_jobs = WORDS(jobs);
const gen_words gen_things = WORDS(things);
const gen_words gen_colours = WORDS(colours);
const gen_words gen_rooms = WORDS(rooms);
const gen_words gen_days = WORDS(days);
const gen_words gen_months = WORDS(months);
const gen_words gen_letters = WORDS(letters);
const gen_words gen_adjectives = WORDS(adjectives);
const gen_words gen_animals = WORDS(animals);

static const gen_pair nouns[] = {
    {"boy", "boys"},       {"girl", "girls"},    {"friend", "friends"}, {"cat", "cats"},
    {"dog", "dogs"},       {"horse", "horses"},  {"farmer", "farmers"}, {"teacher", "teachers"},
    {"child", "children"}, {"man", "men"},       {"woman", "women"},    {"mouse", "mice"},
    {"duck", "ducks"},     {"doctor", "doctors"}};
static const gen_pair verbs[] = {{"sleeps", "sleep"}, {"runs", "run"},   {"sings", "sing"},
                                 {"is", "are"},       {"waits", "wait"}, {"laughs", "laugh"},
                                 {"has", "have"},     {"was", "were"},   {"walks", "walk"},
                                 {"does", "do"},      {"swims", "swim"}, {"eats", "eat"}};
static const gen_pair opposites[] = {
    {"hot", "cold"},    {"big", "small"},  {"old", "young"},   {"fast", "slow"},
    {"high", "low"},    {"light", "dark"}, {"rich", "poor"},   {"wet", "dry"},
    {"hard", "soft"},   {"full", "empty"}, {"open", "closed"}, {"early", "late"},
    {"long", "short"},  {"happy", "sad"},  {"loud", "quiet"},  {"strong", "weak"},
    {"clean", "dirty"}, {"near", "far"},   {"thick", "thin"},  {"first", "last"},
    {"left", "right"},  {"day", "night"},  {"true", "false"},  {"sweet", "bitter"}};
static const gen_pair thing_colours[] = {
    {"grass", "green"},  {"snow", "white"}, {"coal", "black"},    {"blood", "red"},
    {"the sky", "blue"}, {"milk", "white"}, {"butter", "yellow"}, {"mud", "brown"},
    {"wood", "brown"},   {"smoke", "grey"}, {"ash", "grey"},      {"salt", "white"},
    {"gold", "yellow"},  {"tar", "black"},  {"the sea", "blue"},  {"moss", "green"},
    {"wine", "red"},     {"ink", "black"},  {"honey", "yellow"},  {"spinach", "green"}};
static const gen_pair thing_kinds[] = {
    {"apple", "fruit"},  {"pear", "fruit"},   {"plum", "fruit"},   {"rose", "flower"},
    {"tulip", "flower"}, {"lily", "flower"},  {"hammer", "tool"},  {"saw", "tool"},
    {"drill", "tool"},   {"oak", "tree"},     {"pine", "tree"},    {"birch", "tree"},
    {"salmon", "fish"},  {"trout", "fish"},   {"shark", "fish"},   {"eagle", "bird"},
    {"sparrow", "bird"}, {"owl", "bird"},     {"puzzle", "game"},  {"riddle", "game"},
    {"marble", "game"},  {"coat", "garment"}, {"sock", "garment"}, {"scarf", "garment"}};
static const gen_pair homes[] = {{"bird", "nest"},    {"bee", "hive"},    {"lion", "den"},
                                 {"horse", "stable"}, {"king", "castle"}, {"fish", "pond"},
                                 {"pig", "sty"},      {"monk", "abbey"},  {"spider", "web"},
                                 {"camel", "desert"}, {"whale", "sea"},   {"nun", "convent"}};

const gen_pairs gen_nouns = WORDS(nouns);
const gen_pairs gen_verbs = WORDS(verbs);
const gen_pairs gen_opposites = WORDS(opposites);
const gen_pairs gen_thing_colours = WORDS(thing_colours);
const gen_pairs gen_thing_kinds = WORDS(thing_kinds);
const gen_pairs gen_homes = WORDS(homes);
