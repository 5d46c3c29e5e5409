"""Secrets of every kind, texts that announce one, and texts that only look like it."""

from __future__ import annotations

import base64
import random
import string

from recollect.access.tokens import new_api_key

# Every secret here is put together from parts, so that no scanner takes this file for a leak.
ALNUM = string.ascii_letters + string.digits
HEX = "0123456789abcdef"
URLSAFE = ALNUM + "-_"
_dice = random.Random(20261115)


def some(alphabet: str, length: int) -> str:
    """Random characters; the last is a letter or digit, and there is a digit among them."""
    body = "".join(_dice.choices(alphabet, k=length - 2))
    return body + "7" + _dice.choice([each for each in alphabet if each.isalnum()])


def pem(label: str) -> str:
    lines = "\n".join(some(ALNUM + "+/", 64) for _ in range(5))
    return f"-----BEGIN {label}-----\n{lines}\n-----END {label}-----"


def jwt() -> str:
    head, body = (
        base64.urlsafe_b64encode(part).decode().rstrip("=")
        for part in (b'{"alg":"HS256"}', b'{"role":"service_role","n":%d}' % _dice.randrange(10**9))
    )
    return f"{head}.{body}.{some(URLSAFE, 43)}"


KINDS: dict[str, list[tuple[str, str]]] = {
    "GitHub": [("github" + "_pat_" + some(ALNUM, 22) + "_" + some(ALNUM, 59), "GitHub")],
    "PEM": [
        (pem(f"{name}PRIVATE" + " KEY"), f"{name}private key")
        for name in ("RSA ", "EC ", "OPENSSH ", "ENCRYPTED ", "")
    ],
    "PGP": [(pem("PGP PRIVATE" + " KEY BLOCK"), "PGP private key")],
    "JWT": [(jwt(), "JWT")],
    "SendGrid": [("S" + "G." + some(URLSAFE, 22) + "." + some(URLSAFE, 43), "SendGrid")],
    "Discord": [("M" + some(ALNUM, 23) + "." + some(ALNUM, 6) + "." + some(URLSAFE, 38), "Discord")],
    "Telegram": [("51" + some(string.digits, 8) + ":A" + some(URLSAFE, 34), "Telegram")],
    "Recollect": [(new_api_key()[0], "Recollect")],
    "Mailchimp": [(some(HEX, 32) + "-us" + "12", "Mailchimp")],
    "LangSmith": [("lsv2" + "_pt_" + some(HEX, 32) + "_" + some(HEX, 10), "LangSmith")],
    "Airtable": [("pa" + "t" + some(ALNUM, 14) + "." + some(HEX, 64), "Airtable")],
    "card": [
        (number, "card")
        for number in ("4111 1111" + " 1111 1111", "5555555555" + "554444", "3782-822463" + "-10005")
    ],
}
for _kind, _prefix, _alphabet, _length in [
    ("New Relic", "NR" + "AK-", string.ascii_uppercase + string.digits, 27),
    ("AWS key id", "AK" + "IA", "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567", 16),
    ("PyPI", "pypi" + "-AgEIcHlwaS5vcmc", URLSAFE, 120),
    ("Hugging Face", "h" + "f_", ALNUM, 34),
    ("Anthropic", "sk-" + "ant-api03-", URLSAFE, 95),
    ("Atlassian", "ATA" + "TT3", URLSAFE, 180),
    ("Docker Hub", "dckr" + "_pat_", URLSAFE, 27),
    ("PlanetScale", "pscale" + "_pw_", ALNUM, 43),
    ("Contentful", "CF" + "PAT-", URLSAFE, 43),
    ("DigitalOcean", "dop" + "_v1_", HEX, 64),
    ("Square", "sq0" + "csp-", URLSAFE, 43),
    ("Artifactory", "AK" + "Cp", ALNUM, 69),
    ("RubyGems", "ruby" + "gems_", HEX, 48),
    ("GitLab", "gl" + "pat-", URLSAFE, 20),
    ("Linear", "lin" + "_api_", ALNUM, 40),
    ("Doppler", "dp" + ".pt.", ALNUM, 43),
    ("Clojars", "CLO" + "JARS_", HEX, 60),
    ("Databricks", "da" + "pi", HEX, 32),
    ("Figma", "fig" + "d_", URLSAFE, 40),
    ("Bedrock", "AB" + "SK", ALNUM, 128),
    ("Heroku", "HRKU" + "-", ALNUM, 60),
    ("Vault", "hv" + "s.", URLSAFE, 90),
    ("Shopify", "shp" + "at_", HEX, 32),
    ("Netlify", "nf" + "p_", ALNUM, 36),
    ("Render", "rn" + "d_", ALNUM, 28),
    ("Mailgun", "key" + "-", HEX, 32),
    ("Groq", "gs" + "k_", ALNUM, 52),
    ("Pulumi", "pu" + "l-", HEX, 40),
    ("Fly", "fm" + "2_", ALNUM, 300),
    ("npm", "npm" + "_", ALNUM, 36),
    ("Twilio", "S" + "K", HEX, 32),
    ("GitHub", "gh" + "p_", ALNUM, 36),
    ("GitHub", "gh" + "o_", ALNUM, 36),
    ("GitHub", "gh" + "s_", ALNUM, 36),
    ("Stripe", "sk" + "_live_", ALNUM, 24),
    ("Stripe", "sk" + "_test_", ALNUM, 24),
    ("Stripe", "rk" + "_live_", ALNUM, 24),
    ("Google", "AI" + "za", URLSAFE, 35),
    ("OpenAI", "sk-" + "proj-", URLSAFE, 120),
    ("API key", "sk" + "-", ALNUM, 48),
    ("Google OAuth", "GOC" + "SPX-", URLSAFE, 28),
    ("Supabase", "sb" + "p_", HEX, 40),
    ("Supabase", "sb" + "_secret_", ALNUM, 31),
    ("Slack", "xo" + "xb-555000111222-", ALNUM, 24),
    ("Slack", "xo" + "xp-555000111222-", ALNUM, 24),
    ("Square or Facebook", "EA" + "AA", URLSAFE, 60),
    ("Square or Facebook", "EA" + "AG", ALNUM, 180),
]:
    KINDS.setdefault(_kind, []).append((_prefix + some(_alphabet, _length), _kind))

