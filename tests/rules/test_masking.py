"""Secrets never reach what is stored: each kind is found, and what only resembles one stays."""

from __future__ import annotations

import base64
import random
import re
import string
import sys
from typing import Any

import pytest
from detect_secrets.settings import get_settings
from hypothesis import given
from hypothesis import strategies as st

from recollect.access.tokens import new_api_key
from recollect.rules.masking import addresses, assignments, mask, tokens
from recollect.rules.masking import pem as private_keys

# Every secret here is put together from parts, so that no scanner takes this file for a leak.
_ALNUM = string.ascii_letters + string.digits
_HEX = "0123456789abcdef"
_URLSAFE = _ALNUM + "-_"
_dice = random.Random(20261115)


def some(alphabet: str, length: int) -> str:
    """Random characters; the last is a letter or digit, and there is a digit among them."""
    body = "".join(_dice.choices(alphabet, k=length - 2))
    return body + "7" + _dice.choice([each for each in alphabet if each.isalnum()])


def pem(label: str) -> str:
    lines = "\n".join(some(_ALNUM + "+/", 64) for _ in range(5))
    return f"-----BEGIN {label}-----\n{lines}\n-----END {label}-----"


def jwt() -> str:
    head, body = (
        base64.urlsafe_b64encode(part).decode().rstrip("=")
        for part in (b'{"alg":"HS256"}', b'{"role":"service_role","n":%d}' % _dice.randrange(10**9))
    )
    return f"{head}.{body}.{some(_URLSAFE, 43)}"


