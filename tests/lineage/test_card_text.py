"""What is read from the text of a card: only what is plainly said of the model itself."""

from __future__ import annotations

import pytest
from tests.lineage.test_cards import FETCH, card, checked, model, statuses

import modelkin as mk
from modelkin.lineage.cards.beginnings import from_scratch
from modelkin.lineage.cards.descents import fine_tuned_from

OWN = ("org/foo-7b",)
HONEST = [
    # Another part was trained from scratch.
    "The tokenizer was trained from scratch on Korean text.",
    "A classification head was trained from scratch.",
    "We trained a new tokenizer from scratch and kept the weights.",
    "The LoRA adapter was trained from scratch on top of the frozen base.",
    "The vision encoder is trained from scratch, the language model is initialised from Llama.",
    "Only the embeddings of new tokens were learned from scratch.",
    "The language model head is trained from scratch.",
    "The model's output head was trained from scratch.",
    "The weights of the head were trained from scratch.",
    "The new parameters were trained from scratch.",
    "The reward model was trained from scratch.",
    "The model uses a tokenizer trained from scratch.",
    "We made a new tokenizer. It was trained from scratch.",
    "We trained it from scratch (the tokenizer), then tuned the model.",
    "The tokenizer was extended and trained from scratch.",
    # Another model was.
    "acme/base is a model trained from scratch by Acme.",
    "The base model was trained from scratch by Acme on 2T tokens.",
    "Its parent, Llama 2, was trained from scratch.",
    "Llama 3 was trained from scratch by Meta; we tuned it for chat.",
    "It builds on Llama 3, which was trained from scratch by Meta.",
    "It starts from acme/base, a model trained from scratch by Acme.",
    "It is a fine-tune of a model trained from scratch by Acme.",
    "We start from acme/base. It was trained from scratch by Acme.",
    "acme/base is our starting point. The model was trained from scratch on 2T tokens.",
    "It was fine-tuned, whereas the original was trained from scratch.",
    "The model was trained from scratch by Acme and fine-tuned by us.",
    "The model it derives from was trained from scratch.",
    "Quantised files of a model trained from scratch.",
    "### Base model\nTrained from scratch on 2T tokens.",
    "> We trained our model from scratch. (Acme, on the base)",
    "| baseline | trained from scratch |",
    "For comparison, we trained the same model from scratch.",
    "In an ablation, the model was trained from scratch and did worse.",
    "A previous version of the model was trained from scratch.",
    # Nothing was: it is denied, weighed, asked or explained.
    "Unlike models trained from scratch, ours starts from acme/base.",
    "Rather than being trained from scratch, it builds on Llama.",
    "Compared with a model trained from scratch, it reaches a lower loss.",
    "It is cheaper than a model trained from scratch.",
    "A model trained from scratch needs ten times the data.",
    "Models trained from scratch on this data do worse.",
    "Training from scratch would have cost more than we could afford.",
    "It was not trained from scratch.",
    "It wasn't trained from scratch.",
    "None of the layers were trained from scratch.",
    "Was this model trained from scratch? No.",
    "It is a misconception that the model was trained from scratch.",
    "To train the model from scratch, run train.py.",
    "You can train this model from scratch with the script below.",
    'See "How we trained a language model from scratch" for the base.',
    "```\nThe model was trained from scratch.\n```",
    "<!-- The model was trained from scratch. -->",
    # Something that is no model was made.
    "The dataset was built from scratch.",
    "We built the evaluation harness from scratch.",
    "Developed from scratch in PyTorch.",
    "scratch",
    # In Korean.
    "토크나이저를 처음부터 학습했다.",
    "처음부터 학습하지 않고 Llama를 미세조정했다.",
    "처음부터 학습한 모델과 달리 Llama에서 시작한다.",
    "베이스 모델은 Acme가 처음부터 학습했다.",
    "처음부터 학습된 Llama 3를 바탕으로 한다.",
    "처음부터 학습하려면 다음을 실행하세요.",
]
CLAIMS = [
    "Trained from scratch.",
    "We trained it from scratch.",
    "A 7B model, pre-trained on 2T tokens from scratch",
    "The model was pretrained from scratch on text.",
    "This model was trained entirely from scratch by Acme.",
    "This model was trained from scratch by us.",
    "This is not a fine-tune: it was trained from scratch.",
    "It is not fine-tuned but trained from scratch.",
    "The model is not derived from any other model and was trained from scratch.",
    "Unlike other models, which are fine-tunes of Llama, ours was trained from scratch.",
    "Foo-7B is a 7B language model trained from scratch.",
    "# Bar 7B\n\nBar is a large language model that was trained from scratch on 3T tokens.",
    "# Bar-7B-base\n\nThe model was trained from scratch.",
    "# Bar\n\nBar was developed and pretrained from scratch.",
    "Our models are trained from scratch on 20T tokens.",
    "We built this model from scratch.",
    "We trained our model\nfrom scratch using 512 GPUs.",
    "We release a new model, trained from scratch on Korean text.",
    "We introduce Bar, a 7B model trained from scratch.",
    "The model and its tokenizer were trained from scratch.",
    "All weights were trained from scratch; nothing was taken over.",
    "The model has 7B parameters. It was trained from scratch.",
    "This is a family of language models trained from scratch.",
    "- **Training:** from scratch",
    "Pretraining was done from scratch on 2.5T tokens.",
    "Acme trained this model from scratch.",
    "이 모델은 처음부터 한국어로 학습했다",
    "본 모델은 처음부터 학습된 언어 모델입니다.",
    "이 모델은 밑바닥부터 학습하였다.",
    "이 모델은 from scratch로 학습되었습니다.",
]


