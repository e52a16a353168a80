"""Makes tokenizer_steps.json: what the tokenizers library (0.23.3) does with every normalizer, pre-tokenizer, decoder, option of
the model and flag of an added token that infq reads. Author's step; the test needs only the file.

One BPE model, trained on the strings themselves without splitting, so that merges cross blanks and punctuation and the
ids show where a pre-tokenizer cuts. Every case: members of tokenizer.json that replace those of the base, then runs
[text, ids, ids with special tokens, text of the ids, the same without special tokens].
"""
import copy
import json
import os

import tokenizers
from tokenizers import Tokenizer, models, trainers

HERE = os.path.dirname(os.path.abspath(__file__))
TEXTS = ["", " ", "   ", "a", "the cat  sat on the mat.", " leading and trailing ", "Hello, World!! It's 12345 o'clock.", "tab\tand\nnewline\r\n\r\n  x",
         "caf\u00e9 cafe\u0301 \u00c5ngstr\u00f6m \ufb01n \u2460 \u00bd", "\u0130stanbul STRASSE \u1e9e \u03a3\u03a3", "\u4f60\u597d\uff0c\u4e16\u754c 123", "\u2581the\u2581\u2581cat", "a\u00a0b\u2003c\u3000d\u180ee",
         "don't stop 'S", "x1y22z333 4,5", "[MASK]the[MASK] cat [MASK]", "a<l>b <l> c", "a<r>b <r> c", "wordy word words word", "the <s> cat</s>", "snake_case __x__ a-b", "\U0001f600 hi\U0001f600",
         "q\u0323\u0307 q\u0307\u0323 e\u0301\u0301", "aaa", "the the the", "<0x41><0x0A>", "Q~|^`$+<=>", "\ud55c\uad6d\uc5b4 \u1112\u1161\u11ab", "0.5e-3 100%", "CAFÉ café"]
REGEX = {"llama3": r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+", "words": r"\w+", "not_words": r"[^\w\s]+", "blanks": r"\s", "visible": r"\S+",
         "empty": r"x*", "lines": r"^.", "ends": r".$", "han": r"\p{Han}+|[\S]"}


def base():
    t = Tokenizer(models.BPE(unk_token="<unk>"))
    t.train_from_iterator(TEXTS * 3, trainers.BpeTrainer(vocab_size=420, special_tokens=["<unk>", "<s>", "</s>"], show_progress=False, min_frequency=3))
    j = json.loads(t.to_str())
    for hex_byte in range(256):
        j["model"]["vocab"].setdefault(f"<0x{hex_byte:02X}>", len(j["model"]["vocab"]))
    return j


def tok(content, **flags):
    return {**dict(id=0, content=content, single_word=False, lstrip=False, rstrip=False, normalized=False, special=False), **flags}


