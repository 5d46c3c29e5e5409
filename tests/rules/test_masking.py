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


KINDS = {
    "AWS key id": [("AK" + "IA" + some("ABCDEFGHIJKLMNOPQRSTUVWXYZ234567", 16), "AWS key id")],
    "GitHub": [
        *((prefix + "_" + some(_ALNUM, 36), "GitHub") for prefix in ("gh" + "p", "gh" + "o", "gh" + "s")),
        ("github" + "_pat_" + some(_ALNUM, 22) + "_" + some(_ALNUM, 59), "GitHub"),
    ],
    "GitLab": [("gl" + "pat-" + some(_URLSAFE, 20), "GitLab")],
    "Slack": [
        ("xo" + "xb-" + some(string.digits, 12) + "-" + some(_ALNUM, 24), "Slack"),
        ("xo" + "xp-" + some(string.digits, 12) + "-" + some(_ALNUM, 24), "Slack"),
    ],
    "Stripe": [
        (prefix + some(_ALNUM, 24), "Stripe")
        for prefix in ("sk" + "_live_", "sk" + "_test_", "rk" + "_live_")
    ],
    "Anthropic": [("sk-" + "ant-api03-" + some(_URLSAFE, 95), "Anthropic")],
    "OpenAI": [("sk-" + "proj-" + some(_URLSAFE, 120), "OpenAI"), ("sk-" + some(_ALNUM, 48), "API key")],
    "Google": [
        ("AI" + "za" + some(_URLSAFE, 35), "Google"),
        ("GOC" + "SPX-" + some(_URLSAFE, 28), "Google OAuth"),
    ],
    "PEM": [
        *(
            (pem(f"{name} PRIVATE" + " KEY"), f"{name} private key")
            for name in ("RSA", "EC", "OPENSSH", "ENCRYPTED")
        ),
        (pem("PRIVATE" + " KEY"), "private key"),
        (pem("PGP PRIVATE" + " KEY BLOCK"), "PGP private key"),
    ],
    "JWT": [(jwt(), "JWT")],
    "npm": [("npm" + "_" + some(_ALNUM, 36), "npm")],
    "PyPI": [("pypi" + "-AgEIcHlwaS5vcmc" + some(_URLSAFE, 120), "PyPI")],
    "Twilio": [("S" + "K" + some(_HEX, 32), "Twilio")],
    "SendGrid": [("S" + "G." + some(_URLSAFE, 22) + "." + some(_URLSAFE, 43), "SendGrid")],
    "Mailgun": [("key" + "-" + some(_HEX, 32), "Mailgun")],
    "Discord": [("M" + some(_ALNUM, 23) + "." + some(_ALNUM, 6) + "." + some(_URLSAFE, 38), "Discord")],
    "Telegram": [("51" + some(string.digits, 8) + ":A" + some(_URLSAFE, 34), "Telegram")],
    "Heroku": [("HRKU" + "-" + some(_ALNUM, 60), "Heroku")],
    "DigitalOcean": [("dop" + "_v1_" + some(_HEX, 64), "DigitalOcean")],
    "Hugging Face": [("h" + "f_" + some(_ALNUM, 34), "Hugging Face")],
    "Databricks": [("da" + "pi" + some(_HEX, 32), "Databricks")],
    "Supabase": [
        ("sb" + "p_" + some(_HEX, 40), "Supabase"),
        ("sb" + "_secret_" + some(_ALNUM, 31), "Supabase"),
    ],
    "Recollect": [(new_api_key()[0], "Recollect")],
    "Groq": [("gs" + "k_" + some(_ALNUM, 52), "Groq")],
    "Linear": [("lin" + "_api_" + some(_ALNUM, 40), "Linear")],
    "Docker Hub": [("dckr" + "_pat_" + some(_URLSAFE, 27), "Docker Hub")],
    "Vault": [("hv" + "s." + some(_URLSAFE, 90), "Vault")],
    "Shopify": [("shp" + "at_" + some(_HEX, 32), "Shopify")],
    "Atlassian": [("ATA" + "TT3" + some(_URLSAFE, 180), "Atlassian")],
    "Square": [("sq0" + "csp-" + some(_URLSAFE, 43), "Square")],
    "Mailchimp": [(some(_HEX, 32) + "-us" + "12", "Mailchimp")],
    "Artifactory": [("AK" + "Cp" + some(_ALNUM, 69), "Artifactory")],
    "Figma": [("fig" + "d_" + some(_URLSAFE, 40), "Figma")],
    "New Relic": [("NR" + "AK-" + some(string.ascii_uppercase + string.digits, 27), "New Relic")],
    "Doppler": [("dp" + ".pt." + some(_ALNUM, 43), "Doppler")],
    "Pulumi": [("pu" + "l-" + some(_HEX, 40), "Pulumi")],
    "PlanetScale": [("pscale" + "_pw_" + some(_ALNUM, 43), "PlanetScale")],
    "Contentful": [("CF" + "PAT-" + some(_URLSAFE, 43), "Contentful")],
    "Netlify": [("nf" + "p_" + some(_ALNUM, 36), "Netlify")],
    "Render": [("rn" + "d_" + some(_ALNUM, 28), "Render")],
    "LangSmith": [("lsv2" + "_pt_" + some(_HEX, 32) + "_" + some(_HEX, 10), "LangSmith")],
    "Bedrock": [("AB" + "SK" + some(_ALNUM, 128), "Bedrock")],
    "Square or Facebook": [
        ("EA" + "AA" + some(_URLSAFE, 60), "Square or Facebook"),
        ("EA" + "AG" + some(_ALNUM, 180), "Square or Facebook"),
    ],
    "RubyGems": [("ruby" + "gems_" + some(_HEX, 48), "RubyGems")],
    "Clojars": [("CLO" + "JARS_" + some(_HEX, 60), "Clojars")],
    "Airtable": [("pa" + "t" + some(_ALNUM, 14) + "." + some(_HEX, 64), "Airtable")],
    "Fly": [("fm" + "2_" + some(_ALNUM, 300), "Fly")],
    "card": [
        ("4111 1111" + " 1111 1111", "card"),
        ("5555555555" + "554444", "card"),
        ("3782-822463" + "-10005", "card"),
    ],
}
KNOWN = [
    pytest.param(secret, kind, id=f"{name}-{n}")
    for name, rows in KINDS.items()
    for n, (secret, kind) in enumerate(rows)
]

