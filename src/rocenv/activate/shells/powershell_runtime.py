"""The PowerShell functions that every `Activate.ps1` carries; the last `deactivate` removes them again.

`$_RocenvStack` holds a table for each active env, the newest last. `$_RocenvPrompt` and `$_RocenvForeign`
are the functions `prompt` and `deactivate` that were there before, or null.
"""

from __future__ import annotations

# `_RocenvWithout` answers nothing where nothing but empty entries is left.
RUNTIME = r"""
function global:_RocenvGet([string] $Name) {
    [Environment]::GetEnvironmentVariable($Name)
}
function global:_RocenvPut([string] $Name, [string] $Value) {
    if ($Value -ne '') {
        Set-Item -LiteralPath "Env:$Name" -Value $Value
    } elseif (Test-Path -LiteralPath "Env:$Name") {
        Remove-Item -LiteralPath "Env:$Name"
    }
}
function global:_RocenvHas([string] $List, [string] $Entry) {
    foreach ($other in $List.Split(';')) {
        if ([string]::Equals($other, $Entry, [StringComparison]::OrdinalIgnoreCase)) { return $true }
    }
    return $false
}
function global:_RocenvWithout([string] $List, [string] $Entry) {
    $rest = @(foreach ($other in $List.Split(';')) {
        if (-not (_RocenvHas $other $Entry)) { $other }
    })
    if ((-join $rest) -ne '') { $rest -join ';' }
}
function global:_RocenvPrepend([string] $Name, [string] $Entry) {
    $rest = _RocenvWithout (_RocenvGet $Name) $Entry
    if ($rest) { _RocenvPut $Name "$Entry;$rest" } else { _RocenvPut $Name $Entry }
}
function global:_RocenvSay([string] $Text, [string[]] $Names) {
    if ($Names.Count -gt 0) { Write-Warning "rocenv: ${Text}: $($Names -join ' ')" -WarningAction Continue }
}
function global:_RocenvReport($Active) {
    $left = @()
    $replaced = @()
    foreach ($name in $Active.Names) {
        if ($name -ne 'PATH' -and $Active.Old[$name] -and $Active.Old[$name] -cne $Active.New[$name]) {
            if ($Active.Lists.ContainsKey($name)) { $left += $name } else { $replaced += $name }
        }
    }
    foreach ($name in $Active.Watched) {
        if (Test-Path -LiteralPath "Env:$name") { $left += $name }
    }
    _RocenvSay 'set on this machine, replaced until deactivation' $replaced
    _RocenvSay 'set on this machine, and acts on this env too' $left
}
function global:_RocenvEnter($Active) {
    if (-not (Test-Path -LiteralPath 'variable:global:_RocenvStack')) { _RocenvBegin }
    while (@($global:_RocenvStack | Where-Object { $_.Ident -eq $Active.Ident }).Count -gt 0) { _RocenvPop }
    function global:deactivate {
        _RocenvPop
        if ($global:_RocenvStack.Count -eq 0) { _RocenvEnd }
    }
    foreach ($name in $Active.Names) { $Active.Old[$name] = _RocenvGet $name }
    $null = & $Active.Change
    foreach ($name in $Active.Names) { $Active.New[$name] = _RocenvGet $name }
    if ($global:_RocenvStack.Count -eq 0) { _RocenvReport $Active }
    $null = $global:_RocenvStack.Add($Active)
}
function global:_RocenvPop {
    $last = $global:_RocenvStack.Count - 1
    $active = $global:_RocenvStack[$last]
    $global:_RocenvStack.RemoveAt($last)
    $kept = @()
    foreach ($name in $active.Names) {
        $now = _RocenvGet $name
        $old = $active.Old[$name]
        if ($now -ceq $active.New[$name]) {
            _RocenvPut $name $old
        } elseif ($now -and $active.Lists.ContainsKey($name)) {
            foreach ($entry in $active.Lists[$name]) {
                if (-not (_RocenvHas $old $entry)) { $now = _RocenvWithout $now $entry }
            }
            _RocenvPut $name $now
        } else {
            $kept += $name
        }
    }
    _RocenvSay 'changed while the env was active, and left as it is now' $kept
}
function global:_RocenvBegin {
    $global:_RocenvStack = New-Object System.Collections.ArrayList
    $global:_RocenvForeign = $null
    $global:_RocenvPrompt = $null
    if (Test-Path -LiteralPath 'function:deactivate') {
        $global:_RocenvForeign = (Get-Item -LiteralPath 'function:deactivate').ScriptBlock
    }
    if ((Test-Path -LiteralPath 'function:prompt') -and -not (_RocenvGet 'ROCENV_DISABLE_PROMPT')) {
        $global:_RocenvPrompt = (Get-Item -LiteralPath 'function:prompt').ScriptBlock
        function global:prompt {
            # of rocenv: shows the active envs, the newest first
            for ($i = $global:_RocenvStack.Count - 1; $i -ge 0; $i--) {
                Write-Host $global:_RocenvStack[$i].Label -NoNewline
            }
            & $global:_RocenvPrompt
        }
    }
}
function global:_RocenvEnd {
    if ($global:_RocenvPrompt -and "$function:prompt" -match '_RocenvStack') {
        Set-Item -LiteralPath 'function:global:prompt' -Value $global:_RocenvPrompt
    }
    if (Test-Path -LiteralPath 'function:deactivate') { Remove-Item -LiteralPath 'function:deactivate' }
    if ($global:_RocenvForeign) {
        Set-Item -LiteralPath 'function:global:deactivate' -Value $global:_RocenvForeign
    }
    Remove-Variable -Scope Global -Name '_Rocenv*'
    Remove-Item -Path 'function:_Rocenv*'
}
""".strip()