PASSWORD, WORD = "Tr0ub4" + "dor&3x", "hunter" + "22"
LETTERS, ODD = "sword" + "fishes", "abcdef" + ",Ghij99kl"
KEY, LONG, AWS, HEXKEY = some(ALNUM, 32), some(ALNUM, 40), some(ALNUM + "+/", 40), some(HEX, 40)
ANNOUNCED = {
    ("passwd", WORD): [
        f"- name: DB_PASSWORD\\n  value: {WORD}\\n",
        f"mysqldump --password={WORD} shop",
        f"$config['password'] = '{WORD}';",
        f"password={WORD}/ibm_cloud: none",
        f"Passwort: {WORD}",
        f"vault --db-password {WORD} up",
        f"the password is {WORD}, ok?",
        f"  password: {WORD}\n",
        f"Das Kennwort lautet {WORD}.",
        f'password: str = "{WORD}"',
        f"La contraseña es {WORD}",
        f"the password was {WORD}",
        f"**Password:** {WORD}",
        f"**Password**: {WORD}",
        f"contraseña: {WORD}",
        f"password={WORD}",
        f"DB_PW={WORD}",
    ],
    ("passwd", PASSWORD): [
        f'{{\\"password\\": \\"{PASSWORD}\\"}}',
        f'{{"db_password": "{PASSWORD}"}}',
        f"'password': '{PASSWORD}',",
        f'password = "{PASSWORD}"',
        f"clave = '{PASSWORD}'",
    ],
    ("key", KEY): [
        f"https://api.test/v1?api_key={KEY}&page=2",
        f'os.environ.get("API_KEY", "{KEY}")',
        f"client_secret={KEY}&grant=x",
        f'API-Schlüssel: "{KEY}"',
        f"export API_KEY={KEY}",
        f"X-Api-Key: {KEY}",
        f'secret: "{KEY}"',
    ],
    ("passwd", LETTERS): [
        f"machine h.test\n  login me\n  password {LETTERS}\n",
        f"host=h user=u password={LETTERS}",
        f'{{"name": "DB_PASSWORD", "value": "{LETTERS}"}}',
        f'os.getenv("DB_PASSWORD", "{LETTERS}")',
        f"CREATE USER 'a'@'%' IDENTIFIED BY '{LETTERS}';",
        f"Server=h;User Id=u;Password={LETTERS};",
        f"create role app login password '{LETTERS}'",
        f"machine h.test login me password {LETTERS}",
        f"ALTER USER app WITH PASSWORD '{LETTERS}';",
        f"- name: DB_PASSWORD\n  value: {LETTERS}\n",
        f"<db><password>{LETTERS}</password></db>",
        f"jdbc:x://h/d?user=a&password={LETTERS}",
        f"x\ndb.test:5432:shop:app:{LETTERS}\n",
        f"define('DB_PASSWORD', '{LETTERS}');",
        f"sshpass -p {LETTERS} ssh me@host",
        f"dump --password={LETTERS} shop",
        f"mysql -u root -p{LETTERS} shop",
        f"mysqldump -p'{LETTERS}' shop",
        f";Password={LETTERS};",
        f"password={LETTERS} dbname=x",
        f"ENV DB_PASSWORD {LETTERS}",
        f"*:*:*:app:{LETTERS}",
    ],
}
NAMED = [
    *((text, secret, kind) for (kind, secret), texts in ANNOUNCED.items() for text in texts),
    (f"https://hooks.slack.com/services/T0{KEY[:8]}/B0{KEY[:8]}/{KEY[:24]}", KEY[:24], "Slack webhook"),
    ("Authorization: Basic " + base64.b64encode(b"admin:" + WORD.encode()).decode(), "", "basic login"),
    (f'"private_key": "{pem("PRIVATE" + " KEY")}\n",'.replace("\n", "\\n"), "-----", "private key"),
    ('passphrase: "correct horse' + ' battery staple"', "correct horse battery staple", "passwd"),
    (f"https://discord.com/api/webhooks/{'1' * 18}/{some(URLSAFE, 68)}", "", "Discord webhook"),
    (f"postgresql+asyncpg://app:{PASSWORD}@db.test/shop", PASSWORD, "postgres"),
    ("AK" + f"IA{some(string.ascii_uppercase, 14)}A2,{AWS}", AWS, "AWS key id"),
    (f"HEROKU_API_KEY={KEY[:8]}-{KEY[8:12]}-4abc-9def-{KEY[:12]}", "", "key"),
    (f"curl -X POST \\\n  --user admin:{LETTERS} localhost", LETTERS, "login"),
    ('"apiKey": "0b6f3c1e-8f0a-4c1b' + '-9a53-1f5f2f0c9d11"', "0b6f3c1e", "key"),
    ("api_key = '0b6f3c1e-8f0a-4c1b" + "-9a53-1f5f2f0c9d11'", "0b6f3c1e", "key"),
    (f"AccountName=a;AccountKey={some(ALNUM, 86)}==;x", "==", "Azure storage"),
    (f"https://a.blob.test/c?sv=2022&sig={LONG}%2Fab%3D", LONG, "Azure SAS"),
    ("export JWT_SECRET=mysuper" + "thing", "mysuper" + "thing", "key"),
    (f"postgresql://app:{WORD}@db.test:5432/shop", WORD, "postgres"),
    ("postgres://app:Xy7/kkl" + "9zQ@db.test/shop", "kkl", "postgres"),
    ("postgres://app:Xy7'kkl" + "9zQ@db.test/shop", "kkl", "postgres"),
    (f"{KEY[:14]}.atlas" + f"v1.{LONG}{KEY}", LONG, "Terraform"),
    (f'ibm_cloud_api_key: "{some(URLSAFE, 44)}"', "", "IBM Cloud"),
    ("postgres://app:my_S3cret" + "_Pw9@db", "S3cret", "postgres"),
    (f"Cookie: theme=dark; session={LONG}; a=b", LONG, "cookie"),
    (f"mongodb+srv://app:{WORD}@cluster.test", WORD, "mongodb"),
    ('DB_PASSWORD="Tr0ub4dor' + ' and 3"', "Tr0ub4dor", "passwd"),
    ("mysql://root:" + "root@localhost/shop", ":root@", "mysql"),
    (f'GITHUB_TOKEN="gh{"p_"}{some(ALNUM, 36)}"', "", "GitHub"),
    (f"set-cookie: PHPSESSID={LONG}; path=/", LONG, "cookie"),
    (f"softlayer_api_token={some(HEX, 64)}", "", "SoftLayer"),
    (f"my token is {HEXKEY}", HEXKEY, "key"),
    ("curl -u admin:Xy7@" + "kkl9zQ host", "kkl9zQ", "login"),
    ("postgres://app:$ecret" + "W0rd@db", "W0rd", "postgres"),
    ("DB_PASSWORD=Hello..." + "World42", "World42", "passwd"),
    (f"curl -uadmin:{LETTERS} localhost", LETTERS, "login"),
    ("DB_PASS=letme" + "innow", "letme" + "innow", "passwd"),
    (f"token_for_ci: {HEXKEY}", HEXKEY, "key"),
    (f"redis://:{WORD}@cache.test:6379/0", WORD, "redis"),
    (f'"SecretAccessKey": "{AWS}"', AWS, "key"),
    ("password: 84736" + "251", "84736" + "251", "passwd"),
    (f"amqp://me:p@{WORD}@mq.test", WORD, "URL"),
    (f"-H 'authorization: bearer {KEY}'", KEY, "bearer"),
    (f"ENV API_TOKEN {LETTERS}", LETTERS, "key"),
    ("DB_PASSWORD=my_S3cret" + "_Pw9", "S3cret", "passwd"),
    ("password=Hello..." + "World42", "World42", "passwd"),
    (f"Authorization: Bearer 12|{LONG}", LONG, "bearer"),
    ("DB_PASSWORD='$ecret" + "W0rd9'", "W0rd9", "passwd"),
    (f"curl -u admin:{WORD} localhost", WORD, "login"),
    ('password: "(p4ss)[w0rd]"', "(p4ss)", "passwd"),
    (f"//registry.test/:_authToken={KEY}", KEY, "npm"),
    (f"aws_secret_access_key = {AWS}", AWS, "key"),
    (f"https://me:{WORD}@git.test/a.git", WORD, "URL"),
    ("DB_PASSWORD='[Xy7" + "kkl9z'", "kkl9z", "passwd"),
    (f"Authorization: Bearer {KEY}", KEY, "bearer"),
    ("password: %Secret" + "9word", "9word", "passwd"),
    (f"password={ODD}\nuser=x", ODD[-8:], "passwd"),
    (f"Authorization: SSWS {LONG}", LONG, "bearer"),
    *(
        (f"{before}DB_PASSWORD={ODD.replace(',', mark)} x", ODD[-8:], "passwd")
        for mark in ",&|<"
        for before in ("", "export ", "A=1\nset ", "ENV ", "docker run -e ")
    ),
]