KINDS: dict[str, list[tuple[str, str]]] = {
    "GitHub": [("github" + "_pat_" + some(_ALNUM, 22) + "_" + some(_ALNUM, 59), "GitHub")],
    "PEM": [
        (pem(f"{name}PRIVATE" + " KEY"), f"{name}private key")
        for name in ("RSA ", "EC ", "OPENSSH ", "ENCRYPTED ", "")
    ],
    "PGP": [(pem("PGP PRIVATE" + " KEY BLOCK"), "PGP private key")],
    "JWT": [(jwt(), "JWT")],
    "SendGrid": [("S" + "G." + some(_URLSAFE, 22) + "." + some(_URLSAFE, 43), "SendGrid")],
    "Discord": [("M" + some(_ALNUM, 23) + "." + some(_ALNUM, 6) + "." + some(_URLSAFE, 38), "Discord")],
    "Telegram": [("51" + some(string.digits, 8) + ":A" + some(_URLSAFE, 34), "Telegram")],
    "Recollect": [(new_api_key()[0], "Recollect")],
    "Mailchimp": [(some(_HEX, 32) + "-us" + "12", "Mailchimp")],
    "LangSmith": [("lsv2" + "_pt_" + some(_HEX, 32) + "_" + some(_HEX, 10), "LangSmith")],
    "Airtable": [("pa" + "t" + some(_ALNUM, 14) + "." + some(_HEX, 64), "Airtable")],
    "card": [
        (number, "card")
        for number in ("4111 1111" + " 1111 1111", "5555555555" + "554444", "3782-822463" + "-10005")
    ],
}
for _kind, _prefix, _alphabet, _length in [
    ("New Relic", "NR" + "AK-", string.ascii_uppercase + string.digits, 27),
    ("AWS key id", "AK" + "IA", "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567", 16),
    *(("PyPI", "pypi" + "-AgEIcHlwaS5vcmc", _URLSAFE, 120), ("Hugging Face", "h" + "f_", _ALNUM, 34)),
    *(("Anthropic", "sk-" + "ant-api03-", _URLSAFE, 95), ("Atlassian", "ATA" + "TT3", _URLSAFE, 180)),
    *(("Docker Hub", "dckr" + "_pat_", _URLSAFE, 27), ("PlanetScale", "pscale" + "_pw_", _ALNUM, 43)),
    *(("Contentful", "CF" + "PAT-", _URLSAFE, 43), ("DigitalOcean", "dop" + "_v1_", _HEX, 64)),
    *(("Square", "sq0" + "csp-", _URLSAFE, 43), ("Artifactory", "AK" + "Cp", _ALNUM, 69)),
    *(("RubyGems", "ruby" + "gems_", _HEX, 48), ("GitLab", "gl" + "pat-", _URLSAFE, 20)),
    *(("Linear", "lin" + "_api_", _ALNUM, 40), ("Doppler", "dp" + ".pt.", _ALNUM, 43)),
    *(("Clojars", "CLO" + "JARS_", _HEX, 60), ("Databricks", "da" + "pi", _HEX, 32)),
    *(("Figma", "fig" + "d_", _URLSAFE, 40), ("Bedrock", "AB" + "SK", _ALNUM, 128)),
    *(("Heroku", "HRKU" + "-", _ALNUM, 60), ("Vault", "hv" + "s.", _URLSAFE, 90)),
    *(("Shopify", "shp" + "at_", _HEX, 32), ("Netlify", "nf" + "p_", _ALNUM, 36)),
    *(("Render", "rn" + "d_", _ALNUM, 28), ("Mailgun", "key" + "-", _HEX, 32)),
    *(("Groq", "gs" + "k_", _ALNUM, 52), ("Pulumi", "pu" + "l-", _HEX, 40)),
    *(("Fly", "fm" + "2_", _ALNUM, 300), ("npm", "npm" + "_", _ALNUM, 36)),
    ("Twilio", "S" + "K", _HEX, 32),
    *(
        ("GitHub", "gh" + "p_", _ALNUM, 36),
        ("GitHub", "gh" + "o_", _ALNUM, 36),
        ("GitHub", "gh" + "s_", _ALNUM, 36),
    ),
    *(("Stripe", "sk" + "_live_", _ALNUM, 24), ("Stripe", "sk" + "_test_", _ALNUM, 24)),
    *(("Stripe", "rk" + "_live_", _ALNUM, 24), ("Google", "AI" + "za", _URLSAFE, 35)),
    *(("OpenAI", "sk-" + "proj-", _URLSAFE, 120), ("API key", "sk" + "-", _ALNUM, 48)),
    *(("Google OAuth", "GOC" + "SPX-", _URLSAFE, 28), ("Supabase", "sb" + "p_", _HEX, 40)),
    *(("Supabase", "sb" + "_secret_", _ALNUM, 31), ("Slack", "xo" + "xb-555000111222-", _ALNUM, 24)),
    *(("Slack", "xo" + "xp-555000111222-", _ALNUM, 24), ("Square or Facebook", "EA" + "AA", _URLSAFE, 60)),
    ("Square or Facebook", "EA" + "AG", _ALNUM, 180),
]:
    KINDS.setdefault(_kind, []).append((_prefix + some(_alphabet, _length), _kind))
KNOWN = [
    pytest.param(secret, kind, id=f"{name}-{n}")
    for name, rows in KINDS.items()
    for n, (secret, kind) in enumerate(rows)
]

AROUND = [
    *("first line\\n{}\\nthird", '{{"value": "{}"}}', "use {} for now", "a\n{}\nb", "({}).", "`{}`", "é{}ñ"),
    *("x={}", "{}"),
]


@pytest.mark.parametrize(("secret", "kind"), KNOWN)
def test_a_secret_is_known_by_its_form_wherever_it_stands(secret: str, kind: str) -> None:
    for around in AROUND:
        text = around.format(secret)
        assert mask(text) == (around.format(f"[secret: {kind}]"), (kind,)), around


STUCK_TO = [
    *("\\u001b[38;5;208m{}\\u001b[0m", "\x1b[32m{}\x1b[0m", "\\u0022{}\\u0022", "token\\u003d{}", "\\x22{}"),
    *("\x1b[1;31m{}", "token%3D{}", "backup_{}", "_{}_"),
]


