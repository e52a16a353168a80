#include "lib/eval/language.h"

#include <stdbool.h>
#include <string.h>

#include "lib/base/str.h"
#include "lib/base/text.h"

typedef enum {
    LATIN, CYRILLIC, ARABIC, DEVANAGARI, BENGALI, GURMUKHI, GUJARATI, TAMIL, TELUGU, KANNADA, MALAYALAM, THAI, HANGUL, KANA,
        HAN, GREEK,
    HEBREW, N_SCRIPTS
} script;

static const struct {
    uint32_t from, to;
    script s;
} blocks[] = {
    { 0x41, 0x5a, LATIN },         { 0x61, 0x7a, LATIN },         { 0xc0, 0x24f, LATIN },        { 0x370, 0x3ff, GREEK },
    { 0x400, 0x52f, CYRILLIC },    { 0x590, 0x5ff, HEBREW },      { 0x620, 0x65f, ARABIC },      { 0x66e, 0x6d3, ARABIC },
    { 0x6d5, 0x6ff, ARABIC },      { 0x900, 0x963, DEVANAGARI },  { 0x980, 0x9e3, BENGALI },     { 0xa01, 0xa65, GURMUKHI },
    { 0xa70, 0xa7f, GURMUKHI },    { 0xa81, 0xae3, GUJARATI },    { 0xb82, 0xbe5, TAMIL },       { 0xc00, 0xc65, TELUGU },
    { 0xc80, 0xce5, KANNADA },     { 0xd00, 0xd65, MALAYALAM },   { 0xe01, 0xe4e, THAI },        { 0x1100, 0x11ff, HANGUL },
    { 0x1e00, 0x1eff, LATIN },     { 0x1f00, 0x1fff, GREEK },     { 0x3040, 0x30ff, KANA },      { 0x3400, 0x4dbf, HAN },
    { 0x4e00, 0x9fff, HAN },       { 0xac00, 0xd7a3, HANGUL },    { 0xfb50, 0xfdff, ARABIC },    { 0xfe70, 0xfeff, ARABIC },
};

/* Languages with their script, letters that speak for them among the languages of that script, and frequent words, blank
 * separated, in lower case. A script with one language needs neither. */
typedef struct {
    const char *code;
    script s;
    const char *letters, *words;
} language;