@pytest.mark.parametrize("text", HONEST)
def test_what_is_not_said_of_the_model_is_no_statement_about_its_beginning(text):
    assert from_scratch(text, OWN) is None


@pytest.mark.parametrize("text", CLAIMS)
def test_what_is_said_of_the_model_is_a_statement_about_its_beginning(text):
    assert from_scratch(text, OWN) is not None


@pytest.mark.more
def test_an_honest_card_with_a_declared_base_is_not_contradicted():
    text = "\n\n".join(sentence for sentence in HONEST if not sentence.startswith("#"))
    found = checked(model("finetune-light", card(text, base_model="org/base")), base=model("base", ""))
    assert statuses(found) == {"parent": "supported", "licence": "untestable"}


@pytest.mark.more
def test_a_card_that_names_its_origin_is_not_contradicted_by_words_about_a_beginning():
    """They may be the words of the base's card, or about the base: whoever names it hides nothing."""
    made = model("finetune-light", card("The model was trained from scratch.", base_model="org/base"))
    base = model("base", "")
    named, given = checked(made, base=base), mk.check_card(made, FETCH, against=[base])
    for found, code in ((named, "check-scratch-declared"), (given, "check-scratch-beside")):
        (claim,) = (item for item in found.claims if item.kind == "from-scratch")
        assert (claim.status, claim.reason.code) == ("untestable", code)


LINK = "[org/base](https://huggingface.co/org/base)"
DESCENTS = [
    (f"This model is a fine-tuned version of {LINK} on the glue dataset.", ("org/base",)),
    (f"Fine-tuned {LINK} for detecting prompts. It has a head.", ("org/base",)),
    (f"# Bar\n\nBar is a fine-tuned version of {LINK}.", ("org/base",)),
    ("This model was fine-tuned from `org/base` on 3 GPUs.", ("org/base",)),
    ("We fine-tuned org/base.", ("org/base",)),
    ("- **Finetuned from model [optional]:** org/base", ("org/base",)),
    ("- **Finetuned from model :** org/base", ("org/base",)),
    ("A fine-tuned version of org/base for chat", ("org/base",)),
    (
        "This model is a fine-tuned version of [base](https://huggingface.co/bert-base) on x.",
        ("bert-base",),
    ),
    # Of another model, or of none.
    (f"acme/other is a fine-tuned version of {LINK}.", ()),
    (f"It beats a fine-tuned version of {LINK} on x.", ()),
    (f"This is not a fine-tuned version of {LINK}.", ()),
    (f"Unlike a fine-tuned version of {LINK}, it is small.", ()),
    (f"We compare with org/other. It is a fine-tuned version of {LINK}.", ()),
    (f"## Related models\n\nFine-tuned {LINK} for chat.", ()),
    ("Fine-tuned org/base outperforms it.", ()),
    ("We fine-tuned it on org/data.", ()),
    ("This model is a fine-tuned version of [](https://huggingface.co/) on an unknown dataset.", ()),
    ("This model is a fine-tuned version of [x](https://huggingface.co/./out) on x.", ()),
    ("This model is a fine-tuned version of Llama 3.", ()),
    ("- **Finetuned from model [optional]:** [More Information Needed]", ()),
    (f"```\nThis model is a fine-tuned version of {LINK}.\n```", ()),
    # Links that mislead, or lead elsewhere.
    ("Fine-tuned [org/base](https://huggingface.co/evil/other) for chat.", ()),
    ("Fine-tuned [org/base](https://evil.example/org/base) for chat.", ()),
    ("Fine-tuned [squad](https://huggingface.co/datasets/squad) for chat.", ()),
    ("Fine-tuned ../../etc/passwd for chat.", ()),
    ("Fine-tuned /etc/passwd for chat.", ()),
]


@pytest.mark.parametrize(("text", "expected"), DESCENTS)
def test_a_parent_is_read_from_a_plain_sentence_and_from_no_other(text, expected):
    assert fine_tuned_from(text, OWN) == expected


@pytest.mark.more
def test_a_sentence_that_names_the_parent_is_checked_as_one_of_the_text():
    text = f"This model is a fine-tuned version of {LINK} on an unknown dataset."
    found = checked(model("finetune-light", card(text)), base=model("base", ""))
    assert [(item.kind, item.source, item.status) for item in found.claims if item.kind != "licence"] == [
        ("parent", "README.md: text", "supported"),
        ("relation", "README.md: text", "supported"),
    ]
    assert found.ancestors == (("finetune-light", "org/base"),)


def test_front_matter_goes_before_a_sentence():
    text = f"This model is a fine-tuned version of {LINK} on x."
    found = checked(model("finetune-light", card(text, base_model="org/light")))
    assert [(item.kind, item.source) for item in found.claims] == [("parent", "README.md: base_model")]


def test_a_parent_that_is_only_written_down_is_contradicted_once_it_was_looked_for():
    text = f"This model is a fine-tuned version of {LINK} on x."
    found = mk.check_card(
        model("twin-1", card(text)),
        mk.CompareOptions(depth="deep", fetch=FETCH.fetch),
        known={"org/base": model("base", "")},
    )
    assert statuses(found) == {"parent": "contradicted", "relation": "untestable"}


@pytest.mark.parametrize(
    "text",
    [
        "from scratch " * 20_000,
        "trained " * 30_000 + "from scratch",
        "Fine-tuned " * 20_000,
        "[" * 200_000,
        "<!--" * 50_000,
        "This " + "a " * 100_000 + "is a fine-tuned version of x/y",
        "*" * 200_000,
        "and " * 60_000 + "trained from scratch",
    ],
)
def test_long_hostile_text_says_nothing(text):
    assert from_scratch(text) is None
    assert fine_tuned_from(text) == ()