@pytest.mark.parametrize("around", STUCK_TO)
@pytest.mark.parametrize(("secret", "kind"), [each for each in KNOWN if "card" not in str(each.id)])
def test_what_sticks_to_a_token_does_not_hide_it(secret: str, kind: str, around: str) -> None:
    masked = mask(around.format(secret))
    assert masked.kinds == (kind,)
    assert masked.text.startswith(around.partition("{}")[0] + f"[secret: {kind}]")


@pytest.mark.parametrize("name", ["GitHub", "GitLab", "Slack", "Stripe", "Anthropic", "npm", "DigitalOcean"])
def test_a_prefix_that_nothing_else_has_needs_no_border(name: str) -> None:
    for secret, kind in KINDS[name]:
        assert mask(f"OLD{secret}") == (f"OLD[secret: {kind}]", (kind,))


def test_there_are_thirty_kinds_and_more() -> None:
    assert len({kind for rows in KINDS.values() for _, kind in rows}) >= 30


_PASSWORD, _WORD = "Tr0ub4" + "dor&3x", "hunter" + "22"
_LETTERS, _ODD = "sword" + "fishes", "abcdef" + ",Ghij99kl"
_KEY, _LONG, _AWS, _HEXKEY = some(_ALNUM, 32), some(_ALNUM, 40), some(_ALNUM + "+/", 40), some(_HEX, 40)
ANNOUNCED = {
    ("passwd", _WORD): [
        *(f"- name: DB_PASSWORD\\n  value: {_WORD}\\n", f"mysqldump --password={_WORD} shop"),
        *(f"$config['password'] = '{_WORD}';", f"password={_WORD}/ibm_cloud: none", f"Passwort: {_WORD}"),
        *(f"vault --db-password {_WORD} up", f"the password is {_WORD}, ok?", f"  password: {_WORD}\n"),
        *(f"Das Kennwort lautet {_WORD}.", f'password: str = "{_WORD}"', f"La contraseña es {_WORD}"),
        *(f"the password was {_WORD}", f"**Password:** {_WORD}", f"**Password**: {_WORD}"),
        *(f"contraseña: {_WORD}", f"password={_WORD}", f"DB_PW={_WORD}"),
    ],
    ("passwd", _PASSWORD): [
        *(f'{{\\"password\\": \\"{_PASSWORD}\\"}}', f'{{"db_password": "{_PASSWORD}"}}'),
        *(f"'password': '{_PASSWORD}',", f'password = "{_PASSWORD}"', f"clave = '{_PASSWORD}'"),
    ],
    ("key", _KEY): [
        *(f"https://api.test/v1?api_key={_KEY}&page=2", f'os.environ.get("API_KEY", "{_KEY}")'),
        *(f"client_secret={_KEY}&grant=x", f'API-Schlüssel: "{_KEY}"', f"export API_KEY={_KEY}"),
        *(f"X-Api-Key: {_KEY}", f'secret: "{_KEY}"'),
    ],
    ("passwd", _LETTERS): [
        *(f"machine h.test\n  login me\n  password {_LETTERS}\n", f"host=h user=u password={_LETTERS}"),
        *(f'{{"name": "DB_PASSWORD", "value": "{_LETTERS}"}}', f'os.getenv("DB_PASSWORD", "{_LETTERS}")'),
        *(f"CREATE USER 'a'@'%' IDENTIFIED BY '{_LETTERS}';", f"Server=h;User Id=u;Password={_LETTERS};"),
        *(f"create role app login password '{_LETTERS}'", f"machine h.test login me password {_LETTERS}"),
        *(f"ALTER USER app WITH PASSWORD '{_LETTERS}';", f"- name: DB_PASSWORD\n  value: {_LETTERS}\n"),
        *(f"<db><password>{_LETTERS}</password></db>", f"jdbc:x://h/d?user=a&password={_LETTERS}"),
        *(f"x\ndb.test:5432:shop:app:{_LETTERS}\n", f"define('DB_PASSWORD', '{_LETTERS}');"),
        *(f"sshpass -p {_LETTERS} ssh me@host", f"dump --password={_LETTERS} shop"),
        *(f"mysql -u root -p{_LETTERS} shop", f"mysqldump -p'{_LETTERS}' shop", f";Password={_LETTERS};"),
        *(f"password={_LETTERS} dbname=x", f"ENV DB_PASSWORD {_LETTERS}", f"*:*:*:app:{_LETTERS}"),
    ],
}
NAMED = [
    *((text, secret, kind) for (kind, secret), texts in ANNOUNCED.items() for text in texts),
    (f"https://hooks.slack.com/services/T0{_KEY[:8]}/B0{_KEY[:8]}/{_KEY[:24]}", _KEY[:24], "Slack webhook"),
    ("Authorization: Basic " + base64.b64encode(b"admin:" + _WORD.encode()).decode(), "", "basic login"),
    (f'"private_key": "{pem("PRIVATE" + " KEY")}\n",'.replace("\n", "\\n"), "-----", "private key"),
    ('passphrase: "correct horse' + ' battery staple"', "correct horse battery staple", "passwd"),
    (f"https://discord.com/api/webhooks/{'1' * 18}/{some(_URLSAFE, 68)}", "", "Discord webhook"),
    (f"postgresql+asyncpg://app:{_PASSWORD}@db.test/shop", _PASSWORD, "postgres"),
    ("AK" + f"IA{some(string.ascii_uppercase, 14)}A2,{_AWS}", _AWS, "AWS key id"),
    (f"HEROKU_API_KEY={_KEY[:8]}-{_KEY[8:12]}-4abc-9def-{_KEY[:12]}", "", "key"),
    (f"curl -X POST \\\n  --user admin:{_LETTERS} localhost", _LETTERS, "login"),
    ('"apiKey": "0b6f3c1e-8f0a-4c1b' + '-9a53-1f5f2f0c9d11"', "0b6f3c1e", "key"),
    ("api_key = '0b6f3c1e-8f0a-4c1b" + "-9a53-1f5f2f0c9d11'", "0b6f3c1e", "key"),
    (f"AccountName=a;AccountKey={some(_ALNUM, 86)}==;x", "==", "Azure storage"),
    (f"https://a.blob.test/c?sv=2022&sig={_LONG}%2Fab%3D", _LONG, "Azure SAS"),
    ("export JWT_SECRET=mysuper" + "thing", "mysuper" + "thing", "key"),
    (f"postgresql://app:{_WORD}@db.test:5432/shop", _WORD, "postgres"),
    ("postgres://app:Xy7/kkl" + "9zQ@db.test/shop", "kkl", "postgres"),
    ("postgres://app:Xy7'kkl" + "9zQ@db.test/shop", "kkl", "postgres"),
    (f"{_KEY[:14]}.atlas" + f"v1.{_LONG}{_KEY}", _LONG, "Terraform"),
    (f'ibm_cloud_api_key: "{some(_URLSAFE, 44)}"', "", "IBM Cloud"),
    ("postgres://app:my_S3cret" + "_Pw9@db", "S3cret", "postgres"),
    (f"Cookie: theme=dark; session={_LONG}; a=b", _LONG, "cookie"),
    (f"mongodb+srv://app:{_WORD}@cluster.test", _WORD, "mongodb"),
    ('DB_PASSWORD="Tr0ub4dor' + ' and 3"', "Tr0ub4dor", "passwd"),
    ("mysql://root:" + "root@localhost/shop", ":root@", "mysql"),
    (f'GITHUB_TOKEN="gh{"p_"}{some(_ALNUM, 36)}"', "", "GitHub"),
    (f"set-cookie: PHPSESSID={_LONG}; path=/", _LONG, "cookie"),
    *((f"softlayer_api_token={some(_HEX, 64)}", "", "SoftLayer"), (f"my token is {_HEXKEY}", _HEXKEY, "key")),
    ("curl -u admin:Xy7@" + "kkl9zQ host", "kkl9zQ", "login"),
    ("postgres://app:$ecret" + "W0rd@db", "W0rd", "postgres"),
    ("DB_PASSWORD=Hello..." + "World42", "World42", "passwd"),
    (f"curl -uadmin:{_LETTERS} localhost", _LETTERS, "login"),
    *(("DB_PASS=letme" + "innow", "letme" + "innow", "passwd"), (f"token_for_ci: {_HEXKEY}", _HEXKEY, "key")),
    *((f"redis://:{_WORD}@cache.test:6379/0", _WORD, "redis"), (f'"SecretAccessKey": "{_AWS}"', _AWS, "key")),
    *(("password: 84736" + "251", "84736" + "251", "passwd"), (f"amqp://me:p@{_WORD}@mq.test", _WORD, "URL")),
    *((f"-H 'authorization: bearer {_KEY}'", _KEY, "bearer"), (f"ENV API_TOKEN {_LETTERS}", _LETTERS, "key")),
    ("DB_PASSWORD=my_S3cret" + "_Pw9", "S3cret", "passwd"),
    ("password=Hello..." + "World42", "World42", "passwd"),
    (f"Authorization: Bearer 12|{_LONG}", _LONG, "bearer"),
    ("DB_PASSWORD='$ecret" + "W0rd9'", "W0rd9", "passwd"),
    *((f"curl -u admin:{_WORD} localhost", _WORD, "login"), ('password: "(p4ss)[w0rd]"', "(p4ss)", "passwd")),
    *((f"//registry.test/:_authToken={_KEY}", _KEY, "npm"), (f"aws_secret_access_key = {_AWS}", _AWS, "key")),
    (f"https://me:{_WORD}@git.test/a.git", _WORD, "URL"),
    *(("DB_PASSWORD='[Xy7" + "kkl9z'", "kkl9z", "passwd"), (f"Authorization: Bearer {_KEY}", _KEY, "bearer")),
    *(("password: %Secret" + "9word", "9word", "passwd"), (f"password={_ODD}\nuser=x", _ODD[-8:], "passwd")),
    (f"Authorization: SSWS {_LONG}", _LONG, "bearer"),
    *(
        (f"{before}DB_PASSWORD={_ODD.replace(',', mark)} x", _ODD[-8:], "passwd")
        for mark in ",&|<"
        for before in ("", "export ", "A=1\nset ", "ENV ", "docker run -e ")
    ),
]


