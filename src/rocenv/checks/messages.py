"""Messages about support bundles and fixes, in both languages."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rocenv.core.language import Language

_MESSAGES: Mapping[str, Mapping[Language, str]] = {
    "collected": {
        "en": "Wrote `{file}` ({size}): what the checks need to know about the GPUs, the kernel and the "
        "drivers, and what they found. It has no user names, host names or serial numbers, and none of your "
        "folders",
        "zh": "已写入 `{file}`（{size}）：检查所需的 GPU、内核和驱动信息，以及检查结果；"
        "不含用户名、主机名、序列号，也不含您的文件夹",
    },
    "variables": {"en": "Environment variables in it: {names}", "zh": "其中的环境变量：{names}"},
    "look": {
        "en": "It is plain text. Read it before you send it: {command}",
        "zh": "它是纯文本，发送之前请先查看：{command}",
    },
    "examine": {"en": "The recipient runs: {command}", "zh": "收到的人运行：{command}"},
    "repair": {
        "en": "restore the files of env `{item}` from its record",
        "zh": "按记录恢复环境 `{item}` 的文件",
    },
    "remove-incomplete": {
        "en": "remove the incomplete env `{item}`",
        "zh": "删除不完整的环境 `{item}`",
    },
    "miopen-database": {
        "en": "rename the damaged database `{item}`, so that MIOpen creates a new one",
        "zh": "将已损坏的数据库 `{item}` 改名，让 MIOpen 重新生成",
    },
    "ask": {"en": "{title}: {what}?", "zh": "{title}：要{what}吗？"},
    "done": {"en": "Done: {what}", "zh": "已完成：{what}"},
    "left": {"en": "Skipped: {what}", "zh": "未执行：{what}"},
    "failed": {"en": "Failed to {what}: {why}", "zh": "失败：{what}：{why}"},
    "gone": {"en": "Already fixed: {title}", "zh": "此项已无需处理：{title}"},
    "nothing": {
        "en": "None of these findings can be fixed automatically; follow the instructions above",
        "zh": "发现的问题都不适合自动修复；请按上面的说明处理",
    },
    "no-terminal": {
        "en": "Nothing was changed, because there is no terminal to ask you on; `--yes` accepts all fixes",
        "zh": "没有终端可以向您提问，因此没有做任何改动；`--yes` 表示全部同意",
    },
}


def message(name: str, language: Language, /, **values: str) -> str:
    """A message with its values filled in."""
    return _MESSAGES[name][language].format(**values)
