"""Sentences in seven languages: which of them are facts, and which question each answers."""

from __future__ import annotations

import pytest

from recollect.engine.extraction.models import Fact, Said
from recollect.engine.extraction.rules import extract

Expected = list[tuple[str, str | None]]

ENGLISH: list[tuple[str, Expected]] = [
    ("Hi, I'm Ana and I live in Rome.", [("I'm Ana", "name"), ("I live in Rome.", "home")]),
    (
        "My name is Ana, I'm 34 and I work for Acme.",
        [("My name is Ana", "name"), ("I'm 34", "age"), ("I work for Acme.", "employer")],
    ),
    ("Call me Ana.", [("Call me Ana.", "name")]),
    ("I moved to Berlin", [("I moved to Berlin", "home")]),
    ("I now live in Berlin.", [("I now live in Berlin.", "home")]),
    ("I live in the Netherlands.", [("I live in the Netherlands.", "home")]),
    ("i live in berlin", [("i live in berlin", "home")]),
    ("I've been living in Lisbon since 2019.", [("I've been living in Lisbon since 2019.", "home")]),
    ("I don't live in Berlin any more.", [("I don't live in Berlin any more.", "home")]),
    ("I used to live in Paris.", [("I used to live in Paris.", None)]),
    ("I moved to Paris as a child.", [("I moved to Paris as a child.", None)]),
    ("I lived in Paris for ten years.", [("I lived in Paris for ten years.", None)]),
    ("I live in a small apartment.", [("I live in a small apartment.", None)]),
    ("I moved to a new apartment.", [("I moved to a new apartment.", None)]),
    ("I was born in Chile.", [("I was born in Chile.", "birthplace")]),
    ("I was born in 1990.", [("I was born in 1990.", "birthday")]),
    ("By the way, my birthday is May 5.", [("my birthday is May 5.", "birthday")]),
    ("I work as a nurse at St. Mary's Hospital.", [("I work as a nurse at St. Mary's Hospital.", "job")]),
    ("I am a software engineer.", [("I am a software engineer.", "job")]),
    ("I quit my job.", [("I quit my job.", "employer")]),
    ("My email is ana@example.com.", [("My email is ana@example.com.", "email")]),
    ("My email: ana@example.com", [("My email: ana@example.com", "email")]),
    ("My phone number is +34 600 000 000", [("My phone number is +34 600 000 000", "phone")]),
    ("I got married last week", [("I got married last week", "marital status")]),
    ("My native language is Basque.", [("My native language is Basque.", "native language")]),
    ('My favourite movie is "Up".', [('My favourite movie is "Up".', "favourite:film")]),
    ("Teal is my favorite color.", [("Teal is my favorite color.", "favourite:colour")]),
    (
        "My favorite pizza topping is olives.",
        [("My favorite pizza topping is olives.", "favourite:pizza top")],
    ),
    ("I like coffee.", [("I like coffee.", "likes:coffe")]),
    ("I no longer like coffee", [("I no longer like coffee", "likes:coffe")]),
    ("I don't like coffee any more!", [("I don't like coffee any more!", "likes:coffe")]),
    ("Honestly, I hate coffee.", [("I hate coffee.", "likes:coffe")]),
    ("I prefer tea to coffee.", [("I prefer tea to coffee.", "likes:tea")]),
    ("I have a dog.", [("I have a dog.", "has:dog")]),
    ("I no longer have a dog.", [("I no longer have a dog.", "has:dog")]),
    ("I'm vegetarian.", [("I'm vegetarian.", "is:vegetarian")]),
    ("I'm no longer vegetarian.", [("I'm no longer vegetarian.", "is:vegetarian")]),
    ("Please remember that I'm allergic to nuts.", [("I'm allergic to nuts.", None)]),
    ("I'm vegan, any recipes?", [("I'm vegan", "is:vegan")]),
    ("I'm allergic to nuts so please suggest a recipe.", [("I'm allergic to nuts", None)]),
    ("Last week I bought a car.", [("Last week I bought a car.", None)]),
    ("My sister and I went to Paris.", [("My sister and I went to Paris.", None)]),
    ("I love my wife and my kids.", [("I love my wife and my kids.", "likes:wife and kid")]),
    ("My friend lives in Rome.", [("My friend lives in Rome.", None)]),
    ("I can't eat gluten.", [("I can't eat gluten.", None)]),
    ("I know three languages.", [("I know three languages.", None)]),
    ("We have two kids", [("We have two kids", "has:two kid")]),
]
SPANISH: list[tuple[str, Expected]] = [
    ("Hola, soy Ana y vivo en Madrid.", [("soy Ana", "name"), ("vivo en Madrid.", "home")]),
    (
        "Me llamo Ana, tengo 34 años y trabajo como enfermera.",
        [("Me llamo Ana", "name"), ("tengo 34 años", "age"), ("trabajo como enfermera.", "job")],
    ),
    ("Ahora vivo en Madrid.", [("Ahora vivo en Madrid.", "home")]),
    ("Me mudé a Valencia el año pasado.", [("Me mudé a Valencia el año pasado.", "home")]),
    ("Ya no vivo en Madrid.", [("Ya no vivo en Madrid.", "home")]),
    ("Antes vivía en París.", [("Antes vivía en París.", None)]),
    ("Trabajo en Google.", [("Trabajo en Google.", "employer")]),
    ("Me gusta el café.", [("Me gusta el café.", "likes:caf")]),
    ("Ya no me gusta el café.", [("Ya no me gusta el café.", "likes:caf")]),
    ("Prefiero el té al café.", [("Prefiero el té al café.", "likes:te")]),
    ("Mi color favorito es el azul.", [("Mi color favorito es el azul.", "favourite:colour")]),
    ("Estoy casado.", [("Estoy casado.", "marital status")]),
    ("Nací en Lima.", [("Nací en Lima.", "birthplace")]),
    ("Mi lengua materna es el quechua.", [("Mi lengua materna es el quechua.", "native language")]),
    ("Soy alérgica a los frutos secos.", [("Soy alérgica a los frutos secos.", None)]),
    ("Mi hermana vive en Lima.", [("Mi hermana vive en Lima.", None)]),
    ("Soy vegana, ¿qué puedo comer?", [("Soy vegana", "is:vegan")]),
]
GERMAN: list[tuple[str, Expected]] = [
    ("Hallo, ich bin Ana und wohne in Berlin.", [("ich bin Ana", "name"), ("wohne in Berlin.", "home")]),
    (
        "Ich heiße Jonas, bin 34 und arbeite als Lehrer.",
        [("Ich heiße Jonas", "name"), ("bin 34", "age"), ("arbeite als Lehrer.", "job")],
    ),
    ("Seit 2019 wohne ich in Berlin.", [("Seit 2019 wohne ich in Berlin.", "home")]),
    ("Ich bin nach Hamburg gezogen.", [("Ich bin nach Hamburg gezogen.", "home")]),
    ("Früher habe ich in Paris gewohnt.", [("Früher habe ich in Paris gewohnt.", None)]),
    ("Ich arbeite bei Siemens.", [("Ich arbeite bei Siemens.", "employer")]),
    ("Ich mag Kaffee.", [("Ich mag Kaffee.", "likes:kaffe")]),
    ("Ich mag keinen Kaffee mehr.", [("Ich mag keinen Kaffee mehr.", "likes:kaffe")]),
    ("Meine Lieblingsfarbe ist Blau.", [("Meine Lieblingsfarbe ist Blau.", "favourite:colour")]),
    ("Ich bin verheiratet.", [("Ich bin verheiratet.", "marital status")]),
    ("Ich wurde in Wien geboren.", [("Ich wurde in Wien geboren.", "birthplace")]),
    ("Ich wurde am 3. Mai 1990 geboren.", [("Ich wurde am 3. Mai 1990 geboren.", "birthday")]),
    ("Meine Muttersprache ist Deutsch.", [("Meine Muttersprache ist Deutsch.", "native language")]),
    ("Ich bin Veganer, was kann ich essen?", [("Ich bin Veganer", "is:vegan")]),
]
FRENCH: list[tuple[str, Expected]] = [
    ("Bonjour, je suis Ana et j'habite à Lyon.", [("je suis Ana", "name"), ("j'habite à Lyon.", "home")]),
    (
        "Je m\u2019appelle Ana, j\u2019ai 34 ans et je travaille comme infirmière.",
        [
            ("Je m\u2019appelle Ana", "name"),
            ("j\u2019ai 34 ans", "age"),
            ("je travaille comme infirmière.", "job"),
        ],
    ),
    ("J'habite maintenant à Paris.", [("J'habite maintenant à Paris.", "home")]),
    ("J'ai déménagé à Marseille.", [("J'ai déménagé à Marseille.", "home")]),
    ("Avant, j'habitais à Nice.", [("Avant, j'habitais à Nice.", None)]),
    ("Je travaille chez Airbus.", [("Je travaille chez Airbus.", "employer")]),
    ("J'aime le café.", [("J'aime le café.", "likes:caf")]),
    ("Je n'aime plus le café.", [("Je n'aime plus le café.", "likes:caf")]),
    ("Je préfère le thé au café.", [("Je préfère le thé au café.", "likes:the")]),
    ("Ma couleur préférée est le bleu.", [("Ma couleur préférée est le bleu.", "favourite:colour")]),
    ("Je suis mariée.", [("Je suis mariée.", "marital status")]),
    ("Je suis née à Genève.", [("Je suis née à Genève.", "birthplace")]),
    ("J'ai un chien.", [("J'ai un chien.", "has:chien")]),
    ("Je n'ai plus de chien.", [("Je n'ai plus de chien.", "has:chien")]),
    ("Ma sœur habite à Lille.", [("Ma sœur habite à Lille.", None)]),
]
ITALIAN: list[tuple[str, Expected]] = [
    ("Ciao, sono Ana e vivo a Roma.", [("sono Ana", "name"), ("vivo a Roma.", "home")]),
    (
        "Mi chiamo Ana, ho 34 anni e lavoro come infermiera.",
        [("Mi chiamo Ana", "name"), ("ho 34 anni", "age"), ("lavoro come infermiera.", "job")],
    ),
    ("Ora abito a Milano.", [("Ora abito a Milano.", "home")]),
    ("Mi sono trasferita a Torino.", [("Mi sono trasferita a Torino.", "home")]),
    ("Prima vivevo a Napoli.", [("Prima vivevo a Napoli.", None)]),
    ("Lavoro per Fiat.", [("Lavoro per Fiat.", "employer")]),
    ("Mi piace il caffè.", [("Mi piace il caffè.", "likes:caff")]),
    ("Non mi piace più il caffè.", [("Non mi piace più il caffè.", "likes:caff")]),
    ("Il mio colore preferito è il blu.", [("Il mio colore preferito è il blu.", "favourite:colour")]),
    ("Sono sposata.", [("Sono sposata.", "marital status")]),
    ("Sono nato a Bari.", [("Sono nato a Bari.", "birthplace")]),
]
PORTUGUESE: list[tuple[str, Expected]] = [
    ("Olá, sou a Ana e moro em Lisboa.", [("sou a Ana", "name"), ("moro em Lisboa.", "home")]),
    (
        "Me chamo Ana, tenho 34 anos e trabalho como enfermeira.",
        [("Me chamo Ana", "name"), ("tenho 34 anos", "age"), ("trabalho como enfermeira.", "job")],
    ),
    ("Agora moro em São Paulo.", [("Agora moro em São Paulo.", "home")]),
    ("Mudei-me para o Porto.", [("Mudei-me para o Porto.", "home")]),
    ("Antes morava no Rio.", [("Antes morava no Rio.", None)]),
    ("Trabalho na Petrobras.", [("Trabalho na Petrobras.", "employer")]),
    ("Gosto de café.", [("Gosto de café.", "likes:caf")]),
    ("Já não gosto de café.", [("Já não gosto de café.", "likes:caf")]),
    ("A minha cor favorita é azul.", [("A minha cor favorita é azul.", "favourite:colour")]),
    ("Sou casado.", [("Sou casado.", "marital status")]),
    ("Nasci em Coimbra.", [("Nasci em Coimbra.", "birthplace")]),
]
DUTCH: list[tuple[str, Expected]] = [
    ("Hallo, ik ben Ana en ik woon in Utrecht.", [("ik ben Ana", "name"), ("ik woon in Utrecht.", "home")]),
    (
        "Ik heet Ana, ben 34 en werk als lerares.",
        [("Ik heet Ana", "name"), ("ben 34", "age"), ("werk als lerares.", "job")],
    ),
    ("Sinds 2019 woon ik in Utrecht.", [("Sinds 2019 woon ik in Utrecht.", "home")]),
    ("Ik ben naar Den Haag verhuisd.", [("Ik ben naar Den Haag verhuisd.", "home")]),
    ("Vroeger woonde ik in Parijs.", [("Vroeger woonde ik in Parijs.", None)]),
    ("Ik werk bij Philips.", [("Ik werk bij Philips.", "employer")]),
    ("Ik hou van koffie.", [("Ik hou van koffie.", "likes:koffie")]),
    ("Ik hou niet meer van koffie.", [("Ik hou niet meer van koffie.", "likes:koffie")]),
    ("Ik vind koffie niet lekker.", [("Ik vind koffie niet lekker.", "likes:koffie")]),
    ("Mijn favoriete kleur is blauw.", [("Mijn favoriete kleur is blauw.", "favourite:colour")]),
    ("Ik ben getrouwd.", [("Ik ben getrouwd.", "marital status")]),
    ("Ik ben geboren in Leiden.", [("Ik ben geboren in Leiden.", "birthplace")]),
]

