## Functions that every `Activate.ps1` contains. Deactivating the last env removes them.
##
## `$_RocenvStack` contains a hashtable for each active env, newest last. `$_RocenvPrompt` is the previous
## `prompt`, or null. The user's redefinitions have no effect here: environment variables are accessed through .NET,
## cmdlets are called with their module name, and preferences that affect cmdlets are set in these functions.
function global:_RocenvGet([string] $Name) {
    [Environment]::GetEnvironmentVariable($Name)
}
## Returns the name if the variable could not be set to an empty string: .NET before 9, and therefore PowerShell
## before 7.5, removes it instead. Source: learn.microsoft.com, "Support for empty environment variables". A `$null`
## that is passed to .NET as a string becomes an empty string. Source: PowerShell/PowerShell issue 24637
function global:_RocenvPut([string] $Name, $Value) {
    if ($null -eq $Value -or ($Value.Length -eq 0 -and -not $__EMPTY__)) {
        [Environment]::SetEnvironmentVariable($Name, [NullString]::Value)
    } else {
        [Environment]::SetEnvironmentVariable($Name, $Value)
        if ($null -eq (_RocenvGet $Name)) { $Name }
    }
}
function global:_RocenvEqual([string] $One, [string] $Other) {
    [string]::Equals($One, $Other, [StringComparison] '__COMPARISON__')
}
function global:_RocenvIsNow([string] $Name, $Value) {
    $now = _RocenvGet $Name
    if ($null -eq $now -or $null -eq $Value) { return $null -eq $now -and $null -eq $Value }
    [string]::Equals($now, $Value, [StringComparison]::Ordinal)
}
function global:_RocenvHas([string] $List, [string] $Entry) {
    foreach ($other in $List.Split('__SEPARATOR__')) {
        if (_RocenvEqual $other $Entry) { return $true }
    }
    $false
}
## Returns the remaining entries, or none if all are empty and empty entries have no meaning.
function global:_RocenvWithout([string] $List, [string] $Entry) {
    if ($List.Length -eq 0) { return }
    $rest = @(foreach ($other in $List.Split('__SEPARATOR__')) {
        if (-not (_RocenvEqual $other $Entry)) { $other }
    })
    if ($__EMPTY__ -or (-join $rest).Length -gt 0) { $rest }
}
function global:_RocenvPrepend([string] $Name, [string] $Entry) {
    $entries = @($Entry) + @(_RocenvWithout (_RocenvGet $Name) $Entry)
    _RocenvPut $Name ($entries -join '__SEPARATOR__')
}
## Returns the cache folder: the env's own, or the user's own if the env's is not writable. .NET cannot query
## permissions, so this creates and removes a folder. Shells started from this one use the same cache folder.
function global:_RocenvCache([string] $Folder, [string] $Ident) {
    $probe = "$Folder/.probe-$([guid]::NewGuid())"
    try {
        if ([IO.Directory]::Exists($Folder)) {
            $null = [IO.Directory]::CreateDirectory($probe)
            [IO.Directory]::Delete($probe)
            return $Folder
        }
    } catch {
        $null = $_
    }
    $base = _RocenvGet 'XDG_CACHE_HOME'
    if (-not "$base".StartsWith('/')) { $base = "$(_RocenvGet 'HOME')/.cache" }
    if ($base.EndsWith("/rocenv/$Ident")) { $base } else { "$base/rocenv/$Ident" }
}
function global:_RocenvSay([string] $Text, [string[]] $Names) {
    if ($Names.Count -eq 0) { return }
    $line = "rocenv: ${Text}: $($Names -join ' ')"
    if ($Host.UI) { $Host.UI.WriteErrorLine($line) } else { [Console]::Error.WriteLine($line) }
}
function global:_RocenvReport($Active) {
    $left = @()
    $replaced = @()
    foreach ($each in $Active.Variables) {
        if ($each.Old -and -not (_RocenvIsNow $each.Name $each.Old)) {
            if (_RocenvEqual $each.Name 'PATH') { continue }
            if ($each.Entries.Count -gt 0) { $left += $each.Name } else { $replaced += $each.Name }
        }
    }
    foreach ($name in $Active.Watched) {
        if ($null -ne (_RocenvGet $name)) { $left += $name }
    }
    _RocenvSay 'replaced until you deactivate the env' $replaced
    _RocenvSay 'set outside the env and still in effect' $left
}
function global:_RocenvIsActive([string] $Ident) {
    foreach ($each in $global:_RocenvStack) {
        if ($each.Ident -eq $Ident) { return $true }
    }
    $false
}
function global:_RocenvEnter($Active) {
    $ErrorActionPreference = 'Stop'
    $WhatIfPreference = $false
    $ConfirmPreference = 'None'
    $PSDefaultParameterValues = @{}
    if (-not (Microsoft.PowerShell.Management\Test-Path -LiteralPath 'variable:global:_RocenvStack')) {
        _RocenvBegin
    }
    while (_RocenvIsActive $Active.Ident) { _RocenvPop }
    $first = $global:_RocenvStack.Count -eq 0
    foreach ($each in $Active.Variables) { $each.Old = _RocenvGet $each.Name }
    $failed = $null
    try { $unset = @(& $Active.Change) } catch { $failed = $_ }
    if (-not $failed -and $unset.Count -gt 0) {
        $failed = "rocenv: PowerShell before 7.5 does not support empty variables: $($unset -join ' ')"
    }
    foreach ($each in $Active.Variables) { $each.New = _RocenvGet $each.Name }
    if ($first -and -not $failed) { _RocenvReport $Active }
    $null = $global:_RocenvStack.Add($Active)
    if ($failed) {
        _RocenvLeave
        throw $failed
    }
    _RocenvOffer
    if (_RocenvGet 'ROCENV_DISABLE_PROMPT') { $Active.Label = '' } else { _RocenvShow }
}
function global:_RocenvRest($Variable, [string] $List) {
    foreach ($entry in $Variable.Entries) {
        if (_RocenvHas $Variable.Old $entry) { continue }
        $List = @(_RocenvWithout $List $entry) -join '__SEPARATOR__'
    }
    if ($List.Length -gt 0 -or $null -ne $Variable.Old) { $List }
}
function global:_RocenvTakeOut($Variable, [string] $Name) {
    $now = _RocenvGet $Name
    if ($null -ne $now) { _RocenvPut $Name (_RocenvRest $Variable $now) }
}
## Removes the env from the PATH that a venv activated on top of it has saved and will restore: venv saves it in the
## environment, virtualenv and uv in a variable.
function global:_RocenvCleanVenv($Variable) {
    $null = _RocenvTakeOut $Variable '_OLD_VIRTUAL_PATH'
    if (Microsoft.PowerShell.Management\Test-Path -LiteralPath 'variable:global:_OLD_VIRTUAL_PATH') {
        $global:_OLD_VIRTUAL_PATH = "$(_RocenvRest $Variable $global:_OLD_VIRTUAL_PATH)"
    }
}
function global:_RocenvPop {
    $last = $global:_RocenvStack.Count - 1
    $active = $global:_RocenvStack[$last]
    $global:_RocenvStack.RemoveAt($last)
    $kept = @()
    $unset = @()
    foreach ($each in $active.Variables) {
        $now = _RocenvGet $each.Name
        if (_RocenvEqual $each.Name 'PATH') { _RocenvCleanVenv $each }
        if (_RocenvIsNow $each.Name $each.New) {
            $unset += @(_RocenvPut $each.Name $each.Old)
        } elseif ($null -ne $now -and $each.Entries.Count -gt 0) {
            $unset += @(_RocenvTakeOut $each $each.Name)
        } else {
            $kept += $each.Name
        }
    }
    _RocenvSay 'changed while the env was active, so not restored' $kept
    _RocenvSay 'now unset instead of empty, because PowerShell before 7.5 does not support empty variables' $unset
}
function global:_RocenvLeave {
    $ErrorActionPreference = 'Stop'
    $WhatIfPreference = $false
    $ConfirmPreference = 'None'
    $PSDefaultParameterValues = @{}
    _RocenvPop
    if ($global:_RocenvStack.Count -eq 0) { _RocenvEnd }
}
function global:_RocenvOffer {
    function global:rocenv_deactivate { _RocenvLeave }
    if ("$function:deactivate" -match '_RocenvLeave') { return }
    foreach ($kind in 'alias', 'function') {
        if (Microsoft.PowerShell.Management\Test-Path -LiteralPath "${kind}:deactivate") {
            _RocenvSay 'use rocenv_deactivate to deactivate this env, because another tool defines' 'deactivate'
            return
        }
    }
    function global:deactivate { _RocenvLeave }
}
function global:_RocenvShow {
    if ("$function:prompt" -match '_RocenvStack') { return }
    $inner = $function:prompt
    $global:_RocenvPrompt = $inner
    Microsoft.PowerShell.Management\Set-Item -LiteralPath 'function:global:prompt' -Value {
        $worked = $?
        if (Microsoft.PowerShell.Management\Test-Path -LiteralPath 'variable:global:_RocenvStack') {
            $labels = @(foreach ($each in $global:_RocenvStack) { $each.Label })
            [array]::Reverse($labels)
            Microsoft.PowerShell.Utility\Write-Host (-join $labels) -NoNewline
        }
        if ($inner) {
            ## The user's own prompt may check whether the last command failed: a silent `Write-Error` makes `$?` false.
            if (-not $worked) { Microsoft.PowerShell.Utility\Write-Error '' -ErrorAction Ignore }
            & $inner
        }
    }.GetNewClosure()
}
function global:_RocenvBegin {
    $global:_RocenvStack = [System.Collections.ArrayList] @()
    $global:_RocenvPrompt = $null
}
function global:_RocenvEnd {
    if ($global:_RocenvPrompt -and "$function:prompt" -match '_RocenvStack' -and
        "$function:prompt" -notmatch '_RocenvHook') {
        Microsoft.PowerShell.Management\Set-Item -LiteralPath 'function:global:prompt' -Value (
            $global:_RocenvPrompt)
    }
    if ("$function:deactivate" -match '_RocenvLeave') {
        Microsoft.PowerShell.Management\Remove-Item -LiteralPath 'function:deactivate'
    }
    Microsoft.PowerShell.Management\Remove-Item -LiteralPath 'function:rocenv_deactivate'
    foreach ($name in __VARIABLES__) {
        Microsoft.PowerShell.Utility\Remove-Variable -Scope Global -Name $name
    }
    foreach ($name in __FUNCTIONS__) {
        Microsoft.PowerShell.Management\Remove-Item -LiteralPath "function:$name"
    }
}