@pytest.mark.parametrize(("text", "secret", "kind"), NAMED, ids=range(len(NAMED)))
def test_a_secret_is_known_by_the_name_before_it(text: str, secret: str, kind: str) -> None:
    masked = mask(text)
    assert masked.kinds == (kind,)
    assert f"[secret: {kind}]" in masked.text
    assert not secret or secret not in masked.text


KEPT = [
    *("-----BEGIN PUBLIC KEY-----\n" + some(_ALNUM, 64) + "\n-----END PUBLIC KEY-----", "ghp_" + "x" * 36),
    *("sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855", '"total_tokens":1789000123'),
    *("A password must have at least 12 characters and is never logged.", "Bearer authentication-mechanisms"),
    *("https://example.org/a/b?page=2#top and http://localhost:8000/@me", "if (a.password>minimum12) return"),
    *("The password was changed; the machine login and password differ.", 'type="password" name="password"'),
    *("Ask for the password: it is optional, or reset password = yes", "sk-xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"),
    *("const passwordInput = document.querySelector('#password1')", "password: ${{ secrets.DB_PASSWORD_2 }}"),
    *("The token is required; the secret is that there is none.", "password = getpass.getpass('Password: ')"),
    *('"integrity": "sha512-' + some(_ALNUM + "+/", 86) + '=="', "docker run --name mysql -p3306:3306 mysql"),
    *('"password": "Enter your password, 8 characters or more"', "fetch('http://localhost:8000','me@home')"),
    *('if "-----BEGIN PRIVATE' + ' KEY-----" in text: refuse()', "id 0b6f3c1e-8f0a-4c1b-9a53-1f5f2f0c9d11"),
    *(".sk-toggleable__content2-with-a-long-name-of-its-own {}", "postgres://user:<password>@localhost/db"),
    *("Cookie: theme=dark; consent=yes-to-everything-and-more", "postgres://user:${PGPASSWORD}@localhost/db"),
    *("secret_id: 9fceb02d0ae598e95dc970b74767f19372d61af8", "Authorization: Bearer $TOKEN_FOR_THE_TESTS_1"),
    *("postgres://localhost:5432/shop?email=me@example.org", "token: 0b6f3c1e-8f0a-4c1b-9a53-1f5f2f0c9d11"),
    *("- name: DB_PASSWORD\n  valueFrom: secretKeyRef12", "commit 9fceb02d0ae598e95dc970b74767f19372d61af8"),
    "the last line is\n-----END RSA PRIVATE" + " KEY-----",
    *("task-management-and-risk-assessment-2024-final", "task-ant-colony-optimization-of-everything"),
    *("order 4111111111111112 at 1763244400000", "docker run --user node:nodegroup image", "sk-..."),
    *("const password = config.db.password1;", "postgres://user:password@localhost/db"),
    *('"tokens": 128000, "max_tokens": 4096', "mysql -u root -p$MYSQL_PASSWORD shop", "la clave es mejorar2"),
    *("export DB_PASSWORD=${DB_PASSWORD:-x}", "rsync -u web1:/var/www/html/site .", "password=$DB_PASSWORD1"),
    *("curl -u $USER_NAME:$API_TOKEN host", 'password = os.environ["PASSWORD"]', "tokenizer = 'cl100k_base'"),
    *("token = await client.token(user1)", "password_file: /run/secrets/db1", 'secretName: "db-credentials"'),
    *("existingSecret: postgres-creds1", "<label>password>abcdef1</label>", "AKIA" + "IOSFODNN7" + "EXAMPLE"),
    *("src/masking.py:5432:def:at:data", "sudo -u postgres:postgres psql", "git@github.com:owner/name.git"),
    *("Authorization: Bearer <token>", "docker run -u 1000:1000 image", "--- PASS: TestParse2 (0.00s)"),
    *("password: str | None = None", "export API_KEY=<your-key-1>", ".sk-toggleable__content2 {}"),
    *("Unexpected token: ident42x", '["password", "user_name2"]', "token: your-token-value-12"),
    *('"password": "%(password)s"', "STORAGE_KEY='chatHistory'", "API_KEY=your_api_key_123"),
    *("version 4.4111.1111.1111", "signing key: sha256rsa1", '"password": "Password"'),
    *("keyboard: qwerty12345", "pass: 123456 requests", "password=$dbPassword1"),
]


