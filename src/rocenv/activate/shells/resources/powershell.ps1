# Dot-source this file to activate the env `__LABEL__`. `deactivate` or `rocenv_deactivate` undoes it.
## Makes PowerShell itself reject arguments.
[CmdletBinding()] param()
if ($ExecutionContext.SessionState.LanguageMode -ne 'FullLanguage') {
    throw 'rocenv: this PowerShell only allows part of its language; use `rocenv run` instead'
    return
}
if (-not [IO.File]::Exists(__MARKER__)) { throw __GONE__; return }
__LIBRARY__
_RocenvEnter @{
    Ident = __IDENT__
    Label = __MARK__
    Watched = __WATCHED__
    Variables = @(
        __VARIABLES__
    )
    Change = {
        __CHANGE__
    }
}
