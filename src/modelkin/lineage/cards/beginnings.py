"""Sentences that say a model was trained from scratch, and the many that only seem to.

A sentence counts only if it plainly says so of the model itself: "the tokenizer was trained from scratch",
"unlike models trained from scratch" and "the base was trained from scratch by its makers" are about something
else. What is overlooked stays unchecked; what is misread accuses an honest card.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass

from .prose import Sentence, plain, sentences, title, words_of

_LONGEST = 160
"""Characters of a card that are quoted: a sentence, not a page."""
_REACH = 80
"""Characters between the verb and "from scratch"."""
_SCRATCH = re.compile(r"\bfrom scratch\b", re.IGNORECASE)
_VERB = re.compile(
    r"\b(?:(?:pre-?)?train(?:ed|ing)?|built|developed|learned|learnt|made|created)\b", re.IGNORECASE
)
_FINITE = r"is|are|was|were|has|have|had|does|do|did|will"
_BREAK = re.compile(
    r"[,;:()\u2013\u2014]|\b(?:but|while|whereas|although|though|because|since)\b"
    rf"|\band\b(?=\s+(?:{_FINITE}|then|we|it|this|our|(?:pre-?)?trained|built|developed)\b)",
    re.IGNORECASE,
)
_DENIED = re.compile(
    r"\b(?:not|never|no|none|neither|nor|without|instead|rather|than|unlike|like|compared|versus|vs|against|"
    r"if|whether|when|how|to|would|could|can|cannot|may|might|should|must|or)\b|n['\u2019]t\b",
    re.IGNORECASE,
)
"""In the words around the verb: what is denied, weighed or only possible is not claimed."""
_COMPARED = re.compile(
    r"\b(?:unlike|than|compared|versus|vs|contrast|contrary|instead|rather)\b", re.IGNORECASE
)
_PASSIVE = re.compile(
    r"(?:^|\s)(?:is|are|was|were|has been|have been|had been|is being)"
    r"(?:\s+(?:\w+ly|also|then|first|instead))*\s*$",
    re.IGNORECASE,
)
_WE = re.compile(r"\b(?:we|i)(?:['\u2019]ve|\s+(?:have|\w+ly|also|then|first))*\s*$", re.IGNORECASE)
_COPULA = re.compile(r"\s(?:is|are|was|were)\s", re.IGNORECASE)
_SHOWN = re.compile(
    r"(?:\b(?:introduc|present|releas|publish|open-?sourc|announc)\w*|^this is|^meet)"
    r"(?:\s+[\w./-]+){1,6}\s*$",
    re.IGNORECASE,
)
"""Before an apposition: what is presented is the model itself."""
_MANY = re.compile(r"\b(?:family|series|suite|collection|set|range|group)\s+of\b", re.IGNORECASE)
_TAKEN = re.compile(r"\b(?:of(?!\s+\d)|from|on|upon|onto|over|to|by|after|against)\b", re.IGNORECASE)
"""Words that put another thing before the verb: a fine-tune of a model trained from scratch."""
_FURTHER = re.compile(
    r"\b(?:of(?!\s+\d)|for|with|in|on|by|from|using|at|to|over|upon|based)\b", re.IGNORECASE
)
_OWN = words_of("model models network llm llms lm slm checkpoint transformer weights parameters")
_WHOLE = frozenset({"weights", "parameters"})
_OURS = frozenset({"this", "these"})
_PLAIN = words_of(
    "the our all both its language large small full entire whole final resulting released present new "
    "causal autoregressive generative multilingual bilingual transformer decoder-only encoder-only "
    "encoder-decoder chat instruct code"
)
"""Words before a noun that do not make it another one; sizes are among them too."""
_OF_IT = re.compile(
    r"\bof (?:this|the|our) model$|\bof \d|\b(?:family|series|suite|collection) of\b", re.IGNORECASE
)
_OTHERS = words_of(
    "a an any some another other others such similar comparable every each most many base original "
    "parent source underlying upstream reward teacher draft student vision speech audio image baseline "
    "previous earlier former pre-existing reference their his her its guard embedding"
)
"""Before a noun: it is not, or need not be, the model of the card."""
_ASIDE = re.compile(
    r"\b(?:baselines?|comparison|ablations?|myths?|misconception|assumed|believed|claims?|earlier|previous\w*|"
    r"former|first version|(?:tun|adapt)ed(?: \w+){0,2} by us|also trained)\b"
    r"|\bwe (?:then |further )?(?:fine-?)?tun|\?\s*$|\bfor\b.*\bonly\b",
    re.IGNORECASE,
)
"""Anywhere in a sentence: it speaks of another model, or of what others say or did."""
_ELSEWHERE = re.compile(
    r"\b(?:base|parent|original|background|related|baselines?|comparison|compared|references?|citation|usage|"
    r"how to|tokeni[sz]er|vocabulary|train your own|your own|acknowledge?ments?|credits|datasets?)\b",
    re.IGNORECASE,
)
"""In the heading of a section: it is about something else."""
_KOREAN = re.compile(r"(?:처음부터|밑바닥부터|from scratch(?:로|부터))[^.\n]{0,20}?학습", re.IGNORECASE)
_KOREAN_SAID = re.compile(
    r"(?:을\s(?:진행|수행|완료))?(?:했|하였|되었|됐|시켰|합니다|한다|됩니다|된다|됨|함)"
    r"|(?:된|한|시킨)\s(?:\S+\s){0,3}?\S*모델(?:입니다|이다|임|\.|$)"
)
"""After it: that it was done, of the model that is spoken of. A model so trained may also be the base."""
_KOREAN_OTHERS = re.compile(
    r"토크나이저|어휘|헤드|분류기|어댑터|임베딩|레이어|층|인코더|데이터|코드|베이스|기반|기본|원본|부모|보상|교사|비교"
    r"|다른|타 모델|기존|tokenizer|base|adapter|head",
    re.IGNORECASE,
)
_KOREAN_TOPIC = re.compile(r"(\S+?)(?:은|는|이|가|을|를|도)(?:\s|$)")


def from_scratch(text: str, own: Collection[str] = ()) -> str | None:
    """Return the words that say a model was trained from scratch, or None.

    Parameters
    ----------
    text
        Of the card, without its front matter.
    own
        What the model is called, besides the title of the card.
    """
    names = {_key(name) for name in (*own, title(text))} - {""}
    for sentence in sentences(text):
        if is_about_others(sentence):
            continue
        words = _english(sentence, names) or _korean(plain(sentence.text), names)
        if words:
            words = words[:_LONGEST]
            return words if words.isprintable() else None
    return None


def is_about_others(sentence: Sentence) -> bool:
    """Say whether a sentence stands in a section about something else: a base, related work, its use."""
    return sentence.text != sentence.heading and _ELSEWHERE.search(plain(sentence.heading)) is not None


def is_name_of(words: str, names: Collection[str]) -> bool:
    """Say whether words are one of the names of a model, up to its owner, size and punctuation."""
    return _key(words) in {_key(name) for name in names} - {""}


def _key(name: str) -> str:
    """Return a name as it is compared: without owner, size and punctuation."""
    last = re.sub(
        r"\b\d+(?:\.\d+)?\s?[bm]\b|\bmodel\b", " ", name.rpartition("/")[2].lower().replace("_", "-")
    )
    return re.sub(r"[\W_]", "", last)


def _english(sentence: Sentence, names: Collection[str]) -> str | None:
    text = plain(sentence.text)
    if _ASIDE.search(text):
        return None
    for scratch in _SCRATCH.finditer(text):
        verbs = [*_VERB.finditer(text, max(0, scratch.start() - _REACH), scratch.start())]
        if not verbs or text.count('"', 0, scratch.start()) % 2:
            continue
        verb = verbs[-1]
        breaks = [found for found in _BREAK.finditer(text) if found.end() <= verb.start()]
        start = breaks[-1].end() if breaks else 0
        said = _Clause(
            lead=text[start : verb.start()].strip(),
            verb=verb[0].lower(),
            between=text[verb.end() : scratch.start()].strip(),
            rest=text[scratch.end() :],
            earlier=text[: breaks[-1].start()].strip() if breaks else "",
            joint=breaks[-1][0].lower() if breaks else "",
            before=plain(sentence.before),
            names=names,
        )
        if said.is_of_the_model():
            return text[verb.start() : scratch.end()]
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Clause:
    """The words around one "trained … from scratch"."""

    lead: str = ""
    """From the beginning of the clause to the verb."""
    verb: str = ""
    between: str = ""
    """From the verb to "from scratch"."""
    rest: str = ""
    earlier: str = ""
    """The sentence before the clause."""
    joint: str = ""
    """What joins the clause to that."""
    before: str = ""
    """The sentence before this one."""
    names: Collection[str]

    def is_of_the_model(self) -> bool:
        """Say whether it is the model of the card that was trained."""
        if _DENIED.search(self.lead) or _DENIED.search(self.between):
            return False
        if self.verb.endswith("ing"):
            # Training as a noun: "training from scratch is costly" says nothing of what was done.
            done = re.match(
                r"(?:was|is)\s+(?:done|performed|carried out|conducted|run)\b|:\W*$", self.between
            )
            return done is not None and self.lead.lower() in ("", "the", "its", "our", "all", "model")
        if _WE.search(self.lead):
            made = _FURTHER.split(self.between)[0].strip()
            return self._trains if not made else self._is_own(made, free=True)
        if self.verb.endswith("train"):
            return False  # an instruction
        passive = _PASSIVE.search(self.lead)
        if passive is None and re.match(r"(?:this|these)\s", self.between, re.IGNORECASE):
            return self._is_own(_FURTHER.split(self.between)[0].strip())
        return self._is_subject(self.lead[: passive.start()].strip() if passive else self.lead, bool(passive))

    @property
    def _trains(self) -> bool:
        """Whether the verb says so without an object: what is built or developed may be code."""
        return "train" in self.verb

    def _is_subject(self, subject: str, passive: bool) -> bool:
        relative = re.search(r"(?:^|\s)(?:that|which)$", subject, re.IGNORECASE)
        if relative:
            subject = subject[: relative.start()].strip()
        if not subject:
            return self._continues(participle=relative is not None or not passive)
        copula = _COPULA.search(f"{subject} ")
        if copula:
            what = _MANY.sub("", subject[copula.end() - 1 :])
            return (
                self._is_own(subject[: copula.start()].strip())
                and _TAKEN.search(what) is None
                and self._is_own(what.strip(), free=True)
            )
        if not passive and _TAKEN.search(_MANY.sub("", subject)):
            return False
        if self.earlier and self.joint == "," and not passive:
            # An apposition: of what is presented, or of what the model was made from.
            return _SHOWN.search(self.earlier) is not None and self._is_own(subject, free=True)
        fragment = not passive and not self.earlier and not self._goes_on
        return self._is_own(subject, free=fragment)

    @property
    def _goes_on(self) -> bool:
        """Whether a verb follows: "a model trained from scratch needs more text"."""
        return not re.match(r"\s*(?:$|[.,;:!?()]|(?:on|by|with|using|in|for|at|over)\b)", self.rest) or bool(
            re.search(rf"\b(?:{_FINITE}|would|could|can|may|might|should|needs?|requires?)\b", self.rest)
        )

    def _continues(self, *, participle: bool) -> bool:
        """Judge a clause without a subject of its own by what stands before it."""
        if not self.earlier:
            return self._trains and self.joint == "" and not self._goes_on
        if _COMPARED.search(self.earlier):
            return False
        if participle and self.joint == "," and _TAKEN.search(_MANY.sub("", self.earlier)):
            return False  # it may be said of what the model was made from
        subject = _BREAK.split(_COPULA.split(f"{self.earlier} ")[0])[0].strip()
        subject = re.split(rf"\s(?:{_FINITE})\b", subject)[0]
        free = participle and _COPULA.search(f"{self.earlier} ") is None
        return self._is_own(subject, free=free) or (participle and _SHOWN.search(self.earlier) is not None)

    def _is_own(self, words: str, *, free: bool = False) -> bool:
        """Say whether words name the model of the card; `free`: any model that is not said to be another."""
        return any(self._one(part, free=free) for part in re.split(r"\s+(?:and|as well as)\s+", words))

    def _one(self, words: str, *, free: bool) -> bool:
        if _key(words) in self.names:
            return True
        noun = [word.strip(".,'\u2019\"") for word in _FURTHER.split(words)[0].lower().split()]
        if not noun or (len(noun) == 1 and noun[0] in ("this", "ours")):
            return bool(noun)
        if noun in (["it"], ["everything"]):
            return self._meant_by_it()
        if noun[-1] not in _OWN or (re.search(r"\sof\s", words) and not _OF_IT.search(words)):
            return False
        if any(word.endswith(("'s", "\u2019s")) for word in noun):
            return False
        if noun[-1] in _WHOLE:
            return {*noun} <= {"all", "the", "our", "its", "model", noun[-1]}
        if noun[0] in _OURS or free:
            return not (_OTHERS - {"a", "an"}) & {*noun}
        return noun[0] in _PLAIN and all(_is_plain(word) for word in noun[:-1]) and not self._names_another()

    def _names_another(self) -> bool:
        """Say whether the sentence before names a model by its owner, which "the model" may then be."""
        found = re.findall(r"[\w.-]+/[\w.-]+", self.before)
        return any(_key(name) not in self.names for name in found)

    def _meant_by_it(self) -> bool:
        """Say whether "it" is the model: the last thing that was spoken of, or nothing was."""
        spoken = self.earlier or self.before
        if not spoken:
            return re.match(r"\s*\(", self.rest) is None
        subject = re.split(rf"\s(?:{_FINITE})\b", spoken)[0].strip()
        return subject != spoken and _Clause(names=self.names)._is_own(subject)


def _is_plain(word: str) -> bool:
    """Say whether a word before a noun leaves it the model of the card."""
    return word in _PLAIN or re.fullmatch(r"[\d.]+[bmk]?", word) is not None


def _korean(text: str, names: Collection[str]) -> str | None:
    found = _KOREAN.search(text)
    if found is None or _KOREAN_SAID.match(text, found.end()) is None:
        return None
    before = text[: found.start()]
    if _KOREAN_OTHERS.search(before) or _KOREAN_OTHERS.search(found[0]):
        return None
    topic = _KOREAN_TOPIC.search(before)
    mine = topic is None or topic[1].endswith("모델") or _key(topic[1]) in names
    return found[0] if mine else None