FACTS = [*ENGLISH, *SPANISH, *GERMAN, *FRENCH, *ITALIAN, *PORTUGUESE, *DUTCH]


@pytest.mark.parametrize(("said", "expected"), FACTS, ids=[said for said, _ in FACTS])
def test_what_users_say_of_themselves_is_a_fact_in_their_own_words(said: str, expected: Expected) -> None:
    found = extract([Said("user", said)])
    assert [(fact.text, fact.slot) for fact in found.facts] == expected
    assert found.not_understood == ()


@pytest.mark.parametrize(
    "said",
    [
        "Where do I live?",
        "what is my name",
        "Please write a poem about my cat.",
        "Can you help me with my homework",
        "Tell me about Rome.",
        "I need you to write an email.",
        "Hello!",
        "Hi there, good morning!",
        "Thanks a lot!",
        "OK, sounds good.",
        "That's great!",
        "I agree with you!",
        "I don't know.",
        "¿Dónde vivo?",
        "Por favor, escribe un poema.",
        "Muchas gracias!",
        "Wo wohne ich?",
        "Kannst du mir helfen",
        "Danke schön!",
        "Où est-ce que j'habite ?",
        "Peux-tu m'aider",
        "Merci beaucoup !",
        "Dove abito?",
        "Scrivi una poesia.",
        "Grazie mille!",
        "Onde é que eu moro?",
        "Você pode me ajudar",
        "Muito obrigada!",
        "Waar woon ik?",
        "Kun je me helpen",
        "Dank je wel!",
        "👍",
        "...",
        "   ",
        "```python\nI = 'I live in Rome'\n```",
    ],
)
def test_questions_requests_and_courtesies_leave_no_trace(said: str) -> None:
    found = extract([Said("user", said)])
    assert (found.facts, found.not_understood) == ((), ())


