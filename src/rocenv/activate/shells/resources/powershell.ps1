# Activates the env `__LABEL__`: dot-source it. `deactivate` takes that back, or `rocenv_deactivate`.
## With this PowerShell itself refuses arguments.
[CmdletBinding()] param()
if ($ExecutionContext.SessionState.LanguageMode -ne 'FullLanguage') {
    throw 'rocenv: this PowerShell is restricted to a part of its language; `rocenv run` needs none of it'
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