def cases(b):
    n = len(b["model"]["vocab"])
    model = lambda **kw: {"model": kw}
    out = [("base", {})]
    pre = lambda name, *steps: out.append((name, {"pre_tokenizer": steps[0] if len(steps) == 1 else {"type": "Sequence", "pretokenizers": list(steps)}}))
    norm = lambda name, *steps: out.append((name, {"normalizer": steps[0] if len(steps) == 1 else {"type": "Sequence", "normalizers": list(steps)}}))
    dec = lambda name, *steps: out.append((name, {"decoder": steps[0] if len(steps) == 1 else {"type": "Sequence", "decoders": list(steps)}}))
    for form in ("NFC", "NFD", "NFKC", "NFKD", "Lowercase", "StripAccents"):
        norm(form, {"type": form})
    norm("NFD StripAccents", {"type": "NFD"}, {"type": "StripAccents"})
    norm("Strip", {"type": "Strip", "strip_left": True, "strip_right": True})
    norm("Strip left", {"type": "Strip", "strip_left": True, "strip_right": False})
    norm("Prepend", {"type": "Prepend", "prepend": "\u2581"})
    norm("Replace string", {"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"})
    norm("Replace regex", {"type": "Replace", "pattern": {"Regex": r"\s{2,}"}, "content": "<>"})
    norm("Llama legacy", {"type": "Prepend", "prepend": "\u2581"}, {"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"})
    norm("ByteLevel", {"type": "ByteLevel"})
    for behavior in ("Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous"):
        for invert in (False, True):
            pre(f"Split a string {behavior} {invert}", {"type": "Split", "pattern": {"String": "a"}, "behavior": behavior, "invert": invert})
            pre(f"Split blanks {behavior} {invert}", {"type": "Split", "pattern": {"Regex": REGEX["blanks"]}, "behavior": behavior, "invert": invert})
        pre(f"Split empty {behavior}", {"type": "Split", "pattern": {"Regex": REGEX["empty"]}, "behavior": behavior, "invert": False})
        pre(f"Punctuation {behavior}", {"type": "Punctuation", "behavior": behavior})
    for name in ("llama3", "words", "not_words", "visible", "lines", "ends", "han"):
        pre(f"Split {name}", {"type": "Split", "pattern": {"Regex": REGEX[name]}, "behavior": "Isolated", "invert": False})
    pre("Split empty string", {"type": "Split", "pattern": {"String": ""}, "behavior": "Isolated", "invert": False})
    pre("Digits", {"type": "Digits", "individual_digits": False})
    pre("Digits single", {"type": "Digits", "individual_digits": True})
    pre("Whitespace", {"type": "Whitespace"})
    pre("WhitespaceSplit", {"type": "WhitespaceSplit"})
    bl = lambda prefix, regex: {"type": "ByteLevel", "add_prefix_space": prefix, "trim_offsets": True, "use_regex": regex}
    pre("ByteLevel", bl(False, True))
    pre("ByteLevel prefix", bl(True, True))
    pre("ByteLevel no regex", bl(True, False))
    pre("Digits ByteLevel", {"type": "Digits", "individual_digits": True}, bl(False, True))
    for scheme in ("always", "first", "never"):
        for split in (False, True):
            pre(f"Metaspace {scheme} {split}", {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": scheme, "split": split})
    dec("Fuse", {"type": "Fuse"})
    dec("ByteLevel decoder", bl(False, True))
    dec("Replace", {"type": "Replace", "pattern": {"String": "t"}, "content": "TT"})
    dec("Replace by regex", {"type": "Replace", "pattern": {"Regex": r"\s+"}, "content": "_"})
    dec("Strip", {"type": "Strip", "content": " ", "start": 1, "stop": 0})
    dec("Strip two", {"type": "Strip", "content": "a", "start": 2, "stop": 0})
    dec("Llama", {"type": "Replace", "pattern": {"String": "\u2581"}, "content": " "}, {"type": "ByteFallback"}, {"type": "Fuse"}, {"type": "Strip", "content": " ", "start": 1, "stop": 0})
    dec("Metaspace", {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "always", "split": True})
    dec("Metaspace never", {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "never", "split": True})
    fewer = dict(vocab={k: v for k, v in b["model"]["vocab"].items() if len(k) > 1 or ord(k) < 128}, merges=[m for m in b["model"]["merges"] if all(ord(c) < 128 for c in "".join(m))])
    out.append(("unknown characters", model(**fewer)))
    out.append(("unknown characters fused", model(fuse_unk=True, **fewer)))
    out.append(("unknown characters vanish", model(unk_token=None, **fewer)))
    out.append(("byte fallback", model(byte_fallback=True, **fewer)))
    out.append(("byte fallback fused", model(byte_fallback=True, fuse_unk=True, **fewer)))
    out.append(("ignore merges", {"pre_tokenizer": {"type": "WhitespaceSplit"}, "model": {"ignore_merges": True, "merges": b["model"]["merges"][:20]}}))
    words = {"a": 0, "b": 1, "c": 2, "##a": 3, "##b": 4, "##c": 5, "ab": 6, "##bc": 7, "abc": 8, "<unk>": 9, "a</w>": 10, "b</w>": 11, "##c</w>": 12, "##b</w>": 13, "ab</w>": 14, "##bc</w>": 15}
    small = dict(vocab=words, merges=[["a", "##b"], ["##b", "##c"], ["ab", "##c"]])
    texts = ["abc", "ab", "aab cba", "bcbc abcabc", "b", "xay"]
    out.append(("continuing prefix", {"pre_tokenizer": {"type": "WhitespaceSplit"}, "added_tokens": [], "model": {"continuing_subword_prefix": "##", **small}, "texts": texts}))
    suffixed = dict(vocab=words, merges=[["a", "b</w>"]])
    out.append(("end suffix", {"pre_tokenizer": {"type": "WhitespaceSplit"}, "added_tokens": [], "model": {"end_of_word_suffix": "</w>", **suffixed}, "texts": texts}))

    def more(*extra):
        new = n
        for t in extra:
            if t["content"] in b["model"]["vocab"]:
                t["id"] = b["model"]["vocab"][t["content"]]
            else:
                t["id"], new = new, new + 1
        return {"added_tokens": b["added_tokens"] + list(extra)}

    out.append(("added", more(tok("[MASK]", special=True), tok("<l>", lstrip=True), tok("<r>", rstrip=True), tok("word", single_word=True))))
    out.append(("added normalized", {**more(tok("caf\u00e9", normalized=True), tok("CAT", normalized=True), tok("the")), "normalizer": {"type": "Sequence", "normalizers": [{"type": "NFD"}, {"type": "Lowercase"}]}}))
    out.append(("added longest", more(tok("the"), tok("the cat"), tok("  ", normalized=True), tok("   ", normalized=True))))
    out.append(("added first Metaspace", {**more(tok("<l>"), tok("[MASK]")), "pre_tokenizer": {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "first", "split": True}}))
    out.append(("added both sides", more(tok("<l>", lstrip=True, rstrip=True), tok("word", single_word=True, rstrip=True))))
    special = {"<s>": {"id": "<s>", "ids": [1], "tokens": ["<s>"]}, "</s>": {"id": "</s>", "ids": [2], "tokens": ["</s>"]}}
    piece = lambda kind, name: {kind: {"id": name, "type_id": 0}}
    template = {"type": "TemplateProcessing", "single": [piece("SpecialToken", "<s>"), piece("Sequence", "A"), piece("SpecialToken", "</s>")], "pair": [piece("Sequence", "A"), piece("Sequence", "B")], "special_tokens": special}
    out.append(("template", {"post_processor": template}))
    out.append(("template after ByteLevel", {"post_processor": {"type": "Sequence", "processors": [bl(True, True), template]}}))
    return out


def merged(b, c):
    j = copy.deepcopy(b)
    for k, v in c.items():
        if k == "model":
            j["model"].update(v)
        elif k != "texts":
            j[k] = v
    return j


def main():
    b = base()
    lines = []
    for name, c in cases(b):
        t = Tokenizer.from_str(json.dumps(merged(b, c)))
        runs = []
        for x in c.get("texts", TEXTS):
            ids, special = t.encode(x, add_special_tokens=False).ids, t.encode(x, add_special_tokens=True).ids
            runs.append([x, ids, special, t.decode(ids, skip_special_tokens=False), t.decode(ids, skip_special_tokens=True)])
        lines.append(json.dumps({"name": name, "set": {k: v for k, v in c.items() if k != "texts"}, "runs": runs}, separators=(",", ":")))
    with open(os.path.join(HERE, "tokenizer_steps.json"), "w", encoding="ascii") as f:
        f.write('{"library":"tokenizers %s","base":%s,\n"cases":[\n%s\n]}\n' % (tokenizers.__version__, json.dumps(b, separators=(",", ":")), ",\n".join(lines)))


main()
