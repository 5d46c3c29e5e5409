"""Tokens that say themselves who issued them."""

from __future__ import annotations

import re

from recollect.access.tokens import API_KEY_PREFIX
from recollect.rules.masking.judgement import is_made_up, is_random
from recollect.rules.masking.kinds import has_no_digit, kind

_END = r"(?![A-Za-z0-9])"
_W = r"[A-Za-z0-9_-]"
_UNBROKEN = re.compile(r"[A-Za-z0-9]{32}")


def _is_no_api_key(secret: str) -> bool:
    """After sk- a style sheet's class may follow, too: sk-toggleable__content2."""
    mixed = any(each.islower() for each in secret) and any(each.isupper() for each in secret)
    return has_no_digit(secret) or not (mixed or _UNBROKEN.search(secret))


def _is_padding(secret: str) -> bool:
    """Zeros in base64 look like the beginning of a token."""
    return is_made_up(secret) or not is_random(secret)


KINDS = (
    # The file that AWS offers for download has the secret after the id.
    kind(
        "AWS key id",
        "AKIA|ASIA|ABIA|ACCA",
        rf"[A-Z2-7]{{16}}{_END}(?:[,;\t][A-Za-z0-9/+]{{40}}(?![A-Za-z0-9/+]))?",
        first="[A-Z2-7]{8}",
        border=True,
    ),
    kind("GitHub", "gh[pousr]_", r"[A-Za-z0-9]{36,}", first="[A-Za-z0-9]{8}"),
    kind("GitHub", "github_pat_", r"[A-Za-z0-9_]{22,}"),
    kind(
        "GitLab",
        "gl(?:pat|dt|rt|ft|soat|ptt|cbt|imt|agent|oas|ffct)-",
        rf"{_W}{{20,}}(?:\.[A-Za-z0-9]{{2,12}}){{0,2}}",
    ),
    kind("GitLab", "GR1348941", rf"{_W}{{20,}}"),
    kind("Slack", "xox[abdeoprs]-", r"[A-Za-z0-9-]{16,}"),
    kind("Slack", "xapp-", r"[A-Za-z0-9-]{16,}", border=True, made_up=has_no_digit),
    kind(
        "Slack webhook",
        r"hooks\.slack\.com/(?:services|workflows|triggers)/",
        r"(?P<secret>[A-Za-z0-9_/+-]{20,})",
    ),
    kind("Stripe", "[rs]k_(?:live|test)_", r"[A-Za-z0-9]{16,}"),
    kind("Stripe webhook", "whsec_", r"[A-Za-z0-9+/=]{24,}"),
    kind("Anthropic", "sk-ant-", rf"{_W}{{24,}}", made_up=has_no_digit),
    kind("OpenAI", "sk-(?:proj|svcacct|admin|None)-", rf"{_W}{{24,}}", border=True),
    kind("API key", "sk-lf-", rf"{_W}{{20,}}", border=True, made_up=has_no_digit),
    kind(
        "API key",
        "sk-(?:or-v1-)?",
        rf"{_W}{{20,}}",
        first="[A-Za-z0-9]{8}",
        border=True,
        made_up=_is_no_api_key,
    ),
    kind("Google", "AIza", rf"{_W}{{35}}{_END}", first=_W + "{8}"),
    kind("Google OAuth", "GOCSPX-", rf"{_W}{{20,}}"),
    kind("Google OAuth", r"ya29\.", r"[A-Za-z0-9_.-]{20,}"),
    kind("Azure storage", "AccountKey=|SharedAccessKey=", r"(?P<secret>[A-Za-z0-9+/]{40,}={0,2})"),
    kind("Azure SAS", "[?&]sig=", r"(?P<secret>[A-Za-z0-9%+/_-]{40,}={0,2})", made_up=has_no_digit),
    kind("JWT", "eyJ", rf"{_W}{{8,1000}}\.eyJ{_W}{{8,}}(?:\.{_W}*)?", first=_W + "{8}", border=True),
    kind("npm", "npm_", r"[A-Za-z0-9]{36,}", first="[A-Za-z0-9]{8}"),
    kind("npm", "_authToken=", r"(?P<secret>[A-Za-z0-9_=/+-]{20,})"),
    kind("PyPI", "pypi-", rf"{_W}{{50,}}", first="A[A-Za-z0-9]{6}"),
    kind("Twilio", "SK|AC", rf"[0-9a-f]{{32}}{_END}", first="[0-9a-f]{8}", border=True),
    kind("SendGrid", r"SG\.", rf"{_W}{{16,64}}\.{_W}{{16,}}", first=_W + "{8}", border=True),
    kind("Mailgun", "key-", rf"[0-9a-z]{{32}}{_END}", first="[0-9a-z]{8}", border=True, made_up=has_no_digit),
    kind(
        "Discord",
        "[MNO][A-Za-z0-9_-]{23,27}",
        rf"\.{_W}{{6}}\.{_W}{{27,}}",
        first=r"\.",
        border=True,
    ),
    kind(
        "Discord webhook",
        r"discord(?:app)?\.com/api/(?:v[0-9]{1,2}/)?webhooks/",
        rf"[0-9]{{15,22}}/(?P<secret>{_W}{{50,}})",
    ),
    kind("Telegram", "[0-9]{8,10}:", rf"A{_W}{{34}}{_END}", first="A", border=True),
    kind("Heroku", "HRKU-", rf"{_W}{{36,}}"),
    kind("DigitalOcean", "do[opr]_v1_", r"[0-9a-f]{40,}"),
    kind("Hugging Face", "hf_|api_org_", r"[A-Za-z0-9]{30,}", first="[A-Za-z0-9]{8}", border=True),
    kind("Databricks", "dapi", rf"[0-9a-f]{{32}}(?:-[0-9])?{_END}", first="[0-9a-f]{8}", border=True),
    kind("Supabase", "sb[pa]_|sb_secret_", r"[A-Za-z0-9_]{20,}", first="[A-Za-z0-9]{8}", border=True),
    kind("Recollect", API_KEY_PREFIX, rf"[0-9a-f]{{8}}_{_W}{{40,}}", first="[0-9a-f]{8}_"),
    kind("Groq", "gsk_", r"[A-Za-z0-9]{40,}", border=True),
    kind("xAI", "xai-", r"[A-Za-z0-9]{40,}"),
    kind("Perplexity", "pplx-", r"[A-Za-z0-9]{40,}"),
    kind("Replicate", "r8_", r"[A-Za-z0-9]{30,}", first="[A-Za-z0-9]{8}", border=True),
    kind("Linear", "lin_(?:api|oauth)_", r"[A-Za-z0-9]{30,}", border=True),
    kind("Notion", "ntn_", r"[A-Za-z0-9]{40,}"),
    kind("Shopify", "shp(?:at|ca|pa|ss)_", r"[0-9a-fA-F]{32,}"),
    kind(
        "Square or Facebook",
        "EAA[A-Z]",
        rf"(?:[A-Za-z0-9]{{90,}}|{_W}{{60}}(?![A-Za-z0-9+/=]))",
        first=_W + "{16}",
        border=True,
        made_up=_is_padding,
    ),
    kind("Grafana", "glsa_|glc_", r"[A-Za-z0-9_+/=]{30,}", border=True),
    kind("Sentry", "sntry[su]_", r"[A-Za-z0-9_+/=-]{30,}"),
    kind("Docker Hub", "dckr_(?:pat|oat)_", rf"{_W}{{20,}}"),
    kind("Atlassian", "ATATT3|ATCTT3|ATBB", r"[A-Za-z0-9_=-]{20,}", first="[A-Za-z0-9]{4}", border=True),
    kind("Vault", r"hv[sb]\.", rf"{_W}{{24,}}", border=True),
    kind("Tailscale", "tskey-", rf"{_W}{{16,}}"),
    kind("Postman", "PMAK-", rf"{_W}{{40,}}"),
    kind("Artifactory", "AKCp", r"[A-Za-z0-9]{50,}", first="[A-Za-z0-9]{8}", border=True),
    kind("age key", "AGE-SECRET-KEY-1", r"[A-Z0-9]{40,}"),
    kind("Figma", "fig[dou]_", rf"{_W}{{36,}}", first=_W + "{8}", border=True, made_up=has_no_digit),
    kind("New Relic", "NRAK-", r"[A-Z0-9]{27,}"),
    kind("Doppler", r"dp\.(?:pt|st|ct|sa|scim|audit)\.", r"[A-Za-z0-9_.-]{38,}", made_up=has_no_digit),
    kind("Pulumi", "pul-", rf"[0-9a-f]{{40}}{_END}", first="[0-9a-f]{8}", border=True),
    kind("PlanetScale", "pscale_(?:pw|tkn|oauth)_", r"[A-Za-z0-9_.=-]{30,}"),
    kind("Contentful", "CFPAT-", rf"{_W}{{40,}}"),
    kind("Netlify", "nf[pcobu]_", r"[A-Za-z0-9]{36,}", first="[A-Za-z0-9]{8}", border=True),
    kind("Render", "rnd_", r"[A-Za-z0-9]{28,}", first="[A-Za-z0-9]{8}", border=True, made_up=has_no_digit),
    kind("LangSmith", "lsv2_(?:pt|sk)_", r"[0-9a-f]{32}_[0-9a-f]{10,}"),
    kind("Bedrock", "ABSK", r"[A-Za-z0-9+/]{100,}={0,2}", first="[A-Za-z0-9+/]{8}", border=True),
    kind("RubyGems", "rubygems_", r"[0-9a-f]{48,}"),
    kind("Clojars", "CLOJARS_", r"[0-9a-f]{60,}"),
    kind(
        "Airtable", "pat", rf"[A-Za-z0-9]{{14}}\.[0-9a-f]{{64}}{_END}", first=r"[A-Za-z0-9]{14}\.[0-9a-f]{8}"
    ),
    kind("Fly", r"fm[12][ar]?_", r"[A-Za-z0-9+/=_,-]{60,}", first="[A-Za-z0-9+/]{8}"),
    kind("Terraform", r"\.atlasv1\.", rf"(?P<secret>{_W}{{60,}})"),
)