static const language languages[] = {
    { "en", LATIN, "",
      "the of and to in is that it was for on are as with his they at be this have from or had by but what were we when "
      "your can said there use an each which she do how their if will up other about out many then them these so would has "
      "look more could no my than been who its did get i you not he her all any our may should because" },
    { "de", LATIN, "äöüß",
      "der die und in den von zu das mit sich des auf für ist im dem nicht ein eine als auch es an werden aus er hat dass "
      "sie nach wird bei einer um am sind noch wie einem über einen so zum war haben nur oder aber vor zur bis mehr durch "
      "ich du wir ihr mein kann wenn" },
    { "fr", LATIN, "êœçû",
      "le la les de des du un une et est en que qui dans pour pas au sur par plus ce avec son il elle ne se ou mais nous "
      "vous ont sont cette aux leur être fait comme tout très je tu mon sa ses même aussi bien peut" },
    { "es", LATIN, "ñ¿¡",
      "el la los las de del y en un una que es se no por con su para como más al lo pero sus le ya o este sí porque esta "
      "entre cuando muy sin sobre también me hasta hay donde quien desde todo nos durante todos uno les ni contra ese son" },
    { "pt", LATIN, "ãõ",
      "o a os as de do da dos das em um uma que e é não para com por se na no nas nos ao mais como mas foi ele sua seu ou "
      "quando muito já está eu também só pelo pela até isso ela entre depois sem mesmo aos seus quem são você" },
    { "it", LATIN, "",
      "il la lo gli le di del della e che è un una in per non con si da al alla come più ma anche ha sono questo dei delle "
      "nel nella se ci o mi io su mio era cosa loro tutto quando essere dal dalla perché molto" },
    { "nl", LATIN, "",
      "de het een en van is dat op te in niet zijn voor met die aan er om ook als maar dan bij nog uit naar heeft hij ze "
      "wordt door over deze werd geen was ik je wij kan worden meer onder" },
    { "sv", LATIN, "å",
      "och att det som en är på för av den med till har inte om ett men var jag vi han hon kan från så de när eller också "
      "mycket efter sig där denna alla" },
    { "da", LATIN, "æø",
      "og det at en den til er som på de med af for ikke der var han har men et jeg om vi fra kan hun også eller hvis efter "
      "mere blev være denne" },
    { "fi", LATIN, "",
      "ja on ei se että oli hän mutta ovat myös kun niin joka tai kuin jos sen ole olla minä sinä hänen tämä vain ne voi "
      "mukaan sekä mitä jotka nyt ollut kaikki tämän hyvin siitä" },
    { "pl", LATIN, "ąęłśżźń",
      "i w na z do się nie to że jest o jak po ale za od przez co dla był są tak czy tym jego może być oraz także już które "
      "który tylko bardzo" },
    { "tr", LATIN, "ğışİ",
      "ve bir bu da de için ile çok olarak daha o gibi olan ne kadar ama sonra var en ben değil mi her biz kendi olduğu ya "
      "ise şey" },
    { "id", LATIN, "",
      "yang dan di untuk dari dengan ini pada adalah itu tidak dalam akan ke oleh juga saya ada anda kami atau sebagai "
      "dapat mereka telah bisa lebih kita tersebut karena" },
    { "sw", LATIN, "",
      "na ya wa kwa ni katika za la kuwa cha hii kama hiyo pia au kwamba yake vya huu lakini sana mimi yangu wetu wako watu "
      "baada hivyo huo wakati kila jina hapa yako ambayo hakuna sisi wao kwenye" },
    { "vi", LATIN, "đơưăạảấầẩẫậắằẳẵặẹẻẽếềểễệỉịọỏốồổỗộớờởỡợụủứừửữựỳỷỹỵ",
      "và của là có cho được các trong không một với những người để khi này đã từ về như tôi bạn cũng ra vào" },
    { "ru", CYRILLIC, "ыэё",
      "и в не на что я с он как это по но они мы она так его к а у вы все из за то же от бы для о был если или только еще "
      "есть быть может очень" },
    { "bg", CYRILLIC, "ъ",
      "и на да в се за не от с е са по че ще като или това до са си към при как но ако може има още през беше този тази "
      "които който много аз ти" },
    { "uk", CYRILLIC, "іїєґ",
      "і в не на що я з він як це по та але вони ми вона так його до у ви все із за то від для про був якщо або" },
    { "ar", ARABIC, "ةىأإ",
      "في من على إلى أن هذا التي الذي هو هي ما كان لا عن مع هذه كل قد بعد لم أو كما ذلك بين عند يمكن" },
    { "fa", ARABIC, "",
      "و در به از که این را با است برای آن یک خود تا کرد بر هم نیز می شود شد شما من ما است هر دارد باید بود" },
    { "ur", ARABIC, "ٹڈڑںےہھ",
      "کے میں کی ہے کا اور سے کو نے پر یہ کہ ہیں ایک بھی وہ نہیں اس لیے جو تو کر ہو گیا آپ" },
    { "hi", DEVANAGARI, "",
      "है के में की और का से को हैं पर यह कि ने एक भी नहीं इस लिए तो जो कर हो गया था आप वह अपने मैं हम साथ" },
    { "mr", DEVANAGARI, "ळ",
      "आहे आणि या मध्ये हे ते तर नाही आहेत होते होता एक त्या की व त्याच्या करण्यासाठी म्हणून आपल्या तुम्ही मी आपण साठी "
      "किंवा" },
    { "ne", DEVANAGARI, "",
      "छ र को मा हो छन् गर्न पनि भने लागि हुन्छ यो एक गर्ने छैन थियो तपाईं म हामी गर्नुहोस् तथा सकिन्छ भएको त्यो" },
    { "bn", BENGALI, "", "" }, { "pa", GURMUKHI, "", "" }, { "gu", GUJARATI, "", "" }, { "ta", TAMIL, "", "" },
    { "te", TELUGU, "", "" }, { "kn", KANNADA, "", "" }, { "ml", MALAYALAM, "", "" }, { "th", THAI, "", "" },
    { "ko", HANGUL, "", "" }, { "ja", KANA, "", "" }, { "zh", HAN, "", "" }, { "el", GREEK, "", "" }, { "he", HEBREW, "", "" },
};
#define N_LANGUAGES (sizeof(languages) / sizeof(languages[0]))

