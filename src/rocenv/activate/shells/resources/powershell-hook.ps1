## The hook for PowerShell 5.1 and 7. It belongs in `$PROFILE`, after any code that sets a prompt.
##
## PowerShell removes the first `--` from a function's arguments (PowerShell/PowerShell issue 21208). `rocenv
## run` and `rocenv launch` work without it; other commands do not need it.
##
## In `$_RocenvHook`, Seen is the path and first line of the last `.rocenv`; Mine is the ident of the env that the hook
## activated, until the user activates or deactivates that env (`Disown`).
function global:_RocenvHookProgram {
    __PROGRAM__
}
function global:_RocenvHookScript([string] $Name) {
    if ($Name -match '^(-|\.{0,2}$)|[/\\:]') { return }
    $root = [Environment]::GetEnvironmentVariable('ROCENV_HOME')
    $slash = [IO.Path]::DirectorySeparatorChar
    $envs = if ($root) { "$root${slash}envs" } else { __ENVS__ }
    $script = $envs, $Name, 'Activate.ps1' -join $slash
    if (-not [IO.File]::Exists($script)) { return }
    if ($script -notmatch '[*?\[]') { return $script }
    [System.Management.Automation.WildcardPattern]::Escape($script)
}
## For PowerShell before 7.3, which does not escape quotation marks and drops empty words. Source: about_Parsing,
## "Passing arguments to native commands"
function global:_RocenvHookWord([string] $Text) {
    $passing = $ExecutionContext.SessionState.PSVariable.GetValue('PSNativeCommandArgumentPassing', 'Legacy')
    if ("$passing" -ne 'Legacy') { return $Text }
    if ($Text.Length -eq 0) { return '""' }
    $Text -replace '(\\*)"', '$1$1\"'
}
## Calls the program and returns its output, prints its errors, and does not change `$LASTEXITCODE`.
function global:_RocenvHookAsk([string[]] $Words) {
    $ErrorActionPreference = 'Continue'
    $PSNativeCommandUseErrorActionPreference = $false
    $code = $ExecutionContext.SessionState.PSVariable.GetValue('global:LASTEXITCODE')
    $encoding = [Console]::OutputEncoding
    try { [Console]::OutputEncoding = [Text.UTF8Encoding]::new($false) } catch { $encoding = $null }
    try {
        foreach ($line in & (_RocenvHookProgram) @Words 2>&1) {
            if ($line -isnot [System.Management.Automation.ErrorRecord]) { "$line" }
            elseif ($Words[0] -ne 'complete' -and $Host.UI) { $Host.UI.WriteErrorLine("$line") }
        }
    } finally {
        if ($encoding) { [Console]::OutputEncoding = $encoding }
        $global:LASTEXITCODE = $code
    }
}
function global:_RocenvHookStack {
    if (Microsoft.PowerShell.Management\Test-Path -LiteralPath 'variable:global:_RocenvStack') {
        foreach ($each in $global:_RocenvStack) { $each.Ident }
    }
}
function global:_RocenvHookDisown {
    $stack = @(_RocenvHookStack)
    if ($stack.Count -gt 0 -and $stack[-1] -eq $global:_RocenvHook.Mine) { $global:_RocenvHook.Mine = '' }
}
function global:_RocenvHookFind {
    $place = $ExecutionContext.SessionState.Path.CurrentLocation
    if ($place.Provider.Name -ne 'FileSystem') { return }
    for ($folder = $place.ProviderPath; $folder; $folder = [IO.Path]::GetDirectoryName($folder)) {
        $file = [IO.FileInfo] [IO.Path]::Combine($folder, '.rocenv')
        if (-not $file.Exists) { continue }
        $first = ''
        if ($file.Length -gt 0) {
            $reader = $file.OpenText()
            try { $first = $reader.ReadLine() } finally { $reader.Dispose() }
        }
        return @{ Folder = $folder; Seen = "$file`n$first" }
    }
}
function global:_RocenvHookLook {
    $found = $null
    try { $found = _RocenvHookFind } catch { $found = $null }
    $seen = if ($found) { $found.Seen } else { '' }
    if ([string]::Equals($seen, $global:_RocenvHook.Seen, [StringComparison]::Ordinal)) { return }
    $global:_RocenvHook.Seen = $seen
    try {
        $mine = $global:_RocenvHook.Mine
        $global:_RocenvHook.Mine = ''
        $before = @(_RocenvHookStack)
        if ($mine -and $before.Count -gt 0 -and $before[-1] -eq $mine) { _RocenvLeave }
        if (-not $found) { return }
        $before = @(_RocenvHookStack)
        $name = @(_RocenvHookAsk @('trust', '--check', (_RocenvHookWord $found.Folder)))
        if ($name.Count -eq 0) { return }
        $script = _RocenvHookScript $name[0]
        if ($script) { . $script }
        $after = @(_RocenvHookStack)
        if ($after.Count -gt 0 -and $after[-1] -notin $before) { $global:_RocenvHook.Mine = $after[-1] }
    } catch {
        if ($Host.UI) { $Host.UI.WriteErrorLine("$_") }
    }
}
function global:rocenv {
    $first = if ($args.Count -gt 0) { "$($args[0])" } else { '' }
    if ($first -ceq 'activate' -and $args.Count -eq 2) {
        $script = _RocenvHookScript "$($args[1])"
        if ($script) {
            $global:LASTEXITCODE = 1
            $ErrorActionPreference = 'Stop'
            try { . $script } catch [System.Management.Automation.PSSecurityException] {
                throw 'rocenv: this PowerShell does not run scripts. Allow them with:  ' +
                    'Set-ExecutionPolicy -Scope CurrentUser RemoteSigned'
            }
            _RocenvHookDisown
            $global:LASTEXITCODE = 0
            return
        }
    } elseif ($first -ceq 'deactivate' -and $args.Count -eq 1 -and @(_RocenvHookStack).Count -gt 0) {
        _RocenvHookDisown
        _RocenvLeave
        $global:LASTEXITCODE = 0
        return
    } elseif ($first -ceq 'trust') {
        $global:_RocenvHook.Seen = $null
    }
    $program = _RocenvHookProgram
    if ($MyInvocation.ExpectingInput) { $input | & $program @args } else { & $program @args }
}
function global:_RocenvHookComplete([string] $Word, $Line, [int] $Cursor) {
    $words = @(foreach ($each in $Line.CommandElements) {
        if ($each.Extent.EndOffset -ge $Cursor) { break }
        if ($each -is [System.Management.Automation.Language.StringConstantExpressionAst]) { $each.Value }
        else { $each.Extent.Text }
    })
    # The first word is `rocenv` itself.
    if ($words.Count -gt 0) { $words[0] = 'complete' } else { $words = @('complete') }
    $words = @(foreach ($each in $words + $Word.Trim('"', "'")) { _RocenvHookWord $each })
    foreach ($line in _RocenvHookAsk $words) {
        if ($line -eq ':files' -or $line -eq ':folders') {
            foreach ($each in [System.Management.Automation.CompletionCompleters]::CompleteFilename($Word)) {
                if ($line -eq ':files' -or $each.ResultType -eq 'ProviderContainer') { $each }
            }
            continue
        }
        $value, $help = $line -split "`t", 2
        $shown = $typed = $value
        if ($value -notmatch '^[A-Za-z0-9_.:/=+-]+$') {
            $typed = "'$($value -replace "['\u2018\u2019\u201a\u201b]", '$0$0')'"
        }
        if (-not $help) { $help = $shown }
        [System.Management.Automation.CompletionResult]::new($typed, $shown, 'ParameterValue', $help)
    }
}
if (-not (Microsoft.PowerShell.Management\Test-Path -LiteralPath 'variable:global:_RocenvHook')) {
    $global:_RocenvHook = @{ Seen = ''; Mine = '' }
}
Microsoft.PowerShell.Core\Register-ArgumentCompleter -Native -CommandName 'rocenv' -ScriptBlock {
    param($word, $line, $cursor)
    _RocenvHookComplete $word $line $cursor
}
if ("$function:prompt" -notmatch '_RocenvHookLook') {
    & {
        $inner = $function:prompt
        $shows = "$inner" -match '_RocenvStack'
        Microsoft.PowerShell.Management\Set-Item -LiteralPath 'function:global:prompt' -Value {
            $worked = $?
            $null = _RocenvHookLook
            if (-not $shows) {
                if (Microsoft.PowerShell.Management\Test-Path -LiteralPath 'variable:global:_RocenvStack') {
                    $labels = @(foreach ($each in $global:_RocenvStack) { $each.Label })
                    [array]::Reverse($labels)
                    Microsoft.PowerShell.Utility\Write-Host (-join $labels) -NoNewline
                }
            }
            if ($inner) {
                if (-not $worked) { Microsoft.PowerShell.Utility\Write-Error '' -ErrorAction Ignore }
                & $inner
            }
        }.GetNewClosure()
    }
}