AROUND = [
    "{}",
    "use {} for now",
    "`{}`",
    '{{"value": "{}"}}',
    "first line\\n{}\\nthird",
    "({}).",
    "a\n{}\nb",
    "é{}ñ",
    "x={}",
]


@pytest.mark.parametrize(("secret", "kind"), KNOWN)
def test_a_secret_is_known_by_its_form_wherever_it_stands(secret: str, kind: str) -> None:
    for around in AROUND:
        text = around.format(secret)
        assert mask(text) == (around.format(f"[secret: {kind}]"), (kind,)), around


STUCK_TO = [
    "\x1b[32m{}\x1b[0m",
    "\x1b[1;31m{}",
    "\\u001b[38;5;208m{}\\u001b[0m",
    "token%3D{}",
    "\\u0022{}\\u0022",
    "token\\u003d{}",
    "\\x22{}",
    "_{}_",
    "backup_{}",
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


_PASSWORD = "Tr0ub4" + "dor&3x"
_WORD = "hunter" + "22"
_AWS = some(_ALNUM + "+/", 40)
_KEY = some(_ALNUM, 32)
_HEXKEY = some(_HEX, 40)

NAMED = [
    (f"password={_WORD}", _WORD, "passwd"),
    (f'password = "{_PASSWORD}"', _PASSWORD, "passwd"),
    (f"'password': '{_PASSWORD}',", _PASSWORD, "passwd"),
    (f'{{"db_password": "{_PASSWORD}"}}', _PASSWORD, "passwd"),
    (f'{{\\"password\\": \\"{_PASSWORD}\\"}}', _PASSWORD, "passwd"),
    (f"  password: {_WORD}\n", _WORD, "passwd"),
    (f'password: str = "{_WORD}"', _WORD, "passwd"),
    (f"$config['password'] = '{_WORD}';", _WORD, "passwd"),
    (f"the password is {_WORD}, ok?", _WORD, "passwd"),
    ("DB_PASS=letme" + "innow", "letme" + "innow", "passwd"),
    ("password: 84736" + "251", "84736" + "251", "passwd"),
    (f"mysqldump --password={_WORD} shop", _WORD, "passwd"),
    (f"vault --db-password {_WORD} up", _WORD, "passwd"),
    (f"curl -u admin:{_WORD} localhost", _WORD, "login"),
    ('password: "(p4ss)[w0rd]"', "(p4ss)", "passwd"),
    (f"password={_WORD}/ibm_cloud: none", _WORD, "passwd"),
    (f"contraseña: {_WORD}", _WORD, "passwd"),
    (f"La contraseña es {_WORD}", _WORD, "passwd"),
    (f"clave = '{_PASSWORD}'", _PASSWORD, "passwd"),
    (f"Passwort: {_WORD}", _WORD, "passwd"),
    (f"Das Kennwort lautet {_WORD}.", _WORD, "passwd"),
    (f'API-Schlüssel: "{_KEY}"', _KEY, "key"),
    ('passphrase: "correct horse' + ' battery staple"', "correct horse battery staple", "passwd"),
    (f"export API_KEY={_KEY}", _KEY, "key"),
    ("export JWT_SECRET=mysuper" + "thing", "mysuper" + "thing", "key"),
    (f'secret: "{_KEY}"', _KEY, "key"),
    (f"client_secret={_KEY}&grant=x", _KEY, "key"),
    (f"https://api.test/v1?api_key={_KEY}&page=2", _KEY, "key"),
    (f"X-Api-Key: {_KEY}", _KEY, "key"),
    (f"aws_secret_access_key = {_AWS}", _AWS, "key"),
    (f'"SecretAccessKey": "{_AWS}"', _AWS, "key"),
    (f"HEROKU_API_KEY={_KEY[:8]}-{_KEY[8:12]}-4abc-9def-{_KEY[:12]}", "", "key"),
    (f"my token is {_HEXKEY}", _HEXKEY, "key"),
    (f"token_for_ci: {_HEXKEY}", _HEXKEY, "key"),
    (f"Authorization: Bearer {_KEY}", _KEY, "bearer"),
    (f"-H 'authorization: bearer {_KEY}'", _KEY, "bearer"),
    ("Authorization: Basic " + base64.b64encode(b"admin:" + _WORD.encode()).decode(), "", "basic login"),
    (f"AccountName=a;AccountKey={some(_ALNUM, 86)}==;x", "==", "Azure storage"),
    (f"https://hooks.slack.com/services/T0{_KEY[:8]}/B0{_KEY[:8]}/{_KEY[:24]}", _KEY[:24], "Slack webhook"),
    (f"//registry.test/:_authToken={_KEY}", _KEY, "npm"),
    (f"postgresql://app:{_WORD}@db.test:5432/shop", _WORD, "postgres"),
    (f"postgresql+asyncpg://app:{_PASSWORD}@db.test/shop", _PASSWORD, "postgres"),
    ("mysql://root:" + "root@localhost/shop", ":root@", "mysql"),
    (f"mongodb+srv://app:{_WORD}@cluster.test", _WORD, "mongodb"),
    (f"redis://:{_WORD}@cache.test:6379/0", _WORD, "redis"),
    (f"https://me:{_WORD}@git.test/a.git", _WORD, "URL"),
    (f"amqp://me:p@{_WORD}@mq.test", _WORD, "URL"),
    (f'ibm_cloud_api_key: "{some(_URLSAFE, 44)}"', "", "IBM Cloud"),
    (f"softlayer_api_token={some(_HEX, 64)}", "", "SoftLayer"),
    (f'GITHUB_TOKEN="gh{"p_"}{some(_ALNUM, 36)}"', "", "GitHub"),
    (f'"private_key": "{pem("PRIVATE" + " KEY")}\n",'.replace("\n", "\\n"), "-----", "private key"),
]

_ODD = "abcdef" + ",Ghij99kl"
_LETTERS = "sword" + "fishes"
_LONG = some(_ALNUM, 40)
NAMED += [
    # A line with a variable ends at a space, whatever the password has in it.
    *(
        (f"{before}DB_PASSWORD={_ODD.replace(',', mark)} x", _ODD[-8:], "passwd")
        for mark in ",&|<"
        for before in ("", "export ", "A=1\nset ", "ENV ", "docker run -e ")
    ),
    (f"password={_ODD}\nuser=x", _ODD[-8:], "passwd"),
    ("curl -u admin:Xy7@" + "kkl9zQ host", "kkl9zQ", "login"),
    # One word or sign does not make it a placeholder or a variable.
    ("postgres://app:my_S3cret" + "_Pw9@db", "S3cret", "postgres"),
    ("postgres://app:$ecret" + "W0rd@db", "W0rd", "postgres"),
    ("DB_PASSWORD=my_S3cret" + "_Pw9", "S3cret", "passwd"),
    ("DB_PASSWORD='$ecret" + "W0rd9'", "W0rd9", "passwd"),
    ("DB_PASSWORD='[Xy7" + "kkl9z'", "kkl9z", "passwd"),
    ("password=Hello..." + "World42", "World42", "passwd"),
    ("DB_PASSWORD=Hello..." + "World42", "World42", "passwd"),
    ("password: %Secret" + "9word", "9word", "passwd"),
    # Without a digit, but where nothing else than a password stands.
    (f"dump --password={_LETTERS} shop", _LETTERS, "passwd"),
    (f"password={_LETTERS} dbname=x", _LETTERS, "passwd"),
    (f"host=h user=u password={_LETTERS}", _LETTERS, "passwd"),
    (f"Server=h;User Id=u;Password={_LETTERS};", _LETTERS, "passwd"),
    (f";Password={_LETTERS};", _LETTERS, "passwd"),
    (f"jdbc:x://h/d?user=a&password={_LETTERS}", _LETTERS, "passwd"),
    ('DB_PASSWORD="Tr0ub4dor' + ' and 3"', "Tr0ub4dor", "passwd"),
    # Statements, calls, tags, entries, files and commands.
    (f"ALTER USER app WITH PASSWORD '{_LETTERS}';", _LETTERS, "passwd"),
    (f"create role app login password '{_LETTERS}'", _LETTERS, "passwd"),
    (f"CREATE USER 'a'@'%' IDENTIFIED BY '{_LETTERS}';", _LETTERS, "passwd"),
    (f"define('DB_PASSWORD', '{_LETTERS}');", _LETTERS, "passwd"),
    (f'os.getenv("DB_PASSWORD", "{_LETTERS}")', _LETTERS, "passwd"),
    (f'os.environ.get("API_KEY", "{_KEY}")', _KEY, "key"),
    (f"<db><password>{_LETTERS}</password></db>", _LETTERS, "passwd"),
    (f"- name: DB_PASSWORD\n  value: {_LETTERS}\n", _LETTERS, "passwd"),
    (f'{{"name": "DB_PASSWORD", "value": "{_LETTERS}"}}', _LETTERS, "passwd"),
    (f"- name: DB_PASSWORD\\n  value: {_WORD}\\n", _WORD, "passwd"),
    (f"ENV DB_PASSWORD {_LETTERS}", _LETTERS, "passwd"),
    (f"ENV API_TOKEN {_LETTERS}", _LETTERS, "key"),
    (f"DB_PW={_WORD}", _WORD, "passwd"),
    (f"machine h.test login me password {_LETTERS}", _LETTERS, "passwd"),
    (f"machine h.test\n  login me\n  password {_LETTERS}\n", _LETTERS, "passwd"),
    (f"x\ndb.test:5432:shop:app:{_LETTERS}\n", _LETTERS, "passwd"),
    (f"*:*:*:app:{_LETTERS}", _LETTERS, "passwd"),
    (f"mysql -u root -p{_LETTERS} shop", _LETTERS, "passwd"),
    (f"mysqldump -p'{_LETTERS}' shop", _LETTERS, "passwd"),
    (f"sshpass -p {_LETTERS} ssh me@host", _LETTERS, "passwd"),
    (f"curl -uadmin:{_LETTERS} localhost", _LETTERS, "login"),
    (f"curl -X POST \\\n  --user admin:{_LETTERS} localhost", _LETTERS, "login"),
    (f"**Password:** {_WORD}", _WORD, "passwd"),
    (f"**Password**: {_WORD}", _WORD, "passwd"),
    (f"the password was {_WORD}", _WORD, "passwd"),
    ("postgres://app:Xy7/kkl" + "9zQ@db.test/shop", "kkl", "postgres"),
    ("postgres://app:Xy7'kkl" + "9zQ@db.test/shop", "kkl", "postgres"),
    (f"Authorization: Bearer 12|{_LONG}", _LONG, "bearer"),
    (f"Authorization: SSWS {_LONG}", _LONG, "bearer"),
    (f"Cookie: theme=dark; session={_LONG}; a=b", _LONG, "cookie"),
    (f"set-cookie: PHPSESSID={_LONG}; path=/", _LONG, "cookie"),
    (f"https://a.blob.test/c?sv=2022&sig={_LONG}%2Fab%3D", _LONG, "Azure SAS"),
    (f"{_KEY[:14]}.atlas" + f"v1.{_LONG}{_KEY}", _LONG, "Terraform"),
    (f"https://discord.com/api/webhooks/{'1' * 18}/{some(_URLSAFE, 68)}", "", "Discord webhook"),
    ("AK" + f"IA{some(string.ascii_uppercase, 14)}A2,{_AWS}", _AWS, "AWS key id"),
    ('"apiKey": "0b6f3c1e-8f0a-4c1b' + '-9a53-1f5f2f0c9d11"', "0b6f3c1e", "key"),
    ("api_key = '0b6f3c1e-8f0a-4c1b" + "-9a53-1f5f2f0c9d11'", "0b6f3c1e", "key"),
]


@pytest.mark.parametrize(("text", "secret", "kind"), NAMED, ids=range(len(NAMED)))
def test_a_secret_is_known_by_the_name_before_it(text: str, secret: str, kind: str) -> None:
    masked = mask(text)
    assert masked.kinds == (kind,)
    assert f"[secret: {kind}]" in masked.text
    assert not secret or secret not in masked.text


KEPT = [
    "id 0b6f3c1e-8f0a-4c1b-9a53-1f5f2f0c9d11",
    "token: 0b6f3c1e-8f0a-4c1b-9a53-1f5f2f0c9d11",
    "commit 9fceb02d0ae598e95dc970b74767f19372d61af8",
    "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    '"integrity": "sha512-' + some(_ALNUM + "+/", 86) + '=="',
    "A password must have at least 12 characters and is never logged.",
    "The token is required; the secret is that there is none.",
    "Ask for the password: it is optional, or reset password = yes",
    "https://example.org/a/b?page=2#top and http://localhost:8000/@me",
    "git@github.com:owner/name.git",
    'password = os.environ["PASSWORD"]',
    "password = getpass.getpass('Password: ')",
    "password: str | None = None",
    "token = await client.token(user1)",
    "const password = config.db.password1;",
    "password=$DB_PASSWORD1",
    "password: ${{ secrets.DB_PASSWORD_2 }}",
    "export API_KEY=<your-key-1>",
    "API_KEY=your_api_key_123",
    "Authorization: Bearer <token>",
    "Authorization: Bearer $TOKEN_FOR_THE_TESTS_1",
    "Bearer authentication-mechanisms",
    "sk-...",
    "sk-xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
    "ghp_" + "x" * 36,
    "AKIA" + "IOSFODNN7" + "EXAMPLE",
    "postgres://user:password@localhost/db",
    "postgres://user:<password>@localhost/db",
    "postgres://user:${PGPASSWORD}@localhost/db",
    '"password": "Password"',
    '"password": "Enter your password, 8 characters or more"',
    'type="password" name="password"',
    'secretName: "db-credentials"',
    '"tokens": 128000, "max_tokens": 4096',
    '"total_tokens":1789000123',
    "tokenizer = 'cl100k_base'",
    "password_file: /run/secrets/db1",
    "secret_id: 9fceb02d0ae598e95dc970b74767f19372d61af8",
    "-----BEGIN PUBLIC KEY-----\n" + some(_ALNUM, 64) + "\n-----END PUBLIC KEY-----",
    'if "-----BEGIN PRIVATE' + ' KEY-----" in text: refuse()',
    "task-management-and-risk-assessment-2024-final",
    "order 4111111111111112 at 1763244400000",
    "version 4.4111.1111.1111",
    "docker run -u 1000:1000 image",
    "const passwordInput = document.querySelector('#password1')",
    "keyboard: qwerty12345",
    "--- PASS: TestParse2 (0.00s)",
    "pass: 123456 requests",
    "Unexpected token: ident42x",
    "existingSecret: postgres-creds1",
    "STORAGE_KEY='chatHistory'",
    "docker run --user node:nodegroup image",
    "rsync -u web1:/var/www/html/site .",
    "sudo -u postgres:postgres psql",
    "la clave es mejorar2",
    "signing key: sha256rsa1",
    ".sk-toggleable__content2 {}",
    ".sk-toggleable__content2-with-a-long-name-of-its-own {}",
    "docker run --name mysql -p3306:3306 mysql",
    "mysql -u root -p$MYSQL_PASSWORD shop",
    "curl -u $USER_NAME:$API_TOKEN host",
    '["password", "user_name2"]',
    "<label>password>abcdef1</label>",
    "postgres://localhost:5432/shop?email=me@example.org",
    "fetch('http://localhost:8000','me@home')",
    "src/masking.py:5432:def:at:data",
    "The password was changed; the machine login and password differ.",
    "Cookie: theme=dark; consent=yes-to-everything-and-more",
    "if (a.password>minimum12) return",
    "- name: DB_PASSWORD\n  valueFrom: secretKeyRef12",
    "task-ant-colony-optimization-of-everything",
    "token: your-token-value-12",
    "password=$dbPassword1",
    "export DB_PASSWORD=${DB_PASSWORD:-x}",
    '"password": "%(password)s"',
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
CUT_OFF = {
    "quoted": "\n".join(f"> {line}" for line in [_BEGIN, *_LINES]),
    "numbered with a bar": "\n".join(f"{n:3} | {line}" for n, line in enumerate([_BEGIN, *_LINES], 9)),
    "numbered with a tab": "\n".join(f"{n:5}\t{line}" for n, line in enumerate([_BEGIN, *_LINES], 9)),
    "numbered with an arrow": "\n".join(f"{n:5}→{line}" for n, line in enumerate([_BEGIN, *_LINES], 9)),
    "headers": "\n".join([_BEGIN, "Proc-Type: 4,ENCRYPTED", "DEK-Info: AES-128-CBC,0A1B", "", *_LINES]),
    "escaped twice": "\\\\n".join([_BEGIN, *_LINES]),
    "tail": "\n".join([*_LINES, "abc123==", _FINISH]),
    "tail after a half line": "\n".join([_LINES[0][40:], *_LINES[1:], _FINISH]),
    "tail, quoted": "\n".join(f"> {line}" for line in [*_LINES, _FINISH]),
    "tail, numbered": "\n".join(f"{n:5}→{line}" for n, line in enumerate([*_LINES, _FINISH], 9)),
    "tail, escaped": "\\n".join([*_LINES, _FINISH]),
    "tail, escaped twice": "\\\\n".join([*_LINES, _FINISH]),
}


@pytest.mark.parametrize("cut_off", CUT_OFF.values(), ids=CUT_OFF)
def test_what_is_left_of_a_key_is_masked_however_its_lines_are_written(cut_off: str) -> None:
    masked = mask(f"so:\n{cut_off}\nand then?")
    assert masked.kinds == ("RSA private key",)
    assert not any(line[40:] in masked.text for line in _LINES)
    assert masked.text.startswith("so:\n")
    assert masked.text.endswith("\nand then?")


def test_the_end_of_a_key_without_its_lines_is_no_secret() -> None:
    text = f"the last line is\n{_FINISH}"
    assert mask(text) == (text, ())


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
            "password",
            "secret",
            "token: ",
            "pwd=",
            "=",
            ":",
            '"',
            "'",
            "\\",
            "\n",
            " ",
            "[",
            "]",
            "[secret: ",
            "://",
            "@",
            "-",
            "Bearer ",
            "--token ",
            "ibm_",
            " is ",
            *(
                "_",
                "%3D",
                "\x1b[32m",
                "\\u0022",
                "\\n",
                ",",
                ";",
                "&",
                "?",
                "$",
                "...",
                ">",
                "<",
                "/",
                "EAAA",
            ),
            *("curl -u a:", "mysql -p", "ALTER USER a PASSWORD '", "IDENTIFIED BY '", "ENV DB_PASSWORD "),
            *("<password>", "</", "name: DB_PW\n value: ", "machine h login u password ", "\nh:5432:a:b:"),
            *("Cookie: ", "session=", "getenv('PASSWORD', '", "host=", "Password=", "export DB_PASSWORD="),
            *("-----BEGIN RSA PRIVATE KEY-----", "-----END RSA PRIVATE KEY-----", "> ", "12→", "a1" * 15),
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
    "aaaa=aaaa",
    '"',
    "'",
    "/",
    "\\",
    "://",
    "://a:",
    "://a:b@",
    "password=",
    'password="',
    "password:'\"",
    "secret: ",
    "token is ",
    "--token ",
    "sk-",
    "sk-a1b2c3d4",
    "eyJaaaaaaaa-",
    "eyJaaaaaaaa.eyJaaaaaaaa-",
    "glpat-",
    "Bearer ",
    "-----BEGIN PRIVATE KEY-----",
    "-----BEGIN PRIVATE KEY-----\n" + "a" * 30,
    "4111 1111 ",
    "ibm_api_key=",
    "SG.aaaaaaaa-",
    "[secret: ",
    "passwordpassword_",
    "M" * 25 + ".",
    "key_1" * 5,
    "PASSWORD=a1",
    "cos_hmac_secret_access_key=",
    "password=1(",
    "password is a",
    "DB_PASSWORD=a,",
    "_pw=ab,cd",
    "ghp_",
    "_sk-",
    "%3D4111",
    "eyJ",
    "eyJaaaaaaaa",
    "-----END PRIVATE KEY-----",
    "-----END PRIVATE KEY-----\n" + "a" * 30,
    "a" * 30 + "\n",
    "-----BEGIN PRIVATE KEY-----\n1: ",
    " -pabcd",
    " -ua:b",
    "mysql -p",
    "curl -u ",
    "password '",
    "password abcd ",
    ":5432:a:b:c",
    "identified by '",
    "session=",
    "session=" + "a" * 16,
    "getenv('password', '",
    "password>abcdef",
    "<password>",
    "password\n value: ",
    "postgres://a:b/c'",
    "ENV PASSWORD ",
    "$" * 8 + "password=$a",
    ".atlasv1.",
    "EAAA",
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
