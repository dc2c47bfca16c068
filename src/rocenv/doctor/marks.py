"""What is nobody's business on any machine, by its form: addresses, serial numbers, tokens, servers."""

from __future__ import annotations

import ipaddress
import re

USER, OTHER, HOST = "user", "other", "host"
_NOWHERE = "0.0.0.0"  # noqa: S104
_EVERYWHERE = ("127.0.0.1", "::1", "::", _NOWHERE)
# Some versions look like addresses: "Linux version 6.6.87.2-microsoft-standard-WSL2".
_VERSION = "".join(rf"(?<!ersion{between})" for between in (" ", "=", ":", ": ", '": "', '":"'))
_ADDRESS = re.compile(
    rf"(?<![\w.:]){_VERSION}(?:[0-9]{{1,3}}(?:\.[0-9]{{1,3}}){{3}}|[0-9A-Fa-f:]*:[0-9A-Fa-f:.]*)"
    r"(?![\w:]|-microsoft)"
)
_UUID = r"[0-9A-Fa-f]{8}-(?:[0-9A-Fa-f]{4}-){3}[0-9A-Fa-f]{12}"
# "SerialNumber: X", "unique_id 123", 'Name="UUID">X', "serial=X", "S/N: X"
_NUMBER = (
    r"(\b\w*(?:serial(?:[ _-]?(?:number|num|no))?|uuid|guid|unique[ _-]?id|hive[ _-]?id|machine[ _-]?id"
    r"|asset[ _-]?tag|service[ _-]?tag)[\"']?\s*[:=>]?[ \t]*[\"']?)[^\s\"',;<>\[\]{}&\\]+"
)
_SAID_BEFORE = (
    r"[\w.-]{0,40}(?:token|secret|passw|pwd|api[_-]?key|access[_-]?key|signature|credential|cookie|auth)"
    r"[\w.-]{0,40}"
)
# What begins a token says whose it is. Source: the documentation of each that hands them out.
_BEGINS_WITH = (
    r"(?<![A-Za-z0-9])(?:hf_|sk-|ghp_|gho_|ghu_|ghs_|ghr_|github_pat_|glpat-|xox[abprs]-|AKIA|ASIA|pypi-|npm_"
    r"|wandb_|r8_)[A-Za-z0-9_-]{3,}"
)
_DOMAINS = (
    r"(?:com|net|org|edu|gov|io|dev|ai|co|cn|de|at|ch|fr|uk|eu|ru|jp|kr|tw|nl|pl|it|es|se|cz|br|ca|au"
    r"|box|lan|local|localdomain|home|arpa|internal|intern|intranet|corp|private|example|test)"
)
_PUBLIC = (
    r"(?:[\w-]+\.)*(?:github|githubusercontent|amd|radeon|pytorch|kernel|freedesktop|microsoft|python|huggingface)"
    r"\.(?:com|org|co)\b"
)
_UNC = r"(?<![\w\\:;&.)\]])(\\{2,4}(?:\?\\{1,2}UNC\\{1,2})?)(?![?.\\])[\w.$-]+(\\{1,2})[^\\/\"'<>|;\s]+"
_GENERAL = tuple(
    (re.compile(pattern, re.IGNORECASE), replacement)
    for pattern, replacement in (
        (r"(\b[a-z][a-z0-9+.-]*://)[^/\s@\"'<>]*@", r"\1"),  # who logs in at an address
        (r"[\w.+%-]+@[\w-]+(?:\.[\w-]+)+", "name@example.org"),
        (r"\([\w.+-]+@[\w.-]+\)", "(name@host)"),  # who built a kernel
        (rf"([?&;]{_SAID_BEFORE}=)[^&\s\"'<>]+", r"\1x"),
        (rf"(\b{_SAID_BEFORE}[\"']?\s*[=:]\s*[\"']?)[^\s\"',;<>]+", r"\1x"),
        (_BEGINS_WITH, "x"),
        (_UUID, "00000000-0000-0000-0000-000000000000"),
        (r"\bS-1-5-21(?:-[0-9]+)+", "S-1-5-21-0"),
        (r"(\biSerial\s+[0-9]+\s+)\S+", r"\g<1>0"),
        (_NUMBER, r"\g<1>0"),
        (r"(\bS/?N\s*[:=]\s*[\"']?)[\w.-]+", r"\g<1>0"),
        (r"(\bby-id/)[^\s\"']+", r"\1disk"),
        (r"(\b(?:eui|naa|nna|wwn)[.-](?:0x)?)[0-9a-f]{8,}", r"\g<1>0"),
        (r"\b[0-9a-f]{32,}\b", "0" * 32),
        (r"(?<![0-9a-f:-])(?:[0-9a-f]{2}[:-]){5}(?:(?:[0-9a-f]{2}[:-]){2})?[0-9a-f]{2}(?![0-9a-f:-])", "0:0"),
        (r"(?<![\w.])(?=[0-9.]*[a-f])[0-9a-f]{4}\.[0-9a-f]{4}\.[0-9a-f]{4}(?![\w.])", "0:0"),
        (r"(\b(?:hw ?addr|mac|ether|bssid)\W{1,3})[0-9a-f]{12}\b", r"\g<1>0:0"),
        (r"(\b[eb]?ssid\s*[:=]\s*\"?)[^\"\s]+", r"\1x"),
        (r"(\b[ug]id=[0-9]+)\([^)\n]*\)", rf"\1({OTHER})"),
        # Whose program it was; a name may hold spaces.
        (r"(\b(?:process|thread)\s+)(?!information)\S[^\n]{0,60}?(\s+pid\b\s*)[0-9]*", r"\1x\g<2>0"),
        (r"(\bcomm:\s*)\S+", r"\1x"),
        (r"(\bOneDrive - )[^\\/\"<>|;\r\n]+", r"\1company"),
        (_UNC, r"\1server\2share"),
        # What Windows appends to the name of a device is made of the machine's own numbers.
        (r"(\b(?:PCI|USB)(?:\\+)[^\s\"\\;]+(?:\\+))[^\s\"\\<;]+", r"\g<1>0"),
        (
            rf"(?:(?<=//)|(?<![\w@.\\/-]))(?!{_PUBLIC}|example\.org|[\w-]*_gfx[0-9a-f]+\.co\b)(?:[a-z0-9][a-z0-9_-]*\.)+{_DOMAINS}(?![\w-]|\.\w)",
            "host.example.org",
        ),
    )
)
_HOMES = (
    re.compile(r"((?:/home|/run/media|/media|/Users|/Volumes)/)([^/\s:;,\"'<>|\\]+)"),
    re.compile(
        r"(\b[A-Z]:[\\/]+(?:Users|Documents and Settings)[\\/]+)([^\\/:;*?\"<>|\r\n]+)", re.IGNORECASE
    ),
)
_SHARED = frozenset({"public", "default", "all users", "default user", USER, OTHER})


def unmarked(text: str) -> str:
    """Return a text without what is nobody's business."""
    for pattern, replacement in _GENERAL:
        text = pattern.sub(replacement, text)
    for pattern in _HOMES:
        text = pattern.sub(_home, text)
    return _ADDRESS.sub(_address, text)


def _home(found: re.Match[str]) -> str:
    name = found[2].casefold().rstrip()
    return found[0] if name in _SHARED else f"{found[1]}{OTHER}"


def _address(found: re.Match[str]) -> str:
    text = found[0].rstrip(".:")
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return found[0]
    return found[0] if text in _EVERYWHERE else found[0].replace(text, _NOWHERE)