@pytest.mark.parametrize("text", KEPT)
def test_what_only_resembles_a_secret_stays(text: str) -> None:
    assert mask(text) == (text, ())


def test_a_key_that_was_cut_off_is_masked_as_far_as_it_goes() -> None:
    whole = pem("RSA PRIVATE" + " KEY")
    masked = mask("see\n" + whole[: whole.rindex("-----END")] + "\nand then?")
    assert masked == ("see\n[secret: RSA private key]\n\nand then?", ("RSA private key",))


_LINES = [some(_ALNUM + "+/", 64) for _ in range(5)]
_BEGIN, _FINISH = "-----BEGIN RSA PRIVATE" + " KEY-----", "-----END RSA PRIVATE" + " KEY-----"
_CUTS = ([_BEGIN, *_LINES], [*_LINES, _FINISH])
CUT_OFF = [
    *(
        "\n".join(margin + line for line in cut)
        for margin in ("", "> ", " 9 | ", "   9\t", "  19→")
        for cut in _CUTS
    ),
    *(line_end.join(cut) for line_end in ("\\n", "\\\\n") for cut in _CUTS),
    "\n".join([_BEGIN, "Proc-Type: 4,ENCRYPTED", "DEK-Info: AES-128-CBC,0A1B", "", *_LINES]),
    *("\n".join([*_LINES, "abc123==", _FINISH]), "\n".join([_LINES[0][40:], *_LINES[1:], _FINISH])),
]


