"""What is said about packs and fixes, in both languages."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rocenv.core.language import Language

_TEXTS: Mapping[str, Mapping[Language, str]] = {
    "readme": {
        "en": """\
What `rocenv doctor` read on a machine, for somebody else to examine:

    rocenv doctor --from THIS_FILE

- files/         {count} texts, each in the place that it had on the machine
- manifest.json  which file each text is of, what could not be opened, the names in folders, the environment
                 variables that the checks looked at, and what they saw

Taken out: names of users and of the machine, full names, home folders, serial numbers and UUIDs, addresses of
the network, e-mail addresses, tokens, names of servers and disks, names of programs in the kernel's log.
Folders that are no part of a system or of a known program are called p1, p2 and so on. Of the kernel's log,
the registry and lists of folders only what the checks look for is here.
All of it is plain text. Look into it before you send it; if something in it should stay with you, do not.
""",
        "zh": """\
这里是 `rocenv doctor` 在一台机器上读取到的内容，供他人检查：

    rocenv doctor --from 本文件

- files/         {count} 个文本，按其在机器上的位置存放
- manifest.json  每个文本对应哪个文件、哪些东西打不开、文件夹中的名称、检查时查看过的环境变量，以及检查结果

已去掉：用户名和主机名、真实姓名、主目录、序列号和 UUID、网络地址、电子邮件地址、令牌、服务器和磁盘的名称，
以及内核日志中的程序名。不属于系统或常见程序的文件夹以 p1、p2 等代替。
内核日志、注册表和文件夹列表只保留检查需要的部分。全部内容都是纯文本。
发送之前请先看一遍；如果其中有不想给别人看的东西，就不要发送。
""",
    },
    "collected": {
        "en": "`{file}` ({size}): {count} texts that the checks read, without names or serial numbers",
        "zh": "`{file}`（{size}）：检查时读取的 {count} 个文本，不含名称和序列号",
    },
    "variables": {
        "en": "and these variables of your environment: {names}",
        "zh": "以及这些环境变量：{names}",
    },
    "rows": {
        "en": "and of Windows, in `{file}`: {names}",
        "zh": "以及 Windows 的内容（`{file}`）：{names}",
    },
    "look": {
        "en": "look into it before you send it: {command}",
        "zh": "发送之前请先查看其中的内容：{command}",
    },
    "examine": {"en": "whoever gets it runs: {command}", "zh": "收到的人运行：{command}"},
    "repair": {
        "en": "put the files of env `{item}` back as its record has them",
        "zh": "按记录恢复环境 `{item}` 的文件",
    },
    "remove-incomplete": {
        "en": "remove env `{item}`, whose creation was interrupted",
        "zh": "删除创建中断的环境 `{item}`",
    },
    "miopen-database": {
        "en": "rename the damaged database `{item}`, so that MIOpen makes a new one",
        "zh": "将已损坏的数据库 `{item}` 改名，让 MIOpen 重新生成",
    },
    "ask": {"en": "{title}: {what}?", "zh": "{title}：要{what}吗？"},
    "done": {"en": "done: {what}", "zh": "已完成：{what}"},
    "left": {"en": "not done: {what}", "zh": "未执行：{what}"},
    "failed": {"en": "failed: {what}: {why}", "zh": "失败：{what}：{why}"},
    "gone": {"en": "nothing is left to be done about this: {title}", "zh": "此项已无需处理：{title}"},
    "nothing": {
        "en": "nothing that was found can be fixed safely without you; what to do is said above",
        "zh": "发现的问题都不适合自动修复；请按上面的说明处理",
    },
    "no-terminal": {
        "en": "nothing was changed, for there is no terminal to ask you on; `--yes` answers each question",
        "zh": "没有终端可以向您提问，因此没有做任何改动；`--yes` 表示全部同意",
    },
}


def said(name: str, language: Language) -> str:
    """Return a text in a language."""
    return _TEXTS[name][language]
