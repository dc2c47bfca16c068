# Sourced by the scripts beside it: what they need before rocenv itself can be installed.

say() { printf '\n== %s\n' "$*" >&2; }

fail() {
    printf 'error: %s\n' "$1" >&2
    shift
    for hint in "$@"; do printf 'hint: %s\n' "$hint" >&2; done
    exit 1
}

# Print the Python to work with: $PYTHON, else the first that is new enough.
find_python() {
    local candidate
    for candidate in ${PYTHON:+"$PYTHON"} python3 python3.14 python3.13 python3.12 python3.11 python3.10; do
        if "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 10))' 2>/dev/null; then
            printf '%s\n' "$candidate"
            return
        fi
        [ -z "${PYTHON:-}" ] || fail "\`$PYTHON\` is not a Python 3.10 or newer" 'unset PYTHON, or name another one'
    done
    fail 'there is no Python 3.10 or newer here' 'install one, or name it: `PYTHON=/path/to/python3 scripts/...`'
}

can_install_packages() { [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; }

# Install system packages. The lists are only fetched if apt does not know the packages without.
install_packages() {
    say "Installing $* with apt-get"
    local -a get=(env DEBIAN_FRONTEND=noninteractive apt-get -qq -o Dpkg::Use-Pty=0 -o DPkg::Lock::Timeout=300)
    "${get[@]}" install -y --no-install-recommends "$@" >/dev/null 2>&1 ||
        { "${get[@]}" update >&2 && "${get[@]}" install -y --no-install-recommends "$@" >/dev/null; }
}

packages=()
need() { # need PACKAGE CHECK...
    local package=$1
    shift
    "$@" >/dev/null 2>&1 || packages+=("$package")
}

# What builds and unpacks the stand-ins for Windows, and what runs them.
need_for_windows() {
    need wine command -v wine
    need wine64 test -x /usr/lib/wine/wine64
    need gcc-mingw-w64-x86-64-posix command -v x86_64-w64-mingw32-gcc
    need p7zip-full command -v 7z
    need wixl command -v wixl
    need msitools command -v msiextract
}

# Make the venv $1, unless a whole one is there. One that was moved here is made anew: its programs
# start the Python of the place where it was.
make_venv() {
    local venv=$1 python
    if [ -e "$venv/made-at" ] && [ "$(cat "$venv/made-at")" != "$venv" ]; then rm -rf "$venv"; fi
    if "$venv/bin/python" -c 'import sys; sys.exit(sys.version_info < (3, 10))' 2>/dev/null &&
        "$venv/bin/python" -m pip --version >/dev/null 2>&1; then
        return
    fi
    python=$(find_python)
    say "Making a venv of $("$python" -V) in $venv"
    rm -rf "$venv"
    if ! "$python" -c 'import ensurepip' 2>/dev/null && can_install_packages; then
        install_packages "$(venv_package "$python")" || true
    fi
    "$python" -m venv "$venv" >&2 || {
        rm -rf "$venv"
        fail "\`$python -m venv\` does not work here; its message stands above" \
            "on Debian and Ubuntu: sudo apt-get install $(venv_package "$python")" \
            'or name a Python that has venv: `PYTHON=/path/to/python3 scripts/...`'
    }
    printf '%s\n' "$venv" >"$venv/made-at"
}

venv_package() { "$1" -c 'import sys; print("python%d.%d-venv" % sys.version_info[:2])'; }

# Run pip in the venv $1, unless it did the same for the same pyproject.toml before.
pip_install() {
    local venv=$1 done_before
    shift
    done_before=$(printf '%s\n' "$*" && cat pyproject.toml)
    if [ "$(cat "$venv/installed" 2>/dev/null)" = "$done_before" ]; then return; fi
    "$venv/bin/python" -m pip install -qq --no-input --disable-pip-version-check "$@" >&2 ||
        fail 'pip could not install what is needed; its message stands above' \
            'is the package index reachable? `python3 -m pip config list` shows what is set'
    printf '%s\n' "$done_before" >"$venv/installed"
}