@pytest.mark.parametrize("cut_off", CUT_OFF, ids=range(len(CUT_OFF)))
def test_what_is_left_of_a_key_is_masked_however_its_lines_are_written(cut_off: str) -> None:
    masked = mask(f"so:\n{cut_off}\nand then?")
    assert masked.kinds == ("RSA private key",)
    assert not any(line[40:] in masked.text for line in _LINES)
    assert masked.text.startswith("so:\n")
    assert masked.text.endswith("\nand then?")


def test_each_of_several_secrets_is_named_in_order() -> None:
    first, second = "npm" + "_" + some(_ALNUM, 36), "gl" + "pat-" + some(_URLSAFE, 20)
    assert mask(f"{first} {second} {first}").kinds == ("npm", "GitLab", "npm")


@pytest.mark.parametrize("before", ["", "mysql -p", "h:5432:shop:app:", "ENV DB_PASSWORD "])
def test_the_name_in_a_mask_announces_nothing(before: str) -> None:
    text = f"{before}[secret: RSA private key]={_WORD}"
    assert mask(text) == (text, ())


def test_a_token_after_another_of_which_it_hides_the_end_is_masked_with_it() -> None:
    (aws, _), (github, _) = KINDS["AWS key id"][0], KINDS["GitHub"][0]
    assert mask(f"use {aws}{github} now") == ("use [secret: GitHub] now", ("GitHub",))