KEPT = [
    "-----BEGIN PUBLIC KEY-----\n" + some(ALNUM, 64) + "\n-----END PUBLIC KEY-----",
    "ghp_" + "x" * 36,
    "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    '"total_tokens":1789000123',
    "A password must have at least 12 characters and is never logged.",
    "Bearer authentication-mechanisms",
    "https://example.org/a/b?page=2#top and http://localhost:8000/@me",
    "if (a.password>minimum12) return",
    "The password was changed; the machine login and password differ.",
    'type="password" name="password"',
    "Ask for the password: it is optional, or reset password = yes",
    "sk-xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
    "const passwordInput = document.querySelector('#password1')",
    "password: ${{ secrets.DB_PASSWORD_2 }}",
    "The token is required; the secret is that there is none.",
    "password = getpass.getpass('Password: ')",
    '"integrity": "sha512-' + some(ALNUM + "+/", 86) + '=="',
    "docker run --name mysql -p3306:3306 mysql",
    '"password": "Enter your password, 8 characters or more"',
    "fetch('http://localhost:8000','me@home')",
    'if "-----BEGIN PRIVATE' + ' KEY-----" in text: refuse()',
    "id 0b6f3c1e-8f0a-4c1b-9a53-1f5f2f0c9d11",
    ".sk-toggleable__content2-with-a-long-name-of-its-own {}",
    "postgres://user:<password>@localhost/db",
    "Cookie: theme=dark; consent=yes-to-everything-and-more",
    "postgres://user:${PGPASSWORD}@localhost/db",
    "secret_id: 9fceb02d0ae598e95dc970b74767f19372d61af8",
    "Authorization: Bearer $TOKEN_FOR_THE_TESTS_1",
    "postgres://localhost:5432/shop?email=me@example.org",
    "token: 0b6f3c1e-8f0a-4c1b-9a53-1f5f2f0c9d11",
    "- name: DB_PASSWORD\n  valueFrom: secretKeyRef12",
    "commit 9fceb02d0ae598e95dc970b74767f19372d61af8",
    "the last line is\n-----END RSA PRIVATE" + " KEY-----",
    "task-management-and-risk-assessment-2024-final",
    "task-ant-colony-optimization-of-everything",
    "order 4111111111111112 at 1763244400000",
    "docker run --user node:nodegroup image",
    "sk-...",
    "const password = config.db.password1;",
    "postgres://user:password@localhost/db",
    '"tokens": 128000, "max_tokens": 4096',
    "mysql -u root -p$MYSQL_PASSWORD shop",
    "la clave es mejorar2",
    "export DB_PASSWORD=${DB_PASSWORD:-x}",
    "rsync -u web1:/var/www/html/site .",
    "password=$DB_PASSWORD1",
    "curl -u $USER_NAME:$API_TOKEN host",
    'password = os.environ["PASSWORD"]',
    "tokenizer = 'cl100k_base'",
    "token = await client.token(user1)",
    "password_file: /run/secrets/db1",
    'secretName: "db-credentials"',
    "existingSecret: postgres-creds1",
    "<label>password>abcdef1</label>",
    "AKIA" + "IOSFODNN7" + "EXAMPLE",
    "src/masking.py:5432:def:at:data",
    "sudo -u postgres:postgres psql",
    "git@github.com:owner/name.git",
    "Authorization: Bearer <token>",
    "docker run -u 1000:1000 image",
    "--- PASS: TestParse2 (0.00s)",
    "password: str | None = None",
    "export API_KEY=<your-key-1>",
    ".sk-toggleable__content2 {}",
    "Unexpected token: ident42x",
    '["password", "user_name2"]',
    "token: your-token-value-12",
    '"password": "%(password)s"',
    "STORAGE_KEY='chatHistory'",
    "API_KEY=your_api_key_123",
    "version 4.4111.1111.1111",
    "signing key: sha256rsa1",
    '"password": "Password"',
    "keyboard: qwerty12345",
    "pass: 123456 requests",
    "password=$dbPassword1",
]
