"""Goals and triggers, as people state them in six languages, and what only looks like one."""

from __future__ import annotations

import pytest

from recollect.profile.deriving import Stated, stated

GOALS = [
    ("I want to sleep better.", "Sleep better"),
    ("i wanna sleep better", "Sleep better"),
    ("I\N{RIGHT SINGLE QUOTATION MARK}d like to write a book.", "Write a book"),
    ("I'd really like to feel safer at work, but my boss is loud.", "Feel safer at work"),
    ("My goal is to run a marathon in May.", "Run a marathon in May"),
    ("My goal for this year: learn Italian", "Learn Italian"),
    ("Honestly, I want to be kinder to myself because I am tired.", "Be kinder to myself"),
    ("I've always wanted to learn the piano!", "Learn the piano"),
    ("When I grow up, I want to be a pilot.", "Be a pilot"),
    ("Please help me, I want to stop smoking.", "Stop smoking"),
    ("Quiero dormir mejor.", "Dormir mejor"),
    ("Me gustaría sentirme más segura en el trabajo, pero es difícil.", "Sentirme más segura en el trabajo"),
    ("Mi objetivo es correr una maratón.", "Correr una maratón"),
    ("Quero dormir melhor.", "Dormir melhor"),
    ("Gostaria de me sentir mais calmo no trabalho.", "Me sentir mais calmo no trabalho"),
    ("O meu objetivo é aprender alemão.", "Aprender alemão"),
    ("Je veux mieux dormir.", "Mieux dormir"),
    ("J'aimerais me sentir plus calme au travail, mais c'est difficile.", "Me sentir plus calme au travail"),
    ("Mon objectif est de courir un marathon.", "Courir un marathon"),
    ("Ich möchte besser schlafen.", "Besser schlafen"),
    ("Dieses Jahr möchte ich mehr reisen.", "Mehr reisen"),
    ("Ich würde gerne ruhiger werden, aber die Arbeit ist laut.", "Ruhiger werden"),
    ("Mein Ziel ist es, einen Marathon zu laufen.", "Einen Marathon zu laufen"),
    ("Voglio dormire meglio.", "Dormire meglio"),
    ("Vorrei sentirmi più calma al lavoro, ma è difficile.", "Sentirmi più calma al lavoro"),
    ("Il mio obiettivo è correre una maratona.", "Correre una maratona"),
]

TRIGGERS = [
    ("When I speak in public, I want to feel calm.", "I speak in public", "Feel calm"),
    ("Whenever my boss shouts I'd like to stay calm.", "My boss shouts", "Stay calm"),
    ("I want to stay calm when people interrupt me.", "People interrupt me", "Stay calm"),
    ("Public speaking triggers me.", "Public speaking", ""),
    ("Loud noises make me really anxious, I'd rather feel at ease.", "Loud noises", "Feel at ease"),
    ("I get nervous when my mother calls, I'd rather stay calm.", "My mother calls", "Stay calm"),
    ("When my boss is loud, I get anxious, I'd rather be calm.", "My boss is loud", "Be calm"),
    ("I was at work and my boss makes me feel small.", "My boss", ""),
    ("I think deadlines stress me out.", "Deadlines", ""),
    ("Cuando hablo en público, quiero sentirme tranquila.", "Hablo en público", "Sentirme tranquila"),
    ("Las multitudes me ponen muy nerviosa, preferiría estar en casa.", "Las multitudes", "Estar en casa"),
    ("Me pongo nervioso cuando llama mi madre.", "Llama mi madre", ""),
    ("Quando falo em público, quero me sentir segura.", "Falo em público", "Me sentir segura"),
    ("Multidões me deixam ansioso, preferia ficar calmo.", "Multidões", "Ficar calmo"),
    ("A crítica deixa-me nervosa.", "A crítica", ""),
    ("Quand je parle en public, je voudrais rester calme.", "Je parle en public", "Rester calme"),
    ("La foule me rend anxieuse, je préférerais rester calme.", "La foule", "Rester calme"),
    ("Les critiques m'angoissent.", "Les critiques", ""),
    (
        "Wenn ich vor Leuten spreche, möchte ich mich sicher fühlen.",
        "Ich vor Leuten spreche",
        "Mich sicher fühlen",
    ),
    ("Menschenmengen machen mir Angst, ich wäre lieber gelassen.", "Menschenmengen", "Gelassen"),
    ("Ich werde nervös, wenn meine Mutter anruft.", "Meine Mutter anruft", ""),
    ("Quando parlo in pubblico, vorrei sentirmi sicura.", "Parlo in pubblico", "Sentirmi sicura"),
    ("La folla mi mette ansia, preferirei stare tranquillo.", "La folla", "Stare tranquillo"),
]