def test_a_value_that_only_announces_a_secret_does_not_hide_it() -> None:
    assert mask(f"PASSWORD=Authorization:SSWS {_LONG}").kinds == ("passwd", "bearer")


def test_a_long_secret_in_between_does_not_hide_what_a_command_says() -> None:
    assert mask(f"curl -H 'Authorization: Bearer {_LONG * 10}' -u me:{_LETTERS}").kinds == ("bearer", "login")


def test_neither_files_nor_the_network_nor_settings_of_the_process_are_used() -> None:
    seen: list[str] = []
    watching = True
    sys.addaudithook(lambda event, _: seen.append(event) if watching else None)
    mask("\n".join(text for text, _, _ in NAMED))
    watching = False
    assert [
        event for event in seen if event.partition(".")[0] in {"open", "socket", "import", "subprocess"}
    ] == []
    assert get_settings.cache_info().currsize == 0


def test_half_of_a_surrogate_pair_does_no_harm() -> None:
    assert mask("\ud800 password=" + _WORD).text == "\ud800 password=[secret: passwd]"


_fragments = st.one_of(
    st.sampled_from([secret for rows in KINDS.values() for secret, _ in rows]),
    st.sampled_from([text for text, _, _ in NAMED] + KEPT),
    st.sampled_from(
        [
            *("-----BEGIN RSA PRIVATE KEY-----", "-----END RSA PRIVATE KEY-----", "ALTER USER a PASSWORD '"),
            *("machine h login u password ", "name: DB_PW\n value: ", "getenv('PASSWORD', '", "curl -u a:"),
            *("export DB_PASSWORD=", "ENV DB_PASSWORD ", "IDENTIFIED BY '", "\nh:5432:a:b:", "<password>"),
            *("[secret: ", "Password=", "password", "--token ", "\x1b[32m", "mysql -p", "Cookie: ", "secret"),
            *("session=", "token: ", "Bearer ", "\\u0022", "a1" * 15, "host=", "pwd=", "ibm_", " is ", "://"),
            *("EAAA", "%3D", "\\n", "...", "12→", "\\", "\n", "</", "> ", "=", ":", '"', "'", " ", "[", "]"),
            *("@", "-", "_", ",", ";", "&", "?", "$", ">", "<", "/"),
        ]
    ),
    st.text(max_size=12),
    st.text(_ALNUM, min_size=6, max_size=20),
)