@pytest.mark.parametrize(
    "said",
    [
        "The weather is nice today.",
        "Berlin.",
        "If I lived in Rome, I would be happy.",
        "I would like to live in Rome.",
        "I'd love to visit Japan.",
        "Maybe I will move to Rome.",
        "My boss said I am lazy.",
        "She told me that I live in Rome.",
        '"I live in Rome" is a line from a song.',
        '"I live in Rome."',
        "> I live in Rome.",
        "Ana: I live in Rome.",
        "My friend: I live in Rome.",
        "I hate it.",
        "I think I have a cold.",
        "I'm proud of your work.",
        "Since I'm vegan, what can I eat?",
        "It's my birthday today!",
        "El tiempo es bueno.",
        "Si viviera en Roma, sería feliz.",
        "Me gustaría reservar una mesa.",
        "Mi jefe dice que soy vago.",
        "Das Wetter ist schön heute.",
        "Ich würde gern in Rom leben.",
        "Meine Chefin sagt, ich sei faul.",
        "Il fait beau.",
        "Si j'habitais à Rome, je serais heureux.",
        "J'aimerais réserver une table.",
        "Mon patron dit que je suis paresseux.",
        "Il tempo è bello.",
        "Se vivessi a Roma sarei felice.",
        "Vorrei prenotare un tavolo.",
        "Se eu morasse em Roma seria feliz.",
        "Gostaria de reservar uma mesa.",
        "Het weer is mooi.",
        "Als ik in Rome woonde, zou ik blij zijn.",
        "I ragazzi giocano nel parco con il cane.",
        "Я живу в Москве.",
        "我住在北京。",
        "Jag bor i Stockholm.",
    ],
)
def test_what_says_something_and_is_no_fact_is_reported(said: str) -> None:
    found = extract([Said("user", said)])
    assert found.facts == ()
    assert found.not_understood == (said,)


def test_the_question_is_the_same_in_every_language() -> None:
    homes = [
        "I live in Rome.",
        "Ahora vivo en Madrid.",
        "Ich wohne in Berlin.",
        "J'habite à Lyon.",
        "Abito a Roma.",
        "Moro em Lisboa.",
        "Ik woon in Utrecht.",
    ]
    facts = [fact for said in homes for fact in extract([Said("user", said)]).facts]
    assert facts == [Fact(said, "home") for said in homes]
