"""`launch`, `doctor` and `diagnose` messages, in English and Chinese."""

from __future__ import annotations

import re
import signal
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import rocenv
from rocenv.core.template import places
from rocenv.data.load import load
from rocenv.data.rules import Text
from rocenv.system.exit_codes import describe_exit, meaning_of_exit

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.launch.lab import Lab

QUOTED = re.compile("`[^`]*`")  # commands and file names
HALF_WIDTH = re.compile(r"[一-龥}`）][,:;!?]|[,:;!?][一-龥{`（]|\.$")
TOUCHING = re.compile(r"[一-龥][A-Za-z0-9{`]|[A-Za-z0-9}`][一-龥]")
JOINED = re.compile(r"但\{shortfall\}|要\{what\}吗")  # the values are in Chinese
CODES = [-each for each in signal.Signals if each < 32] + [
    *(0xC0000005, 0xC000001D, 0xC00000FD, 0xC0000135, 0xC0000139, 0xC0000142, 0xC0000374, 0xC0000409)
]


def texts() -> Iterator[tuple[str, Text]]:
    """Yield every message with its location."""
    for messages in load().messages:
        yield from messages.texts.items()
    for row in load().launcher:
        named = [(each.text, each.means) for each in row.failures]
        named += [(each.code, each.text) for each in row.fallbacks]
        named += [(flag.words[0], flag.why) for flag in row.flags]
        named += [("first_run", row.first_run), ("does", row.wrapper.does)]
        yield from ((f"{row.key}: {name}", text) for name, text in named if text is not None)
    for code in CODES:
        if meaning_of_exit(code):
            yield str(code), Text(en=meaning_of_exit(code), zh=meaning_of_exit(code, "zh"))


def test_messages_exist_in_both_languages_with_the_same_placeholders() -> None:
    found = dict(texts())
    assert len(found) > 80
    for name, text in found.items():
        assert places(text.en).keys() == places(text.zh).keys(), name
        assert not re.search("[一-龥]", text.en), name
        assert re.search("[一-龥]", text.zh) or not re.search("[a-z]", re.sub(r"\{\w+\}", "", text.en)), name


def test_chinese_messages_have_full_width_punctuation_and_spaces_around_latin() -> None:
    for name, text in texts():
        bare = QUOTED.sub("`x`", text.zh)
        assert not HALF_WIDTH.search(bare), (name, text.zh)
        assert not TOUCHING.search(JOINED.sub("", bare)), (name, text.zh)


def test_every_message_is_used_and_every_used_message_exists() -> None:
    root = Path(rocenv.__file__).parent
    data = load()
    for row in data.messages:
        if row.topic == "conditions":
            of_rules = {fact for each in data.rule for remedy in each.remedy for fact in remedy.when}
            of_checks = {fact for each in data.advice for remedy in each.remedy for fact in remedy.when}
            assert set(row.texts) <= of_rules | of_checks
            continue
        places_ = {
            "launch": ("apps/**/*", "launch/*", "commands/launch"),
            "diagnose": ("diagnose/*",),
            "findings": ("findings", "checks/fixes", "diagnose/reading", "commands/*"),
        }[row.topic]
        code = "\n".join(path.read_text() for each in places_ for path in root.glob(f"{each}.py"))
        unused = {name for name in row.texts if f'"{name}"' not in code and f"'{name}'" not in code}
        assert unused == set(), row.topic
        call = {"launch": "message", "findings": "texts"}.get(row.topic)
        used = re.findall(rf"""{call}\(\s*["'](\w+)["']""", code) if call else []
        assert set(used) <= set(row.texts), row.topic
        assert len(used) > 10 or not call


@pytest.mark.parametrize(
    ("code", "english", "chinese"),
    [
        (3, "exit code 3", "退出码 3"),
        (-40, "signal 40", "信号 40"),
        (-11, "SIGSEGV", "SIGSEGV"),
        (0xC0000005, "0xC0000005 (access violation)", "0xC0000005（access violation）"),
        (0xFFFFFFFF, "exit code -1", "退出码 -1"),
        (0xC0001234, "0xC0001234", "0xC0001234"),
    ],
)
def test_exit_codes_are_explained_in_both_languages(code: int, english: str, chinese: str) -> None:
    assert (describe_exit(code), describe_exit(code, "zh")) == (english, chinese)


def test_a_crash_is_explained_in_chinese(lab: Lab) -> None:
    lab.make_zluda()
    lab.env["LC_ALL"] = "zh_CN.UTF-8"
    trace = "open(os.environ['ROCENV_TRACE'], 'w').write('load C:/rocblas.dll\\n')"
    done = lab.run("launch", "sd", "--", "python3", "-c", f"import os; {trace}; os.abort()")
    said = done.stderr.decode().partition("日志：")[2]
    assert "`python3` 异常结束（SIGABRT）：它调用了 abort()；" in said
    assert "  当时正在加载 `C:/rocblas.dll`\n" in said
    assert "\n原因：已知这套组合会失败：" in said
    assert "\n解决：rocenv create sd2 --rocm 5.7 --zluda" in said
    assert "\n解决：查看日志：`" in said
    assert "# 已结束（SIGABRT），运行了 " in lab.log().decode()


def test_chinese_text_is_written_to_a_pipe_with_a_different_encoding(lab: Lab) -> None:
    lab.make()
    environ = {"LC_ALL": "zh_CN.UTF-8", "PYTHONIOENCODING": "cp1252"}
    done = lab.run("launch", "sd", "--", "sh", "-c", "exit 3", environ=environ, timeout=60)
    assert "`sh` 异常结束（退出码 3）" in done.stderr.decode()