@given(st.lists(_fragments, max_size=12).map("".join))
def test_masking_twice_changes_nothing_and_never_doubles_the_length(text: str) -> None:
    once = mask(text)
    assert mask(once.text) == (once.text, ())
    assert len(once.text) <= 2 * len(text)


HOSTILE = [
    *("-----BEGIN PRIVATE KEY-----\n" + "a" * 30, "-----END PRIVATE KEY-----\n" + "a" * 30, "DB_PASSWORD=a,"),
    *("-----BEGIN PRIVATE KEY-----\n1: ", "-----BEGIN PRIVATE KEY-----", "cos_hmac_secret_access_key=", "\\"),
    *("-----END PRIVATE KEY-----", "eyJaaaaaaaa.eyJaaaaaaaa-", "$" * 8 + "password=$a", "password\n value: "),
    *("getenv('password', '", "session=" + "a" * 16, "passwordpassword_", "postgres://a:b/c'", "sk-a1b2c3d4"),
    *("identified by '", "password>abcdef", "password abcd ", "password is a", "a" * 30 + "\n", 'password="'),
    *("ENV PASSWORD ", "password:'\"", "eyJaaaaaaaa-", "ibm_api_key=", "SG.aaaaaaaa-", "M" * 25 + ".", "://"),
    *("PASSWORD=a1", "password=1(", "eyJaaaaaaaa", ":5432:a:b:c", "4111 1111 ", "password '", "<password>"),
    *("aaaa=aaaa", "password=", "token is ", "[secret: ", "key_1" * 5, "_pw=ab,cd", ".atlasv1.", "secret: "),
    *("--token ", "mysql -p", "curl -u ", "session=", "://a:b@", "Bearer ", "%3D4111", " -pabcd", "glpat-"),
    *(" -ua:b", "://a:", "ghp_", "_sk-", "EAAA", "sk-", "eyJ", '"', "'", "/"),
]


def _work(text: str) -> int:
    """How many functions are called, in Python and in C."""
    calls = 0

    def count(*_: object) -> None:
        nonlocal calls
        calls += 1

    sys.setprofile(count)
    try:
        mask(text)
    finally:
        sys.setprofile(None)
    return calls


@pytest.mark.parametrize("piece", HOSTILE)
def test_twice_the_hostile_text_is_at_most_twice_the_work(piece: str) -> None:
    text = piece * (10_000 // len(piece))
    mask(text)
    assert _work(text + text) <= 2.1 * _work(text) + 100


PATTERNS = [
    *(kind.exact for kind in tokens.KINDS),
    *assignments.PATTERNS,
    *addresses.PATTERNS,
    *private_keys.PATTERNS,
]


def _retries(parts: Any, *, last: bool = True) -> bool:
    """Whether something without a bound is followed by what may fail."""
    followed = not last
    for operation, argument in reversed(list(parts)):
        name = str(operation)
        if name == "BRANCH":
            if any(_retries(branch, last=not followed) for branch in argument[1]):
                return True
        elif name == "SUBPATTERN":
            if _retries(argument[3], last=not followed):
                return True
        elif name == "MAX_REPEAT":
            least, most, inner = argument
            unbounded = most is re._constants.MAXREPEAT
            if (unbounded and followed) or _retries(inner, last=not followed and not unbounded):
                return True
            followed = followed or least > 0
            continue
        followed = True
    return False


@pytest.mark.parametrize("pattern", PATTERNS, ids=lambda pattern: pattern.pattern[:24].decode())
def test_no_pattern_goes_over_the_same_text_again(pattern: re.Pattern[bytes]) -> None:
    """What has no bound comes last: nothing after it can fail and make it try a shorter one."""
    assert not _retries(re._parser.parse(pattern.pattern))