int infq_language_known(const char *code)
{
    for (size_t i = 0; i < N_LANGUAGES; i++)
        if (strcmp(languages[i].code, code) == 0)
            return 1;
    return 0;
}

static int script_of(uint32_t cp)
{
    for (size_t i = 0; i < sizeof(blocks) / sizeof(blocks[0]); i++)
        if (cp >= blocks[i].from && cp <= blocks[i].to && cp != 0xd7 && cp != 0xf7)
            return (int)blocks[i].s;
    return -1;
}

// Whether the list has the word.
static bool has_word(const char *list, const char *word, size_t n)
{
    for (const char *at = list; (at = memmem(at, strlen(at), word, n)) != NULL; at++)
        if ((at == list || at[-1] == ' ') && (at[n] == ' ' || at[n] == '\0'))
            return true;
    return false;
}

// Points of each language of the script: a word of its list 3, a letter of its own 2.
static void score(const char *s, size_t n, script want, int64_t *points)
{
    size_t at = 0, from = 0, len;

    while (at <= n) {
        uint32_t cp = at < n ? infq_utf8_next(s + at, n - at, &len) : 0;
        bool letter = at < n && script_of(cp) >= 0;
        for (size_t i = 0; letter && i < N_LANGUAGES; i++)
            if (languages[i].s == want && memmem(languages[i].letters, strlen(languages[i].letters), s + at, len))
                points[i] += 2;
        if (!letter && at > from)
            for (size_t i = 0; i < N_LANGUAGES; i++)
                if (languages[i].s == want && has_word(languages[i].words, s + from, at - from))
                    points[i] += 3;
        if (at == n)
            break;
        at += len;
        if (!letter)
            from = at;
    }
}

static const char *best_of(const char *s, size_t n, script want)
{
    int64_t points[N_LANGUAGES] = { 0 };
    size_t best = N_LANGUAGES;
    int of_script = 0;
    bool ascii = true;
    infq_buf low;

    infq_buf_init(&low);
    infq_lower(s, n, &low);
    score(low.data, low.n, want, points);
    for (size_t i = 0; i < low.n; i++)
        ascii = ascii && (unsigned char)low.data[i] < 0x80;
    infq_buf_deinit(&low);
    for (size_t i = 0; i < N_LANGUAGES; i++) {
        if (languages[i].s != want)
            continue;
        of_script++;
        if (best == N_LANGUAGES || points[i] > points[best])
            best = i;
    }
    if (of_script > 1 && points[best] == 0)
        return want == LATIN && ascii ? "en" : "";
    return languages[best].code;
}

const char *infq_language_of(const char *text, size_t n)
{
    int64_t letters[N_SCRIPTS] = { 0 };
    int best = 0;
    size_t len;

    for (size_t at = 0; at < n; at += len) {
        int s = script_of(infq_utf8_next(text + at, n - at, &len));
        if (s >= 0)
            letters[s]++;
    }
    if (letters[KANA] > 0) // Japanese is written with Han too
        letters[KANA] += letters[HAN];
    for (int s = 1; s < N_SCRIPTS; s++)
        if (letters[s] > letters[best])
            best = s;
    return letters[best] > 0 ? best_of(text, n, (script)best) : NULL;
}