NEITHER = {
    "a question": ["Do I want to leave?", "¿Quiero dormir?", "What makes me anxious?"],
    "a refusal": [
        "I don't want to talk about it.",
        "No quiero dormir.",
        "Não quero falar disso.",
        "Je ne veux pas parler de ça.",
        "Ich will nicht darüber reden.",
        "Non voglio parlarne.",
    ],
    "denied": [
        "Crowds never make me nervous.",
        "Las multitudes no me ponen nerviosa.",
        "La foule ne me rend pas anxieuse.",
        "Kritik stresst mich nicht.",
        "La folla non mi mette ansia.",
    ],
    "the words of another": [
        "She said I want to leave.",
        "My mother says that crowds make me anxious.",
        '"I want to leave," said my sister.',
        "> I want to leave",
        "Assistant: I want to be of use.",
        "I want to help you.",
    ],
    "a request": [
        "I want to know how late it is.",
        "I want you to call me.",
        "I want to order the blue one, please.",
        "Quiero una pizza.",
        "Ich möchte wissen, wie spät es ist.",
        "Voglio sapere che ore sono.",
    ],
    "a condition": ["If I win, I want to travel."],
    "about nothing in particular": ["It makes me anxious.", "He makes me angry.", "I want to do that too."],
    "the past": ["Ich mochte den Film mit den Tieren.", "I wanted to leave yesterday."],
    "code": ["```\nI want to run\n```"],
    "a cry for help": [
        "I want to die.",
        "I just want to disappear.",
        "Quiero morir.",
        "Quero morrer.",
        "Je veux mourir.",
        "Ich möchte sterben.",
        "Voglio morire.",
    ],
}


@pytest.mark.parametrize(("said", "goal"), GOALS)
def test_a_wish_said_in_the_first_person_is_a_goal_in_its_own_words(said: str, goal: str) -> None:
    assert stated(said) == [Stated("goal", goal)]


@pytest.mark.parametrize(("said", "trigger", "outcome"), TRIGGERS)
def test_what_upsets_is_a_trigger_and_what_is_wanted_instead_its_outcome(
    said: str, trigger: str, outcome: str
) -> None:
    assert stated(said) == [Stated("trigger", trigger, outcome)]


@pytest.mark.parametrize(
    "said", [pytest.param(said, id=f"{why}: {said}") for why, several in NEITHER.items() for said in several]
)
def test_nothing_is_made_of_what_only_sounds_like_it(said: str) -> None:
    assert stated(said) == []


def test_several_goals_of_one_text_come_in_their_order() -> None:
    said = "This year I want to travel and I want to read more books. I don't want to rush, I want to rest."
    assert [each.text for each in stated(said)] == ["Travel", "Read more books", "Rest"]


def test_a_language_may_be_given() -> None:
    said = "I want to rest. Quiero dormir mejor."
    assert [each.text for each in stated(said, "spanish")] == ["Dormir mejor"]


def test_what_is_long_is_cut_at_a_word() -> None:
    (goal,) = stated("I want to " + "walk " * 100)
    assert len(goal.text) <= 300
    assert goal.text.endswith("walk…")


@pytest.mark.parametrize(
    "repeated", ["really ", "realmente ", "vraiment ", "when ", "makes me ", "it ", "I want to ", ", and I "]
)
@pytest.mark.parametrize("begin", ["I ", "I want to ", "When ", "Me pone ", "Voglio "])
def test_no_pattern_runs_away(begin: str, repeated: str) -> None:
    """One that did would not come back before the test's time is up."""
    stated((begin + repeated * 600)[:590])
